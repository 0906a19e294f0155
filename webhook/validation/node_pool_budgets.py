"""Rules on ``spec.disruption.budgets`` of a NodePool, and the warnings of suspicious budgets with their correction.

Source: docs/specifications/nodepool-disruption.md 2.1, 4.6 and 16; Karpenter ``pkg/apis/v1/nodepool_validation.go``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.node_pool import Budget, DisruptionReason
from scorer.api.values.duration import parse_budget_duration
from scorer.api.values.field_path import FieldPath
from scorer.node_budgets.budgets import UNLIMITED, allowed_disruptions
from scorer.node_budgets.lints import flow_style, lint_budgets
from scorer.windows.cron import matches_crd_pattern, parse_schedule
from webhook.validation.framework.field import (
    LONGEST_WARNING,
    Cause,
    FieldError,
    FieldWarning,
    duplicate,
    invalid,
    not_supported,
)
from webhook.validation.framework.reading import Finding

_ONE_FIELD: Final = 2
"""Length of the path of a lint about one field of one budget."""
_REASONS: Final = tuple(word.value for word in DisruptionReason)


@dataclass(frozen=True, slots=True)
class BudgetWarning(FieldWarning):
    """Warning about suspicious budgets.

    Args:
        readings: See `scorer.node_budgets.lints.Lint.readings`.
    """

    readings: tuple[tuple[str, tuple[JsonObject, ...]], ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class BudgetHint(FieldWarning):
    """Correction of a budget on one line, right after its warning.

    The hint is a separate warning, because long warnings are truncated and would lose a correction at their end. If the
    correction alone is too long, the hint names the command that prints it, because half a correction is useless.
    """


def validate_budgets(budgets: Sequence[Budget], at: FieldPath) -> Iterator[Finding]:
    """Check each budget, and warn about suspicious ones. Combinations are checked only if all budgets are valid."""
    understood = True
    for index, budget in enumerate(budgets):
        for finding in validate_budget(budget, at / index):
            understood = False
            yield finding
    yield from _lint(budgets, at, whole=understood)


def validate_budget(budget: Budget, at: FieldPath) -> Iterator[FieldError]:
    """Check that the engine can evaluate a budget."""
    try:
        allowed_disruptions(budget, 0)
    except ValueError:
        reason = f"must be a number up to {UNLIMITED} or a percentage up to 100%"
        yield invalid(at / "nodes", budget.nodes, reason, "K-18")
    yield from validate_reasons(budget.reasons, at / "reasons")
    if budget.schedule is not None:
        yield from validate_schedule(budget.schedule, at / "schedule")
    if budget.duration is not None:
        try:
            parse_budget_duration(budget.duration)
        except ValueError:
            expected = "must be hours and minutes such as 8h or 1h30m, at most 2562047h"
            yield invalid(at / "duration", budget.duration, expected, "K-21")
    if budget.schedule is None and budget.duration is not None:
        yield FieldError(at / "schedule", Cause.REQUIRED, "must be set together with duration", "K-22")
    if budget.duration is None and budget.schedule is not None:
        yield FieldError(at / "duration", Cause.REQUIRED, "must be set together with schedule", "K-22")


def validate_reasons(reasons: Sequence[str] | None, at: FieldPath) -> Iterator[FieldError]:
    """Check the reasons of a budget: known ones, each once."""
    visited: set[str] = set()
    for index, reason in enumerate(reasons or ()):
        if reason not in _REASONS:
            yield not_supported(at / index, reason, _REASONS, "K-19")
        if reason in visited:
            yield duplicate(at / index, reason, rule="K-19")
        visited.add(reason)


def validate_schedule(text: str, at: FieldPath) -> Iterator[FieldError]:
    """Check the syntax: the CRD's pattern and the parser must both accept it (nodepool-disruption.md 8.1)."""
    try:
        parse_schedule(text)
    except ValueError as error:
        yield invalid(at, text, str(error), "K-20")
        return
    if not matches_crd_pattern(text):
        reason = "must be five fields separated by spaces, or start with a macro other than @every"
        yield invalid(at, text, reason, "K-20")


def _lint(budgets: Sequence[Budget], at: FieldPath, *, whole: bool) -> Iterator[FieldWarning]:
    """Warn about budgets that do not do what they seem to, and suggest a correction (K-30 to K-34, K-38 and K-39).

    Args:
        budgets: Budgets as written.
        at: Path of the budgets.
        whole: Whether all of them are valid. If False, there are no warnings about their combination.
    """
    for lint in lint_budgets(budgets):
        if not whole and len(lint.at) != _ONE_FIELD:
            continue
        yield BudgetWarning(at.below(*lint.at), lint.message, lint.rule, lint.readings)
        for reading, fix in lint.readings:
            yield BudgetHint(at, _hint(fix, reading, budgets, LONGEST_WARNING - len(str(at)) - 2), lint.rule)


def _hint(fix: Sequence[JsonObject], reading: str, budgets: Sequence[Budget], room: int) -> str:
    """Return a correction of at most *room* characters: an addition, the whole list, or the command that prints it."""
    new = [budget for budget in fix if Budget.read(budget) not in budgets]
    added = len(fix) == len(budgets) + len(new)
    hint = f"add {flow_style(new)[1:-1]}" if added else f"write {flow_style(fix)}"
    hint += f" for {reading}" if reading else ""
    return hint if len(hint) <= room else "harbormaster lint -f FILE prints the corrected budgets"
