"""Joining the fleet and leaving it."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, NAMESPACE, WORK
from scorer.api.names import ACCEPT_OLDER_UNTIL, HUB_UID, WORK_CLEANUP
from scorer.api.unstructured.documents import with_metadata
from scorer.membership.identity import IDENTITY_ACCEPTED
from tests.waiting import PATIENCE_SECONDS, until
from tests.webhook.counted_store import CountedStore
from webhook.kube.ports import Key, NotFoundError, UnavailableError
from webhook.member.membership.controller import Membership, Rhythm, has_left
from webhook.member.membership.heartbeat import HeartbeatFigures
from webhook.member.membership.hub_state import HubMemberState
from webhook.member.membership.registration import CONFIG_MAP, RECORD, Registration

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPACE = "fleet-member-berlin"
KEY = Key("berlin", SPACE)
RECORD_KEY = Key(RECORD, "harbormaster-system")


class World:
    """A hub, and an agent whose waits end only when the test says so."""

    def __init__(self):
        self.hub = CountedStore.open(None, now=lambda: NOW)
        self.clock = 0.0
        self.waits = []
        self.applying = 0
        self.collected = 0
        self.beats = []
        self.down = False
        self.applied_for = None
        self.rested = asyncio.Event()
        self.due = asyncio.Event()
        self.cluster = CountedStore.open(None, now=lambda: NOW)
        self.cluster_down = False
        self.take_over = False
        self.membership = self.agent()

    def agent(self):
        """Return an agent that has just started."""
        registration = Registration("berlin", self.cluster, self.home, take_over=self.take_over)
        return Membership(
            "berlin",
            self,
            self.collect,
            self.apply,
            registration,
            rhythm=Rhythm(lambda: NOW, clock=lambda: self.clock, wait=self.wait, jitter=lambda: 0.0),
            beaten=self.beats.append,
        )

    def __getattr__(self, name):
        return getattr(self.hub, name)

    async def get(self, kind, key):
        if self.down:
            raise UnavailableError("down")
        return await self.hub.get(kind, key)

    async def collect(self):
        self.collected += 1
        return HeartbeatFigures(properties={"kubernetes-fleet.io/node-count": "1"})

    async def home(self):
        if self.cluster_down:
            raise UnavailableError("the cluster is down")
        return "harbormaster-system"

    async def apply(self, hub):
        self.applied_for = hub
        self.applying += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.applying -= 1

    async def wait(self, news, seconds):
        self.waits.append(seconds)
        self.rested.set()
        woken = asyncio.create_task(news.wait())
        due = asyncio.create_task(self.due.wait())
        await asyncio.wait((woken, due), return_when=asyncio.FIRST_COMPLETED)
        for task in (woken, due):
            task.cancel()
        self.due.clear()

    async def rest(self):
        """Wait until the agent has nothing to do."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                self.rested.clear()
                for _ in range(200):
                    await asyncio.sleep(0)
                if not (self.rested.is_set() or self.hub.writing or self.cluster.writing):
                    return

    async def pass_time(self, seconds):
        self.clock += seconds
        self.due.set()
        await self.rest()

    async def say(self, state, period=60):
        spec = {"state": state, "heartbeatPeriodSeconds": period}
        try:
            document = await self.hub.get(INTERNAL_MEMBER_CLUSTER, KEY)
            await self.hub.replace(INTERNAL_MEMBER_CLUSTER, {**document, "spec": spec})
        except NotFoundError:
            metadata = {"name": KEY.name, "namespace": SPACE}
            kind = INTERNAL_MEMBER_CLUSTER
            document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
            await self.hub.create(kind, document)
        await self.rest()

    async def is_hub(self, uid):
        """Have the loop write down which hub it is."""
        document = await self.hub.get(INTERNAL_MEMBER_CLUSTER, KEY)
        metadata = {**document["metadata"], "annotations": {HUB_UID: uid}}
        await self.hub.replace(INTERNAL_MEMBER_CLUSTER, {**document, "metadata": metadata})
        await self.rest()

    async def recorded(self):
        """Return whose the cluster is, None when that is not written down."""
        try:
            return (await self.cluster.get(CONFIG_MAP, RECORD_KEY))["data"] or None
        except NotFoundError:
            return None

    async def record(self, hub, member):
        """Have an agent of another hub, or of another member, have joined before."""
        metadata = {"name": RECORD, "namespace": RECORD_KEY.namespace}
        data = {"hub": hub, "member": member}
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        await self.cluster.create(CONFIG_MAP, document)

    async def identity(self):
        """Return what the hub is told about the cluster."""
        document = await self.hub.get(INTERNAL_MEMBER_CLUSTER, KEY)
        conditions = (document.get("status") or {}).get("conditions") or ()
        return next(
            ((each["status"], each["reason"]) for each in conditions if each["type"] == IDENTITY_ACCEPTED), None
        )

    async def joined(self):
        document = await self.hub.get(INTERNAL_MEMBER_CLUSTER, KEY)
        agents = (document.get("status") or {}).get("agentStatus")
        return None if not agents else agents[0]["conditions"][0]["status"]

    @asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.membership.run())
        await self.rest()
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()


@pytest.fixture
async def world():
    made = World()
    await made.hub.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "harbormaster-system"}}
    await made.cluster.create(NAMESPACE, home)
    yield made
    made.hub.close()
    made.cluster.close()


async def put_work(world, name):
    metadata = {"name": name, "namespace": SPACE, "finalizers": [WORK_CLEANUP, "example.com/other"]}
    document = {"apiVersion": WORK.api_version, "kind": "Work", "metadata": metadata, "spec": {}}
    return await world.hub.create(WORK, document)


async def test_it_waits_until_the_hub_wants_it(world, caplog):
    async with world.running():
        assert (world.waits[-1], world.applying, world.collected) == (None, 0, 0)
        await world.say("Join")
        assert await world.joined() == "True"
        assert (world.applying, world.collected) == (1, 1)
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "waiting for the hub to admit this cluster"
    ]
    assert world.applying == 0


async def test_a_heartbeat_each_period(world):
    await world.say("Join", 60)
    async with world.running():
        assert (world.collected, world.waits[-1]) == (1, 60)
        await world.pass_time(59)
        assert (world.collected, world.waits[-1]) == (1, 1)
        await world.pass_time(1)
        assert (world.collected, world.waits[-1]) == (2, 60)
        await world.say("Join", 5)
        assert (world.collected, world.waits[-1]) == (3, 5)
    assert world.beats == [True] * 3


async def test_a_heartbeat_that_does_not_get_through_is_tried_again_soon(world):
    await world.say("Join", 60)
    async with world.running():
        world.down = True
        await world.pass_time(60)
        waits = []
        for _ in range(7):
            waits.append(world.waits[-1])
            await world.pass_time(waits[-1])
        assert waits == [0.5, 1, 2, 5, 10, 10, 10]
        assert world.applying == 1
        assert (world.membership.problem, world.membership.undelivered) == ("", "heartbeat not delivered: down")
        world.down = False
        await world.pass_time(10)
        assert not world.membership.undelivered
        assert world.waits[-1] == 60
    assert world.beats[0] is True
    assert set(world.beats[1:-1]) == {False}
    assert world.beats[-1] is True


async def test_leaving_lets_go_of_the_works_says_so_and_is_quiet(world):
    await world.say("Join")
    async with world.running():
        await put_work(world, "shop")
        await world.say("Leave")
        assert world.applying == 0
        assert await world.joined() == "False"
        assert (await world.hub.get(WORK, Key("shop", SPACE)))["metadata"]["finalizers"] == ["example.com/other"]
        before = await world.hub.get(INTERNAL_MEMBER_CLUSTER, KEY)
        assert has_left(before)
        assert world.waits[-1] is None
        await world.pass_time(10_000)
        assert await world.hub.get(INTERNAL_MEMBER_CLUSTER, KEY) == before
        assert (await world.membership.hub_state()).leaving
        await world.say("Join")
        assert (world.applying, await world.joined()) == (1, "True")
        assert not (await world.membership.hub_state()).leaving


async def test_started_again_after_it_has_left_it_says_nothing_more(world):
    await world.say("Leave")
    async with world.running():
        pass
    before = await world.hub.get(INTERNAL_MEMBER_CLUSTER, KEY)
    assert await world.joined() == "False"
    async with world.running():
        assert world.collected == 1
    assert await world.hub.get(INTERNAL_MEMBER_CLUSTER, KEY) == before


async def test_a_farewell_that_does_not_get_through_is_repeated(world):
    await world.say("Join")
    async with world.running():
        world.down = True
        await world.say("Leave")
        assert (world.waits[-1], world.applying) == (0.5, 0)
        world.down = False
        await world.pass_time(0.5)
        assert (await world.joined(), world.waits[-1]) == ("False", None)


async def test_without_word_of_it_nothing_is_applied_any_more(world):
    await world.say("Join")
    async with world.running():
        await world.hub.delete(INTERNAL_MEMBER_CLUSTER, KEY)
        await world.rest()
        assert (world.applying, world.waits[-1]) == (0, None)
        assert (await world.membership.hub_state()).leaving


async def test_another_member_is_none_of_its_business(world):
    async with world.running():
        metadata = {"name": "other", "namespace": SPACE}
        kind = INTERNAL_MEMBER_CLUSTER
        spec = {"state": "Join"}
        await world.hub.create(
            kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
        )
        await world.rest()
        assert world.applying == 0


async def test_a_member_whose_last_report_is_not_delivered_says_so_until_it_is(world):
    await world.say("Join")
    async with world.running():
        world.down = True
        await world.say("Leave")
        await world.pass_time(0.5)
        assert world.membership.undelivered == "last report not delivered: down"
        world.down = False
        await world.pass_time(1)
        assert (await world.joined(), world.membership.undelivered) == ("False", "")


async def test_joining_writes_down_whose_the_cluster_is_and_leaving_takes_that_away(world):
    await world.say("Join")
    async with world.running():
        assert (world.applying, await world.recorded()) == (1, {"hub": "", "member": "berlin"})
        await world.is_hub("hub-1")
        await until(lambda: (world.applying, world.applied_for) == (1, "hub-1"))
        assert await world.recorded() == {"hub": "hub-1", "member": "berlin"}
        await world.say("Leave")
        assert (await world.joined(), await world.recorded()) == ("False", None)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(("hub-1", "paris"), id="another-member"),
        pytest.param(("hub-2", "berlin"), id="another-hub"),
        pytest.param(("", "paris"), id="another-member-of-a-hub-that-says-nothing"),
    ],
)
async def test_a_cluster_that_is_anothers_is_not_joined_until_it_is_taken_over(world, caplog, other):
    await world.record(*other)
    await world.say("Join")
    await world.is_hub("hub-1")
    async with world.running():
        assert (world.applying, world.collected, await world.joined()) == (0, 0, None)
        assert await world.identity() == ("False", "ClusterOfAnother")
        assert f"member {other[1]} of" in world.membership.refused
        before = await world.hub.get(INTERNAL_MEMBER_CLUSTER, KEY)
        await world.pass_time(10)
        assert await world.hub.get(INTERNAL_MEMBER_CLUSTER, KEY) == before
    assert len([each for each in caplog.records if "--take-over" in getattr(each, "reason", "")]) == 1
    assert await world.recorded() == {"hub": other[0], "member": other[1]}
    world.take_over, world.membership = True, None
    world.membership = world.agent()
    async with world.running():
        assert (world.applying, world.membership.refused) == (1, "")
        assert await world.identity() == ("True", "Recorded")
        assert await world.recorded() == {"hub": "hub-1", "member": "berlin"}


async def test_an_agent_whose_cluster_is_taken_over_stops_with_the_next_heartbeat(world):
    await world.say("Join", 60)
    async with world.running():
        record = await world.cluster.get(CONFIG_MAP, RECORD_KEY)
        await world.cluster.replace(CONFIG_MAP, {**record, "data": {"hub": "", "member": "paris"}})
        await world.pass_time(60)
        assert (world.applying, world.collected) == (0, 1)
        assert await world.identity() == ("False", "ClusterOfAnother")
        await world.say("Leave")
        assert await world.recorded() == {"hub": "", "member": "paris"}


async def test_a_note_that_was_deleted_is_written_again(world):
    await world.say("Join", 60)
    async with world.running():
        await world.cluster.delete(CONFIG_MAP, RECORD_KEY)
        await world.pass_time(60)
        assert (world.applying, await world.recorded()) == (1, {"hub": "", "member": "berlin"})


async def test_a_cluster_that_does_not_answer_keeps_a_member_but_makes_none(world):
    world.cluster_down = True
    await world.say("Join", 60)
    async with world.running():
        assert (world.applying, world.membership.refused) == (0, "the cluster is down")
        assert await world.identity() == ("False", "NotRecorded")
        world.cluster_down = False
        await world.pass_time(0.5)
        assert (world.applying, await world.identity()) == (1, ("True", "Recorded"))
        world.cluster_down = True
        await world.pass_time(60)
        assert (world.applying, world.collected, world.membership.refused) == (1, 2, "")


async def test_a_cluster_that_is_gone_does_not_keep_its_member_from_leaving(world):
    await world.say("Join")
    async with world.running():
        world.cluster_down = True
        await world.say("Leave")
        for seconds in (0.5, 1, 2, 5):
            await world.pass_time(seconds)
        assert await world.joined() == "False"


async def test_attempts_before_the_member_joined_again_do_not_count(world):
    await world.say("Join")
    async with world.running():
        for seconds in ((0.5, 1, 2), (0.5,)):
            world.cluster_down = True
            await world.say("Leave")
            for pause in seconds:
                await world.pass_time(pause)
            assert await world.joined() == "True"
            world.cluster_down = False
            await world.say("Join")
            await world.pass_time(60)


async def test_failed_heartbeats_do_not_count_as_attempts_to_release_the_cluster(world):
    await world.say("Join")
    async with world.running():
        world.down = True
        for seconds in (60, 0.5, 1, 2, 5):
            await world.pass_time(seconds)
        world.down, world.cluster_down = False, True
        await world.say("Leave")
        assert await world.joined() == "True"
        world.cluster_down = False
        await world.pass_time(10)
        assert (await world.joined(), await world.recorded()) == ("False", None)


@pytest.mark.parametrize(
    ("going", "until", "word"),
    [
        (False, "", HubMemberState()),
        (True, "", HubMemberState(leaving=True)),
        (False, "2026-03-01T12:00:01Z", HubMemberState(accepts_older=True)),
        (False, "2026-03-01T12:00:00Z", HubMemberState()),
        (False, "yes", HubMemberState()),
    ],
)
async def test_what_the_hub_says_of_a_member(world, going, until, word):
    await world.say("Join")
    document = await world.hub.get(INTERNAL_MEMBER_CLUSTER, KEY)
    await world.hub.replace(INTERNAL_MEMBER_CLUSTER, with_metadata(document, annotations={ACCEPT_OLDER_UNTIL: until}))
    if going:
        space = await world.hub.get(NAMESPACE, Key(SPACE))
        held = {**space["metadata"], "finalizers": ["example.com/hold"]}
        await world.hub.replace(NAMESPACE, {**space, "metadata": held})
        await world.hub.delete(NAMESPACE, Key(SPACE))
    assert await world.membership.hub_state() == word


async def test_a_hub_that_does_not_answer_says_nothing(world):
    await world.say("Join")
    world.down = True
    with pytest.raises(UnavailableError):
        await world.membership.hub_state()
