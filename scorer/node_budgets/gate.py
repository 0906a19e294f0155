"""May these nodes of a pool be disrupted for this reason now, and if not, when?

Source: nodepool-disruption.md 14.1, 14.2 and 14.4.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from scorer.api.meta import JsonObject, format_time
from scorer.api.node_pool import Budget, DisruptionReason
from scorer.node_budgets.blockers import (
    Blocker,
    BlockReason,
    DisruptionClass,
    reserved_blocker,
    state_blockers,
    template_blocker,
)
from scorer.node_budgets.budgets import UNLIMITED, Allowance, NodeCounts, Standing, understood
from scorer.node_budgets.nodes import PoolNode, count_nodes
from scorer.node_budgets.opening import Opening, opening_of
from scorer.reservations import Reservation, held_nodes, in_force

__all__ = [
    "EXPIRED",
    "QUESTION_REASONS",
    "Answer",
    "DisruptionClass",
    "InvalidQuestion",
    "Mode",
    "NodeAnswer",
    "PoolView",
    "Question",
    "Verdict",
    "answer",
    "answer_all",
    "describe_budget",
    "describe_reservation",
    "document",
]

EXPIRED: Final = "Expired"
"""Not a reason of budgets: expiration asks nobody, unless the operator says so (nodepool-disruption.md 10)."""
QUESTION_REASONS: Final = (*(reason.value for reason in DisruptionReason), EXPIRED)

_POLL_SECONDS: Final = 10
"""When to ask again while nobody knows when it opens."""
_MOST_NAMED: Final = 3
"""Budgets and nodes that one message names."""
_LONGEST_QUOTED: Final = 64
_MOST_ENDS: Final = 32
"""Ends of reservations that are looked at when it is asked when a pool opens: the first ones, and the last."""


class Verdict(StrEnum):
    """What the gate says."""

    ALLOWED = "Allowed"
    WINDOW_CLOSED = "WindowClosed"
    IN_FLIGHT = "InFlight"
    NEVER = "NeverWithoutChange"
    INVALID_BUDGET = "InvalidBudget"
    NODE_BLOCKED = "NodeBlocked"


class Mode(StrEnum):
    """Whether all nodes are wanted or none, or as many as may go."""

    ALL = "all"
    UP_TO = "upTo"


class InvalidQuestion(ValueError):  # noqa: N818 - the question is what is wrong
    """A question that cannot be answered.

    Args:
        pointer: JSON Pointer to the member that is wrong, such as ``/nodes/1``.
        code: One word for machines.
        detail: For people.
    """

    def __init__(self, pointer: str, code: str, detail: str) -> None:
        super().__init__(f"{pointer}: {detail}")
        self.pointer = pointer
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Question:
    """One question to the gate.

    Args:
        pool: Name of the NodePool.
        reason: One of `QUESTION_REASONS`.
        nodes: Which nodes, in order of preference; None: *count* nodes, no matter which.
        count: How many, where *nodes* are not named.
        class_: How much their pods are respected.
        mode: All or as many as may go.
        now: The instant that is asked about; None: the present one.
        observed: Counts that take the place of the pool's own; nodes that are held count besides them.
        reserve_seconds: For how long what is granted is to be held; 0: not at all.
        node_pool: The NodePool itself, where the question brings it.
    """

    pool: str
    reason: str
    nodes: tuple[str, ...] | None = None
    count: int = 0
    class_: DisruptionClass = DisruptionClass.GRACEFUL
    mode: Mode = Mode.ALL
    now: datetime | None = None
    observed: NodeCounts | None = None
    reserve_seconds: int = 0
    node_pool: JsonObject | None = None

    @property
    def wanted(self) -> int:
        """How many nodes are asked for."""
        return self.count if self.nodes is None else len(self.nodes)


@dataclass(frozen=True, slots=True)
class PoolView:
    """One pool at one instant.

    Args:
        name: Of the NodePool.
        budgets: Its disruption budgets; kept as `scorer.node_budgets.budgets.PoolBudgets`.
        nodes: All nodes with its label, by name, also those that do not count yet.
        held_nodes: Names of nodes that are promised to somebody.
        held_count: How many more are promised without names.
        reserved: The reservations among what is held, of which is known by whom and until when.
        template_do_not_disrupt: The pool's template forbids disruption, and that holds for nodes that are there.
        blockers: What keeps a node from being disrupted, but for what is held and the template.
        counted: The nodes counted, with nothing held, where somebody knows; None: nobody has counted them.
    """

    name: str
    budgets: tuple[Budget, ...]
    nodes: Mapping[str, PoolNode] = field(default_factory=dict)
    held_nodes: frozenset[str] = frozenset()
    held_count: int = 0
    reserved: tuple[Reservation, ...] = ()
    template_do_not_disrupt: bool = False
    blockers: Callable[[PoolNode, DisruptionClass, datetime], tuple[Blocker, ...]] = state_blockers
    counted: NodeCounts | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "budgets", understood(self.budgets))  # else every question would read them anew

    def counts(self, observed: NodeCounts | None = None) -> NodeCounts:
        """Count the nodes; what is held and not yet being deleted counts as if it were.

        Args:
            observed: What somebody else has counted; nodes that are held count besides those.
        """
        held = [node for name in self.held_nodes if (node := self.nodes.get(name)) and node.counts and not node.going]
        if observed is not None:
            return _with_deleting(observed, len(held) + self.held_count)
        counted = count_nodes(self.nodes.values()) if self.counted is None else self.counted
        not_ready = sum(not node.ready for node in held)
        counted = NodeCounts(counted.total, counted.deleting + len(held), counted.not_ready - not_ready)
        return _with_deleting(counted, self.held_count)

    def blockers_of(self, name: str, class_: DisruptionClass, now: datetime) -> tuple[Blocker, ...]:
        """Return all that keeps one of the nodes from being disrupted, budgets apart."""
        node = self.nodes[name]
        found = self.blockers(node, class_, now)
        if name in self.held_nodes and not node.going:
            found = (self._reserved_blocker(name), *found)
        return (*found, template_blocker(self.name)) if self.template_do_not_disrupt else found

    def disrupting(self, reason: str) -> tuple[str, ...]:
        """Return the names of the nodes that use the budgets up for *reason*."""
        return tuple(
            name
            for name, node in self.nodes.items()
            if node.counts
            and (node.going or name in self.held_nodes or (not node.ready and reason != DisruptionReason.UNHEALTHY))
        )

    def with_held(self, nodes: Collection[str], count: int = 0) -> "PoolView":
        """Return the pool with more nodes held."""
        return replace(self, held_nodes=self.held_nodes | frozenset(nodes), held_count=self.held_count + count)

    def with_reservations(self, reservations: Iterable[Reservation]) -> "PoolView":
        """Return the pool with these reservations held as well; they are in force."""
        more = tuple(reservations)
        return replace(self.with_held(*held_nodes(more)), reserved=(*self.reserved, *more))

    def counting(self) -> tuple[Reservation, ...]:
        """Return the reservations that use a budget up, by their end: of a node that goes already it does itself."""
        return tuple(sorted((each for each in self.reserved if self._counts(each)), key=lambda each: each.expires))

    def opening(self, reason: str, wanted: int, now: datetime, observed: NodeCounts | None = None) -> Opening:
        """Return when the budgets let so many nodes go, now or later.

        What is reserved is let go of at its end at the latest; all else stays as it is now.
        """

        def opening(start: datetime) -> Opening:
            return opening_of(understood(self.budgets).at(start), self.as_of(start).counts(observed), reason, wanted)

        found = opening(now)
        ends = sorted({each.expires for each in self.counting() if each.expires > now})
        for end in (*ends[: _MOST_ENDS - 1], *ends[_MOST_ENDS - 1 :][-1:]):
            if found.instant is not None and found.instant <= end:
                break
            later = opening(end)
            if later.instant is not None and (found.instant is None or later.instant < found.instant):
                found = replace(found, instant=later.instant, searched_until=None)
        return found

    def as_of(self, instant: datetime) -> "PoolView":
        """Return the pool without the reservations that will have ended by *instant*."""
        left = in_force(self.reserved, instant)
        if len(left) == len(self.reserved):
            return self
        names, count = held_nodes(each for each in self.reserved if each not in left)
        kept = (self.held_nodes - names) | held_nodes(left)[0]
        return replace(self, held_nodes=kept, held_count=self.held_count - count, reserved=left)

    def _counts(self, reservation: Reservation) -> bool:
        if isinstance(reservation.granted, int):
            return reservation.granted > 0
        return any((node := self.nodes.get(name)) and node.counts and not node.going for name in reservation.granted)

    def _reserved_blocker(self, name: str) -> Blocker:
        """Return by whom a node is held the longest."""
        holding = [each for each in self.reserved if not isinstance(each.granted, int) and name in each.granted]
        last = max(holding, key=lambda each: each.expires, default=None)
        return reserved_blocker() if last is None else reserved_blocker(_shortened(last.holder), last.expires)


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What the gate says of one named node."""

    name: str
    blockers: tuple[Blocker, ...] = ()

    @property
    def disruptable(self) -> bool:
        """Whether nothing but a budget holds it."""
        return not self.blockers


@dataclass(frozen=True, slots=True)
class Answer:
    """What the gate says; members as in nodepool-disruption.md 14.2.

    Args:
        allowed: All is granted; in mode upTo something is, or nothing was asked for.
        granted: Names of nodes, or how many where none were named.
        limit: `scorer.node_budgets.budgets.UNLIMITED` is none.
        disrupting: Nodes that use the budgets up.
        remaining: How many more may go.
        total: Nodes of the pool.
        active: Positions of the budgets in force.
        binding: Positions of those that set the limit.
        nodes: One entry per named node, in the order of the question.
        verdict: In one word.
        next_open: When the budgets let go what was asked for, or what is reserved for others comes to its end; None:
            not known, or never.
        retry_after_seconds: When to ask again.
        searched_until: Where the search for *next_open* gave up, if it did.
        message: For people.
        reservation: Id and end of what was reserved.
    """

    allowed: bool
    granted: tuple[str, ...] | int
    limit: int
    disrupting: int
    remaining: int
    total: int
    active: tuple[int, ...]
    binding: tuple[int, ...]
    nodes: tuple[NodeAnswer, ...]
    verdict: Verdict
    next_open: datetime | None
    retry_after_seconds: int
    searched_until: datetime | None
    message: str
    reservation: tuple[str, datetime] | None = None


def answer(question: Question, pool: PoolView, now: datetime, *, graceful_expiration: bool = False) -> Answer:
    """Answer one question about *pool*.

    Args:
        question: What is asked; its own ``now`` goes before *now*.
        pool: The pool, with what is held of it.
        now: The present instant; aware.
        graceful_expiration: Whether budgets and pods hold expiration; otherwise nothing does.

    Raises:
        InvalidQuestion: Nodes that the pool does not have, or more than it has; an unknown reason.
    """
    now = question.now or now
    pool = pool.as_of(now)
    counts = pool.counts(question.observed)
    _check(question, pool, counts)
    if question.reason == EXPIRED and not graceful_expiration:
        return _unheld(question, counts, now)
    class_ = DisruptionClass.GRACEFUL if question.reason == EXPIRED else question.class_
    standing = understood(pool.budgets).at(now)
    case = _Case(question, pool, standing, counts, standing.allowance(counts, question.reason), class_)
    if question.wanted == 0:
        return case.granting(0, "no node is asked for")
    if case.allowed.unusable:
        return case.refused_by_mistake(case.allowed.unusable)
    return case.all_or_nothing() if question.mode is Mode.ALL else case.as_many_as_may()


def answer_all(
    questions: Iterable[Question],
    view_of: Callable[[str], PoolView | None],
    now: datetime,
    *,
    graceful_expiration: bool = False,
    inline: Callable[[JsonObject], PoolView] | None = None,
) -> tuple[Answer, ...]:
    """Answer in order; what one question is granted is held against those that follow for the same pool.

    Args:
        questions: What is asked.
        view_of: The pools by name; None: there is none.
        now: The present instant; aware.
        graceful_expiration: See `answer`.
        inline: Reads a NodePool that a question brings; what is granted of it counts for the pool of that name.

    Raises:
        InvalidQuestion: As with `answer`, or a pool does not exist (code ``unknown-pool``); the pointer starts with
            ``/questions/N``.
    """
    granted: dict[str, tuple[set[str], int]] = {}
    answers = []
    for position, question in enumerate(questions):
        try:
            pool = _view(question, view_of, inline)
            nodes, count = granted.get(pool.name, (set(), 0))
            found = answer(question, pool.with_held(nodes, count), now, graceful_expiration=graceful_expiration)
        except InvalidQuestion as error:
            raise InvalidQuestion(f"/questions/{position}{error.pointer}", error.code, error.detail) from error
        if isinstance(found.granted, int):
            granted[pool.name] = nodes, count + found.granted
        else:
            granted[pool.name] = nodes | set(found.granted), count
        answers.append(found)
    return tuple(answers)


def describe_budget(position: int, budget: Budget) -> str:
    """Return a budget in words: ``budgets[2] (nodes "0", schedule "0 9 * * 1-5", duration 8h)``."""
    parts = [f'nodes "{_shortened(budget.nodes)}"']
    if budget.reasons is not None:
        parts.append(f"reasons {', '.join(budget.reasons) or 'none'}")
    if budget.schedule is not None:
        parts.append(f'schedule "{_shortened(budget.schedule)}"')
    if budget.duration is not None:
        parts.append(f"duration {_shortened(budget.duration)}")
    return f"budgets[{position}] ({', '.join(parts)})"


def describe_reservation(reservation: Reservation) -> str:
    """Return who has reserved what until when, to go into a sentence."""
    granted = reservation.granted
    count = granted if isinstance(granted, int) else len(granted)
    return f"{_nodes(count)} reserved by {_shortened(reservation.holder)} until {format_time(reservation.expires)}"


def document(answered: Answer) -> JsonObject:
    """Return an answer as it stands on the wire."""
    made: JsonObject = {
        "allowed": answered.allowed,
        "granted": answered.granted if isinstance(answered.granted, int) else list(answered.granted),
        "limit": answered.limit,
        "disrupting": answered.disrupting,
        "remaining": answered.remaining,
        "total": answered.total,
        "active": list(answered.active),
        "binding": list(answered.binding),
        "nodes": [_node_document(node) for node in answered.nodes],
        "verdict": answered.verdict.value,
        "nextOpen": None if answered.next_open is None else format_time(answered.next_open),
        "retryAfterSeconds": answered.retry_after_seconds,
        "message": answered.message,
    }
    if answered.searched_until is not None:
        made["searchedUntil"] = format_time(answered.searched_until)
    if answered.reservation is not None:
        name, expires = answered.reservation
        made["reservation"] = {"id": name, "expires": format_time(expires)}
    return made


@dataclass(frozen=True, slots=True)
class _Case:
    """A question with all that its answer depends on."""

    question: Question
    pool: PoolView
    standing: Standing
    counts: NodeCounts
    allowed: Allowance
    class_: DisruptionClass

    @property
    def now(self) -> datetime:
        """The instant that is asked about."""
        return self.standing.now

    def all_or_nothing(self) -> Answer:
        """Grant all nodes or none."""
        wanted = self.question.wanted
        if self.allowed.remaining < wanted:
            return self.refused_by_budgets(wanted)
        nodes = self.nodes()
        if not all(node.disruptable for node in nodes):
            return self.refused_by_nodes(nodes)
        return self.granting(wanted, f"{_nodes(wanted)} may be disrupted for {self.question.reason} now", nodes)

    def as_many_as_may(self) -> Answer:
        """Grant the first nodes that may go, as many as the budgets let; refused only when that is none."""
        wanted, remaining = self.question.wanted, self.allowed.remaining
        if remaining == 0:
            return self.refused_by_budgets(1)
        nodes = self.nodes()
        free = wanted if self.question.nodes is None else sum(node.disruptable for node in nodes)
        if free == 0:
            return self.refused_by_nodes(nodes)
        granted = min(free, remaining)
        message = f"{granted} of {_nodes(wanted)} may be disrupted for {self.question.reason} now"
        if granted == wanted:
            return self.granting(granted, message, nodes)
        blocked = "" if free == wanted else f"; {_blocked(nodes)}"
        if remaining >= wanted:
            return self.granting(granted, f"{message}{blocked}", nodes, Opening(None, None, ()))
        opening = self.opening(wanted)
        held = self._named(opening.closing or self.allowed.binding)
        later = f", and more from {format_time(opening.instant)}" if opening.instant is not None else ""
        return self.granting(granted, f"{message}, because of {held}{later}{blocked}", nodes, opening)

    def granting(
        self, granted: int, message: str, nodes: tuple[NodeAnswer, ...] | None = None, opening: Opening | None = None
    ) -> Answer:
        """Answer that *granted* nodes may go; *opening* is when all may, now by default."""
        nodes = self.nodes() if nodes is None else nodes
        opening = opening or Opening(self.now, None, ())
        if self.question.nodes is None:
            return self._answered(Verdict.ALLOWED, message, nodes, opening, granted)
        names = tuple(node.name for node in nodes if node.disruptable)
        return self._answered(Verdict.ALLOWED, message, nodes, opening, names[:granted])

    def refused_by_mistake(self, mistakes: Sequence[tuple[int, str]]) -> Answer:
        """Answer that budgets cannot be used; *mistakes* are their positions, and what is wrong."""
        said = "; ".join(
            f"{describe_budget(position, self.pool.budgets[position])}: {mistake}"
            for position, mistake in mistakes[:_MOST_NAMED]
        )
        what = "nothing" if self.allowed.unusable else "no more"
        message = f"{what} of NodePool {self.pool.name} may be disrupted until its budgets can be used: {said}"
        return self._answered(Verdict.INVALID_BUDGET, message, self.nodes(), Opening(None, None, ()))

    def refused_by_nodes(self, nodes: tuple[NodeAnswer, ...]) -> Answer:
        """Answer that the budgets would let go what the nodes do not.

        Where nothing but reservations keeps them, that ends with those.
        """
        ends = sorted(end for node in nodes if (end := _last_end(node.blockers)) is not None)
        opening = Opening(None, None, ())
        if self.question.mode is Mode.UP_TO and ends:
            opening = self.pool.opening(self.question.reason, 1, ends[0], self.question.observed)
        elif ends and len(ends) == sum(not node.disruptable for node in nodes):
            opening = self.opening(self.question.wanted)
        return self._answered(Verdict.NODE_BLOCKED, _blocked(nodes), nodes, opening)

    def refused_by_budgets(self, wanted: int) -> Answer:
        """Answer that the budgets do not let *wanted* nodes go now.

        In flight is also what opens no time by itself, but would if nothing were being disrupted: a window that is
        closed and nodes that are on their way come together, and neither is for ever.
        """
        if mistakes := self.standing.budgets.mistakes:  # not in force now, but nobody knows what they would be later
            return self.refused_by_mistake(mistakes)
        opening, alone = self.opening(wanted), None
        budgets_alone = opening_of(self.standing, self.counts, self.question.reason, wanted).instant
        if opening.instant is not None and (opening.instant == budgets_alone or self.allowed.limit < wanted):
            verdict = Verdict.WINDOW_CLOSED
        elif self.allowed.limit >= wanted:
            verdict = Verdict.IN_FLIGHT
        elif not self.allowed.disrupting:
            verdict = Verdict.NEVER
        else:
            undisturbed = NodeCounts(self.counts.total)
            alone = opening_of(self.standing, undisturbed, self.question.reason, wanted).instant
            verdict = Verdict.NEVER if alone is None else Verdict.IN_FLIGHT
        return self._answered(verdict, self._why(verdict, opening, wanted, alone), self.nodes(), opening)

    def opening(self, wanted: int) -> Opening:
        """Return when the budgets let *wanted* nodes go; where all of some are wanted, none is reserved then."""
        start = self.now
        if self.question.mode is Mode.ALL and self.question.nodes:
            start = max([start, *(end for node in self.nodes() if (end := _last_end(node.blockers)) is not None)])
        return self.pool.opening(self.question.reason, wanted, start, self.question.observed)

    def nodes(self) -> tuple[NodeAnswer, ...]:
        """Say of each named node what keeps it."""
        names = self.question.nodes or ()
        return tuple(NodeAnswer(name, self.pool.blockers_of(name, self.class_, self.now)) for name in names)

    def _why(self, verdict: Verdict, opening: Opening, wanted: int, alone: datetime | None) -> str:
        reason, limit, total = self.question.reason, self.allowed.limit, self.counts.total
        positions = opening.closing or self.allowed.binding
        who = f"{self._named(positions)} {'let' if len(positions) > 1 else 'lets'}"
        said = f"{who} {limit} of {_nodes(total)} go for {reason}, {wanted} {_be(wanted)} asked for"
        going = self._going()
        match verdict:
            case Verdict.WINDOW_CLOSED:
                assert opening.instant is not None
                return f"{said}{going}; opens {format_time(opening.instant)}"
            case Verdict.IN_FLIGHT:
                if opening.instant is not None:
                    return f"{said}{going}; opens {format_time(opening.instant)}"
                then = f"; without them it opens {format_time(alone)}" if alone is not None else ""
                return f"{said}{going}{then}; ask again when they are done"
            case _ if opening.searched_until is not None:
                return f"{said}{going}; no opening was found until {format_time(opening.searched_until)}"
            case _:
                return f"{said}{going}; that stays so until the budgets or the nodes of the pool change"

    def _named(self, positions: Sequence[int]) -> str:
        """Return budgets in words; the pool where there are none."""
        budgets = ", ".join(describe_budget(each, self.pool.budgets[each]) for each in positions[:_MOST_NAMED])
        more = f" and {len(positions) - _MOST_NAMED} more" if len(positions) > _MOST_NAMED else ""
        return f"{budgets}{more}" or f"NodePool {self.pool.name}"

    def _going(self) -> str:
        """Return which nodes use the budgets up, to go into a sentence."""
        count = self.allowed.disrupting
        if count == 0:
            return ""
        names: list[str] = []
        if self.question.observed is None and self.pool.held_count == 0:
            names = sorted(self.pool.disrupting(self.question.reason))
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        which = f" ({', '.join(names[:_MOST_NAMED])}{more})" if names else ""
        counting = self.pool.counting()
        holders = "".join(f"; {describe_reservation(each)}" for each in counting[:_MOST_NAMED])
        others = f" and {len(counting) - _MOST_NAMED} more reservations" if len(counting) > _MOST_NAMED else ""
        return f", and {count} {_be(count)} being disrupted or not ready already{which}{holders}{others}"

    def _answered(
        self,
        verdict: Verdict,
        message: str,
        nodes: tuple[NodeAnswer, ...],
        opening: Opening,
        granted: tuple[str, ...] | int | None = None,
    ) -> Answer:
        nothing: tuple[str, ...] | int = 0 if self.question.nodes is None else ()
        return Answer(
            allowed=verdict is Verdict.ALLOWED,
            granted=nothing if granted is None else granted,
            limit=self.allowed.limit,
            disrupting=self.allowed.disrupting,
            remaining=self.allowed.remaining,
            total=self.counts.total,
            active=self.allowed.active,
            binding=self.allowed.binding,
            nodes=nodes,
            verdict=verdict,
            next_open=opening.instant,
            retry_after_seconds=_retry_after(opening.instant, self.now),
            searched_until=opening.searched_until,
            message=message,
        )


def _check(question: Question, pool: PoolView, counts: NodeCounts) -> None:
    """Raise InvalidQuestion when the question does not fit the pool."""
    if question.reason not in QUESTION_REASONS:
        words = ", ".join(QUESTION_REASONS)
        raise InvalidQuestion("/reason", "unknown-reason", f"{question.reason[:64]!r} is none of {words}")
    if question.nodes is None:
        if question.count < 0:
            raise InvalidQuestion("/count", "negative", f"{question.count} is less than 0")
        if question.count > counts.total:
            detail = f"{question.count} is more than the {_nodes(counts.total)} of NodePool {pool.name}"
            raise InvalidQuestion("/count", "more-than-exist", detail)
        return
    seen: set[str] = set()
    for position, name in enumerate(question.nodes):
        if name in seen:
            raise InvalidQuestion(f"/nodes/{position}", "duplicate", f"{name[:64]!r} is named twice")
        if name not in pool.nodes:
            raise InvalidQuestion(
                f"/nodes/{position}", "unknown-node", f"{name[:64]!r} is no node of NodePool {pool.name}"
            )
        seen.add(name)


def _unheld(question: Question, counts: NodeCounts, now: datetime) -> Answer:
    """Answer for expiration where nothing holds it (nodepool-disruption.md 10)."""
    disrupting = counts.disrupting(EXPIRED)
    return Answer(
        allowed=True,
        granted=question.count if question.nodes is None else question.nodes,
        limit=UNLIMITED,
        disrupting=disrupting,
        remaining=UNLIMITED - disrupting,
        total=counts.total,
        active=(),
        binding=(),
        nodes=tuple(NodeAnswer(name) for name in question.nodes or ()),
        verdict=Verdict.ALLOWED,
        next_open=now,
        retry_after_seconds=0,
        searched_until=None,
        message="expiration is held by no budget, no pod and no annotation",
    )


def _view(
    question: Question, view_of: Callable[[str], PoolView | None], inline: Callable[[JsonObject], PoolView] | None
) -> PoolView:
    if question.node_pool is not None and inline is not None:
        return inline(question.node_pool)
    pool = view_of(question.pool)
    if pool is None:
        raise InvalidQuestion("/pool", "unknown-pool", f"there is no NodePool {question.pool[:253]!r}")
    return pool


def _retry_after(instant: datetime | None, now: datetime) -> int:
    return _POLL_SECONDS if instant is None else max(0, math.ceil((instant - now).total_seconds()))


def _blocked(nodes: Sequence[NodeAnswer]) -> str:
    blocked = [node for node in nodes if not node.disruptable]
    said = [f"{node.name}: {_held(node.blockers)}" for node in blocked[:_MOST_NAMED]]
    more = [f"{len(blocked) - _MOST_NAMED} more nodes"] if len(blocked) > _MOST_NAMED else []
    return f"{_nodes(len(blocked))} cannot be disrupted: {'; '.join((*said, *more))}"


def _last_end(blockers: Sequence[Blocker]) -> datetime | None:
    """Return when the last of *blockers* ends, None when there is none, or one that is no reservation with an end."""
    ends = [blocker.until for blocker in blockers if blocker.reason == BlockReason.RESERVED and blocker.until]
    return max(ends) if ends and len(ends) == len(blockers) else None


def _held(blockers: Sequence[Blocker]) -> str:
    more = f" (and {len(blockers) - 1} more)" if len(blockers) > 1 else ""
    return f"{blockers[0].message}{more}"


def _node_document(node: NodeAnswer) -> JsonObject:
    blockers = [
        {
            "reason": str(blocker.reason),
            "message": blocker.message,
            "source": blocker.source,
            **({} if blocker.until is None else {"until": format_time(blocker.until)}),
        }
        for blocker in node.blockers
    ]
    return {"name": node.name, "disruptable": node.disruptable, "blockers": blockers}


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_QUOTED else f"{text[: _LONGEST_QUOTED - 3]}..."


def _with_deleting(counts: NodeCounts, more: int) -> NodeCounts:
    """Return *counts* with *more* nodes being deleted; when there are not as many others, those not ready are."""
    deleting = min(counts.total, counts.deleting + more)
    return NodeCounts(counts.total, deleting, min(counts.not_ready, counts.total - deleting))
