"""Rules on ClusterStagedUpdateStrategy and StagedUpdateStrategy.

The reference checks most of this when it initializes a run, and an error is then final. These rules report the
error when the strategy is written.

Source: docs/specifications/placement-api.md 7.4 and 10.2; docs/specifications/staged-updates.md 3.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.placement.staged_update import (
    ClusterStagedUpdateStrategy,
    StageConfig,
    StageTask,
    StageTaskType,
    UpdateStrategySpec,
)
from scorer.api.values.duration import LONGEST_DURATION, parse_wait_time
from scorer.api.values.field_path import FieldPath
from scorer.api.values.int_or_percent import LARGEST
from scorer.api.values.name_grammar import qualified_name_error
from scorer.api.values.quoting import quote
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import Cause, FieldError, FieldWarning, duplicate, invalid
from webhook.validation.framework.metadata import USER_RULES, validate_metadata, warn_about_reserved_keys
from webhook.validation.framework.reading import Finding, read_object
from webhook.validation.framework.rule import CEL, CRD, OURS, deny, enforces, schema, shape_rules, warn
from webhook.validation.framework.selector import validate_label_selector
from webhook.validation.staged_update.annotations import (
    OF_STAGES,
    POLICY_READABLE,
    READABLE,
    validate_analysed_stages,
    validate_analysis,
    validate_failure_policy,
)

STAGES: Final = FieldPath.of("spec", "stages")
LONGEST_SENSIBLE_WAIT: Final = timedelta(hours=720)

_AFTER: Final = "spec.stages.*.afterStageTasks"
_BEFORE: Final = "spec.stages.*.beforeStageTasks"

RULES: Final = (
    *USER_RULES,
    schema("S-01", "There must be at most 31 stages.", CRD, "spec.stages"),
    schema("S-02", "A stage name must be 1 to 63 lowercase letters and digits.", CRD, "spec.stages.*.name"),
    schema(
        "S-03",
        "maxConcurrency must be an integer from 1 to 2147483647 or a percentage from 1% to 100%.",
        f"{CRD}, CEL",
        "spec.stages.*.maxConcurrency",
    ),
    schema("S-04", "A stage must have at most 2 afterStageTasks.", CRD, _AFTER),
    schema("S-05", "A stage must have at most 1 beforeStageTask.", CRD, _BEFORE),
    schema("S-06", "A task must be a TimedWait or an Approval.", CRD, f"{_AFTER}.*", f"{_BEFORE}.*"),
    deny("S-07", "An Approval must not have a waitTime.", CEL),
    deny("S-08", "A TimedWait after a stage must have a waitTime.", CEL),
    deny("S-09", "beforeStageTasks must not have a TimedWait.", CEL),
    schema(
        "S-10",
        "waitTime must be a duration of hours, minutes and seconds such as 1h30m.",
        CRD,
        f"{_AFTER}.*.waitTime",
        f"{_BEFORE}.*.waitTime",
    ),
    deny("X-30", "Stage names must be unique.", OURS),
    deny("X-31", "A stage must have at most one afterStageTask of each type.", OURS),
    deny("X-32", "The labelSelector of a stage must be well formed.", OURS, "spec.stages.*.labelSelector"),
    deny("X-33", "sortingLabelKey must be a valid label key.", OURS, "spec.stages.*.sortingLabelKey"),
    warn("X-34", "There should be stages, each with a labelSelector, and no wait of zero or of more than 720h."),
    READABLE,
    OF_STAGES,
    POLICY_READABLE,
)
SHAPE_RULES: Final = shape_rules(RULES)
"""The rules that the model enforces, by path."""

_WAIT_TIME = re.compile(r"(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?[smh])+", re.ASCII)
_STAGE_NAME = re.compile(r"[a-z0-9]+", re.ASCII)
_CONCURRENCY = re.compile(r"(?:100|[1-9][0-9]?)%", re.ASCII)


@enforces(*RULES)
def validate(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors and warnings of a strategy. An update may change any field."""
    reading = read_object(ClusterStagedUpdateStrategy, document, SHAPE_RULES)
    yield from reading.errors
    if reading.view is not None:
        before = read_object(ClusterStagedUpdateStrategy, old).view if old is not None else None
        yield from reading.trusted(_judge(reading.view, before, context))


def _judge(
    new: ClusterStagedUpdateStrategy, old: ClusterStagedUpdateStrategy | None, context: Context
) -> Iterator[Finding]:
    yield from validate_metadata(new.metadata, old.metadata if old else None)
    yield from warn_about_reserved_keys(new.metadata, old.metadata if old else None, context)
    yield from validate_analysis(new.metadata, old.metadata if old else None, context)
    yield from validate_failure_policy(new.metadata, old.metadata if old else None, context)
    yield from validate_stages(new.spec)
    yield from validate_analysed_stages(new.metadata, new.spec)


def validate_stages(spec: UpdateStrategySpec) -> Iterator[Finding]:
    """Yield the findings about the stages (S-02 to S-10, X-30 to X-34)."""
    if not spec.stages:
        yield FieldWarning(STAGES, "without stages, a run updates nothing", "X-34")
    visited: set[str] = set()
    for i, stage in enumerate(spec.stages):
        at = STAGES / i
        yield from validate_stage(stage, at)
        if stage.name in visited:
            yield duplicate(at / "name", stage.name, rule="X-30")
        visited.add(stage.name)


def validate_stage(stage: StageConfig, at: FieldPath) -> Iterator[Finding]:
    """One stage: its name, the selection and order of its clusters, its concurrency, and its tasks."""
    if not _STAGE_NAME.fullmatch(stage.name):
        yield invalid(at / "name", stage.name, "must consist of lowercase letters and digits", "S-02")
    if stage.label_selector is None:
        yield FieldWarning(at / "labelSelector", "a stage without it selects no cluster. {} selects all", "X-34")
    else:
        yield from validate_label_selector(stage.label_selector, at / "labelSelector", "X-32")
    if stage.sorting_label_key is not None and (error := qualified_name_error(stage.sorting_label_key)):
        yield invalid(at / "sortingLabelKey", stage.sorting_label_key, error, "X-33")
    yield from validate_max_concurrency(stage.max_concurrency, at / "maxConcurrency")
    yield from validate_before_tasks(stage.before_stage_tasks, at / "beforeStageTasks")
    yield from validate_after_tasks(stage.after_stage_tasks, at / "afterStageTasks")


def validate_max_concurrency(value: int | str, at: FieldPath) -> Iterator[FieldError]:
    """At least 1 cluster, or 1% to 100% of the stage, without leading zeros (S-03)."""
    fits = 1 <= value <= LARGEST if isinstance(value, int) else _CONCURRENCY.fullmatch(value)
    if not fits:
        yield invalid(at, value, f"must be an integer from 1 to {LARGEST} or a percentage of 1% to 100%", "S-03")


def validate_before_tasks(tasks: Sequence[StageTask], at: FieldPath) -> Iterator[Finding]:
    """Before a stage, there may be an approval but no timed wait (S-07, S-09)."""
    for i, task in enumerate(tasks):
        if task.type is StageTaskType.TIMED_WAIT:
            yield invalid(at / i / "type", task.type, "must be Approval in beforeStageTasks", "S-09")
        yield from validate_wait_time(task, at / i)


def validate_after_tasks(tasks: Sequence[StageTask], at: FieldPath) -> Iterator[Finding]:
    """After a stage, there may be one timed wait and one approval (S-07, S-08, X-31)."""
    visited: set[StageTaskType] = set()
    for i, task in enumerate(tasks):
        if task.type is StageTaskType.TIMED_WAIT and task.wait_time is None:
            yield FieldError(
                at / i / "waitTime",
                Cause.REQUIRED,
                "must be set when type is TimedWait",
                "S-08",
                (at / i / "waitTime", at / i / "type"),
            )
        yield from validate_wait_time(task, at / i)
        if task.type in visited:
            yield duplicate(at / i / "type", task.type, rule="X-31")
        visited.add(task.type)


def validate_wait_time(task: StageTask, at: FieldPath) -> Iterator[Finding]:
    """The wait time is a duration (S-10) and belongs to TimedWait (S-07). 0, or more than 720h, is a warning (X-34).

    There is no upper limit (placement-api.md 2.5). A duration that overflows is the same warning as more than 720h.
    """
    if task.wait_time is None:
        return
    path = at / "waitTime"
    if task.type is StageTaskType.APPROVAL:
        yield FieldError(path, Cause.FORBIDDEN, "must not be set when type is Approval", "S-07", (path, at / "type"))
    if len(task.wait_time) > LONGEST_DURATION or not _WAIT_TIME.fullmatch(task.wait_time):
        yield invalid(path, task.wait_time, "must be a duration of hours, minutes and seconds such as 1h30m", "S-10")
        return
    try:
        wait = parse_wait_time(task.wait_time)
    except ValueError:
        wait = timedelta.max
    if not wait:
        message = f"{quote(task.wait_time)}: must be more than zero, otherwise the initialization of every run fails"
        yield FieldWarning(path, message, "X-34")
    elif wait > LONGEST_SENSIBLE_WAIT:
        yield FieldWarning(path, f"{quote(task.wait_time)} is more than 720h", "X-34")
