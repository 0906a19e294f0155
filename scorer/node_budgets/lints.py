"""Lints for budgets that are valid but probably not as intended.

Admission, the command line and the page share them. The strictest of the active budgets wins, which surprises users: a
zero without a schedule alongside a window for the weekend (a published example) never allows a disruption, and windows
alone do not limit the time between them.

Combinations of windows are only evaluated if the windows are the same every week (`BudgetWindow.week`). A correction
is suggested only if the intention is clear, and if the corrected budgets have fewer findings and no new ones.

Source: docs/specifications/nodepool-disruption.md 4.2 to 4.4, 4.6 and 16.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property, lru_cache
from itertools import islice
from typing import Final

from scorer.api.node_pool import DEFAULT_BUDGET_NODES, Budget, DisruptionReason
from scorer.api.unstructured.json_object import JsonObject, dump_json
from scorer.api.values.duration import parse_budget_duration
from scorer.node_budgets.budgets import allowed_disruptions, budget_window
from scorer.windows.cron import CronSchedule, parse_schedule
from scorer.windows.week import blocks
from scorer.windows.windows import WHOLE_WEEK, BudgetWindow

REASONS: Final = tuple(reason.value for reason in DisruptionReason)

_NAMED_BUDGETS: Final = 5
_MOST_BLOCKS: Final = 3
"""Maximum number of windows that a correction may use to close the rest of the week."""
_DAY: Final = timedelta(days=1)
_SOME_DAY: Final = date(2001, 1, 1)
_ALL_CALENDARS: Final = 29 * 365 + 8
"""Days of 28 years, after which weekdays and leap years repeat, plus one year."""
FIRST_READING: Final = "0 outside"
OTHER_READING: Final = f"the default of {DEFAULT_BUDGET_NODES} outside"
_MOST_FIXES: Final = 5
"""Maximum number of suggested corrections. A user with more findings fixes these first."""


@dataclass(frozen=True, slots=True)
class Lint:
    """One property of a pool's budgets that is probably a mistake.

    Args:
        rule: Id of the admission rule, such as ``K-30``.
        at: Path relative to the list of budgets, empty for the list as a whole.
        message: Human-readable explanation that follows the path.
        reasons: Affected reasons, in the order of `DisruptionReason`.
        fix: The corrected list of budgets, as documents. None: unknown, no correction is obvious.
        alternative: The correction for `OTHER_READING`, if *fix* is the correction for `FIRST_READING`. None: unset,
            there is one reading.
    """

    rule: str
    at: tuple[str | int, ...]
    message: str
    reasons: tuple[str, ...]
    fix: tuple[JsonObject, ...] | None = field(default=None, hash=False)
    alternative: tuple[JsonObject, ...] | None = field(default=None, hash=False)

    @property
    def readings(self) -> tuple[tuple[str, tuple[JsonObject, ...]], ...]:
        """The corrections, each with the reading that it implements, which is empty if there is only one."""
        if self.fix is None:
            return ()
        if self.alternative is None:
            return (("", self.fix),)
        return (FIRST_READING, self.fix), (OTHER_READING, self.alternative)


def lint_budgets(budgets: Sequence[Budget]) -> tuple[Lint, ...]:
    """Return the lints of *budgets* (K-30 to K-34, K-38, K-39).

    Invalid budgets are skipped, and combinations are not evaluated then: an invalid budget blocks every disruption
    anyway.
    """
    lints = list(_lints(budgets))
    rules = Counter(lint.rule for lint in lints)
    hopeful = [place for place, lint in enumerate(lints) if lint.fix is not None]
    for place in hopeful[_MOST_FIXES:]:
        lints[place] = replace(lints[place], fix=None, alternative=None)
    for place in hopeful[:_MOST_FIXES]:
        lint = lints[place]
        if not all(_improves(fix, lint, rules) for _, fix in lint.readings):
            lints[place] = replace(lint, fix=None, alternative=None)
    return tuple(lints)


def _improves(fix: Iterable[JsonObject], lint: Lint, rules: Counter[str]) -> bool:
    """Return whether a correction has fewer findings, and no new ones."""
    rule_counts = Counter(finding.rule for finding in _lints([Budget.read(document) for document in fix]))
    return rule_counts <= rules - Counter([lint.rule])


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
        index: Position.
        budget: The budget as written.
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
    span = fires.bit_length() - (fires & -fires).bit_length()
    return (longest + 1) * _DAY - timedelta(minutes=span) <= duration


def _document(budget: Budget, **changes: str | None) -> JsonObject:
    members = {"nodes": budget.nodes, "reasons": budget.reasons, "schedule": budget.schedule}
    members |= {"duration": budget.duration, **changes}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in members.items() if value is not None
    }


def _lints(budgets: Sequence[Budget]) -> Iterator[Lint]:
    """Yield all findings, with unverified corrections."""
    parsed_budgets: list[_Known] = []
    for index, budget in enumerate(budgets):
        yield from _lint_reasons(index, budget)
        parsed = _read_budget(index, budget)
        if parsed is not None:
            yield from _lint_window(parsed)
            parsed_budgets.append(parsed)
    if len(parsed_budgets) < len(budgets):
        return
    live = [parsed for parsed in parsed_budgets if parsed.reasons]
    moot_indices: set[int] = set()
    for lint, indices in _lint_zero(live, parsed_budgets):
        moot_indices |= indices
        yield lint
    yield from _lint_gaps(live, parsed_budgets)
    closed: frozenset[str] = frozenset()
    for lint in _lint_zeros(live):
        closed = frozenset(lint.reasons)
        yield lint
    suspects = [parsed for parsed in live if not parsed.reasons <= closed and parsed.index not in moot_indices]
    yield from _lint_overruled(suspects, live, parsed_budgets)


def _read_budget(index: int, budget: Budget) -> _Known | None:
    try:
        allowed_disruptions(budget, 0)
        budget_window(budget)
    except ValueError:
        return None
    schedule = None if budget.schedule is None else parse_schedule(budget.schedule)
    duration = timedelta() if budget.duration is None else parse_budget_duration(budget.duration)
    return _Known(index, budget, int(budget.nodes.removesuffix("%")), schedule, duration)


def _lint_reasons(index: int, budget: Budget) -> Iterator[Lint]:
    """Yield a finding if the list of reasons is empty, which means no reason instead of every reason (K-34)."""
    if budget.reasons == ():
        message = "is empty, so the budget applies to no reason. Remove the field to cover every reason"
        yield Lint("K-34", (index, "reasons"), message, REASONS)


def _lint_window(budget: _Known) -> Iterator[Lint]:
    """Yield a finding if the duration is zero (K-33), or if the budget is always active despite its schedule (K-32)."""
    if budget.schedule is None:
        return
    reasons, text = _sort_reasons(budget.reasons) or REASONS, budget.budget.duration
    if not budget.duration and text is not None and not budget.schedule.never_fires:
        message = f"{_quote(text)} is zero: the budget is never in force"
        yield Lint("K-33", (budget.index, "duration"), message, reasons)
    if budget.schedule.never_fires:
        message = f"{_quote(budget.schedule.text)} never fires, so the budget is always in force"
        yield Lint("K-32", (budget.index, "schedule"), message, reasons)
    elif budget.always and text is not None:
        message = f"{_quote(text)} is not shorter than the time to the next window, so the budget is always in force"
        yield Lint("K-32", (budget.index, "duration"), message, reasons)


def _lint_zero(live: Sequence[_Known], budgets: Sequence[_Known]) -> Iterator[tuple[Lint, set[int]]]:
    """Yield a finding about a budget that always allows 0 disruptions, and so makes others pointless (K-30)."""
    for zero in live:
        if zero.number or not zero.always:
            continue
        moot = [other for other in live if other is not zero and other.reasons <= zero.reasons]
        if moot:
            reason = "has no schedule" if zero.schedule is None else "has a window that never closes"
            matter = "never matters" if len(moot) == 1 else "never matter"
            message = (
                f"allows nothing and {reason}: no disruption is ever allowed{_for(zero.reasons)}, "
                f"and {_names(moot)} {matter}"
            )
            fix = _give_way(budgets, zero, moot)
            yield (
                Lint("K-30", (zero.index,), message, _sort_reasons(zero.reasons), fix),
                {budget.index for budget in moot},
            )
            return


def _lint_gaps(live: Sequence[_Known], budgets: Sequence[_Known]) -> Iterator[Lint]:
    """Yield a finding if disruptions are unlimited outside of all windows (K-31)."""
    unlimited = frozenset(
        reason
        for reason in frozenset().union(*(budget.reasons for budget in live))
        if not _always_one_of([budget for budget in live if reason in budget.reasons])
    )
    if unlimited:
        affected = [budget for budget in live if budget.reasons & unlimited]
        reasons_text, scope = ("", "") if len(affected) == len(live) else (_for(unlimited), " that applies")
        message = f"outside the windows, disruption{reasons_text} is unlimited: every budget{scope} has a schedule"
        fix, alternative = _limits_outside(budgets, affected, unlimited)
        yield Lint("K-31", (), message, _sort_reasons(unlimited), fix, alternative)


def _lint_zeros(live: Sequence[_Known]) -> Iterator[Lint]:
    """Yield a finding if several windows that allow 0 disruptions together cover the whole week (K-39)."""
    zeros = [budget for budget in live if not budget.number]
    closed = frozenset(
        reason
        for reason in REASONS
        if not any(budget.always for budget in zeros if reason in budget.reasons)
        and _always_one_of([budget for budget in zeros if reason in budget.reasons])
    )
    if closed:
        names = _names([budget for budget in zeros if budget.reasons & closed])
        message = f"no disruption is ever allowed{_for(closed)}: {names} allow nothing and leave no gap between them"
        yield Lint("K-39", (), message, _sort_reasons(closed))


def _lint_overruled(suspects: Iterable[_Known], live: Sequence[_Known], budgets: Sequence[_Known]) -> Iterator[Lint]:
    """Yield findings about budgets without effect, because stricter ones are active whenever they are (K-38)."""
    for budget in suspects:
        if budget.minutes == 0:
            continue
        stricter = [other for other in live if other.is_stricter_than(budget)]
        overrulers = [other for other in stricter if budget.reasons <= other.reasons and other.outlasts(budget)]
        if overrulers:
            alone = next(
                other for other in overrulers if not any(third.is_stricter_than(other) for third in overrulers)
            )
            scope_text = "always in force" if alone.always else "in force whenever this one is"
            message = f"has no effect: budgets[{alone.index}] is stricter and {scope_text}"
            overruled = [
                other
                for other in live
                if alone.is_stricter_than(other) and other.reasons <= alone.reasons and alone.outlasts(other)
            ]
            yield Lint(
                "K-38", (budget.index,), message, _sort_reasons(budget.reasons), _give_way(budgets, alone, overruled)
            )
        elif budget.minutes is not None and all(
            not budget.minutes & ~_certain_minutes(other for other in stricter if reason in other.reasons)
            for reason in budget.reasons
        ):
            names = _names([other for other in stricter if other.reasons & budget.reasons])
            message = f"has no effect: {names} are stricter, and one of them is in force whenever this one is"
            yield Lint("K-38", (budget.index,), message, _sort_reasons(budget.reasons))


def _give_way(budgets: Sequence[_Known], strict: _Known, overruled: Sequence[_Known]) -> tuple[JsonObject, ...] | None:
    """Return budgets after *strict* yields to *overruled*, or None if the intention is unclear.

    If the overruled budgets have windows, *strict* is restricted to the rest of the week. If they apply to only some of
    its reasons, *strict* is restricted to the other reasons.
    """
    if not strict.always or not all(strict.is_stricter_than(budget) for budget in overruled):
        return None
    if all(budget.reasons == strict.reasons and budget.schedule is not None and budget.minutes for budget in overruled):
        return _in_the_rest_of_the_week(budgets, strict, overruled)
    named_reasons = frozenset().union(*(budget.reasons for budget in overruled))
    if (
        strict.schedule is None
        and named_reasons < strict.reasons
        and all(budget.schedule is None for budget in overruled)
    ):
        documents = {budget.index: [budget.document()] for budget in budgets}
        documents[strict.index] = [
            {"nodes": strict.budget.nodes, "reasons": list(_sort_reasons(strict.reasons - named_reasons))}
        ]
        return _flatten(documents)
    return None


def _in_the_rest_of_the_week(
    budgets: Sequence[_Known], strict: _Known, overruled: Sequence[_Known]
) -> tuple[JsonObject, ...] | None:
    closed = blocks(WHOLE_WEEK & ~_certain_minutes(overruled), _MOST_BLOCKS)
    if closed is None:
        return None
    documents = {budget.index: [budget.document()] for budget in budgets}
    documents[strict.index] = [
        _document(strict.budget, schedule=block.schedule, duration=block.duration) for block in closed
    ]
    if len({(budget.is_percent, budget.number) for budget in overruled}) == 1:  # equal limits need no windows
        for budget in overruled:
            documents[budget.index] = []
        documents[overruled[0].index] = [_document(overruled[0].budget, schedule=None, duration=None)]
    return _flatten(documents)


def _limits_outside(
    budgets: Sequence[_Known], affected: Sequence[_Known], unlimited: frozenset[str]
) -> tuple[tuple[JsonObject, ...] | None, tuple[JsonObject, ...] | None]:
    """Return *budgets* with a limit outside the windows, and an alternative if the windows have two readings.

    If all windows are zero, the limit is the default. If their numbers differ, it is the largest of them. A single
    number, as for weekends, would make the windows pointless: the author meant zero outside them, or the default.
    """
    if not all(unlimited <= budget.reasons for budget in affected):
        return None, None
    reasons = {} if len(unlimited) == len(REASONS) else {"reasons": list(_sort_reasons(unlimited))}
    documents = tuple(budget.document() for budget in budgets)
    numbers = [budget for budget in affected if budget.number]
    if not numbers:
        return ({"nodes": DEFAULT_BUDGET_NODES, **reasons}, *documents), None
    if len({budget.is_percent for budget in numbers}) > 1:
        return None, None
    largest = max(numbers, key=lambda budget: budget.number)
    rest = None
    if len({budget.number for budget in affected}) == 1 and all(budget.minutes for budget in affected):
        rest = blocks(WHOLE_WEEK & ~_certain_minutes(affected), _MOST_BLOCKS)
    if rest is None:
        return (*documents, {"nodes": largest.budget.nodes, **reasons}), None
    closed, default = (
        tuple({"nodes": nodes, **reasons, "schedule": block.schedule, "duration": block.duration} for block in rest)
        for nodes in ("0", DEFAULT_BUDGET_NODES)
    )
    return (*documents, *closed), (*documents, *default)


def _flatten(documents: dict[int, list[JsonObject]]) -> tuple[JsonObject, ...]:
    return tuple(document for _, budget_documents in sorted(documents.items()) for document in budget_documents)


def _certain_minutes(budgets: Iterable[_Known]) -> int:
    """Return the minutes of the week when any of *budgets* is certainly active."""
    minutes = 0
    for budget in budgets:
        minutes |= budget.minutes or 0
    return minutes


def _always_one_of(budgets: Iterable[_Known]) -> bool:
    return _certain_minutes(budgets) == WHOLE_WEEK


def _sort_reasons(reasons: Iterable[str]) -> tuple[str, ...]:
    reason_set = set(reasons)
    return tuple(reason for reason in REASONS if reason in reason_set)


def _for(reasons: frozenset[str]) -> str:
    return "" if len(reasons) == len(REASONS) else f" for {', '.join(_sort_reasons(reasons))}"


def _names(budgets: Sequence[_Known]) -> str:
    names = ", ".join(f"budgets[{budget.index}]" for budget in islice(budgets, _NAMED_BUDGETS))
    return f"{names} and {len(budgets) - _NAMED_BUDGETS} more" if len(budgets) > _NAMED_BUDGETS else names


def _quote(text: str) -> str:
    return dump_json(text if len(text) <= 64 else text[:61] + "...").decode()
