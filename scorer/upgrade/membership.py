"""Members that come and go while a run is under way.

Source: upgrade-runs.md 10.5.
"""

from collections.abc import Set

from scorer.api.upgrade.fields import UpgradeState
from scorer.upgrade.conditions import DRIFTED, names_said, put_condition
from scorer.upgrade.evaluation import Evaluation
from scorer.upgrade.member_states import skip_member
from scorer.upgrade.record import FINISHED
from scorer.upgrade.selection import SelectionError, select
from scorer.upgrade.step import CancelUpgrade


def follow_members(ev: Evaluation) -> None:
    """Skip the members that have left, and tell which have joined too late."""
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
        if entry.state is UpgradeState.RUNNING:
            ev.actions.append(CancelUpgrade(entry.operation_id, entry.name, entry.upgrader))
        skip_member(ev, group, index, "MemberRemoved", "has left the fleet")


def _tell_drift(ev: Evaluation, names: Set[str]) -> None:
    later = sorted(ev.facts.members.keys() - names)
    if later and (joined := _would_belong(ev, later)):
        message = f"not part of this run, as they have joined after its start: {names_said(joined)}"
        put_condition(ev, DRIFTED, holds=True, reason="MembersChanged", message=message)
    else:
        put_condition(ev, DRIFTED, holds=False, reason="NoChange")


def _would_belong(ev: Evaluation, names: list[str]) -> list[str]:
    """Return the members that the run would have if it began now."""
    strategy = ev.record.status.strategy_snapshot
    if strategy is None:
        return []
    try:
        selected = select(strategy, ev.spec.member_selector, (ev.facts.members[name] for name in names))
    except SelectionError:
        return []
    return sorted({name for group in selected.values() for name in group})
