"""Gate for nodes: questions about the present state of the hub, and reservations of granted nodes.

An answer without a reservation is advice: two concurrent callers may both be allowed. A guarantee needs a reservation.
A reservation is written with the resource version of the pool's Lease that the decision is based on, so no other
reservation can be granted in between. See `webhook.gate.reservations`.

For a reservation, the nodes are read from the hub itself: disruptions under a reservation that was released might not
have reached the cache of this replica yet. Pods and PodDisruptionBudgets always come from the cache.

Replicas agree on the active reservations as far as their clocks agree.

Source: docs/specifications/nodepool-disruption.md 14; docs/specifications/serving.md 3.1.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from scorer.api.family import UnknownObjectError
from scorer.node_budgets.answer import NodeGateAnswer
from scorer.node_budgets.gate import answer
from scorer.node_budgets.pool_view import PoolView
from scorer.node_budgets.question import InvalidQuestion, NodeGateQuestion
from scorer.reservations import DISRUPTION, Reservation, UnreadableReservationsError, end_of
from webhook.gate.errors import MistakenQuestionError
from webhook.gate.keeper import Claimant, ReservationKeeper, with_id
from webhook.gate.pools import HubNodePools
from webhook.gate.reservations import Held, new_id
from webhook.kube.ports import Store, StoreError
from webhook.settings.gate import ExpirationMode, GateSettings


class HubNodeGate:
    """Answers for the node pools of a hub.

    Args:
        pools: The pools.
        keeper: The reservations.
        store: The hub itself.
        settings: Settings of the operator.
        now: The clock.
    """

    def __init__(
        self,
        pools: HubNodePools,
        keeper: ReservationKeeper,
        store: Store,
        settings: GateSettings,
        now: Callable[[], datetime],
    ) -> None:
        self.pools = pools
        self._keeper = keeper
        self._reservations = keeper.reservations
        self._store = store
        self._graceful_expiration = settings.expiration_mode is ExpirationMode.GRACEFUL
        self._now = now

    @property
    def synced(self) -> bool:
        """Whether pools and reservations have been read once. Forbidden reservations count as read."""
        return self.pools.synced and self._reservations.synced

    def view(self, name: str) -> PoolView | None:
        """Return a pool with its reservations, None if it does not exist.

        Raises:
            UnreadableReservationsError: The reservations of the pool cannot be read.
        """
        pool = self.pools.pool(name)
        return None if pool is None else pool.with_reservations(self._reservations.cached(DISRUPTION, name))

    def views(self) -> tuple[PoolView, ...]:
        """Return all pools by name. A pool with unreadable reservations has every node held."""
        return tuple(view for name in self.pools.names() if (view := self._view_or_shut(name)) is not None)

    def _view_or_shut(self, name: str) -> PoolView | None:
        try:
            return self.view(name)
        except UnreadableReservationsError:
            pool = self.pools.pool(name)
            return None if pool is None else pool.with_held(frozenset(pool.nodes), 0)

    async def answer(self, questions: Sequence[NodeGateQuestion], claimant: Claimant) -> tuple[NodeGateAnswer, ...]:
        """Answer questions in order, and make the requested reservations: all of them or none.

        The nodes granted to one question count against later questions for the same pool. Without reservations, all are
        answered from one snapshot at one instant.

        Args:
            questions: Each with the lifetime of its reservation in seconds, if requested.
            claimant: Holder of the reservations.

        Raises:
            MistakenQuestionError: A question does not fit its pool. The error has its position.
            UnknownObjectError: A pool does not exist.
            UnreadableReservationsError, TooManyReservationsError, StoreError: The reservations cannot be read or
                written now.
        """
        answers: list[NodeGateAnswer] = []
        now = self._now()
        advice: dict[str, _Granted] = defaultdict(_Granted)  # only without reservations, which the Lease records
        try:
            for position, question in enumerate(questions):
                before = advice[question.pool]
                try:
                    if question.reserve_seconds:
                        reservation = await self._reserve(question, claimant, before)
                        now = self._now()
                    else:
                        reservation = self._advise(question, before, now)
                        before.add(reservation)
                except InvalidQuestion as error:
                    raise MistakenQuestionError(error.pointer, error.code, error.detail, position) from error
                answers.append(reservation)
        except BaseException:  # also when cancelled: the caller gets none of the ids, so it could not release them
            for answer in answers:
                if answer.reservation is not None:
                    await self._keeper.drop(answer.reservation[0])
            raise
        return tuple(answers)

    def _advise(self, question: NodeGateQuestion, besides: "_Granted", now: datetime) -> NodeGateAnswer:
        if question.node_pool is not None:
            return self._answer(question, self.pools.view_of(question.node_pool), besides, now)
        pool = self.view(question.pool)
        if pool is None:
            raise _unknown_pool(question.pool)
        return self._answer(question, pool, besides, now)

    def _answer(self, question: NodeGateQuestion, pool: PoolView, besides: "_Granted", now: datetime) -> NodeGateAnswer:
        return answer(question, besides.taken_off(pool), now, graceful_expiration=self._graceful_expiration)

    async def _reserve(self, question: NodeGateQuestion, claimant: Claimant, besides: "_Granted") -> NodeGateAnswer:
        """Answer a question, and reserve the granted nodes. The answer then has the reservation.

        No reservation is made if no node is granted or requested.
        """
        _check_reservable(question)
        identifier = new_id(DISRUPTION, question.pool)
        answers: list[NodeGateAnswer] = []

        def decide(held: Held) -> Held | None:
            if (own := with_id(held, identifier)) is not None:  # an earlier attempt was stored, but its answer was lost
                answers[:] = [replace(answers[-1], reservation=(own.id, own.expires))]
                return None
            pool = self.pools.pool(question.pool)
            if pool is None:
                raise _unknown_pool(question.pool)
            answer = self._answer(question, pool.with_reservations(held), besides, self._now())
            answers[:] = [answer]
            if not answer.allowed or not answer.granted:
                return None
            expires = end_of(self._now(), timedelta(seconds=question.reserve_seconds))
            answers[:] = [replace(answer, reservation=(identifier, expires))]
            return (*held, _reservation(identifier, question, answer, claimant, expires))

        async def look() -> None:
            await self.pools.refresh(self._store, question.pool)

        try:
            await self._reservations.change(DISRUPTION, question.pool, decide, look)
        except (StoreError, asyncio.CancelledError):
            if answers and answers[-1].reservation is not None:  # the write may have been stored anyway
                await self._keeper.drop(identifier)
            raise
        return answers[-1]


class _Granted:
    """Nodes of a pool that were granted without a reservation, by name and by number."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._count = 0

    def add(self, answer: NodeGateAnswer) -> None:
        if isinstance(answer.granted, int):
            self._count += answer.granted
        else:
            self._names |= frozenset(answer.granted)

    def taken_off(self, pool: PoolView) -> PoolView:
        return pool.with_held(self._names, self._count) if self._names or self._count else pool


def _reservation(
    identifier: str, question: NodeGateQuestion, answer: NodeGateAnswer, claimant: Claimant, expires: datetime
) -> Reservation:
    purpose = {"reason": str(question.reason)}
    return Reservation(identifier, claimant.holder, claimant.identity, DISRUPTION, answer.granted, expires, purpose)


def _check_reservable(question: NodeGateQuestion) -> None:
    """Refuse to reserve hypothetical pools and times. Raises `InvalidQuestion`."""
    if question.node_pool is not None:
        raise InvalidQuestion("/nodePool", "invalid", "a reservation must be for a NodePool of the hub")
    if question.now is not None:
        raise InvalidQuestion("/now", "invalid", "must not be set for a reservation, which always starts now")


def _unknown_pool(name: str) -> UnknownObjectError:
    return UnknownObjectError(f"there is no node pool {name[:320]!r}")
