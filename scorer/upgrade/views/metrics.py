"""Metrics of a pass over a run: durations of upgrades, waits and gates, and delays after windows open.

Source: docs/specifications/upgrade-runs.md 15.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import ClusterUpgradeRun, GateReport, MemberStatus, UpgradeRunStatus

_RESULTS = {UpgradeState.COMPLETED: "success", UpgradeState.FAILED: "failure"}


class Measured(StrEnum):
    """Measured quantity."""

    UPGRADE = "upgrade"
    PENDING = "pending"
    GATE = "gate"
    WINDOW_LAG = "window lag"


@dataclass(frozen=True, slots=True)
class Measure:
    """One measurement.

    Args:
        kind: Quantity.
        seconds: Value.
        labels: Type, back end and result of an upgrade, or the reason for a wait. Otherwise empty.
    """

    kind: Measured
    seconds: float
    labels: tuple[str, ...] = ()


def measures(run: ClusterUpgradeRun, new_status: UpgradeRunStatus, now: datetime) -> Iterator[Measure]:
    """Yield a measurement for everything that ended in a pass.

    Args:
        run: The run before the pass.
        new_status: Status of the run after the pass.
        now: Time of the pass.
    """
    old_entries = {entry.name: entry for entry in _entries(run.status)}
    for entry in _entries(new_status):
        previous = old_entries.get(entry.name)
        if previous is not None and previous is not entry and previous.state is not entry.state:
            yield from _member_measures(run, previous, entry, now)
    open_gates = {gate.gate: gate for gate in _gates(run.status) if gate.state is UpgradeState.PENDING}
    for gate in _gates(new_status):
        opening = open_gates.get(gate.gate)
        if opening is not None and opening.start_time is not None and gate.state is UpgradeState.COMPLETED:
            yield Measure(Measured.GATE, _since(opening.start_time, gate.completion_time or now))


def _member_measures(
    run: ClusterUpgradeRun, old_entry: MemberStatus, entry: MemberStatus, now: datetime
) -> Iterator[Measure]:
    if old_entry.state is UpgradeState.PENDING and old_entry.pending_since is not None:
        yield Measure(Measured.PENDING, _since(old_entry.pending_since, now), (old_entry.reason,))
        opening = old_entry.next_window_open
        start = entry.start_time if entry.state is UpgradeState.RUNNING else None
        if start is not None and opening is not None and opening <= start:
            yield Measure(Measured.WINDOW_LAG, _since(opening, start))
    result = _RESULTS.get(entry.state)
    if old_entry.state is UpgradeState.RUNNING and result is not None and entry.start_time is not None:
        labels = (run.spec.upgrade.type.value, entry.upgrader, result)
        yield Measure(Measured.UPGRADE, _since(entry.start_time, entry.completion_time or now), labels)


def _since(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds())


def _entries(status: UpgradeRunStatus) -> Iterator[MemberStatus]:
    return (entry for stage in status.stages for group in stage.groups for entry in group.members)


def _gates(status: UpgradeRunStatus) -> Iterator[GateReport]:
    for stage in status.stages:
        yield from (*stage.before_gates, *stage.after_gates)
        for group in stage.groups:
            yield from (*group.before_gates, *group.after_gates)
