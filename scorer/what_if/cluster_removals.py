"""Objects that leave single clusters of a placement, after changes to a hub.

The cause is an override, or a staged update run that rolls out an earlier resource snapshot.

The verdicts are those of the loop. A confirmation in the annotations of the changed placement counts.

Source: docs/specifications/what-if.md 9; docs/specifications/removal.md 6; docs/specifications/rollout.md 6.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final, NamedTuple, TypeAlias

from scorer.api.placement.binding import BindingState
from scorer.api.unstructured.documents import is_deleting, spec_of, text_at
from scorer.api.unstructured.json_object import JsonObject
from scorer.fleet import Fleet
from scorer.rollout.bindings import NO_OVERRIDES, Overrides
from scorer.rollout.confirmation.digests import RemovalEffect, RemovalItem
from scorer.rollout.confirmation.exemption import Exemptions
from scorer.rollout.confirmation.on_cluster import LeavingJudgement, LeavingObjects, judge_leaving, object_record
from scorer.rollout.confirmation.report import pending_items
from scorer.rollout.confirmation.sources import PlacedObject, placed_objects
from scorer.rollout.object_size import ObjectIdentity
from scorer.rollout.overrides.matching import selected_by, selections_of
from scorer.rollout.overrides.rules import ParsedOverrideRule, member_labels
from scorer.rollout.snapshots.groups import SnapshotGroup, snapshot_groups
from scorer.what_if.changed import Changed
from scorer.what_if.overrides import deletion_rules, member_document
from scorer.what_if.planned import ContentRemoval, ContentVerdict
from scorer.what_if.removals import namespace_after, removal_entries

_OverrideKey: TypeAlias = tuple[str, str]


class ClusterContent(NamedTuple):
    """The content of a placement and its overrides after the changes.

    Args:
        snapshots: The resource snapshots of the placement.
        group: The group of them that is rolled out.
        overrides: The override lists by cluster. A cluster that is missing has none.
        earlier: The resource snapshot that an update run rolls out instead. None means *group*.
    """

    snapshots: Sequence[JsonObject]
    group: SnapshotGroup
    overrides: Mapping[str, Overrides]
    earlier: SnapshotGroup | None = None


def cluster_object_removals(
    placement: JsonObject, bindings: Iterable[JsonObject], content: ClusterContent, hub: Changed
) -> list[ContentRemoval]:
    """Return the objects that a placement still places, and that leave some of its clusters.

    Args:
        placement: As it would be stored.
        bindings: Its bindings on the clusters where the content can be made.
        content: Their content after the changes.
        hub: The hub after the changes.
    """
    clusters_by_removal: dict[tuple[ContentVerdict, frozenset[RemovalItem]], list[str]] = defaultdict(list)
    judge = _Judge(placement, content, hub)
    for binding in bindings:
        for removal in judge.removals(binding):
            clusters_by_removal[removal].append(text_at(spec_of(binding), "targetCluster"))
    removals = [
        entry
        for (verdict, items), clusters in clusters_by_removal.items()
        for entry in removal_entries(placement, items, verdict, sorted(clusters))
    ]
    return sorted(removals, key=lambda entry: (_ORDER.index(entry["verdict"]), entry["clusters"], entry["effect"]))


def pending_objects(
    placement: JsonObject, binding: JsonObject, content: ClusterContent, hub: Changed
) -> frozenset[ObjectIdentity]:
    """Return the objects that leave a cluster, and that remain there until their removal is confirmed.

    Args:
        placement: As it would be stored.
        binding: The binding of the cluster.
        content: The content after the changes.
        hub: The hub after the changes.
    """
    removals = _Judge(placement, content, hub).removals(binding)
    return frozenset(item.identity for verdict, items in removals if verdict == "Pending" for item in items)


_ORDER: Final[tuple[ContentVerdict, ...]] = ("Pending", "Confirmed", "Warned", "Removed", "Orphaned")


class _Judge:
    """Evaluates the clusters of one placement."""

    def __init__(self, placement: JsonObject, content: ClusterContent, hub: Changed) -> None:
        self._placement = placement
        self._content = content
        self._hub = hub
        self._snapshots = hub.state.override_snapshots_by_key
        self._groups = {group.name: group for group in snapshot_groups(content.snapshots)}
        self._rules: dict[_OverrideKey, Sequence[ParsedOverrideRule]] = {}
        self._dropped: dict[tuple[str, tuple[_OverrideKey, ...]], frozenset[ObjectIdentity]] = {}
        self._placed_objects: dict[str, Mapping[ObjectIdentity, PlacedObject]] = {}

    def removals(self, binding: JsonObject) -> Iterator[tuple[ContentVerdict, frozenset[RemovalItem]]]:
        """Yield the objects that leave the cluster of a binding, by verdict."""
        spec, record = spec_of(binding), object_record(binding)
        if is_deleting(binding) or spec.get("state") != BindingState.BOUND:
            return
        cluster = text_at(spec, "targetCluster")
        overrides = self._content.overrides.get(cluster, NO_OVERRIDES)
        latest, earlier = self._content.group.name, self._content.earlier
        if earlier is None and not any(map(self._deletions, overrides.keys)):
            return
        dropped = self._dropped_objects(overrides, self._hub.state.fleet, cluster, latest)
        if earlier is not None:
            dropped |= self._placed(latest).keys() - self._placed(earlier.name).keys()
        leaving = dropped & {*self._present(spec, cluster), *(item.identity for item in record)}
        if not leaving:
            return
        placed, judgement = self._placed(self._content.group.name), self._judged(binding, leaving)
        items = {RemovalItem(RemovalEffect.OBJECT, identity, placed[identity].uid) for identity in leaving}
        removed = items.difference(judgement.pending, judgement.confirmed, judgement.warned)
        verdicts: tuple[tuple[ContentVerdict, Iterable[RemovalItem]], ...] = (
            ("Pending", judgement.pending),
            ("Confirmed", judgement.confirmed),
            ("Warned", judgement.warned),
            ("Removed", removed),
        )
        yield from ((verdict, frozenset(judged)) for verdict, judged in verdicts if judged)

    def _judged(self, binding: JsonObject, leaving: frozenset[ObjectIdentity]) -> LeavingJudgement:
        state, placement = self._hub.state, self._placement
        policy = state.removal.of(placement)
        if policy.is_off:
            return LeavingJudgement()
        spec = spec_of(binding)
        present = self._present(spec, text_at(spec, "targetCluster"))
        placed = self._placed(self._content.group.name)
        objects = LeavingObjects(present | leaving, leaving, placed, self._shown)
        groups = snapshot_groups(state.resource_snapshots_of(placement))
        exemptions = Exemptions.of(placement, groups, policy, partial(namespace_after, self._hub), state.now)
        return judge_leaving(policy, placement, binding, objects, exemptions, state.now)

    @cached_property
    def _shown(self) -> tuple[RemovalItem, ...]:
        state = self._hub.state
        return pending_items(state.resource_snapshots_of(self._placement), state.bindings_of(self._placement))

    def _present(self, spec: Mapping[str, Any], cluster: str) -> frozenset[ObjectIdentity]:
        """Return the objects that a cluster has now. Empty if a snapshot that its binding names is unknown."""
        overrides, group = Overrides.of(spec), self._groups.get(text_at(spec, "resourceSnapshotName"))
        if group is None or not all(key in self._snapshots for key in overrides.keys):
            return frozenset()
        dropped = self._dropped_objects(overrides, self._hub.former_fleet, cluster, group.name)
        return frozenset(self._placed(group.name)) - dropped

    def _dropped_objects(
        self, overrides: Overrides, fleet: Fleet, cluster: str, group: str
    ) -> frozenset[ObjectIdentity]:
        """Return the objects of a resource snapshot that overrides delete on a cluster."""
        member = member_document(fleet, cluster)
        deleting = () if member is None else tuple(self._deleting(overrides, member_labels(member)))
        if (key := (group, deleting)) not in self._dropped:
            targets = {target for name in deleting for target in selected_by(self._snapshots[name])}
            self._dropped[key] = frozenset(
                identity
                for identity, placed in (self._placed(group).items() if targets else ())
                if not targets.isdisjoint(selections_of(placed.content))
            )
        return self._dropped[key]

    def _deleting(self, overrides: Overrides, labels: Mapping[str, str]) -> Iterator[_OverrideKey]:
        """Yield the override snapshots with a rule of type Delete for a cluster with these labels."""
        for key in overrides.keys:
            if any(rule.holds_for(labels) for rule in self._deletions(key)):
                yield key

    def _deletions(self, key: _OverrideKey) -> Sequence[ParsedOverrideRule]:
        """Return the rules of type Delete of an override snapshot."""
        if key not in self._rules:
            self._rules[key] = deletion_rules(self._snapshots[key]) if key in self._snapshots else ()
        return self._rules[key]

    def _placed(self, group: str) -> Mapping[ObjectIdentity, PlacedObject]:
        """Return the objects of a resource snapshot."""
        if group not in self._placed_objects:
            self._placed_objects[group] = placed_objects(self._groups[group])
        return self._placed_objects[group]
