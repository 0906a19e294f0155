"""Rules on ClusterStagedUpdateRun and StagedUpdateRun.

Source: docs/specifications/placement-api.md 7.5 and 10.2.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from scorer.api.conditions import current_condition
from scorer.api.meta import JsonObject
from scorer.api.placement.staged_update import ClusterStagedUpdateRun, RunState, UpdateRunSpec
from scorer.api.values.field_path import FieldPath
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import SPEC, Cause, FieldError, FieldWarning, invalid
from webhook.validation.framework.metadata import (
    USER_RULES,
    validate_metadata,
    validate_name_length,
    warn_about_reserved_keys,
)
from webhook.validation.framework.reading import Finding, read_object
from webhook.validation.framework.rule import (
    CEL,
    CRD,
    CREATE,
    DELETE,
    OURS,
    UPDATE,
    deny,
    enforces,
    schema,
    shape_rules,
    warn,
)
from webhook.validation.staged_update.annotations import (
    POLICY_READABLE,
    READABLE,
    validate_analysis,
    validate_failure_policy,
)

RULES: Final = (
    *USER_RULES,
    deny("R-01", "The name must have at most 63 characters.", CEL),
    schema("R-02", "placementName must be set and have at most 255 characters.", CRD, "spec.placementName"),
    schema("R-03", "stagedRolloutStrategyName must be set.", CRD, "spec.stagedRolloutStrategyName"),
    schema("R-04", "state must be Initialize, Run or Stop.", CRD, "spec.state"),
    deny("R-05", "placementName is immutable.", CEL, on=UPDATE),
    deny(
        "R-06", "resourceSnapshotIndex must be a string and is immutable.", f"{CRD}, CEL", "spec.resourceSnapshotIndex"
    ),
    deny("R-07", "stagedRolloutStrategyName is immutable.", CEL, on=UPDATE),
    deny(
        "R-08", "state may change only from Initialize to Run, from Run to Stop and from Stop to Run.", CEL, on=UPDATE
    ),
    deny("X-40", "resourceSnapshotIndex must be empty or a decimal number without leading zeros.", OURS),
    warn("X-42", "A new run should have state Run. Until then it changes no cluster.", f"{OURS}; seed 004", on=CREATE),
    deny("X-44", "resourceSnapshotIndex must not be added or removed.", OURS, on=UPDATE),
    deny("X-45", "placementName and stagedRolloutStrategyName must not be empty.", OURS),
    READABLE,
    POLICY_READABLE,
)
DELETION_RULES: Final = (
    warn("D-04", "Warns that deleting an unfinished run leaves the rollout incomplete: see X-46.", on=DELETE),
    warn("X-46", "A run should be finished before it is deleted. Otherwise the rollout remains incomplete.", on=DELETE),
)
SHAPE_RULES: Final = shape_rules(RULES)
"""The rules that the model enforces, by path."""

_INDEX = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_FORBIDDEN_CHANGES: Final[Mapping[RunState, frozenset[RunState]]] = {
    RunState.INITIALIZE: frozenset({RunState.STOP}),
    RunState.RUN: frozenset({RunState.INITIALIZE}),
    RunState.STOP: frozenset({RunState.INITIALIZE}),
}


@enforces(*RULES)
def validate(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors and warnings of a run."""
    reading = read_object(ClusterStagedUpdateRun, document, SHAPE_RULES)
    yield from reading.errors
    if reading.view is not None:
        before = read_object(ClusterStagedUpdateRun, old).view if old is not None else None
        yield from reading.trusted(_judge(reading.view, before, context))


def _judge(new: ClusterStagedUpdateRun, old: ClusterStagedUpdateRun | None, context: Context) -> Iterator[Finding]:
    yield from validate_metadata(new.metadata, old.metadata if old else None)
    yield from validate_name_length(new.metadata.name, "R-01")
    yield from warn_about_reserved_keys(new.metadata, old.metadata if old else None, context)
    yield from validate_analysis(new.metadata, old.metadata if old else None, context)
    yield from validate_failure_policy(new.metadata, old.metadata if old else None, context)
    yield from validate_references(new.spec)
    yield from validate_snapshot_index(new.spec.resource_snapshot_index)
    absent = context.settings.staged_run_default_state
    if old is None:
        yield from warn_about_first_state(_state(new.spec, absent))
    else:
        yield from validate_fixed_fields(new.spec, old.spec)
        yield from validate_state_change(_state(new.spec, absent), _state(old.spec, absent))


def _state(spec: UpdateRunSpec, absent: RunState) -> RunState:
    return spec.state if "state" in spec.model_fields_set else absent


def validate_references(spec: UpdateRunSpec) -> Iterator[FieldError]:
    """The names of the placement and the strategy are not empty (X-45). The schema only requires the fields."""
    if not spec.placement_name:
        yield FieldError(SPEC / "placementName", Cause.REQUIRED, "must name a placement", "X-45")
    if not spec.staged_rollout_strategy_name:
        yield FieldError(SPEC / "stagedRolloutStrategyName", Cause.REQUIRED, "must name a strategy", "X-45")


def validate_snapshot_index(index: str) -> Iterator[FieldError]:
    """The index is empty, or a decimal number as in the snapshot's label: no sign, no leading zeros (X-40)."""
    if index and not _INDEX.fullmatch(index):
        at = SPEC / "resourceSnapshotIndex"
        yield invalid(at, index, "must be empty or a decimal number without leading zeros", "X-40")


def warn_about_first_state(state: RunState) -> Iterator[FieldWarning]:
    """A new run changes no cluster until its state is Run (X-42). Seed 004 has runs that start automatically."""
    if state is RunState.INITIALIZE:
        yield FieldWarning(SPEC / "state", "the run will not start until state is Run", "X-42")
    elif state is RunState.STOP:
        yield FieldWarning(SPEC / "state", "a run created with Stop changes no cluster until state is Run", "X-42")


def validate_fixed_fields(new: UpdateRunSpec, old: UpdateRunSpec) -> Iterator[FieldError]:
    """Only the state of a run may change (R-05 to R-07, X-44). An absent index equals an empty one."""
    changes = (
        ("placementName", new.placement_name, old.placement_name, "R-05"),
        ("resourceSnapshotIndex", new.resource_snapshot_index, old.resource_snapshot_index, _index_rule(new, old)),
        ("stagedRolloutStrategyName", new.staged_rollout_strategy_name, old.staged_rollout_strategy_name, "R-07"),
    )
    for name, value, before, rule in changes:
        if value != before:
            yield invalid(SPEC / name, value, "cannot be changed", rule)


def _index_rule(new: UpdateRunSpec, old: UpdateRunSpec) -> str:
    """Return the rule that a changed index violates. The reference has only R-06, for a change between two indexes."""
    return "R-06" if new.resource_snapshot_index and old.resource_snapshot_index else "X-44"


def validate_state_change(new: RunState, old: RunState) -> Iterator[FieldError]:
    """A run cannot return to Initialize, and cannot stop before it has started (R-08)."""
    if new in _FORBIDDEN_CHANGES[old]:
        yield invalid(SPEC / "state", new, f"cannot follow {old}", "R-08")


@enforces(*DELETION_RULES)
def warn_about_deletion(old: JsonObject) -> Iterator[FieldWarning]:
    """Deleting a run that has neither succeeded nor failed leaves the rollout incomplete (D-04, X-46).

    A run that failed to initialize has changed no cluster.
    """
    try:
        run = ClusterStagedUpdateRun.read(old)
    except ValueError:
        return
    done = current_condition(run.status.conditions, "Succeeded", run.metadata.generation)
    has_started = not any(each.type == "Initialized" and each.status == "False" for each in run.status.conditions)
    if has_started and (done is None or done.status == "Unknown"):
        yield FieldWarning(FieldPath.of("status"), "the run is not finished: the rollout remains incomplete", "X-46")
