"""What may happen to a fleet, each as a scenario of any length; each ends with everything in the right state.

The short forms are tests of every run, the full counts are those of ``make soak``.
"""

import contextlib
import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from e2e.controlplane.cluster import JsonObject
from e2e.controlplane.fault_proxy import Faults
from e2e.controlplane.process import PATIENCE
from e2e.fleet.bed import LEASES, LOOP_USER, SECOND_ACCOUNT, Fleet
from e2e.fleet.objects import (
    CONFIG_MAP,
    MERGE,
    Objects,
    annotations_of,
    condition_of,
    labels_of,
    make_config_map,
    make_namespace,
    make_placement,
    pick_fixed,
    pick_n,
    rolling,
)
from e2e.fleet.processes import LEASE, SYSTEM
from e2e.fleet.scene import Scene
from e2e.fleet.settled import assert_settled
from e2e.fleet.waiting import wait_until
from e2e.fleet.writes import assert_fenced
from scorer.api.kinds import APPLIED_WORK, EVENT, MEMBER_CLUSTER, NAMESPACE, PLACEMENT, RESOURCE_SNAPSHOT, WORK
from scorer.api.names import PARENT_PLACEMENT
from webhook.kube.client.paths import path_of

BAD = Faults(share=0.3, faults=("409", "429", "500", "503", "hang"), hang_seconds=6)
"""30 % of all requests; half of the faults strike after the write took place; a hang outlasts what a client of a Lease
waits for."""


class Rollout:
    """Placements of one namespace with one ConfigMap each: put there, changed, changed again.

    Args:
        fleet: Where.
        scene: Takes them away in the end.
        prefix: Of their names.
        count: How many.
    """

    def __init__(self, fleet: Fleet, scene: Scene, prefix: str, count: int) -> None:
        self.names = [f"{prefix}-{number:03}" for number in range(count)]
        self._fleet = fleet
        self._scene = scene
        self._round = 0

    def put(self) -> None:
        """Create all of them: all clusters, two, or one by name."""
        policies: list[JsonObject | None] = [None, pick_n(2), pick_fixed("jumpingcat"), pick_n(1)]
        for number, name in enumerate(self.names):
            self._scene.put(
                make_namespace(name),
                make_config_map("settings", name, round="0"),
                make_placement(name, policies[number % len(policies)], strategy=rolling(maxUnavailable="50%")),
            )

    def change(self, share: float = 1.0, seed: int = 0) -> None:
        """Change the content of some of them, and how many clusters others want."""
        self._round += 1
        dice = random.Random(seed)
        for number, name in enumerate(self.names):
            if dice.random() >= share:
                continue
            self._fleet.on_hub.patch(CONFIG_MAP, "settings", {"data": {"round": str(self._round)}}, name)
            if number % 4 == 1:
                wanted = 1 + (self._round + number // 4) % 3
                self._fleet.on_hub.patch(PLACEMENT, name, {"spec": {"policy": {"numberOfClusters": wanted}}})


def kill_the_leader(fleet: Fleet, scene: Scene, *, placements: int, kills: int, seed: int = 1) -> None:
    """``kill -9`` at random points of a rollout; a new process takes the Lease when it has expired, and goes on."""
    dice = random.Random(seed)
    rollout = Rollout(fleet, scene, "e2e-kill", placements)
    leader = fleet.reconcilers[0]
    rollout.put()
    for number in range(kills):
        wait_until("it leads again", lambda: "" if leader.program.running else leader.program.last_words())
        fleet.wait_leader(leader.identity)
        if number:
            rollout.change(share=0.5, seed=number)
        time.sleep(dice.uniform(0.05, 2.0))  # a random point of the rollout is what is asked for
        leader.program.stop(number=signal.SIGKILL)
        leader.start(wait=False)
    assert_settled(fleet, PATIENCE + placements)


def pause_the_leader(fleet: Fleet, scene: Scene, *, placements: int) -> None:
    """SIGSTOP past the lease, then SIGCONT: once another replica leads, the old one starts no write."""
    usual = fleet.reconcilers[0]
    kubeconfig = fleet.hub.write_kubeconfig("second-loop", fleet.loop_token(SECOND_ACCOUNT))
    second = fleet.add_reconciler("second", kubeconfig)
    try:
        second.start(wait=False)
        fleet.wait_leader(usual.identity)
        mark = fleet.hub.audit_mark()
        rollout = Rollout(fleet, scene, "e2e-pause", placements)
        rollout.put()
        usual.program.send(signal.SIGSTOP)
        try:
            fleet.wait_leader(second.identity)
            acquired = _time(fleet.on_hub.get(LEASES, LEASE, SYSTEM)["spec"]["acquireTime"])
            rollout.change()
        finally:
            usual.program.send(signal.SIGCONT)
        assert_settled(fleet, PATIENCE + placements)
        late = [
            f"{event['verb']} {event['requestURI']} at {event['requestReceivedTimestamp']}: "
            f"{(event.get('responseStatus') or {}).get('code')}"
            for event in fleet.hub.audit(mark)
            if event["user"]["username"] == LOOP_USER and _time(event["requestReceivedTimestamp"]) > acquired
            if event["objectRef"]["resource"] != "leases"
        ]
        assert_fenced(late)
    finally:
        second.stop()
        if not usual.program.running:
            usual.start(wait=False)
    fleet.wait_leader(usual.identity)
    usual.wait_ready()


def restart_the_hub(fleet: Fleet, scene: Scene, *, placements: int, times: int = 1) -> None:
    """The API server is killed in the midst of a rollout, and its past is compacted away before it is back (410)."""
    rollout = Rollout(fleet, scene, "e2e-restart", placements)
    rollout.put()
    for number in range(times):
        fleet.hub.apiserver.stop(number=signal.SIGKILL)
        fleet.hub.start()
        rollout.change(share=0.5, seed=number)
        listing, _ = fleet.hub.request("GET", "/api/v1/namespaces")
        fleet.hub.etcd.compact(int(listing["metadata"]["resourceVersion"]))
    assert_settled(fleet, 150 + placements)


def spoil_the_network(fleet: Fleet, scene: Scene, *, placements: int, rounds: int, faults: Faults = BAD) -> None:
    """A share of all requests of the loop and of an agent fail, before or after the fact; watches end and expire."""
    proxy = fleet.add_proxy(fleet.hub, "spoilt")
    behind = fleet.add_proxy(fleet.members["smartfish"].cluster, "spoilt-member")
    loop = fleet.add_reconciler("spoilt", proxy.kubeconfig("loop", fleet.loop_token()))
    agent = fleet.make_agent(
        "smartfish",
        proxy.kubeconfig("agent", fleet.members["smartfish"].hub_token),
        behind.kubeconfig("agent", fleet.agent_token("smartfish")),
    )
    rollout = Rollout(fleet, scene, "e2e-spoilt", placements)
    with fleet.other_reconcilers(loop), fleet.other_agent(agent, "smartfish"):
        fleet.wait_leader(loop.identity)
        loop.wait_ready()
        with kept_running(fleet, loop.identity):
            for spoilt in (proxy, behind):
                spoilt.set(replace(faults, watch_seconds=5, watch_gone=0.3))
            rollout.put()
            for number in range(rounds):
                rollout.change(share=0.7, seed=number)
                assert_settled(fleet, 240 + 2 * placements)
            counts = proxy.heal() + behind.heal()
            assert all(any(key.startswith(fault) for key in counts) for fault in faults.faults), counts
            assert any(key.endswith("after") for key in counts), counts
            assert_settled(fleet)


@contextlib.contextmanager
def kept_running(fleet: Fleet, identity: str) -> Iterator[None]:
    """A replica that loses its Lease may end; here, as in a cluster, somebody starts it again."""
    replica = next(replica for replica in fleet.reconcilers if replica.identity == identity)
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(0.5):
            if not replica.program.running:
                replica.program.start()

    keeper = threading.Thread(target=keep, daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        keeper.join(PATIENCE)


def cut_a_member_off(fleet: Fleet, scene: Scene, *, seconds: float, placements: int = 4) -> None:
    """A member hears nothing from the hub for a while; meanwhile contents change, come and go."""
    proxy = fleet.add_proxy(fleet.hub, "cut")
    agent = fleet.make_agent("smartfish", proxy.kubeconfig("agent", fleet.members["smartfish"].hub_token))
    rollout = Rollout(fleet, scene, "e2e-cut", placements)
    gone = Rollout(fleet, scene, "e2e-cut-gone", 1)
    with fleet.other_agent(agent, "smartfish"):
        rollout.put()
        gone.put()
        assert_settled(fleet)
        proxy.set(Faults(cut="silence"))
        cut = time.monotonic()
        rollout.change()
        fleet.on_hub.delete(PLACEMENT, gone.names[0])
        late = Rollout(fleet, scene, "e2e-cut-late", 2)
        late.put()
        _stays_behind(fleet, "smartfish", rollout.names[0])
        time.sleep(max(0.0, seconds - (time.monotonic() - cut)))  # the length of the cut is the scenario
        proxy.set(Faults(cut="refuse"))
        proxy.heal()
        assert_settled(fleet)


def cut_off_from_its_own(fleet: Fleet, scene: Scene, *, seconds: float) -> None:
    """The agent does not reach the API server of its member, which says so, and nothing is taken for gone."""
    proxy = fleet.add_proxy(fleet.members["smartfish"].cluster, "cut-member")
    agent = fleet.make_agent("smartfish", cluster=proxy.kubeconfig("agent", fleet.agent_token("smartfish")))
    rollout = Rollout(fleet, scene, "e2e-blind", 2)
    with fleet.other_agent(agent, "smartfish"):
        rollout.put()
        assert_settled(fleet)
        proxy.set(Faults(cut="refuse"))
        rollout.change()
        time.sleep(seconds)  # the length of the cut is the scenario
        proxy.heal()
        assert_settled(fleet)


def silence_an_agent(fleet: Fleet, scene: Scene) -> None:
    """A one-way partition: an agent reads and watches the hub, but none of its writes arrives there."""
    name = "smartfish"
    proxy = fleet.add_proxy(fleet.hub, "one-way")
    agent = fleet.make_agent(name, proxy.kubeconfig("agent", fleet.members[name].hub_token))
    rollout = Rollout(fleet, scene, "e2e-one-way", 1)

    def unreported() -> str:
        reporting = condition_of(fleet.on_hub.get(MEMBER_CLUSTER, name), "Reporting")
        status = fleet.on_hub.get(PLACEMENT, rollout.names[0])["status"]
        entry = next(each for each in status["placementStatuses"] if each["clusterName"] == name)
        reasons = {each["condition"]["reason"] for each in entry.get("failedPlacements") or ()}
        is_reported = reporting.get("status") == "Unknown" and "AgentNotReporting" in reasons
        return "" if is_reported else f"MemberCluster: {reporting}; placement: {entry}"

    with fleet.other_agent(agent, name):
        rollout.put()
        assert_settled(fleet)
        proxy.set(Faults(share=1.0, faults=("drop",), after=0.0, methods=("POST", "PUT", "PATCH", "DELETE")))
        rollout.change()
        wait_until("the agent is unready", lambda: "it is ready" if agent.ready() else "")
        assert "heartbeat not delivered" in agent.checks()
        wait_until("member and placement report the silence", unreported)
        proxy.heal()
        assert_settled(fleet)
        agent.wait_ready()


def shift_the_clock(fleet: Fleet, scene: Scene, *, seconds: int, name: str) -> None:
    """The clock of an agent is wrong: what it has goes on being updated, and all is well when it is set right."""
    rollout = Rollout(fleet, scene, name, 2)
    rollout.put()
    assert_settled(fleet)
    with fleet.other_agent(fleet.make_agent("smartfish", clock_seconds=seconds), "smartfish"):
        rollout.change()

        def problem() -> str:
            live = fleet.members["smartfish"].objects.get(CONFIG_MAP, "settings", rollout.names[0])
            return "" if live["data"] == {"round": "1"} else f"the member has {live['data']}"

        wait_until("what is there is updated", problem)
    late = Rollout(fleet, scene, f"{name}-late", 1)
    late.put()
    assert_settled(fleet)


def edit_works(fleet: Fleet, scene: Scene) -> None:
    """Somebody writes into Works, takes their labels away, or deletes them."""
    rollout = Rollout(fleet, scene, "e2e-work", 1)
    rollout.put()
    assert_settled(fleet)
    name, home = f"{rollout.names[0]}-work", "fleet-member-smartfish"
    hub = fleet.on_hub
    work = hub.get(WORK, name, home)
    manifests = [
        {**item, "data": {"round": "edited"}} if item["kind"] == "ConfigMap" else item
        for item in work["spec"]["workload"]["manifests"]
    ]
    extra = make_config_map("smuggled", rollout.names[0], a="1")
    edits: dict[str, JsonObject] = {
        "content changed": {"spec": {"workload": {"manifests": manifests}}},
        "content added": {"spec": {"workload": {"manifests": [*work["spec"]["workload"]["manifests"], extra]}}},
        "content removed": {"spec": {"workload": {"manifests": []}}},
        "index label removed": {"metadata": {"labels": {"kubernetes-fleet.io/parent-resource-snapshot-index": None}}},
    }
    for what, change in edits.items():
        hub.patch(WORK, name, change, home)
        _settles(fleet, f"Work: {what}")
    hub.delete(WORK, name, home)
    _settles(fleet, "Work deleted")
    hub.patch_status(WORK, name, {"conditions": []}, home)
    _settles(fleet, "Work: status emptied")


def take_snapshot_labels(fleet: Fleet, scene: Scene) -> None:
    """Take the label of their placement from an old resource snapshot, and from the one that the bindings use."""
    rollout = Rollout(fleet, scene, "e2e-stray", 1)
    rollout.put()
    assert_settled(fleet)
    rollout.change()
    assert_settled(fleet)
    hub, name = fleet.on_hub, rollout.names[0]
    old, used = f"{name}-0-snapshot", f"{name}-1-snapshot"
    labels = labels_of(hub.get(RESOURCE_SNAPSHOT, used))
    without = {"metadata": {"labels": {PARENT_PLACEMENT: None}}}
    hub.patch(RESOURCE_SNAPSHOT, old, without)
    wait_until("the old one is collected", lambda: f"{old} exists" if hub.find(RESOURCE_SNAPSHOT, old) else "")
    hub.patch(RESOURCE_SNAPSHOT, used, without)

    def problem() -> str:
        found = labels_of(hub.get(RESOURCE_SNAPSHOT, used))
        return "" if found == labels else f"{used} has the labels {found}"

    wait_until("the other one has its label again", problem)
    assert_settled(fleet)
    assert hub.find(RESOURCE_SNAPSHOT, f"{name}-2-snapshot") is None


def edit_members(fleet: Fleet, scene: Scene) -> None:
    """Somebody changes or deletes on a member what was placed there, or the books of the agent."""
    rollout = Rollout(fleet, scene, "e2e-drift", 1)
    rollout.put()
    assert_settled(fleet)
    name, member = rollout.names[0], fleet.members["smartfish"].objects
    member.patch(CONFIG_MAP, "settings", {"data": {"round": "edited"}}, name)
    _settles(fleet, "ConfigMap edited")
    member.delete(CONFIG_MAP, "settings", name)
    _settles(fleet, "ConfigMap deleted")
    member.patch(CONFIG_MAP, "settings", {"metadata": {"ownerReferences": None}}, name)
    _settles(fleet, "owner reference removed")
    wait_until("it is owned again", lambda: _unowned(member, name))
    member.delete(NAMESPACE, name)
    _settles(fleet, "Namespace deleted")
    member.delete(APPLIED_WORK, f"{name}-work")
    _settles(fleet, "AppliedWork deleted")


def fight_over_an_object(fleet: Fleet, scene: Scene, *, writes: int) -> None:
    """Another client on a member changes a placed object all the time, then stops."""
    name, cluster = "e2e-fought-over", "smartfish"
    objects = fleet.members[cluster].objects
    scene.home(name, colour="blue")
    scene.put(make_placement(name, pick_fixed(cluster)))
    assert_settled(fleet)
    path = f"{path_of(CONFIG_MAP, name, 'settings')}?fieldManager=meddler"
    stopped, count = threading.Event(), 0

    def meddle() -> None:
        nonlocal count
        while not stopped.wait(1 / 15):
            count += 1
            change = {"data": {"colour": f"red-{count}"}}
            objects.cluster.request("PATCH", path, change, content_type=MERGE)

    def reports() -> list[str]:
        status = fleet.on_hub.get(PLACEMENT, name).get("status") or {}
        failed = [each for one in status.get("placementStatuses") or () for each in one.get("failedPlacements") or ()]
        conditions = [each["condition"] for each in failed if each["name"] == "settings"]
        return [each["message"] for each in conditions if each["reason"] == "AnotherWriter"]

    def untold() -> str:
        events = [
            item for item in fleet.on_hub.all(EVENT, f"fleet-member-{cluster}") if item["reason"] == "AnotherWriter"
        ]
        notes = [item["note"] for item in events if f"{name}/settings" in item["note"]]
        told = any("meddler" in text for text in reports()) and any("meddler" in note for note in notes)
        return "" if told else f"placement: {reports()}, Events: {notes}; after {count} writes"

    meddler = threading.Thread(target=meddle)
    meddler.start()
    try:
        wait_until("the other writer is named", untold)
        mark, end = objects.cluster.audit_mark(), count + writes
        wait_until("the other writer goes on", lambda: "" if count >= end else f"{count} of {end} writes")
        ours = [
            entry["verb"]
            for entry in objects.cluster.audit(mark)
            if f"/{name}/configmaps/settings" in entry["requestURI"] and "dryRun" not in entry["requestURI"]
        ]
        assert len(ours) <= 1, "once in five minutes"
    finally:
        stopped.set()
        meddler.join()
    wait_until(
        "the object is as placed",
        lambda: objects.get(CONFIG_MAP, "settings", name)["data"].get("colour", "none").removeprefix("blue"),
        300,
    )
    wait_until("it is no longer reported", lambda: "".join(reports()), 300)
    assert_settled(fleet)


def _unowned(member: Objects, name: str) -> str:
    live = member.get(CONFIG_MAP, "settings", name)
    return "" if live["metadata"].get("ownerReferences") else f"no owner: {annotations_of(live)}"


def _settles(fleet: Fleet, what: str) -> None:
    try:
        assert_settled(fleet)
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from error


def _stays_behind(fleet: Fleet, cluster: str, name: str) -> None:
    live = fleet.members[cluster].objects.get(CONFIG_MAP, "settings", name)
    assert live["data"] == {"round": "0"}, "the cut lets something through"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
