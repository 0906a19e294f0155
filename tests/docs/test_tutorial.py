"""The tutorial: every command in it is typed, in order, and prints what the page shows."""

import re
import shlex
import time

import pytest

from tests.docs.pages import DOCS, read_page
from tests.docs.typing_in import DEADLINE_SECONDS, at_home, started, type_in

READS = re.compile(r"harbormaster (get|tree|explain|history|run status \S+$)")
"""What may be asked again until the hub has got as far as the page says."""
CODES = {
    "harbormaster apply -f examples/refused/two-mistakes.yaml": 1,
    "harbormaster plan --hub --lost smartfish": 2,
    "harbormaster plan --hub --run storefront-1": 2,
    "harbormaster gate disruption spot --reason Drifted --count 2": 2,
}
"""How commands end that do not end with 0."""


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
def hub(tmp_path, monkeypatch):
    """Start what the first step of the tutorial starts; yield what it has printed."""
    at_home(tmp_path, monkeypatch)
    with started(shlex.split(steps()[0][0])[1:]) as printed:
        yield printed


def test_every_command_of_the_tutorial_prints_what_it_shows(hub):
    assert pattern_of(steps()[0][1]).search(laid_out_plainly(hub)), hub
    for command, lines in steps()[1:]:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            printed, code = type_in(shlex.split(command))
            if pattern_of(lines).fullmatch(laid_out_plainly(printed)):
                break
            assert READS.match(command), (command, printed)
            assert time.monotonic() < deadline, (command, printed)
            time.sleep(0.2)
        assert code == CODES.get(command, 0), (command, printed)


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
