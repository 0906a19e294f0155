"""Rules on ClusterUpgradeStrategy, and on the sequence in a run.

Source: docs/specifications/upgrade-runs.md 3.2 and 4.1.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.upgrade.fields import LONGEST_NAME
from scorer.api.upgrade.strategy import (
    CONCURRENCY_PATTERN,
    DEFAULT_STAGE_CONCURRENCY,
    FAILURES_PATTERN,
    LARGEST_STAGE_CONCURRENCY,
    ClusterUpgradeStrategy,
    GateConfiguration,
    GateType,
    Group,
    StrategySpec,
    StrategyStage,
)
from scorer.api.values.field_path import FieldPath
from scorer.api.values.int_or_percent import LARGEST
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import SPEC, Cause, FieldError, FieldWarning, duplicate, invalid
from webhook.validation.framework.reading import Finding, read_object
from webhook.validation.framework.rule import OURS, deny, enforces, schema, shape_rules, warn
from webhook.validation.upgrade.shape import (
    NAME_GRAMMAR,
    PLACES_OF_GATES,
    SELECTORS,
    TIMES,
    WRITTEN_BY_USERS,
    is_name,
    validate_about,
    validate_selector,
    validate_time,
)


def _in_stages_and_groups(field: str) -> tuple[str, ...]:
    return tuple(f"{place}.{field}" for place in PLACES_OF_GATES)


SCHEDULED: Final = deny(
    "C-04",
    "scheduledStart must be set when the type of the gate is ScheduledStart, and must not be set otherwise.",
    OURS,
)
SEQUENCE_RULES: Final = (
    SCHEDULED,
    deny("C-05", "A gate of type ScheduledStart must be in beforeGates.", OURS),
    deny("C-06", "Stage names must be unique.", OURS),
    deny("C-07", "A stage must have groups or a memberSelector.", OURS),
    deny("C-08", f"The maxConcurrency of a stage must be at most {LARGEST_STAGE_CONCURRENCY}, or a percentage.", OURS),
    deny("C-09", "Group names must be unique, even across stages.", OURS),
    schema(
        "C-27",
        f"The name of a stage or group must have 1 to {LONGEST_NAME} lowercase letters, digits and '-'.",
        OURS,
        *_in_stages_and_groups("name"),
    ),
    schema(
        "C-28",
        "maxConcurrency must be a count of at least 1, or a percentage from 1% to 100%.",
        OURS,
        *_in_stages_and_groups("maxConcurrency"),
    ),
    deny("C-29", "The maxConcurrency of a group must not exceed that of its stage.", OURS),
    schema(
        "C-30",
        "maxAllowedFailures must be a count, or a percentage of at most 100%.",
        OURS,
        *_in_stages_and_groups("maxAllowedFailures"),
    ),
    TIMES,
    SELECTORS,
    warn("C-33", "The last stage should not have a wait after it: no stage follows."),
    warn("C-34", "A stage should set maxAllowedFailures when one of its groups allows several failures."),
)
RULES: Final = (*WRITTEN_BY_USERS, *SEQUENCE_RULES)
SHAPE_RULES: Final = shape_rules(RULES)

_CONCURRENCY: Final = re.compile(CONCURRENCY_PATTERN, re.ASCII)
_FAILURES: Final = re.compile(FAILURES_PATTERN, re.ASCII)
_COUNT: Final = re.compile("[0-9]+", re.ASCII)
_LONGEST_COUNT: Final = len(str(LARGEST))


@enforces(*RULES)
def validate(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors and warnings of a strategy."""
    reading = read_object(ClusterUpgradeStrategy, document, SHAPE_RULES)
    yield from reading.errors
    if reading.view is not None:
        before = read_object(ClusterUpgradeStrategy, old).view if old is not None else None
        yield from reading.trusted(_judge(reading.view, before, context))


def _judge(new: ClusterUpgradeStrategy, old: ClusterUpgradeStrategy | None, context: Context) -> Iterator[Finding]:
    yield from validate_about(new.metadata, old.metadata if old else None, context)
    yield from validate_sequence(new.spec, SPEC)


def validate_sequence(sequence: StrategySpec, at: FieldPath) -> Iterator[Finding]:
    """Yield the findings about the stages under *at*."""
    stages = at / "stages"
    yield from _validate_names(sequence.stages, stages)
    for i, stage in enumerate(sequence.stages):
        yield from _validate_stage(stage, stages / i)
    last = len(sequence.stages) - 1
    if last >= 0 and sequence.stages[last].after_stage_wait_seconds:
        field = stages / last / "afterStageWaitSeconds"
        yield FieldWarning(field, "only delays the end of the run: no stage follows", "C-33")


def _validate_names(stages: Sequence[StrategyStage], at: FieldPath) -> Iterator[FieldError]:
    """Names of stages are unique (C-06), and names of groups across all stages (C-09): users skip both by name.

    A stage without groups counts as one group with the name of the stage.
    """
    seen_stages: set[str] = set()
    seen_groups: set[str] = set()
    for i, stage in enumerate(stages):
        if stage.name in seen_stages:
            yield duplicate(at / i / "name", stage.name, rule="C-06")
        elif not stage.groups and stage.name in seen_groups:
            yield duplicate(at / i / "name", stage.name, "an earlier group has this name", "C-09")
        seen_stages.add(stage.name)
        if not stage.groups:
            seen_groups.add(stage.name)
        for j, group in enumerate(stage.groups):
            if group.name in seen_groups:
                yield duplicate(at / i / "groups" / j / "name", group.name, rule="C-09")
            seen_groups.add(group.name)


def _validate_stage(stage: StrategyStage, at: FieldPath) -> Iterator[Finding]:
    yield from _validate_name(stage.name, at)
    if not stage.groups and stage.member_selector is None:
        yield FieldError(at, Cause.REQUIRED, "groups or memberSelector must be set", "C-07")
    yield from validate_selector(stage.member_selector, at)
    yield from _validate_limits(stage, at)
    yield from _validate_gates(stage, at)
    for j, group in enumerate(stage.groups):
        path = at / "groups" / j
        yield from _validate_name(group.name, path)
        yield from validate_selector(group.member_selector, path)
        yield from _validate_group_limits(group, stage, path)
        yield from _validate_gates(group, path)


def _validate_name(name: str, at: FieldPath) -> Iterator[FieldError]:
    """The name of a stage or group is valid in generated names (C-27). The schema limits its length."""
    if name and len(name) <= LONGEST_NAME and not is_name(name):
        yield invalid(at / "name", name, NAME_GRAMMAR.format(longest=LONGEST_NAME), "C-27")


def _validate_limits(stage: StrategyStage, at: FieldPath) -> Iterator[Finding]:
    """The limits of a stage are well formed, and a count is at most `LARGEST_STAGE_CONCURRENCY` (C-08)."""
    count = None if stage.max_concurrency is None else count_of(stage.max_concurrency)
    if stage.max_concurrency is not None:
        yield from _validate_concurrency(stage.max_concurrency, at)
    if count is not None and count > LARGEST_STAGE_CONCURRENCY:
        reason = f"must be at most {LARGEST_STAGE_CONCURRENCY}, or 1% to 100%"
        yield invalid(at / "maxConcurrency", stage.max_concurrency, reason, "C-08")
    if stage.max_allowed_failures is not None:
        yield from _validate_failures(stage.max_allowed_failures, at)


def _validate_group_limits(group: Group, stage: StrategyStage, at: FieldPath) -> Iterator[Finding]:
    """The limits of a group are well formed, and compatible with the limits of its stage (C-29, C-34)."""
    yield from _validate_concurrency(group.max_concurrency, at)
    yield from _validate_failures(group.max_allowed_failures, at)
    ceiling, count = _ceiling(stage), count_of(group.max_concurrency)
    if count is not None and ceiling is not None and count > ceiling:
        reason = f"must be at most {ceiling}, the maxConcurrency of the stage"
        yield invalid(at / "maxConcurrency", group.max_concurrency, reason, "C-29")
    failures = count_of(group.max_allowed_failures)
    if failures is not None and failures >= 2 and stage.max_allowed_failures is None:
        message = "has no effect: the stage allows no failures, so the first failure halts the run"
        yield FieldWarning(at / "maxAllowedFailures", message, "C-34")


def _validate_concurrency(value: int | str, at: FieldPath) -> Iterator[FieldError]:
    """Concurrency is at least 1, or 1% to 100% (C-28). A number in quotes is accepted."""
    if not _CONCURRENCY.fullmatch(str(value)) or _is_too_large(value):
        reason = "must be a count of at least 1, or a percentage from 1% to 100%"
        yield invalid(at / "maxConcurrency", value, reason, "C-28")


def _validate_failures(value: int | str, at: FieldPath) -> Iterator[FieldError]:
    """Allowed failures are a count, or 0% to 100% (C-30). A number in quotes is accepted."""
    if not _FAILURES.fullmatch(str(value)) or _is_too_large(value):
        yield invalid(at / "maxAllowedFailures", value, "must be a count, or a percentage from 0% to 100%", "C-30")


def _ceiling(stage: StrategyStage) -> int | None:
    """Return the maximum concurrency of a stage as a count. None: unknown, because it is a percentage or invalid."""
    ceiling = DEFAULT_STAGE_CONCURRENCY if stage.max_concurrency is None else stage.max_concurrency
    return count_of(ceiling) if _CONCURRENCY.fullmatch(str(ceiling)) else None


def _is_too_large(value: int | str) -> bool:
    """Return whether a count is too large for typed clients."""
    text = str(value)
    return len(text) > _LONGEST_COUNT or ((count := count_of(value)) is not None and count > LARGEST)


def count_of(value: int | str) -> int | None:
    """Return a count, or None for a percentage or an invalid value."""
    text = str(value)
    return int(text) if len(text) <= _LONGEST_COUNT and _COUNT.fullmatch(text) else None


def _validate_gates(holder: StrategyStage | Group, at: FieldPath) -> Iterator[FieldError]:
    """Gates are valid, and only gates before the work wait for a scheduled start (C-05)."""
    for k, gate in enumerate(holder.before_gates):
        yield from validate_gate(gate, at / "beforeGates" / k)
    for k, gate in enumerate(holder.after_gates):
        path = at / "afterGates" / k
        if gate.type is GateType.SCHEDULED_START:
            yield invalid(path / "type", gate.type, "must be in beforeGates", "C-05")
        yield from validate_gate(gate, path)


def validate_gate(gate: GateConfiguration, at: FieldPath) -> Iterator[FieldError]:
    """ScheduledStart requires ``scheduledStart``, Approval takes none (C-04)."""
    path = at / "scheduledStart"
    if gate.scheduled_start is None:
        if gate.type is GateType.SCHEDULED_START:
            yield FieldError(
                path, Cause.REQUIRED, "must be set when type is ScheduledStart", "C-04", (path, at / "type")
            )
        return
    if gate.type is GateType.APPROVAL:
        yield FieldError(path, Cause.FORBIDDEN, "must not be set when type is Approval", "C-04", (path, at / "type"))
    yield from validate_time(gate.scheduled_start.start_time, gate.scheduled_start.utc_offset, path)
