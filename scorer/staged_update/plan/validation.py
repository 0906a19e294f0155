"""Validation before every later pass: the hub still matches the plan, and the record is one that a run can write.

Source: docs/specifications/staged-updates.md 5; KubeFleet pkg/controllers/updaterun/validation.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scorer.api.conditions import FALSE, TRUE
from scorer.api.meta import JsonObject
from scorer.api.names import POLICY_INDEX
from scorer.api.unstructured.documents import dict_at, label, spec_of, text_at
from scorer.api.values.quoting import format_count
from scorer.rollout.apply_strategy import effective_apply_strategy
from scorer.rollout.snapshots.policies import latest_policy_snapshots
from scorer.staged_update.facts import StagedUpdateFacts
from scorer.staged_update.outcome import RunFailedError, RunFailureCause
from scorer.staged_update.plan.stages import PlannedStage, compute_stages
from scorer.staged_update.plan.targets import Targets, external_placement, find_targets
from scorer.staged_update.record import (
    PROGRESSING,
    STARTED,
    SUCCEEDED,
    StagedUpdateRecord,
    cluster_name,
    cluster_names,
    clusters_of,
    stage_name,
    status,
)


@dataclass(frozen=True, slots=True)
class Validated:
    """A validated run.

    Args:
        targets: The current bindings.
        stages: The recomputed stages.
        at: Index of the current stage. The number of stages stands for the deletion stage.
    """

    targets: Targets
    stages: Sequence[PlannedStage]
    at: int


def validate(run: JsonObject, record: StagedUpdateRecord, facts: StagedUpdateFacts) -> Validated:
    """Validate a run that has been initialized and has not ended.

    Raises:
        RunFailedError: The run cannot continue as planned.
        NotYetError: The scheduler is not done yet.
    """
    placement = external_placement(facts, text_at(run, "spec", "placementName"))
    apply_strategy = effective_apply_strategy(dict_at(record.status, "appliedStrategy"))
    if effective_apply_strategy(dict_at(placement, "spec", "strategy", "applyStrategy")) != apply_strategy:
        message = "spec.strategy.applyStrategy of the placement has changed since the run was initialized"
        raise RunFailedError(RunFailureCause.APPLY_STRATEGY_CHANGED, message)
    _check_policy(record, facts)
    updates = any(clusters_of(stage) for stage in record.stages)
    targets = find_targets(facts, placement, fresh=False, expected=updates)
    if targets.fixed_count is not None and targets.fixed_count != record.status.get("policyObservedClusterCount"):
        message = (
            f"the policy requests {format_count(targets.fixed_count, 'cluster')}, but requested "
            f"{record.status.get('policyObservedClusterCount')} when the run was initialized"
        )
        raise RunFailedError(RunFailureCause.BINDING_COUNT_MISMATCH, message)
    stages = compute_stages(record.strategy(), facts.members, targets.clusters)
    _check_stages(record, stages)
    at = _check_progress(record, stages)
    _check_deletion(record, targets, at < len(stages))
    return Validated(targets, stages, at)


def _check_policy(record: StagedUpdateRecord, facts: StagedUpdateFacts) -> None:
    """Raise `RunFailedError` if the policy has changed. No snapshot is the latest while a change is being written."""
    latest = latest_policy_snapshots(facts.policy_snapshots)
    recorded_index = text_at(record.status, "policySnapshotIndexUsed")
    if not latest and any(label(snapshot, POLICY_INDEX) == recorded_index for snapshot in facts.policy_snapshots):
        message = (
            f"the policy of the placement has changed: policy snapshot {recorded_index}, "
            "which the run uses, is outdated"
        )
        raise RunFailedError(RunFailureCause.POLICY_CHANGED, message)
    if len(latest) == 1 and (index := label(latest[0], POLICY_INDEX)) != recorded_index:
        message = (
            f"the policy of the placement has changed: policy snapshot {index} is the latest, "
            f"the run uses {recorded_index}"
        )
        raise RunFailedError(RunFailureCause.POLICY_CHANGED, message)


def _check_stages(record: StagedUpdateRecord, stages: Sequence[PlannedStage]) -> None:
    """Raise `RunFailedError` if the stages differ from those of the record."""
    if len(stages) != len(record.stages):
        message = (
            f"the strategy has {format_count(len(stages), 'stage')}, but the run was planned with {len(record.stages)}"
        )
        raise RunFailedError(RunFailureCause.STAGES_CHANGED, message)
    for stage_record, stage in zip(record.stages, stages, strict=True):
        if stage_name(stage_record) != stage.name:
            message = f"stage {stage_name(stage_record)} of the record is now named {stage.name}"
            raise RunFailedError(RunFailureCause.STAGES_CHANGED, message)
        if problem := _difference(cluster_names(stage_record), stage.clusters):
            raise RunFailedError(RunFailureCause.STAGES_CHANGED, f"stage {stage.name} {problem}")


def _difference(recorded: Sequence[str], now: Sequence[str]) -> str:
    if list(recorded) == list(now):
        return ""
    if missing := sorted(set(recorded) - set(now)):
        return f"has lost cluster {missing[0]} since the run was initialized"
    if new := sorted(set(now) - set(recorded)):
        return f"has gained cluster {new[0]} since the run was initialized"
    if duplicate := next((name for name in recorded if list(recorded).count(name) > 1), ""):
        raise _contradiction(f"it names cluster {duplicate} twice")
    first_moved = next(name for name, other in zip(recorded, now, strict=True) if name != other)
    return f"has a different order since the run was initialized: cluster {first_moved} has moved"


def is_finished(entry: JsonObject) -> bool:
    """Return whether a cluster of a stage is finished: updated, or failed and tolerated by the failure policy."""
    return status(entry, SUCCEEDED) != ""


def _check_progress(record: StagedUpdateRecord, stages: Sequence[PlannedStage]) -> int:
    """Return the index of the current stage.

    Raises:
        RunFailedError: No run could have written the record.
    """
    last_finished, current = -1, None
    for at, (stage_record, stage) in enumerate(zip(record.stages, stages, strict=True)):
        success = status(stage_record, SUCCEEDED)
        if success == FALSE:
            raise _contradiction(f"stage {stage.name} has failed, and the run has not")
        if success == TRUE:
            _check_finished(stage_record, at, last_finished, current is not None)
            last_finished = at
        elif status(stage_record, PROGRESSING) or any(
            status(entry, STARTED) == TRUE for entry in clusters_of(stage_record)
        ):
            if current is not None:
                raise _contradiction(f"stages {stages[current].name} and {stage.name} are both in progress")
            current = at
            _check_concurrency(stage_record, stage)
    if current is not None and current != last_finished + 1:
        raise _contradiction(f"stage {stages[current].name} is in progress before the earlier stages have succeeded")
    return last_finished + 1


def _check_finished(stage_record: JsonObject, at: int, last_finished: int, is_after_current: bool) -> None:
    if is_after_current or at != last_finished + 1:
        raise _contradiction(f"stage {stage_name(stage_record)} has succeeded before an earlier stage")
    for entry in clusters_of(stage_record):
        if not is_finished(entry):
            raise _contradiction(
                f"stage {stage_name(stage_record)} has succeeded without cluster {cluster_name(entry)}"
            )


def _check_concurrency(stage_record: JsonObject, stage: PlannedStage) -> None:
    busy = sum(status(entry, STARTED) == TRUE and not is_finished(entry) for entry in clusters_of(stage_record))
    if busy > stage.max_concurrency:
        raise _contradiction(
            f"{busy} clusters of stage {stage.name} are in flight, more than maxConcurrency {stage.max_concurrency}"
        )


def _check_deletion(record: StagedUpdateRecord, targets: Targets, stages_remain: bool) -> None:
    recorded_names = set(cluster_names(record.deletion))
    if new := sorted(set(targets.removed) - recorded_names):
        message = f"cluster {new[0]} was dropped after the run was initialized, and the run does not plan its removal"
        raise RunFailedError(RunFailureCause.STAGES_CHANGED, message)
    deletion = record.deletion
    if status(deletion, SUCCEEDED) == FALSE:
        raise _contradiction("the deletion stage has failed, and the run has not")
    if stages_remain and (status(deletion, PROGRESSING) or status(deletion, SUCCEEDED)):
        raise _contradiction("the deletion stage is in progress before the earlier stages have succeeded")


def _contradiction(message: str) -> RunFailedError:
    return RunFailedError(
        RunFailureCause.RECORD_CONTRADICTS_ITSELF, f"the status of the run contradicts itself: {message}"
    )


def target_snapshot(run: JsonObject, record: StagedUpdateRecord) -> str:
    """Return the name of the resource snapshot that every cluster gets."""
    return f"{text_at(spec_of(run), 'placementName')}-{text_at(record.status, 'resourceSnapshotIndexUsed')}-snapshot"
