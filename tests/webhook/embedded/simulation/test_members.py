"""Simulated members: joining, applying, reporting, failing and leaving; on real stores, in time that the test moves."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.kinds import KINDS, MEMBER_CLUSTER, NAMESPACE, WORK
from scorer.api.names import MEMBER_CLUSTER_FINALIZER, MEMBER_NAME, WORK_CLEANUP
from scorer.rollout.removal.marks import with_removal_mark
from tests.sleeping_clock import SleepingClock
from tests.waiting import PATIENCE_SECONDS
from webhook.controllers.machinery.queue import WorkQueue
from webhook.controllers.members.membership import WATCHES, MemberController
from webhook.embedded.simulation.annotations import (
    SIMULATE_APPLY,
    SIMULATE_LEAVING,
    SIMULATE_STATUS,
    parse_behaviour,
    status_in_annotation,
)
from webhook.embedded.simulation.members import SimulatedMembers
from webhook.embedded.simulation.scripts import SIMULATE
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import ConflictError, Key, NotFoundError

CACHED = (*(watch.kind for watch in WATCHES), WORK)

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
DEPLOYMENT, CONFIG_MAP = KINDS["apps", "Deployment"], KINDS["", "ConfigMap"]
FIGURES = {
    "properties": {"kubernetes-fleet.io/node-count": {"value": "4"}},
    "resourceUsage": {
        "capacity": {"cpu": "16", "memory": "64Gi"},
        "allocatable": {"cpu": "15", "memory": "60Gi"},
        "available": {"cpu": "10", "memory": "40Gi"},
    },
}


class HubsPart:
    """The controller that does the hub's part of joining and leaving, as the loop runs it."""

    def __init__(self, store, now):
        self.store = store
        self.cache = Cache(store)
        self.hub = Hub(store, self.cache)
        self.controller = MemberController(self.hub, now, lambda *_: None)
        self.queue = WorkQueue("member", self.reconcile)
        self.cache.require(CACHED)

    async def reconcile(self, name):
        """Reconcile a member until no write conflicts: a key that backs off counts as idle."""
        while True:
            try:
                return await self.controller.reconcile(name)
            except ConflictError:
                await asyncio.sleep(0)

    async def run(self):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.cache.run())
            await self.cache.wait_synced()
            for watch in WATCHES:
                watch.start(self.cache, self.queue)
            tasks.create_task(self.hub.run())
            tasks.create_task(self.queue.run())

    def wake_all(self):
        """Look at everything again, as the loop does every few minutes."""
        for document in self.cache.list(MEMBER_CLUSTER):
            self.queue.add(document["metadata"]["name"])

    async def at_rest(self):
        """Say whether nothing is being done, and everything is known that was done."""
        if not self.queue.idle or not self.hub.idle or not self.cache.synced:
            return False
        for kind in CACHED:
            if len(self.cache.list(kind)) != len((await self.store.list(kind)).items):
                return False
        return True


async def remove_work(hub, key):
    """Delete a Work as the loop does."""
    await hub.replace(WORK, with_removal_mark(await hub.get(WORK, key)))
    await hub.delete(WORK, key)


class Fleet:
    """A hub with simulated members, and what people and controllers do to it."""

    def __init__(self, data=None):
        self.clock = SleepingClock(START)
        self.data = data
        self.hub = EmbeddedStore.open(None, now=self.clock.now)
        self.members = None
        self.hubs_part = None

    @asynccontextmanager
    async def running(self, **options):
        self.members = SimulatedMembers(self.hub, self.data, now=self.clock.now, sleep=self.clock.sleep, **options)
        self.hubs_part = HubsPart(self.hub, self.clock.now)
        tasks = [asyncio.create_task(part.run()) for part in (self.members, self.hubs_part)]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def rest(self):
        """Wait until nothing more happens at this time."""
        quiet, version = 0, ""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while quiet < 20:
                await asyncio.sleep(0 if quiet else 0.001)
                still = (
                    not self.members.busy and await self.hubs_part.at_rest() and version == self.hub.resource_version
                )
                version = self.hub.resource_version
                quiet = quiet + 1 if still else 0

    async def pass_time(self, seconds, step=1):
        """Let time pass in steps, with everything done in between."""
        await self.rest()
        for _ in range(int(seconds / step)):
            await self.clock.advance(step)
            await self.rest()

    async def asked_to_leave(self):
        """Wait until the member is being deleted, and return it; an agent retries a conflict after a moment."""
        await self.rest()
        for _ in range(10):
            if (member := await self.member()).metadata.deletion_timestamp is not None:
                return member
            await self.pass_time(1)
        raise AssertionError("the member is not being deleted")

    async def add_member(self, name="bravelion", written=None, **annotations):
        keys = {"simulate": SIMULATE, "apply": SIMULATE_APPLY, "status": SIMULATE_STATUS}
        metadata = {"name": name, "annotations": {keys[key]: value for key, value in annotations.items()}}
        document = {"apiVersion": MEMBER_CLUSTER.api_version, "kind": "MemberCluster", "metadata": metadata}
        document["spec"] = {"identity": {"kind": "User", "name": name}}
        if written is not None:
            document = status_in_annotation({**document, "status": written})
        return await self.hub.create(MEMBER_CLUSTER, document)

    async def annotate(self, name, **annotations):
        member = await self.hub.get(MEMBER_CLUSTER, Key(name))
        keys = {"simulate": SIMULATE, "apply": SIMULATE_APPLY, "status": SIMULATE_STATUS}
        changed = {keys[key]: value for key, value in annotations.items()}
        metadata = {**member["metadata"], "annotations": {**member["metadata"].get("annotations", {}), **changed}}
        await self.hub.replace(MEMBER_CLUSTER, {**member, "metadata": metadata})

    async def member(self, name="bravelion"):
        return MemberCluster.read(await self.hub.get(MEMBER_CLUSTER, Key(name)))

    async def gone(self, kind, key):
        try:
            await self.hub.get(kind, key)
        except NotFoundError:
            return True
        return False

    async def place(self, *manifests, member="bravelion", name="web-work"):
        space = f"fleet-member-{member}"
        spec = {"workload": {"manifests": list(manifests)}}
        try:
            work = await self.hub.get(WORK, Key(name, space))
        except NotFoundError:
            metadata = {"name": name, "namespace": space}
            work = {"apiVersion": WORK.api_version, "kind": "Work", "metadata": metadata, "spec": spec}
            return await self.hub.create(WORK, work)
        return await self.hub.replace(WORK, {**work, "spec": spec})

    async def conditions(self, member="bravelion", name="web-work"):
        """Return the current conditions of a Work, type to status."""
        work = await self.hub.get(WORK, Key(name, f"fleet-member-{member}"))
        conditions = work.get("status", {}).get("conditions", ())
        current = [c for c in conditions if c["observedGeneration"] == work["metadata"]["generation"]]
        return {condition["type"]: condition["status"] for condition in current}

    async def live(self, kind, name, member="bravelion", space="web"):
        async with self.members.store(member) as store:
            try:
                return await store.get(kind, Key(name, space))
            except NotFoundError:
                return None


@pytest.fixture(autouse=True)
def _stored_at_once(monkeypatch):
    """Statuses are not held back: a test waits until all is stored, again and again."""
    monkeypatch.setattr("webhook.kube.cache.hub.STATUS_DELAY_SECONDS", 0.0)


@pytest.fixture
async def fleet(tmp_path):
    fleet = Fleet(tmp_path)
    yield fleet
    fleet.hub.close()


def namespace(name="web"):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def config_map(**data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "web"}, "data": data}


def deployment(simulate="", image="shop:1", replicas=2):
    metadata = {"name": "shop", "namespace": "web", **({"annotations": {SIMULATE: simulate}} if simulate else {})}
    container = {"name": "shop", "image": image, "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    spec = {"replicas": replicas, "template": {"spec": {"containers": [container]}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


APPLIED = {"Applied": "True", "Available": "True"}
WAITING = {"Applied": "True", "Available": "False"}


async def test_a_member_joins(fleet):
    await fleet.add_member(written=FIGURES)
    async with fleet.running():
        await fleet.rest()
        document = await fleet.hub.get(MEMBER_CLUSTER, Key("bravelion"))
        assert document["metadata"]["labels"] == {MEMBER_NAME: "bravelion"}
        assert document["metadata"]["finalizers"] == [MEMBER_CLUSTER_FINALIZER]
        space = await fleet.hub.get(NAMESPACE, Key("fleet-member-bravelion"))
        assert space["metadata"]["labels"] == {"kubernetes-fleet.io/is-fleet-resource": "true"}
        status = (await fleet.member()).status
        assert {c.type: c.status for c in status.agent_status[0].conditions} == {"Joined": "True", "Healthy": "True"}
        assert status.agent_status[0].last_received_heartbeat == START
        assert status.properties["kubernetes-fleet.io/node-count"].value == "4"
        assert status.resource_usage.available == {"cpu": "10", "memory": "40Gi"}
        assert status.namespaces is None
        assert fleet.members.open_stores == 0, "nothing was placed, so nothing is open"


async def test_heartbeats_go_on(fleet):
    await fleet.add_member()
    async with fleet.running():
        seen = set()
        for _ in range(10):
            await fleet.pass_time(63, step=63)
            seen.add((await fleet.member()).status.agent_status[0].last_received_heartbeat)
        assert len(seen) == 10
        assert fleet.clock.now() - max(seen) < timedelta(seconds=64)


async def test_a_work_becomes_available(fleet):
    await fleet.add_member()
    async with fleet.running():
        await fleet.rest()
        await fleet.place(namespace(), config_map(a="b"), deployment())
        await fleet.rest()
        assert await fleet.conditions() == WAITING
        await fleet.pass_time(2)
        assert await fleet.conditions() == APPLIED
        await fleet.place(namespace(), config_map(a="c"), deployment(image="shop:2"))
        await fleet.rest()
        assert await fleet.conditions() == WAITING
        await fleet.pass_time(2)
        assert await fleet.conditions() == APPLIED
        assert (await fleet.live(CONFIG_MAP, "settings"))["data"] == {"a": "c"}
        await remove_work(fleet.hub, Key("web-work", "fleet-member-bravelion"))
        await fleet.rest()
        assert await fleet.gone(WORK, Key("web-work", "fleet-member-bravelion"))
        assert await fleet.live(DEPLOYMENT, "shop") is None


async def test_at_rest_only_heartbeats_are_written(fleet):
    await fleet.add_member()
    async with fleet.running():
        await fleet.rest()
        await fleet.place(namespace(), deployment())
        await fleet.pass_time(10)
        async with fleet.members.store("bravelion") as store:
            on_the_member = store.resource_version
        version = (await fleet.hub.get(WORK, Key("web-work", "fleet-member-bravelion")))["metadata"]["resourceVersion"]
        await fleet.pass_time(3600, step=60)
        work = await fleet.hub.get(WORK, Key("web-work", "fleet-member-bravelion"))
        assert work["metadata"]["resourceVersion"] == version
        async with fleet.members.store("bravelion") as store:
            assert store.resource_version == on_the_member


@pytest.mark.parametrize("wait", [0, 1, 2, 30])
async def test_after_a_restart_it_goes_on_where_it_was(fleet, wait):
    await fleet.add_member()
    async with fleet.running():
        await fleet.rest()
        await fleet.place(namespace(), deployment("ready-after=10s"))
        await fleet.pass_time(1)
        assert await fleet.conditions() == WAITING
    await fleet.clock.advance(wait)
    async with fleet.running():
        await fleet.rest()
        assert await fleet.conditions() == (WAITING if wait < 9 else APPLIED)
        await fleet.pass_time(max(0, 9 - wait))
        assert await fleet.conditions() == APPLIED


async def test_a_work_that_came_while_nobody_ran_is_applied(fleet):
    await fleet.add_member()
    async with fleet.running():
        await fleet.rest()
    await fleet.place(namespace(), config_map())
    async with fleet.running():
        await fleet.rest()
        assert await fleet.conditions() == APPLIED


async def test_objects_fail_on_demand(fleet):
    await fleet.add_member()
    async with fleet.running():
        await fleet.rest()
        await fleet.place(namespace(), deployment("never-ready"))
        await fleet.pass_time(60, step=10)
        assert await fleet.conditions() == WAITING
        await fleet.place(namespace(), deployment("ready-after=1s,crash-after=5s", image="shop:2"))
        await fleet.pass_time(2)
        assert await fleet.conditions() == APPLIED
        await fleet.pass_time(5)
        assert await fleet.conditions() == WAITING


async def test_a_member_refuses_until_the_fault_is_lifted(fleet):
    await fleet.add_member(apply="fail")
    async with fleet.running():
        await fleet.rest()
        await fleet.place(namespace(), config_map())
        await fleet.rest()
        assert await fleet.conditions() == {"Applied": "False"}
        work = await fleet.hub.get(WORK, Key("web-work", "fleet-member-bravelion"))
        (condition,) = work["status"]["manifestConditions"][0]["conditions"]
        assert condition["reason"] == "ManifestApplyFailed"
        assert "bravelion refuses" in condition["message"]
        await fleet.annotate("bravelion", apply="")
        await fleet.rest()
        assert await fleet.conditions() == APPLIED


async def test_a_slow_member_takes_its_time(fleet):
    await fleet.add_member(apply="slow=3s")
    async with fleet.running():
        await fleet.rest()
        await fleet.place(namespace())
        await fleet.pass_time(2)
        assert await fleet.conditions() == {}
        await fleet.pass_time(1)
        assert await fleet.conditions() == APPLIED


async def test_a_silent_member_does_nothing(fleet):
    heartbeat = "2026-03-01T11:46:00Z"
    agent = {"type": "MemberAgent", "conditions": [], "lastReceivedHeartbeat": heartbeat}
    await fleet.add_member("as-written", {**FIGURES, "agentStatus": [agent]}, simulate="silent")
    await fleet.add_member("by-age", FIGURES, simulate="silent=14m")
    await fleet.add_member("bare", simulate="silent")
    async with fleet.running():
        await fleet.rest()
        await fleet.place(namespace(), member="by-age")
        await fleet.pass_time(600, step=60)
        for name in ("as-written", "by-age"):
            (found,) = (await fleet.member(name)).status.agent_status
            assert found.last_received_heartbeat == START - timedelta(minutes=14)
            assert (await fleet.member(name)).status.resource_usage.available == {"cpu": "10", "memory": "40Gi"}
        assert (await fleet.member("bare")).status.agent_status == ()
        joined = {entry.type: entry.reason for entry in (await fleet.member("bare")).status.conditions}["Joined"]
        assert joined == "MemberClusterJoinStateUnknown"
        assert await fleet.conditions("by-age") == {}
        await fleet.annotate("by-age", simulate="")
        await fleet.rest()
        assert (await fleet.member("by-age")).status.agent_status[0].last_received_heartbeat == fleet.clock.now()
        assert await fleet.conditions("by-age") == APPLIED


async def test_an_unhealthy_member_says_so(fleet):
    await fleet.add_member(simulate="unhealthy")
    async with fleet.running():
        await fleet.rest()
        (agent,) = (await fleet.member()).status.agent_status
        assert {c.type: c.status for c in agent.conditions} == {"Joined": "True", "Healthy": "False"}


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({"simulate": "sielnt"}, "'sielnt': expected silent"),
        ({"apply": "slow=fast"}, "'slow=fast'"),
        ({"status": "{"}, "not JSON"),
        ({"status": "[]"}, "is not an object"),
        ({"status": '{"properties": 3}'}, "properties is 3"),
        ({"status": '{"resourceUsage": {"available": {"cpu": "lots"}}}'}, "resourceUsage.available.cpu is 'lots'"),
    ],
)
async def test_a_mistake_in_an_annotation_is_shown(fleet, annotations, words):
    await fleet.add_member(**annotations)
    async with fleet.running():
        await fleet.rest()
        status = (await fleet.member()).status
        found = {condition.type: condition for condition in status.conditions}["ClusterPropertyCollectionSucceeded"]
        assert found.status == "False"
        assert words in found.message
        assert status.agent_status


async def test_what_is_placed_takes_room(fleet):
    await fleet.add_member(written={**FIGURES, "namespaces": {}})
    async with fleet.running():
        await fleet.rest()
        assert (await fleet.member()).status.namespaces == {}
        await fleet.place(namespace(), deployment(replicas=3))
        await fleet.rest()
        status = (await fleet.member()).status
        assert status.namespaces == {"default": "", "web": "web-work"}, "a new namespace is reported at once"
        await fleet.pass_time(60)
        available = (await fleet.member()).status.resource_usage.available
        assert available == {"cpu": "8500m", "memory": "37Gi"}
        await remove_work(fleet.hub, Key("web-work", "fleet-member-bravelion"))
        await fleet.pass_time(64)
        status = (await fleet.member()).status
        assert status.resource_usage.available == {"cpu": "10", "memory": "40Gi"}
        assert status.namespaces == {"default": ""}


async def test_a_member_leaves_and_its_objects_stay(fleet):
    await fleet.add_member()
    space = "fleet-member-bravelion"
    async with fleet.running():
        await fleet.rest()
        await fleet.place(namespace(), config_map(a="b"))
        await fleet.rest()
        await fleet.hub.delete(MEMBER_CLUSTER, Key("bravelion"))
        await fleet.rest()
        for kind, key in ((MEMBER_CLUSTER, Key("bravelion")), (NAMESPACE, Key(space)), (WORK, Key("web-work", space))):
            assert await fleet.gone(kind, key)
        await fleet.add_member()
        await fleet.rest()
        assert (await fleet.live(CONFIG_MAP, "settings"))["data"] == {"a": "b"}, "the same cluster joined again"
        await fleet.place(namespace(), config_map(a="c"), name="other-work")
        await fleet.rest()
        assert await fleet.conditions(name="other-work") == APPLIED, "what was left behind is taken over"


async def test_a_silent_member_is_waited_for_before_it_goes(fleet):
    await fleet.add_member(simulate="silent=14m")
    async with fleet.running():
        await fleet.rest()
        await fleet.place(namespace())
        await fleet.hub.delete(MEMBER_CLUSTER, Key("bravelion"))
        for minutes, gone in ((14, False), (1, True)):
            await fleet.pass_time(60 * minutes, step=60)
            fleet.hubs_part.wake_all()
            await fleet.rest()
            assert await fleet.gone(MEMBER_CLUSTER, Key("bravelion")) is gone
            assert await fleet.gone(NAMESPACE, Key("fleet-member-bravelion")) is gone


async def test_a_leaving_member_stays_leaving_until_it_may_go(fleet):
    await fleet.add_member(simulate="leaving")
    async with fleet.running():
        member = await fleet.asked_to_leave()
        heartbeat = member.status.agent_status[0].last_received_heartbeat
        assert heartbeat is not None
        assert {entry.type: entry.status for entry in member.status.conditions}["Joined"] == "True"
        await fleet.place(namespace())
        await fleet.pass_time(300, step=60)
        assert (await fleet.member()).status.agent_status[0].last_received_heartbeat > heartbeat
        work = await fleet.hub.get(WORK, Key("web-work", "fleet-member-bravelion"))
        assert WORK_CLEANUP not in work["metadata"].get("finalizers", ())
        assert await fleet.conditions() == {}
        await fleet.annotate("bravelion", simulate="")
        await fleet.rest()
        assert await fleet.gone(MEMBER_CLUSTER, Key("bravelion"))


async def test_a_leaving_member_stays_leaving_when_the_hub_has_let_go_of_it(fleet):
    await fleet.add_member(simulate="leaving")
    async with fleet.running():
        await fleet.asked_to_leave()
        await fleet.pass_time(900, step=60)
        fleet.hubs_part.wake_all()
        await fleet.rest()
        metadata = (await fleet.hub.get(MEMBER_CLUSTER, Key("bravelion")))["metadata"]
        assert metadata["finalizers"] == [SIMULATE_LEAVING]
        assert await fleet.gone(NAMESPACE, Key("fleet-member-bravelion"))
        await fleet.annotate("bravelion", simulate="")
        await fleet.rest()
        assert await fleet.gone(MEMBER_CLUSTER, Key("bravelion"))


async def test_an_agent_does_what_its_hub_says_not_what_it_guesses(fleet):
    """Without an order it neither reports nor applies anything."""
    await fleet.add_member()
    fleet.hubs_part = None
    members = SimulatedMembers(fleet.hub, fleet.data, now=fleet.clock.now, sleep=fleet.clock.sleep)
    task = asyncio.create_task(members.run())
    for _ in range(50):
        await asyncio.sleep(0)
    document = await fleet.hub.get(MEMBER_CLUSTER, Key("bravelion"))
    assert document["metadata"]["resourceVersion"] == fleet.hub.resource_version, "nothing was written"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_heartbeat_costs_two_writes(fleet):
    """One of the agent, one of the hub: whatever else is written is too much."""
    await fleet.add_member()
    async with fleet.running():
        await fleet.pass_time(60)
        written = []
        for _ in range(300):
            before = int(fleet.hub.resource_version)
            await fleet.pass_time(1)
            written.append(int(fleet.hub.resource_version) - before)
        assert set(written) == {0, 2}
        assert written.count(2) == 5


async def test_many_members_are_cheap_at_rest(tmp_path):
    fleet = Fleet(tmp_path)
    for number in range(300):
        await fleet.add_member(f"m{number:03}")
    async with fleet.running():
        await fleet.rest()
        tasks = len(asyncio.all_tasks())
        await fleet.pass_time(60, step=5)
        assert tasks < 50, "none for a member of its own"
        assert fleet.members.open_stores == 0
        stale = fleet.clock.now() - timedelta(seconds=61)
        for number in range(300):
            assert (await fleet.member(f"m{number:03}")).status.agent_status[0].last_received_heartbeat >= stale
    fleet.hub.close()


async def test_few_files_are_open_at_a_time(fleet):
    names = [f"m{number}" for number in range(12)]
    for name in names:
        await fleet.add_member(name)
    async with fleet.running(open_stores=3):
        await fleet.rest()
        for name in names:
            await fleet.place(namespace(), deployment(), member=name)
        await fleet.pass_time(3)
        assert fleet.members.open_stores <= 3
        for name in names:
            assert await fleet.conditions(name) == APPLIED
            assert await fleet.live(DEPLOYMENT, "shop", name) is not None


async def test_members_can_live_in_memory():
    fleet = Fleet()
    await fleet.add_member()
    async with fleet.running(open_stores=0):
        await fleet.rest()
        await fleet.place(namespace(), deployment())
        await fleet.pass_time(3)
        assert await fleet.conditions() == APPLIED
        with pytest.raises(NotFoundError, match="nobody"):
            await fleet.live(DEPLOYMENT, "shop", "nobody")
    fleet.hub.close()


async def test_a_broken_member_file_does_not_stop_the_others(fleet, tmp_path, caplog):
    (tmp_path / "members" / "broken.db").mkdir(parents=True)
    await fleet.add_member("broken")
    await fleet.add_member("fine")
    async with fleet.running():
        await fleet.rest()
        await fleet.place(namespace(), member="broken")
        await fleet.place(namespace(), member="fine")
        await fleet.rest()
        assert await fleet.conditions("fine") == APPLIED
        assert await fleet.conditions("broken") == {}
        assert "it is a directory" in caplog.records[0].error


def test_a_status_is_kept_in_an_annotation():
    document = {"apiVersion": MEMBER_CLUSTER.api_version, "kind": "MemberCluster", "metadata": {"name": "x"}}
    kept = status_in_annotation({**document, "status": FIGURES})
    assert "status" not in kept
    assert orjson.loads(kept["metadata"]["annotations"][SIMULATE_STATUS]) == FIGURES
    assert parse_behaviour(kept["metadata"]["annotations"]).status == FIGURES
    assert status_in_annotation(document) is document
    written = {**document, "metadata": {"annotations": {SIMULATE_STATUS: "{}"}}, "status": FIGURES}
    assert status_in_annotation(written)["metadata"]["annotations"] == {SIMULATE_STATUS: "{}"}
    other = {"apiVersion": "v1", "kind": "Namespace", "metadata": {}, "status": {}}
    assert status_in_annotation(other) is other
