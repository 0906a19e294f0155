"""Reservations of member clusters: a controller reserves a member before it disrupts it.

It renews the reservation while it works, and releases it after.

What goes on at the member is judged within the change of its Lease, which is written over the version that was read. So
of two that come at once one is second, wherever it runs. The reservation is renewed while the disruption lasts and
given back when it is over. A process that ends before leaves it to the next leader, which knows its own by the holder;
without a next leader it expires.

Source: serving.md 3.1.
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
"""Who our reservations belong to; no user name that Kubernetes gives has this form."""
LASTS: Final = timedelta(minutes=5)
RENEWED_BELOW: Final = LASTS / 2
RESERVATION_POLL_INTERVAL: Final = timedelta(seconds=15)
"""How often a controller that waits looks again, besides whenever what holds the member changes."""
_SECRET_BYTES: Final = 16


def member_reservations(
    hub: Hub, settings: LoopSettings, now: Callable[[], datetime]
) -> Mapping[MemberDisruption, "MemberReservations"]:
    """Return the turns of the disruptions that wait for one another, over the same reservations."""
    gates_members = settings.gate_members
    if not gates_members:
        return {}
    reservations = LeaseReservations(hub.store, settings.namespace, now)
    holds = HubMemberHolds(hub.cache, gates_members, reservations.cached)
    return {kind: MemberReservations(kind, holds, reservations, now) for kind in gates_members}


class MemberReservations:
    """Reservations of members for one kind of disruption.

    Args:
        kind: The kind.
        holds: What goes on at the members.
        reservations: Where reservations are kept.
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
        """What the loop has to run meanwhile; once for all turns over the same reservations."""
        self.ends = (holds.end,)
        """What the loop has to call at the end."""

    def subscribe(self, handler: Callable[[str], None]) -> Callable[[], None]:
        """Call *handler* with every member that may have become free, or held; returns what ends that."""
        ends = self._holds.subscribe(handler), self._follow(MEMBER, handler)

        def end() -> None:
            for unsubscribe in ends:
                unsubscribe()

        return end

    def subscribe_to_placements(self, handler: Callable[[str], None]) -> Callable[[], None]:
        """Call *handler* with each placement, as ``crp/web``, whose reservations change; returns what ends that."""
        return self._follow(ROLLOUT, handler)

    def _follow(self, gate: str, handler: Callable[[str], None]) -> Callable[[], None]:
        return self._reservations.subscribe(lambda thing: handler(thing.name) if thing.gate == gate else None)

    def waits(self, member: str) -> Hold | None:
        """Return what has to end at a member first, as far as the cache knows; None: `reserve` may be tried."""
        return waits_for(self._kind, self._holds.of(member))

    def reserved_members(self, placement: str, members: Iterable[str]) -> dict[str, Hold]:
        """Return the members on which others have reserved to change a placement, as far as the cache knows.

        Args:
            placement: As ``crp/web``.
            members: Those of the placement; where the reservations cannot be read, all of them count as reserved.
        """
        try:
            reservations = self._reservations.cached(ROLLOUT, placement)
        except UnreadableReservationsError as error:
            return {member: Hold(None, "", str(error)) for member in members}
        holds = ((member, reservation_hold(placement, member, reservations)) for member in members)
        return {member: hold for member, hold in holds if hold is not None}

    async def reserve(self, member: str, holder: str, *, ending: str = "") -> Hold | None:
        """Reserve a member, or renew what has been reserved.

        Args:
            member: The member.
            holder: For whom.
            ending: One of our holders whose disruption ends with this one, which therefore does not wait for it.

        Returns:
            None when it is reserved now; else what has to end first, and nothing is reserved.

        Raises:
            StoreError: The reservation cannot be made now; the queue tries again.
        """
        found: Hold | None = None

        def decide(held: Held) -> Held | None:
            nonlocal found
            mine, others = _divide(held, holder)
            going_on = (hold for hold in self._holds.active_disruptions(member) if hold.by != ending)
            found = waits_for(self._kind, (*going_on, *reserved_holds(member, _divide(others, ending)[1])))
            if found is not None:  # one that we have from before is given back: while we wait, it holds up others
                return others if mine is not None else None
            if mine is not None and not self._is_old(mine):
                return None
            return (*others, self._reservation(member, holder, mine))

        try:
            await self._reservations.change(MEMBER, member, decide)
        except (ForbiddenError, UnreadableReservationsError, TooManyReservationsError) as error:
            return Hold(None, "", f"member {member} cannot be reserved: {error}")
        return found

    def holds(self, member: str, holder: str) -> bool:
        """Say whether *holder* has reserved a member, as far as the cache knows."""
        return self._mine(member, holder) is not None

    async def renew(self, member: str, holder: str) -> None:
        """Renew a reservation when it is due; one that has expired is gone."""
        mine = self._mine(member, holder)
        if mine is None or not self._is_old(mine):
            return

        def decide(held: Held) -> Held | None:
            mine, others = _divide(held, holder)
            # One that has expired is not taken again here: another may have been granted the member since.
            return None if mine is None else (*others, self._reservation(member, holder, mine))

        await self._reservations.change(MEMBER, member, decide)

    async def release(self, member: str, holder: str) -> None:
        """End the reservation of a member; writes nothing when there is none."""
        if self._mine(member, holder) is None:
            return

        def decide(held: Held) -> Held | None:
            mine, others = _divide(held, holder)
            return None if mine is None else others

        await self._reservations.change(MEMBER, member, decide)

    def _mine(self, member: str, holder: str) -> Reservation | None:
        try:
            return _divide(tuple(self._reservations.cached(MEMBER, member)), holder)[0]
        except UnreadableReservationsError:
            return None

    def _is_old(self, mine: Reservation) -> bool:
        return mine.expires - self._now() < RENEWED_BELOW

    def _reservation(self, member: str, holder: str, mine: Reservation | None) -> Reservation:
        expires = (self._now() + LASTS).replace(microsecond=0)
        if mine is not None:
            return mine.until(expires)
        identifier = reservation_id(MEMBER, member, secrets.token_hex(_SECRET_BYTES))
        return Reservation(identifier, holder, IDENTITY, MEMBER, (member,), expires, {"kind": str(self._kind)})


def _divide(held: Held, holder: str) -> tuple[Reservation | None, Held]:
    """Return the reservation of one of our holders, and all others."""
    mine = next(
        (reservation for reservation in held if (reservation.holder, reservation.identity) == (holder, IDENTITY)), None
    )
    return mine, tuple(reservation for reservation in held if reservation is not mine)


K = TypeVar("K", bound=Hashable)


class Reserved(Generic[K]):
    """The members that this process has reserved for runs.

    Args:
        turns: Reserves members; None: nobody waits for anybody, and nothing is reserved.
    """

    def __init__(self, turns: MemberReservations | None) -> None:
        self._turns = turns
        self._of: dict[K, set[str]] = {}

    async def reserve(self, run: K, holder: str, members: Iterable[str]) -> Mapping[str, Hold]:
        """Reserve members for a run; return those that something else has, and what that is."""
        turns, refusals = self._turns, dict[str, Hold]()
        if turns is None:
            return refusals
        requested_members = sorted(members)
        # Before the requests: one may be stored though it fails here, and has to be given back then, too.
        self._of.setdefault(run, set()).update(requested_members)

        async def take(member: str) -> None:
            if (hold := await turns.reserve(member, holder)) is not None:
                refusals[member] = hold

        await run_concurrently(take(member) for member in requested_members)
        return refusals

    async def follow(self, run: K, holder: str, busy: Collection[str]) -> Result:
        """Keep the members reserved that a run is working on, and give the others back.

        Returns:
            When to come back, to renew what is reserved.
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
