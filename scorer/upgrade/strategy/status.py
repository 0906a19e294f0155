"""Status of a strategy, evaluated against the present members.

Source: docs/specifications/upgrade-runs.md 3.2.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

import pydantic

from scorer.api.conditions import FALSE, TRUE
from scorer.api.meta import JsonObject, first_mistake, format_time
from scorer.api.unstructured.documents import conditions_of, generation_of, spec_of
from scorer.api.upgrade.strategy import StrategySpec
from scorer.api.values.quoting import format_count
from scorer.upgrade.members.member import GROUP_LABEL, Member
from scorer.upgrade.messages import format_names
from scorer.upgrade.strategy.limits import group_limits, groups_of, stage_limits
from scorer.upgrade.strategy.selection import MemberInMultipleGroupsError, MemberSelectionError, select

VALID: Final = "Valid"
WARNINGS: Final = "Warnings"


def strategy_status(document: JsonObject, members: Mapping[str, Member], now: datetime) -> JsonObject:
    """Return the status of a strategy.

    Args:
        document: The ClusterUpgradeStrategy.
        members: Joined members, by name.
        now: Current time, the transition time of changed conditions.
    """
    problem, warnings = _problem(document), list[tuple[str, str]]()
    if not problem:
        warnings = list(_warnings(StrategySpec.read(spec_of(document)), members.values()))
    conditions = [
        _condition(VALID, FALSE if problem else TRUE, "Invalid" if problem else "Accepted", problem),
        _condition(
            WARNINGS,
            TRUE if warnings else FALSE,
            warnings[0][0] if warnings else "NoWarnings",
            "; ".join(message for _, message in warnings),
        ),
    ]
    generation, old_conditions = (
        generation_of(document),
        {condition.get("type"): condition for condition in conditions_of(document)},
    )
    for condition in conditions:
        previous = old_conditions.get(condition["type"], {})
        unchanged = previous.get("status") == condition["status"] and previous.get("lastTransitionTime")
        condition |= {
            "observedGeneration": generation,
            "lastTransitionTime": previous["lastTransitionTime"] if unchanged else format_time(now),
        }
    return {"observedGeneration": generation, "conditions": conditions}


def _condition(kind: str, status: str, reason: str, message: str) -> JsonObject:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def _problem(document: JsonObject) -> str:
    """Return the first error in a strategy regardless of members, or an empty string."""
    try:
        spec = StrategySpec.read(spec_of(document))
        select(spec, None, ())
        for stage in spec.stages:
            limits = stage_limits(stage, 1)
            for group in groups_of(stage):
                group_limits(group, 1, limits)
    except pydantic.ValidationError as error:
        return f"spec.{first_mistake(error)}"
    except (MemberSelectionError, ValueError) as error:
        return str(error)
    return ""


def _warnings(spec: StrategySpec, members: Iterable[Member]) -> Iterator[tuple[str, str]]:
    """Yield the reason and message of every warning."""
    last = spec.stages[-1]
    if last.after_stage_wait_seconds:
        length = format_count(last.after_stage_wait_seconds, "second")
        yield "LastStageWait", f"stage {last.name} is the last one, and the run waits for {length} after it"
    all_members = list(members)
    try:
        selected = select(spec, None, all_members)
    except MemberInMultipleGroupsError as error:
        yield "MemberInMultipleGroups", str(error)
        return
    empty = sorted(group for (_, group), names in selected.items() if not names)
    if empty:
        yield "EmptyGroups", f"no member is in {format_names(empty)}"
    selected_names = {name for names in selected.values() for name in names}
    unselected = sorted(
        member.name for member in all_members if member.labels.get(GROUP_LABEL) and member.name not in selected_names
    )
    if unselected:
        yield "UnreachableMembers", f"in groups that no stage lists: {format_names(unselected)}"
