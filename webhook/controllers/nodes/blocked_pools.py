"""Events and a metric for node pools whose budgets have allowed no disruption for more than a day.

An Event is not repeated until the pool has allowed disruptions again. The start of a blocked period is computed from
the budgets, for the last day and with the present nodes. For a pool that was blocked all that time, the day starts when
this process first sees it. So a new leader repeats no Event immediately, but may repeat one a day later. The metric
counts such a pool from the start: an alert must not resolve because the leader has changed.

Source: docs/specifications/nodepool-disruption.md 12; docs/specifications/serving.md 6.3.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from scorer.api.event import Event
from scorer.api.kinds import NODE_POOL
from scorer.api.meta import JsonObject, format_time, read_instant
from scorer.api.node_pool import DisruptionReason
from scorer.api.unstructured.documents import is_deleting, text_at
from scorer.node_budgets.budgets import allowance
from scorer.node_budgets.calendar import calendar
from scorer.node_budgets.opening import next_open
from scorer.node_budgets.pool_view import PoolView
from scorer.node_budgets.wording import describe_budget
from webhook.controllers.machinery.failures import concerned_of
from webhook.controllers.machinery.observer import UNOBSERVED, LoopObserver
from webhook.controllers.machinery.result import DONE, Result
from webhook.controllers.machinery.wiring import NODES, Signal, Wiring, always
from webhook.gate.pools import HubNodePools
from webhook.kube.cache.hub import Hub

PATIENCE: Final = timedelta(days=1)
"""Time that a pool may be blocked before an Event is recorded."""
POLL_INTERVAL: Final = PATIENCE / 2
"""Poll interval: short enough to find the start of a blocked period, long enough to be cheap."""
BLOCKED: Final = "DisruptionBlocked"
UNBLOCKED: Final = "DisruptionUnblocked"


@dataclass(slots=True)
class _Memory:
    """State of one pool.

    Args:
        uid: UID of the NodePool. A recreated NodePool has another one.
        since: Start of the blocked period by blocked reason.
        reported: Reasons that an Event has reported.
        before: Reasons that had been blocked for a day when the pool was first seen.
    """

    uid: str
    since: dict[str, datetime] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)
    before: set[str] = field(default_factory=set)


class NodePoolController:
    """Watches for blocked pools, one pool per reconcile.

    Args:
        hub: The cluster with the NodePools.
        pools: The pools with their nodes. Reservations make no difference here.
        now: The clock.
        record: Records Events.
        observer: Reports pools that have been blocked for a day.
    """

    def __init__(
        self,
        hub: Hub,
        pools: HubNodePools,
        now: Callable[[], datetime],
        record: Callable[[JsonObject, Event], None],
        observer: LoopObserver = UNOBSERVED,
    ) -> None:
        self._hub = hub
        self._pools = pools
        self._now = now
        self._record = record
        self._observer = observer
        self._memories: dict[str, _Memory] = {}

    def wiring(self) -> Wiring[str]:
        """Return the wiring: changes of a pool or its nodes enqueue it."""
        return Wiring(
            name="node_pool",
            reconcile=self.reconcile,
            concerned=concerned_of(NODE_POOL),
            owner=always(NODES),
            watches=(Signal(self._pools.subscribe, lambda name: (name,)),),
            resync=self._pools.names,
            ends=(self._pools.end,),
        )

    async def reconcile(self, name: str) -> Result:
        """Report a pool that has been blocked for too long, or allows disruptions again after that."""
        document, pool = self._hub.cache.get(NODE_POOL, name), self._pools.pool(name)
        if document is None or pool is None or is_deleting(document):
            self._memories.pop(name, None)
            self._observer.needs_action(NODE_POOL, name, still=False)
            return DONE
        uid = document["metadata"].get("uid", "")
        memory = self._memories.get(name)
        now, is_new = self._now(), memory is None or memory.uid != uid
        if memory is None or is_new:
            memory = self._memories[name] = _Memory(uid)
        shut_reasons = _shut(pool, now)
        self._tell_open(document, memory, shut_reasons)
        starts = _starts(pool, now) if shut_reasons.keys() - memory.since.keys() else {}
        if is_new and _is_older(document, now - PATIENCE):
            memory.before = shut_reasons.keys() - starts.keys()
        for reason in shut_reasons:
            memory.since.setdefault(reason, starts.get(reason, now))
        self._tell_shut(document, pool, memory, shut_reasons, now)
        self._observer.needs_action(NODE_POOL, name, still=bool(memory.reported or memory.before))
        return _look_again(memory, shut_reasons, now)

    def _tell_open(self, document: JsonObject, memory: _Memory, shut_reasons: "dict[str, _Shut]") -> None:
        """Record one Event for all reasons that allow disruptions again, and forget their state."""
        reopened = [reason for reason in DisruptionReason if reason in memory.reported - shut_reasons.keys()]
        memory.reported &= shut_reasons.keys()
        memory.before &= shut_reasons.keys()
        for reason in memory.since.keys() - shut_reasons.keys():
            del memory.since[reason]
        if reopened:
            self._record(document, Event(UNBLOCKED, f"Nodes may be disrupted again: {', '.join(reopened)}"))

    def _tell_shut(
        self, document: JsonObject, pool: PoolView, memory: _Memory, shut_reasons: "dict[str, _Shut]", now: datetime
    ) -> None:
        """Record one Event for all reasons blocked for too long. Reasons with the same cause share a sentence."""
        by_cause: dict[_Shut, list[str]] = {}
        for reason, cause in shut_reasons.items():
            if reason not in memory.reported and now - memory.since[reason] >= PATIENCE:
                by_cause.setdefault(cause, []).append(reason)
        for reasons in by_cause.values():
            memory.reported.update(reasons)
        if by_cause:
            sentences = (_message(pool, cause, reasons) for cause, reasons in by_cause.items())
            self._record(document, Event(BLOCKED, ". ".join(sentences), "Warning"))


@dataclass(frozen=True, slots=True)
class _Shut:
    """Cause of a budget limit of 0.

    Args:
        budgets: Positions of the budgets that block.
        mistakes: Errors of budgets that are invalid.
        until: End of the blocked period. None: unlimited, only a change to the budgets ends it.
    """

    budgets: tuple[int, ...]
    mistakes: tuple[str, ...]
    until: datetime | None


def _shut(pool: PoolView, now: datetime) -> dict[str, _Shut]:
    """Return the reasons whose limit is 0, regardless of the nodes in flight. An empty pool has none."""
    counts = pool.counts()
    shut_reasons: dict[str, _Shut] = {}
    if not counts.total:
        return shut_reasons
    for reason in DisruptionReason:
        allowed = allowance(pool.budgets, counts, reason, now)
        if allowed.limit:
            continue
        unusable = allowed.unusable
        until = None if unusable else next_open(pool.budgets, counts, reason, 1, now).instant
        positions = tuple(position for position, _ in unusable) or allowed.binding
        shut_reasons[reason.value] = _Shut(positions, tuple(mistake for _, mistake in unusable), until)
    return shut_reasons


def _starts(pool: PoolView, now: datetime) -> dict[str, datetime]:
    """Return the start of the blocked period of each reason that is blocked now, if within a day."""
    starts: dict[str, datetime] = {}
    past = calendar(pool.budgets, pool.counts(), now - PATIENCE, now + timedelta(minutes=1))
    for of_reason in past.reasons:
        start: datetime | None = None
        for span in of_reason.spans:
            if span.start > now:
                break
            if span.limit:
                start = None
            elif start is None:
                start = span.start
        if start is not None and start > past.start:
            starts[of_reason.reason] = start
    return starts


def _is_older(document: JsonObject, instant: datetime) -> bool:
    """Return whether a pool existed already at *instant*."""
    created = read_instant(text_at(document, "metadata", "creationTimestamp"))
    return created is not None and created <= instant


def _message(pool: PoolView, cause: _Shut, reasons: Iterable[str]) -> str:
    budgets = " and ".join(describe_budget(position, pool.budgets[position]) for position in cause.budgets)
    start = f"Budgets have allowed 0 disruptions ({', '.join(reasons)}) for more than a day, because of {budgets}"
    if cause.mistakes:
        return f"{start}, which is invalid: {cause.mistakes[0]}"
    if cause.until is None:
        return f"{start}, until its budgets change"
    return f"{start}, until {format_time(cause.until)}"


def _look_again(memory: _Memory, shut_reasons: dict[str, _Shut], now: datetime) -> Result:
    instants = [now + POLL_INTERVAL]
    instants += [memory.since[reason] + PATIENCE for reason in shut_reasons if reason not in memory.reported]
    instants += [cause.until for cause in shut_reasons.values() if cause.until is not None]
    return Result(max(min(instants) - now, timedelta(seconds=1)))
