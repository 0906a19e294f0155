"""Reservations for the callers of a gate: make, renew and release.

A rollout takes two reservations: one of the placement, which counts against its budget, and one of the member. They are
made, renewed and released together. They are on two Leases, which no single write covers. The order of the writes
ensures that after a crash in between the caller can still renew or release the rest, or that the rest expires.

Source: docs/specifications/serving.md 3.1.
"""

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from scorer.member_gate.holds import MemberDisruption
from scorer.reservations import (
    MEMBER,
    ROLLOUT,
    Reservation,
    Thing,
    UnreadableReservationsError,
    end_of,
    member_reservation,
)
from webhook.gate.errors import MemberHeldError, NotYoursError, UnknownReservationError
from webhook.gate.reservations import Held, LeaseReservations, Look, new_id
from webhook.kube.ports import StoreError

Judge = Callable[[Held], MemberDisruption]
"""Returns the kind of disruption of a change, given the other reservations of the placement.

Raises an exception with the reason if the change must wait. It may be called several times.
"""


@dataclass(frozen=True, slots=True)
class Claimant:
    """Holder of a reservation.

    Args:
        holder: Name given by the caller.
        identity: Authenticated user. Other users must not renew or release the reservation.
    """

    holder: str
    identity: str

    def has(self, reservation: Reservation) -> bool:
        """Return whether the reservation was made by this claimant."""
        return (reservation.holder, reservation.identity) == (self.holder, self.identity)


class ReservationKeeper:
    """Keeps the reservations of a hub for their claimants.

    Besides the errors that each of them lists, methods raise `UnreadableReservationsError`, `TooManyReservationsError`
    or `StoreError` if the reservations cannot be read or written now.

    Args:
        reservations: Reservations of all replicas.
        now: The clock.
    """

    def __init__(self, reservations: LeaseReservations, now: Callable[[], datetime]) -> None:
        self.reservations = reservations
        self._now = now

    def listed(self) -> tuple[tuple[tuple[Thing, Reservation], ...], tuple[str, ...]]:
        """Return all reservations by object, and errors for unreadable ones."""
        reserved_things, mistakes = self.reservations.all_cached()
        return tuple(
            (thing, reservation) for thing, reservations in reserved_things for reservation in reservations
        ), mistakes

    async def renew(self, identifier: str, identity: str, seconds: int) -> Reservation:
        """Set the expiry of a reservation to *seconds* from now. An expired one cannot be renewed.

        Raises:
            UnknownReservationError: No reservation has that id, or another holder has taken the member of a rollout.
            NotYoursError: The reservation belongs to another user.
        """

        def decide(_: Thing, held: Held) -> Held:
            own = _owned(held, identifier, identity)
            return tuple(
                reservation.until(self._end(seconds)) if reservation is own else reservation for reservation in held
            )

        own = _owned(await self.reservations.change_one(identifier, decide), identifier, identity)
        if own.gate == ROLLOUT:
            try:
                await self._hold_beside(own)
            except MemberHeldError as error:  # the member's half had expired, and another holder has the member
                await self.drop(identifier)
                raise UnknownReservationError(f"the reservation has ended: {error}") from error
        return own

    async def release(self, identifier: str, identity: str) -> None:
        """Release a reservation. Raises as `renew`."""
        freed: Reservation | None = None
        released = False

        def decide(_: Thing, held: Held) -> Held | None:
            nonlocal freed, released
            if released and with_id(held, identifier) is None:  # an earlier attempt was stored, but its answer was lost
                return None
            own = _owned(held, identifier, identity)
            # The member's half is deleted first: after a crash in between, the caller can release the rest by its id.
            if own.gate == ROLLOUT and freed is None:
                freed = own
                return None
            released = True
            return tuple(reservation for reservation in held if reservation is not own)

        await self.reservations.change_one(identifier, decide)
        if freed is not None:
            await self._remove(member_reservation(freed).id)
            await self.reservations.change_one(identifier, decide)
        if not released:
            raise _unknown(identifier)

    async def drop(self, identifier: str) -> None:
        """Remove a reservation whose id no caller has, best effort. If that fails, it expires."""
        with suppress(StoreError, UnreadableReservationsError):
            await self._remove(identifier)

    async def hold_rollout(
        self, placement: str, cluster: str, claimant: Claimant, seconds: int, *, judge: Judge, look: Look
    ) -> Reservation:
        """Reserve a cluster of a placement, and the member, for a change of the placement there.

        An earlier reservation of *claimant* is extended.

        Args:
            placement: The placement, as ``crp/web`` or ``rp/team/web``.
            cluster: The member.
            claimant: Holder of the reservation.
            seconds: 10 to 3600.
            judge: Returns the kind of disruption. Its exceptions propagate.
            look: Refreshes the inputs of *judge*.

        Raises:
            MemberHeldError: The member is held for another kind of disruption.
        """
        identifier = new_id(ROLLOUT, placement)
        reservations: list[Reservation] = []

        def decide(held: Held) -> Held:
            own = next(
                (
                    reservation
                    for reservation in held
                    if claimant.has(reservation) and reservation.granted == (cluster,)
                ),
                None,
            )
            others = tuple(reservation for reservation in held if reservation is not own)
            kind, expires = judge(others), self._end(seconds)
            if own is None:
                own = _member_reservation(identifier, claimant, ROLLOUT, cluster, kind, expires)
            reservations[:] = [own.until(max(own.expires, expires))]
            return (*others, *reservations)

        try:
            await self.reservations.change(ROLLOUT, placement, decide, look)
            await self._hold_beside(reservations[-1])
        except BaseException:  # also when cancelled: without the id, the caller could not release it
            if reservations and reservations[-1].id == identifier:  # an earlier reservation is kept
                await self.drop(member_reservation(reservations[-1]).id)
                await self.drop(identifier)
            raise
        return reservations[-1]

    async def hold_member(self, cluster: str, kind: MemberDisruption, claimant: Claimant, seconds: int) -> Reservation:
        """Reserve a member cluster for one kind of disruption. An earlier reservation of *claimant* is extended.

        Several claimants can hold a member for the same kind concurrently.

        Raises:
            MemberHeldError: The member is held for another kind of disruption.
        """
        identifier = new_id(MEMBER, cluster)
        reservations: list[Reservation] = []

        def decide(held: Held) -> Held:
            _check_free(cluster, kind, held)
            own = next((reservation for reservation in held if claimant.has(reservation)), None)
            expires = self._end(seconds)
            if own is None:
                own = _member_reservation(identifier, claimant, MEMBER, cluster, kind, expires)
                reservations[:] = [own]
                return (*held, own)
            reservations[:] = [own.until(max(own.expires, expires))]
            return tuple(reservations[0] if reservation is own else reservation for reservation in held)

        await self.reservations.change(MEMBER, cluster, decide)
        return reservations[0]

    async def _hold_beside(self, reservation: Reservation) -> None:
        """Reserve the member until the placement's reservation expires. Raises as `hold_rollout`."""
        desired = member_reservation(reservation)
        assert not isinstance(desired.granted, int)
        (cluster,) = desired.granted

        def decide(held: Held) -> Held:
            others = tuple(reservation for reservation in held if reservation.id != desired.id)
            _check_free(cluster, MemberDisruption(desired.purpose), others)
            return (*others, desired)

        await self.reservations.change(MEMBER, cluster, decide)

    async def _remove(self, identifier: str) -> None:
        """Remove a reservation of any user, if it exists."""

        def decide(_: Thing, held: Held) -> Held | None:
            own = with_id(held, identifier)
            return None if own is None else tuple(reservation for reservation in held if reservation is not own)

        await self.reservations.change_one(identifier, decide)

    def _end(self, seconds: int) -> datetime:
        return end_of(self._now(), timedelta(seconds=seconds))


def with_id(held: Held, identifier: str) -> Reservation | None:
    """Return the reservation with an id, None if *held* has none. The id is secret, so compared in constant time."""
    return next(
        (reservation for reservation in held if secrets.compare_digest(reservation.id.encode(), identifier.encode())),
        None,
    )


def _member_reservation(
    identifier: str, claimant: Claimant, gate: str, cluster: str, kind: MemberDisruption, expires: datetime
) -> Reservation:
    purpose = {"kind": str(kind)}
    return Reservation(identifier, claimant.holder, claimant.identity, gate, (cluster,), expires, purpose)


def _owned(held: Held, identifier: str, identity: str) -> Reservation:
    own = with_id(held, identifier)
    if own is None:
        raise _unknown(identifier)
    if own.identity != identity:
        raise NotYoursError("only the user who made a reservation may renew or release it")
    return own


def _check_free(cluster: str, kind: MemberDisruption, held: Held) -> None:
    """Raise `MemberHeldError` if a member is held for another kind of disruption."""
    for other in held:
        if other.purpose != kind:
            raise MemberHeldError(_held_message(cluster, kind, other), other)


def _unknown(identifier: str) -> UnknownReservationError:
    return UnknownReservationError(f"there is no reservation {identifier[:100]!r}, or it has expired")


def _held_message(cluster: str, kind: MemberDisruption, other: Reservation) -> str:
    return (
        f"{kind} of the member cluster {cluster} must wait: it is reserved for {other.purpose} by {other.holder} "
        f"until {other.expires:%Y-%m-%dT%H:%M:%SZ}"
    )
