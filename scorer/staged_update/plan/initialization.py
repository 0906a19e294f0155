"""The first pass of a run: all inputs are read and checked once, and stored in the status as its plan.

Source: docs/specifications/staged-updates.md 4; KubeFleet pkg/controllers/updaterun/initialization.go.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from scorer.api.meta import JsonObject, dump_json
from scorer.api.names import PREVIOUS_INDEX
from scorer.api.placement.staged_update import DELETE_STAGE, StageTaskType, UpdateStrategySpec
from scorer.api.unstructured.documents import (
    annotations_of,
    dict_at,
    dicts_at,
    name_of,
    namespace_of,
    spec_of,
    text_at,
    with_metadata,
)
from scorer.rollout.apply_strategy import effective_apply_strategy
from scorer.rollout.bindings import NO_OVERRIDES, Overrides
from scorer.rollout.selection.selector import InvalidSelection
from scorer.rollout.snapshots.groups import SnapshotGroup
from scorer.rollout.snapshots.resources import UNTHROTTLED, index_in_name, plan_resource_snapshots
from scorer.rollout.writes import Write
from scorer.staged_update.approval.requests import TaskPlace, request_name
from scorer.staged_update.facts import StagedUpdateFacts
from scorer.staged_update.outcome import NotYetError, RunFailedError, RunFailureCause
from scorer.staged_update.plan.stages import PlannedStage, compute_stages
from scorer.staged_update.plan.targets import Targets, external_placement, find_targets
from scorer.staged_update.policy import inherited_annotations, policy_of
from scorer.staged_update.rollback import NO_INDEX, is_index

LARGEST_STATUS: Final = 1_300_000
"""Maximum status in bytes of JSON.

etcd accepts 1.5 MiB per object, and the rest of the object is small.
"""
_BYTES_PER_CLUSTER: Final = 520
"""Bytes that the two conditions of a cluster add to its entry by the end of the run."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Result of an initialization.

    Args:
        snapshots: Resource snapshots to write first. Afterwards everything is prepared again.
        annotations: Annotations to set on the run first.
        status: Fields to add to the status, empty while there are snapshots to write.
    """

    snapshots: tuple[Write, ...]
    annotations: Mapping[str, str]
    status: JsonObject


def initialise(run: JsonObject, facts: StagedUpdateFacts) -> Prepared:
    """Compute the plan of a run.

    Raises:
        RunFailedError: The run can never start.
        NotYetError: An input will arrive soon.
    """
    spec = spec_of(run)
    placement = external_placement(facts, text_at(spec, "placementName"))
    targets = find_targets(facts, placement, fresh=True)
    strategy, annotations = _strategy(run, facts)
    stages = compute_stages(strategy, facts.members, targets.clusters)
    group, writes = _content(text_at(spec, "resourceSnapshotIndex"), facts, placement)
    if writes or group is None:
        return Prepared(writes, {}, {})
    annotations = {**annotations, PREVIOUS_INDEX: _previous_index(targets, placement, group)}
    overrides = facts.overrides(group)
    status: JsonObject = {
        "policySnapshotIndexUsed": targets.policy_index,
        "policyObservedClusterCount": targets.count,
        "resourceSnapshotIndexUsed": str(group.index),
        "appliedStrategy": effective_apply_strategy(dict_at(placement, "spec", "strategy", "applyStrategy")),
        "stagedUpdateStrategySnapshot": _copied_strategy(facts.strategy or {}),
        "stagesStatus": [_stage_status(stage, name_of(run), overrides) for stage in stages],
        "deletionStageStatus": {
            "stageName": DELETE_STAGE,
            "clusters": [{"clusterName": name} for name in sorted(targets.removed)],
        },
    }
    _check_size(status, len(targets.clusters) + len(targets.removed))
    return Prepared(
        (), {key: text for key, text in annotations.items() if annotations_of(run).get(key) != text}, status
    )


def _strategy(run: JsonObject, facts: StagedUpdateFacts) -> tuple[UpdateStrategySpec, Mapping[str, str]]:
    """Return the strategy of a run, and the annotations that the run inherits from it.

    Raises:
        RunFailedError: The strategy does not exist or is invalid, or an annotation of the failure policy is.
    """
    document, name = facts.strategy, text_at(run, "spec", "stagedRolloutStrategyName")
    if document is None:
        raise RunFailedError(RunFailureCause.STRATEGY_NOT_FOUND, f"strategy {name} does not exist")
    try:
        strategy = UpdateStrategySpec.read(spec_of(document))
    except ValidationError as error:
        raise _unreadable(document, error) from error
    annotations = inherited_annotations(run, document)
    policy_of(with_metadata(run, annotations=annotations))
    return strategy, annotations


def _copied_strategy(strategy: JsonObject) -> JsonObject:
    """Return the run's copy of a strategy, without the ineffective ``waitTime`` of approvals after a stage."""
    stages = [
        {**stage, "afterStageTasks": list(map(_without_idle_wait, tasks))}
        if (tasks := dicts_at(stage, "afterStageTasks"))
        else stage
        for stage in dicts_at(strategy, "spec", "stages")
    ]
    return {**spec_of(strategy), "stages": stages}


def _without_idle_wait(task: JsonObject) -> JsonObject:
    if task.get("type") != StageTaskType.APPROVAL:
        return task
    return {key: value for key, value in task.items() if key != "waitTime"}


def _unreadable(strategy: JsonObject, error: ValidationError) -> RunFailedError:
    """Return the error of an invalid strategy, which was stored without admission."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"]]
    causes = {
        "beforeStageTasks": RunFailureCause.BEFORE_STAGE_TASKS_INVALID,
        "afterStageTasks": RunFailureCause.AFTER_STAGE_TASKS_INVALID,
        "labelSelector": RunFailureCause.LABEL_SELECTOR_INVALID,
    }
    cause = next((cause for part, cause in causes.items() if part in place), RunFailureCause.STRATEGY_INVALID)
    stages = dicts_at(strategy, "spec", "stages")
    number = int(place[1]) if len(place) > 1 and place[1].isdecimal() else len(stages)
    stage_note = f" (stage {text_at(stages[number], 'name')[:63]})" if number < len(stages) else ""
    path = ".".join(["spec", *place])
    return RunFailedError(cause, f"strategy {name_of(strategy)} cannot be read: {path}{stage_note}: {first['msg']}")


def _content(
    index: str, facts: StagedUpdateFacts, placement: JsonObject
) -> tuple[SnapshotGroup | None, tuple[Write, ...]]:
    """Return the resource snapshot to roll out, or the writes that create it.

    Raises:
        RunFailedError: The index is invalid or does not exist, or the selection is invalid.
        NotYetError: The snapshot is incomplete, or the selection is unknown.
    """
    if index:
        return _pinned_snapshot(index, facts.groups, placement), ()
    selection = facts.selection
    if isinstance(selection, InvalidSelection):
        raise RunFailedError(
            RunFailureCause.SELECTION_INVALID, f"the selection of the placement is invalid: {selection.message}"
        )
    if selection is None:
        raise NotYetError("the loop has not selected the objects of the placement yet")
    snapshots = [document for group in facts.groups for document in group.documents]
    plan = plan_resource_snapshots(
        placement,
        snapshots,
        selection.objects,
        facts.now,
        UNTHROTTLED,
        bindings=facts.bindings,
        cluster_objects=selection.cluster_objects,
        content=facts.content,
    )
    if plan.writes:
        return None, plan.writes
    return next(group for group in facts.groups if group.name == plan.name), ()


def _pinned_snapshot(index: str, groups: Sequence[SnapshotGroup], placement: JsonObject) -> SnapshotGroup:
    """Return the resource snapshot with an index given by the user.

    Raises:
        RunFailedError: The index is invalid, or no master snapshot has it.
        NotYetError: The snapshot is still being created.
    """
    if not is_index(index):
        message = f"spec.resourceSnapshotIndex {index[:64]!r}: must be an integer of at least 0"
        raise RunFailedError(RunFailureCause.RESOURCE_INDEX_INVALID, message)
    group = next((group for group in groups if str(group.index) == index), None)  # as in the label: no leading zeros
    if group is None or group.master is None:
        indices = ", ".join(str(group.index) for group in groups if group.master is not None) or "none"
        subject = f"resource snapshot {index} of placement {name_of(placement)}"
        missing = "does not exist" if group is None else "is incomplete: its master snapshot does not exist"
        message = f"{subject} {missing}. Retained: {indices[:200]}"
        raise RunFailedError(RunFailureCause.RESOURCE_SNAPSHOT_NOT_FOUND, message)
    if not group.is_complete:
        raise NotYetError(f"resource snapshot {index} is still being created")
    return group


def _previous_index(targets: Targets, placement: JsonObject, group: SnapshotGroup) -> str:
    """Return the index, other than that of *group*, that most clusters have, the highest if tied, or `NO_INDEX`."""
    names = Counter(text_at(spec_of(binding), "resourceSnapshotName") for binding in targets.selected.values())
    prefix = f"{name_of(placement)}-"
    indexes = {index_in_name(name.removesuffix("-snapshot"), prefix): count for name, count in names.items()}
    other_indices = [(count, index) for index, count in indexes.items() if index >= 0 and index != group.index]
    return str(max(other_indices)[1]) if other_indices else NO_INDEX


def _stage_status(planned_stage: PlannedStage, run: str, overrides: Mapping[str, Overrides]) -> JsonObject:
    stage = planned_stage.stage
    status: JsonObject = {
        "stageName": stage.name,
        "clusters": [_cluster_status(name, overrides.get(name, NO_OVERRIDES)) for name in planned_stage.clusters],
    }
    for key, tasks, place in (
        ("beforeStageTaskStatus", stage.before_stage_tasks, TaskPlace.BEFORE),
        ("afterStageTaskStatus", stage.after_stage_tasks, TaskPlace.AFTER),
    ):
        if tasks:
            status[key] = [_task_status(task.type, run, stage.name, place) for task in tasks]
    return status


def _task_status(kind: StageTaskType, run: str, stage: str, place: TaskPlace) -> JsonObject:
    if kind is StageTaskType.APPROVAL:
        return {"type": str(kind), "approvalRequestName": request_name(run, stage, place)}
    return {"type": str(kind)}


def _cluster_status(name: str, overrides: Overrides) -> JsonObject:
    fields = {key: value for key, value in overrides.fields().items() if value is not None}
    return {"clusterName": name, **fields}


def _check_size(status: JsonObject, clusters: int) -> None:
    size = len(dump_json(status)) + clusters * _BYTES_PER_CLUSTER
    if size > LARGEST_STATUS:
        message = (
            f"the status for {clusters} clusters would have {size} bytes, more than the limit of {LARGEST_STATUS}: "
            "split the placement"
        )
        raise RunFailedError(RunFailureCause.TOO_MANY_CLUSTERS, message)


def full_name(run: JsonObject) -> str:
    """Return the name of a run with its namespace, as ``team-a/release-7``."""
    namespace = namespace_of(run)
    return f"{namespace}/{name_of(run)}" if namespace else name_of(run)
