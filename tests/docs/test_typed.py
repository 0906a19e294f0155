"""What documents tell readers to type is typed at a hub with the example fleet, in a folder with the examples.

First the tutorial, in order: every command prints what the page shows. Then the calls that pages show in blocks.
`test_calls` has seen to it that those are whole. Here they do what they do: none ends with a traceback, or with words
refused. A page may name files and objects of the reader's own, which are not here; then the program has to report that.
How far the runs of the example are differs, so they may be over, or wait for nothing.
"""

import re
import shlex
import shutil
from contextlib import suppress

import pytest

from tests.docs.calls import calls_to_type
from tests.docs.pages import DOCS, DOCUMENTS, ROOT, read_page
from tests.docs.typing_in import at_home, started, type_in
from tests.waiting import block_until

READS = re.compile(r"harbormaster (get|tree|explain|history|run status \S+$)")
"""What may be asked again until the hub has got as far as the page says."""
CODES = {
    "harbormaster apply -f examples/refused/two-mistakes.yaml": 1,
    "harbormaster plan --hub --lost smartfish": 2,
    "harbormaster plan --hub --run storefront-1": 2,
    "harbormaster gate disruption spot --reason Drifted --count 2": 2,
}
"""How commands of the tutorial end that do not end with 0."""

LASTING = {"serve", "reconcile", "agent", "up", "dashboard", "edit", "wait"}
"""They go on until something happens."""
WAITS_FOR_THE_SILENT = ("delete", "-f", "examples/fleet")
"""A member that does not answer is waited for, for a minute; that the command says so is tested where it stands."""
ELSEWHERE = {"join", "leave", "unregister", "drain", "certs", "webhook-configuration"}
"""They change clusters that have been installed: tests in e2e type them."""
WAITS = {"-w", "--watch", "--wait", "-"}
ANOTHER_HUB = {"--server", "--kubeconfig", "--context"}
OF_THE_READER = re.compile(
    r"no such (file|folder)|there is no \w|\(NotFound\): |is also in|has no (stage|Member|AfterStageWait)"
    r"|is finished \(|is not waiting for an approval|does not wait for|nothing to undo"
    r"|run \S+ is (Pending|Running|Stopped|Completed)|without confirmation"
    r"|not confirmed: standard input is not a terminal"
)
"""What a reader changes, or answers at a terminal."""
REFUSED = {
    "apply -f examples/refused/two-mistakes.yaml",
    "lint . --ignore vendor --ignore charts/**/ci",
    "lint . --ignore vendor --report sarif=harbormaster.sarif",
    "lint examples/budgets --strict",
    "validate -f . -o sarif",
    "validate -f examples/refused",
}
"""They end with 1 to show how mistakes are told."""


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


def calls():
    """Return every call once that can be typed here; those that change something come last."""
    found = dict.fromkeys(call for path in DOCUMENTS for call in calls_to_type(path))
    typed = [
        call
        for call in found
        if call[0] not in LASTING | ELSEWHERE
        and call != WAITS_FOR_THE_SILENT
        and not (WAITS | ANOTHER_HUB) & {word.partition("=")[0] for word in call}
        if not any(word.isupper() and len(word) > 1 for word in call)
    ]
    return sorted(typed, key=lambda call: call[0] in {"delete", "run", "approve", "reject", "undo", "cordon", "apply"})


@pytest.fixture(scope="module")
def differing_steps(tmp_path_factory):
    """Yield what the tutorial shows otherwise than it is printed, while the hub runs at which it was typed.

    The folder has the examples alone: what is typed writes files, too.
    """
    with pytest.MonkeyPatch.context() as patch:
        at_home(tmp_path_factory.mktemp("home"), patch)
        folder = tmp_path_factory.mktemp("checkout")
        shutil.copytree(ROOT / "examples", folder / "examples")
        patch.chdir(folder)
        (start, shown), *rest = steps()
        with started(shlex.split(start)[1:]) as printed:
            as_shown = pattern_of(shown).search(laid_out_plainly(printed))
            differences = [difference for command, lines in rest if (difference := difference_of(command, lines))]
            yield differences if as_shown else [printed, *differences]


def difference_of(command, lines):
    """Type a command; return what it prints otherwise than *lines*, if it does, with its exit code."""
    difference = None

    def is_final():
        nonlocal difference
        printed, code = type_in(shlex.split(command))
        as_shown = pattern_of(lines).fullmatch(laid_out_plainly(printed)) and code == CODES.get(command, 0)
        difference = None if as_shown else (command, printed, code)
        return as_shown or not READS.match(command)

    with suppress(TimeoutError):
        block_until(is_final, pause_seconds=0.1)
    return difference


def test_every_command_of_the_tutorial_prints_what_it_shows(differing_steps):
    assert differing_steps == []


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


@pytest.mark.usefixtures("differing_steps")
def test_every_call_in_a_block_does_what_it_can():
    typed_before = {command for command, _ in steps()}
    ends = []
    for call in calls():
        line = " ".join(call)
        if f"harbormaster {line}" in typed_before:
            continue
        printed, code = type_in(["harbormaster", *call])
        failure = 2 if call[0] == "diff" else 1  # 1: something differs
        if code == failure and line not in REFUSED and not OF_THE_READER.search(printed):
            ends.append(f"{line}: {printed[-300:]}")
    assert not ends, "\n".join(ends)


def test_most_calls_are_typed():
    """Else a change of how pages are read would leave nothing to type."""
    assert len(calls()) > 80
