"""Selection of the members of each group of a run.

Source: docs/specifications/upgrade-runs.md 3.2 and 5.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from scorer.api.upgrade.strategy import StrategySpec, StrategyStage
from scorer.api.values.label_selector import LabelSelector, LabelSelectorRequirement, holds_for, selector_error
from scorer.upgrade.members.member import GROUP_LABEL, Member
from scorer.upgrade.strategy.limits import groups_of

DEFAULT: Final = "default"
"""Name of the only stage and the only group of a run without a strategy."""


@cache
def one_by_one() -> StrategySpec:
    """Return the strategy of a run that has none: all members in one stage, one after the other."""
    return StrategySpec(stages=(StrategyStage(name=DEFAULT, member_selector=LabelSelector()),))


class MemberSelectionError(Exception):
    """The members of a run cannot be determined."""


class MemberInMultipleGroupsError(MemberSelectionError):
    """A member would be in two groups of the run."""


@dataclass(frozen=True, slots=True)
class _Selector:
    """A selector with valid expressions. An unset selector matches every member."""

    requirements: tuple[LabelSelectorRequirement, ...]

    @classmethod
    def of(cls, selector: LabelSelector | None, path: str) -> "_Selector":
        if selector is None:
            return cls(())
        if error := selector_error(selector):
            raise MemberSelectionError(f"{path}: {error}")
        return cls(selector.requirements())

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(holds_for(requirement, labels.get(requirement.key)) for requirement in self.requirements)


def select(
    strategy: StrategySpec, selector: LabelSelector | None, members: Iterable[Member]
) -> dict[tuple[str, str], list[str]]:
    """Return the names of the members of each group, by (stage, group).

    Args:
        strategy: The sequence of the run.
        selector: The selector of the run itself.
        members: Candidates.

    Raises:
        MemberInMultipleGroupsError: A member would be in two groups.
        MemberSelectionError: A selector cannot be evaluated.
    """
    run = _Selector.of(selector, "spec.memberSelector")
    taking_part = sorted((member for member in members if run.matches(member.labels)), key=lambda member: member.name)
    groups_by_member: dict[tuple[str, str], list[str]] = {}
    places: dict[str, tuple[str, str]] = {}
    for stage in strategy.stages:
        for group, names in _select_stage(stage, taking_part):
            place = (stage.name, group)
            groups_by_member[place] = names
            for name in names:
                if (other := places.setdefault(name, place)) != place:
                    raise MemberInMultipleGroupsError(
                        f"member {name} is in group {other[1]} of stage {other[0]} and in group {group} of"
                        f" stage {stage.name}"
                    )
    return groups_by_member


def _select_stage(stage: StrategyStage, members: Iterable[Member]) -> Iterable[tuple[str, list[str]]]:
    """Yield the groups of a stage with the names of their members."""
    selector = _Selector.of(stage.member_selector, f"stage {stage.name}: memberSelector")
    inside = [member for member in members if selector.matches(member.labels)]
    names_by_group: dict[str, list[str]] = {}
    for member in inside:
        names_by_group.setdefault(member.labels.get(GROUP_LABEL, ""), []).append(member.name)
    for group in groups_of(stage):
        if group.member_selector is None:
            yield group.name, names_by_group.get(group.name, [])
            continue
        own = _Selector.of(group.member_selector, f"group {group.name}: memberSelector")
        yield group.name, [member.name for member in inside if own.matches(member.labels)]
