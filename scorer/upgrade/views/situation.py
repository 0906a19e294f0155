"""Situation of an upgrade run, for people and scripts: its progress, and what it waits for.

Source: docs/specifications/upgrade-runs.md 8 and 9.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from scorer.api.conditions import FALSE, TRUE, find_condition
from scorer.api.meta import JsonObject, format_instant
from scorer.api.unstructured.documents import conditions_of, name_of
from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import (
    ClusterUpgradeRun,
    GateReport,
    MemberStatus,
    StageStatus,
    UpgradeRunState,
    UpgradeRunStatus,
)
from scorer.api.upgrade.strategy import GateType
from scorer.upgrade.evaluation.conditions import INITIALIZED, PROGRESSING, SUCCEEDED
from scorer.upgrade.evaluation.gates import APPROVED
from scorer.upgrade.simulation.hub import gates_of
from scorer.upgrade.state.record import OVER, STOPPED

_BY_PERSONS: Final = frozenset({"MemberOnHold", "KubernetesVersionNotAvailable", "NodeImageVersionNotAvailable"})
"""Reasons of waiting members that require action."""
_WINDOW_CLOSED: Final = "MaintenanceWindowClosed"
_WAS_REJECTED: Final = " was rejected: "
"""Separator between the name of a gate and the reason of its rejection in a message."""
_MOST_OPENINGS: Final = 3
"""Maximum number of upcoming window openings that a message lists."""
_MOST_NAMED: Final = 3
"""Maximum number of members that a message names per reason."""


class UpgradeWaitKind(StrEnum):
    """Kind of wait."""

    INITIALIZATION = "Initialization"
    START = "Start"
    GATE = "Gate"
    TIMED_WAIT = "TimedWait"
    MEMBERS = "Members"


@dataclass(frozen=True, slots=True)
class UpgradeWait:
    """One reason why a run waits.

    Args:
        kind: Kind.
        message: Human-readable message.
        stage: Stage that waits, empty for the run as a whole.
        gate: Name of the object of a gate.
        members: Waiting members.
        since: Start of the wait. None: unknown.
        until: End of the wait without any action. None: unknown.
        needs_person: Whether it ends only by user action.
        answered: Whether the gate is approved, but the run has not processed the approval yet.
    """

    kind: UpgradeWaitKind
    message: str
    stage: str = ""
    gate: str = ""
    members: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    needs_person: bool = False
    answered: bool = False


@dataclass(frozen=True, slots=True)
class UpgradeSituation:
    """Situation of a run.

    Args:
        phase: State.
        stage: The current stage, empty if none.
        message: Message for users, may be empty.
        waits: Reasons why it waits.
    """

    phase: UpgradeState
    stage: str
    message: str
    waits: tuple[UpgradeWait, ...]

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.phase in OVER

    @property
    def is_halted(self) -> bool:
        """Whether it continues only after a restart."""
        return self.phase in STOPPED

    @property
    def needs_person(self) -> bool:
        """Whether it continues only after user action."""
        return any(wait.needs_person for wait in self.waits)


def approved_gates(gates: Iterable[JsonObject]) -> frozenset[str]:
    """Return the names of all approved gates, including those whose runs have not processed the approval yet."""
    return frozenset(
        name_of(gate)
        for gate in gates
        if any(
            condition.get("type") == APPROVED and condition.get("status") == TRUE for condition in conditions_of(gate)
        )
    )


def situation_of(run: ClusterUpgradeRun, approved: Collection[str] = ()) -> UpgradeSituation:
    """Return the situation of a run.

    Args:
        run: The run.
        approved: Names of the `approved_gates`. If empty, an approval counts only after the run has processed it.
    """
    status = run.status
    current = next((stage for stage in status.stages if stage.state not in OVER), None)
    has_started = status.start_time is not None
    return UpgradeSituation(
        phase=status.state,
        stage=current.name if current is not None and has_started else "",
        message=_message(run, current),
        waits=tuple(_waits(run, current, approved)),
    )


def waits_for_approval(status: UpgradeRunStatus) -> bool:
    """Return whether a run waits at a gate for an approval. A halted run waits for a restart instead."""
    if status.state in OVER or status.state in STOPPED:
        return False
    return any(gate.state is UpgradeState.PENDING and _needs_approval(gate) for _, gate in gates_of(status))


def is_moving(run: ClusterUpgradeRun, situation: UpgradeSituation, soon: datetime) -> bool:
    """Return whether a run is expected to make progress without user action before *soon*."""
    if situation.is_over or situation.is_halted or situation.needs_person:
        return False
    if run.status.state in (UpgradeState.NOT_STARTED, UpgradeState.STOPPING):
        return True
    if any(wait.answered or (wait.until is not None and wait.until < soon) for wait in situation.waits):
        return True
    ends = {member.name: member.end for member in (run.status.plan.members if run.status.plan is not None else ())}
    return any(
        entry.state is UpgradeState.RUNNING and (end := ends.get(entry.name)) is not None and end < soon
        for stage in run.status.stages
        for group in stage.groups
        for entry in group.members
    )


def _message(run: ClusterUpgradeRun, current: StageStatus | None) -> str:
    conditions = run.status.conditions
    initialization = find_condition(conditions, INITIALIZED)
    if run.status.start_time is None and initialization is not None and initialization.status == FALSE:
        return f"{initialization.reason}: {initialization.message}"
    success = find_condition(conditions, SUCCEEDED)
    if run.status.state is UpgradeState.FAILED and success is not None:
        return success.message
    if current is not None and current.message:
        return current.message
    progress = find_condition(conditions, PROGRESSING)
    return progress.message if progress is not None and run.status.state not in OVER else ""


def _waits(run: ClusterUpgradeRun, current: StageStatus | None, approved: Collection[str]) -> Iterator[UpgradeWait]:
    status = run.status
    if status.state in OVER:
        return
    if status.start_time is None:
        yield from _waits_before_start(run)
        return
    if status.state in STOPPED:
        yield UpgradeWait(UpgradeWaitKind.START, f"a start: the run is {status.state.value}", needs_person=True)
    yield from _gates(run, approved)
    if current is None or status.state in STOPPED or status.state is UpgradeState.STOPPING:
        return
    wait = current.after_stage_wait
    if wait is not None and wait.state is UpgradeState.RUNNING and wait.start_time is not None:
        until = wait.start_time + timedelta(seconds=wait.seconds)
        message = f"the end of the wait after stage {current.name}"
        yield UpgradeWait(UpgradeWaitKind.TIMED_WAIT, message, current.name, since=wait.start_time, until=until)
    yield from _members(current)


def _waits_before_start(run: ClusterUpgradeRun) -> Iterator[UpgradeWait]:
    condition = find_condition(run.status.conditions, INITIALIZED)
    if condition is not None and condition.status == FALSE:
        message = f"its initialization: {condition.reason}: {condition.message}"
        yield UpgradeWait(
            UpgradeWaitKind.INITIALIZATION, message, since=condition.last_transition_time, needs_person=True
        )
    elif run.spec.state is not UpgradeRunState.RUN:
        yield UpgradeWait(UpgradeWaitKind.START, "its start", needs_person=True)


def _gates(run: ClusterUpgradeRun, approved: Collection[str]) -> Iterator[UpgradeWait]:
    later = ", once the run is started again" if run.status.state in STOPPED else ""
    for place, gate in gates_of(run.status):
        if gate.state is not UpgradeState.PENDING:
            continue
        position = f"group {place.group}" if place.group else f"stage {place.stage}"
        is_answered = gate.gate in approved
        message = f"gate {gate.gate}{_gate_name(gate)} {place.timing.value.lower()} {position}"
        if is_answered:
            message += ": approved, the run is about to continue"
        elif gate.message:
            _, rejection, reason = gate.message.partition(_WAS_REJECTED)
            message += f" (rejected before: {reason})" if rejection else f" ({gate.message})"
        yield UpgradeWait(
            UpgradeWaitKind.GATE,
            message + later,
            place.stage,
            gate.gate,
            since=gate.start_time,
            until=gate.absolute_start_time,
            needs_person=_needs_approval(gate) and not is_answered,
            answered=is_answered,
        )


def _needs_approval(gate: GateReport) -> bool:
    return gate.type is GateType.APPROVAL


def _gate_name(gate: GateReport) -> str:
    return f' "{gate.display_name}"' if gate.display_name else ""


def _members(stage: StageStatus) -> Iterator[UpgradeWait]:
    """Yield the causes of members' waiting, grouped by reason."""
    members_by_reason: dict[str, list[MemberStatus]] = {}
    running = False
    for group in stage.groups:
        for entry in group.members:
            running = running or entry.state is UpgradeState.RUNNING
            if entry.state is UpgradeState.PENDING:
                members_by_reason.setdefault(entry.reason, []).append(entry)
    for reason, entries in sorted(members_by_reason.items()):
        opens = [entry.next_window_open for entry in entries if entry.next_window_open is not None]
        since = [entry.pending_since for entry in entries if entry.pending_since is not None]
        for_good = reason in _BY_PERSONS or (reason == _WINDOW_CLOSED and not opens)
        yield UpgradeWait(
            UpgradeWaitKind.MEMBERS,
            _openings(entries) if reason == _WINDOW_CLOSED else _same_reason(reason, entries),
            stage.name,
            members=tuple(entry.name for entry in entries),
            since=min(since, default=None),
            until=min(opens, default=None),
            needs_person=for_good and not running,
        )


def _openings(entries: Iterable[MemberStatus]) -> str:
    """Return which members wait for their windows and until when, earliest opening first."""
    names_by_opening: dict[datetime | None, list[str]] = {}
    for entry in entries:
        names_by_opening.setdefault(entry.next_window_open, []).append(entry.name)
    dated = sorted((at, names) for at, names in names_by_opening.items() if at is not None)
    sentences = [f"{_few(names)} until {at:%a %d %b %H:%M} UTC" for at, names in dated[:_MOST_OPENINGS]]
    if later := sum(len(names) for _, names in dated[_MOST_OPENINGS:]):
        sentences.append(f"{later} more later")
    if without_opening := names_by_opening.get(None):
        sentences.append(f"{_few(without_opening)} with no planned opening")
    return f"maintenance windows: {', '.join(sentences)}"


def _same_reason(reason: str, entries: Sequence[MemberStatus]) -> str:
    names, first = _few([entry.name for entry in entries]), entries[0]
    if any(entry.message != first.message for entry in entries):
        return f"{names}: {reason}; of {first.name}: {first.message}"
    return f"{names}: {reason}: {first.message}" if first.message else f"{names}: {reason}"


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def overview(run: ClusterUpgradeRun, situation: UpgradeSituation) -> Mapping[str, object]:
    """Return a run as JSON for scripts, with its waits, stages, groups and members."""
    status = run.status
    document = status.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"plan", "strategy_snapshot"})
    upgrade = run.spec.upgrade
    return {
        "run": {
            "name": run.metadata.name,
            "phase": situation.phase.value,
            "stage": situation.stage,
            "message": situation.message,
            "type": upgrade.type.value,
            "kubernetesVersion": status.resolved.kubernetes_version or upgrade.kubernetes_version or "",
            "counts": document["counts"],
            "startTime": document.get("startTime"),
            "completionTime": document.get("completionTime"),
        },
        "waits": [_wait_document(wait) for wait in situation.waits],
        "stages": document.get("stages", []),
    }


def _wait_document(wait: UpgradeWait) -> dict[str, object]:
    return {
        "kind": wait.kind.value,
        "stage": wait.stage,
        "gate": wait.gate,
        "members": list(wait.members),
        "since": format_instant(wait.since),
        "until": format_instant(wait.until),
        "needsPerson": wait.needs_person,
        "message": wait.message,
    }
