"""Reservations are renewed and given back by who has taken them, and a member is held for one kind of disruption."""

import pytest

from scorer.member_gate.holds import MemberDisruption
from scorer.reservations import MEMBER
from tests.waiting import until
from tests.webhook.gate.gates import drifted, reserve
from webhook.gate.errors import MemberHeldError, NotYoursError, UnknownReservationError
from webhook.gate.keeper import Claimant


def known(gates):
    """Return what is reserved of a member."""
    return gates.keeper.reservations.cached(MEMBER, "oslo")


async def hold(gates, member, kind, holder):
    return await gates.keeper.hold_member(member, kind, Claimant(holder, "loop"), 60)


async def test_it_is_renewed_and_given_back_by_whoever_has_it(gates, other, clock):
    identifier, _ = (await reserve(gates, drifted("batch", ("batch-0",)))).reservation
    clock.pass_by(seconds=30)
    renewed = await other.keeper.renew(identifier, "ops", 60)
    assert ((renewed.expires - clock()).total_seconds(), renewed.granted) == (60, ("batch-0",))
    for attempt in (gates.keeper.renew(identifier, "eve", 60), gates.keeper.release(identifier, "eve")):
        with pytest.raises(NotYoursError):
            await attempt
    await other.keeper.release(identifier, "ops")
    assert other.nodes.view("batch").counts().deleting == 0
    await until(lambda: gates.nodes.view("batch").counts().deleting == 0)


async def test_what_has_expired_or_never_was_cannot_be_renewed(gates, clock):
    identifier, _ = (await reserve(gates, drifted("batch", 1))).reservation
    clock.pass_by(seconds=60)
    for unknown in (identifier, identifier[:-1] + "x", "", "nonsense"):
        for attempt in (gates.keeper.renew(unknown, "ops", 60), gates.keeper.release(unknown, "ops")):
            with pytest.raises(UnknownReservationError):
                await attempt


async def test_it_cannot_be_given_back_twice(gates):
    identifier, _ = (await reserve(gates, drifted("batch", 1))).reservation
    await gates.keeper.release(identifier, "ops")
    with pytest.raises(UnknownReservationError):
        await gates.keeper.release(identifier, "ops")


async def test_a_member_is_held_for_one_kind_of_disruption(gates, clock):
    held = await hold(gates, "oslo", MemberDisruption.UPGRADE, "run-7")
    assert (held.granted, held.purpose) == (("oslo",), "Upgrade")
    with pytest.raises(MemberHeldError) as caught:
        await hold(gates, "oslo", MemberDisruption.EVICTION, "eviction-3")
    assert str(caught.value) == (
        "Eviction of the member cluster oslo must wait: it is reserved for Upgrade by run-7 until 2026-06-10T03:01:00Z"
    )
    await hold(gates, "oslo", MemberDisruption.UPGRADE, "run-8")
    await hold(gates, "bergen", MemberDisruption.EVICTION, "eviction-3")
    assert [each.holder for each in known(gates)] == ["run-7", "run-8"]


async def test_holding_again_is_holding_longer(gates, clock):
    first = await hold(gates, "oslo", MemberDisruption.UPGRADE, "run-7")
    clock.pass_by(seconds=30)
    second = await hold(gates, "oslo", MemberDisruption.UPGRADE, "run-7")
    assert (second.id, (second.expires - first.expires).total_seconds()) == (first.id, 30)
    assert known(gates) == (second,)


async def test_a_member_is_free_when_it_is_given_back(gates):
    held = await hold(gates, "oslo", MemberDisruption.UPGRADE, "run-7")
    await gates.keeper.release(held.id, "loop")
    assert known(gates) == ()
    await hold(gates, "oslo", MemberDisruption.EVICTION, "eviction-3")
