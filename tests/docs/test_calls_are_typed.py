"""What documents show in blocks is typed at a hub with the example fleet, in a folder with the examples.

`test_calls` has seen to it that calls are whole. Here they do what they do: none ends with a traceback, or with words
refused. A page may name files and objects of the reader's own, which are not here; then the program has to say that.
How far the runs of the example are differs, so they may be over, or wait for nothing.
"""

import re
import shutil

import pytest

from tests.docs.calls import calls_to_type
from tests.docs.pages import DOCUMENTS, ROOT
from tests.docs.typing_in import at_home, started, type_in

LASTING = {"serve", "reconcile", "agent", "up", "dashboard", "edit", "wait"}
"""They go on until something happens."""
WAITS_FOR_THE_SILENT = ("delete", "-f", "examples/fleet")
"""A member that does not answer is waited for, for a minute; that the command says so is tested where it stands."""
ELSEWHERE = {"join", "leave", "unregister", "drain", "certs", "webhook-configuration"}
"""They change clusters that have been installed: tests in e2e type them."""
WAITS = {"-w", "--watch", "--wait", "-"}
ANOTHER_HUB = {"--server", "--kubeconfig", "--context"}
OF_THE_READER = re.compile(
    r"no such (file|folder)|there is no \w|NotFound: |is also in|has no (stage|Member|AfterStageWait)"
    r"|is over \(|waits for no approval|does not wait for|nothing to undo"
    r"|run \S+ is (Pending|Running|Stopped|Completed)"
)
REFUSED = {
    "apply -f examples/refused/two-mistakes.yaml",
    "lint examples/budgets --strict",
    "validate -f examples/refused",
}
"""They end with 1 to show how mistakes are told."""


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


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Run the hub, in a folder of its own that has the examples: what is typed writes files, too."""
    at_home(tmp_path, monkeypatch)
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "examples", folder / "examples")
    monkeypatch.chdir(folder)
    with started(["up", "-f", "examples/fleet"]):
        yield


def test_every_call_in_a_block_does_what_it_can(hub):
    ends = []
    for call in calls():
        printed, code = type_in(["harbormaster", *call])
        line = " ".join(call)
        if code == 1 and line not in REFUSED and not OF_THE_READER.search(printed):
            ends.append(f"{line}: {printed[-300:]}")
    assert not ends, "\n".join(ends)


def test_most_calls_are_typed():
    """Else a change of how pages are read would leave nothing to type."""
    assert len(calls()) > 80
