"""Reservations as they are stored, and what happens to a list that cannot be read."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.reservations import (
    GATE,
    MOST_BYTES,
    RESERVATIONS,
    THING,
    Reservation,
    Thing,
    TooManyReservationsError,
    UnreadableReservationsError,
    held_nodes,
    in_force,
    lease_name,
    lease_of,
    member_reservation,
    new_lease,
    read_reservations,
    reservation_id,
    thing_of,
    with_reservations,
    without_halves,
)

NOW = datetime(2026, 6, 10, 4, 0, tzinfo=UTC)
POOL = Thing("disruption", "batch")


def reservation(granted=("n1",), seconds=60, **changes):
    values = {"id": "a-b", "holder": "patcher", "identity": "ops", "gate": "disruption", "question": {}} | changes
    return Reservation(granted=granted, expires=NOW + timedelta(seconds=seconds), **values)


def annotated(**annotations):
    lease = with_reservations(new_lease(POOL, "ns"), [])
    return {**lease, "metadata": {**lease["metadata"], "annotations": annotations}}


instants = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1))
texts = st.text(st.characters(codec="utf-8"), max_size=20)
reservations = st.builds(
    Reservation,
    id=st.text(min_size=1, max_size=20),
    holder=texts,
    identity=texts,
    gate=st.sampled_from(["disruption", "member"]),
    granted=st.lists(texts, max_size=4).map(tuple) | st.integers(0, 2**31 - 1),
    expires=st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)).map(
        lambda at: at.replace(microsecond=0, tzinfo=UTC)
    ),
    question=st.dictionaries(texts, texts, max_size=2),
)


@given(st.lists(reservations, max_size=4).map(tuple))
def test_what_is_written_is_read(given_reservations):
    assert read_reservations(with_reservations(new_lease(POOL, "ns"), given_reservations)) == given_reservations


def test_an_entry_names_what_others_have_to_know():
    lease = with_reservations(new_lease(POOL, "ns"), [reservation(question={"reason": "Drifted"})])
    assert lease["metadata"]["annotations"][RESERVATIONS] == (
        '[{"id":"a-b","holder":"patcher","identity":"ops","gate":"disruption","granted":["n1"],'
        '"expires":"2026-06-10T04:01:00Z","question":{"reason":"Drifted"}}]'
    )


def test_a_reservation_ends_at_the_instant_it_expires():
    held = (reservation(seconds=0), reservation(seconds=1, id="c"))
    assert [each.id for each in in_force(held, NOW)] == ["c"]


def test_names_add_up_once_and_numbers_always():
    held = [reservation(("n1", "n2")), reservation(("n2", "n3")), reservation(2), reservation(3)]
    assert held_nodes(held) == (frozenset({"n1", "n2", "n3"}), 5)


def test_a_pair_of_reservations_is_listed_once():
    placement = reservation(("member-1",), id=reservation_id("rollout", "web", "secret"), gate="rollout")
    other = reservation(3, id="c-d", gate="rollout")
    member = member_reservation(placement)
    assert (member.gate, lease_of(member.id)) == ("member", lease_name("member", "member-1"))
    assert without_halves(iter([member, placement, other])) == (placement, other)
    assert without_halves([member]) == (member,)


def test_an_id_leads_to_its_lease():
    assert lease_of(reservation_id("disruption", "batch", "5ec2e7")) == lease_name("disruption", "batch")


@pytest.mark.parametrize(
    "text", ["", "-", "x", "0" * 32, "0" * 32 + "-", "g" * 32 + "-a", "0" * 31 + "-a", "../" + "0" * 29 + "-a"]
)
def test_what_is_no_id_leads_nowhere(text):
    assert lease_of(text) == ""


@given(texts, texts, texts, texts)
def test_names_of_leases_are_names_and_differ(gate, thing, other_gate, other_thing):
    assert re.fullmatch("hb-res-[0-9a-f]{32}", lease_name(gate, thing))
    same = (gate, thing) == (other_gate, other_thing)
    assert (lease_name(gate, thing) == lease_name(other_gate, other_thing)) == same


def test_a_lease_of_somebody_else_is_about_nothing():
    assert thing_of({"metadata": {"name": "harbormaster-reconcile", "namespace": "ns"}}) is None


GOOD = {GATE: "disruption", THING: "batch"}


def written(granted, expires):
    return f'[{{"id":"a","holder":"","identity":"","gate":"","granted":{granted},"expires":"{expires}"}}]'


@pytest.mark.parametrize(
    ("annotations", "says"),
    [
        pytest.param({}, "do not match its name", id="none"),
        pytest.param(
            {GATE: "disruption", THING: "other", RESERVATIONS: "[]"}, "do not match its name", id="another-pool"
        ),
        pytest.param(GOOD, f"no annotation {RESERVATIONS}", id="no-list"),
        pytest.param({**GOOD, RESERVATIONS: ""}, "EOF while parsing", id="empty"),
        pytest.param({**GOOD, RESERVATIONS: "null"}, "valid array", id="null"),
        pytest.param({**GOOD, RESERVATIONS: "{}"}, "valid array", id="no-array"),
        pytest.param({**GOOD, RESERVATIONS: '[{"id": "a"}]'}, "at 0.holder: Field required", id="half-an-entry"),
        pytest.param(
            {**GOOD, RESERVATIONS: written(-1, "2026-06-10T04:01:00Z")},
            "at 0.granted",
            id="fewer-than-none",
        ),
        pytest.param(
            {**GOOD, RESERVATIONS: written(1, "soon")},
            "at 0.expires",
            id="no-instant",
        ),
    ],
)
def test_what_cannot_be_read_is_never_taken_for_nothing(annotations, says):
    lease = annotated(**annotations)
    with pytest.raises(UnreadableReservationsError) as caught:
        read_reservations(lease)
    assert says in str(caught.value)
    assert f"ns/{lease_name(*POOL)}" in str(caught.value)


def test_a_lease_holds_only_so_much():
    with pytest.raises(TooManyReservationsError, match="Release some first"):
        with_reservations(new_lease(POOL, "ns"), [reservation(("n" * MOST_BYTES,))])


def test_what_a_lease_holds_is_counted_in_bytes():
    """The API server counts them too, and its refusal would be no answer to the caller."""
    with pytest.raises(TooManyReservationsError):
        with_reservations(new_lease(POOL, "ns"), [reservation(("\N{ANCHOR}" * (MOST_BYTES // 2),))])
