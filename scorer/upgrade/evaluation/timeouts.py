"""Timeouts of attempts, pending members and gates.

Source: docs/specifications/upgrade-runs.md 6.6, 10.4 and 13.4.
"""

from datetime import datetime, timedelta

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import MemberStatus, OnPendingTimeout
from scorer.api.values.quoting import format_count
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.evaluation.gates import positions
from scorer.upgrade.evaluation.halting import halt
from scorer.upgrade.evaluation.member_transitions import fail_member, skip_member
from scorer.upgrade.state.record import GroupWork
from scorer.upgrade.state.step import CancelUpgrade

_TIMED_OUT = "PendingTimeout"


def check_timeouts(ev: Evaluation) -> None:
    """Apply all timeouts that have expired."""
    for group, index, entry in list(ev.record.running()):
        deadline = deadline_of(ev, entry)
        if deadline is not None and deadline <= ev.now:
            _give_up(ev, group, index)
    if ev.record.is_halted or not ev.record.is_started:
        return
    _check_pending(ev)
    _check_gates(ev)


def deadline_of(ev: Evaluation, entry: MemberStatus) -> datetime | None:
    """Return when an attempt is given up. None: unlimited."""
    seconds = ev.spec.timeouts.member_upgrade_seconds
    return entry.start_time + timedelta(seconds=seconds) if seconds and entry.start_time is not None else None


def pending_limit(ev: Evaluation) -> timedelta | None:
    """Return how long a member may be pending. None: unlimited."""
    timeouts = ev.spec.timeouts
    if not timeouts.pending_seconds or timeouts.on_pending_timeout is OnPendingTimeout.WAIT:
        return None
    return timedelta(seconds=timeouts.pending_seconds)


def _give_up(ev: Evaluation, group: GroupWork, index: int) -> None:
    """Fail a member whose upgrade has timed out. It is blocked until the end of its operation is reported."""
    entry = group.members[index]
    observation = ev.facts.observations.get(entry.operation_id)
    if observation is not None and observation.unclaimed:
        fail_member(ev, group, index, "UpgraderNotResponding", "no upgrader accepted its upgrade in time")
    else:
        seconds = ev.spec.timeouts.member_upgrade_seconds
        fail_member(
            ev, group, index, "UpgradeTimeout", f"its upgrade timed out after {format_count(seconds, 'second')}"
        )
    group.update_member(index, operation_open=ev.facts.may_be_in_flight(entry.operation_id))
    if ev.spec.timeouts.cancel_on_timeout:
        ev.actions.append(CancelUpgrade(entry.operation_id, entry.name, entry.upgrader))


def _check_pending(ev: Evaluation) -> None:
    limit, stage = pending_limit(ev), ev.record.current
    if limit is None or stage is None:
        return
    for group in stage.groups:
        for index, entry in enumerate(group.members):
            since = entry.pending_since if entry.state is UpgradeState.PENDING else None
            if since is not None and since + limit <= ev.now:
                _end_waiting(ev, group, index)


def _end_waiting(ev: Evaluation, group: GroupWork, index: int) -> None:
    entry, timeouts = group.members[index], ev.spec.timeouts
    message = f"has waited for {format_count(timeouts.pending_seconds, 'second')}, {entry.reason}: {entry.message}"
    if timeouts.on_pending_timeout is OnPendingTimeout.SKIP:
        skip_member(ev, group, index, _TIMED_OUT, message)
    else:
        fail_member(ev, group, index, _TIMED_OUT, message)


def _check_gates(ev: Evaluation) -> None:
    seconds = ev.spec.timeouts.gate_seconds
    if not seconds:
        return
    for position in positions(ev):
        for gate in position.gates.reports:
            if gate.state is not UpgradeState.PENDING or gate.start_time is None:
                continue
            if gate.start_time + timedelta(seconds=seconds) <= ev.now:
                wait_text = format_count(seconds, "second")
                halt(ev, f"GateTimeout: the run waited {wait_text} for gate {gate.gate} {position.where}")
                return
