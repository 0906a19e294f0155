"""Response of ``/v1/budgets``: allowed disruptions now and later.

Made from values alone, so that the command line can produce the same response for files.

Source: docs/specifications/serving.md 3.1; docs/specifications/nodepool-disruption.md 4, 14.2 and 14.3.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated, Final, NotRequired
from zoneinfo import ZoneInfo

from typing_extensions import TypedDict

from scorer.api.node_pool import Budget, DisruptionReason
from scorer.api.unstructured.json_object import format_time
from scorer.api.values.answer import Instant, Shape, one_of
from scorer.api.values.field_path import FieldPath
from scorer.node_budgets.budgets import UNLIMITED, NodeCounts
from scorer.node_budgets.calendar import CalendarSpan, calendar
from scorer.node_budgets.lints import lint_budgets
from scorer.node_budgets.outlook import Outlook, Prospect, outlook
from scorer.windows.cron import MINUTE

LONGEST_DAYS: Final = 400
"""Maximum calendar in days, equal to the horizon of the search for an opening (nodepool-disruption.md 14.3)."""
REASONS: Final = tuple(DisruptionReason)
MOST_POOL_DAYS: Final = 1400
"""Maximum number of days of all pools of one calendar together: a hundred pools for a fortnight, or three for a
year."""
MOST_SPANS: Final = 100_000
"""Maximum number of spans of one calendar. A budget that opens every other minute makes 80,640 of them in two weeks."""


Reason = Annotated[str, one_of(*REASONS)]
Limit = Annotated[int, Shape({"type": "integer", "minimum": 0, "maximum": UNLIMITED})]
LocalInstant = Annotated[
    str, Shape({"type": "string", "format": "date-time", "examples": ["2026-03-29T03:00:00+02:00"]})
]


class NodesCounted(TypedDict):
    """The nodes of a pool that budgets count."""

    total: int
    """All of them, including those below."""
    deleting: int
    """Marked for deletion, rebooting, or reserved at the gate."""
    notReady: int
    """Not ready, and not counted as deleting."""


class WrittenBudget(TypedDict):
    """A budget as written."""

    nodes: str
    """Maximum number of concurrent disruptions, as a number or a percentage of all nodes."""
    reasons: NotRequired[list[str]]
    """Omitted for every reason."""
    schedule: NotRequired[str]
    """Start times of its windows, in UTC. Omitted for a budget that is always active."""
    duration: NotRequired[str]
    """Length of its windows."""


class BudgetLint(TypedDict):
    """A finding about budgets that are probably not as intended."""

    rule: str
    """Id of the admission rule that warns of it."""
    at: str
    """The budget, such as `budgets[1]`, or `budgets` for all of them together."""
    message: str
    reasons: list[Reason]
    """Affected reasons."""
    fix: NotRequired[list[WrittenBudget]]
    """Suggested new list of all budgets of the pool. Omitted if the intention is unclear."""
    alternative: NotRequired[list[WrittenBudget]]
    """Second suggestion, if the windows can be read in two ways. Outside the windows, `fix` allows no disruption, and
    `alternative` allows the default."""


class UnusableBudget(TypedDict):
    """An invalid budget, which blocks every disruption."""

    budget: int
    """Its position, from 0."""
    message: str


class PoolBudgets(TypedDict):
    """A pool, without the parts that depend on the reason."""

    pool: str
    counts: NodesCounted
    budgets: list[WrittenBudget]
    lints: list[BudgetLint]
    unusable: list[UnusableBudget]


class BudgetState(TypedDict):
    """Allowance of a pool's budgets for one reason at one instant."""

    pool: str
    reason: Reason
    limit: Limit
    """Maximum number of concurrent disruptions. 2147483647 means unlimited."""
    unlimited: bool
    """Whether the limit is 2147483647, as without an active budget for the reason."""
    disrupting: int
    """Number of nodes in disruption or not ready."""
    remaining: Limit
    """Number of further nodes that may be disrupted."""
    total: int
    active: list[int]
    """Positions of the active budgets, for any reason."""
    binding: list[int]
    """Positions of the budgets whose value is the limit."""
    nextOpen: Instant | None
    """Time when one more node may be disrupted, with the present nodes. Null if unknown or never."""
    neverOpens: bool
    """Whether no node may be disrupted within 400 days, even after the present disruptions have ended."""
    searchedUntil: NotRequired[Instant]
    """Present if the search ended without a result: there is no opening before this instant."""


class BudgetList(TypedDict):
    """Allowances of budgets."""

    at: Instant
    """The instant of the allowances. Nodes are counted as of now."""
    items: list[BudgetState]
    """By pool, with all four reasons unless one is requested."""
    pools: list[PoolBudgets]


class BudgetSpan(TypedDict):
    """A period with a constant limit."""

    start: Instant
    end: Instant
    """End, exclusive."""
    limit: Limit
    """Maximum number of concurrent disruptions. 2147483647 means unlimited."""
    unlimited: bool
    binding: list[int]
    """Positions of the budgets whose value is the limit."""
    localStart: NotRequired[LocalInstant]
    """The same instant in the requested time zone."""
    localEnd: NotRequired[LocalInstant]


class ReasonSpans(TypedDict):
    """Calendar of one reason."""

    reason: Reason
    disrupting: int
    """Number of nodes in disruption or not ready."""
    neverOpens: bool
    """Whether no node may be disrupted within 400 days, even after the present disruptions have ended."""
    spans: list[BudgetSpan]
    """Without gaps."""


class BudgetCalendarItem(PoolBudgets, TypedDict):
    """The calendar of a pool."""

    reasons: list[ReasonSpans]


_BudgetCalendar = TypedDict(
    "_BudgetCalendar",
    {
        "from": Instant,
    },
)


class BudgetCalendar(_BudgetCalendar, TypedDict):
    """Allowed disruptions over time, computed with the present number of nodes."""

    until: Instant
    items: list[BudgetCalendarItem]
    timeZone: NotRequired[str]
    """The requested time zone. Omitted if none was requested."""


class TooLargeError(Exception):
    """A calendar would be too large. The message names a smaller request."""


@dataclass(frozen=True, slots=True)
class BudgetedPool:
    """A node pool as its budgets see it.

    Args:
        name: Name.
        budgets: Budgets in the given order.
        counts: Nodes, with reserved ones counted as deleting.
    """

    name: str
    budgets: tuple[Budget, ...]
    counts: NodeCounts


class Overviews:
    """Creates the responses of ``GET /v1/budgets``, and caches each pool until a window opens or closes.

    Args:
        now: The clock. Responses about another time than now are not cached.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._cache: dict[str, _Shown] = {}

    def overview(
        self, pools: Iterable[BudgetedPool], at: datetime, reasons: Sequence[DisruptionReason] = REASONS
    ) -> BudgetList:
        """Return the allowances of *pools* at *at* with their present counts. The caller must not mutate the result."""
        items: list[BudgetState] = []
        entries: list[PoolBudgets] = []
        text, is_now = format_time(at), abs(at - self._now()) < MINUTE
        for pool in pools:
            entry = self._cache.get(pool.name)
            if entry is None or not entry.outlook.holds(pool.budgets, pool.counts, at):
                entry = _shown_state(pool, at)
                if is_now:
                    self._cache[pool.name] = entry
            items += (
                {**item, "nextOpen": text} if item["remaining"] else item
                for reason, item in entry.items.items()
                if reason in reasons
            )
            entries.append(entry.entry)
        return {"at": text, "items": items, "pools": entries}

    def forget(self, kept_names: Container[str]) -> None:
        """Evict all pools from the cache except for those named in *kept_names*."""
        # Over a copy, and with a default: overviews may add pools at the same time, in another thread.
        for name in [name for name in tuple(self._cache) if name not in kept_names]:
            self._cache.pop(name, None)


def overview(pools: Iterable[BudgetedPool], at: datetime, reasons: Sequence[DisruptionReason] = REASONS) -> BudgetList:
    """Return the allowances of *pools* without a cache. See `Overviews.overview`."""
    return Overviews(lambda: at).overview(pools, at, reasons)


@dataclass(frozen=True, slots=True)
class _Shown:
    """The cached response for a pool, valid while its outlook holds.

    Args:
        outlook: Outlook of the pool.
        items: By reason. If a node may be disrupted now, ``nextOpen`` is set for each response.
        entry: The pool as a whole.
    """

    outlook: Outlook
    items: Mapping[DisruptionReason, BudgetState]
    entry: PoolBudgets


def _shown_state(pool: BudgetedPool, at: datetime) -> _Shown:
    prospects = outlook(pool.budgets, pool.counts, at)
    items = {prospect.reason: _item(pool, prospect) for prospect in prospects.prospects}
    return _Shown(prospects, items, _about(pool, prospects.prospects[0].allowed.unusable))


def _item(pool: BudgetedPool, prospect: Prospect) -> BudgetState:
    allowed, opening = prospect.allowed, prospect.opening
    item: BudgetState = {
        "pool": pool.name,
        "reason": prospect.reason.value,
        "limit": allowed.limit,
        "unlimited": allowed.limit == UNLIMITED,
        "disrupting": allowed.disrupting,
        "remaining": allowed.remaining,
        "total": pool.counts.total,
        "active": list(allowed.active),
        "binding": list(allowed.binding),
        "nextOpen": None if opening is None or opening.instant is None else format_time(opening.instant),
        "neverOpens": prospect.never_opens,
    }
    if opening is not None and opening.searched_until is not None:
        item["searchedUntil"] = format_time(opening.searched_until)
    return item


class CalendarMaker:
    """Creates the response of ``GET /v1/budgets/calendar``, pool by pool.

    Args:
        pools: Number of pools.
        start: Start of the calendar.
        days: Length in days of 24 hours.
        zone: Additional time zone of every instant. None means only UTC.

    Raises:
        TooLargeError: More than `MOST_POOL_DAYS` days of all pools.
        OverflowError: The calendar would end after the year 9999.
    """

    def __init__(self, pools: int, start: datetime, days: int, zone: ZoneInfo | None = None) -> None:
        if pools * days > MOST_POOL_DAYS:
            raise TooLargeError(
                f"{pools} pools for {days} days are too many for one response. Name at most {MOST_POOL_DAYS // days} "
                "pools, or request fewer days"
            )
        self._start = start
        self._end = start + timedelta(days=days)
        self._zone = zone
        self._items: list[BudgetCalendarItem] = []
        self._spans = 0

    def add(self, pool: BudgetedPool) -> None:
        """Add the calendar of *pool*, with its present counts.

        Raises:
            TooLargeError: The calendar now has more than `MOST_SPANS` spans.
        """
        result = calendar(pool.budgets, pool.counts, self._start, self._end)
        self._spans += sum(len(reason.spans) for reason in result.reasons)
        if self._spans > MOST_SPANS:
            raise TooLargeError(
                f"the calendar has more than {MOST_SPANS} spans, because the budgets of {pool.name} change often. "
                "Name fewer pools, or request fewer days"
            )
        reasons: list[ReasonSpans] = [
            {
                "reason": str(reason.reason),
                "disrupting": pool.counts.disrupting(reason.reason),
                "neverOpens": reason.never_opens,
                "spans": [_span(span, self._zone) for span in reason.spans],
            }
            for reason in result.reasons
        ]
        self._items.append({**_about(pool, result.unusable), "reasons": reasons})

    def document(self) -> BudgetCalendar:
        """Return the response for the pools added so far."""
        document: BudgetCalendar = {
            "from": format_time(self._start),
            "until": format_time(self._end),
            "items": self._items,
        }
        if self._zone is not None:
            document["timeZone"] = self._zone.key
        return document


def _span(span: CalendarSpan, zone: ZoneInfo | None) -> BudgetSpan:
    document: BudgetSpan = {
        "start": format_time(span.start),
        "end": format_time(span.end),
        "limit": span.limit,
        "unlimited": span.limit == UNLIMITED,
        "binding": list(span.binding),
    }
    if zone is not None:
        document["localStart"] = _local(span.start, zone)
        document["localEnd"] = _local(span.end, zone)
    return document


def _local(instant: datetime, zone: ZoneInfo) -> str:
    return instant.astimezone(zone).isoformat(timespec="seconds")


def _about(pool: BudgetedPool, unusable: Iterable[tuple[int, str]]) -> PoolBudgets:
    """Return the part that does not depend on the reason. It includes the errors of all budgets."""
    counts = pool.counts
    return {
        "pool": pool.name,
        "counts": {"total": counts.total, "deleting": counts.deleting, "notReady": counts.not_ready},
        "budgets": [_written_budget(budget) for budget in pool.budgets],
        "lints": list(_lints(pool.budgets)),
        "unusable": [{"budget": position, "message": message} for position, message in unusable],
    }


def _written_budget(budget: Budget) -> WrittenBudget:
    """Return a budget as written, without defaults."""
    document: WrittenBudget = {"nodes": budget.nodes}
    if budget.reasons is not None:
        document["reasons"] = list(budget.reasons)
    if budget.schedule is not None:
        document["schedule"] = budget.schedule
    if budget.duration is not None:
        document["duration"] = budget.duration
    return document


_LONGEST_REMEMBERED: Final = 8192
"""Longest budgets of a pool, in characters, whose lints are cached. Fifty valid budgets are shorter."""


def _lints(budgets: tuple[Budget, ...]) -> tuple[BudgetLint, ...]:
    length = sum(len(text) for budget in budgets for text in (budget.nodes, budget.schedule, budget.duration) if text)
    return _known_lints(budgets) if length <= _LONGEST_REMEMBERED else _lints_of(budgets)


def _lints_of(budgets: tuple[Budget, ...]) -> tuple[BudgetLint, ...]:
    lints: list[BudgetLint] = []
    for lint in lint_budgets(budgets):
        document: BudgetLint = {
            "rule": lint.rule,
            "at": str(FieldPath.of("budgets", *lint.at)),
            "message": lint.message,
            "reasons": list(lint.reasons),
        }
        if lint.fix is not None:
            document["fix"] = [_written_budget(Budget.read(budget)) for budget in lint.fix]
        if lint.alternative is not None:
            document["alternative"] = [_written_budget(Budget.read(budget)) for budget in lint.alternative]
        lints.append(document)
    return tuple(lints)


_known_lints = lru_cache(maxsize=2048)(_lints_of)
