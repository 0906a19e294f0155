"""The effect of skipping parts of an upgrade run, computed before the order is sent.

Source: docs/specifications/upgrade-runs.md 9.2.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import (
    ClusterUpgradeRun,
    GateReport,
    GroupStatus,
    MemberStatus,
    SkipTarget,
    SkipTargetType,
    StageStatus,
)
from scorer.upgrade.state.record import STOPPED

_LEFT: Final = frozenset({UpgradeState.NOT_STARTED, UpgradeState.PENDING, UpgradeState.STOPPED})
"""States of members and waits that a skip ends.

It also ends a wait that is Running, and a member that is Failed if the run has stopped or failed.
"""
_WHY_NOT: Final = {
    UpgradeState.RUNNING: "is being upgraded, which is not interrupted",
    UpgradeState.COMPLETED: "is already upgraded",
    UpgradeState.SKIPPED: "is already skipped",
    UpgradeState.FAILED: "has failed: it can be skipped while the run is stopped or has failed",
}
_MOST_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of skipping one target.

    Args:
        target: The target.
        members: Skipped members.
        more: Whether it also skips gates or a wait.
        notes: Unaffected parts, with the reason.
    """

    target: SkipTarget
    members: tuple[str, ...] = ()
    more: bool = False
    notes: tuple[str, ...] = ()

    @property
    def does_something(self) -> bool:
        """Whether anything is skipped."""
        return bool(self.members) or self.more

    @property
    def description(self) -> str:
        """The skipped part for users, with its members if it is a stage or a group."""
        target_name = f"{self.target.type.value} {self.target.name}"
        if self.target.type not in (SkipTargetType.GROUP, SkipTargetType.STAGE) or not self.members:
            return target_name
        rest = len(self.members) - _MOST_NAMED
        return f"{target_name} ({', '.join(self.members[:_MOST_NAMED])}{f' and {rest} more' if rest > 0 else ''})"


def effects(run: ClusterUpgradeRun, targets: Sequence[SkipTarget]) -> list[Effect]:
    """Return the effect of a skip, target by target. A run without stages yet accepts every target.

    Args:
        run: The current run.
        targets: Parts that the run has.
    """
    if not run.status.stages:
        return [Effect(target, more=True) for target in targets]
    is_halted = run.status.state in STOPPED
    return [_effect(run.status.stages, target, is_halted=is_halted) for target in targets]


def _effect(stages: Sequence[StageStatus], target: SkipTarget, *, is_halted: bool) -> Effect:
    match target.type:
        case SkipTargetType.MEMBER:
            groups = [group for stage in stages for group in stage.groups]
            return _of_members(
                target, (member for member in _members(groups) if member.name == target.name), is_halted=is_halted
            )
        case SkipTargetType.GROUP:
            groups = [group for stage in stages for group in stage.groups if group.name == target.name]
            effect = _of_members(target, _members(groups), is_halted=is_halted)
            return _with_more(effect, more=any(map(_is_open, _gates_of(groups))), groups=groups)
        case SkipTargetType.STAGE:
            stage = next(candidate for candidate in stages if candidate.name == target.name)
            effect = _of_members(target, _members(stage.groups), is_halted=is_halted)
            gates = (*stage.before_gates, *stage.after_gates, *_gates_of(stage.groups))
            return _with_more(effect, more=any(map(_is_open, gates)) or _waits(stage), groups=stage.groups)
        case _:
            stage = next(candidate for candidate in stages if candidate.name == target.name)
            return _of_wait(target, stage)


def _of_members(target: SkipTarget, entries: Iterator[MemberStatus], *, is_halted: bool) -> Effect:
    members_left, notes = [], []
    for entry in entries:
        if entry.state in _LEFT or (entry.state is UpgradeState.FAILED and is_halted):
            members_left.append(entry.name)
        else:
            notes.append(f"{entry.name} {_WHY_NOT[entry.state]}")
    return Effect(target, tuple(members_left), notes=tuple(notes))


def _with_more(effect: Effect, *, more: bool, groups: Sequence[GroupStatus]) -> Effect:
    """Return the effect on a part. An empty part that has not started is skipped, too."""
    is_future = all(group.state is UpgradeState.NOT_STARTED for group in groups)
    more = more or (is_future and not any(group.members for group in groups))
    notes = effect.notes
    if not effect.members and not more and not notes:
        notes = (f"{effect.target.type.value.lower()} {effect.target.name} is already finished",)
    return Effect(effect.target, effect.members, more, notes)


def _of_wait(target: SkipTarget, stage: StageStatus) -> Effect:
    if _waits(stage):
        return Effect(target, more=True)
    wait = stage.after_stage_wait
    if wait is None or not wait.seconds:
        return Effect(target, notes=(f"there is no wait after stage {stage.name}",))
    return Effect(target, notes=(f"the wait after stage {stage.name} is already {wait.state.value}",))


def _waits(stage: StageStatus) -> bool:
    """Return whether a skip ends the wait after a stage."""
    wait = stage.after_stage_wait
    return wait is not None and bool(wait.seconds) and wait.state in (*_LEFT, UpgradeState.RUNNING)


def _is_open(gate: GateReport) -> bool:
    """Return whether a gate holds the run now or later."""
    return gate.state not in (UpgradeState.COMPLETED, UpgradeState.SKIPPED)


def _members(groups: Sequence[GroupStatus]) -> Iterator[MemberStatus]:
    return (entry for group in groups for entry in group.members)


def _gates_of(groups: Sequence[GroupStatus]) -> list[GateReport]:
    return [gate for group in groups for gate in (*group.before_gates, *group.after_gates)]
