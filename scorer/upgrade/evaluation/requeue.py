"""Time after which a run is requeued without an event.

Source: docs/specifications/upgrade-runs.md 7.5.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import MemberStatus
from scorer.upgrade.evaluation.checks import REJECTED_RETRY
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.evaluation.gates import positions
from scorer.upgrade.evaluation.timeouts import deadline_of, pending_limit
from scorer.upgrade.state.record import StageWork


def next_wakeup(ev: Evaluation) -> datetime | None:
    """Return the next instant after now at which something is due, or None."""
    return min((instant for instant in _due_times(ev) if instant > ev.now), default=None)


def _due_times(ev: Evaluation) -> Iterator[datetime]:
    if not ev.record.is_started:
        return
    for _, _, entry in ev.record.running():
        if (deadline := deadline_of(ev, entry)) is not None:
            yield deadline
    yield from _gates(ev)
    stage = ev.record.current
    if stage is None or ev.record.is_halted:
        return
    yield from _pending_times(ev, stage)
    if stage.wait.state is UpgradeState.RUNNING and stage.wait.start_time is not None:
        yield stage.wait.start_time + timedelta(seconds=stage.wait.seconds)


def _pending_times(ev: Evaluation, stage: StageWork) -> Iterator[datetime]:
    """Yield when waiting members may start, and when they time out."""
    limit, limited = pending_limit(ev), []
    for group in stage.groups:
        for opens, since in group.roster.waits:
            if opens is not None:
                yield opens
            if limit is not None and since is not None:
                yield since + limit
        for index in group.roster.held_up:
            limited.append(entry := group.members[index])
            if entry.attempt and not entry.operation_id and entry.completion_time is not None:
                yield entry.completion_time + REJECTED_RETRY
    yield from _changes(ev, limited)


def _changes(ev: Evaluation, members: Iterable[MemberStatus]) -> Iterator[datetime]:
    """Yield when windows of otherwise blocked members open or close, because that changes the causes of the wait."""
    by_windows = {member.windows.names: member for entry in members if (member := ev.facts.members.get(entry.name))}
    yield from (instant for member in by_windows.values() if (instant := ev.tiers.changes(member)) is not None)


def _gates(ev: Evaluation) -> Iterator[datetime]:
    seconds = ev.spec.timeouts.gate_seconds
    for position in positions(ev):
        for gate in position.gates.reports:
            if gate.state is not UpgradeState.PENDING:
                continue
            if gate.absolute_start_time is not None:
                yield gate.absolute_start_time
            if seconds and gate.start_time is not None and not ev.record.is_halted:
                yield gate.start_time + timedelta(seconds=seconds)
