"""The program with standard streams that are closed, broken or full, and with an interrupt after its work."""

import os
import signal
import sys

import pytest

from tests.webhook.cli.terminal import SCRIPTS, run

WORDS = ["", "--help", "help run", "rules", "version --client", "lint -f -", "nope", "completion bash"]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize(
    "streams",
    [
        *("<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full"),
        *("| head -c 0", "2>&1 | head -c 0"),
    ],
)
def test_no_stream_causes_a_traceback(words, streams):
    done = run("bash", "-c", f"{SCRIPTS}/harbormaster {words} {streams}", stdin=None)
    assert "Traceback" not in done.stdout + done.stderr
    assert "Exception ignored" not in done.stdout + done.stderr


def test_a_full_disk_is_named():
    done = run("bash", "-c", f"{SCRIPTS}/harbormaster rules >/dev/full")
    assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


def test_a_file_does_not_get_the_descriptor_of_a_closed_stream(tmp_path):
    """Otherwise the table would be written to the first file that the program opens."""
    (tmp_path / "a.yaml").write_text("a: 1\n")
    done = run("bash", "-c", f"{SCRIPTS}/harbormaster lint -f a.yaml >&-", cwd=tmp_path)
    assert (tmp_path / "a.yaml").read_text() == "a: 1\n"
    assert "Traceback" not in done.stderr


INTERRUPTED_AFTERWARDS = """
import os, signal, sys
interrupted_at = sys.argv[1]
if interrupted_at == "exit":
    import atexit
    atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
from webhook.cli import main
if interrupted_at == "output":
    import click
    echo = click.echo
    def interrupting(*words, **options):
        os.kill(os.getpid(), signal.SIGINT)
        echo(*words, **options)
    click.echo = interrupting
main(sys.argv[2:])
"""


@pytest.mark.parametrize("moment", ["output", "exit"])
@pytest.mark.parametrize("words", [["get", "crp"], ["version", "--client"]], ids=" ".join)
def test_an_interrupt_after_the_work_ends_it_without_a_word(hub, moment, words):
    done = run(sys.executable, "-c", INTERRUPTED_AFTERWARDS, moment, *words, env=dict(os.environ))
    assert (done.returncode, "Traceback" in done.stderr) == (128 + signal.SIGINT, False), done.stderr
