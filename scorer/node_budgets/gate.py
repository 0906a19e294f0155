"""Gate of node pools: whether these nodes may be disrupted now for a given reason, and if not, when.

Source: docs/specifications/nodepool-disruption.md 14.1, 14.2 and 14.4.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from scorer.api.unstructured.json_object import format_time
from scorer.api.values.quoting import format_count
from scorer.node_budgets.answer import GateVerdict, NodeAnswer, NodeGateAnswer
from scorer.node_budgets.blockers import Blocker, BlockReason, DisruptionClass
from scorer.node_budgets.budgets import UNLIMITED, ActiveBudgets, Allowance, NodeCounts, parse_budgets
from scorer.node_budgets.opening import Opening, opening_of
from scorer.node_budgets.pool_view import PoolView
from scorer.node_budgets.question import EXPIRED, QUESTION_REASONS, InvalidQuestion, Mode, NodeGateQuestion
from scorer.node_budgets.wording import (
    MOST_NAMED,
    describe_budget,
    describe_reservation,
    format_node_count,
    is_or_are,
)

_POLL_SECONDS: Final = 10
"""Retry interval while the next opening is unknown."""
_FINAL: Final = frozenset({GateVerdict.NEVER, GateVerdict.INVALID_BUDGET})
"""Verdicts that waiting does not change: the budgets or the request must change."""


def answer(
    question: NodeGateQuestion, pool: PoolView, now: datetime, *, graceful_expiration: bool = False
) -> NodeGateAnswer:
    """Answer one question about *pool*.

    Args:
        question: The question. Its own ``now`` takes precedence over *now*.
        pool: The pool, with reserved nodes.
        now: Current time, timezone-aware.
        graceful_expiration: Whether budgets and pods delay expiration.

    Raises:
        InvalidQuestion: It names unknown or repeated nodes, requests a negative number or more than the pool has, or
            gives an unknown reason.
    """
    now = question.now or now
    pool = pool.as_of(now)
    counts = pool.counts(question.observed)
    _check(question, pool, counts)
    if question.reason == EXPIRED and not graceful_expiration:
        return _unheld(question, counts, now)
    class_ = DisruptionClass.GRACEFUL if question.reason == EXPIRED else question.class_
    active_budgets = parse_budgets(pool.budgets).at(now)
    case = _Case(question, pool, active_budgets, counts, active_budgets.allowance(counts, question.reason), class_)
    if question.requested_count == 0:
        return case.granting(0, "no node is requested")
    if case.allowed.unusable:
        return case.refused_by_mistake(case.allowed.unusable)
    return case.all_or_nothing() if question.mode is Mode.ALL else case.as_many_as_may()


@dataclass(frozen=True, slots=True)
class _Case:
    """A question with all inputs of its answer."""

    question: NodeGateQuestion
    pool: PoolView
    standing: ActiveBudgets
    counts: NodeCounts
    allowed: Allowance
    class_: DisruptionClass

    @property
    def now(self) -> datetime:
        """The instant of the question."""
        return self.standing.now

    def all_or_nothing(self) -> NodeGateAnswer:
        """Grant all nodes or none."""
        requested = self.question.requested_count
        if self.allowed.remaining < requested:
            return self.refused_by_budgets(requested)
        nodes = self.nodes()
        if not all(node.disruptable for node in nodes):
            return self.refused_by_nodes(nodes)
        return self.granting(
            requested, f"{format_node_count(requested)} may be disrupted for {self.question.reason} now", nodes
        )

    def as_many_as_may(self) -> NodeGateAnswer:
        """Grant the first unblocked nodes, up to the limit of the budgets. Refuse only if no node can be granted."""
        requested, remaining = self.question.requested_count, self.allowed.remaining
        if remaining == 0:
            return self.refused_by_budgets(1)
        nodes = self.nodes()
        free = requested if self.question.nodes is None else sum(node.disruptable for node in nodes)
        if free == 0:
            return self.refused_by_nodes(nodes)
        granted = min(free, remaining)
        message = f"{granted} of {format_node_count(requested)} may be disrupted for {self.question.reason} now"
        if granted == requested:
            return self.granting(granted, message, nodes)
        blocked_text = "" if free == requested else f"; {_blocked_text(nodes)}"
        if remaining >= requested:
            return self.granting(granted, f"{message}{blocked_text}", nodes, Opening(None, None, ()))
        opening = self.opening(requested)
        names = self._budgets_text(opening.closing or self.allowed.binding)
        later = f", and more from {format_time(opening.instant)}" if opening.instant is not None else ""
        return self.granting(granted, f"{message}, limited by {names}{later}{blocked_text}", nodes, opening)

    def granting(
        self, count: int, message: str, nodes: tuple[NodeAnswer, ...] | None = None, opening: Opening | None = None
    ) -> NodeGateAnswer:
        """Return the answer that grants *count* nodes.

        *opening* is when all requested nodes may be disrupted, now by default.
        """
        nodes = self.nodes() if nodes is None else nodes
        opening = opening or Opening(self.now, None, ())
        if self.question.nodes is None:
            return self._answer(GateVerdict.ALLOWED, message, nodes, opening, count)
        names = tuple(node.name for node in nodes if node.disruptable)
        return self._answer(GateVerdict.ALLOWED, message, nodes, opening, names[:count])

    def refused_by_mistake(self, mistakes: Sequence[tuple[int, str]]) -> NodeGateAnswer:
        """Return the answer for invalid budgets. *mistakes* are their positions and errors."""
        mistakes_text = "; ".join(
            f"{describe_budget(position, self.pool.budgets[position])}: {mistake}"
            for position, mistake in mistakes[:MOST_NAMED]
        )
        limit = "no node" if self.allowed.unusable else "no more nodes"
        message = f"{limit} of NodePool {self.pool.name} may be disrupted until its budgets are valid: {mistakes_text}"
        return self._answer(GateVerdict.INVALID_BUDGET, message, self.nodes(), Opening(None, None, ()))

    def refused_by_nodes(self, nodes: tuple[NodeAnswer, ...]) -> NodeGateAnswer:
        """Return the answer for blocked nodes that budgets would allow.

        If only reservations block the nodes, the answer contains the first opening after they end. In mode upTo, the
        reservations of one node are enough.
        """
        ends = sorted(end for node in nodes if (end := _last_end(node.blockers)) is not None)
        opening = Opening(None, None, ())
        if self.question.mode is Mode.UP_TO and ends:
            opening = self.pool.opening(self.question.reason, 1, ends[0], self.question.observed)
        elif ends and len(ends) == sum(not node.disruptable for node in nodes):
            opening = self.opening(self.question.requested_count)
        return self._answer(GateVerdict.NODE_BLOCKED, _blocked_text(nodes), nodes, opening)

    def refused_by_budgets(self, requested: int) -> NodeGateAnswer:
        """Return the refusal by budgets of *requested* nodes.

        The verdict is also InFlight if no opening exists with the present nodes in flight, but one would exist without
        them: a window may be closed while nodes are in disruption, and both are temporary.
        """
        if mistakes := self.standing.budgets.mistakes:  # inactive now, but their intention is unknown
            return self.refused_by_mistake(mistakes)
        opening, alone = self.opening(requested), None
        budgets_alone = opening_of(self.standing, self.counts, self.question.reason, requested).instant
        if opening.instant is not None and (opening.instant == budgets_alone or self.allowed.limit < requested):
            verdict = GateVerdict.WINDOW_CLOSED
        elif self.allowed.limit >= requested:
            verdict = GateVerdict.IN_FLIGHT
        elif not self.allowed.disrupting:
            verdict = GateVerdict.NEVER
        else:
            idle_counts = NodeCounts(self.counts.total)
            alone = opening_of(self.standing, idle_counts, self.question.reason, requested).instant
            verdict = GateVerdict.NEVER if alone is None else GateVerdict.IN_FLIGHT
        return self._answer(verdict, self._refusal_text(verdict, opening, requested, alone), self.nodes(), opening)

    def opening(self, requested: int) -> Opening:
        """Return when the budgets allow *requested* nodes. In mode all, the named nodes' reservations end first."""
        start = self.now
        if self.question.mode is Mode.ALL and self.question.nodes:
            start = max([start, *(end for node in self.nodes() if (end := _last_end(node.blockers)) is not None)])
        return self.pool.opening(self.question.reason, requested, start, self.question.observed)

    def nodes(self) -> tuple[NodeAnswer, ...]:
        """Return each named node with its blockers."""
        names = self.question.nodes or ()
        return tuple(NodeAnswer(name, self.pool.blockers_of(name, self.class_, self.now)) for name in names)

    def _refusal_text(self, verdict: GateVerdict, opening: Opening, requested: int, alone: datetime | None) -> str:
        reason, limit, total = self.question.reason, self.allowed.limit, self.counts.total
        positions = opening.closing or self.allowed.binding
        subject = f"{self._budgets_text(positions)} {'allow' if len(positions) > 1 else 'allows'}"
        message = f"{subject} {limit} of {format_node_count(total)} to be disrupted for {reason}, {requested} requested"
        disruptions = self._disruptions_text()
        match verdict:
            case GateVerdict.WINDOW_CLOSED:
                assert opening.instant is not None
                return f"{message}{disruptions}; opens {format_time(opening.instant)}"
            case GateVerdict.IN_FLIGHT:
                if opening.instant is not None:
                    return f"{message}{disruptions}; opens {format_time(opening.instant)}"
                earliest = f", at the earliest at {format_time(alone)}" if alone is not None else ""
                return f"{message}{disruptions}. Retry when they have finished or are ready{earliest}"
            case _ if opening.searched_until is not None:
                return f"{message}{disruptions}. No opening was found until {format_time(opening.searched_until)}"
            case _:
                return f"{message}{disruptions}. This remains so until the budgets or the nodes of the pool change"

    def _budgets_text(self, positions: Sequence[int]) -> str:
        """Return a description of the budgets, or of the pool if *positions* is empty."""
        budgets = ", ".join(
            describe_budget(position, self.pool.budgets[position]) for position in positions[:MOST_NAMED]
        )
        more = f" and {len(positions) - MOST_NAMED} more" if len(positions) > MOST_NAMED else ""
        return f"{budgets}{more}" or f"NodePool {self.pool.name}"

    def _disruptions_text(self) -> str:
        """Return the nodes that count against the budgets, as part of a sentence."""
        count = self.allowed.disrupting
        if count == 0:
            return ""
        names: list[str] = []
        if self.question.observed is None and self.pool.held_count == 0:
            names = sorted(self.pool.disrupting(self.question.reason))
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        names_note = f" ({', '.join(names[:MOST_NAMED])}{more})" if names else ""
        reservations = self.pool.counting()
        holders = "".join(f"; {describe_reservation(reservation)}" for reservation in reservations[:MOST_NAMED])
        further = len(reservations) - MOST_NAMED
        more_holders = f" and {format_count(further, 'more reservation')}" if further > 0 else ""
        return (
            f", and {count} {is_or_are(count)} already being disrupted or not ready{names_note}{holders}{more_holders}"
        )

    def _answer(
        self,
        verdict: GateVerdict,
        message: str,
        nodes: tuple[NodeAnswer, ...],
        opening: Opening,
        granted: tuple[str, ...] | int | None = None,
    ) -> NodeGateAnswer:
        no_grant: tuple[str, ...] | int = 0 if self.question.nodes is None else ()
        return NodeGateAnswer(
            allowed=verdict is GateVerdict.ALLOWED,
            granted=no_grant if granted is None else granted,
            limit=self.allowed.limit,
            disrupting=self.allowed.disrupting,
            remaining=self.allowed.remaining,
            total=self.counts.total,
            active=self.allowed.active,
            binding=self.allowed.binding,
            nodes=nodes,
            verdict=verdict,
            next_open=opening.instant,
            retry_after_seconds=None if verdict in _FINAL else _retry_after(opening.instant, self.now),
            searched_until=opening.searched_until,
            message=message,
        )


def _check(question: NodeGateQuestion, pool: PoolView, counts: NodeCounts) -> None:
    """Raise InvalidQuestion if the question does not fit the pool."""
    if question.reason not in QUESTION_REASONS:
        words = ", ".join(QUESTION_REASONS)
        raise InvalidQuestion("/reason", "unknown-reason", f"{question.reason[:64]!r}: must be one of {words}")
    if question.nodes is None:
        if question.count < 0:
            raise InvalidQuestion("/count", "negative", f"{question.count} is less than 0")
        if question.count > counts.total:
            detail = f"{question.count} is more than the {format_node_count(counts.total)} of NodePool {pool.name}"
            raise InvalidQuestion("/count", "more-than-exist", detail)
        return
    names: set[str] = set()
    for position, name in enumerate(question.nodes):
        if name in names:
            raise InvalidQuestion(f"/nodes/{position}", "duplicate", f"{name[:64]!r} is listed twice")
        if name not in pool.nodes:
            raise InvalidQuestion(
                f"/nodes/{position}", "unknown-node", f"{name[:64]!r} is not a node of NodePool {pool.name}"
            )
        names.add(name)


def _unheld(question: NodeGateQuestion, counts: NodeCounts, now: datetime) -> NodeGateAnswer:
    """Return the answer for expiration that is never delayed (nodepool-disruption.md 10)."""
    disrupting = counts.disrupting(EXPIRED)
    return NodeGateAnswer(
        allowed=True,
        granted=question.count if question.nodes is None else question.nodes,
        limit=UNLIMITED,
        disrupting=disrupting,
        remaining=UNLIMITED - disrupting,
        total=counts.total,
        active=(),
        binding=(),
        nodes=tuple(NodeAnswer(name) for name in question.nodes or ()),
        verdict=GateVerdict.ALLOWED,
        next_open=now,
        retry_after_seconds=0,
        searched_until=None,
        message="budgets, pods and annotations do not delay expiration",
    )


def _retry_after(instant: datetime | None, now: datetime) -> int:
    return _POLL_SECONDS if instant is None else max(0, math.ceil((instant - now).total_seconds()))


def _blocked_text(nodes: Sequence[NodeAnswer]) -> str:
    blocked_nodes = [node for node in nodes if not node.disruptable]
    messages = [f"{node.name}: {_first_blocker_text(node.blockers)}" for node in blocked_nodes[:MOST_NAMED]]
    further = len(blocked_nodes) - MOST_NAMED
    more = [format_count(further, "more node")] if further > 0 else []
    return f"{format_node_count(len(blocked_nodes))} cannot be disrupted: {'; '.join((*messages, *more))}"


def _last_end(blockers: Sequence[Blocker]) -> datetime | None:
    """Return when the last of *blockers* ends, or None if any of them is not a reservation with an end."""
    ends = [blocker.until for blocker in blockers if blocker.reason == BlockReason.RESERVED and blocker.until]
    return max(ends) if ends and len(ends) == len(blockers) else None


def _first_blocker_text(blockers: Sequence[Blocker]) -> str:
    more = f" (and {len(blockers) - 1} more)" if len(blockers) > 1 else ""
    return f"{blockers[0].message}{more}"
