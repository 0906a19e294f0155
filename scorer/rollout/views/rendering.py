"""Rendered content: the Works of one placement on one member cluster, planned without writing them.

`plan_content` is the only way from a binding to its Works. The work generator executes its plan, and plans and
``render`` show the result.

Source: docs/specifications/rollout.md 9 and 11.4.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from scorer.api.kinds import Kind, group_kind
from scorer.api.meta import JsonObject, parse_time
from scorer.api.unstructured.documents import manifests_of, metadata_of, name_of, spec_of
from scorer.rollout.confirmation.sources import placeable_group
from scorer.rollout.overrides.application import binding_override
from scorer.rollout.snapshots.groups import SnapshotGroup, snapshot_groups
from scorer.rollout.works.plan import NONE_TAKEN, Placeable, WorkPlan, WorkProblem, plan_works
from scorer.rollout.works.waves import LAST_WAVE, wave_of
from scorer.rollout.writes import applied

_ANY_PLACEABLE: Final = Placeable()


class ContentSources(NamedTuple):
    """All inputs of the objects of a binding.

    Args:
        binding: It names the snapshots, and the override snapshots in the order of application.
        member: The MemberCluster that gets the objects. Overrides read its name and labels.
        snapshots: Resource snapshots of the placement.
        overrides: Override snapshots of both kinds. Those that the binding does not name are ignored.
    """

    binding: JsonObject
    member: JsonObject
    snapshots: Iterable[JsonObject]
    overrides: Iterable[JsonObject]


@dataclass(frozen=True, slots=True)
class RenderedContent:
    """The objects of a binding.

    Args:
        works: The Works that hold them, by name.
        problem: Why the Works cannot be made. They remain as they are then.
    """

    works: tuple[JsonObject, ...] = ()
    problem: WorkProblem | None = None

    def objects(self, kinds: Mapping[tuple[str, str], Kind]) -> list[JsonObject]:
        """Return the objects in order of application: by wave, then by Work.

        Args:
            kinds: The known kinds. Objects of other kinds are applied last, as those of custom kinds are.
        """
        objects = [manifest for work in self.works for manifest in manifests_of(work)]
        return sorted(objects, key=lambda content: wave_in(content, kinds))


def wave_in(content: JsonObject, kinds: Mapping[tuple[str, str], Kind]) -> int:
    """Return the wave of an object of one of the known *kinds*, or the last wave."""
    kind = kinds.get(group_kind(content))
    return LAST_WAVE if kind is None else wave_of(kind)


def plan_content(
    sources: ContentSources,
    works: Iterable[JsonObject],
    *,
    report_back: Mapping[str, Any] | None = None,
    is_taken: Callable[[str], bool] = NONE_TAKEN,
    placeable: Placeable = _ANY_PLACEABLE,
    now: datetime | None = None,
) -> WorkPlan:
    """Return the writes after which the Works of a binding have its content. See `plan_works` for the arguments."""
    return plan_works(
        sources.binding,
        _placed_group(sources),
        works,
        override=binding_override(sources.binding, sources.member, sources.overrides),
        report_back=report_back,
        is_taken=is_taken,
        placeable=placeable,
        now=now,
    )


def rendered(
    sources: ContentSources, works: Sequence[JsonObject] = (), *, placeable: Placeable = _ANY_PLACEABLE
) -> RenderedContent:
    """Return the Works of a binding as they would be after the next pass of the work generator.

    Args:
        sources: The inputs.
        works: The Works that the binding has now, with their manifests. They provide the last content of objects that
            are too large, left out of the snapshot, or retained.
        placeable: Objects that may be placed.
    """
    plan = plan_content(sources, works, placeable=placeable)
    return RenderedContent(tuple(sorted(applied(works, plan.writes), key=name_of)), plan.problem)


def _placed_group(sources: ContentSources) -> SnapshotGroup | None:
    """Return the snapshot group that a binding names. None if it names none or its snapshots do not exist."""
    name = spec_of(sources.binding).get("resourceSnapshotName")
    group = next((group for group in snapshot_groups(sources.snapshots) if name and group.name == name), None)
    created = metadata_of(sources.binding).get("creationTimestamp")
    return placeable_group(group, parse_time(created) if created else None) if group else None
