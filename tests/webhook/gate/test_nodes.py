"""The gate of node pools: reservations count for everybody, and never exceed what the budgets let go."""

import asyncio
import random
from dataclasses import replace
from datetime import timedelta

import pytest

from scorer.api import kinds
from scorer.api.family import UnknownObjectError
from scorer.node_budgets.answer import GateVerdict
from scorer.node_budgets.question import Mode
from scorer.reservations import DISRUPTION, RESERVATIONS, UnreadableReservationsError, lease_name
from tests.waiting import until
from tests.webhook.gate.gates import NAMESPACE, ask, drifted, node_pool, put_pool, replica, reserve
from webhook.gate.errors import MistakenQuestionError
from webhook.kube.ports import Key, UnavailableError

TWO = {"nodes": "2"}


def known(gates):
    """Return what is reserved of the pool."""
    return gates.keeper.reservations.cached(DISRUPTION, "batch")


def unreadable(gates):
    """Say whether it is known here that what is reserved cannot be read."""
    return bool(gates.service.reservations.listed()[1])


async def test_what_is_reserved_counts_as_being_disrupted(gates, other):
    answer = await reserve(gates, drifted("batch", ("batch-0", "batch-1")))
    assert (answer.allowed, answer.granted) == (True, ("batch-0", "batch-1"))
    assert (await ask(gates, drifted("batch", 1))).verdict is GateVerdict.IN_FLIGHT
    await until(lambda: other.nodes.view("batch").counts().deleting == 2)
    assert (await ask(other, drifted("batch", 1))).verdict is GateVerdict.IN_FLIGHT
    refused = await reserve(other, drifted("batch", ("batch-2",)))
    assert (refused.allowed, refused.reservation) == (False, None)


async def test_a_node_that_is_reserved_and_going_counts_once(gates, store):
    await reserve(gates, drifted("batch", ("batch-0",)))
    await store.delete(kinds.NODE_CLAIM, Key("batch-0"))
    await until(lambda: gates.nodes.pools.pool("batch").nodes["batch-0"].deleting)
    assert gates.nodes.view("batch").counts().deleting == 1
    assert (await ask(gates, drifted("batch", 1))).allowed


async def test_a_reservation_by_number_counts_until_it_ends(gates, clock):
    answer = await reserve(gates, drifted("batch", 2))
    assert answer.granted == 2
    assert not (await ask(gates, drifted("batch", 1))).allowed
    clock.pass_by(seconds=60)
    assert (await ask(gates, drifted("batch", 2))).allowed


async def test_nothing_is_reserved_where_nothing_is_granted(gates, store):
    assert (await reserve(gates, drifted("batch", 3))).reservation is None
    assert (await reserve(gates, drifted("batch", 0))).reservation is None
    assert (await store.list(kinds.LEASE)).items == ()


async def test_up_to_reserves_what_is_granted(gates):
    answer = await reserve(gates, drifted("batch", 5, mode=Mode.UP_TO))
    (held,) = known(gates)
    assert (answer.granted, held.granted, held.question) == (2, 2, {"reason": "Drifted"})


async def test_a_reservation_begins_now_and_ends_on_a_whole_second(gates, clock):
    clock.pass_by(milliseconds=1)
    _, expires = (await reserve(gates, drifted("batch", 1))).reservation
    assert (expires.microsecond, (expires - clock()).total_seconds()) == (0, 60.999)


async def test_only_the_present_of_a_pool_of_the_hub_is_reserved(gates, clock):
    for question, pointer in (
        (drifted("batch", 1, now=clock()), "/now"),
        (drifted("batch", 1, node_pool=node_pool("batch")), "/nodePool"),
    ):
        with pytest.raises(MistakenQuestionError) as caught:
            await reserve(gates, question)
        assert caught.value.pointer == pointer


async def test_a_pool_that_does_not_exist(gates):
    with pytest.raises(UnknownObjectError, match="there is no node pool 'nope'"):
        await ask(gates, drifted("nope", 1))
    with pytest.raises(UnknownObjectError, match="there is no node pool 'nope'"):
        await ask(gates, drifted("batch", 1), drifted("nope", 1))
    with pytest.raises(UnknownObjectError, match="there is no node pool 'nope'"):
        await reserve(gates, drifted("nope", 1))


async def test_a_pool_that_need_not_exist_is_judged_by_what_is_given(gates):
    shut = node_pool("batch", {"nodes": "0"})
    assert (await ask(gates, drifted("batch", 1, node_pool=shut))).verdict is GateVerdict.NEVER


async def test_in_a_batch_each_grant_lowers_what_follows(gates, clock):
    questions = [drifted("batch", 1), drifted("batch", 1, reserve_seconds=30), drifted("batch", 1)]
    answers = await ask(gates, *questions)
    assert [answer.allowed for answer in answers] == [True, True, False]
    assert [answer.reservation is not None for answer in answers] == [False, True, False]
    (held,) = known(gates)
    assert (held.granted, held.holder, held.identity) == (1, "patcher", "ops")


async def test_in_a_batch_reasons_share_what_is_in_flight(gates, store):
    await put_pool(store, "web", 3, {"nodes": "1"})
    await until(lambda: gates.nodes.view("web") is not None and gates.nodes.view("web").counts().total == 3)
    found = await ask(
        gates,
        drifted("batch", ("batch-1",)),
        replace(drifted("batch", 2), reason="Empty"),
        replace(drifted("batch", 1), reason="Empty"),
        drifted("web", 1),
        replace(drifted("batch", ("batch-1",)), reason="Empty"),
    )
    assert [each.allowed for each in found] == [True, False, True, True, False]
    assert [each.disrupting for each in found] == [0, 1, 1, 0, 2]
    assert found[4].nodes[0].blockers[0].reason == "Reserved"


async def test_in_a_batch_a_pool_that_a_question_brings_shares_with_the_one_of_its_name(gates):
    roomy = node_pool("batch", {"nodes": "50%"})
    found = await ask(gates, drifted("batch", 2, node_pool=roomy), drifted("batch", 1))
    assert [(each.allowed, each.limit) for each in found] == [(True, 3), (False, 2)]
    found = await ask(gates, drifted("batch", 2), drifted("batch", 2, node_pool=roomy))
    assert [(each.allowed, each.remaining) for each in found] == [(True, 2), (False, 1)]


async def test_a_batch_without_reservations_is_about_one_instant(gates, clock):
    questions = [drifted("batch", 1)] * 3
    seconds = iter(range(100))
    gates.nodes._now = lambda: clock() + timedelta(seconds=next(seconds))
    assert {each.next_open for each in await ask(gates, *questions[:2])} == {clock()}
    moved = await ask(gates, drifted("batch", 1), drifted("batch", 1, reserve_seconds=30), drifted("batch", 0))
    assert moved[0].next_open < moved[1].next_open < moved[2].next_open


async def test_a_batch_that_cannot_be_answered_reserves_nothing(gates, store):
    questions = [drifted("batch", 1, reserve_seconds=30), drifted("batch", ("who",), reserve_seconds=30)]
    with pytest.raises(MistakenQuestionError) as caught:
        await ask(gates, *questions)
    assert (caught.value.position, caught.value.pointer) == (1, "/nodes/0")
    assert known(gates) == ()
    assert (await store.list(kinds.LEASE)).items == ()


async def test_what_cannot_be_read_shuts_its_pool_alone(gates, store):
    await put_pool(store, "web", 3, TWO)
    await until(lambda: gates.nodes.view("web") is not None and gates.nodes.view("web").counts().total == 3)
    await reserve(gates, drifted("batch", 1))
    lease = await store.get(kinds.LEASE, Key(lease_name(DISRUPTION, "batch"), NAMESPACE))
    annotations = {**lease["metadata"]["annotations"], RESERVATIONS: "[{}]"}
    await store.replace(kinds.LEASE, {**lease, "metadata": {**lease["metadata"], "annotations": annotations}})
    with pytest.raises(UnreadableReservationsError, match="is repaired"):
        await reserve(gates, drifted("batch", 1))

    await until(lambda: unreadable(gates))
    with pytest.raises(UnreadableReservationsError, match="is repaired"):
        await ask(gates, drifted("batch", 1))
    assert {view.name: view.counts().deleting for view in gates.nodes.views()} == {"batch": 6, "web": 0}
    assert (await ask(gates, drifted("web", 2))).allowed


async def test_replicas_at_once_never_exceed_the_budget(gates, other):
    """Whoever is granted something when, what is in force never sums up to more than the limit."""
    dice = random.Random(7)
    names = [f"batch-{number}" for number in range(6)]
    for _ in range(25):
        wanted = [drifted("batch", tuple(dice.sample(names, dice.randint(1, 2)))) for _ in range(4)]
        answers = await asyncio.gather(*(reserve(dice.choice([gates, other]), question) for question in wanted))
        kept = [answer for answer in answers if answer.reservation is not None]
        assert 1 <= sum(len(answer.granted) for answer in kept) <= 2
        await asyncio.gather(
            *(dice.choice([gates, other]).keeper.release(answer.reservation[0], "ops") for answer in kept)
        )


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
def deaf_store(store):
    return Deaf(store)


@pytest.fixture
async def deaf(deaf_store, clock):
    async with replica(deaf_store, clock) as made:
        assert made.nodes.view("batch").counts().total == 6
        yield made


@pytest.mark.parametrize("gone", [False, True])
async def test_what_was_done_and_given_back_is_seen_by_a_replica_whose_watch_is_behind(gates, deaf, store, gone):
    answer = await reserve(gates, drifted("batch", ("batch-0", "batch-1")))
    for name in answer.granted:
        await store.delete(kinds.NODE_CLAIM, Key(name))
        if gone:
            await store.delete(kinds.NODE, Key(name))
    await gates.keeper.release(answer.reservation[0], "ops")
    refused = await reserve(deaf, drifted("batch", 2 if not gone else 3))
    assert (refused.verdict, refused.total, refused.disrupting) == (
        (GateVerdict.NEVER, 4, 0) if gone else (GateVerdict.IN_FLIGHT, 6, 2)
    )


async def test_a_budget_that_was_shut_is_shut_for_a_replica_whose_watch_is_behind(deaf, store):
    pool = await store.get(kinds.NODE_POOL, Key("batch"))
    shut = node_pool("batch", {"nodes": "0"})["spec"]
    await store.replace(kinds.NODE_POOL, {**pool, "spec": shut})
    assert not (await reserve(deaf, drifted("batch", 1))).allowed
    await store.delete(kinds.NODE_POOL, Key("batch"))
    with pytest.raises(UnknownObjectError):
        await reserve(deaf, drifted("batch", 1))


async def test_a_node_that_has_left_its_pool_is_kept_where_it_is(deaf, store):
    """A node without the label is no node of the pool any more, and still a node."""
    found = await store.get(kinds.NODE, Key("batch-0"))
    await store.replace(kinds.NODE, {**found, "metadata": {**found["metadata"], "labels": {}}})
    assert (await reserve(deaf, drifted("batch", 1))).total == 5
    assert "batch-0" in [name for name, _ in deaf.nodes.pools._cache.of_kind(kinds.NODE).objects]


@pytest.mark.parametrize("name", ["a,b=c", "x" * 64, "Ä"])
async def test_a_name_that_no_label_can_have_is_asked_for_nowhere(deaf, name):
    with pytest.raises(UnknownObjectError):
        await reserve(deaf, drifted(name, 1))


@pytest.mark.parametrize("fault", [UnavailableError("no answer"), asyncio.CancelledError()])
async def test_what_nobody_could_be_told_of_is_not_kept(deaf, deaf_store, fault):
    deaf_store.broken = fault
    with pytest.raises(type(fault)):
        await reserve(deaf, drifted("batch", 2))
    assert (await reserve(deaf, drifted("batch", 2))).granted == 2
