"""Reservations on Leases: one change after the other whoever makes it, and nothing decided from an old state."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.kinds import LEASE, NAMESPACE
from scorer.reservations import (
    RESERVATIONS,
    Reservation,
    Thing,
    UnreadableReservationsError,
    lease_name,
    new_lease,
    read_reservations,
    reservation_id,
    with_reservations,
)
from tests.waiting import until
from webhook.embedded.storage.store import EmbeddedStore
from webhook.gate.reservations import BusyError, LeaseReservations
from webhook.kube.ports import ConflictError, ForbiddenError, Key, NotFoundError, UnavailableError

NAMESPACE_NAME = "harbor"
POOL = ("disruption", "batch")
KEY = Key(lease_name(*POOL), NAMESPACE_NAME)


class Clock:
    def __init__(self):
        self.at = datetime(2026, 6, 10, 4, 0, tzinfo=UTC)

    def __call__(self):
        return self.at

    def pass_by(self, seconds):
        self.at += timedelta(seconds=seconds)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def store():
    opened = EmbeddedStore.open(None)
    for name in (NAMESPACE_NAME, "elsewhere"):
        await opened.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield opened
    opened.close()


@asynccontextmanager
async def following(store, clock):
    """Yield reservations whose watch is running and has listed everything."""
    reservations = LeaseReservations(store, NAMESPACE_NAME, clock)
    running = asyncio.create_task(reservations.run())
    await until(lambda: reservations.synced)
    yield reservations
    running.cancel()
    await asyncio.wait([running])


def entry(clock, name, seconds=60):
    identifier = reservation_id(*POOL, name)
    return Reservation(identifier, "patcher", "ops", "disruption", (name,), clock() + timedelta(seconds=seconds))


def adding(one):
    return lambda held: (*held, one)


async def test_what_one_replica_reserves_the_others_see(store, clock):
    one = entry(clock, "n1")
    async with following(store, clock) as first, following(store, clock) as second:
        assert await first.change(*POOL, adding(one)) == (one,)
        assert first.cached(*POOL) == (one,)
        await until(lambda: second.cached(*POOL) == (one,))


async def test_changes_at_once_lose_nothing(store, clock):
    """However many replicas add at once, everything that was added is there, and each saw all before it."""
    replicas = [LeaseReservations(store, NAMESPACE_NAME, clock) for _ in range(4)]
    seen = []

    def adding_and_noting(one):
        def decide(held):
            noted.append(len(held))
            return (*held, one)

        noted = []
        seen.append(noted)
        return decide

    await asyncio.gather(
        *(replicas[turn % 4].change(*POOL, adding_and_noting(entry(clock, f"n{turn}"))) for turn in range(24))
    )
    assert sorted(noted[-1] for noted in seen) == list(range(24))
    held = await replicas[0].change(*POOL, lambda held: None)
    assert {each.granted for each in held} == {(f"n{turn}",) for turn in range(24)}


async def test_expired_entries_are_ignored_and_dropped_by_the_next_write(store, clock):
    reservations = LeaseReservations(store, NAMESPACE_NAME, clock)
    await reservations.change(*POOL, adding(entry(clock, "short", seconds=10)))
    clock.pass_by(10)
    assert reservations.cached(*POOL) == ()
    new = entry(clock, "n2")
    assert await reservations.change(*POOL, adding(new)) == (new,)
    assert "short" not in (await store.get(LEASE, KEY))["metadata"]["annotations"][RESERVATIONS]


async def test_a_lease_without_reservations_goes(store, clock):
    reservations = LeaseReservations(store, NAMESPACE_NAME, clock)
    await reservations.change(*POOL, adding(entry(clock, "n1")))
    assert await reservations.change(*POOL, lambda held: ()) == ()
    with pytest.raises(NotFoundError):
        await store.get(LEASE, KEY)
    assert reservations.cached(*POOL) == ()


async def test_nothing_is_written_where_nothing_is_decided(store, clock):
    reservations = LeaseReservations(store, NAMESPACE_NAME, clock)
    assert await reservations.change(*POOL, lambda held: None) == ()
    assert await reservations.change(*POOL, lambda held: ()) == ()
    with pytest.raises(NotFoundError):
        await store.get(LEASE, KEY)


async def test_what_has_expired_is_cleared_away_and_nothing_else(store, clock):
    async with following(store, clock) as reservations:
        await reservations.change("disruption", "old", adding(entry(clock, "n1", seconds=10)))
        await reservations.change("disruption", "new", adding(entry(clock, "n2", seconds=60)))
        clock.pass_by(10)
        await store.create(
            LEASE,
            {
                "apiVersion": LEASE.api_version,
                "kind": "Lease",
                "metadata": {"name": "loop", "namespace": NAMESPACE_NAME},
            },
        )
        await reservations.clear()
    names = {lease["metadata"]["name"] for lease in (await store.list(LEASE)).items}
    assert names == {lease_name("disruption", "new"), "loop"}


async def test_by_the_id_the_lease_is_found(store, clock):
    reservations = LeaseReservations(store, NAMESPACE_NAME, clock)
    one = entry(clock, "n1")
    await reservations.change(*POOL, adding(one))
    things = []

    def longer(thing, held):
        things.append(thing)
        return tuple(replace(each, expires=clock() + timedelta(seconds=300)) for each in held)

    held = await reservations.change_one(one.id, longer)
    assert (things, held[0].expires) == ([POOL], clock() + timedelta(seconds=300))
    assert await reservations.change_one(reservation_id("disruption", "other", "n1"), longer) == ()
    assert await reservations.change_one("nonsense", longer) == ()
    assert len(things) == 1


@pytest.mark.parametrize("text", ["[]x", "", "[{}]", "null"])
async def test_a_list_that_was_edited_by_hand_holds_everything(store, clock, text):
    async with following(store, clock) as reservations:
        lease = with_reservations(new_lease(Thing(*POOL), NAMESPACE_NAME), [])
        lease["metadata"]["annotations"][RESERVATIONS] = text
        stored = await store.create(LEASE, lease)
        await until(lambda: reservations._cache.get(LEASE, *KEY) is not None)
        with pytest.raises(UnreadableReservationsError, match="has reservations that cannot be read"):
            reservations.cached(*POOL)
        with pytest.raises(UnreadableReservationsError, match="has reservations that cannot be read"):
            await reservations.change(*POOL, adding(entry(clock, "n1")))
        await reservations.clear()
        assert await store.get(LEASE, KEY) == stored
        assert reservations.cached("disruption", "another pool") == ()


async def test_leases_of_other_namespaces_are_not_looked_at(store, clock):
    lease = with_reservations(new_lease(Thing(*POOL), "elsewhere"), [entry(clock, "n1")])
    await store.create(LEASE, lease)
    async with following(store, clock) as reservations:
        assert reservations.cached(*POOL) == ()
        assert reservations._cache.list(LEASE) == []


async def test_without_the_namespace_the_reason_is_said(store, clock):
    reservations = LeaseReservations(store, "nowhere", clock)
    with pytest.raises(UnavailableError, match="there is no namespace 'nowhere' for reservations"):
        await reservations.change(*POOL, adding(entry(clock, "n1")))
    assert reservations.cached(*POOL) == ()


class Faulty:
    """A store that fails as it is told, once per fault."""

    def __init__(self, store):
        self._store = store
        self.faults = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def create(self, kind, document):
        return await self._do(self._store.create(kind, document))

    async def replace(self, kind, document):
        return await self._do(self._store.replace(kind, document))

    async def _do(self, write):
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, Exception):
            write.close()
            raise fault
        stored = await write
        if fault == "stored, not answered":
            raise ConflictError("a repeated write met its own traces")
        return stored


@pytest.fixture
def faulty(store):
    return Faulty(store)


async def test_a_write_that_was_not_answered_is_found_by_the_next_attempt(faulty, clock):
    reservations = LeaseReservations(faulty, NAMESPACE_NAME, clock)
    faulty.faults = ["stored, not answered"]
    one = entry(clock, "n1")
    held = await reservations.change(*POOL, lambda held: None if one in held else (*held, one))
    assert held == (one,)


async def test_whoever_is_always_too_late_gives_up(faulty, clock, monkeypatch):
    monkeypatch.setattr("webhook.gate.reservations.LONGEST_PAUSE", 0.0)
    reservations = LeaseReservations(faulty, NAMESPACE_NAME, clock)
    faulty.faults = [ConflictError("somebody wrote first")] * 1000
    with pytest.raises(BusyError, match="other clients keep changing the Lease"):
        await reservations.change(*POOL, adding(entry(clock, "n1")))


async def test_what_the_watch_has_brought_is_read_once_however_often_it_is_asked_for(store, clock, monkeypatch):
    """Hundreds of reservations are a large text, and every question asks for them."""
    read = []

    def reading(lease):
        read.append(lease["metadata"]["name"])
        return read_reservations(lease)

    async with following(store, clock) as reservations:
        await reservations.change(*POOL, lambda _: [entry(clock, f"n{number}", 60 + number) for number in range(300)])
        monkeypatch.setattr("webhook.gate.reservations.read_reservations", reading)
        for _ in range(10):
            assert len(reservations.cached(*POOL)) == 300
        clock.pass_by(60)
        assert len(reservations.cached(*POOL)) == 299
        assert len(read) == 1
        await reservations.change(*POOL, lambda held: held[:7])
        assert len(reservations.cached(*POOL)) == 7
        await reservations.change(*POOL, lambda held: ())
        assert reservations.cached(*POOL) == ()
        await until(lambda: not reservations._written)


async def test_what_nobody_expected_of_one_lease_ends_nothing(store, clock):
    async with following(store, clock) as reservations:
        await reservations.change("disruption", "old", adding(entry(clock, "n1", seconds=10)))
        odd = with_reservations(new_lease(Thing(*POOL), NAMESPACE_NAME), [])
        reservations._cache.of_kind(LEASE).put(odd)  # without uid and version, as no API server has it
        clock.pass_by(10)
        await reservations.clear()
        assert (await store.list(LEASE)).items == ()


async def test_a_list_is_cleared_away_only_as_it_was_when_that_was_decided(store, clock):
    """Somebody reserves between the look and the deletion: that must not go with the Lease."""
    async with following(store, clock) as reservations:
        await reservations.change(*POOL, adding(entry(clock, "n1", seconds=10)))
        clock.pass_by(10)
        (stale,) = reservations._cache.list(LEASE)
        other = entry(clock, "n2")
        await LeaseReservations(store, NAMESPACE_NAME, clock).change(*POOL, lambda held: (other,))
        reservations._cache.of_kind(LEASE).put(stale)
        await reservations.clear()
        (lease,) = (await store.list(LEASE)).items
        assert read_reservations(lease) == (other,)


async def test_a_decision_sees_what_was_looked_at_after_the_lease_was_read(store, clock):
    """Whatever somebody did before he wrote the Lease: it is looked at again for every attempt."""
    reservations = LeaseReservations(store, NAMESPACE_NAME, clock)
    one, seen = entry(clock, "n1"), []

    async def look():
        if not seen:  # somebody else is faster
            await LeaseReservations(store, NAMESPACE_NAME, clock).change(*POOL, adding(entry(clock, "n0")))
        seen.append("looked")

    def decide(held):
        seen.append(len(held))
        return (*held, one)

    await reservations.change(*POOL, decide, look)
    assert seen == ["looked", 0, "looked", 1]


async def test_what_the_hub_forbids_is_said(faulty, clock):
    reservations = LeaseReservations(faulty, NAMESPACE_NAME, clock)
    faulty.faults = [ForbiddenError("leases is forbidden")]
    with pytest.raises(ForbiddenError, match="reservations in namespace 'harbor': leases is forbidden"):
        await reservations.change(*POOL, adding(entry(clock, "n1")))


async def test_what_a_decision_raises_leaves_everything_as_it_is(store, clock):
    reservations = LeaseReservations(store, NAMESPACE_NAME, clock)

    def refuse(held):
        raise LookupError("no")

    with pytest.raises(LookupError):
        await reservations.change(*POOL, refuse)
    assert (await store.list(LEASE)).items == ()
    assert reservations._turns == {}
