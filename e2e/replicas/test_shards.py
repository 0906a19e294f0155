"""Three replicas share the work of the loop on a real API server: whatever happens, no object has two writers."""

import re
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.process import PATIENCE, kill
from e2e.fleet.objects import Objects, make_namespace
from e2e.fleet.processes import LEASE, SYSTEM, Reconciler
from e2e.fleet.waiting import wait_until
from e2e.fleet.writes import assert_fenced, is_of_history
from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, MEMBER_CLUSTER, PLACEMENT, WORK
from scorer.api.meta import format_time, parse_time
from scorer.api.names import member_namespace
from scorer.shards import Share
from tests.thoroughness import SOAK
from webhook.runtime.clock import utc_now

SHARDS, PLACEMENTS, CLUSTERS = 3, 24, 2
KILLS = 8 if SOAK else 1
MEMBERS = ("shard-one", "shard-two", "shard-three", "shard-four")
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/{LEASE}"
_HELD = re.compile(r'^harbormaster_shard_held\{shard="(\d)"\} 1\.0', re.MULTILINE)


@pytest.fixture
def hub(own_hub: Cluster) -> Iterator[Cluster]:
    """A hub where each replica is a user of its own, whose writes are all audited."""
    Objects(own_hub).apply([make_namespace(SYSTEM)])
    free_lease(own_hub)
    yield own_hub
    free_lease(own_hub)


@pytest.fixture
def start_loop(hub: Cluster, folder: Path) -> Iterator[Callable[..., Reconciler]]:
    """Starts replicas; all of them end with the test."""
    running: list[Reconciler] = []

    def start(user: str, shards: int = SHARDS, *, identity: str = "") -> Reconciler:
        log_folder = folder / f"shards-{time.monotonic_ns()}"
        running.append(Reconciler(hub.kubeconfigs[user], log_folder, identity or user, {"SHARDS": shards}))
        running[-1].start(wait=False)
        return running[-1]

    yield start
    kill(*(each.program for each in running))


def free_lease(hub: Cluster) -> None:
    """Have no replica have worked before."""
    try:
        hub.request("DELETE", LEASES)
    except ApiError as error:
        assert error.code == 404, str(error)


def held(loop: Reconciler) -> set[int]:
    """The shards that it says it works on; one that has ended, or has only just begun, has none."""
    try:
        return {int(shard) for shard in _HELD.findall(loop.metrics())}
    except OSError:
        return set()


def shared(*loops: Reconciler, count: int = SHARDS) -> str:
    """Say what is not as it should be; empty when each shard is with one of them, and all have a fair share."""
    found = {loop.identity: held(loop) for loop in loops}
    sizes = [len(shards) for shards in found.values()]
    is_fair = sorted(shard for shards in found.values() for shard in shards) == list(range(count))
    return "" if is_fair and max(sizes) - min(sizes) <= 1 else f"the shards are with {found}"


def join(hub: Cluster) -> None:
    """Let members join."""
    objects = Objects(hub)
    for name in MEMBERS:
        identity = {"kind": "User", "name": name}
        spec = {"identity": identity, "heartbeatPeriodSeconds": 600}
        objects.apply([{**head(MEMBER_CLUSTER, name), "spec": spec}])
    for name in MEMBERS:
        wait_until(f"{name} is prepared", lambda name=name: "" if internal(hub, name) else "it is not")
    report(hub)


def report(hub: Cluster) -> None:
    """Report for the members as their agents would; to one that is silent for minutes nothing new goes."""
    at = format_time(utc_now())
    for name in MEMBERS:
        said = {"status": "True", "reason": "Said", "message": "", "lastTransitionTime": at}
        agent = {
            "type": "MemberAgent",
            "conditions": [{**said, "type": "Joined"}, {**said, "type": "Healthy"}],
            "lastReceivedHeartbeat": at,
        }
        path = f"/apis/{INTERNAL_MEMBER_CLUSTER.api_version}/namespaces/{member_namespace(name)}"
        document = {**internal(hub, name), "status": {"agentStatus": [agent]}}
        hub.request("PUT", f"{path}/{INTERNAL_MEMBER_CLUSTER.plural}/{name}/status", document)


def internal(hub: Cluster, name: str) -> JsonObject | None:
    return Objects(hub).find(INTERNAL_MEMBER_CLUSTER, name, member_namespace(name))


def head(kind, name: str) -> JsonObject:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}


def place(hub: Cluster, numbers: range) -> None:
    """Make placements, each of a namespace of its own."""
    objects = Objects(hub)
    objects.apply([make_namespace(f"shard-app-{number}") for number in numbers])
    for number in numbers:
        name = f"shard-app-{number}"
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": name}
        policy = {"placementType": "PickN", "numberOfClusters": CLUSTERS}
        objects.apply([{**head(PLACEMENT, name), "spec": {"resourceSelectors": [selector], "policy": policy}}])


def unplaced(hub: Cluster, numbers: range) -> str:
    """Say which placements do not have all their Works; empty when all have."""
    names = [item["metadata"]["name"] for item in Objects(hub).all(WORK)]
    missing = [number for number in numbers if names.count(f"shard-app-{number}-work") != CLUSTERS]
    return f"placements {missing} are not placed" if missing else ""


def writers(hub: Cluster, since: int) -> dict[str, list[tuple[str, str]]]:
    """Who has written each object since a mark, in order, with the times; their Lease and their histories left out."""
    found = defaultdict(list)
    for entry in hub.audit(since):
        target, user = entry["objectRef"], entry["user"]["username"]
        if not user.startswith("loop-") or target["resource"] == "leases" or is_of_history(target):
            continue
        if target["resource"] == "events":  # of their own names in each process
            continue
        name = f"{target['resource']} {target.get('namespace', '')}/{target.get('name', '')}"
        found[name].append((entry["requestReceivedTimestamp"], user))
    return {name: sorted(writes) for name, writes in found.items() if not name.endswith("/")}


@pytest.mark.soak
def test_a_killed_replica_s_share_moves_and_no_object_ever_has_two_writers(hub, start_loop):
    loops = {user: start_loop(user) for user in ("loop-a", "loop-b", "loop-c")}
    wait_until("all replicas have a share", lambda: shared(*loops.values()))
    mark = hub.audit_mark()
    join(hub)
    for turn in range(KILLS):
        if turn:
            mark = hub.audit_mark()
            report(hub)
        numbers = range(turn * PLACEMENTS, (turn + 1) * PLACEMENTS)
        victim = sorted(loops)[turn % len(loops)]
        others = [loop for user, loop in loops.items() if user != victim]
        (shard,) = held(loops[victim])
        place(hub, numbers)
        wait_until(
            f"{victim} writes", lambda mark=mark, victim=victim: "" if wrote(hub, mark, victim) else "it does not"
        )
        loops[victim].program.stop(number=signal.SIGKILL)
        # Another number of shards, by the user of the one that is gone: it may not work beside those that go on.
        stranger = start_loop(victim, 2, identity=f"{victim}-with-two") if turn == 0 else None
        wait_until("the share has moved", lambda others=others: shared(*others))
        wait_until("everything is placed", lambda numbers=numbers: unplaced(hub, numbers))
        mine = [number for number in numbers if Share(shard, SHARDS).owns(f"crp/shard-app-{number}")]
        assert mine, "nothing was the killed one's to place"
        check_writers(writers(hub, mark), victim)
        if stranger is not None:
            assert held(stranger) == set()
            wait_until("the stranger says why it waits", partial(silent, stranger))
            stranger.stop()
        if turn + 1 < KILLS:
            loops[victim] = start_loop(victim)
            wait_until("all replicas have a share again", lambda: shared(*loops.values()))


def silent(stranger: Reconciler) -> str:
    words = "replicas with 3 shards hold this Lease, and this replica has 2 shards"
    return "" if words in stranger.program.last_words() else "it does not say it"


def wrote(hub: Cluster, mark: int, user: str) -> bool:
    return any(name == user for writes in writers(hub, mark).values() for _, name in writes)


def check_writers(found: dict[str, list[tuple[str, str]]], victim: str) -> None:
    """Each object is one replica's, or was the killed one's first and is one other's from then on."""
    assert len(found) > PLACEMENTS
    for name, writes in found.items():
        users = [user for _, user in writes]
        turns = [user for place, user in enumerate(users) if not place or users[place - 1] != user]
        assert len(turns) == 1 or (len(turns) == 2 and turns[0] == victim), f"{name}: {writes}"
    assert {user for writes in found.values() for _, user in writes} == {"loop-a", "loop-b", "loop-c"}


def test_a_replica_that_was_suspended_past_its_lease_starts_no_write_for_its_share_when_it_continues(hub, start_loop):
    a, b = start_loop("loop-a", 2), start_loop("loop-b", 2)
    wait_until("both have a share", lambda: shared(a, b, count=2))
    join(hub)
    mark, numbers = hub.audit_mark(), range(900, 900 + PLACEMENTS)
    place(hub, numbers)
    wait_until("loop-a writes", lambda: "" if wrote(hub, mark, "loop-a") else "it does not")
    a.program.send(signal.SIGSTOP)
    wait_until("the other has all", lambda: shared(b, count=2))
    wait_until("everything is placed", lambda: unplaced(hub, numbers))
    mark = hub.audit_mark()
    a.program.send(signal.SIGCONT)
    wait_until("it has a share again", lambda: shared(a, b, count=2) if a.program.running else "")
    beats = sorted(
        entry["requestReceivedTimestamp"]
        for entry in hub.audit(mark)
        if entry["objectRef"]["resource"] == "leases" and entry["user"]["username"] == "loop-a"
    )
    # It finds its entry gone, and takes nothing while others may still write for what it had: 15 seconds.
    until = format_time(parse_time(beats[0]) + timedelta(seconds=10)) if beats else "9999"
    found = writers(hub, mark)
    assert_fenced([(name, at) for name in found for at, user in found[name] if user == "loop-a" and at < until])


def test_a_replica_that_is_asked_to_end_gives_its_share_away_at_once_and_the_last_frees_the_lease(hub, start_loop):
    a, b = start_loop("loop-a", 2), start_loop("loop-b", 2)
    wait_until("both have a share", lambda: shared(a, b, count=2))
    c = start_loop("loop-c", 3)
    assert a.program.stop(seconds=PATIENCE) == 0
    wait_until("the other has all", lambda: shared(b, count=2))
    wait_until("a replica of another number is ready, and waits", lambda: "" if c.ready() else "it is not")
    assert held(c) == set()
    assert b.program.stop(seconds=PATIENCE) == 0
    wait_until("the last of the others has freed the Lease", lambda: shared(c))
    assert hub.request("GET", LEASES)[0]["spec"]["holderIdentity"] == "3 shards"
