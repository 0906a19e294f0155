"""Verdict of an upgrade run for the member gate: whether the run would upgrade a member now.

The verdict is derived from the record, without another evaluation.

Source: docs/specifications/upgrade-runs.md 6.5, 7.2, 7.3 and 8.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import (
    ClusterUpgradeRun,
    GateReport,
    GroupStatus,
    MemberStatus,
    StageStatus,
    UpgradeRunState,
)
from scorer.member_gate.answer import PENDING_REASONS, RETRY_INTERVAL, MemberAnswer, MemberDetail, MemberReason
from scorer.upgrade.members.member import UPGRADE_HOLD
from scorer.upgrade.state.record import HALTED, OVER


def has_ended(run: ClusterUpgradeRun) -> bool:
    """Return whether a run has ended. A failed or stopped run has not, because it can be restarted."""
    return run.status.state in OVER


def covers(run: ClusterUpgradeRun, member: str) -> bool:
    """Return whether a member belongs to a run, according to its record."""
    return _place(run, member) is not None


def is_upgrading(run: ClusterUpgradeRun, member: str) -> bool:
    """Return whether a run is upgrading a member now."""
    place = _place(run, member)
    return place is not None and place[2].state is UpgradeState.RUNNING


def may_upgrade(run: ClusterUpgradeRun, member: str, now: datetime, *, upgrades_paused: bool) -> MemberAnswer:
    """Return whether a run would upgrade a member now.

    Args:
        run: The run, with its record.
        member: The member.
        now: Current time, the base of the remaining wait.
        upgrades_paused: Whether the member is annotated with `UPGRADE_HOLD`.
    """
    name = run.metadata.name
    place = _place(run, member)
    if place is None:
        return MemberAnswer(MemberReason.NOT_IN_RUN, f"member {member} is not in run {name}", {"run": name})
    stage, group, entry = place
    detail: MemberDetail = {"run": name, "stage": stage.name, "group": group.name, "state": str(entry.state)}
    if entry.state in OVER:
        word = "upgraded" if entry.state is UpgradeState.COMPLETED else "skipped"
        return MemberAnswer(MemberReason.NOTHING_TO_DO, f"run {name} has {word} member {member}", detail)
    if entry.state is UpgradeState.RUNNING:
        return MemberAnswer(MemberReason.ALLOWED, f"run {name} is upgrading member {member}", detail)
    if run.status.state in HALTED or run.spec.state is UpgradeRunState.STOP or entry.state is UpgradeState.STOPPED:
        return MemberAnswer(MemberReason.RUN_HALTED, f"run {name} is {_word(run)}", detail)
    if entry.state is UpgradeState.FAILED:
        message = f"the upgrade of member {member} in run {name} has failed: {entry.message or entry.reason}"
        return MemberAnswer(MemberReason.NOTHING_TO_DO, message, detail)
    if run.status.state is UpgradeState.NOT_STARTED:
        return MemberAnswer(MemberReason.NOT_ITS_TURN, f"run {name} has not started", detail)
    if (answer := _turn(run, stage, group, detail, now)) is not None:
        return answer
    if upgrades_paused:
        message = f"member {member} is on hold: its annotation {UPGRADE_HOLD} is true"
        return MemberAnswer(MemberReason.MEMBER_ON_HOLD, message, detail)
    if entry.state is UpgradeState.PENDING and (answer := _pending_answer(entry, detail, now)) is not None:
        return answer
    if (answer := _slots(run, stage, group, detail)) is not None:
        return answer
    return MemberAnswer(MemberReason.ALLOWED, f"member {member} is next in run {name}", detail)


def _turn(
    run: ClusterUpgradeRun, stage: StageStatus, group: GroupStatus, detail: MemberDetail, now: datetime
) -> MemberAnswer | None:
    """Return the obstacle before the turn of a member's group, or None if it is its turn."""
    for earlier in run.status.stages:
        if earlier is stage:
            break
        if earlier.state not in OVER:
            return _behind(run, earlier, detail, now)
    for gates, position in ((stage.before_gates, f"stage {stage.name}"), (group.before_gates, f"group {group.name}")):
        if (gate := _shut(gates)) is not None:
            return _gate(gate, f"before {position} of run {run.metadata.name}", detail, now)
    return None


def _behind(run: ClusterUpgradeRun, earlier: StageStatus, detail: MemberDetail, now: datetime) -> MemberAnswer:
    name = run.metadata.name
    detail = {**detail, "waitsForStage": earlier.name}
    if all(group.state in OVER for group in earlier.groups):
        if (gate := _shut(earlier.after_gates)) is not None:
            return _gate(gate, f"after stage {earlier.name} of run {name}", detail, now)
        wait = earlier.after_stage_wait
        if wait is not None and wait.state is UpgradeState.RUNNING and wait.start_time is not None:
            remaining_seconds = wait.seconds - (now - wait.start_time).total_seconds()
            delay = timedelta(seconds=max(1.0, remaining_seconds))
            return MemberAnswer(
                MemberReason.NOT_ITS_TURN, f"run {name} waits after its stage {earlier.name}", detail, delay
            )
    return MemberAnswer(MemberReason.NOT_ITS_TURN, f"stage {earlier.name} of run {name} comes first", detail)


def _slots(run: ClusterUpgradeRun, stage: StageStatus, group: GroupStatus, detail: MemberDetail) -> MemberAnswer | None:
    """Return which upgrades must end before another may start, or None if a slot is free."""
    name = run.metadata.name
    for subject, busy, most in (
        (
            f"stage {stage.name}",
            [name for group in stage.groups for name in _running_members(group)],
            stage.max_concurrency,
        ),
        (f"group {group.name}", list(_running_members(group)), group.max_concurrency),
    ):
        if most and len(busy) >= most:
            message = (
                f"{subject} of run {name} upgrades at most {most} concurrently, and is busy with {', '.join(busy[:3])}"
            )
            return MemberAnswer(MemberReason.NOT_ITS_TURN, message, detail)
    return None


def _pending_answer(entry: MemberStatus, detail: MemberDetail, now: datetime) -> MemberAnswer | None:
    if entry.reason not in PENDING_REASONS or entry.reason == MemberReason.MEMBER_ON_HOLD:
        return None
    opens = entry.next_window_open
    delay = opens - now if opens is not None and opens > now else RETRY_INTERVAL
    return MemberAnswer(MemberReason(entry.reason), entry.message or entry.reason, detail, delay)


def _gate(gate: GateReport, position: str, detail: MemberDetail, now: datetime) -> MemberAnswer:
    name = gate.display_name or gate.gate
    starts = gate.absolute_start_time
    delay = starts - now if starts is not None and starts > now else RETRY_INTERVAL
    if gate.gate:
        detail = {**detail, "gate": gate.gate}
    message = f"{position}, the gate {name} has not completed" if name else f"{position}, a gate has not completed"
    return MemberAnswer(MemberReason.GATE_PENDING, message, detail, delay)


def _shut(gates: Sequence[GateReport]) -> GateReport | None:
    return next((gate for gate in gates if gate.state not in OVER), None)


def _running_members(group: GroupStatus) -> Iterator[str]:
    return (member.name for member in group.members if member.state is UpgradeState.RUNNING)


def _place(run: ClusterUpgradeRun, member: str) -> tuple[StageStatus, GroupStatus, MemberStatus] | None:
    places = (
        (stage, group, entry)
        for stage in run.status.stages
        for group in stage.groups
        for entry in group.members
        if entry.name == member
    )
    return next(places, None)


def _word(run: ClusterUpgradeRun) -> str:
    state = run.status.state
    return str(state).lower() if state in HALTED else "being stopped"
