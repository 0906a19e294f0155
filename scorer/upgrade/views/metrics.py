"""Metrics of a pass over a run: durations of upgrades, waits and gates, and delays behind windows.

Source: upgrade-runs.md 15.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import ClusterUpgradeRun, GateReport, MemberStatus, UpgradeRunStatus

_RESULTS = {UpgradeState.COMPLETED: "success", UpgradeState.FAILED: "failure"}


class Measured(StrEnum):
    """Quantity that a measurement is about."""

    UPGRADE = "upgrade"
    PENDING = "pending"
    GATE = "gate"
    WINDOW_LAG = "window lag"


@dataclass(frozen=True, slots=True)
class Measure:
    """One measurement.

    Args:
        kind: Its quantity.
        seconds: Its value.
        labels: Type, back end and result of an upgrade, or the reason of a wait. Otherwise empty.
    """

    kind: Measured
    seconds: float
    labels: tuple[str, ...] = ()


def measures(run: ClusterUpgradeRun, after: UpgradeRunStatus, now: datetime) -> Iterator[Measure]:
    """Yield a measurement for everything that ended in a pass.

    Args:
        run: The run before the pass.
        after: Its status after the pass.
        now: Time of the pass.
    """
    before = {entry.name: entry for entry in _entries(run.status)}
    for entry in _entries(after):
        previous = before.get(entry.name)
        if previous is not None and previous is not entry and previous.state is not entry.state:
            yield from _of_member(run, previous, entry, now)
    open_gates = {gate.gate: gate for gate in _gates(run.status) if gate.state is UpgradeState.PENDING}
    for gate in _gates(after):
        opened = open_gates.get(gate.gate)
        if opened is not None and opened.start_time is not None and gate.state is UpgradeState.COMPLETED:
            yield Measure(Measured.GATE, _since(opened.start_time, gate.completion_time or now))


def _of_member(run: ClusterUpgradeRun, known: MemberStatus, entry: MemberStatus, now: datetime) -> Iterator[Measure]:
    if known.state is UpgradeState.PENDING and known.pending_since is not None:
        yield Measure(Measured.PENDING, _since(known.pending_since, now), (known.reason,))
        opened = known.next_window_open
        started = entry.start_time if entry.state is UpgradeState.RUNNING else None
        if started is not None and opened is not None and opened <= started:
            yield Measure(Measured.WINDOW_LAG, _since(opened, started))
    result = _RESULTS.get(entry.state)
    if known.state is UpgradeState.RUNNING and result is not None and entry.start_time is not None:
        labels = (run.spec.upgrade.type.value, entry.upgrader, result)
        yield Measure(Measured.UPGRADE, _since(entry.start_time, entry.completion_time or now), labels)


def _since(begun: datetime, ended: datetime) -> float:
    return max(0.0, (ended - begun).total_seconds())


def _entries(status: UpgradeRunStatus) -> Iterator[MemberStatus]:
    return (entry for stage in status.stages for group in stage.groups for entry in group.members)


def _gates(status: UpgradeRunStatus) -> Iterator[GateReport]:
    for stage in status.stages:
        yield from (*stage.before_gates, *stage.after_gates)
        for group in stage.groups:
            yield from (*group.before_gates, *group.after_gates)
