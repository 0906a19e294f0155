"""Preview of member outcomes: behind a gate, and before the start of a run.

An approver sees whether the members could start, and a user sees obstacles before starting a run.

Source: docs/specifications/upgrade-runs.md 5 and 8.6.
"""

from collections import Counter
from typing import Final

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.gate import GateTiming, Readiness
from scorer.upgrade.evaluation.checks import Checks, StartOutcome, StartVerdict
from scorer.upgrade.evaluation.conditions import PREFLIGHT, remove_condition, set_condition
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.evaluation.gates import Position
from scorer.upgrade.evaluation.version_resolution import choose
from scorer.upgrade.messages import MOST_NAMED
from scorer.upgrade.state.record import FINISHED, GroupWork

_PASSING: Final = frozenset({"MaintenanceWindowClosed", "PlacementGuard"})
"""Transient causes. They are not reported for a run that has not started."""


class Readinesses:
    """The readiness of the gates of a run at one instant."""

    def __init__(self, ev: Evaluation) -> None:
        self._ev = ev
        self._checks = Checks(ev, ev.record.status.resolved)

    def behind_gate(self, position: Position) -> Readiness | None:
        """Count the outcomes of the members behind a gate. None: not applicable to a gate that follows them."""
        if position.timing is not GateTiming.BEFORE:
            return None
        outcomes: Counter[StartOutcome] = Counter()
        reasons: Counter[str] = Counter()
        for group in self._groups(position):
            for entry in group.members:
                if entry.state in FINISHED:
                    continue
                verdict = self._checks.verdict(entry)
                outcomes[verdict.outcome] += 1
                if verdict.outcome is StartOutcome.WAIT:
                    reasons[verdict.reason] += 1
        return Readiness(
            start=outcomes[StartOutcome.GO],
            skip=outcomes[StartOutcome.SKIP],
            pending=outcomes[StartOutcome.WAIT],
            fail=outcomes[StartOutcome.FAIL],
            pending_reasons=dict(sorted(reasons.items())),
        )

    def _groups(self, position: Position) -> list[GroupWork]:
        stage = next(stage for stage in self._ev.record.stages if stage.name == position.stage)
        return [group for group in stage.groups if position.group in ("", group.name)]


def check_before_start(ev: Evaluation, *, is_initialised: bool) -> None:
    """Report obstacles of a run that has not started. They do not block the start."""
    if ev.record.is_started:
        return
    if not is_initialised:
        remove_condition(ev, PREFLIGHT)
        return
    checks = Checks(ev, choose(ev))
    entries = [entry for _, _, entry in ev.record.entries() if entry.state is not UpgradeState.SKIPPED]
    messages = [
        f"{entry.name}: {verdict.reason}: {verdict.message}"
        for entry in entries
        if _is_issue(verdict := checks.verdict(entry))
    ]
    messages += [
        f"{entry.name}: {issue.code}: {issue.message}"
        for entry in entries
        for issue in ev.facts.issues.get(entry.name, ())
    ]
    more = [f"and {len(messages) - MOST_NAMED} more"] if len(messages) > MOST_NAMED else []
    if messages:
        message = "; ".join(messages[:MOST_NAMED] + more)
        set_condition(ev, PREFLIGHT, is_true=False, reason="PreflightIssues", message=message)
    else:
        set_condition(ev, PREFLIGHT, is_true=True, reason="PreflightPassed")


def _is_issue(verdict: StartVerdict) -> bool:
    if verdict.outcome is StartOutcome.SKIP:
        return verdict.reason not in ("AlreadyAtTarget", "AheadOfTarget")
    return verdict.outcome is not StartOutcome.GO and verdict.reason not in _PASSING
