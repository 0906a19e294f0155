"""The tutorial: every command in it is typed, in order, and prints what the page shows."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.docs.pages import DOCS, ROOT, read_page

DEADLINE_SECONDS = 240
READS = re.compile(r"harbormaster (get|tree|explain|history|run status \S+$)")
"""What may be asked again until the hub has got as far as the page says."""


def steps():
    """Return the commands of the tutorial in order, each with the lines that it shows."""
    found = []
    for line in "".join(read_page(DOCS / "tutorial.md").blocks).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def pattern_of(lines):
    """Return the pattern of what may be printed: three dots are any text, on a line of their own any lines."""
    parts = []
    for line in map(plain, lines):
        texts = (re.escape(part) for part in line.split("…"))
        parts.append(r"(?:.*\n)*?" if line == "…" else ".*?".join(texts) + r"\n")
    return re.compile("".join(parts))


def plain(line):
    """Return a line without what columns are filled up with."""
    return re.sub(r" *… *", "…", " ".join(line.split()))


def laid_out_plainly(text):
    return "".join(f"{plain(line)}\n" for line in text.splitlines())


@pytest.fixture
def shell(tmp_path):
    """Return a function that starts a line in a shell that has `harbormaster` and a state folder of its own."""
    program = tmp_path / "bin" / "harbormaster"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m webhook.cli "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("HARBORMASTER_", "KUBE"))}
    env |= {"PATH": f"{program.parent}:{env['PATH']}", "XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    env["PYTHONPATH"] = str(ROOT)

    def start(line):
        return subprocess.Popen(
            ["sh", "-c", line], cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    return start


@pytest.fixture
def hub(shell):
    """Start what the first step of the tutorial starts, on free ports; yield what it has printed."""
    process = shell(f"exec {steps()[0][0]} --http-port 0 --https-port 0")
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("Up until"):
                break
        yield "".join(lines)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE_SECONDS)


def test_every_command_of_the_tutorial_prints_what_it_shows(shell, hub):
    assert pattern_of(steps()[0][1]).search(laid_out_plainly(hub)), hub
    for command, lines in steps()[1:]:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            printed, _ = shell(command).communicate(timeout=DEADLINE_SECONDS)
            if pattern_of(lines).fullmatch(laid_out_plainly(printed)):
                break
            assert READS.match(command), (command, printed)
            assert time.monotonic() < deadline, (command, printed)


@pytest.mark.parametrize(
    ("lines", "printed", "fits"),
    [
        pytest.param(["a  b"], "a    b\n", True, id="columns-may-be-wider"),
        pytest.param(["a …"], "a 3m old\n", True, id="rest-of-a-line"),
        pytest.param(["a", "…", "d"], "a\nb\nc\nd\n", True, id="lines-between"),
        pytest.param(["a", "d"], "a\nb\nd\n", False, id="a-line-more"),
        pytest.param(["a", "b"], "a\n", False, id="a-line-less"),
        pytest.param(["wants 3"], "wants 4\n", False, id="other-number"),
    ],
)
def test_what_is_printed_is_compared(lines, printed, fits):
    assert bool(pattern_of(lines).fullmatch(laid_out_plainly(printed))) is fits
