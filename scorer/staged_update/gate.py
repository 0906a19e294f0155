"""Verdict of a staged update run for the member gate: whether the run would change a cluster now.

The verdict is derived from the run's record, without another evaluation.

Source: docs/specifications/staged-updates.md 6 to 9.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

from scorer.api.conditions import FALSE, TRUE, Conditions, find_condition
from scorer.api.placement.staged_update import (
    ClusterStagedUpdateRun,
    ClusterUpdatingStatus,
    RunState,
    StageConfig,
    StageTaskType,
    StageUpdatingStatus,
)
from scorer.api.values.duration import parse_wait_time
from scorer.api.values.int_or_percent import scaled_down
from scorer.member_gate.answer import MemberAnswer, MemberDetail, MemberReason

_LONGEST_WAIT: Final = timedelta(hours=2562047)
"""Maximum duration in 64 bits of nanoseconds, as in Go."""


def has_ended(run: ClusterStagedUpdateRun) -> bool:
    """Return whether a run has ended: it succeeded, was aborted, or could not be initialized."""
    conditions = run.status.conditions
    return _status(conditions, "Succeeded") != "" or _status(conditions, "Initialized") == FALSE


def covers(run: ClusterStagedUpdateRun, cluster: str) -> bool:
    """Return whether a run includes a cluster, according to its record."""
    return any(entry.cluster_name == cluster for stage in _stages(run) for entry in stage.clusters)


def may_update(
    run: ClusterStagedUpdateRun, cluster: str, now: datetime, promised_clusters: Collection[str] = ()
) -> MemberAnswer:
    """Return whether an unfinished run would change a cluster now.

    Args:
        run: The run, with its record.
        cluster: The member.
        now: Current time, the base of the remaining wait.
        promised_clusters: Other clusters that count as changing: they are reserved, but the run has not recorded
            their start yet.
    """
    name = run.metadata.name
    detail: MemberDetail = {"run": name}
    if _status(run.status.conditions, "Initialized") != TRUE or run.spec.state is RunState.INITIALIZE:
        message = f"run {name} is initialized and waits for state Run"
        if _status(run.status.conditions, "Initialized") != TRUE:
            message = f"run {name} has not been initialized yet"
        return MemberAnswer(MemberReason.WAITING_FOR_RUN, message, detail)
    stages = _stages(run)
    place = next((at for at, stage in enumerate(stages) if _entry(stage, cluster) is not None), None)
    if place is None:
        return MemberAnswer(MemberReason.WAITING_FOR_RUN, f"run {name} does not change cluster {cluster}", detail)
    stage = stages[place]
    detail["stage"] = stage.stage_name
    entry = _entry(stage, cluster)
    assert entry is not None
    if _status(entry.conditions, "Succeeded") == TRUE:
        return MemberAnswer(MemberReason.NOTHING_TO_DO, f"run {name} has updated cluster {cluster}", detail)
    if run.spec.state is RunState.STOP and _status(entry.conditions, "Started") != TRUE:
        return MemberAnswer(MemberReason.RUN_STOPPED, f"run {name} is stopped", detail)
    if _status(entry.conditions, "Started") == TRUE:
        message = f"run {name} is updating cluster {cluster} in stage {stage.stage_name}"
        return MemberAnswer(MemberReason.ALLOWED, message, detail)
    for earlier in stages[:place]:
        if _status(earlier.conditions, "Succeeded") != TRUE:
            return _behind(run, earlier, detail, now)
    return _in_stage(run, stage, detail, promised_clusters)


def _behind(
    run: ClusterStagedUpdateRun, earlier: StageUpdatingStatus, detail: MemberDetail, now: datetime
) -> MemberAnswer:
    """Return why an earlier stage is unfinished: its clusters, or a task after them."""
    name, earlier_name = run.metadata.name, earlier.stage_name
    detail = {**detail, "waitsForStage": earlier_name}
    if any(_status(entry.conditions, "Succeeded") != TRUE for entry in earlier.clusters):
        return MemberAnswer(MemberReason.WAITING_FOR_STAGE, f"stage {earlier_name} of run {name} comes first", detail)
    for task in earlier.after_stage_task_status:
        if task.type is StageTaskType.APPROVAL and _status(task.conditions, "ApprovalRequestApproved") != TRUE:
            return _approval(task.approval_request_name, f"after stage {earlier_name} of run {name}", detail)
        if task.type is StageTaskType.TIMED_WAIT and _status(task.conditions, "WaitTimeElapsed") != TRUE:
            wait = _remaining_wait(run, earlier, now)
            message = f"run {name} waits after its stage {earlier_name}"
            return MemberAnswer(MemberReason.WAIT_TIME, message, detail, wait or timedelta(seconds=1))
    return MemberAnswer(
        MemberReason.WAITING_FOR_STAGE, f"stage {earlier_name} of run {name} is about to complete", detail
    )


def _in_stage(
    run: ClusterStagedUpdateRun, stage: StageUpdatingStatus, detail: MemberDetail, promised_clusters: Collection[str]
) -> MemberAnswer:
    name, stage_place = run.metadata.name, stage.stage_name
    for task in stage.before_stage_task_status:
        if task.type is StageTaskType.APPROVAL and _status(task.conditions, "ApprovalRequestApproved") != TRUE:
            return _approval(task.approval_request_name, f"before stage {stage_place} of run {name}", detail)
    busy = [
        entry.cluster_name
        for entry in stage.clusters
        if (_status(entry.conditions, "Started") == TRUE or entry.cluster_name in promised_clusters)
        and not _status(entry.conditions, "Succeeded")
    ]
    plan = _planned_stage(run, stage_place)
    most = len(stage.clusters) if plan is None else _stage_concurrency(plan, len(stage.clusters))
    if len(busy) >= most:
        message = (
            f"stage {stage_place} of run {name} changes at most {most} concurrently, and is busy with "
            f"{', '.join(busy[:3])}"
        )
        return MemberAnswer(MemberReason.BUDGET_USED_UP, message, detail)
    return MemberAnswer(MemberReason.ALLOWED, f"stage {stage_place} of run {name} is next", detail)


def _approval(request: str, position: str, detail: MemberDetail) -> MemberAnswer:
    message = f"{position}, approval {f'of {request} ' if request else ''}is required"
    if request:
        detail = {**detail, "approvalRequest": request}
    return MemberAnswer(MemberReason.WAITING_FOR_APPROVAL, message, detail)


def _remaining_wait(run: ClusterStagedUpdateRun, stage: StageUpdatingStatus, now: datetime) -> timedelta:
    """Return the remaining wait after a stage. The wait starts when all clusters of the stage are updated.

    Zero if the record has no wait or no start. A wait that is unreadable or out of range never ends: `_LONGEST_WAIT`.
    """
    plan, condition = _planned_stage(run, stage.stage_name), find_condition(stage.conditions, "Progressing")
    tasks = plan.after_stage_tasks if plan is not None else ()
    texts = [task.wait_time for task in tasks if task.type is StageTaskType.TIMED_WAIT and task.wait_time]
    if not texts or condition is None or condition.last_transition_time is None:
        return timedelta()
    try:
        return max(timedelta(), condition.last_transition_time + parse_wait_time(texts[0]) - now)
    except (ValueError, OverflowError):
        return _LONGEST_WAIT


def _planned_stage(run: ClusterStagedUpdateRun, name: str) -> StageConfig | None:
    strategy = run.status.staged_update_strategy_snapshot
    return next((stage for stage in strategy.stages if stage.name == name), None) if strategy is not None else None


def _stage_concurrency(stage: StageConfig, total: int) -> int:
    try:
        return scaled_down(stage.max_concurrency, total)
    except ValueError:
        return 1


def _stages(run: ClusterStagedUpdateRun) -> Sequence[StageUpdatingStatus]:
    last = run.status.deletion_stage_status
    return (*run.status.stages_status, *([last] if last is not None else ()))


def _entry(stage: StageUpdatingStatus, cluster: str) -> ClusterUpdatingStatus | None:
    return next((entry for entry in stage.clusters if entry.cluster_name == cluster), None)


def _status(conditions: Conditions, kind: str) -> str:
    condition = find_condition(conditions, kind)
    return condition.status if condition is not None else ""
