"""Metrics of upgrade runs. Users choose only the label value with the name of a run. Its series are removed with it.

Source: docs/specifications/upgrade-runs.md 15.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry

from scorer.api.kinds import UPGRADE_RUN
from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import UpgradeRunStatus
from scorer.upgrade.views.metrics import Measure, Measured
from scorer.upgrade.views.situation import waits_for_approval
from webhook.telemetry.subject_metrics import SubjectMetrics

UPGRADE_BUCKETS: Final = (60.0, 300.0, 600.0, 900.0, 1800.0, 2700.0, 3600.0, 7200.0, 14400.0, 28800.0)
GATE_BUCKETS: Final = (60.0, 600.0, 3600.0, 14400.0, 43200.0, 86400.0, 604800.0)
LAG_BUCKETS: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 600.0, 3600.0)
LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "harbormaster_upgrade_run_state": ("run", "state"),
    "harbormaster_upgrade_members": ("run", "state"),
    "harbormaster_upgrade_eta_seconds": ("run",),
    "harbormaster_upgrade_member_duration_seconds": ("type", "upgrader", "result"),
    "harbormaster_upgrade_pending_seconds": ("reason",),
    "harbormaster_upgrade_upgrader_errors": ("upgrader", "call"),
    "harbormaster_upgrade_runs_waiting_for_approval": ("kind",),
}
"""Labels by metric. These have no series before the first run. Back ends add their own reasons."""
_MEMBER_STATES: Final = ("completed", "skipped", "failed", "running", "pending", "not_started", "stopped")


class UpgradeMetrics(SubjectMetrics):
    """Metrics of upgrade runs. Implements `webhook.controllers.upgrades.observer.UpgradeObserver`.

    Args:
        registry: Registry of the metrics.
    """

    labels = LABELS

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self._state = self.gauge("harbormaster_upgrade_run_state", "Whether an upgrade run is in a state: 1 or 0.")
        self._members = self.gauge("harbormaster_upgrade_members", "Number of members of an upgrade run, by state.")
        self._eta = self.gauge(
            "harbormaster_upgrade_eta_seconds",
            "Planned time until an upgrade run completes. Absent if the plan has no end.",
        )
        self._durations = self.histogram(
            "harbormaster_upgrade_member_duration_seconds", "Duration of the upgrade of a member.", UPGRADE_BUCKETS
        )
        self._pending = self.counter(
            "harbormaster_upgrade_pending_seconds",
            "Time that members waited for their upgrade, by the last reason for waiting.",
        )
        self._gates = self.histogram(
            "harbormaster_upgrade_gate_wait_seconds", "Time that runs waited at gates.", GATE_BUCKETS
        )
        self._lag = self.histogram(
            "harbormaster_upgrade_window_start_lag_seconds",
            "Time from the opening of a maintenance window to the start of an upgrade that waited for it.",
            LAG_BUCKETS,
        )
        self._errors = self.counter(
            "harbormaster_upgrade_upgrader_errors", "Number of calls of back ends that failed or timed out."
        )
        self._approvals: set[str] = set()
        self.gauge(
            "harbormaster_upgrade_runs_waiting_for_approval",
            "Number of upgrade runs at a gate that waits for an approval.",
        ).labels(UPGRADE_RUN.kind).set_function(lambda: len(self._approvals))
        self._runs: set[str] = set()
        self._planned: set[str] = set()

    def seen(self, run: str, status: UpgradeRunStatus, measures: Iterable[Measure]) -> None:
        """Record the status of a run, and count finished measures."""
        self._runs.add(run)
        for state in UpgradeState:
            self._state.labels(run, state.value).set(float(status.state is state))
        for name in _MEMBER_STATES:
            self._members.labels(run, name).set(getattr(status.counts, name))
        for measure in measures:
            self._count(measure)
        (self._approvals.add if waits_for_approval(status) else self._approvals.discard)(run)

    def _count(self, measure: Measure) -> None:
        match measure.kind:
            case Measured.UPGRADE:
                self._durations.labels(*measure.labels).observe(measure.seconds)
            case Measured.PENDING:
                self._pending.labels(*measure.labels).inc(measure.seconds)
            case Measured.GATE:
                self._gates.observe(measure.seconds)
            case Measured.WINDOW_LAG:
                self._lag.observe(measure.seconds)

    def planned(self, run: str, eta: datetime | None, now: datetime) -> None:
        """Record the time until the estimated end of a run. Without an estimate, remove the series."""
        if eta is not None:
            self._planned.add(run)
            self._eta.labels(run).set(max(0.0, (eta - now).total_seconds()))
        elif run in self._planned:
            self._planned.discard(run)
            self._eta.remove(run)

    def deleted(self, run: str) -> None:
        """Remove the series of a run."""
        self._approvals.discard(run)
        if run in self._runs:
            self._runs.discard(run)
            for state in UpgradeState:
                self._state.remove(run, state.value)
            for name in _MEMBER_STATES:
                self._members.remove(run, name)
        if run in self._planned:
            self._planned.discard(run)
            self._eta.remove(run)

    def failed(self, upgrader: str, call: str) -> None:
        """Count a failed call of a back end."""
        self._errors.labels(upgrader, call).inc()

    def ended(self) -> None:
        """Remove the series of all runs at the end of the term, because the next leader reports them."""
        for run in sorted(self._runs | self._planned):
            self.deleted(run)
