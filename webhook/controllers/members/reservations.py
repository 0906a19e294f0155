"""Reservations of member clusters: a controller reserves a member before it disrupts it.

It renews the reservation while it works, and releases it afterwards.

The active disruptions of the member are checked between the read and the write of its Lease, and the write carries the
resource version that was read. So of two concurrent writes, even by different processes, one fails and is decided
again. If a process stops early, the next leader recognizes the reservation by its holder, and takes it over. Without a
next leader, it expires.

Source: docs/specifications/serving.md 3.1.
"""

import secrets
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from scorer.member_gate.holds import Hold, MemberDisruption, reservation_hold, reserved_holds, waits_for
from scorer.reservations import (
    MEMBER,
    ROLLOUT,
    Reservation,
    TooManyReservationsError,
    UnreadableReservationsError,
    reservation_id,
)
from webhook.controllers.machinery.result import DONE, Result
from webhook.gate.holds import HubMemberHolds
from webhook.gate.reservations import Held, LeaseReservations
from webhook.kube.cache.hub import Hub, run_concurrently
from webhook.kube.ports import ForbiddenError
from webhook.settings.loop import LoopSettings

IDENTITY: Final = "harbormaster:reconcile"
"""Owner of the loop's reservations. No Kubernetes user name has this form."""
LASTS: Final = timedelta(minutes=5)
RENEWED_BELOW: Final = LASTS / 2
RESERVATION_POLL_INTERVAL: Final = timedelta(seconds=15)
"""Poll interval of a controller that waits for a member. Changes of the hold enqueue it as well."""
_SECRET_BYTES: Final = 16


def member_reservations(
    hub: Hub, settings: LoopSettings, now: Callable[[], datetime]
) -> Mapping[MemberDisruption, "MemberReservations"]:
    """Return the reservations of each kind of disruption that is gated, over the same Leases."""
    gates_members = settings.gate_members
    if not gates_members:
        return {}
    reservations = LeaseReservations(hub.store, settings.namespace, now)
    holds = HubMemberHolds(hub.cache, gates_members, reservations.cached)
    return {kind: MemberReservations(kind, holds, reservations, now) for kind in gates_members}


class MemberReservations:
    """Reservations of members for one kind of disruption.

    Args:
        kind: The kind of disruption.
        holds: Active disruptions of the members.
        reservations: Store of the reservations.
        now: The clock.
    """

    def __init__(
        self,
        kind: MemberDisruption,
        holds: HubMemberHolds,
        reservations: LeaseReservations,
        now: Callable[[], datetime],
    ) -> None:
        self._kind = kind
        self._holds = holds
        self._reservations = reservations
        self._now = now
        self.background = (reservations.run,)
        """Tasks that the loop must run, once for all instances over the same Leases."""
        self.ends = (holds.end,)
        """Functions that the loop must call when it stops."""

    def subscribe(self, handler: Callable[[str], None]) -> Callable[[], None]:
        """Call *handler* with every member that may have become free or held. Return a function that unsubscribes."""
        ends = self._holds.subscribe(handler), self._follow(MEMBER, handler)

        def end() -> None:
            for unsubscribe in ends:
                unsubscribe()

        return end

    def subscribe_to_placements(self, handler: Callable[[str], None]) -> Callable[[], None]:
        """Call *handler* with each placement, as ``crp/web``, whose reservations change. Return the unsubscriber."""
        return self._follow(ROLLOUT, handler)

    def _follow(self, gate: str, handler: Callable[[str], None]) -> Callable[[], None]:
        return self._reservations.subscribe(lambda thing: handler(thing.name) if thing.gate == gate else None)

    def waits(self, member: str) -> Hold | None:
        """Return the hold that blocks a member, according to the cache. None means that `reserve` may be tried."""
        return waits_for(self._kind, self._holds.of(member))

    def reserved_members(self, placement: str, members: Iterable[str]) -> dict[str, Hold]:
        """Return the members that other holders have reserved for a change of a placement, according to the cache.

        Args:
            placement: The placement, as ``crp/web``.
            members: Members of the placement. If the reservations cannot be read, all of them count as reserved.
        """
        try:
            reservations = self._reservations.cached(ROLLOUT, placement)
        except UnreadableReservationsError as error:
            return {member: Hold(None, "", str(error)) for member in members}
        holds = ((member, reservation_hold(placement, member, reservations)) for member in members)
        return {member: hold for member, hold in holds if hold is not None}

    async def reserve(self, member: str, holder: str, *, ending: str = "") -> Hold | None:
        """Reserve a member, or renew its reservation.

        Args:
            member: Name of the member.
            holder: Holder of the reservation.
            ending: A holder of the loop whose disruption ends with this one, and therefore does not block it.

        Returns:
            None if the member is reserved. Otherwise the hold that blocks it, and nothing is reserved.

        Raises:
            StoreError: The reservation cannot be written now. The queue retries.
        """
        blocking_hold: Hold | None = None

        def decide(held: Held) -> Held | None:
            nonlocal blocking_hold
            own, others = _divide(held, holder)
            going_on = (hold for hold in self._holds.active_disruptions(member) if hold.by != ending)
            blocking_hold = waits_for(self._kind, (*going_on, *reserved_holds(member, _divide(others, ending)[1])))
            if blocking_hold is not None:  # release an earlier one, which would block others
                return others if own is not None else None
            if own is not None and not self._is_old(own):
                return None
            return (*others, self._reservation(member, holder, own))

        try:
            await self._reservations.change(MEMBER, member, decide)
        except (ForbiddenError, UnreadableReservationsError, TooManyReservationsError) as error:
            return Hold(None, "", f"member {member} cannot be reserved: {error}")
        return blocking_hold

    def holds(self, member: str, holder: str) -> bool:
        """Return whether *holder* has reserved a member, according to the cache."""
        return self._own(member, holder) is not None

    async def renew(self, member: str, holder: str) -> None:
        """Renew a reservation if due. An expired or released one is not renewed.

        Raises:
            StoreError: The reservation cannot be written now.
        """
        own = self._own(member, holder)
        if own is None or not self._is_old(own):
            return

        def decide(held: Held) -> Held | None:
            own, others = _divide(held, holder)
            # An expired reservation is not recreated here: another holder may have been granted the member since.
            return None if own is None else (*others, self._reservation(member, holder, own))

        await self._reservations.change(MEMBER, member, decide)

    async def release(self, member: str, holder: str) -> None:
        """Release the reservation of a member. Write nothing if it is not reserved."""
        if self._own(member, holder) is None:
            return

        def decide(held: Held) -> Held | None:
            own, others = _divide(held, holder)
            return None if own is None else others

        await self._reservations.change(MEMBER, member, decide)

    def _own(self, member: str, holder: str) -> Reservation | None:
        try:
            return _divide(tuple(self._reservations.cached(MEMBER, member)), holder)[0]
        except UnreadableReservationsError:
            return None

    def _is_old(self, own: Reservation) -> bool:
        return own.expires - self._now() < RENEWED_BELOW

    def _reservation(self, member: str, holder: str, own: Reservation | None) -> Reservation:
        expires = (self._now() + LASTS).replace(microsecond=0)
        if own is not None:
            return own.until(expires)
        identifier = reservation_id(MEMBER, member, secrets.token_hex(_SECRET_BYTES))
        return Reservation(identifier, holder, IDENTITY, MEMBER, (member,), expires, {"kind": str(self._kind)})


def _divide(held: Held, holder: str) -> tuple[Reservation | None, Held]:
    """Return the loop's reservation for *holder*, or None, and all others."""
    own = next(
        (reservation for reservation in held if (reservation.holder, reservation.identity) == (holder, IDENTITY)), None
    )
    return own, tuple(reservation for reservation in held if reservation is not own)


K = TypeVar("K", bound=Hashable)


class Reserved(Generic[K]):
    """Members that this process has reserved for runs.

    Args:
        turns: Reserves members. None: disabled, nothing is reserved.
    """

    def __init__(self, turns: MemberReservations | None) -> None:
        self._turns = turns
        self._of: dict[K, set[str]] = {}

    async def reserve(self, run: K, holder: str, members: Iterable[str]) -> Mapping[str, Hold]:
        """Reserve members for a run. Return the members that are held, each with its hold."""
        turns, refusals = self._turns, dict[str, Hold]()
        if turns is None:
            return refusals
        requested_members = sorted(members)
        # Before the requests: a request may fail here although it was stored, and must be released, too.
        self._of.setdefault(run, set()).update(requested_members)

        async def take(member: str) -> None:
            if (hold := await turns.reserve(member, holder)) is not None:
                refusals[member] = hold

        await run_concurrently(take(member) for member in requested_members)
        return refusals

    async def follow(self, run: K, holder: str, busy: Collection[str]) -> Result:
        """Renew the reservations of the members that a run works on, and release the others.

        Returns:
            When to requeue for the next renewal.
        """
        turns = self._turns
        if turns is None:
            return DONE
        busy_members = set(busy)
        tracked_members = self._of.pop(run, set()) | busy_members
        reserved_members = {member for member in tracked_members if turns.holds(member, holder)}
        if reserved_members & busy_members:
            self._of[run] = reserved_members & busy_members
        await run_concurrently(turns.release(member, holder) for member in sorted(reserved_members - busy_members))
        await run_concurrently(turns.renew(member, holder) for member in sorted(reserved_members & busy_members))
        return Result(RENEWED_BELOW) if reserved_members & busy_members else DONE
