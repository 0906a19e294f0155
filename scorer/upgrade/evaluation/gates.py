"""The gates of a run: when they open, and when they complete.

A gate gets its object when the run reaches it. The name of the object is derived from its position, so that a crash
cannot create two.

Source: docs/specifications/upgrade-runs.md 3.5 and 8.6.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final

import orjson

from scorer.api.conditions import FALSE, TRUE, Condition, find_condition
from scorer.api.upgrade.fields import LONGEST_GENERATED_NAME, UpgradeState, Weekday
from scorer.api.upgrade.gate import GateTiming
from scorer.api.upgrade.run import GateReport
from scorer.api.upgrade.strategy import GateConfiguration, GateType, ScheduledStart
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.state.record import Gates, GroupWork, StageWork

APPROVED: Final = "Approved"
REJECTED: Final = "Rejected"

_HASH_DIGITS: Final = 8
_WEEKDAYS: Final = {day: place for place, day in enumerate(Weekday)}
_WEEK: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Position:
    """A position of gates.

    Args:
        stage: The stage.
        group: The group, empty for gates of the stage.
        timing: Before or after.
        gates: Reports of the gates.
        configured: Configuration of the gates in the strategy.
    """

    stage: str
    group: str
    timing: GateTiming
    gates: Gates
    configured: tuple[GateConfiguration, ...] = ()

    @property
    def where(self) -> str:
        """The position in words."""
        subject = f"group {self.group}" if self.group else f"stage {self.stage}"
        return f"{'before' if self.timing is GateTiming.BEFORE else 'after'} {subject}"


def positions(ev: Evaluation) -> Iterator[Position]:
    """Yield every position of a run that has gates."""
    snapshot = ev.record.status.strategy_snapshot
    stages = {stage.name: stage for stage in snapshot.stages} if snapshot is not None else {}
    for stage in ev.record.stages:
        stage_config = stages.get(stage.name)
        if stage_config is None:
            continue
        if stage_config.before_gates:
            yield Position(stage.name, "", GateTiming.BEFORE, stage.before, stage_config.before_gates)
        if stage_config.after_gates:
            yield Position(stage.name, "", GateTiming.AFTER, stage.after, stage_config.after_gates)
        groups = {group.name: group for group in stage_config.groups}
        for group in stage.groups:
            if (own := groups.get(group.name)) is None:
                continue
            if own.before_gates:
                yield Position(stage.name, group.name, GateTiming.BEFORE, group.before, own.before_gates)
            if own.after_gates:
                yield Position(stage.name, group.name, GateTiming.AFTER, group.after, own.after_gates)


def open_stage_gates(ev: Evaluation, stage: StageWork, timing: GateTiming) -> None:
    """Open the gates before or after a stage."""
    gates = stage.before if timing is GateTiming.BEFORE else stage.after
    _open_gates(ev, Position(stage.name, "", timing, gates))


def open_group_gates(ev: Evaluation, stage: StageWork, group: GroupWork, timing: GateTiming) -> None:
    """Open the gates before or after a group."""
    gates = group.before if timing is GateTiming.BEFORE else group.after
    _open_gates(ev, Position(stage.name, group.name, timing, gates))


def _open_gates(ev: Evaluation, position: Position) -> None:
    for index, gate in enumerate(position.gates.reports):
        if gate.state is not UpgradeState.NOT_STARTED:
            continue
        name = gate_name(ev.run.metadata.name, ev.run.metadata.uid, position, index)
        position.gates.update(index, state=UpgradeState.PENDING, gate=name, start_time=ev.now)
        if gate.type is GateType.SCHEDULED_START and (scheduled := _scheduled_start(ev, position, index)) is not None:
            position.gates.update(index, absolute_start_time=next_start(scheduled, ev.now))
        ev.announce("GateOpened", f"waiting for {_gate_text(gate, name)} {position.where}")
        if gate.type is GateType.APPROVAL:
            ev.announce("ApprovalNeeded", f"waiting for approval of {_gate_text(gate, name)} {position.where}")
    complete_scheduled_gates(ev, position)


def _scheduled_start(ev: Evaluation, position: Position, index: int) -> ScheduledStart | None:
    """Return the scheduled day and time of a gate from the strategy. None: unset."""
    place = (position.stage, position.group, position.timing)
    scheduled_gates = (
        candidate.configured[index]
        for candidate in positions(ev)
        if (candidate.stage, candidate.group, candidate.timing) == place
    )
    return next(scheduled_gates).scheduled_start


def complete_scheduled_gates(ev: Evaluation, position: Position) -> None:
    """Complete the gates in a position whose scheduled time has passed."""
    for index, gate in enumerate(position.gates.reports):
        due_time = gate.absolute_start_time
        if gate.state is UpgradeState.PENDING and due_time is not None and due_time <= ev.now:
            _complete(ev, position, index, "its scheduled time has been reached")


def _complete(ev: Evaluation, position: Position, index: int, reason: str) -> None:
    gate = position.gates.reports[index]
    position.gates.update(index, state=UpgradeState.COMPLETED, completion_time=ev.now, message="")
    ev.announce("GateCompleted", f"{_gate_text(gate, gate.gate)} {position.where} is complete: {reason}")


def complete_approved_gates(ev: Evaluation) -> str:
    """Complete the approved gates. Return the message of a new rejection, or an empty string.

    A rejection counts once. After a restart of the run, the gate waits for another decision.
    """
    rejection = ""
    for position in positions(ev):
        for index, gate in enumerate(position.gates.reports):
            if gate.state is not UpgradeState.PENDING or (answer := _answer(ev, gate)) is None:
                continue
            if answer.status == TRUE:
                _complete(ev, position, index, f"approved: {answer.message or answer.reason}")
            elif answer.status == FALSE and answer.reason == REJECTED:
                message = f"{_gate_text(gate, gate.gate)} {position.where} was rejected: {answer.message}"
                if message != gate.message:
                    position.gates.update(index, message=message)
                    rejection = rejection or message
    return rejection


def _answer(ev: Evaluation, gate: GateReport) -> Condition | None:
    gate_object = ev.facts.gates.get(gate.gate)
    return None if gate_object is None else find_condition(gate_object.conditions, APPROVED)


def gate_name(run: str, uid: str, position: Position, index: int) -> str:
    """Return the name of a gate's object. The hash distinguishes positions whose joined names are equal."""
    timing = position.timing.value.lower()
    parts = [run, position.stage, *([position.group] if position.group else ()), timing, str(index)]
    place = [uid, position.stage, position.group, position.timing.value, index]
    digest = sha256(orjson.dumps(place)).hexdigest()[:_HASH_DIGITS]
    return f"{'-'.join(parts)[: LONGEST_GENERATED_NAME - _HASH_DIGITS - 1]}-{digest}"


def next_start(scheduled: ScheduledStart, now: datetime) -> datetime:
    """Return the next occurrence of a scheduled day and time, at or after *now*."""
    hours, minutes = int(scheduled.start_time[:2]), int(scheduled.start_time[3:])
    offset = timedelta(hours=int(scheduled.utc_offset[1:3]), minutes=int(scheduled.utc_offset[4:]))
    local = (now + (offset if scheduled.utc_offset[0] == "+" else -offset)).astimezone(UTC)
    days = (_WEEKDAYS[scheduled.start_day] - local.weekday()) % 7
    start = local.replace(hour=hours, minute=minutes, second=0, microsecond=0) + timedelta(days=days)
    if start < local:
        start += _WEEK
    return now + (start - local)


def _gate_text(gate: GateReport, name: str) -> str:
    return f'gate {name} "{gate.display_name}"' if gate.display_name else f"gate {name}"
