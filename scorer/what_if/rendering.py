"""The objects of placements on their clusters: those that they have, and those that they will have after changes.

Every object is made by the planner of the loop (`scorer.rollout.views.rendering`). How a rollout gets there, and when,
is in `scorer.what_if.document`.

Source: docs/specifications/what-if.md 6; docs/specifications/rollout.md 2, 3, 6 and 9.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from scorer.api.meta import JsonObject, format_time
from scorer.api.placement.binding import BindingState
from scorer.api.unstructured.documents import (
    dicts_at,
    is_deleting,
    metadata_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    text_at,
)
from scorer.placement.binding_plan import BrokenBindingError
from scorer.rollout.bindings import NO_OVERRIDES, Overrides, bound
from scorer.rollout.confirmation.deletion import DeletionVerdict
from scorer.rollout.confirmation.sources import has_pending
from scorer.rollout.removal.deletion import leaves_objects
from scorer.rollout.snapshots.groups import SnapshotGroup, snapshot_groups
from scorer.rollout.views.rendering import ContentSources, RenderedContent, rendered
from scorer.rollout.works.plan import Placeable
from scorer.staged_update.orders import index_used
from scorer.staged_update.record import cluster_name, clusters_of
from scorer.what_if.changed import Changed
from scorer.what_if.changes import binding_states
from scorer.what_if.content import content_to_roll_out
from scorer.what_if.overrides import member_document, overrides_of_placement
from scorer.what_if.removals import judged_deletion
from scorer.what_if.scheduling import scheduled
from scorer.what_if.state import HubState, ObjectKey, identity_of


@dataclass(frozen=True, slots=True)
class PlacementContent:
    """The objects of one placement.

    Args:
        placement: The placement.
        clusters: The content of each cluster, by its name. Clusters with the same content may share it.
        problem: Why the placement has no new content, for users. Empty: it has.
        uncertain: See `scorer.what_if.content.ContentToRollOut`.
        overrides: The override snapshots that were applied on any cluster, by namespace and name. None: unknown.
    """

    placement: JsonObject
    clusters: Mapping[str, RenderedContent] = field(default_factory=dict)
    problem: str = ""
    uncertain: bool = False
    overrides: Mapping[tuple[str, str], JsonObject | None] = field(default_factory=dict)


Contents: TypeAlias = Mapping[ObjectKey, PlacementContent]
"""The content of placements."""


def present_contents(state: HubState, only: Collection[ObjectKey] | None = None) -> Contents:
    """Return the content that clusters have, or are about to get, by placement.

    Content whose snapshots or override snapshots are not known has a problem.

    Args:
        state: The hub.
        only: The placements. None: unlimited.
    """
    renderer = _Renderer(state)
    return {
        identity_of(placement): PlacementContent(
            placement, dict(renderer.present(placement)), overrides=renderer.take_applied()
        )
        for placement in state.placements
        if only is None or identity_of(placement) in only
    }


def future_contents(hub: Changed, only: Collection[ObjectKey] | None = None) -> Contents:
    """Return the content that clusters will have once everything is rolled out, by placement.

    A removal of objects counts as confirmed. A placement that is being deleted has no clusters.

    Args:
        hub: The hub after the changes.
        only: The placements. None: unlimited.
    """
    renderer = _Renderer(hub.state)
    return {
        identity_of(placement): replace(renderer.future(placement, hub), overrides=renderer.take_applied())
        for placement in hub.state.placements
        if only is None or identity_of(placement) in only
    }


def run_contents(state: HubState, run: JsonObject) -> Contents:
    """Return the content of the placement of a staged update run, once the run has updated all its clusters.

    These clusters get the resource snapshot and the overrides that the run has recorded for them. Other clusters keep
    their content. Before the run is initialized, all clusters keep theirs. Empty: the placement does not exist.

    Args:
        state: The hub.
        run: The run.
    """
    place = namespace_of(run), text_at(run, "spec", "placementName")
    placements = (item for item in state.placements if (namespace_of(item), name_of(item)) == place)
    renderer = _Renderer(state)
    return {
        identity_of(placement): replace(renderer.of_run(placement, run), overrides=renderer.take_applied())
        for placement in placements
    }


def with_kept_objects(before: Contents, after: Contents, hub: Changed) -> Contents:
    """Return *after* with the objects that deletions leave on clusters.

    The objects of a deleted placement remain if its propagationPolicy is Abandon, or if its Namespace is deleted. All
    objects remain on a member that leaves the fleet.

    Args:
        before: The present content.
        after: The content after the changes.
        hub: The hub after the changes.
    """
    leaving = set(hub.former_fleet.names) - {
        member.metadata.name for member in hub.state.fleet.members if member.metadata.deletion_timestamp is None
    }
    contents = dict(after)
    for identity, content in before.items():
        new = after.get(identity)
        ends = new is None or is_deleting(new.placement)
        keeps_all = ends and _keeps_objects(content.placement, hub)
        kept_contents = {
            cluster: rendered_content
            for cluster, rendered_content in content.clusters.items()
            if (keeps_all or cluster in leaving) and rendered_content.problem is None
        }
        if kept_contents:
            new = new or PlacementContent(content.placement)
            contents[identity] = replace(new, clusters={**kept_contents, **new.clusters})
    return contents


def _keeps_objects(placement: JsonObject, hub: Changed) -> bool:
    """Return whether the objects of a deleted placement remain."""
    return leaves_objects(placement) or judged_deletion(placement, hub).verdict is DeletionVerdict.ABANDONED


_ContentKey: TypeAlias = tuple[str, str, int]
"""Resource snapshot, creation of the binding if that matters, and identity of the present content."""


class _Renderer:
    """Renders the content of placements, once for all clusters that are bound to get the same.

    Args:
        state: The hub.
    """

    def __init__(self, state: HubState) -> None:
        self._state = state
        self._placeable = Placeable(state.kinds)
        self._overrides = state.override_snapshots_by_key
        self._applied: dict[tuple[str, str], JsonObject | None] = {}

    def take_applied(self) -> Mapping[tuple[str, str], JsonObject | None]:
        """Return the override snapshots that were applied since the last call. See `PlacementContent`."""
        applied, self._applied = self._applied, {}
        return applied

    def present(self, placement: JsonObject) -> Iterator[tuple[str, RenderedContent]]:
        """Yield the present content of each cluster."""
        snapshots = self._state.resource_snapshots_of(placement)
        contents: dict[_ContentKey, RenderedContent] = {}
        for cluster, binding in sorted(_bindings_with_content(self._state.bindings_of(placement)).items()):
            yield cluster, self._content(binding, snapshots, None, contents)

    def future(self, placement: JsonObject, hub: Changed) -> PlacementContent:
        """Return the content of each cluster after the changes."""
        if is_deleting(placement):
            return PlacementContent(placement)
        try:
            bindings = scheduled(self._state, placement).bindings
        except BrokenBindingError as error:
            return PlacementContent(placement, dict(self.present(placement)), str(error))
        content = content_to_roll_out(placement, bindings, hub, confirmed=True)
        if content.group is None:
            return PlacementContent(placement, problem=content.problem)
        if content.waits:
            return PlacementContent(placement, dict(self.present(placement)), content.waits)
        rolled_out = self._rolled_out(
            placement, bindings, content.snapshots, content.group, keeps_overrides=not hub.overrides_known
        )
        return PlacementContent(placement, dict(rolled_out), content.problem, content.uncertain)

    def of_run(self, placement: JsonObject, run: JsonObject) -> PlacementContent:
        """Return the content of each cluster after a run."""
        snapshots, present = self._state.resource_snapshots_of(placement), dict(self.present(placement))
        index = index_used(run)
        group = next(
            (group for group in snapshot_groups(snapshots) if str(group.index) == index and group.master), None
        )
        if group is None:
            problem = f"its resource snapshot {index} no longer exists" if index else "it is not initialized yet"
            return PlacementContent(placement, present, f"run {name_of(run)} changes nothing: {problem}")
        bindings = binding_states(self._state.bindings_of(placement))
        contents: dict[_ContentKey, RenderedContent] = {}
        updated = {}
        for entry in (entry for stage in dicts_at(status_of(run), "stagesStatus") for entry in clusters_of(stage)):
            cluster = cluster_name(entry)
            if cluster in bindings:
                binding = bound(dict(bindings[cluster]), group.name, Overrides.of(entry))
                updated[cluster] = self._content(binding, snapshots, present.get(cluster), contents)
        return PlacementContent(placement, present | updated)

    def _rolled_out(
        self,
        placement: JsonObject,
        bindings: Sequence[JsonObject],
        snapshots: Sequence[JsonObject],
        group: SnapshotGroup,
        *,
        keeps_overrides: bool,
    ) -> Iterator[tuple[str, RenderedContent]]:
        """Yield the content of each cluster after a rollout of *group*. *keeps_overrides*: bindings keep their own."""
        present = dict(self.present(placement))
        bindings_by_cluster = binding_states(bindings)
        overrides = overrides_of_placement(self._state, placement, group, bindings_by_cluster)
        contents: dict[_ContentKey, RenderedContent] = {}
        for cluster, document in sorted(bindings_by_cluster.items()):
            own = Overrides.of(spec_of(document)) if keeps_overrides else overrides.get(cluster, NO_OVERRIDES)
            binding = bound(dict(document), group.name, own)
            if not metadata_of(binding).get("creationTimestamp"):
                binding["metadata"] = {**metadata_of(binding), "creationTimestamp": format_time(self._state.now)}
            yield cluster, self._content(binding, snapshots, present.get(cluster), contents)

    def _content(
        self,
        binding: JsonObject,
        snapshots: Sequence[JsonObject],
        present: RenderedContent | None,
        contents: dict[_ContentKey, RenderedContent],
    ) -> RenderedContent:
        """Return the content of a binding.

        Args:
            binding: The binding, with the snapshot and the overrides that it gets.
            snapshots: The resource snapshots of its placement.
            present: The content that its cluster has. None: unset.
            contents: Contents that were rendered before.
        """
        overrides = Overrides.of(spec_of(binding))
        self._applied.update((key, self._overrides.get(key)) for key in overrides.keys)
        key = _content_key(binding, snapshots, present)
        if overrides == NO_OVERRIDES and key in contents:
            return contents[key]
        cluster = text_at(binding, "spec", "targetCluster")
        member = member_document(self._state.fleet, cluster) or {"metadata": {"name": cluster}}
        named_snapshots = [self._overrides[key] for key in overrides.keys if key in self._overrides]
        works = present.works if present is not None and present.problem is None else ()
        sources = ContentSources(binding, member, snapshots, named_snapshots)
        content = rendered(sources, works, placeable=self._placeable)
        if overrides == NO_OVERRIDES:
            contents[key] = content
        return content


def _content_key(binding: JsonObject, snapshots: Sequence[JsonObject], present: RenderedContent | None) -> _ContentKey:
    """Return the key of the content of a binding without overrides: nothing else in a binding affects it."""
    name = text_at(binding, "spec", "resourceSnapshotName")
    matters = any(group.name == name and has_pending(group) for group in snapshot_groups(snapshots))
    return name, text_at(binding, "metadata", "creationTimestamp") if matters else "", id(present)


def _bindings_with_content(bindings: Iterable[JsonObject]) -> dict[str, JsonObject]:
    """Return the bindings whose clusters have content, or are about to get it, by cluster."""
    with_content = [
        binding
        for binding in sorted(bindings, key=is_deleting, reverse=True)  # the last one of a cluster counts
        if text_at(binding, "spec", "resourceSnapshotName")
        and text_at(binding, "spec", "state") != BindingState.SCHEDULED
    ]
    return {text_at(binding, "spec", "targetCluster"): binding for binding in with_content}
