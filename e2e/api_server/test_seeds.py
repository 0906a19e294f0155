"""Every file and command of the seeds, on ``harbormaster up`` and on a real API server: the same answers on both.

Seed 001 has no commands. Files are those of ``e2e/samples``. Times, ages, uids and versions are removed before answers
are compared. Answers to reads are compared once both controllers have caught up. Not compared are the words of
refusals, because the API server checks the schema before it calls our hooks, and warnings, because some depend on what
a cache has seen. ``e2e/admission/test_samples.py`` checks the reasons.
"""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import TypeVar

import pytest
import yaml

from e2e.controlplane.cluster import JsonObject
from e2e.controlplane.process import PATIENCE
from e2e.controlplane.service import HARBORMASTER
from e2e.fleet.bed import MEMBERS, Fleet, example_member
from e2e.fleet.changes import member_change
from e2e.fleet.objects import make_config_map, make_namespace
from e2e.fleet.waiting import wait_until

T = TypeVar("T")

SAMPLES = Path(__file__).parents[1] / "samples"
ANY_PORTS = ("--https-port", "0", "--http-port", "0")
CANARY = {"environment": "canary", "name": "7"}
UNDO = {"environment": "production", "name": None}
RUN = "example-staged-update-run"
PLACEMENT = "crp-staged-update-sample"
APPROVAL = (
    '{"status":{"conditions":[{"type":"Approved","status":"True","reason":"tested as OK","message":"lgtm",'
    '"lastTransitionTime":"2025-03-12T06:15:21Z","observedGeneration":1}]}}'
)
POOL = "karpenter.sh/nodepool"
VARIABLE = (
    (re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z"), "TIME"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r'(resourceVersion: |Resource Version: *)"?[0-9]+"?'), "VERSION"),
    (re.compile(r"(?<= )([0-9]+[smhd])+$", re.MULTILINE), "AGE"),
    (re.compile(r" +"), " "),
    (re.compile(r" $", re.MULTILINE), ""),
)


def comparable(text: str) -> str:
    for pattern, word in VARIABLE:
        text = pattern.sub(word, text)
    return text


@dataclass(frozen=True)
class Answer:
    """What kubectl printed, without what differs between any two hubs."""

    code: int
    printed: str
    missing: bool
    warnings: tuple[str, ...] = field(compare=False)

    @classmethod
    def of(cls, ran: CompletedProcess[str]) -> "Answer":
        lines = [] if ran.returncode else ran.stderr.splitlines()
        warnings = tuple(sorted(line for line in lines if line.startswith("Warning: ")))
        missing = ran.returncode != 0 and "Error from server (NotFound)" in ran.stderr
        return cls(ran.returncode, comparable(ran.stdout), missing, warnings)


Typed = Callable[..., CompletedProcess[str]]


class Hubs:
    """Both hubs.

    Args:
        hubs: How kubectl is run, by the name of the hub.
    """

    def __init__(self, hubs: Mapping[str, Typed]) -> None:
        self._hubs = hubs

    def type(self, *words: str | Path, given: object = None) -> Answer:
        """Type a command on both hubs, which answer the same; return the answer."""
        return self._same(lambda run: Answer.of(run(*words, given=given)), waits=words[0] == "get")

    def _same(self, answer: Callable[[Typed], T], *, waits: bool) -> T:
        """Return the answer that both hubs give, at once or in the end."""
        answers: dict[str, T] = {}

        def problem() -> str:
            answers.update({name: answer(run) for name, run in self._hubs.items()})
            up, real = answers.values()
            return "" if up == real else "\n\n".join(f"{name}:\n{given}" for name, given in answers.items())

        if waits:
            wait_until("both hubs answer the same", problem)
        else:
            assert not (difference := problem()), difference
        return answers["up"]

    def wait(self, text: str, *words: str) -> None:
        """Wait until a command prints a text on both hubs."""
        for name, run in self._hubs.items():

            def problem(run: Typed = run) -> str:
                ran = run(*words)
                return "" if text in ran.stdout else ran.stdout + ran.stderr

            wait_until(f"{text} on {name}", problem)

    def wait_left(self, left: str, *words: str) -> None:
        """Wait until a command prints exactly a text on both hubs."""
        for name, run in self._hubs.items():
            wait_until(f"{left!r} on {name}", lambda run=run: "" if run(*words).stdout == left else run(*words).stdout)

    def make_node(self, name: str, owner: str = "") -> None:
        """Create a node of the pool ``default``, owned by the pool of that name."""
        for run in self._hubs.values():
            metadata: JsonObject = {"name": name, "labels": {POOL: "default"}}
            if owner:
                uid = run("get", "nodepool", owner, "-o", "jsonpath={.metadata.uid}").stdout
                reference = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": owner, "uid": uid}
                metadata["ownerReferences"] = [{**reference, "blockOwnerDeletion": True}]
            made = run("create", "-f", "-", given={"apiVersion": "v1", "kind": "Node", "metadata": metadata})
            assert made.returncode == 0, made.stderr

    def describe(self, *words: str) -> str:
        """Return a description without its Events, which is the same on both hubs."""
        return self._same(lambda run: comparable(run("describe", *words).stdout).partition("\nEvents:")[0], waits=True)

    def reasons(self, *words: str) -> set[tuple[str, str]]:
        """Return the types and reasons in a table of Events, which are the same on both hubs."""

        def listed(run: Typed) -> set[tuple[str, str]]:
            return {(line.split()[1], line.split()[2]) for line in run(*words).stdout.splitlines()[1:]}

        return self._same(listed, waits=True)


@pytest.fixture(scope="module")
def up(programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typed]:
    """The embedded hub, with the members of the real fleet."""
    folder = tmp_path_factory.mktemp("up")
    members = [example_member(name) for name in MEMBERS]
    for member in members:
        if member["metadata"]["name"] == "smartfish":
            member["metadata"]["labels"] |= CANARY
    (folder / "fleet.yaml").write_text(yaml.safe_dump_all(members), encoding="utf-8")
    command = [HARBORMASTER, "up", "--data", folder / "data", *ANY_PORTS, "-f", folder / "fleet.yaml"]
    ours = {name: text for name, text in os.environ.items() if not name.startswith(("HARBORMASTER_", "KUBE"))}
    environment = {**ours, "HARBORMASTER_REMOVAL_CONFIRMATION": "Off"}  # as the loop of the real fleet
    kubectl = [programs["kubectl"], f"--kubeconfig={folder / 'data' / 'kubeconfig'}", f"--cache-dir={folder / 'cache'}"]

    def run(*words: str | Path, given: object = None) -> CompletedProcess[str]:
        text = None if given is None else yaml.safe_dump(given)
        return subprocess.run(
            [*kubectl, *words], input=text, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Press Ctrl-C"):
                break
        yield run
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)


@pytest.fixture(scope="module")
def hubs(up: Typed, fleet: Fleet, start_service) -> Iterator[Hubs]:
    """Both hubs, with a placed namespace."""
    start_service(fleet.hub).register()

    def real(*words: str | Path, given: object = None) -> CompletedProcess[str]:
        return fleet.hub.kubectl(*words, given=None if given is None else yaml.safe_dump(given), check=False)

    found = Hubs({"up": up, "the API server": real})
    with member_change(fleet, "smartfish", {"metadata": {"labels": CANARY}}, {"metadata": {"labels": UNDO}}):
        for name, settings in (("test-namespace", "settings"), ("test", "test-1")):
            for document in (make_namespace(name), make_config_map(settings, name, color="green")):
                assert found.type("apply", "-f", "-", given=document).code == 0
        yield found
        for name in ("test-namespace", "test"):
            found.type("delete", "namespace", name)


def sample(name: str, **changes: object) -> JsonObject:
    """Return a sample with other values in its spec. None: the field is removed."""
    document: JsonObject = yaml.safe_load((SAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))
    spec = {**document["spec"], **changes}
    return {**document, "spec": {field: value for field, value in spec.items() if value is not None}}


def test_seed_000_and_the_files_of_the_others(hubs):
    """All files as they are, as dry runs, because many have the same name; the placement of seed 000 is deleted."""
    for path in sorted(SAMPLES.glob("*.yaml")):
        hubs.type("apply", "--dry-run=server", "-f", path)
    assert hubs.type("apply", "-f", SAMPLES / "pick-all-by-property-old-name.yaml").code == 0
    deleted = hubs.type("delete", "clusterresourceplacement", "crp")
    assert deleted.printed == 'clusterresourceplacement.placement.kubernetes-fleet.io "crp" deleted\n'


def test_seed_002_deletes_nodes_and_their_pool(hubs):
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"},
                    "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
                }
            }
        },
    }
    for policy, left in (("background", ""), ("foreground", ""), ("orphan", "node/node-1\n")):
        assert hubs.type("apply", "-f", "-", given=pool).code == 0
        hubs.make_node("node-1", owner="default")
        assert hubs.type("delete", "nodepool", "default", f"--cascade={policy}").code == 0
        hubs.wait_left(left, "get", "nodes", "-l", POOL, "-o", "name")
    assert hubs.type("delete", "node", "node-1").code == 0
    for words in (("nodes", "-l", POOL), ("nodes", "-l", f"{POOL}=default")):
        hubs.make_node("node-1")
        hubs.make_node("node-2")
        assert hubs.type("delete", *words).code == 0
        assert hubs.type("get", "nodes", "-l", POOL, "-o", "name").printed == ""


def test_seed_003_describes_a_placement(hubs):
    placement = sample("external-placement", strategy=None, policy={"placementType": "PickN", "numberOfClusters": 2})
    placement["metadata"]["name"] = "crp-1"
    placement["spec"]["resourceSelectors"][0]["name"] = "test"
    assert hubs.type("apply", "-f", "-", given=placement).code == 0
    complete = "jsonpath={.status.conditions[?(@.type=='ClusterResourcePlacementAvailable')].status}"
    hubs.wait("True", "get", "crp", "crp-1", "-o", complete)
    described = hubs.describe("crp", "crp-1")
    assert "Reason: SchedulingPolicyFulfilled" in described
    events = ("get", "events", "--field-selector=involvedObject.name=crp-1,type=Normal")
    hubs.wait("PlacementRolloutCompleted", *events)
    assert ("Normal", "PlacementRolloutCompleted") in hubs.reasons(*events)
    assert hubs.type("delete", "crp", "crp-1").code == 0


def test_seed_004_approves_a_stage(hubs):
    """Values that differ from the seed are those of docs/moving-from-kubefleet.md, and shorter waits."""
    assert hubs.type("apply", "-f", SAMPLES / "external-placement.yaml").code == 0
    strategy = sample("staged-strategy")
    strategy["spec"]["stages"][0]["afterStageTasks"][0]["waitTime"] = "1s"
    assert hubs.type("apply", "-f", "-", given=strategy).code == 0
    hubs.wait("ExternalController", "get", "crp", PLACEMENT, "-o", "jsonpath={.status.conditions[*].reason}")
    assert any("state" in warning for warning in hubs.type("apply", "-f", SAMPLES / "staged-run.yaml").warnings)
    hubs.wait("False", "get", "csur", RUN, "-o", "jsonpath={.status.conditions[?(@.type=='Initialized')].status}")
    assert hubs.type("delete", "clusterstagedupdaterun", RUN).code == 0
    run = sample("staged-run", resourceSnapshotIndex=None, state="Run")
    assert hubs.type("apply", "-f", "-", given=run).code == 0
    progress = "jsonpath={.status.conditions[?(@.type=='Progressing')].message}"
    hubs.wait("after stage canary", "get", "csur", RUN, "-o", progress)
    table = hubs.type("get", "clusterStagedUpdateRun", RUN).printed.splitlines()
    assert table[1].split()[:4] == [RUN, PLACEMENT, "0", "0"]
    hubs.type("get", "clusterStagedUpdateRun", RUN, "-o", "yaml")
    hubs.wait(f"{RUN}-after-canary", "get", "clusterapprovalrequest")
    assert hubs.type("get", "clusterapprovalrequest").printed.splitlines()[1] == f"{RUN}-after-canary {RUN} canary AGE"

    words = ("patch", "clusterapprovalrequests", "--type=merge", "-p", APPROVAL, "--subresource=status")
    assert hubs.type(*words, f"{RUN}-canary").missing
    approved = hubs.type(*words, f"{RUN}-after-canary")
    assert approved.printed == f"clusterapprovalrequest.placement.kubernetes-fleet.io/{RUN}-after-canary patched\n"
    accepted = "jsonpath={.status.conditions[?(@.type=='ApprovalAccepted')].status}"
    hubs.wait("True", "get", "clusterapprovalrequest", f"{RUN}-after-canary", "-o", accepted)
    table = hubs.type("get", "clusterapprovalrequest").printed.splitlines()
    assert table[1] == f"{RUN}-after-canary {RUN} canary True True AGE"
    hubs.wait("True", "get", "csur", RUN, "-o", "jsonpath={.status.conditions[?(@.type=='Succeeded')].status}")
    for word in (f"clusterstagedupdaterun/{RUN}", f"crp/{PLACEMENT}", "csus/example-staged-strategy"):
        assert hubs.type("delete", word).code == 0


def test_both_hubs_prefer_the_same_versions(hubs):
    for group in ("placement.kubernetes-fleet.io", "cluster.kubernetes-fleet.io"):
        listed = hubs.type("api-resources", f"--api-group={group}", "--no-headers", "--sort-by=name").printed
        assert f" {group}/v1 " in listed
