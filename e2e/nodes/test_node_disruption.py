"""Nodes of pools, disrupted by the loop on a real API server; kwok plays the nodes, a thread their provisioner.

The loop has the rights that `harbormaster rbac` prints for its mode, and no others. At no moment may more nodes of a
pool be going than its budget says: that is read from the watch of all nodes, after the fact.
"""

import asyncio
import contextlib
import json
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.printed import printed_with
from e2e.controlplane.process import Program, kill
from e2e.fleet.objects import Objects
from e2e.fleet.processes import LEASE, SYSTEM, Reconciler
from e2e.fleet.waiting import wait_until
from e2e.fleet.writes import is_of_history
from e2e.karpenter.hurried import HURRIED
from e2e.karpenter.provisioner import Provisioner, Workers, drifted
from e2e.nodes.karpenter_hub import karpenter_definitions, running_kwok
from scorer.api.kinds import KINDS, NODE, NODE_CLAIM, NODE_POOL, POD
from scorer.api.node_pool import NODE_POOL_LABEL
from scorer.node_disruption.execution.command_annotation import COMMAND, is_tainted, read_order
from tests.thoroughness import SOAK
from webhook.controllers.nodes.observer import UNOBSERVED_NODES
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.paths import path_of
from webhook.processes.member_nodes import MemberNodes
from webhook.runtime.clock import utc_now
from webhook.settings.gate import GateSettings, NodeDisruptionMode, NodeDisruptionOptions

USER, AGENT = "node-loop", "node-agent"
NODES, BUDGET, POD_CONCURRENCY = (20, 8, 3) if SOAK else (4, 2, 1)

WRITES = [
    (verb, {"group": group, "resource": resource, **more})
    for group, resource, verbs, more in (
        ("", "nodes", ("create", "update", "patch", "delete"), {}),
        ("", "pods", ("create", "update", "patch", "delete"), {}),
        ("", "pods", ("create",), {"subresource": "eviction"}),
        ("karpenter.sh", "nodeclaims", ("create", "update", "patch", "delete"), {}),
        ("karpenter.sh", "nodeclaims", ("update", "patch"), {"subresource": "status"}),
        ("karpenter.sh", "nodepools", ("create", "update", "patch", "delete"), {}),
    )
    for verb in verbs
]
"""What an account that advises may not do."""


@pytest.fixture(scope="module")
def cluster(own_hub: Cluster) -> Iterator[Cluster]:
    """A hub with Karpenter's definitions, and users for the loop and the agent whose every write is audited."""
    with karpenter_definitions(own_hub):
        give_way(own_hub)
        yield own_hub


@pytest.fixture(scope="module")
def kwok(cluster: Cluster, programs: Mapping[str, Path]) -> Iterator[Program]:
    """Plays all nodes and their pods."""
    with running_kwok(cluster, programs["kwok"]) as found:
        yield found


@pytest.fixture(scope="module")
def provisioner(cluster: Cluster) -> Iterator[Provisioner]:
    """Owns all claims."""
    found = Provisioner(cluster)
    found.start()
    yield found
    found.stop()


@pytest.fixture
def workers(cluster: Cluster, kwok: Program, provisioner: Provisioner) -> Iterator[Workers]:
    """Where a test puts its pools; nothing of them is left for the next."""
    assert kwok.running
    assert provisioner.is_alive()
    found = Workers(cluster)
    yield found
    for kind in (NODE_CLAIM, NODE_POOL, KINDS["policy", "PodDisruptionBudget"]):
        for each in found.objects.all(kind):
            found.objects.delete(kind, each["metadata"]["name"], each["metadata"].get("namespace", ""))
    wait_until("the nodes are gone", lambda: ", ".join(each["metadata"]["name"] for each in found.objects.all(NODE)))


@contextlib.contextmanager
def loop_of(cluster: Cluster, folder: Path, mode: str) -> Iterator[Reconciler]:
    """A loop in a mode, with the rights for it in place of those for another."""
    environment = {"HARBORMASTER_LOOP_USER": USER, "HARBORMASTER_NODE_DISRUPTION_MODE": mode}
    rights = printed_with(environment, "rbac", "reconcile", "--user", USER, "-n", SYSTEM)
    cluster.kubectl("apply", "-f", "-", given=rights)
    settings = {"node_disruption_mode": mode}
    loop = Reconciler(cluster.kubeconfigs[USER], folder, f"nodes-{mode.lower()}", settings, HURRIED)
    try:
        loop.start()
        yield loop
    finally:
        kill(loop.program)
        give_way(cluster)


@pytest.fixture
def advising(cluster: Cluster, folder: Path) -> Iterator[Reconciler]:
    """A loop that advises."""
    with loop_of(cluster, folder, "Advise") as found:
        yield found


@pytest.fixture
def acting(cluster: Cluster, folder: Path) -> Iterator[Reconciler]:
    """A loop that acts; a second one with the rights to advise would take its rights away."""
    with loop_of(cluster, folder, "Act") as found:
        yield found


def give_way(cluster: Cluster) -> None:
    """Free the Lease of a loop that was killed, so that the next one need not wait for its end."""
    Objects(cluster).delete(KINDS["coordination.k8s.io", "Lease"], LEASE, SYSTEM)


@contextlib.contextmanager
def watched(cluster: Cluster, folder: Path) -> Iterator[Path]:
    """Write the watch of all nodes to a file meanwhile."""
    path = folder / "nodes.watch"
    words = [cluster.kubectl_program, f"--kubeconfig={cluster.kubeconfig}", "get", "nodes"]
    with path.open("wb") as output:
        watching = subprocess.Popen(
            [*words, "--watch", "--output-watch-events", "-o", "json"], stdout=output, stderr=subprocess.DEVNULL
        )
        try:
            yield path
        finally:
            watching.terminate()
            watching.wait()


def most_going(path: Path, pool: str) -> int:
    """How many nodes of a pool were tainted or being deleted at once, at the most, in a watch."""
    text, place, most = path.read_text(encoding="utf-8"), 0, 0
    going: set[str] = set()
    decoder = json.JSONDecoder()
    while place < len(text):
        try:
            event, place = decoder.raw_decode(text, place)
        except ValueError:  # the last one, cut off
            break
        while place < len(text) and text[place].isspace():
            place += 1
        node = event["object"]
        if node["metadata"].get("labels", {}).get(NODE_POOL_LABEL) != pool:
            continue
        name = node["metadata"]["name"]
        is_going = is_tainted(node) or "deletionTimestamp" in node["metadata"]
        (going.add if is_going and event["type"] != "DELETED" else going.discard)(name)
        most = max(most, len(going))
    return most


def resources(cluster: Cluster, mark: int) -> Counter[str]:
    """What the loop has written to since a mark, by resource with subresource."""
    found: Counter[str] = Counter()
    for entry in cluster.audit(mark):
        if entry["user"]["username"] == USER and entry["responseStatus"].get("code", 200) < 300:
            place = entry["objectRef"]
            if not is_of_history(place):
                found["/".join(filter(None, (place["resource"], place.get("subresource"))))] += 1
    return found


def deletions(cluster: Cluster, mark: int, resource: str) -> Counter[str]:
    """How often the loop has deleted each object of a resource since a mark."""
    return Counter(
        entry["objectRef"]["name"]
        for entry in cluster.audit(mark)
        if (entry["user"]["username"], entry["verb"], entry["objectRef"]["resource"]) == (USER, "delete", resource)
        and entry["responseStatus"]["code"] == 200
        and not entry["objectRef"].get("subresource")
    )


def test_advise_reports_and_touches_nothing(workers: Workers, cluster: Cluster, advising: Reconciler) -> None:
    mark = cluster.audit_mark()
    workers.add_pool("calm", "100%", after="0s")
    workers.add_node("calm", "calm-0")
    workers.add_node("calm", "calm-1", drifted())
    workers.add_pod("calm-web", "calm-1")
    wait_until("it is said what would go", lambda: "" if advised(workers, "calm") else str(workers.condition("calm")))
    condition = workers.condition("calm")
    assert (condition["status"], condition["reason"]) == ("True", "Advised")
    assert "Empty: delete calm-0" in condition["message"]
    assert 'harbormaster_disruption_eligible{nodepool="calm",reason="Empty"} 1.0' in advising.metrics()
    wait_until("Events tell of it", lambda: "" if told(cluster, "calm-0") else "none")
    written = resources(cluster, mark)
    # The first loop of a hub writes the key that signs Works to a Secret, perhaps after it is ready.
    assert set(written) <= {"nodepools/status", "events", "leases", "secrets"}, written
    assert written["nodepools/status"] <= 4
    assert not any(is_tainted(each) or COMMAND in each["metadata"].get("annotations", {}) for each in nodes(workers))
    for verb, place in WRITES:
        review = {"spec": {"resourceAttributes": {"verb": verb, **place}}}
        answer, _ = cluster.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, user=USER)
        assert not answer["status"]["allowed"], (verb, place)


async def test_an_agent_does_the_same_in_its_member_with_its_own_rights(workers: Workers, cluster: Cluster) -> None:
    workers.add_pool("inner", "100%")
    workers.add_node("inner", "inner-0", expireAfter="1s", terminationGracePeriod="2s")
    workers.add_pod("inner-web", "inner-0")
    environment = {"HARBORMASTER_NODE_DISRUPTION_MODE": "Act"}
    cluster.kubectl("apply", "-f", "-", given=printed_with(environment, "rbac", "agent", "--user", AGENT, "-n", SYSTEM))

    async def home() -> str:
        return SYSTEM

    async def is_ours() -> bool:
        return True

    options = NodeDisruptionOptions(NodeDisruptionMode.ACT, gate=GateSettings(namespace=SYSTEM))
    async with await ApiServer.connect(cluster.kubeconfigs[AGENT]) as server:
        member = MemberNodes(server, home, options, UNOBSERVED_NODES, utc_now, is_ours)
        running = asyncio.create_task(member.run())
        try:
            gone = partial(wait_until, "the old node is gone", lambda: ", ".join(workers.names("inner")))
            await asyncio.to_thread(gone)
        finally:
            running.cancel()
            await asyncio.wait([running])


def advised(workers: Workers, pool: str) -> bool:
    return workers.condition(pool).get("reason") == "Advised"


def nodes(workers: Workers) -> list[JsonObject]:
    return workers.objects.all(NODE)


def told(cluster: Cluster, node: str) -> bool:
    found, _ = cluster.request("GET", "/apis/events.k8s.io/v1/events")
    return any(
        each["regarding"]["name"] == node and each["reason"] == "ConsolidationCandidate" for each in found["items"]
    )


@pytest.mark.soak
def test_act_replaces_nodes_within_the_budget_whenever_it_is_killed(
    workers: Workers, cluster: Cluster, folder: Path, request: pytest.FixtureRequest
) -> None:
    old = {f"old-{number}" for number in range(NODES)}
    mark = cluster.audit_mark()
    workers.add_pool("busy", str(BUDGET))
    for name in sorted(old):
        workers.add_node("busy", name, drifted())
        workers.add_pod(f"web-{name}", name, labels={"app": "web"})
    workers.guard("web", {"app": "web"}, POD_CONCURRENCY)
    with watched(cluster, folder) as path:
        acting: Reconciler = request.getfixturevalue("acting")
        for step in (is_marked, is_launching, is_draining, is_deleted) if SOAK else (is_launching, is_draining):
            wait_until(f"{step.__name__} of a node", lambda step=step: "" if step(workers) else "none yet")  # type: ignore[misc]
            acting.program.stop(number=signal.SIGKILL)
            give_way(cluster)
            acting.start()
        wait_until("all are replaced", lambda: ", ".join(sorted(old & workers.names("busy"))), seconds=240)
        wait_until("no claim goes any more", lambda: going_claims(workers))
    assert 2 <= most_going(path, "busy") <= BUDGET
    found = nodes(workers)
    assert not any(is_tainted(each) or COMMAND in each["metadata"].get("annotations", {}) for each in found)
    deleted = deletions(cluster, mark, "nodeclaims")
    assert old <= set(deleted)
    assert {name: times for name, times in deleted.items() if times > 1} == {}
    assert sum(deletions(cluster, mark, "pods").values()) == 0
    assert len(found) == NODES


def is_marked(workers: Workers) -> bool:
    return any(read_order(each) for each in nodes(workers))


def is_launching(workers: Workers) -> bool:
    return any(COMMAND in each["metadata"].get("annotations", {}) for each in workers.objects.all(NODE_CLAIM))


def is_draining(workers: Workers) -> bool:
    orders = (read_order(each) for each in nodes(workers))
    return any(order.draining for order in orders if order is not None)


def is_deleted(workers: Workers) -> bool:
    return any("deletionTimestamp" in each["metadata"] for each in workers.objects.all(NODE_CLAIM))


def going_claims(workers: Workers) -> str:
    going = (each for each in workers.objects.all(NODE_CLAIM) if "deletionTimestamp" in each["metadata"])
    return ", ".join(each["metadata"]["name"] for each in going)


POD_GRACE = 25
"""Seconds of grace of pods on a node with 50 s: a slow machine has 25 s to start the drain, and as long to force it."""


def test_a_grace_period_ends_what_do_not_disrupt_and_budgets_hold_up(
    workers: Workers, cluster: Cluster, acting: Reconciler
) -> None:
    assert acting.program.running
    mark = cluster.audit_mark()
    keep = {"karpenter.sh/do-not-disrupt": "true"}
    workers.add_pool("aged", "100%")
    workers.guard("guarded", {"app": "guarded"}, 0)
    workers.add_node("aged", "bounded", expireAfter="1s", terminationGracePeriod="50s")
    workers.add_node("aged", "unbounded", expireAfter="1s")
    workers.add_pod("kept", "bounded", cpu="1", annotations=keep, grace=POD_GRACE)
    workers.add_pod("guarded", "bounded", cpu="1", labels={"app": "guarded"}, grace=POD_GRACE)
    workers.add_pod("free", "bounded", cpu="1")
    workers.add_pod("waiting", "unbounded", cpu="1", annotations=keep)
    wait_until("the drain has an end", lambda: "" if ends_at(workers) else "not announced")
    wait_until("what nothing holds is evicted", lambda: "" if not has_pod(workers, "free") else "it runs")
    assert has_pod(workers, "kept")
    assert has_pod(workers, "guarded")
    ends = ends_at(workers)
    wait_until("the node is gone", lambda: "" if "bounded" not in workers.names("aged") else "it is there")
    forced = [
        each
        for each in cluster.audit(mark)
        if (each["user"]["username"], each["verb"], each["objectRef"]["resource"]) == (USER, "delete", "pods")
    ]
    assert {each["objectRef"]["name"] for each in forced} == {"kept", "guarded"}
    first = min(datetime.fromisoformat(each["requestReceivedTimestamp"]) for each in forced)
    assert ends is not None
    assert ends - timedelta(seconds=POD_GRACE) <= first < ends
    assert has_pod(workers, "waiting")
    assert not is_deleted_node(workers, "unbounded")
    workers.objects.patch(
        POD, "waiting", {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": None}}}, "default"
    )
    wait_until("the other is gone, too", lambda: ", ".join(sorted(workers.names("aged"))))


def ends_at(workers: Workers) -> datetime | None:
    annotations = workers.objects.get(NODE_CLAIM, "bounded")["metadata"].get("annotations", {})
    text = annotations.get("karpenter.sh/nodeclaim-termination-timestamp")
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)


def has_pod(workers: Workers, name: str) -> bool:
    found = workers.objects.find(POD, name, "default")
    return found is not None and "deletionTimestamp" not in found["metadata"]


def is_deleted_node(workers: Workers, name: str) -> bool:
    return "deletionTimestamp" in workers.objects.get(NODE_CLAIM, name)["metadata"]


def test_a_node_that_somebody_deletes_is_drained(workers: Workers, cluster: Cluster, acting: Reconciler) -> None:
    """The account may write claims of nodes that go, and no others: policies see to that."""
    assert acting.program.running
    workers.add_pool("taken", "0")
    workers.guard("taken", {"app": "taken"}, 0)
    workers.add_node("taken", "taken-0", terminationGracePeriod="2s")
    workers.add_pod("taken-web", "taken-0", labels={"app": "taken"})
    mark = cluster.audit_mark()
    workers.objects.delete(NODE, "taken-0")
    wait_until("the node is gone", lambda: ", ".join(sorted(workers.names("taken"))))
    assert deletions(cluster, mark, "nodeclaims") == {"taken-0": 1}
    assert deletions(cluster, mark, "pods") == {"taken-web": 1}
    assert refusals(cluster, mark) == []


def refusals(cluster: Cluster, mark: int) -> list[str]:
    """What the loop was not allowed to do since a mark."""
    return [
        entry["responseStatus"].get("message", "")
        for entry in cluster.audit(mark)
        if entry["user"]["username"] == USER and entry["responseStatus"].get("code") == 403
    ]


def test_the_account_of_the_loop_writes_no_nodes_but_those_that_go(
    workers: Workers, cluster: Cluster, acting: Reconciler
) -> None:
    assert acting.program.running
    workers.add_pool("others", "0")
    workers.add_node("others", "others-0")
    loop = Objects(cluster, USER)
    node, claim = loop.get(NODE, "others-0"), loop.get(NODE_CLAIM, "others-0")
    made = {**claim, "metadata": {"name": "others-1", "labels": claim["metadata"]["labels"]}}
    for method, path, body in (
        ("PUT", path_of(NODE, name="others-0"), {**node, "spec": {**node["spec"], "unschedulable": True}}),
        ("DELETE", path_of(NODE, name="others-0"), None),
        ("DELETE", path_of(NODE_CLAIM, name="others-0"), None),
        ("POST", path_of(NODE_CLAIM), made),
    ):
        with pytest.raises(ApiError) as refused:
            cluster.request(method, path, body, user=USER)
        assert refused.value.code == 403
    assert workers.names("others") == {"others-0"}


def test_beside_karpenter_it_only_advises(workers: Workers, cluster: Cluster, acting: Reconciler) -> None:
    """Also in the seconds for which it believes that nobody leads: it looks again before it accepts a command."""
    assert acting.program.running
    workers.hold_lease(seconds=3600)
    try:
        mark = cluster.audit_mark()
        workers.add_pool("shared", "100%")
        workers.add_node("shared", "shared-0", expireAfter="1s")
        wait_until(
            "it says what it would do",
            lambda: "" if "Expired" in refused(workers) else str(workers.condition("shared")),
        )
        assert "karpenter-1 holds the Lease kube-system/karpenter-leader-election" in refused(workers)
        assert set(resources(cluster, mark)) <= {"nodepools/status", "events", "leases"}
    finally:
        workers.hold_lease(seconds=1)


def refused(workers: Workers) -> str:
    """Why it does not act, and what it would do; empty: it acts."""
    condition = workers.condition("shared")
    return str(condition["message"]) if condition.get("reason") == "NotActing" else ""
