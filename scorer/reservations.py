"""Reservations: granted permissions that no object shows yet, stored where all replicas read them.

One Lease exists per thing that has a budget or is disrupted: a node pool, a placement or a member cluster. An
annotation holds its reservations as a list. A replica that grants one more reads the list, decides, and replaces the
version it has read.

Example: a budget has one node left, and replicas A and B both read version 7 of the list. A writes its reservation as
version 8. The write of B conflicts, B reads version 8 with the reservation of A, and denies. No lock is held, so a
crashed replica blocks no other.

An unreadable list is never treated as an empty one: a client whose reservation it contains may be disrupting something
at that moment.

Source: docs/specifications/serving.md 3.1; docs/specifications/nodepool-disruption.md 14.2.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Annotated, Final, NamedTuple, Self

import orjson
import pydantic
from pydantic import Field

from scorer.api.kinds import LEASE
from scorer.api.meta import ApiModel, JsonObject, Time, format_time
from scorer.api.names import OURS
from scorer.api.unstructured.documents import annotations_of

LEASE_PREFIX: Final = "hb-res-"
RESERVATIONS: Final = OURS + "reservations"
"""Annotation of a Lease: its reservations, as a JSON list."""
GATE: Final = OURS + "gate"
THING: Final = OURS + "reserved-thing"
"""Annotations of a Lease: the gate and the name of its thing. The name of the Lease is a hash of both."""

DISRUPTION: Final = "disruption"
"""The gate of node pools. Its things are their names."""
MEMBER: Final = "member"
"""The gate of member clusters. Its things are their names."""
ROLLOUT: Final = "rollout"
"""The gate of placements. Its things are ``crp/web`` or ``rp/team/web``. Each reservation has a second half at the gate
of its member cluster: see `member_reservation`."""

MOST_BYTES: Final = 200 * 1024
"""Size limit of a list. Kubernetes accepts 256 KiB for all annotations of an object together."""
ADMISSION_HOLDER: Final = "admission"
"""Holder of the reservations that admission makes for the deletions and evictions that it allows."""
SHORTEST_SECONDS: Final = 10
LONGEST_SECONDS: Final = 3600

_HASH_DIGITS: Final = 32


class Thing(NamedTuple):
    """An object with a budget: the gate that guards it, and its name at that gate."""

    gate: str
    name: str

    def __str__(self) -> str:
        return f"{self.gate} of {self.name}"


@dataclass(frozen=True, slots=True)
class Reservation:
    """One permission that has been granted.

    Args:
        id: Unguessable id. Its first part identifies the Lease, see `lease_of`.
        holder: Name that the caller has chosen.
        identity: The authenticated name of the caller. No other caller may renew or release the reservation.
        gate: The gate that granted it.
        granted: Names of nodes, or their number. Name of the member cluster at the gates of members and placements.
        expires: End of the reservation, exclusive.
        question: Purpose: ``reason`` at the gate of node pools, ``kind`` at the gates of members and placements.
    """

    id: str
    holder: str
    identity: str
    gate: str
    granted: tuple[str, ...] | int
    expires: datetime
    question: Mapping[str, str] = field(default_factory=dict)

    @property
    def purpose(self) -> str:
        """The purpose in one word."""
        return self.question.get("reason") or self.question.get("kind") or ""

    def until(self, expires: datetime) -> Self:
        """Return a copy of the reservation with another end."""
        return replace(self, expires=expires)


class UnreadableReservationsError(ValueError):
    """The reservations in a Lease are unreadable. The message names the Lease, the error and the remedy."""


class TooManyReservationsError(ValueError):
    """The list no longer fits into the Lease."""


class _Entry(ApiModel):
    """A reservation as it is stored."""

    id: Annotated[str, Field(min_length=1)]
    holder: str
    identity: str
    gate: str
    granted: tuple[str, ...] | Annotated[int, Field(ge=0)]
    expires: Time
    question: dict[str, str] = Field(default_factory=dict)


_ENTRIES: Final = pydantic.TypeAdapter(tuple[_Entry, ...])


def lease_name(gate: str, thing: str) -> str:
    """Return the name of the Lease that holds the reservations of *thing*."""
    return LEASE_PREFIX + hashlib.sha256(orjson.dumps([gate, thing])).hexdigest()[:_HASH_DIGITS]


def reservation_id(gate: str, thing: str, secret: str) -> str:
    """Return the id of a reservation. It identifies the Lease, and *secret* makes it unguessable."""
    return f"{lease_name(gate, thing).removeprefix(LEASE_PREFIX)}-{secret}"


def member_reservation(reservation: Reservation) -> Reservation:
    """Return the member's half of a placement's reservation, which belongs to the same holder.

    Both ids share their secret part, so the member's half can be derived from *reservation* and needs no record.
    """
    assert not isinstance(reservation.granted, int)
    (cluster,) = reservation.granted
    secret = reservation.id.partition("-")[2]
    return replace(reservation, id=reservation_id(MEMBER, cluster, secret), gate=MEMBER)


def lease_of(identity: str) -> str:
    """Return the name of the Lease that contains the reservation with this id. Empty: the id is malformed."""
    digits, dash, secret = identity.partition("-")
    is_well_formed = len(digits) == _HASH_DIGITS and set(digits) <= set("0123456789abcdef") and dash and secret
    return LEASE_PREFIX + digits if is_well_formed else ""


def thing_of(lease: JsonObject) -> Thing | None:
    """Return the thing whose reservations a Lease contains, or None if the Lease has another purpose.

    Raises:
        UnreadableReservationsError: The name of the Lease is not the hash of the thing that its annotations name.
    """
    metadata = lease["metadata"]
    if not metadata["name"].startswith(LEASE_PREFIX):
        return None
    annotations = metadata.get("annotations") or {}
    gate, name = annotations.get(GATE), annotations.get(THING)
    if gate is None or name is None or lease_name(gate, name) != metadata["name"]:
        raise _unreadable(lease, f"its annotations {GATE} and {THING} do not match its name")
    return Thing(gate, name)


def read_reservations(lease: JsonObject) -> tuple[Reservation, ...]:
    """Return the reservations in a Lease, including expired ones.

    Raises:
        UnreadableReservationsError: The annotation is missing or is not a list of reservations, or the Lease's name is
            not the hash of the thing in its annotations.
    """
    thing_of(lease)
    text = annotations_of(lease).get(RESERVATIONS)
    if text is None:
        raise _unreadable(lease, f"it has no annotation {RESERVATIONS}")
    try:
        entries = _ENTRIES.validate_json(text)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(str(part) for part in first["loc"])
        raise _unreadable(lease, f"its annotation {RESERVATIONS}{f' at {at}' if at else ''}: {first['msg']}") from error
    return tuple(
        Reservation(
            entry.id, entry.holder, entry.identity, entry.gate, entry.granted, entry.expires, dict(entry.question)
        )
        for entry in entries
    )


def with_reservations(lease: JsonObject, reservations: Iterable[Reservation]) -> JsonObject:
    """Return a Lease with these reservations instead of its current ones.

    The rest of the document is kept, including its resourceVersion: the write fails if another replica wrote first.

    Raises:
        TooManyReservationsError: The reservations do not fit into an annotation.
    """
    content = orjson.dumps([_entry(reservation) for reservation in reservations])
    if len(content) > MOST_BYTES:
        raise TooManyReservationsError(
            f"the reservations would need {len(content)} bytes, but a Lease holds at most {MOST_BYTES}. Release some "
            f"first"
        )
    metadata = lease["metadata"]
    annotations = {**(metadata.get("annotations") or {}), RESERVATIONS: content.decode()}
    return {**lease, "metadata": {**metadata, "annotations": annotations}}


def new_lease(thing: Thing, namespace: str) -> JsonObject:
    """Return a Lease for *thing* without a list, see `with_reservations`."""
    return {
        "apiVersion": LEASE.api_version,
        "kind": LEASE.kind,
        "metadata": {
            "name": lease_name(*thing),
            "namespace": namespace,
            "annotations": {GATE: thing.gate, THING: thing.name},
        },
        "spec": {},
    }


def in_force(reservations: Iterable[Reservation], now: datetime) -> tuple[Reservation, ...]:
    """Return the reservations that have not expired at *now*."""
    return tuple(reservation for reservation in reservations if reservation.expires > now)


def end_of(now: datetime, lasts: timedelta) -> datetime:
    """Return the end of a reservation: the first whole second at least *lasts* from now.

    A Lease stores whole seconds. Rounding up never shortens a reservation: 10 s from 12:00:00.2 end at 12:00:11.
    """
    exact = now + lasts
    return exact.replace(microsecond=0) + timedelta(seconds=1 if exact.microsecond else 0)


def without_halves(reservations: Iterable[Reservation]) -> tuple[Reservation, ...]:
    """Return *reservations* without the members' halves of placement reservations, so that each pair is listed once."""
    all_reservations = tuple(reservations)
    halves = {
        member_reservation(reservation).id
        for reservation in all_reservations
        if reservation.gate == ROLLOUT and not isinstance(reservation.granted, int)
    }
    return tuple(reservation for reservation in all_reservations if reservation.id not in halves)


def held_nodes(reservations: Iterable[Reservation]) -> tuple[frozenset[str], int]:
    """Return the names of the nodes that are reserved by name, and the number of nodes reserved by number."""
    names: set[str] = set()
    count = 0
    for reservation in reservations:
        if isinstance(reservation.granted, int):
            count += reservation.granted
        else:
            names.update(reservation.granted)
    return frozenset(names), count


def _entry(reservation: Reservation) -> JsonObject:
    granted = reservation.granted
    return {
        "id": reservation.id,
        "holder": reservation.holder,
        "identity": reservation.identity,
        "gate": reservation.gate,
        "granted": granted if isinstance(granted, int) else list(granted),
        "expires": format_time(reservation.expires),
        "question": dict(reservation.question),
    }


def _unreadable(lease: JsonObject, reason: str) -> UnreadableReservationsError:
    metadata = lease["metadata"]
    return UnreadableReservationsError(
        f"the Lease {metadata.get('namespace', '')}/{metadata['name']} has reservations that cannot be read: "
        f"{reason}. The gate grants nothing that the Lease covers until the Lease is repaired, or deleted while no "
        "disruption is in progress"
    )
