"""Initialization of a run's record: the copy of the strategy, its stages, groups, members and limits.

Until the run starts, every evaluation builds the record again, and keeps progress where stages, groups and members are
unchanged. The start fixes the list of members. Members that leave the fleet afterwards are skipped, and members that
join are reported by the condition MembershipDrifted.

Source: docs/specifications/upgrade-runs.md 5 and 10.5.
"""

from collections.abc import Callable, Iterable, Mapping, Set

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import (
    GateReport,
    GroupStatus,
    MemberStatus,
    StageStatus,
    UpgradeRunSpec,
    UpgradeRunStatus,
    WaitStatus,
)
from scorer.api.upgrade.strategy import GateConfiguration, GateType, Group, StrategySpec, StrategyStage
from scorer.api.values.quoting import format_count
from scorer.upgrade.evaluation.conditions import DRIFTED, INITIALIZED, set_condition
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.evaluation.member_transitions import skip_member
from scorer.upgrade.evaluation.version_resolution import NotResolvableError, choose
from scorer.upgrade.messages import format_names
from scorer.upgrade.state.record import FINISHED, UpgradeRecord
from scorer.upgrade.state.step import CancelUpgrade
from scorer.upgrade.strategy.limits import ConcurrencyLimits, group_limits, groups_of, is_clamped, stage_limits
from scorer.upgrade.strategy.selection import MemberInMultipleGroupsError, MemberSelectionError, one_by_one, select


class NotInitializedError(Exception):
    """A run cannot start.

    Args:
        reason: Machine-readable word.
        message: Human-readable message.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def initialise(ev: Evaluation) -> bool:
    """Build the record of a run that has not started, and set the condition Initialized.

    Returns:
        Whether the run is initialized: its members and its version are known.
    """
    message = _origin(ev)
    try:
        stages = _stages(ev, _take_strategy(ev))
    except NotInitializedError as error:
        _begin_record(ev, ())
        set_condition(ev, INITIALIZED, is_true=False, reason=error.reason, message=f"{message}; {error}")
        return False
    if _layout(stages) != _layout(ev.record.status.stages):
        _begin_record(ev, stages)
    try:
        choose(ev)
    except NotResolvableError as error:
        set_condition(ev, INITIALIZED, is_true=False, reason="VersionNotResolvable", message=f"{message}; {error}")
        return False
    set_condition(ev, INITIALIZED, is_true=True, reason="InitializedSuccessfully", message=message)
    return True


def _begin_record(ev: Evaluation, stages: tuple[StageStatus, ...]) -> None:
    """Replace the stages. Skip targets are applied again to the new ones."""
    status = ev.record.status.model_copy(update={"stages": stages, "observed_skip_targets": 0})
    ev.record = UpgradeRecord(status, ev.facts.rosters)


def _origin(ev: Evaluation) -> str:
    """Return a description of where the sequence of a run comes from."""
    if ev.spec.strategy is not None:
        return "follows the strategy in its spec"
    if ev.spec.strategy_ref is None:
        return "upgrades one member at a time"
    return f"follows a copy of strategy {ev.spec.strategy_ref.name}"


def _take_strategy(ev: Evaluation) -> StrategySpec:
    """Return the sequence of a run. It is recorded with the name of the strategy that it is copied from.

    Raises:
        NotInitializedError: The strategy does not exist.
    """
    strategy = sequence_of(ev.spec, ev.record.status, ev.facts.strategy)
    name = "" if ev.spec.strategy is not None or ev.spec.strategy_ref is None else ev.spec.strategy_ref.name
    ev.record.update(strategy_snapshot=strategy, strategy_snapshot_of=name if strategy is not None else "")
    if strategy is None:
        raise NotInitializedError("StrategyNotFound", f"there is no strategy {name}")
    return strategy


def sequence_of(spec: UpgradeRunSpec, status: UpgradeRunStatus, strategy: StrategySpec | None) -> StrategySpec | None:
    """Return the sequence that a run follows, or would follow if started, or None if its strategy does not exist.

    A referenced strategy is copied once, so that a later edit does not change the run. The name of the copied strategy
    is recorded, so that a run whose reference changes does not follow the old one.

    Args:
        spec: Spec of the run.
        status: Recorded status of the run.
        strategy: The referenced strategy as it is now. None: unset or missing.
    """
    if status.start_time is not None:
        return status.strategy_snapshot
    if spec.strategy is not None:
        return spec.strategy
    if spec.strategy_ref is None:
        return one_by_one()
    is_recorded = status.strategy_snapshot is not None and status.strategy_snapshot_of == spec.strategy_ref.name
    return status.strategy_snapshot if is_recorded else strategy


def _stages(ev: Evaluation, strategy: StrategySpec) -> tuple[StageStatus, ...]:
    try:
        selected = select(strategy, ev.spec.member_selector, ev.facts.members.values())
        return tuple(_stage(stage, selected) for stage in strategy.stages)
    except MemberInMultipleGroupsError as error:
        raise NotInitializedError("MemberInMultipleGroups", str(error)) from error
    except MemberSelectionError as error:
        raise NotInitializedError("StrategyInvalid", str(error)) from error


def _stage(stage: StrategyStage, selected: Mapping[tuple[str, str], list[str]]) -> StageStatus:
    groups = groups_of(stage)
    size = sum(len(selected[stage.name, group.name]) for group in groups)
    limits = _read_limits(f"stage {stage.name}", lambda: stage_limits(stage, size))
    return StageStatus(
        name=stage.name,
        state=UpgradeState.NOT_STARTED,
        max_concurrency=limits.max_concurrency,
        max_allowed_failures=limits.max_allowed_failures,
        before_gates=_gates(stage.name, stage.before_gates),
        after_gates=_gates(stage.name, stage.after_gates),
        after_stage_wait=WaitStatus(seconds=stage.after_stage_wait_seconds, state=UpgradeState.NOT_STARTED),
        groups=tuple(_group(group, selected[stage.name, group.name], limits) for group in groups),
    )


def _group(group: Group, names: Iterable[str], stage: ConcurrencyLimits) -> GroupStatus:
    members = tuple(MemberStatus(name=name, state=UpgradeState.NOT_STARTED) for name in names)
    limits = _read_limits(f"group {group.name}", lambda: group_limits(group, len(members), stage))
    return GroupStatus(
        name=group.name,
        state=UpgradeState.NOT_STARTED,
        max_concurrency=limits.max_concurrency,
        max_allowed_failures=limits.max_allowed_failures,
        before_gates=_gates(group.name, group.before_gates),
        after_gates=_gates(group.name, group.after_gates),
        members=members,
    )


def _read_limits(path: str, limits: Callable[[], ConcurrencyLimits]) -> ConcurrencyLimits:
    try:
        return limits()
    except ValueError as error:
        raise NotInitializedError("StrategyInvalid", f"{path}: {error}") from error


def _gates(path: str, configurations: Iterable[GateConfiguration]) -> tuple[GateReport, ...]:
    return tuple(_gate(path, gate) for gate in configurations)


def _gate(path: str, gate: GateConfiguration) -> GateReport:
    if (gate.type is GateType.SCHEDULED_START) != (gate.scheduled_start is not None):
        raise NotInitializedError(
            "StrategyInvalid", f"{path}: scheduledStart must be set if and only if type is ScheduledStart"
        )
    return GateReport(type=gate.type, state=UpgradeState.NOT_STARTED, display_name=gate.display_name or "")


def report_clamped_limits(ev: Evaluation) -> None:
    """Announce which groups run with a lower concurrency than configured. Called once, at the start."""
    snapshot = ev.record.status.strategy_snapshot
    for stage in snapshot.stages if snapshot is not None else ():
        statuses = {
            group.name: group.status
            for stage_work in ev.record.stages
            if stage_work.name == stage.name
            for group in stage_work.groups
        }
        for group in stage.groups:
            status = statuses[group.name]
            limits = ConcurrencyLimits(status.max_concurrency, status.max_allowed_failures)
            if is_clamped(group, len(status.members), limits):
                limit_text = format_count(limits.max_concurrency, "member")
                message = f"group {group.name} upgrades {limit_text} concurrently, not {group.max_concurrency}"
                ev.announce("ConcurrencyClamped", message)


def _layout(stages: Iterable[StageStatus]) -> list[object]:
    """Return the values that must be equal for a record to be kept."""
    return [
        (
            *(stage.name, stage.max_concurrency, stage.max_allowed_failures, _types(stage.before_gates)),
            *(_types(stage.after_gates), stage.after_stage_wait.seconds if stage.after_stage_wait else 0),
            [
                (
                    *(group.name, group.max_concurrency, group.max_allowed_failures),
                    *(_types(group.before_gates), _types(group.after_gates)),
                    [member.name for member in group.members],
                )
                for group in stage.groups
            ],
        )
        for stage in stages
    ]


def _types(gates: Iterable[GateReport]) -> list[tuple[GateType, str]]:
    return [(gate.type, gate.display_name) for gate in gates]


def follow_members(ev: Evaluation) -> None:
    """Skip the members that have left the fleet, and report those that joined after the start."""
    if not ev.record.is_started:
        return
    groups = (group for stage in ev.record.stages for group in stage.groups)
    names = frozenset[str]().union(*(group.roster.names for group in groups))
    if not names <= ev.facts.members.keys():
        _skip_removed(ev)
    _tell_drift(ev, names)


def _skip_removed(ev: Evaluation) -> None:
    for group, index, entry in ev.record.entries():
        if entry.state in FINISHED or entry.name in ev.facts.members:
            continue
        if entry.state is UpgradeState.RUNNING:  # cancelling is best-effort, and the member may join again
            ev.actions.append(CancelUpgrade(entry.operation_id, entry.name, entry.upgrader))
            group.update_member(index, operation_open=ev.facts.may_be_in_flight(entry.operation_id))
        skip_member(ev, group, index, "MemberRemoved", "has left the fleet")


def _tell_drift(ev: Evaluation, names: Set[str]) -> None:
    later = sorted(ev.facts.members.keys() - names)
    if later and (new_members := _would_belong(ev, later)):
        message = f"members that joined after the start and are not part of this run: {format_names(new_members)}"
        set_condition(ev, DRIFTED, is_true=True, reason="MembersChanged", message=message)
    else:
        set_condition(ev, DRIFTED, is_true=False, reason="NoChange")


def _would_belong(ev: Evaluation, names: list[str]) -> list[str]:
    """Return the names of those members that the run would select if it started now, sorted."""
    strategy = ev.record.status.strategy_snapshot
    if strategy is None:
        return []
    try:
        selected = select(strategy, ev.spec.member_selector, (ev.facts.members[name] for name in names))
    except MemberSelectionError:
        return []
    return sorted({name for group in selected.values() for name in group})
