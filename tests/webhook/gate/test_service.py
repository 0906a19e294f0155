"""One service for every question about disruption: whatever keeps it from answering is an error of one family."""

import pytest

from scorer.api.family import PlacementRef, UnknownObjectError
from scorer.api.kinds import LEASE, NODE_CLAIM, PLACEMENT
from scorer.reservations import TooManyReservationsError, UnreadableReservationsError
from tests.webhook.gate.gates import NAMESPACE, PATCHER, drifted, empty_store, replica
from webhook.gate.assembly import disruption_of
from webhook.gate.errors import (
    ContendedError,
    GateError,
    LeaseFullError,
    MistakenQuestionError,
    NotReadyError,
    ReservationRefusedError,
    UnknownReservationError,
)
from webhook.gate.reservations import BusyError
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import UnavailableError
from webhook.settings.answers import DisruptionSettings

WEB = PlacementRef(PLACEMENT.kind, "web")


async def test_what_is_reserved_is_renewed_and_given_back(gates):
    answer = await gates.service.nodes.reserve(drifted("batch", 2), PATCHER, 60)
    identifier, expires = answer.reservation
    assert [(thing.name, each.expires) for thing, each in gates.service.reservations.listed()[0]] == [
        ("batch", expires)
    ]
    assert (await gates.service.reservations.renew(identifier, "ops", 90)).expires > expires
    await gates.service.reservations.release(identifier, "ops")
    with pytest.raises(UnknownReservationError):
        await gates.service.reservations.release(identifier, "ops")


async def test_what_may_not_be_had_is_refused_with_the_answer(gates, store):
    with pytest.raises(ReservationRefusedError) as caught:
        await gates.service.nodes.reserve(drifted("batch", 3), PATCHER, 60)
    assert (caught.value.answer["verdict"], caught.value.retry_after) == ("NeverWithoutChange", None)
    assert str(caught.value) == caught.value.answer["message"]
    assert (await store.list(LEASE)).items == ()


async def test_one_question_and_many_are_answered_alike(gates):
    one = await gates.service.nodes.answer([drifted("batch", 2)], PATCHER)
    many = await gates.service.nodes.answer([drifted("batch", 2), drifted("batch", 1)], PATCHER)
    assert (one, len(many), await gates.service.nodes.answer([], PATCHER)) == (many[:1], 2, ())


async def test_a_question_that_makes_no_sense_tells_where(gates):
    with pytest.raises(MistakenQuestionError) as caught:
        await gates.service.nodes.answer([drifted("batch", 1), drifted("batch", ("who",))], PATCHER)
    found = caught.value
    assert (found.position, found.pointer, found.code, found.retry_after) == (1, "/nodes/0", "unknown-node", None)


@pytest.mark.parametrize(
    ("raised", "told", "retry_after"),
    [
        pytest.param(TooManyReservationsError("full"), LeaseFullError, 10, id="no-room"),
        pytest.param(BusyError("again and again"), ContendedError, 1, id="contended"),
        pytest.param(UnreadableReservationsError("edited"), NotReadyError, 10, id="unreadable"),
        pytest.param(UnavailableError("down\n"), NotReadyError, 10, id="no-store"),
    ],
)
@pytest.mark.parametrize("asked", ["nodes", "rollout", "update", "renew", "release"])
async def test_what_goes_wrong_below_is_an_error_of_the_family(gates, monkeypatch, asked, raised, told, retry_after):
    async def fail(*_):
        raise raised

    for where, what in (
        (gates.keeper.reservations, "change"),
        (gates.keeper.reservations, "change_one"),
        (gates.members, "reserve_rollout"),
        (gates.members, "reserve_update"),
    ):
        monkeypatch.setattr(where, what, fail)
    ask = {
        "nodes": lambda: gates.service.nodes.reserve(drifted("batch", 1), PATCHER, 60),
        "rollout": lambda: gates.service.members.reserve_rollout(WEB, "a", PATCHER, 60),
        "update": lambda: gates.service.members.reserve_update("a", "", PATCHER, 60),
        "renew": lambda: gates.service.reservations.renew("x", "ops", 60),
        "release": lambda: gates.service.reservations.release("x", "ops"),
    }[asked]
    with pytest.raises(GateError) as caught:
        await ask()
    assert (type(caught.value), caught.value.retry_after) == (told, retry_after)
    assert str(caught.value) == str(raised).replace("\n", "\N{REPLACEMENT CHARACTER}")


async def test_what_is_not_there_is_no_error_of_the_gate(gates):
    for ask in (lambda: gates.service.members.rollout(WEB, "a"), lambda: gates.service.members.cluster_update("a")):
        with pytest.raises(UnknownObjectError):
            ask()
    with pytest.raises(UnknownObjectError):
        await gates.service.members.reserve_rollout(WEB, "a", PATCHER, 60)
    with pytest.raises(UnknownObjectError):
        await gates.service.members.reserve_update("a", "", PATCHER, 60)


async def test_pools_that_may_not_be_read_name_the_right(clock, monkeypatch):
    store = await empty_store()
    cache = Cache(store)
    service = disruption_of(cache, store, DisruptionSettings(namespace=NAMESPACE), clock).service
    refused = {NODE_CLAIM: 'nodeclaims is forbidden: User "x" cannot list resource "nodeclaims"'}
    monkeypatch.setattr(cache, "refusal", lambda kind: refused.get(kind, ""))
    with pytest.raises(
        NotReadyError, match=r"cannot list resource .*\. To allow it, set rbac\.nodePools=true in the values"
    ):
        service.nodes.require_synced()
    store.close()


async def test_nothing_is_known_before_it_has_been_read(clock):
    store = await empty_store()
    service = disruption_of(Cache(store), store, DisruptionSettings(namespace=NAMESPACE), clock).service
    for require in (service.nodes.require_synced, service.reservations.require_synced, service.members.require_synced):
        with pytest.raises(NotReadyError) as caught:
            require()
        assert caught.value.retry_after == 1
    async with replica(store, clock) as gates:
        gates.service.nodes.require_synced()
    store.close()
