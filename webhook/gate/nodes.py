"""May it be disrupted now? The gate over the present state of the hub, and reservations of what it lets through.

An answer without a reservation is advice: two callers who ask at once are both told that they may. What has to hold is
reserved, and a reservation is decided while nobody else can reserve of the same pool, see `webhook.gate.reservations`.
What nodes are doing then is read from the hub itself: what was done under a reservation that was given back since may
not have come to this replica yet. Pods, and what guards them, come from its cache in either case.

Replicas agree on what is in force as far as their clocks do. A reservation of a rollout is two: one of the placement,
whose budget it uses, and one of the member; they are had, renewed and given back together.

Source: nodepool-disruption.md 14; serving.md 3.1.
"""

import asyncio
import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from scorer.api.references import UnknownObjectError
from scorer.member_gate.holds import MemberDisruption
from scorer.node_budgets.answer import Answer
from scorer.node_budgets.gate import answer, answer_all
from scorer.node_budgets.pool_view import PoolView
from scorer.node_budgets.question import InvalidQuestion, Question
from scorer.reservations import (
    DISRUPTION,
    MEMBER,
    ROLLOUT,
    Reservation,
    Thing,
    UnreadableReservationsError,
    beside,
    reservation_id,
)
from webhook.gate.pools import HubNodePools
from webhook.gate.reservations import Held, LeaseReservations, Look
from webhook.kube.ports import Store, StoreError
from webhook.settings.gate import ExpirationMode, NodeGateSettings

_SECRET_BYTES = 16


class UnknownReservationError(Exception):
    """There is no such reservation, or not any more."""


class NotYoursError(Exception):
    """The reservation is somebody else's."""


class MemberHeldError(Exception):
    """A member cluster is being disrupted by something else.

    Args:
        message: Says by what, for whom and until when.
        by: The reservation in the way.
    """

    def __init__(self, message: str, by: Reservation) -> None:
        super().__init__(message)
        self.by = by


class HubGate:
    """Answers for the node pools of a hub.

    Args:
        pools: The pools.
        store: Where reservations are kept.
        settings: What the operator decided.
        now: The clock.
    """

    def __init__(
        self, pools: HubNodePools, store: Store, settings: NodeGateSettings, now: Callable[[], datetime]
    ) -> None:
        self.pools = pools
        self.store = store
        self.reservations = LeaseReservations(store, settings.namespace, now)
        self._graceful_expiration = settings.expiration_mode is ExpirationMode.GRACEFUL
        self._now = now

    async def run(self) -> None:
        """Follow the reservations until cancelled."""
        await self.reservations.run()

    @property
    def synced(self) -> bool:
        """Whether pools and reservations have been read once; without the right to read these there are none."""
        return self.pools.synced and self.reservations.synced

    def view(self, name: str) -> PoolView | None:
        """Return a pool with what is reserved of it; None: there is no such pool.

        Raises:
            UnreadableReservationsError: What is reserved of it cannot be read.
        """
        pool = self.pools.pool(name)
        return None if pool is None else pool.with_reservations(self.reservations_on(DISRUPTION, name))

    def views(self) -> tuple[PoolView, ...]:
        """Return all pools by name; one whose reservations cannot be read with every node held."""
        return tuple(view for name in self.pools.names() if (view := self._view_or_shut(name)) is not None)

    def _view_or_shut(self, name: str) -> PoolView | None:
        try:
            return self.view(name)
        except UnreadableReservationsError:
            pool = self.pools.pool(name)
            return None if pool is None else pool.with_held(frozenset(pool.nodes), 0)

    def ask(self, question: Question) -> Answer:
        """Answer a question; it is advice, see above.

        Raises:
            UnknownObjectError: There is no such pool.
            InvalidQuestion: The question does not fit the pool.
            UnreadableReservationsError: What is reserved cannot be read.
        """
        return self._answer(question, self._view_for(question))

    def ask_all(self, questions: Sequence[Question]) -> tuple[Answer, ...]:
        """Answer questions in order, out of one snapshot, each grant lowering what follows for its pool; as `ask`."""
        return answer_all(
            questions,
            self._asked_view,
            self._now(),
            graceful_expiration=self._graceful_expiration,
            inline=self.pools.view_of,
        )

    def _answer(self, question: Question, pool: PoolView) -> Answer:
        return answer(question, pool, self._now(), graceful_expiration=self._graceful_expiration)

    def _view_for(self, question: Question) -> PoolView:
        return self._asked_view(question.pool) if question.node_pool is None else self.pools.view_of(question.node_pool)

    def _asked_view(self, name: str) -> PoolView:
        view = self.view(name)
        if view is None:
            raise _unknown_pool(name)
        return view

    async def answer_all(self, questions: Sequence[Question], identity: str) -> tuple[Answer, ...]:
        """Answer questions as `ask_all`, and reserve what they want reserved, for *identity*: all of it or nothing.

        Raises:
            InvalidQuestion, UnknownObjectError: As `ask_all`.
            UnreadableReservationsError, TooManyReservationsError, StoreError: As `reserve`.
        """
        if not any(question.reserve_seconds for question in questions):
            return self.ask_all(questions)
        answers: list[Answer] = []
        advised: dict[str, list[Answer]] = {}
        try:
            for position, question in enumerate(questions):
                before = _all_granted(advised.get(question.pool, ()))
                try:
                    if question.reserve_seconds:
                        seconds = question.reserve_seconds
                        found = await self.reserve(question, identity, identity, seconds, besides=before)
                    else:
                        found = self._answer(question, self._view_for(question).with_held(*before))
                        advised.setdefault(question.pool, []).append(found)
                except InvalidQuestion as error:
                    at = f"/questions/{position}{error.pointer}"
                    raise InvalidQuestion(at, error.code, error.detail) from error
                answers.append(found)
        except BaseException:
            for answered in answers:
                if answered.reservation is not None:
                    await self._drop(answered.reservation[0])
            raise
        return tuple(answers)

    async def reserve(
        self,
        question: Question,
        holder: str,
        identity: str,
        seconds: int,
        *,
        besides: tuple[Collection[str], int] = ((), 0),
    ) -> Answer:
        """Answer a question, and reserve what is granted for so long; the answer then has the reservation.

        Nothing is reserved when nothing is granted, or no node was asked for.

        Args:
            question: About now, and about a pool of the hub.
            holder: Who takes it, in the caller's words.
            identity: Who asks, as authenticated.
            seconds: 10 to 3600.
            besides: Nodes, by name and by number, that count as held as well.

        Raises:
            UnknownObjectError: There is no such pool.
            InvalidQuestion: The question does not fit the pool.
            UnreadableReservationsError, TooManyReservationsError, StoreError: Nothing can be reserved now.
        """
        _check_reservable(question)
        identifier = reservation_id(DISRUPTION, question.pool, secrets.token_hex(_SECRET_BYTES))
        answered: list[Answer] = []

        def decide(held: Held) -> Held | None:
            if (own := _found(held, identifier)) is not None:  # a write that was not answered has been stored
                answered[:] = [replace(answered[-1], reservation=(own.id, own.expires))]
                return None
            pool = self.pools.pool(question.pool)
            if pool is None:
                raise _unknown_pool(question.pool)
            found = self._answer(question, pool.with_reservations(held).with_held(*besides))
            answered[:] = [found]
            if not found.allowed or not found.granted:
                return None
            expires = _after(self._now(), seconds)
            answered[:] = [replace(found, reservation=(identifier, expires))]
            granted = found.granted
            own = Reservation(
                identifier, holder, identity, DISRUPTION, granted, expires, {"reason": str(question.reason)}
            )
            return (*held, own)

        async def look() -> None:
            await self.pools.look_again(self.store, question.pool)

        try:
            await self.reservations.change(DISRUPTION, question.pool, decide, look)
        except (StoreError, asyncio.CancelledError):
            if answered and answered[-1].reservation is not None:  # the write may have been stored all the same
                await self._drop(identifier)
            raise
        return answered[-1]

    async def renew(self, identifier: str, identity: str, seconds: int) -> Reservation:
        """Keep what was granted for so long from now; a reservation that has expired is gone.

        Raises:
            UnknownReservationError: There is none of that id.
            NotYoursError: It is somebody else's.
            UnreadableReservationsError, StoreError: The reservations cannot be read or written now.
        """

        def decide(_: Thing, held: Held) -> Held:
            own = _owned(held, identifier, identity)
            return tuple(each.until(_after(self._now(), seconds)) if each is own else each for each in held)

        own = _owned(await self.reservations.change_one(identifier, decide), identifier, identity)
        if own.gate == ROLLOUT:
            try:
                await self._hold_beside(own)
            except MemberHeldError as error:  # the half of the member had come to an end
                await self._drop(identifier)
                raise UnknownReservationError(f"the reservation has come to an end: {error}") from error
        return own

    async def release(self, identifier: str, identity: str) -> None:
        """Give a reservation back; as `renew`."""
        freed: Reservation | None = None
        released = False

        def decide(_: Thing, held: Held) -> Held | None:
            nonlocal freed, released
            if released and _found(held, identifier) is None:
                return None
            own = _owned(held, identifier, identity)
            if own.gate == ROLLOUT and freed is None:  # first the member: what is left can be given back again
                freed = own
                return None
            released = True
            return tuple(each for each in held if each is not own)

        await self.reservations.change_one(identifier, decide)
        if freed is not None:
            await self._remove(beside(freed).id)
            await self.reservations.change_one(identifier, decide)
        if not released:
            raise _unknown(identifier)

    async def _remove(self, identifier: str) -> None:
        """Remove a reservation, whosever it is; fine when it is not there."""

        def decide(_: Thing, held: Held) -> Held | None:
            own = _found(held, identifier)
            return None if own is None else tuple(each for each in held if each is not own)

        await self.reservations.change_one(identifier, decide)

    async def _drop(self, identifier: str) -> None:
        """Try to remove what nobody was told to have; else it expires."""
        with suppress(StoreError, UnreadableReservationsError):
            await self._remove(identifier)

    def reservations_on(self, gate: str, thing: str) -> tuple[Reservation, ...]:
        """Return what is reserved of a thing, as far as the watch has told; as `LeaseReservations.known`."""
        return self.reservations.known(gate, thing)

    def list_reservations(self) -> tuple[tuple[tuple[Thing, Reservation], ...], tuple[str, ...]]:
        """Return all reservations with what they are of, and why some cannot be read."""
        found, mistakes = self.reservations.all_known()
        return tuple((thing, each) for thing, held in found for each in held), mistakes

    async def hold_rollout(
        self,
        placement: str,
        cluster: str,
        holder: str,
        identity: str,
        seconds: int,
        *,
        judge: Callable[[Held], MemberDisruption],
        look: Look,
    ) -> Reservation:
        """Hold a cluster of a placement, and the member, to change it there; longer when it is *holder*'s already.

        Args:
            placement: As ``crp/web`` or ``rp/team/web``.
            cluster: The member.
            holder: Who takes it, in the caller's words.
            identity: Who asks, as authenticated.
            seconds: 10 to 3600.
            judge: Says which kind of disruption it is, or raises why it may not be, given what others have reserved of
                the placement; may be asked several times.
            look: Looks at what *judge* depends on.

        Raises:
            MemberHeldError: The member is held for another kind.
            UnreadableReservationsError, TooManyReservationsError, StoreError: It cannot be held now.
        """
        identifier = reservation_id(ROLLOUT, placement, secrets.token_hex(_SECRET_BYTES))
        taken: list[Reservation] = []

        def decide(held: Held) -> Held:
            asked = (holder, identity, (cluster,))
            own = next((each for each in held if (each.holder, each.identity, each.granted) == asked), None)
            others = tuple(each for each in held if each is not own)
            kind, expires = judge(others), _after(self._now(), seconds)
            if own is None:
                own = Reservation(identifier, holder, identity, ROLLOUT, (cluster,), expires, {"kind": str(kind)})
            taken[:] = [own.until(max(own.expires, expires))]
            return (*others, *taken)

        try:
            await self.reservations.change(ROLLOUT, placement, decide, look)
            await self._hold_beside(taken[-1])
        except BaseException:
            if taken and taken[-1].id == identifier:  # what was had before is still had
                await self._drop(beside(taken[-1]).id)
                await self._drop(identifier)
            raise
        return taken[-1]

    async def _hold_beside(self, reservation: Reservation) -> None:
        """Hold the member for as long as the placement is held. Raises as `hold_rollout`."""
        wanted = beside(reservation)
        assert not isinstance(wanted.granted, int)
        (cluster,) = wanted.granted

        def decide(held: Held) -> Held:
            others = tuple(each for each in held if each.id != wanted.id)
            _check_free(cluster, MemberDisruption(wanted.purpose), others)
            return (*others, wanted)

        await self.reservations.change(MEMBER, cluster, decide)

    async def hold_member(
        self, cluster: str, kind: MemberDisruption, holder: str, identity: str, seconds: int
    ) -> Reservation:
        """Hold a member cluster for one kind of disruption, or hold it longer when it is *holder*'s already.

        Others may hold it for the same kind at the same time.

        Raises:
            MemberHeldError: It is held for another kind.
            UnreadableReservationsError, TooManyReservationsError, StoreError: It cannot be held now.
        """
        identifier = reservation_id(MEMBER, cluster, secrets.token_hex(_SECRET_BYTES))
        taken: list[Reservation] = []

        def decide(held: Held) -> Held:
            _check_free(cluster, kind, held)
            own = next((each for each in held if (each.holder, each.identity) == (holder, identity)), None)
            expires = _after(self._now(), seconds)
            if own is None:
                own = Reservation(identifier, holder, identity, MEMBER, (cluster,), expires, {"kind": str(kind)})
                taken[:] = [own]
                return (*held, own)
            taken[:] = [own.until(max(own.expires, expires))]
            return tuple(taken[0] if each is own else each for each in held)

        await self.reservations.change(MEMBER, cluster, decide)
        return taken[0]

    async def release_member(self, cluster: str, kind: MemberDisruption, holder: str, identity: str) -> None:
        """Hold a member cluster no longer; fine when *holder* does not hold it.

        Raises:
            UnreadableReservationsError, StoreError: The reservations cannot be read or written now.
        """

        def decide(held: Held) -> Held | None:
            own = (str(kind), holder, identity)
            left = tuple(each for each in held if (each.purpose, each.holder, each.identity) != own)
            return None if len(left) == len(held) else left

        await self.reservations.change(MEMBER, cluster, decide)


def _check_reservable(question: Question) -> None:
    """Refuse to reserve what is not there: only the present is reserved. Raises `InvalidQuestion`."""
    if question.node_pool is not None:
        raise InvalidQuestion("/nodePool", "invalid", "only of a node pool of the hub can something be reserved")
    if question.now is not None:
        raise InvalidQuestion("/now", "invalid", "only for the present can something be reserved; leave it out")


def _check_free(cluster: str, kind: MemberDisruption, held: Held) -> None:
    """Raise `MemberHeldError` when a member is held for another kind of disruption."""
    for other in held:
        if other.purpose != kind:
            raise MemberHeldError(_held_message(cluster, kind, other), other)


def _all_granted(answers: Iterable[Answer]) -> tuple[frozenset[str], int]:
    """Return what has been granted, by name and by number."""
    names: set[str] = set()
    count = 0
    for each in answers:
        if isinstance(each.granted, int):
            count += each.granted
        else:
            names.update(each.granted)
    return frozenset(names), count


def _found(held: Held, identifier: str) -> Reservation | None:
    return next((each for each in held if secrets.compare_digest(each.id.encode(), identifier.encode())), None)


def _owned(held: Held, identifier: str, identity: str) -> Reservation:
    own = _found(held, identifier)
    if own is None:
        raise _unknown(identifier)
    if own.identity != identity:
        raise NotYoursError("only who has taken a reservation may renew it or give it back")
    return own


def _unknown_pool(name: str) -> UnknownObjectError:
    return UnknownObjectError(f"there is no node pool {name[:320]!r}")


def _unknown(identifier: str) -> UnknownReservationError:
    return UnknownReservationError(f"there is no reservation {identifier[:100]!r}, or it has expired")


def _after(now: datetime, seconds: int) -> datetime:
    """Return the first whole second that is not sooner than *seconds* from now: so it is written."""
    exact = now + timedelta(seconds=seconds)
    return exact.replace(microsecond=0) + timedelta(seconds=1 if exact.microsecond else 0)


def _held_message(cluster: str, kind: MemberDisruption, other: Reservation) -> str:
    return (
        f"{kind} of the member cluster {cluster} has to wait: it is held for {other.purpose} by {other.holder} "
        f"until {other.expires:%Y-%m-%dT%H:%M:%SZ}"
    )
