"""The manual pages: up to date, and without anything that a formatter would warn of."""

import subprocess

import pytest

from tests.docs.man import FOLDER, manual_pages
from webhook.cli.root import SECTIONS

PAGES = dict(manual_pages())


def test_manual_pages_are_up_to_date():
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()} == PAGES, "run `make docs`"


def test_every_command_has_one():
    names = {f"harbormaster-{entry.name}.1" for entries in SECTIONS.values() for entry in entries}
    assert names | {"harbormaster.1", "harbormaster-run-start.1"} <= PAGES.keys()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        pytest.param("harbormaster.1", "\\fBharbormaster\\-up(1)\\fR", id="commands-of-the-program"),
        pytest.param(
            "harbormaster-up.1",
            "harbormaster\\-up \\- Run a hub with simulated members in one process",
            id="name",
        ),
        pytest.param("harbormaster-up.1", "\\fB\\-\\-once\\fR", id="option"),
        pytest.param(
            "harbormaster-up.1",
            "harbormaster up \\-f examples/fleet \\-\\-once             for scripts: exits after the table",
            id="example",
        ),
        pytest.param("harbormaster-up.1", ".SH EXIT STATUS", id="exit-status"),
        pytest.param("harbormaster-run.1", "\\fBharbormaster\\-run\\-start(1)\\fR", id="commands-of-a-group"),
        pytest.param("harbormaster-run-start.1", ".BR harbormaster\\-run (1)", id="see-also"),
    ],
)
def test_what_pages_say(name, line):
    assert line in PAGES[name].splitlines()


def test_a_formatter_has_no_warnings():
    """All pages at once: `man --warnings` starts five programs for each."""
    command = ["groff", "-K", "utf8", "-t", "-man", "-w", "mac", "-r", "LL=100n", "-T", "utf8"]
    done = subprocess.run([*command, *sorted(FOLDER.iterdir())], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "NAME" in done.stdout
