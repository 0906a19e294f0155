"""The Works of one member, from the watch to their objects and back."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from scorer.api.kinds import APPLIED_WORK, EVENT, KINDS, NAMESPACE, WORK
from scorer.api.names import ABANDON, HUB_UID, RELEASED, REMOVE, WORK_CLEANUP, WORK_OBJECTS
from scorer.api.unstructured.documents import with_metadata
from scorer.rollout.removal.marks import objects_digest, with_removal_mark
from scorer.rollout.selection.exclusions import MemberLimits
from tests.waiting import PATIENCE_SECONDS
from webhook.embedded.simulation.member_stores import ObservedStore
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import ConflictError, EventType, ForbiddenError, Key, NotFoundError, UnavailableError
from webhook.member.membership.hub_state import HubMemberState
from webhook.member.works import controller
from webhook.member.works.backoff import WorkOutcome
from webhook.member.works.controller import Applying, PassResult, Time

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPACE = "fleet-member-berlin"
CONFIG_MAP = KINDS["", "ConfigMap"]


class World:
    """A hub and a member; time moves when told to, or is as it is where that does not matter."""

    def __init__(self):
        self.time = START
        self.hub = EmbeddedStore.open(None, now=self.now)
        self.member = EmbeddedStore.open(None, now=self.now)
        self.moved = asyncio.Condition()
        self.leaves = False
        self.passes = []
        self.applying = Applying(
            SPACE,
            self.hub,
            ObservedStore(self.member),
            time=Time(self.now, self.now, self.sleep),
            read_hub_state=self.read_hub_state,
            count=self.passes.append,
        )

    def now(self):
        return self.time

    async def read_hub_state(self):
        return HubMemberState(leaving=self.leaves)

    async def sleep(self, seconds):
        until = self.time + timedelta(seconds=seconds)
        async with self.moved:
            await self.moved.wait_for(lambda: self.time >= until)

    async def pass_time(self, seconds, step=0.5):
        for _ in range(int(seconds / step)):
            async with self.moved:
                self.time += timedelta(seconds=step)
                self.moved.notify_all()
            await self.rest()

    async def rest(self):
        async with asyncio.timeout(PATIENCE_SECONDS):
            for _ in range(3):
                for _ in range(40):
                    await asyncio.sleep(0)
                while self.applying.busy:
                    await asyncio.sleep(0)

    async def place(self, name, *manifests, **spec):
        spec = {"workload": {"manifests": list(manifests)}, **spec}
        metadata = {"name": name, "namespace": SPACE, "annotations": {WORK_OBJECTS: objects_digest(manifests)}}
        work = {"apiVersion": WORK.api_version, "kind": "Work", "metadata": metadata, "spec": spec}
        await self.hub.create(WORK, work)
        await self.pass_time(1)

    async def order(self, name, **annotations):
        """Say on a Work that its content is to go, as the loop does before it deletes it."""
        work = await self.hub.get(WORK, Key(name, SPACE))
        await self.hub.replace(WORK, with_removal_mark(with_metadata(work, annotations=annotations)))

    async def vanish(self, name):
        """Let the hub delete a Work without asking its finalizers, as kube-apiserver does when one has just come."""
        key = Key(name, SPACE)
        work = await self.hub.get(WORK, key)
        assert work["metadata"]["finalizers"] == [WORK_CLEANUP]
        with self.hub._write() as write:
            write._record((WORK.group_kind, key), work, EventType.DELETED)

    async def release(self, name):
        """Take the finalizer off a Work and delete it, as the hub does when it gives a member up."""
        key = Key(name, SPACE)
        work = await self.hub.get(WORK, key)
        await self.hub.replace(WORK, {**work, "metadata": {**work["metadata"], "finalizers": []}})
        await self.hub.delete(WORK, key)

    async def data(self, name):
        try:
            return (await self.member.get(CONFIG_MAP, Key(name, "default")))["data"]
        except NotFoundError:
            return None


@pytest.fixture
async def world():
    made = World()
    for store, name in ((made.hub, SPACE), (made.member, "default")):
        await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    made.task = asyncio.create_task(made.applying.run())
    await made.rest()
    yield made
    made.task.cancel()
    await asyncio.wait([made.task])
    made.hub.close()
    made.member.close()


def config_map(name, **data):
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def test_a_work_is_applied_when_it_comes_and_undone_when_it_goes(world):
    await world.place("shop", config_map("cart", a="1"))
    assert await world.data("cart") == {"a": "1"}
    assert world.applying.works == 1
    work = await world.hub.get(WORK, Key("shop", SPACE))
    changed = {"workload": {"manifests": [config_map("cart", a="2")]}}
    await world.hub.replace(WORK, {**work, "spec": changed})
    await world.rest()
    assert await world.data("cart") == {"a": "2"}
    await world.order("shop")
    await world.hub.delete(WORK, Key("shop", SPACE))
    await world.pass_time(3)
    assert await world.data("cart") is None
    with pytest.raises(NotFoundError):
        await world.hub.get(WORK, Key("shop", SPACE))
    assert world.applying.works == 0


async def test_what_is_done_by_hand_is_undone_within_a_second(world):
    await world.place("shop", config_map("cart", a="1"))
    await world.pass_time(60)
    await world.member.delete(CONFIG_MAP, Key("cart", "default"))
    await world.rest()
    await world.pass_time(1)
    assert await world.data("cart") == {"a": "1"}
    await world.pass_time(60)
    live = await world.member.get(CONFIG_MAP, Key("cart", "default"))
    await world.member.replace(CONFIG_MAP, {**live, "data": {"a": "x"}})
    await world.rest()
    await world.pass_time(1)
    assert await world.data("cart") == {"a": "1"}


async def test_an_applied_work_deleted_by_hand_comes_back_and_its_objects_never_went(world):
    """Not even where nothing may be taken over: what was ours is given to the new one in the same pass."""
    strategy = {"whenToTakeOver": "Never"}
    await world.place("shop", config_map("cart", a="1"), config_map("till"), applyStrategy=strategy)
    await world.pass_time(60)
    before = {name: await world.member.get(CONFIG_MAP, Key(name, "default")) for name in ("cart", "till")}
    old = await world.member.get(APPLIED_WORK, Key("shop"))
    await world.member.delete(APPLIED_WORK, Key("shop"))
    await world.pass_time(3)
    new = await world.member.get(APPLIED_WORK, Key("shop"))
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    for name, known in before.items():
        live = await world.member.get(CONFIG_MAP, Key(name, "default"))
        assert (live["metadata"]["uid"], live["data"]) == (known["metadata"]["uid"], known["data"])
        assert [owner["uid"] for owner in live["metadata"]["ownerReferences"]] == [new["metadata"]["uid"]]
    work = await world.hub.get(WORK, Key("shop", SPACE))
    assert {found["status"] for found in work["status"]["conditions"]} == {"True"}
    assert "AppliedWorkMadeAnew" in {event["reason"] for event in (await world.member.list(EVENT)).items}
    await world.order("shop")
    await world.hub.delete(WORK, Key("shop", SPACE))
    await world.pass_time(3)
    assert (await world.data("cart"), await applied_works(world)) == (None, [])


async def test_an_applied_work_without_a_work_leaves_its_objects_when_it_is_deleted(world):
    """Its Work went without an order, and now somebody tidies up on the member."""
    await world.place("shop", config_map("cart", a="1"))
    await world.hub.delete(WORK, Key("shop", SPACE))
    await world.pass_time(5)
    assert await applied_works(world) == ["shop"]
    await world.member.delete(APPLIED_WORK, Key("shop"))
    await world.pass_time(3)
    assert await applied_works(world) == []
    live = await world.member.get(CONFIG_MAP, Key("cart", "default"))
    assert (live["data"], live["metadata"].get("ownerReferences")) == ({"a": "1"}, None)


async def test_an_applied_work_without_a_work_goes_with_its_objects_when_an_administrator_says_so_on_it(world):
    """As the Event tells that says that they stayed."""
    await world.place("shop", config_map("cart", a="1"))
    await world.hub.delete(WORK, Key("shop", SPACE))
    await world.pass_time(5)
    (event,) = (await world.member.list(EVENT)).items
    assert f"AppliedWork of this name on the member with {REMOVE}, set to the uid of the AppliedWork" in event["note"]
    await world.member.replace(APPLIED_WORK, with_removal_mark(await world.member.get(APPLIED_WORK, Key("shop"))))
    await world.member.delete(APPLIED_WORK, Key("shop"))
    await world.pass_time(3)
    assert (await applied_works(world), await world.data("cart")) == ([], None)


async def test_an_applied_work_that_went_while_nobody_looked_is_let_go_of_without_its_objects(world):
    await world.place("shop", config_map("cart", a="1"))
    await world.hub.delete(WORK, Key("shop", SPACE))
    await world.pass_time(5)
    world.task.cancel()
    await asyncio.wait([world.task])
    await world.member.delete(APPLIED_WORK, Key("shop"))
    assert (await world.member.get(APPLIED_WORK, Key("shop")))["metadata"]["deletionTimestamp"]
    world.task = asyncio.create_task(world.applying.run())
    await world.pass_time(3)
    assert (await applied_works(world), await world.data("cart")) == ([], {"a": "1"})


class Odd:
    """A store with some odd answers."""

    def __init__(self, store, **answers):
        self._store, self._answers = store, answers

    def __getattr__(self, name):
        return self._answers.get(name) or getattr(self._store, name)


async def restart(world, *, hub=None, member=None, while_away=None):
    """Let the agent be away for a while."""
    world.task.cancel()
    await asyncio.wait([world.task])
    await while_away()
    member = ObservedStore(world.member) if member is None else member
    world.applying = Applying(
        SPACE,
        hub or world.hub,
        member,
        time=Time(world.now, world.now, world.sleep),
        read_hub_state=world.read_hub_state,
    )
    world.task = asyncio.create_task(world.applying.run())
    await world.pass_time(2)


@pytest.mark.parametrize("ordered", [True, False], ids=["its-work-is-to-go", "its-work-stays"])
async def test_an_applied_work_that_goes_is_not_without_a_work_because_works_are_not_listed_yet(world, ordered):
    """The agent starts, and the hub takes its time."""
    await world.place("shop", config_map("cart", a="1"), applyStrategy={"whenToTakeOver": "Never"})
    listed = asyncio.Event()

    async def late(kind, *args):
        await listed.wait()
        return await world.hub.list(kind, *args)

    async def while_away():
        await world.member.delete(APPLIED_WORK, Key("shop"))
        if ordered:
            await world.order("shop")
            await world.hub.delete(WORK, Key("shop", SPACE))

    await restart(world, hub=Odd(world.hub, list=late), while_away=while_away)
    listed.set()
    await world.pass_time(30)
    if ordered:
        assert (await world.data("cart"), await applied_works(world)) == (None, [])
    else:
        work = await world.hub.get(WORK, Key("shop", SPACE))
        assert {found["status"] for found in work["status"]["conditions"]} == {"True"}


@pytest.mark.parametrize("fails", ["get", "list", "watch"])
async def test_an_applied_work_without_a_work_is_let_go_of_also_when_the_member_fails_for_a_moment(world, fails):
    await world.place("shop", config_map("cart", a="1"))
    await world.hub.delete(WORK, Key("shop", SPACE))
    await world.pass_time(5)
    broken, failures = asyncio.Event(), []
    store = ObservedStore(world.member)

    async def fail(kind, *args):
        if kind == APPLIED_WORK and not failures and broken.is_set():
            failures.append(fails)
            raise UnavailableError("down")
        return await getattr(store, fails)(kind, *args)

    async def fail_once(kind, *args):
        if kind != APPLIED_WORK or failures:
            async for event in store.watch(kind, *args):
                yield event
        else:
            await broken.wait()
            failures.append(fails)
            raise UnavailableError("down")

    async def while_away():
        if fails == "list":
            broken.set()
            await world.member.delete(APPLIED_WORK, Key("shop"))

    member = Odd(store, **{fails: fail_once if fails == "watch" else fail})
    await restart(world, member=member, while_away=while_away)
    if fails != "list":
        await world.member.delete(APPLIED_WORK, Key("shop"))
        broken.set()
    await world.pass_time(60)
    assert failures == [fails]
    assert (await applied_works(world), await world.data("cart")) == ([], {"a": "1"})


async def test_an_applied_work_that_was_going_before_its_work_went_without_an_order_is_let_go_of(world):
    await world.place("shop", config_map("cart", a="1"))

    async def while_away():
        await world.hub.delete(WORK, Key("shop", SPACE))
        await world.member.delete(APPLIED_WORK, Key("shop"))

    await restart(world, while_away=while_away)
    await world.pass_time(60)
    assert (await applied_works(world), await world.data("cart")) == ([], {"a": "1"})


async def test_at_rest_nothing_is_written_and_little_is_looked_at(world):
    for number in range(5):
        await world.place(f"work-{number}", *(config_map(f"m-{number}-{n}") for n in range(5)))
    await world.pass_time(30)
    versions = [(await store.list(kind)).items for store, kind in ((world.hub, WORK), (world.member, CONFIG_MAP))]
    world.passes.clear()
    await world.pass_time(60, step=1)
    assert [
        (await store.list(kind)).items for store, kind in ((world.hub, WORK), (world.member, CONFIG_MAP))
    ] == versions
    assert 0 < len(world.passes) <= 5 * 4
    assert set(world.passes) == {PassResult.DONE}


async def test_while_the_member_is_to_leave_nothing_is_removed(world):
    await world.place("shop", config_map("cart", a="1"))
    world.leaves = True
    await world.order("shop")
    await world.hub.delete(WORK, Key("shop", SPACE))
    await world.pass_time(5)
    assert await world.data("cart") == {"a": "1"}
    assert (await world.hub.get(WORK, Key("shop", SPACE)))["metadata"]["finalizers"] == [WORK_CLEANUP]


async def test_a_work_that_fails_is_tried_again_and_does_not_hold_up_the_others(world, monkeypatch, caplog):
    tries = []

    async def reconcile(key, *_, **__):
        if key.name == "bad":
            tries.append(world.time)
            raise [UnavailableError("down"), ConflictError("late"), ValueError("a mistake of ours")][len(tries) % 3]
        return WorkOutcome(1, "fine", settled=True)

    monkeypatch.setattr(controller, "reconcile_work", reconcile)
    await world.place("bad")
    await world.place("good")
    await world.pass_time(20)
    assert set(world.passes) == set(PassResult)
    assert len(tries) > 3
    waits = [(after - before).total_seconds() for before, after in pairwise(tries)]
    assert max(waits) <= 8
    assert "a mistake of ours" in caplog.text


async def test_a_work_that_only_seems_gone_is_looked_at_again(world, monkeypatch):
    """A hub that starts may say that it knows nothing of it."""
    seen = []

    async def reconcile(key, *_, **__):
        seen.append(key.name)
        return WorkOutcome(gone=True)

    monkeypatch.setattr(controller, "reconcile_work", reconcile)
    await world.place("shop")
    await world.pass_time(30)
    assert len(seen) >= 3


async def applied_works(world):
    return [item["metadata"]["name"] for item in (await world.member.list(APPLIED_WORK)).items]


async def test_what_a_work_that_went_without_asking_put_on_the_member_goes_after_it(world):
    await world.place("shop", config_map("cart", a="1"))
    await world.place("other", config_map("till", a="1"))
    await world.order("shop")
    await world.vanish("shop")
    await world.pass_time(3)
    assert (await world.data("cart"), await world.data("till")) == (None, {"a": "1"})
    assert await applied_works(world) == ["other"]
    assert world.applying.works == 1


async def test_a_work_that_vanishes_while_it_is_applied_leaves_nothing(world):
    """Its finalizer is on, its AppliedWork is made: then the hub says that there is no such Work."""
    make = world.member.create

    async def late(kind, document):
        if kind == APPLIED_WORK:
            await world.order("shop")
            await world.vanish("shop")
        return await make(kind, document)

    world.member.create = late
    await world.place("shop", config_map("cart", a="1"))
    await world.pass_time(5)
    assert await world.data("cart") is None
    assert await applied_works(world) == []


async def test_what_a_vanished_work_left_goes_when_the_member_answers_again(world, monkeypatch):
    await world.place("shop", config_map("cart", a="1"))

    async def away(*_, **__):
        raise UnavailableError("down")

    monkeypatch.setattr(world.member, "delete", away)
    await world.order("shop")
    await world.vanish("shop")
    await world.pass_time(5)
    assert await applied_works(world) == ["shop"]
    monkeypatch.undo()
    await world.pass_time(60)
    assert await applied_works(world) == []
    assert await world.data("cart") is None


async def test_what_a_vanished_work_left_stays_when_it_was_to_stay(world):
    await world.place("shop", config_map("cart", a="1"))
    await world.order("shop", **{ABANDON: "true"})
    await world.pass_time(1)
    await world.vanish("shop")
    await world.pass_time(3)
    assert await applied_works(world) == []
    assert await world.data("cart") == {"a": "1"}


async def test_what_a_vanished_work_left_is_taken_over_by_the_next_of_that_name(world):
    await world.place("shop", config_map("cart", a="1"), config_map("till"))
    before = await world.member.get(CONFIG_MAP, Key("cart", "default"))
    await world.vanish("shop")
    await world.place("shop", config_map("cart", a="1"))
    await world.pass_time(60)
    after = await world.member.get(CONFIG_MAP, Key("cart", "default"))
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert await world.data("till") is None
    assert await applied_works(world) == ["shop"]


async def test_what_was_placed_stays_when_the_work_was_released(world):
    """The hub gives up a member that does not answer; what runs there must not be touched by an agent that is late."""
    await world.place("shop", config_map("cart", a="1"))
    await world.release("shop")
    await world.pass_time(30)
    assert await world.data("cart") == {"a": "1"}
    assert await applied_works(world) == ["shop"]


async def test_what_was_placed_stays_when_the_work_vanished_while_the_member_leaves(world):
    await world.place("shop", config_map("cart", a="1"))
    world.leaves = True
    await world.order("shop")
    await world.vanish("shop")
    await world.pass_time(5)
    world.leaves = False
    await world.pass_time(30)
    assert await world.data("cart") == {"a": "1"}
    assert await applied_works(world) == ["shop"]


async def test_what_the_agent_leaves_alone_stays_when_its_work_vanished(world):
    """It was applied before the agent was told to leave it alone."""
    await world.place("shop", config_map("cart", a="1"))
    await world.order("shop")
    world.applying._limits = MemberLimits(blocked_namespaces=("*",))
    await world.vanish("shop")
    await world.pass_time(30)
    assert await world.data("cart") == {"a": "1"}
    assert await applied_works(world) == []


async def on_the_member(world):
    """Return the objects as they are, and what is written down about them; not, which Work was applied last."""
    books = (await world.member.list(APPLIED_WORK)).items
    return (await world.member.list(CONFIG_MAP)).items, [(book["metadata"]["uid"], book["status"]) for book in books]


@pytest.mark.parametrize("early", [False, True], ids=["marked", "early"])
async def test_a_work_that_goes_without_an_order_leaves_everything_as_it_is(world, early):
    """Somebody deletes Works by hand, or their definition, or a namespace; and then they come back."""
    await world.place("shop", config_map("cart", a="1"))
    before = await on_the_member(world)
    await (world.vanish("shop") if early else world.hub.delete(WORK, Key("shop", SPACE)))
    await world.pass_time(5)
    with pytest.raises(NotFoundError):
        await world.hub.get(WORK, Key("shop", SPACE))
    for store, kind in ((world.hub, "Work"), (world.member, "AppliedWork")):
        (event,) = (await store.list(EVENT)).items
        assert (event["reason"], event["regarding"]["kind"], event["type"]) == ("KeptWithoutOrder", kind, "Warning")
    await world.place("shop", config_map("cart", a="1"), applyStrategy={"whenToTakeOver": "Never"})
    await world.pass_time(30)
    assert await on_the_member(world) == before
    work = await world.hub.get(WORK, Key("shop", SPACE))
    assert [found["status"] for found in work["status"]["conditions"] if found["type"] == "Applied"] == ["True"]


async def test_the_order_for_another_work_is_none(world):
    """A Work that is restored or copied carries the order that its original was given."""
    await world.place("shop", config_map("cart", a="1"))
    work = await world.hub.get(WORK, Key("shop", SPACE))
    await world.hub.replace(WORK, with_metadata(work, annotations={REMOVE: "00000000-0000-4000-8000-000000000000"}))
    await world.hub.delete(WORK, Key("shop", SPACE))
    await world.pass_time(5)
    assert await world.data("cart") == {"a": "1"}


async def test_a_hub_that_does_not_say_whether_the_member_leaves_has_nothing_removed(world):
    async def silent():
        raise ForbiddenError("namespaces is forbidden")

    await world.place("shop", config_map("cart", a="1"))
    world.applying._read_hub_state = silent
    await world.order("shop")
    await world.hub.delete(WORK, Key("shop", SPACE))
    await world.pass_time(30)
    assert await world.data("cart") == {"a": "1"}
    assert (await world.hub.get(WORK, Key("shop", SPACE)))["metadata"]["finalizers"] == [WORK_CLEANUP]


async def test_an_applied_work_counts_as_without_work_half_a_minute_after_it_was_found(world):
    await world.place("shop", config_map("cart", a="1"), config_map("till", a="1"))
    await world.place("desk", config_map("lamp", a="1"))
    assert world.applying.without_work() == {}
    await world.hub.delete(WORK, Key("shop", SPACE))  # without the order to remove what it placed
    await world.pass_time(5)
    assert world.applying.without_work() is None
    await world.pass_time(29)
    assert world.applying.without_work() is None
    await world.pass_time(2)
    assert world.applying.without_work() == {"shop": 2}
    applied = await world.member.get(APPLIED_WORK, Key("shop"))
    await world.member.replace(APPLIED_WORK, with_removal_mark(applied))
    await world.member.delete(APPLIED_WORK, Key("shop"))
    await world.pass_time(5)
    assert world.applying.without_work() == {}
    assert await world.data("cart") is None
    assert await world.data("lamp") == {"a": "1"}


async def test_an_applied_work_whose_work_comes_back_has_one(world):
    await world.place("shop", config_map("cart", a="1"))
    await world.hub.delete(WORK, Key("shop", SPACE))
    await world.pass_time(1)
    assert world.applying.without_work() is None
    await world.pass_time(31)
    assert world.applying.without_work() == {"shop": 1}
    await world.place("shop", config_map("cart", a="1"))
    assert world.applying.without_work() == {}


async def test_applied_works_of_others_or_of_a_hub_that_does_not_answer_do_not_count(world):
    await world.place("shop", config_map("cart", a="1"))
    for name, space, annotations in (
        ("theirs", "fleet-member-paris", {}),
        ("left", SPACE, {RELEASED: "true"}),
        ("other-hub", SPACE, {HUB_UID: "hub-2"}),
    ):
        metadata = {"name": name, "annotations": annotations}
        document = {"apiVersion": APPLIED_WORK.api_version, "kind": APPLIED_WORK.kind, "metadata": metadata}
        await world.member.create(APPLIED_WORK, {**document, "spec": {"workName": name, "workNamespace": space}})
    await world.pass_time(1)
    assert world.applying.without_work() == {}
    await world.pass_time(31)
    assert world.applying.without_work() == {}
    world.applying.failed(UnavailableError("the hub is away"))
    assert world.applying.without_work() is None
