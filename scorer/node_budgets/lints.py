"""Lints for budgets that are valid but probably not as intended.

Admission, the command line and the page share them. The strictest of the active budgets wins, which surprises users: a
zero without a schedule beside a window for the weekend (a published example) never allows a disruption, and windows
alone do not limit the time between them.

Combinations of windows are only evaluated if the windows are the same in every week (`BudgetWindow.week`). A correction
is suggested only if the intention is clear, and if the corrected budgets have fewer findings and no new ones.

Source: nodepool-disruption.md 4.2 to 4.4, 4.6 and 16.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property, lru_cache
from itertools import islice
from typing import Final

from scorer.api.meta import JsonObject, dump_json
from scorer.api.node_pool import DEFAULT_BUDGET_NODES, Budget, DisruptionReason
from scorer.api.values.duration import parse_budget_duration
from scorer.node_budgets.budgets import allowed_disruptions, budget_window
from scorer.windows.cron import CronSchedule, parse_schedule
from scorer.windows.week import blocks
from scorer.windows.windows import WHOLE_WEEK, BudgetWindow

REASONS: Final = tuple(reason.value for reason in DisruptionReason)

_NAMED_BUDGETS: Final = 5
_MOST_BLOCKS: Final = 3
"""Most windows that a correction may use to close the rest of the week."""
_DAY: Final = timedelta(days=1)
_SOME_DAY: Final = date(2001, 1, 1)
_ALL_CALENDARS: Final = 29 * 365 + 8
"""Days of 28 years, after which weekdays and leap years repeat, plus one year."""
_MOST_FIXES: Final = 5
"""Most suggested corrections. A user with more findings fixes these first."""


@dataclass(frozen=True, slots=True)
class Lint:
    """One property of a pool's budgets that is probably a mistake.

    Args:
        rule: Id of the admission rule, such as ``K-30``.
        at: Path relative to the list of budgets, empty for the list as a whole.
        message: Explanation in words that follow the path.
        reasons: Affected reasons, in the order of `DisruptionReason`.
        fix: The corrected list of budgets, as documents, or None without an obvious one.
    """

    rule: str
    at: tuple[str | int, ...]
    message: str
    reasons: tuple[str, ...]
    fix: tuple[JsonObject, ...] | None = field(default=None, hash=False)


def lint_budgets(budgets: Sequence[Budget]) -> tuple[Lint, ...]:
    """Return the lints of *budgets* (K-30 to K-34, K-38, K-39).

    Invalid budgets are skipped, and combinations are not evaluated then: an invalid budget blocks every disruption
    anyway.
    """
    lints = list(_lints(budgets))
    rules = Counter(lint.rule for lint in lints)
    hopeful = [place for place, lint in enumerate(lints) if lint.fix is not None]
    for place in hopeful[_MOST_FIXES:]:
        lints[place] = replace(lints[place], fix=None)
    for place in hopeful[:_MOST_FIXES]:
        lint = lints[place]
        left = Counter(each.rule for each in _lints([Budget.read(document) for document in lint.fix or ()]))
        if not left <= rules - Counter([lint.rule]):
            lints[place] = replace(lint, fix=None)
    return tuple(lints)


def flow_style(budgets: Iterable[JsonObject]) -> str:
    """Write budgets as YAML on one line: ``[{nodes: "10%"}]``."""
    return "[" + ", ".join("{" + ", ".join(_members(budget)) + "}" for budget in budgets) + "]"


def block_style(budgets: Iterable[JsonObject], *, indent: int = 0) -> str:
    """Write budgets as the items of a YAML list, each line but the first indented by *indent* blanks."""
    return "\n".join(
        f"{'- ' if number == 0 else '  '}{member}"
        for budget in budgets
        for number, member in enumerate(_members(budget))
    ).replace("\n", "\n" + " " * indent)


def _members(budget: JsonObject) -> list[str]:
    """Return the members of a budget, with quotes as in published examples."""
    words = []
    for name in ("nodes", "reasons", "schedule", "duration"):
        if name not in budget:
            continue
        value = budget[name]
        if name == "reasons":
            words.append(f"reasons: [{', '.join(value)}]")
        else:
            words.append(f"{name}: {value if name == 'duration' else dump_json(value).decode()}")
    return words


@dataclass(frozen=True)
class _Known:
    """A valid budget.

    Args:
        index: Its position.
        budget: As written.
        number: Number of nodes, or percentage.
        schedule: Start times of its windows. None: unlimited, always active.
        duration: Length of its windows.
    """

    index: int
    budget: Budget
    number: int
    schedule: CronSchedule | None
    duration: timedelta

    @cached_property
    def reasons(self) -> frozenset[str]:
        return frozenset(REASONS if self.budget.reasons is None else set(REASONS) & set(self.budget.reasons))

    @cached_property
    def minutes(self) -> int | None:
        """Minutes of the week when it is active, or None if weeks differ."""
        if self.schedule is not None and not self.duration and not self.schedule.never_fires:
            return 0
        week = BudgetWindow(self.schedule, self.duration).week
        if week is None and self.schedule is not None and _never_closes(self.schedule, self.duration):
            return WHOLE_WEEK
        return week

    @cached_property
    def pattern(self) -> str:
        """Canonical text of its schedule, equal for equal start times. Empty without a schedule."""
        return "" if self.schedule is None else self.schedule.canonical

    @property
    def always(self) -> bool:
        """Whether it is always active."""
        return self.minutes == WHOLE_WEEK

    def is_stricter_than(self, other: "_Known") -> bool:
        """Return whether it allows less than *other* for every pool size where they differ."""
        if self.number == 0 or other.number == 0:
            return self.number < other.number
        return self.is_percent == other.is_percent and self.number < other.number

    @property
    def is_percent(self) -> bool:
        return self.budget.nodes.endswith("%")

    def outlasts(self, other: "_Known") -> bool:
        """Return whether it is certainly active whenever *other* is."""
        if self.always:
            return True
        if self.minutes is not None and other.minutes is not None:
            return not other.minutes & ~self.minutes
        return self.pattern == other.pattern != "" and self.duration >= other.duration

    def document(self) -> JsonObject:
        return _document(self.budget)


@lru_cache(maxsize=1024)
def _never_closes(schedule: CronSchedule, duration: timedelta) -> bool:
    """Return whether windows that differ from week to week are adjacent without a gap, in any calendar year."""
    fires = schedule.firing_minutes()
    if duration < _DAY or not fires:
        return False
    longest = max(map(len, f"{schedule.firing_days(_SOME_DAY, _ALL_CALENDARS):b}".split("1")))
    between = fires.bit_length() - (fires & -fires).bit_length()
    return (longest + 1) * _DAY - timedelta(minutes=between) <= duration


def _document(budget: Budget, **changes: str | None) -> JsonObject:
    members = {"nodes": budget.nodes, "reasons": budget.reasons, "schedule": budget.schedule}
    members |= {"duration": budget.duration, **changes}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in members.items() if value is not None
    }


def _lints(budgets: Sequence[Budget]) -> Iterator[Lint]:
    """Yield all findings, with unverified corrections."""
    earlier: list[_Known] = []
    for index, budget in enumerate(budgets):
        yield from _lint_reasons(index, budget)
        one = _understood(index, budget)
        if one is not None:
            yield from _lint_window(one)
            earlier.append(one)
    if len(earlier) < len(budgets):
        return
    live = [one for one in earlier if one.reasons]
    moot: set[int] = set()
    for lint, indices in _lint_zero(live, earlier):
        moot |= indices
        yield lint
    yield from _lint_gaps(live, earlier)
    closed: frozenset[str] = frozenset()
    for lint in _lint_zeros(live):
        closed = frozenset(lint.reasons)
        yield lint
    suspects = [one for one in live if not one.reasons <= closed and one.index not in moot]
    yield from _lint_overruled(suspects, live, earlier)


def _understood(index: int, budget: Budget) -> _Known | None:
    try:
        allowed_disruptions(budget, 0)
        budget_window(budget)
    except ValueError:
        return None
    schedule = None if budget.schedule is None else parse_schedule(budget.schedule)
    duration = timedelta() if budget.duration is None else parse_budget_duration(budget.duration)
    return _Known(index, budget, int(budget.nodes.removesuffix("%")), schedule, duration)


def _lint_reasons(index: int, budget: Budget) -> Iterator[Lint]:
    """An empty list of reasons means no reason, not every reason (K-34)."""
    if budget.reasons == ():
        message = "is empty, so the budget is about no reason at all; leave it out to mean every reason"
        yield Lint("K-34", (index, "reasons"), message, REASONS)


def _lint_window(one: _Known) -> Iterator[Lint]:
    """A window has a length (K-33), opens at some time, and closes before it opens again (K-32)."""
    if one.schedule is None:
        return
    reasons, text = _ordered(one.reasons) or REASONS, one.budget.duration
    if not one.duration and text is not None and not one.schedule.never_fires:
        message = f"{_quote(text)} is no time at all: the budget is never in force"
        yield Lint("K-33", (one.index, "duration"), message, reasons)
    if one.schedule.never_fires:
        message = f"{_quote(one.schedule.text)} never fires, so the budget is always in force"
        yield Lint("K-32", (one.index, "schedule"), message, reasons)
    elif one.always and text is not None:
        message = f"in {_quote(text)} the next window begins, so the budget is always in force"
        yield Lint("K-32", (one.index, "duration"), message, reasons)


def _lint_zero(live: Sequence[_Known], known: Sequence[_Known]) -> Iterator[tuple[Lint, set[int]]]:
    """A budget that always allows nothing makes others pointless (K-30)."""
    for zero in live:
        if zero.number or not zero.always:
            continue
        moot = [other for other in live if other is not zero and other.reasons <= zero.reasons]
        if moot:
            reason = "has no schedule" if zero.schedule is None else "has a window that never closes"
            matter = "never matters" if len(moot) == 1 else "never matter"
            message = f"allows nothing and {reason}: the pool never opens{_for(zero.reasons)}; {_names(moot)} {matter}"
            fix = _give_way(known, zero, moot)
            yield Lint("K-30", (zero.index,), message, _ordered(zero.reasons), fix), {one.index for one in moot}
            return


def _lint_gaps(live: Sequence[_Known], known: Sequence[_Known]) -> Iterator[Lint]:
    """Outside of all windows nothing is limited (K-31)."""
    unlimited = frozenset(
        reason
        for reason in frozenset().union(*(one.reasons for one in live))
        if not _always_one_of([one for one in live if reason in one.reasons])
    )
    if unlimited:
        concerned = [one for one in live if one.reasons & unlimited]
        which, about = ("", "") if len(concerned) == len(live) else (_for(unlimited), " about that")
        message = f"outside the windows disruption{which} is not limited: every budget{about} has a schedule"
        yield Lint("K-31", (), message, _ordered(unlimited), _with_cap(known, concerned, unlimited))


def _lint_zeros(live: Sequence[_Known]) -> Iterator[Lint]:
    """Windows that allow nothing cover the whole week together, though none of them does alone (K-39)."""
    zeros = [one for one in live if not one.number]
    closed = frozenset(
        reason
        for reason in REASONS
        if not any(one.always for one in zeros if reason in one.reasons)
        and _always_one_of([one for one in zeros if reason in one.reasons])
    )
    if closed:
        names = _names([one for one in zeros if one.reasons & closed])
        message = f"the pool never opens{_for(closed)}: {names} allow nothing and leave no gap between them"
        yield Lint("K-39", (), message, _ordered(closed))


def _lint_overruled(suspects: Iterable[_Known], live: Sequence[_Known], known: Sequence[_Known]) -> Iterator[Lint]:
    """A budget never matters when a stricter one is in force whenever it is (K-38)."""
    for one in suspects:
        if one.minutes == 0:
            continue
        stricter = [other for other in live if other.is_stricter_than(one)]
        overruling = [other for other in stricter if one.reasons <= other.reasons and other.outlasts(one)]
        if overruling:
            alone = next(
                other for other in overruling if not any(third.is_stricter_than(other) for third in overruling)
            )
            when = "always in force" if alone.always else "in force whenever this one is"
            message = f"never matters: budgets[{alone.index}] is stricter and {when}"
            beaten = [
                other
                for other in live
                if alone.is_stricter_than(other) and other.reasons <= alone.reasons and alone.outlasts(other)
            ]
            yield Lint("K-38", (one.index,), message, _ordered(one.reasons), _give_way(known, alone, beaten))
        elif one.minutes is not None and all(
            not one.minutes & ~_joined(other for other in stricter if reason in other.reasons) for reason in one.reasons
        ):
            names = _names([other for other in stricter if other.reasons & one.reasons])
            message = f"never matters: {names} are stricter, and one of them is in force whenever this one is"
            yield Lint("K-38", (one.index,), message, _ordered(one.reasons))


def _give_way(known: Sequence[_Known], strict: _Known, beaten: Sequence[_Known]) -> tuple[JsonObject, ...] | None:
    """Return budgets after *strict* yields to *beaten*, or None if the intention is unclear.

    Windows that allow more show the intention: *strict* is restricted to the rest of the week. Likewise for a budget
    for some reasons beside one for all: *strict* keeps the other reasons.
    """
    if not strict.always or not all(strict.is_stricter_than(one) for one in beaten):
        return None
    if all(one.reasons == strict.reasons and one.schedule is not None and one.minutes for one in beaten):
        return _in_the_rest_of_the_week(known, strict, beaten)
    named = frozenset().union(*(one.reasons for one in beaten))
    if strict.schedule is None and named < strict.reasons and all(one.schedule is None for one in beaten):
        documents = {one.index: [one.document()] for one in known}
        documents[strict.index] = [{"nodes": strict.budget.nodes, "reasons": list(_ordered(strict.reasons - named))}]
        return _listed(documents)
    return None


def _in_the_rest_of_the_week(
    known: Sequence[_Known], strict: _Known, beaten: Sequence[_Known]
) -> tuple[JsonObject, ...] | None:
    closed = blocks(WHOLE_WEEK & ~_joined(beaten), _MOST_BLOCKS)
    if closed is None:
        return None
    documents = {one.index: [one.document()] for one in known}
    documents[strict.index] = [
        _document(strict.budget, schedule=block.schedule, duration=block.duration) for block in closed
    ]
    if len({(one.is_percent, one.number) for one in beaten}) == 1:  # then they need no windows
        for one in beaten:
            documents[one.index] = []
        documents[beaten[0].index] = [_document(beaten[0].budget, schedule=None, duration=None)]
    return _listed(documents)


def _with_cap(
    known: Sequence[_Known], concerned: Sequence[_Known], unlimited: frozenset[str]
) -> tuple[JsonObject, ...] | None:
    """Return *known* with a limit outside the windows: their largest number, or the default if all of them are zero."""
    if not all(unlimited <= one.reasons for one in concerned):
        return None
    reasons = {} if len(unlimited) == len(REASONS) else {"reasons": list(_ordered(unlimited))}
    documents = [one.document() for one in known]
    numbers = [one for one in concerned if one.number]
    if not numbers:
        return {"nodes": DEFAULT_BUDGET_NODES, **reasons}, *documents
    if len({one.is_percent for one in numbers}) > 1:
        return None
    largest = max(numbers, key=lambda one: one.number)
    return *documents, {"nodes": largest.budget.nodes, **reasons}


def _listed(documents: dict[int, list[JsonObject]]) -> tuple[JsonObject, ...]:
    return tuple(document for _, several in sorted(documents.items()) for document in several)


def _joined(several: Iterable[_Known]) -> int:
    """Return the minutes of the week when any of *several* is certainly active."""
    minutes = 0
    for one in several:
        minutes |= one.minutes or 0
    return minutes


def _always_one_of(several: Iterable[_Known]) -> bool:
    return _joined(several) == WHOLE_WEEK


def _ordered(reasons: Iterable[str]) -> tuple[str, ...]:
    reason_set = set(reasons)
    return tuple(reason for reason in REASONS if reason in reason_set)


def _for(reasons: frozenset[str]) -> str:
    return "" if len(reasons) == len(REASONS) else f" for {', '.join(_ordered(reasons))}"


def _names(several: Sequence[_Known]) -> str:
    names = ", ".join(f"budgets[{one.index}]" for one in islice(several, _NAMED_BUDGETS))
    return f"{names} and {len(several) - _NAMED_BUDGETS} more" if len(several) > _NAMED_BUDGETS else names


def _quote(text: str) -> str:
    return dump_json(text if len(text) <= 64 else text[:61] + "...").decode()
