"""The gate of node pools: reservations count for everybody, and never exceed what the budgets let go."""

import asyncio
import random

import pytest

from scorer.api import kinds
from scorer.api.references import UnknownObjectError
from scorer.member_gate.holds import MemberDisruption
from scorer.node_budgets.answer import Verdict
from scorer.node_budgets.question import InvalidQuestion, Mode
from scorer.reservations import DISRUPTION, MEMBER, RESERVATIONS, UnreadableReservationsError, lease_name
from tests.webhook.gate.gates import NAMESPACE, Clock, drifted, empty_store, node_pool, put_pool, replica, until
from webhook.gate.nodes import MemberHeldError, NotYoursError, UnknownReservationError
from webhook.kube.ports import Key, UnavailableError

TWO = {"nodes": "2"}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def store():
    opened = await empty_store()
    await put_pool(opened, "batch", 6, TWO)
    yield opened
    opened.close()


@pytest.fixture
async def gate(store, clock):
    async with replica(store, clock) as made:
        await until(lambda: made.view("batch") is not None and made.view("batch").counts().total == 6)
        yield made


@pytest.fixture
async def other(store, clock):
    async with replica(store, clock) as made:
        await until(lambda: made.view("batch") is not None and made.view("batch").counts().total == 6)
        yield made


async def test_what_is_reserved_counts_as_being_disrupted(gate, other):
    answer = await gate.reserve(drifted("batch", ("batch-0", "batch-1")), "patcher", "ops", 60)
    assert (answer.allowed, answer.granted) == (True, ("batch-0", "batch-1"))
    assert gate.ask(drifted("batch", 1)).verdict is Verdict.IN_FLIGHT
    await until(lambda: other.ask(drifted("batch", 1)).verdict is Verdict.IN_FLIGHT)
    refused = await other.reserve(drifted("batch", ("batch-2",)), "patcher", "ops", 60)
    assert (refused.allowed, refused.reservation) == (False, None)


async def test_a_node_that_is_reserved_and_going_counts_once(gate, store):
    await gate.reserve(drifted("batch", ("batch-0",)), "patcher", "ops", 60)
    await store.delete(kinds.NODE_CLAIM, Key("batch-0"))
    await until(lambda: gate.pools.pool("batch").nodes["batch-0"].deleting)
    assert gate.view("batch").counts().deleting == 1
    assert gate.ask(drifted("batch", 1)).allowed


async def test_a_reservation_by_number_counts_until_it_ends(gate, clock):
    answer = await gate.reserve(drifted("batch", 2), "patcher", "ops", 60)
    assert answer.granted == 2
    assert not gate.ask(drifted("batch", 1)).allowed
    clock.pass_by(seconds=60)
    assert gate.ask(drifted("batch", 2)).allowed


async def test_nothing_is_reserved_where_nothing_is_granted(gate, store):
    assert (await gate.reserve(drifted("batch", 3), "patcher", "ops", 60)).reservation is None
    assert (await gate.reserve(drifted("batch", 0), "patcher", "ops", 60)).reservation is None
    assert (await store.list(kinds.LEASE)).items == ()


async def test_up_to_reserves_what_is_granted(gate):
    answer = await gate.reserve(drifted("batch", 5, mode=Mode.UP_TO), "patcher", "ops", 60)
    (held,) = gate.reservations_on(DISRUPTION, "batch")
    assert (answer.granted, held.granted, held.question) == (2, 2, {"reason": "Drifted"})


async def test_a_reservation_begins_now_and_ends_on_a_whole_second(gate, clock):
    clock.pass_by(milliseconds=1)
    _, expires = (await gate.reserve(drifted("batch", 1), "patcher", "ops", 60)).reservation
    assert (expires.microsecond, (expires - clock()).total_seconds()) == (0, 60.999)


async def test_it_is_renewed_and_given_back_by_whoever_has_it(gate, other, clock):
    identifier, _ = (await gate.reserve(drifted("batch", ("batch-0",)), "patcher", "ops", 60)).reservation
    clock.pass_by(seconds=30)
    renewed = await other.renew(identifier, "ops", 60)
    assert ((renewed.expires - clock()).total_seconds(), renewed.granted) == (60, ("batch-0",))
    for attempt in (gate.renew(identifier, "eve", 60), gate.release(identifier, "eve")):
        with pytest.raises(NotYoursError):
            await attempt
    await other.release(identifier, "ops")
    assert other.view("batch").counts().deleting == 0
    await until(lambda: gate.view("batch").counts().deleting == 0)


async def test_what_has_expired_or_never_was_cannot_be_renewed(gate, clock):
    identifier, _ = (await gate.reserve(drifted("batch", 1), "patcher", "ops", 60)).reservation
    clock.pass_by(seconds=60)
    for unknown in (identifier, identifier[:-1] + "x", "", "nonsense"):
        for attempt in (gate.renew(unknown, "ops", 60), gate.release(unknown, "ops")):
            with pytest.raises(UnknownReservationError):
                await attempt


async def test_it_cannot_be_given_back_twice(gate):
    identifier, _ = (await gate.reserve(drifted("batch", 1), "patcher", "ops", 60)).reservation
    await gate.release(identifier, "ops")
    with pytest.raises(UnknownReservationError):
        await gate.release(identifier, "ops")


async def test_only_the_present_of_a_pool_of_the_hub_is_reserved(gate, clock):
    for question, pointer in (
        (drifted("batch", 1, now=clock()), "/now"),
        (drifted("batch", 1, node_pool=node_pool("batch")), "/nodePool"),
    ):
        with pytest.raises(InvalidQuestion) as caught:
            await gate.reserve(question, "patcher", "ops", 60)
        assert caught.value.pointer == pointer


async def test_a_pool_that_does_not_exist(gate):
    with pytest.raises(UnknownObjectError, match="there is no node pool 'nope'"):
        gate.ask(drifted("nope", 1))
    with pytest.raises(UnknownObjectError, match="there is no node pool 'nope'"):
        gate.ask_all([drifted("batch", 1), drifted("nope", 1)])
    with pytest.raises(UnknownObjectError, match="there is no node pool 'nope'"):
        await gate.reserve(drifted("nope", 1), "patcher", "ops", 60)


async def test_a_pool_that_need_not_exist_is_judged_by_what_is_given(gate):
    shut = node_pool("batch", {"nodes": "0"})
    assert gate.ask(drifted("batch", 1, node_pool=shut)).verdict is Verdict.NEVER


async def test_in_a_batch_each_grant_lowers_what_follows(gate, clock):
    questions = [drifted("batch", 1), drifted("batch", 1, reserve_seconds=30), drifted("batch", 1)]
    answers = await gate.answer_all(questions, "ops")
    assert [answer.allowed for answer in answers] == [True, True, False]
    assert [answer.reservation is not None for answer in answers] == [False, True, False]
    (held,) = gate.reservations_on(DISRUPTION, "batch")
    assert (held.granted, held.holder, held.identity) == (1, "ops", "ops")


async def test_a_batch_that_cannot_be_answered_reserves_nothing(gate, store):
    questions = [drifted("batch", 1, reserve_seconds=30), drifted("batch", ("who",), reserve_seconds=30)]
    with pytest.raises(InvalidQuestion) as caught:
        await gate.answer_all(questions, "ops")
    assert caught.value.pointer == "/questions/1/nodes/0"
    assert gate.reservations_on(DISRUPTION, "batch") == ()
    assert (await store.list(kinds.LEASE)).items == ()


async def test_what_cannot_be_read_shuts_its_pool_alone(gate, store):
    await put_pool(store, "web", 3, TWO)
    await until(lambda: gate.view("web") is not None and gate.view("web").counts().total == 3)
    await gate.reserve(drifted("batch", 1), "patcher", "ops", 60)
    lease = await store.get(kinds.LEASE, Key(lease_name(DISRUPTION, "batch"), NAMESPACE))
    annotations = {**lease["metadata"]["annotations"], RESERVATIONS: "[{}]"}
    await store.replace(kinds.LEASE, {**lease, "metadata": {**lease["metadata"], "annotations": annotations}})
    with pytest.raises(UnreadableReservationsError, match="put right"):
        await gate.reserve(drifted("batch", 1), "patcher", "ops", 60)

    def is_unreadable():
        try:
            gate.ask(drifted("batch", 1))
        except UnreadableReservationsError:
            return True
        return False

    await until(is_unreadable)
    assert {view.name: view.counts().deleting for view in gate.views()} == {"batch": 6, "web": 0}
    assert gate.ask(drifted("web", 2)).allowed


async def test_replicas_at_once_never_exceed_the_budget(gate, other):
    """Whoever is granted something when, what is in force never sums up to more than the limit."""
    dice = random.Random(7)
    names = [f"batch-{number}" for number in range(6)]
    for _ in range(25):
        wanted = [drifted("batch", tuple(dice.sample(names, dice.randint(1, 2)))) for _ in range(4)]
        answers = await asyncio.gather(
            *(dice.choice([gate, other]).reserve(question, "patcher", "ops", 60) for question in wanted)
        )
        kept = [answer for answer in answers if answer.reservation is not None]
        assert 1 <= sum(len(answer.granted) for answer in kept) <= 2
        await asyncio.gather(*(dice.choice([gate, other]).release(answer.reservation[0], "ops") for answer in kept))


class Deaf:
    """A store whose watches bring nothing, as when a connection was cut and nobody has noticed yet."""

    def __init__(self, store):
        self._store = store
        self.broken = None

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def watch(self, kind, since, namespace=None):
        await asyncio.Event().wait()
        yield

    async def create(self, kind, document):
        return await self._write(self._store.create, kind, document)

    async def replace(self, kind, document):
        return await self._write(self._store.replace, kind, document)

    async def _write(self, write, *arguments):
        if self.broken is None:
            return await write(*arguments)
        fault, self.broken = self.broken, None
        await write(*arguments)
        raise fault


@pytest.fixture
async def deaf(store, clock):
    async with replica(Deaf(store), clock) as made:
        assert made.view("batch").counts().total == 6
        yield made


@pytest.mark.parametrize("gone", [False, True])
async def test_what_was_done_and_given_back_is_seen_by_a_replica_whose_watch_is_behind(gate, deaf, store, gone):
    answer = await gate.reserve(drifted("batch", ("batch-0", "batch-1")), "patcher", "ops", 60)
    for name in answer.granted:
        await store.delete(kinds.NODE_CLAIM, Key(name))
        if gone:
            await store.delete(kinds.NODE, Key(name))
    await gate.release(answer.reservation[0], "ops")
    refused = await deaf.reserve(drifted("batch", 2 if not gone else 3), "patcher", "ops", 60)
    assert (refused.verdict, refused.total, refused.disrupting) == (
        (Verdict.NEVER, 4, 0) if gone else (Verdict.IN_FLIGHT, 6, 2)
    )


async def test_a_budget_that_was_shut_is_shut_for_a_replica_whose_watch_is_behind(deaf, store):
    pool = await store.get(kinds.NODE_POOL, Key("batch"))
    shut = node_pool("batch", {"nodes": "0"})["spec"]
    await store.replace(kinds.NODE_POOL, {**pool, "spec": shut})
    assert not (await deaf.reserve(drifted("batch", 1), "patcher", "ops", 60)).allowed
    await store.delete(kinds.NODE_POOL, Key("batch"))
    with pytest.raises(UnknownObjectError):
        await deaf.reserve(drifted("batch", 1), "patcher", "ops", 60)


async def test_a_node_that_has_left_its_pool_is_kept_where_it_is(deaf, store):
    """A node without the label is no node of the pool any more, and still a node."""
    found = await store.get(kinds.NODE, Key("batch-0"))
    await store.replace(kinds.NODE, {**found, "metadata": {**found["metadata"], "labels": {}}})
    assert (await deaf.reserve(drifted("batch", 1), "patcher", "ops", 60)).total == 5
    assert "batch-0" in [name for name, _ in deaf.pools._cache.shelf(kinds.NODE).objects]


@pytest.mark.parametrize("name", ["a,b=c", "x" * 64, "Ä"])
async def test_a_name_that_no_label_can_have_is_asked_for_nowhere(deaf, name):
    with pytest.raises(UnknownObjectError):
        await deaf.reserve(drifted(name, 1), "patcher", "ops", 60)


@pytest.mark.parametrize("fault", [UnavailableError("no answer"), asyncio.CancelledError()])
async def test_what_nobody_could_be_told_of_is_not_kept(deaf, fault):
    deaf.store.broken = fault
    with pytest.raises(type(fault)):
        await deaf.reserve(drifted("batch", 2), "patcher", "ops", 60)
    assert (await deaf.reserve(drifted("batch", 2), "patcher", "ops", 60)).granted == 2


async def test_a_member_is_held_for_one_kind_of_disruption(gate, clock):
    held = await gate.hold_member("oslo", MemberDisruption.UPGRADE, "run-7", "loop", 60)
    assert (held.granted, held.purpose) == (("oslo",), "Upgrade")
    with pytest.raises(MemberHeldError) as caught:
        await gate.hold_member("oslo", MemberDisruption.EVICTION, "eviction-3", "loop", 60)
    assert str(caught.value) == (
        "Eviction of the member cluster oslo has to wait: it is held for Upgrade by run-7 until 2026-06-10T03:01:00Z"
    )
    await gate.hold_member("oslo", MemberDisruption.UPGRADE, "run-8", "loop", 60)
    await gate.hold_member("bergen", MemberDisruption.EVICTION, "eviction-3", "loop", 60)
    assert [each.holder for each in gate.reservations_on(MEMBER, "oslo")] == ["run-7", "run-8"]


async def test_holding_again_is_holding_longer(gate, clock):
    first = await gate.hold_member("oslo", MemberDisruption.UPGRADE, "run-7", "loop", 60)
    clock.pass_by(seconds=30)
    second = await gate.hold_member("oslo", MemberDisruption.UPGRADE, "run-7", "loop", 60)
    assert (second.id, (second.expires - first.expires).total_seconds()) == (first.id, 30)
    assert gate.reservations_on(MEMBER, "oslo") == (second,)


async def test_a_member_is_free_when_it_is_given_back(gate, store):
    await gate.hold_member("oslo", MemberDisruption.UPGRADE, "run-7", "loop", 60)
    await gate.release_member("oslo", MemberDisruption.UPGRADE, "run-8", "loop")
    assert len(gate.reservations_on(MEMBER, "oslo")) == 1
    await gate.release_member("oslo", MemberDisruption.UPGRADE, "run-7", "loop")
    await gate.release_member("oslo", MemberDisruption.UPGRADE, "run-7", "loop")
    assert gate.reservations_on(MEMBER, "oslo") == ()
    await gate.hold_member("oslo", MemberDisruption.EVICTION, "eviction-3", "loop", 60)
