"""Hypothetical changes to a run or to the assumptions of its plan.

Changes apply to copies of the run, of the state of the hub, and of the assumptions. A change of a sequence applies to
the run's copy of it, so a run with a referenced strategy is treated as if it had its own.

Source: docs/specifications/upgrade-runs.md 14.7.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import singledispatch
from typing import Annotated, Any, Final, NotRequired, cast

from typing_extensions import TypedDict

from scorer.api.meta import format_time
from scorer.api.upgrade.plan import Bound, PlannedAction, PlannedMember, UpgradePlan
from scorer.api.upgrade.plan_change import (
    LARGEST_FACTOR,
    ApprovalChange,
    ConcurrencyChange,
    DurationChange,
    FailureChange,
    PlanChange,
    SkipChange,
    StartChange,
    WaitChange,
    WindowChange,
)
from scorer.api.upgrade.run import ClusterUpgradeRun, GroupStatus, StageStatus
from scorer.api.upgrade.strategy import (
    CONCURRENCY_PATTERN,
    DEFAULT_STAGE_CONCURRENCY,
    LARGEST_STAGE_CONCURRENCY,
    Group,
    StrategySpec,
    StrategyStage,
)
from scorer.api.values.answer import Instant, ShapeOf
from scorer.api.values.duration import parse_wait_time
from scorer.api.values.int_or_percent import LARGEST, percent
from scorer.upgrade.evaluation.initialization import sequence_of
from scorer.upgrade.members.windows import targets_of
from scorer.upgrade.patches import parts_of
from scorer.upgrade.planning.forecast import ForecastAssumptions
from scorer.upgrade.state.facts import UpgradeRunFacts
from scorer.upgrade.strategy.limits import concurrency, groups_of
from scorer.upgrade.strategy.selection import MemberSelectionError, select
from scorer.windows.maintenance import MaintenanceWindow
from scorer.windows.member_windows import MemberWindows, WindowDefinition

_ADDED: Final = "(added)"
"""Prefix for names of windows that a change adds. No window of the hub can have such a name."""
_LONGEST_COUNT: Final = len(str(LARGEST))


class ChangeError(ValueError):
    """A change cannot be applied.

    Args:
        detail: Reason.
        at: Path of the invalid value within the change.
    """

    def __init__(self, detail: str, *at: str | int) -> None:
        super().__init__(detail)
        self.at = at


class UnfitChangeError(ChangeError):
    """One of several changes cannot be applied.

    Args:
        position: Index of the change, from 0.
        detail: Reason.
        at: Path of the invalid value within the change.
    """

    def __init__(self, position: int, detail: str, *at: str | int) -> None:
        super().__init__(f"changes[{position}]: {detail}", *at)
        self.position = position
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Planned:
    """Inputs of a plan."""

    run: ClusterUpgradeRun
    facts: UpgradeRunFacts
    assumed: ForecastAssumptions


def apply_changes(inputs: Planned, changes: Iterable[PlanChange]) -> Planned:
    """Return the inputs of a plan after all changes, applied in order.

    Raises:
        UnfitChangeError: A change cannot be applied.
    """
    for position, change in enumerate(changes):
        try:
            inputs = _apply(change, inputs)
        except ChangeError as error:
            raise UnfitChangeError(position, str(error), *error.at) from error
        except ValueError as error:
            raise UnfitChangeError(position, str(error)) from error
    return inputs


@singledispatch
def _apply(change: PlanChange, inputs: Planned) -> Planned:
    raise TypeError(f"{change!r} is not a change of a plan of {inputs.run.metadata.name}")


@_apply.register
def _(change: SkipChange, inputs: Planned) -> Planned:
    parts = frozenset(_parts(inputs))
    for place, target in enumerate(change.targets):
        if (target.type.value, target.name) not in parts:
            raise ChangeError(f"the run has no {target.type.value} {target.name[:64]!r}", "targets", place)
    targets = (*inputs.run.spec.skip_targets, *change.targets)
    return replace(inputs, run=_with_spec(inputs.run, skip_targets=targets))


@_apply.register
def _(change: StartChange, inputs: Planned) -> Planned:
    if inputs.run.status.start_time is not None:
        raise ChangeError(f"the run started at {format_time(inputs.run.status.start_time)}", "time")
    return replace(inputs, assumed=replace(inputs.assumed, start_at=change.time))


@_apply.register
def _(change: ApprovalChange, inputs: Planned) -> Planned:
    return replace(inputs, assumed=replace(inputs.assumed, approve_after=_duration(change.value, "value")))


@_apply.register
def _(change: DurationChange, inputs: Planned) -> Planned:
    factor = inputs.assumed.duration_factor * change.value
    if factor > LARGEST_FACTOR:
        reason = f"all changes together make every upgrade {factor:g} times as long, must be at most {LARGEST_FACTOR:g}"
        raise ChangeError(f"{change.value:g}: {reason}", "value")
    return replace(inputs, assumed=replace(inputs.assumed, duration_factor=factor))


@_apply.register
def _(change: FailureChange, inputs: Planned) -> Planned:
    if change.member not in inputs.facts.members:
        raise ChangeError(f"there is no member {change.member[:64]!r}", "member")
    failures = {**inputs.assumed.failures, change.member: _duration(change.after, "after")}
    return replace(inputs, assumed=replace(inputs.assumed, failures=failures))


@_apply.register
def _(change: WindowChange, inputs: Planned) -> Planned:
    facts = inputs.facts
    for place, member in enumerate(change.members):
        if member not in facts.members:
            raise ChangeError(f"there is no member {member[:64]!r}", "members", place)
    try:
        window = MaintenanceWindow.of(change.window)
    except ValueError as error:
        raise ChangeError(str(error), "window") from error
    if change.window.target not in targets_of(inputs.run.spec.upgrade.type):
        return inputs  # it is a window for other upgrades than this one
    name = f"{_ADDED} {len(facts.windows)}"
    windows = {**facts.windows, name: WindowDefinition(name, change.window.target, None, window)}
    members = dict(facts.members)
    for member in change.members:
        old_member = members[member]
        names = tuple(sorted((*old_member.windows.names, name)))
        members[member] = replace(old_member, windows=MemberWindows(names, old_member.windows.missing))
    return replace(inputs, facts=replace(facts, windows=windows, members=members))


@_apply.register
def _(change: WaitChange, inputs: Planned) -> Planned:
    def stage(old: StrategyStage) -> StrategyStage:
        return old.model_copy(update={"after_stage_wait_seconds": change.seconds})

    def status(old: StageStatus) -> StageStatus:
        wait = old.after_stage_wait
        changed = wait and wait.model_copy(update={"seconds": change.seconds})
        return old.model_copy(update={"after_stage_wait": changed})

    return _with_stage(inputs, change.stage, stage, status)


@_apply.register
def _(change: ConcurrencyChange, inputs: Planned) -> Planned:
    if not _is_concurrency(change.value):
        raise ChangeError(f"{str(change.value)[:64]!r} is neither a count nor a percentage", "value")

    def group(old: Group) -> Group:
        return old.model_copy(update={"max_concurrency": change.value}) if old.name == change.group else old

    def stage(old: StrategyStage) -> StrategyStage:
        if change.group is None:
            return _check_stage(old.model_copy(update={"max_concurrency": change.value}), change)
        if change.group not in {group.name for group in groups_of(old)}:
            raise ChangeError(f"there is no group {change.group!r} in stage {old.name}", "group")
        return _check_stage(old.model_copy(update={"groups": tuple(map(group, groups_of(old)))}), change)

    def status(old: StageStatus) -> StageStatus:
        sizes = sum(len(group.members) for group in old.groups)
        if change.group is None:
            return old.model_copy(update={"max_concurrency": concurrency(change.value, sizes)})
        ceiling = old.max_concurrency
        groups = (_widen(group, change, ceiling) if group.name == change.group else group for group in old.groups)
        return old.model_copy(update={"groups": tuple(groups)})

    return _with_stage(inputs, change.stage, stage, status)


def _widen(old: GroupStatus, change: ConcurrencyChange, ceiling: int) -> GroupStatus:
    size = len(old.members)
    max_concurrency = min(concurrency(change.value, size), ceiling, max(1, size))
    return old.model_copy(update={"max_concurrency": max_concurrency})


def _is_concurrency(value: int | str) -> bool:
    """Return whether a value is a count that admission accepts, or a percentage (4.1)."""
    text = str(value)
    if len(text) > _LONGEST_COUNT or not re.fullmatch(CONCURRENCY_PATTERN, text, re.ASCII):
        return False
    return percent(text) is not None or int(text) <= LARGEST


def _check_stage(stage: StrategyStage, change: ConcurrencyChange) -> StrategyStage:
    """Return a changed stage, unless admission would refuse it (4.1).

    Raises:
        ChangeError: Admission would refuse it.
    """
    ceiling = _count(DEFAULT_STAGE_CONCURRENCY if stage.max_concurrency is None else stage.max_concurrency)
    if ceiling is None:
        return stage
    if ceiling > LARGEST_STAGE_CONCURRENCY:
        raise ChangeError(f"{ceiling}: a stage takes at most {LARGEST_STAGE_CONCURRENCY}, or 1% to 100%", "value")
    for group in stage.groups:
        if (count := _count(group.max_concurrency)) is not None and count > ceiling:
            message = f"group {group.name} would upgrade {count} members concurrently, but its stage at most {ceiling}"
            raise ChangeError(f"{str(change.value)[:64]}: {message}", "value")
    return stage


def _count(value: int | str) -> int | None:
    """Return a count, or None if the value is a percentage or invalid."""
    return int(value) if _is_concurrency(value) and percent(value) is None else None


def _duration(text: str, member: str) -> timedelta:
    try:
        return parse_wait_time(text)
    except ValueError as error:
        raise ChangeError(str(error), member) from error


def _parts(inputs: Planned) -> Iterator[tuple[str, str]]:
    """Yield type and name of every part of a run that can be skipped, as if an unstarted run started now."""
    run, facts = inputs.run, inputs.facts
    strategy = sequence_of(run.spec, run.status, facts.strategy)
    if run.status.start_time is not None or strategy is None:
        yield from parts_of(run)
        return
    for stage in strategy.stages:
        yield from (("Stage", stage.name), ("AfterStageWait", stage.name))
        yield from (("Group", group.name) for group in groups_of(stage))
    try:
        selected = select(strategy, run.spec.member_selector, facts.members.values())
    except MemberSelectionError:  # the plan reports the error
        yield from (("Member", name) for name in facts.members)
    else:
        yield from (("Member", name) for names in selected.values() for name in names)


def _with_stage(
    inputs: Planned,
    name: str,
    change: Callable[[StrategyStage], StrategyStage],
    change_status: Callable[[StageStatus], StageStatus],
) -> Planned:
    """Return the inputs with a changed stage in the sequence of the run, and in its record if the run has started.

    Raises:
        ChangeError: The run has no such stage, or the change is refused.
    """
    run = inputs.run
    strategy = sequence_of(run.spec, run.status, inputs.facts.strategy)
    if strategy is None or name not in {stage.name for stage in strategy.stages}:
        raise ChangeError(f"there is no stage {name[:64]!r} in the run", "stage")
    stages = tuple(change(stage) if stage.name == name else stage for stage in strategy.stages)
    changed = StrategySpec(stages=stages)
    if run.status.start_time is None:
        return replace(inputs, run=_with_spec(run, strategy=changed, strategy_ref=None))
    records = tuple(change_status(stage) if stage.name == name else stage for stage in run.status.stages)
    status = run.status.model_copy(update={"strategy_snapshot": changed, "stages": records})
    return replace(inputs, run=run.model_copy(update={"status": status}))


def _with_spec(run: ClusterUpgradeRun, **changes: Any) -> ClusterUpgradeRun:
    return run.model_copy(update={"spec": run.spec.model_copy(update=changes)})


class PlannedTurn(TypedDict):
    """Expected turn of a member."""

    action: Annotated[str, ShapeOf(PlannedAction)]
    start: NotRequired[Instant]
    end: NotRequired[Instant]
    reason: NotRequired[str]
    boundBy: NotRequired[Annotated[str, ShapeOf(Bound)]]
    """Constraint that determines its start."""


class PlannedChange(TypedDict):
    """A member that the changes affect."""

    name: str
    before: PlannedTurn | None
    """Null: it is not in the plan."""
    after: PlannedTurn | None


class PlanDifference(TypedDict):
    """Difference that the changes make to the plan."""

    etaSeconds: int | None
    """Delay of the run's end in seconds. Null if one of the plans has no end."""
    exposure: int
    """Additional members that get the version before the first check."""
    maxConcurrent: int
    """Additional clusters in upgrade at one instant."""
    members: list[PlannedChange]


def difference(old: UpgradePlan, new: UpgradePlan) -> PlanDifference:
    """Return the difference between two plans: the delay of the end, and the affected members."""
    old_members = {member.name: member for member in old.members}
    later = None if old.eta is None or new.eta is None else int((new.eta - old.eta).total_seconds())
    return {
        "etaSeconds": later,
        "exposure": new.exposure - old.exposure,
        "maxConcurrent": new.max_concurrent - old.max_concurrent,
        "members": [
            {"name": member.name, "before": _planned_turn(old_members.get(member.name)), "after": _planned_turn(member)}
            for member in new.members
            if old_members.get(member.name) != member
        ],
    }


def _planned_turn(member: PlannedMember | None) -> PlannedTurn | None:
    if member is None:
        return None
    return cast("PlannedTurn", member.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"name"}))
