"""Evictions of members that something else disrupts: they wait, say for what, and go on by themselves."""

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from scorer.api.kinds import BINDING, EVICTION, KINDS, LEASE, UPGRADE_RUN
from scorer.api.names import PARENT_PLACEMENT
from scorer.member_gate.holds import MemberDisruption
from scorer.reservations import MEMBER, Reservation, reservation_id
from tests.builders.placement import make_placement
from tests.virtual_time import loop_now
from tests.webhook.controllers.by_hand import CrashError, life, opened
from tests.webhook.controllers.placements.evictions_of_web import (
    EXECUTED,
    INVALID,
    NOT_EXECUTED,
    VALID,
    add_binding,
    add_budget,
    add_eviction,
    add_placement,
    conditions,
    is_going,
)
from tests.webhook.controllers.placements.reserved_members import (
    NAMESPACE_OF_OURS,
    NOW,
    add_namespace,
    reserved,
    set_upgrade,
)
from tests.webhook.controllers.world import make_member, pick_n, running
from tests.webhook.gate.gates import Tool
from webhook.controllers.members.reservations import IDENTITY, LASTS, RESERVATION_POLL_INTERVAL, MemberReservations
from webhook.controllers.placements.evictions import EvictionController
from webhook.gate.errors import MemberHeldError
from webhook.gate.holds import HubMemberHolds
from webhook.gate.reservations import LeaseReservations
from webhook.kube.cache import hub as hub_module
from webhook.kube.ports import Key

CACHED = (EVICTION, BINDING, UPGRADE_RUN)
GATED = (MemberDisruption.EVICTION, MemberDisruption.UPGRADE)
EVENT = KINDS["events.k8s.io", "Event"]


@pytest.fixture(autouse=True, scope="module")
def _statuses_are_stored_at_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hub_module, "STATUS_DELAY_SECONDS", 0.0)
        yield


@pytest.fixture
async def store():
    with opened() as store:
        await add_namespace(store)
        yield store


class Gate:
    """What one process knows of the gate, and what it tells."""

    def __init__(self, process, gated=GATED):
        self.now = NOW
        self.told = []
        self.reservations = LeaseReservations(process.store, NAMESPACE_OF_OURS, lambda: self.now)
        self.holds = HubMemberHolds(process.cache, gated, self.reservations.cached)
        turns = MemberReservations(MemberDisruption.EVICTION, self.holds, self.reservations, lambda: self.now)
        self.controller = EvictionController(
            process.hub, lambda: self.now, turns, lambda _, event: self.told.append((event.reason, event.message))
        )

    async def hear(self, store):
        """Take in the reservations as they are stored now."""
        listing = await store.list(LEASE)
        self.reservations._cache.of_kind(LEASE).replace_all(listing.items, listing.resource_version)


async def message_of(store, name):
    stored = await store.get(EVICTION, Key(name))
    return stored["status"]["conditions"][0]["message"]


async def test_an_eviction_reserves_its_member_until_the_binding_is_gone(store):
    await add_placement(store)
    await add_binding(store, "a")
    name = await add_eviction(store, "a")
    async with life(store, *CACHED) as process:
        gate = Gate(process)
        assert (await gate.controller.reconcile(name)).requeue_after == RESERVATION_POLL_INTERVAL
        await process.settle()
        assert await conditions(store, name) == [VALID, EXECUTED]
        assert (await reserved(store))["a"] == ["eviction/off-a"]
        (hold,) = gate.holds.active_disruptions("a")
        assert hold.message == "eviction off-a is removing placement web from member a"
        before = store.resource_version
        await gate.controller.reconcile(name)
        assert store.resource_version == before

        gone = process.cache.get(BINDING, "web-a")
        await process.hub.replace(BINDING, {**gone, "metadata": {**gone["metadata"], "finalizers": []}})
        await process.hear()
        assert (await gate.controller.reconcile(name)).requeue_after is None
        assert (await store.list(LEASE)).items == ()
        assert gate.holds.of("a") == ()
        before = store.resource_version
        await gate.controller.reconcile(name)
        assert store.resource_version == before


async def test_an_eviction_costs_two_leases_writes_more(store):
    await add_placement(store)
    await add_binding(store, "a", held=False)
    name = await add_eviction(store, "a")
    async with life(store, *CACHED) as process:
        written = []

        async def note(verb, kind, _subject):
            written.append((verb, kind.kind))

        process.store.before_write = note
        await Gate(process).controller.reconcile(name)
    assert [verb for verb, kind in written if kind == "Lease"] == ["create", "delete"]
    assert [kind for _, kind in written if kind != "Lease"] == [EVICTION.kind, BINDING.kind, BINDING.kind]


async def test_it_waits_while_the_member_is_upgraded_and_goes_on_afterwards(store):
    await add_placement(store)
    await add_binding(store, "a")
    await set_upgrade(store, a="Running", b="Pending")
    name = await add_eviction(store, "a")
    async with life(store, *CACHED) as process:
        gate = Gate(process)
        assert (await gate.controller.reconcile(name)).requeue_after == RESERVATION_POLL_INTERVAL
        await process.settle()
        assert await conditions(store, name) == [VALID]
        said = "waits: member a is being upgraded by run v131"
        assert await message_of(store, name) == f"the eviction is allowed, but {said}"
        assert gate.told == [("EvictionWaits", said)]
        assert not await is_going(store, "web-a")
        assert (await store.list(LEASE)).items == ()

        before = store.resource_version
        gate.now += timedelta(hours=1)
        await gate.controller.reconcile(name)
        await process.settle()
        assert store.resource_version == before
        assert len(gate.told) == 1

        await set_upgrade(store, a="Completed", b="Running")
        await process.hear()
        await gate.controller.reconcile(name)
        await process.settle()
    assert await conditions(store, name) == [VALID, EXECUTED]
    assert await is_going(store, "web-a")


@pytest.mark.parametrize(
    ("purpose", "waits"), [("Upgrade", True), ("Rollout", True), ("Repainting", True), ("Eviction", False)]
)
async def test_it_waits_for_what_somebody_has_reserved_for_something_else(store, purpose, waits):
    await add_placement(store)
    await add_binding(store, "a")
    name = await add_eviction(store, "a")
    async with life(store, *CACHED) as process:
        gate = Gate(process)
        mine = Reservation(
            reservation_id(MEMBER, "a", "x"),
            "tool",
            "ann",
            MEMBER,
            ("a",),
            NOW + timedelta(minutes=1),
            {"kind": purpose},
        )
        await gate.reservations.change(MEMBER, "a", lambda held: (*held, mine))
        await gate.controller.reconcile(name)
        assert await is_going(store, "web-a") is not waits
        await process.settle()
        gate.now = mine.expires
        await gate.controller.reconcile(name)
        assert await is_going(store, "web-a")


@pytest.mark.parametrize(("placement", "waits"), [("web", False), ("other", True)])
async def test_it_waits_for_rollouts_of_other_placements_and_not_of_its_own(store, placement, waits):
    """Its own, which may hang, ends with it."""
    await add_placement(store)
    await add_binding(store, "a", health="available" if waits else "rolling")
    name = await add_eviction(store, "a")
    rolling = await store.create(
        BINDING,
        {
            "apiVersion": BINDING.api_version,
            "kind": BINDING.kind,
            "metadata": {"name": f"{placement}-rolling", "labels": {PARENT_PLACEMENT: placement}},
            "spec": {"state": "Bound", "targetCluster": "b" if placement == "web" else "a"},
        },
    )
    for binding in (rolling, *(() if waits else [await store.get(BINDING, Key("web-a"))])):
        started = {"type": "RolloutStarted", "status": "True", "observedGeneration": 1}
        await store.replace_status(BINDING, {**binding, "status": {"conditions": [started]}})
    async with life(store, *CACHED) as process:
        gate = Gate(process, (*GATED, MemberDisruption.ROLLOUT))
        assert [hold.by for hold in gate.holds.active_disruptions("a")] == [f"rollout/crp/{placement}"]
        await gate.controller.reconcile(name)
        assert await is_going(store, "web-a") is not waits


@pytest.mark.parametrize(
    ("kind", "limits", "wanted"),
    [("PickFixed", {}, [INVALID]), ("PickN", {"minAvailable": "100%"}, [VALID, NOT_EXECUTED])],
)
async def test_what_would_not_be_executed_anyway_waits_for_nothing(store, kind, limits, wanted):
    await add_placement(store, kind)
    await add_binding(store, "a")
    if limits:
        await add_budget(store, **limits)
    await set_upgrade(store, a="Running")
    name = await add_eviction(store, "a")
    async with life(store, *CACHED) as process:
        await Gate(process).controller.reconcile(name)
        await process.settle()
        assert await conditions(store, name) == wanted
        assert (await store.list(LEASE)).items == ()


async def test_a_lease_that_cannot_be_read_holds_the_member(store):
    await add_placement(store)
    await add_binding(store, "a")
    name = await add_eviction(store, "a")
    async with life(store, *CACHED) as process:
        gate = Gate(process)
        mine = Reservation(
            reservation_id(MEMBER, "a", "x"), "t", "ann", MEMBER, ("a",), NOW + LASTS, {"kind": "Upgrade"}
        )
        await gate.reservations.change(MEMBER, "a", lambda _: (mine,))
        (lease,) = (await store.list(LEASE)).items
        await store.replace(
            LEASE,
            {
                **lease,
                "metadata": {
                    **lease["metadata"],
                    "annotations": {**lease["metadata"]["annotations"], "harbormaster.dev/reservations": "?"},
                },
            },
        )
        await gate.controller.reconcile(name)
        await process.settle()
        assert "cannot be reserved: the Lease" in await message_of(store, name)
        assert await conditions(store, name) == [VALID]
    assert not await is_going(store, "web-a")


async def test_a_reservation_is_renewed_when_half_of_it_is_over(store):
    await add_placement(store)
    await add_binding(store, "a")
    name = await add_eviction(store, "a")
    async with life(store, *CACHED) as process:
        gate = Gate(process)
        await gate.controller.reconcile(name)
        await process.settle()
        for minutes, renewed in ((1, False), (2, False), (3, True), (4, False), (6, True)):
            gate.now = NOW + timedelta(minutes=minutes)
            before = store.resource_version
            await gate.controller.reconcile(name)
            assert (store.resource_version != before) is renewed
        (mine,) = gate.reservations.cached(MEMBER, "a")
        assert (mine.identity, mine.expires) == (IDENTITY, gate.now + LASTS)


async def test_an_eviction_that_is_withdrawn_gives_its_member_back(store):
    await add_placement(store)
    await add_binding(store, "a")
    name = await add_eviction(store, "a")
    async with life(store, *CACHED) as process:
        gate = Gate(process)

        async def withdraw(_verb, kind, _subject):
            if kind == EVICTION:
                await store.delete(EVICTION, Key(name))

        process.store.before_write = withdraw
        await gate.controller.reconcile(name)
        assert not await is_going(store, "web-a")
        assert (await store.list(LEASE)).items == ()


async def test_an_answered_eviction_that_is_deleted_holds_its_member_to_the_end(store):
    await add_placement(store)
    await add_binding(store, "a")
    name = await add_eviction(store, "a")
    async with life(store, *CACHED) as process:
        gate = Gate(process)
        await gate.controller.reconcile(name)
        await process.settle()
        await store.delete(EVICTION, Key(name))
        await process.hear()
        assert (await gate.controller.reconcile(name)).requeue_after == RESERVATION_POLL_INTERVAL
        assert (await reserved(store))["a"] == ["eviction/off-a"]
        gone = process.cache.get(BINDING, "web-a")
        await process.hub.replace(BINDING, {**gone, "metadata": {**gone["metadata"], "finalizers": []}})
        await process.hear()
        await gate.controller.reconcile(name)
        assert (await store.list(LEASE)).items == ()


@pytest.mark.parametrize("lands", [False, True])
@pytest.mark.parametrize("writes", range(5))
async def test_a_crash_at_any_write_leaves_one_answer_and_no_reservation(store, writes, lands):
    await add_placement(store)
    await add_binding(store, "a", held=False)
    name = await add_eviction(store, "a")
    async with life(store, *CACHED) as process:
        process.store.writes_left, process.store.last_one_lands = writes, lands
        try:
            await Gate(process).controller.reconcile(name)
            await process.settle()
        except CrashError:
            pass
    async with life(store, *CACHED) as process:
        gate = Gate(process)
        await gate.hear(store)
        await gate.controller.reconcile(name)
        await process.settle()
    assert await conditions(store, name) == [VALID, EXECUTED]
    assert (await store.list(LEASE)).items == ()


async def test_an_upgrade_and_an_eviction_that_come_at_once_do_not_both_get_the_member(store):
    await add_placement(store)
    for turn in range(30):
        await add_binding(store, "a", name=f"web-a-{turn}", held=False)
        name = await add_eviction(store, "a", name=f"off-{turn}")
        async with life(store, *CACHED) as process:
            gate = Gate(process)
            tool = Tool(process.store, lambda: NOW)
            both = []

            async def watch(verb, kind, _subject, both=both, tool=tool):
                if (verb, kind) == ("delete", BINDING):
                    stored = await reserved(store)
                    both.append([holder for holder in stored["a"] if not holder.startswith("eviction/")])

            process.store.before_write = watch
            doings = [gate.controller.reconcile(name), tool.hold("a")]
            results = await asyncio.gather(*(doings if turn % 2 else reversed(doings)), return_exceptions=True)
            assert all(not isinstance(each, Exception) or isinstance(each, MemberHeldError) for each in results)
            assert all(not holders for holders in both)
            await tool.give_back("a")
            for _ in range(2):
                await process.settle()  # a status that is still to be stored would be a conflict with a write of ours
                await gate.controller.reconcile(name)
        assert await conditions(store, name) == [VALID, EXECUTED]


@asynccontextmanager
async def gated_world():
    """A world whose loop has the gate."""
    async with running(gate_members=GATED) as world:
        for name in "ab":
            await world.add(make_member(name))
        await world.add(make_placement("web", pick_n(2)))
        await world.until(lambda: world.view("web")["state"] == "available")
        yield world


async def test_in_the_loop_an_eviction_goes_on_when_the_upgrade_is_over():
    async with gated_world() as world:
        uids = {each["metadata"]["uid"] for each in world.cache.list(BINDING)}
        await set_upgrade(world.store, a="Running")
        await world.until(lambda: bool(world.cache.list(UPGRADE_RUN)[0].get("status")))
        name = await add_eviction(world.store, "a")

        def said():
            eviction = world.cache.get(EVICTION, name) or {}
            return [each["type"] for each in (eviction.get("status") or {}).get("conditions") or ()]

        await world.until(lambda: said() == ["Valid"])
        assert {each["metadata"]["uid"] for each in world.cache.list(BINDING)} == uids
        notes = [each["note"] for each in world.store.objects(EVENT) if each["reason"] == "EvictionWaits"]
        assert notes == ["waits: member a is being upgraded by run v131"]

        await set_upgrade(world.store, a="Completed")
        await world.until(lambda: len(said()) == 2 and world.view("web")["available"] == 2)
        assert await conditions(world.store, name) == [VALID, EXECUTED]
        await world.until(lambda: not list(world.store.objects(LEASE)))
        assert len(uids & {each["metadata"]["uid"] for each in world.cache.list(BINDING)}) == 1


async def test_in_the_loop_an_eviction_goes_on_when_a_reservation_is_given_back():
    async with gated_world() as world:
        tool = Tool(world.store, loop_now)
        await tool.hold("a", 600)
        name = await add_eviction(world.store, "a")
        await world.until(lambda: bool((world.cache.get(EVICTION, name) or {}).get("status")))
        assert await message_of(world.store, name) == (
            "the eviction is allowed, but waits: member a is reserved for Upgrade by tool"
        )
        await tool.give_back("a")
        await world.until(lambda: not list(world.store.objects(LEASE)) and world.view("web")["available"] == 2)
        assert await conditions(world.store, name) == [VALID, EXECUTED]
