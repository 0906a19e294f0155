"""Two replicas of the loop on a real API server: one leads, whatever happens to it, and never two write."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.process import PATIENCE, kill
from e2e.controlplane.service import Service
from e2e.fleet.objects import MERGE, Objects, make_namespace
from e2e.fleet.processes import LEASE, SYSTEM, Reconciler
from e2e.fleet.writes import assert_fenced, is_of_history
from e2e.placements import PLACEMENTS, placement
from tests.thoroughness import SOAK
from webhook.kube.leader_election.lease import LONGEST_LEASE

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/" + LEASE
SNAPSHOTS = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourcesnapshots"
LOOPS = ("loop-a", "loop-b")


@pytest.fixture(scope="module")
def hub(own_hub: Cluster) -> Cluster:
    """A hub where each replica is a user of its own, whose writes are all audited."""
    Objects(own_hub).apply([make_namespace(SYSTEM)])
    free_lease(own_hub)
    return own_hub


@pytest.fixture
def start_loop(hub: Cluster, folder: Path) -> Iterator[Callable[..., Reconciler]]:
    """Starts replicas; all of them end with the test, and the Lease is free."""
    running: list[Reconciler] = []

    def start(user: str) -> Reconciler:
        log_folder = folder / f"leaders-{time.monotonic_ns()}"
        running.append(Reconciler(hub.kubeconfigs[user], log_folder, user, {"RESOURCE_COLLECTION_SECONDS": 0}))
        running[-1].start()
        return running[-1]

    yield start
    kill(*(each.program for each in running))
    free_lease(hub)


def free_lease(hub: Cluster) -> None:
    """Have no replica have led before."""
    try:
        hub.request("DELETE", LEASES.format(SYSTEM))
    except ApiError as error:
        assert error.code == 404, str(error)


def lease(hub: Cluster, namespace: str = SYSTEM) -> JsonObject:
    """The spec of the Lease; empty when there is none."""
    try:
        return dict(hub.request("GET", LEASES.format(namespace))[0]["spec"])
    except ApiError as error:
        assert error.code == 404, str(error)
        return {}


def holder(hub: Cluster, namespace: str = SYSTEM) -> str:
    return str(lease(hub, namespace).get("holderIdentity") or "").partition("_")[0]


def wait_until(check: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def leads(loop: Reconciler) -> bool:
    """Whether it says so itself; one that has ended says nothing."""
    with contextlib.suppress(OSError):
        return "\nharbormaster_leader 1.0" in loop.metrics()
    return False


def wait_leader(hub: Cluster, loop: Reconciler) -> None:
    wait_until(lambda: leads(loop) and holder(hub) == loop.identity, f"{loop.identity} does not lead")


def place(hub: Cluster, prefix: str, count: int) -> set[str]:
    """Make placements of a namespace that is there; returns their names."""
    names = {f"{prefix}-{number}" for number in range(count)}
    for name in names:
        document = placement(name)
        document["spec"]["resourceSelectors"][0]["name"] = "default-not"
        hub.request("POST", PLACEMENTS, document)
    return names


def seen(hub: Cluster) -> set[str]:
    """The placements that the loop has looked at."""
    items = hub.request("GET", PLACEMENTS)[0]["items"]
    return {item["metadata"]["name"] for item in items if (item.get("status") or {}).get("conditions")}


def writers(hub: Cluster, since: int, *, besides: str = "") -> set[str]:
    """Which replicas have sent writes since a mark, those to one resource and to their own histories left out."""
    return {user for user in LOOPS if writes_of(hub, user, since, besides=besides)}


def writes_of(hub: Cluster, user: str, since: int, *, besides: str = "") -> list[str]:
    """The writes that one replica has sent since a mark, as `writers` counts them."""
    return [
        f"{entry['verb']} {entry['requestURI']}: {(entry.get('responseStatus') or {}).get('code')}"
        for entry in hub.audit(since)
        if entry["user"]["username"] == user
        if entry["objectRef"]["resource"] != besides and not is_of_history(entry["objectRef"])
    ]


def test_one_leads_and_the_other_is_ready_and_writes_nothing(hub, start_loop):
    mark = hub.audit_mark()
    a = start_loop("loop-a")
    wait_leader(hub, a)
    b = start_loop("loop-b")
    wanted = place(hub, "calm", 5)
    wait_until(lambda: wanted <= seen(hub), "the placements are not looked at")
    assert (leads(a), leads(b)) == (True, False)
    assert (a.live(), b.live(), b.ready()) == (True, True, True)
    assert writers(hub, mark) == {"loop-a"}
    spec = lease(hub)
    assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (15, 0)
    assert spec["acquireTime"] <= spec["renewTime"]


@pytest.mark.core
def test_a_killed_leader_is_followed_by_the_other(hub, start_loop):
    a = start_loop("loop-a")
    wait_leader(hub, a)
    b = start_loop("loop-b")
    a.program.stop(number=signal.SIGKILL)
    wanted = place(hub, "killed", 5)
    wait_leader(hub, b)
    wait_until(lambda: wanted <= seen(hub), "the placements are not looked at")
    assert lease(hub)["leaseTransitions"] == 1


def test_a_leader_that_was_suspended_past_its_lease_starts_no_write_when_it_continues(hub, start_loop):
    """Stopped in the middle of many writes; what it writes is audited as its own user's.

    Where the machine is so busy that its work does not stop within seconds, it ends itself, and is started again.
    """
    a = start_loop("loop-a")
    wait_leader(hub, a)
    b = start_loop("loop-b")
    mark = hub.audit_mark()
    wanted = place(hub, "paused", 30)
    wait_until(lambda: "loop-a" in writers(hub, mark, besides="leases"), "loop-a writes nothing")
    a.program.send(signal.SIGSTOP)
    wanted |= place(hub, "meanwhile", 20)  # a good part of it waits for the stopped one
    wait_leader(hub, b)
    wait_until(lambda: wanted <= seen(hub), "the placements are not looked at")
    mark = hub.audit_mark()
    a.program.send(signal.SIGCONT)
    wait_until(lambda: not leads(a), "loop-a believes that it leads")
    if not a.program.running:
        a.start()
    wanted |= place(hub, "afterwards", 5)
    wait_until(lambda: wanted <= seen(hub), "the placements are not looked at")
    wait_until(a.ready, "loop-a is not ready as a candidate")
    assert "loop-b" in writers(hub, mark, besides="leases")
    assert_fenced(writes_of(hub, "loop-a", mark, besides="leases"))
    b.program.stop()
    wait_leader(hub, a)


@pytest.mark.core
def test_a_leader_that_is_asked_to_end_frees_the_lease(hub, start_loop):
    a = start_loop("loop-a")
    wait_leader(hub, a)
    before = lease(hub)
    assert a.program.stop(seconds=PATIENCE) == 0
    after = lease(hub)
    assert (after["holderIdentity"], after["leaseDurationSeconds"]) == ("", 1)
    assert after["acquireTime"] == before["acquireTime"]
    wait_leader(hub, start_loop("loop-b"))


def seize(hub: Cluster, loop: Reconciler) -> None:
    """Have another client take the Lease for a day, once; the loop stops."""
    given = {"holderIdentity": "foreign", "leaseDurationSeconds": 86400, "renewTime": "2100-01-01T00:00:00.000000Z"}
    hub.request("PATCH", LEASES.format(SYSTEM), {"spec": given}, content_type=MERGE)
    wait_until(lambda: not leads(loop), f"{loop.identity} believes that it leads")


def test_another_client_that_holds_the_lease_is_named_and_a_new_replica_leads_without_it(hub, start_loop):
    a = start_loop("loop-a")
    wait_leader(hub, a)
    seize(hub, a)
    wait_until(lambda: not a.ready(), "it is ready without a leader")
    assert "[-]leader failed: no replica has led" in a.checks()
    assert "foreign holds the Lease for 86400 s without a renewal" in a.checks()
    assert a.live()
    b = start_loop("loop-b")  # ready for a minute, or a rolling update would wait for what it brings
    b.stop()
    free_lease(hub)
    b = start_loop("loop-b")
    wait_leader(hub, b)
    wait_until(a.ready, "loop-a is not ready as a candidate")


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="waits until the longest Lease has expired, which takes five minutes")
@pytest.mark.parametrize("deleted", [False, True], ids=["kept", "deleted"])
def test_another_client_holds_the_lease_for_minutes_at_most(hub, start_loop, deleted):
    a = start_loop("loop-a")
    wait_leader(hub, a)
    seize(hub, a)
    if deleted:
        free_lease(hub)
    wait_until(lambda: not a.ready(), "it is ready without a leader")
    wait_until(lambda: leads(a), "it does not lead again", LONGEST_LEASE + PATIENCE)
    wait_until(a.ready, "it is not ready")


def test_a_namespace_that_is_missing_is_named_and_waited_for(hub, folder):
    loop = Reconciler(hub.kubeconfigs["loop-a"], folder / "leaders-homeless", "loop-a", {})
    loop.program.command.append("--namespace=elsewhere")
    try:
        loop.start()
        wait_until(lambda: "there is no namespace 'elsewhere'" in loop.program.last_words(), "it does not complain")
        assert not leads(loop)
        Objects(hub).apply([make_namespace("elsewhere")])
        wait_until(lambda: holder(hub, "elsewhere") == "loop-a", "it does not lead")
    finally:
        loop.stop()


def test_a_server_that_reconciles_as_well_answers_whether_it_leads_or_not(hub, folder, start_loop):
    service = Service(hub, folder / "leaders-serve", {}, hub.kubeconfigs["loop-b"])
    service.program.command += ["--reconcile", "--identity=loop-b"]
    try:
        a = start_loop("loop-a")
        wait_leader(hub, a)
        service.start()
        assert service.metric("harbormaster_leader") == 0
        assert service.ask("GET", "/v1/openapi.json").status == 200
        a.stop()
        wait_until(lambda: service.metric("harbormaster_leader") == 1, "the server does not lead")
        wanted = place(hub, "served", 3)
        wait_until(lambda: wanted <= seen(hub), "the placements are not looked at")
        assert service.ask("GET", "/v1/openapi.json").status == 200
        assert service.ready()
    finally:
        service.program.stop(seconds=PATIENCE)
    assert lease(hub)["holderIdentity"] == ""
