"""Namespaces that placements create on members, where ResourcePlacements in these namespaces can then be scheduled.

The agent of a member reports its namespaces. Its next report has the namespaces that placements put on the member, and
lacks those that they remove.

Source: docs/specifications/what-if.md 10; docs/specifications/scheduling.md 10.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.kinds import NAMESPACE, group_kind
from scorer.api.meta import JsonObject
from scorer.api.placement.placement import SelectionScope
from scorer.api.unstructured.documents import dict_at, dicts_at, is_deleting, name_of, namespace_of, text_at
from scorer.fleet import Fleet, collects_namespaces
from scorer.placement.binding_plan import BrokenBindingError
from scorer.rollout.bindings import pending_reason
from scorer.rollout.confirmation.deletion import DeletionVerdict
from scorer.rollout.overrides.matching import selected_by
from scorer.rollout.overrides.rules import member_labels
from scorer.rollout.removal.deletion import leaves_objects
from scorer.rollout.selection.selector import DocumentInventory, InvalidSelection, is_namespace, select_resources
from scorer.rollout.snapshots.groups import SnapshotGroup, snapshot_groups
from scorer.what_if.changed import Changed
from scorer.what_if.cluster_removals import ClusterContent, pending_objects
from scorer.what_if.content import content_to_roll_out
from scorer.what_if.overrides import deletion_rules, member_document, overrides_of_placement
from scorer.what_if.removals import judged_deletion
from scorer.what_if.scheduling import scheduled
from scorer.what_if.state import HubState, ObjectKey, identity_of

_UNKNOWN: Final[JsonObject] = {}


def fleet_with_namespaces(former: HubState, hub: Changed) -> Fleet:
    """Return the fleet of a hub after the next reports of namespaces, see the module.

    Only the namespaces of ResourcePlacements matter, and only members that collect namespaces. A placement with type
    External adds none: a run rolls it out.

    Args:
        former: The hub before the changes.
        hub: The hub after the changes.
    """
    state = hub.state
    homes = {namespace_of(placement) for placement in state.placements} - {""}
    if not homes:
        return state.fleet
    collecting = {member.metadata.name: member for member in state.fleet.members if collects_namespaces(member)}
    if not collecting:
        return state.fleet
    additions: defaultdict[str, set[str]] = defaultdict(set)
    namespaces = DocumentInventory(_namespaces(homes, hub.objects))
    for placement in state.placements:
        selected = _selected(placement, namespaces, state)
        if not selected:
            continue
        deletions = _NamespaceDeletions(state.override_snapshots_for(placement), state.fleet)
        for cluster in _clusters(state, placement):
            additions[cluster] |= selected - deletions.on(cluster)
    losses = _losses(former, hub, homes, additions)
    members = [
        new
        for name, member in collecting.items()
        if (new := _with_namespaces(member, additions[name], losses[name])) is not member
    ]
    return state.fleet.updated(members) if members else state.fleet


class _NamespaceDeletions:
    """The rules of override snapshots that delete namespaces."""

    def __init__(self, snapshots: Iterable[JsonObject], fleet: Fleet) -> None:
        self._fleet = fleet
        self._rules = [
            (rules, names)
            for snapshot in snapshots
            if (rules := deletion_rules(snapshot)) and (names := _namespaces_selected_by(snapshot))
        ]

    def on(self, cluster: str) -> set[str]:
        """Return the namespaces that they delete on a cluster."""
        if not self._rules or (member := member_document(self._fleet, cluster)) is None:
            return set()
        labels = member_labels(member)
        return {name for rules, names in self._rules if any(rule.holds_for(labels) for rule in rules) for name in names}


def _namespaces_selected_by(snapshot: JsonObject) -> set[str]:
    return {
        target.name
        for target in selected_by(snapshot)
        if not target.namespace and (target.group, target.kind) == NAMESPACE.group_kind
    }


def _losses(
    former: HubState, hub: Changed, homes: set[str], additions: Mapping[str, set[str]]
) -> defaultdict[str, set[str]]:
    """Return the namespaces that clusters have now, and that their placements remove from them."""
    losses: defaultdict[str, set[str]] = defaultdict(set)
    remaining: defaultdict[str, set[str]] = defaultdict(set)
    placements = {identity_of(placement): placement for placement in hub.state.placements}
    for placement in former.placements:
        present = {} if namespace_of(placement) else _present(former, placement, homes)
        leaving = {
            cluster: lost for cluster, names in present.items() if (lost := names - additions.get(cluster, set()))
        }
        if not leaving:
            continue
        new = placements.get(identity_of(placement))
        judge, document = (_kept, new or placement) if new is None or is_deleting(new) else (_remaining, new)
        kept = judge(document, hub, leaving)
        for cluster, names in leaving.items():
            losses[cluster] |= names
            remaining[cluster] |= kept.get(cluster, set())
    for cluster, names in remaining.items():
        losses[cluster] -= names
    return losses


def _present(state: HubState, placement: JsonObject, homes: set[str]) -> dict[str, set[str]]:
    """Return the namespaces that a placement has put on clusters."""
    names = {
        group.name: homes & _namespaces_in(group) for group in snapshot_groups(state.resource_snapshots_of(placement))
    }
    present: dict[str, set[str]] = {}
    for binding in state.bindings_of(placement) if any(names.values()) else ():
        spec = dict_at(binding, "spec")
        present.setdefault(text_at(spec, "targetCluster"), set()).update(
            names.get(text_at(spec, "resourceSnapshotName"), ())
        )
    return present


def _namespaces_in(group: SnapshotGroup) -> set[str]:
    contents = chain.from_iterable(dicts_at(document, "spec", "selectedResources") for document in group.documents)
    return {name_of(content) for content in contents if group_kind(content) == NAMESPACE.group_kind}


def _kept(placement: JsonObject, hub: Changed, leaving: Mapping[str, set[str]]) -> Mapping[str, set[str]]:
    """Return the namespaces that a deleted placement does not remove."""
    verdict = judged_deletion(placement, hub).verdict
    remains = leaves_objects(placement) or verdict in (DeletionVerdict.PENDING, DeletionVerdict.ABANDONED)
    return leaving if remains else {}


def _remaining(placement: JsonObject, hub: Changed, leaving: Mapping[str, set[str]]) -> Mapping[str, set[str]]:
    """Return the namespaces that a placement keeps on clusters, also those whose removal is pending.

    Args:
        placement: As it would be stored.
        hub: The hub after the changes.
        leaving: The namespaces that it no longer puts on clusters.
    """
    state = hub.state
    if text_at(placement, "spec", "strategy", "type") == "External":
        return leaving
    try:
        bindings = scheduled(state, placement).bindings
    except BrokenBindingError:
        return leaving
    content = content_to_roll_out(placement, bindings, hub)
    if content.group is None or content.waits:
        return leaving
    placed = _namespaces_in(content.group)
    clusters = [text_at(binding, "spec", "targetCluster") for binding in bindings]
    overrides = overrides_of_placement(state, placement, content.group, clusters) if hub.overrides_known else {}
    on_clusters = ClusterContent(content.snapshots, content.group, overrides)
    deletions = _NamespaceDeletions(state.override_snapshots_for(placement), state.fleet)
    remaining: defaultdict[str, set[str]] = defaultdict(set)
    for binding, cluster in zip(bindings, clusters, strict=True):
        if pending_reason(binding) is not None:
            remaining[cluster] |= leaving.get(cluster, set())
        elif dict_at(binding, "spec").get("state") in ("Scheduled", "Bound") and not is_deleting(binding):
            deleted = deletions.on(cluster)
            pending = pending_objects(placement, binding, on_clusters, hub) if deleted & placed else ()
            remaining[cluster] |= placed - deleted | {name for _, kind, _, name in pending if kind == NAMESPACE.kind}
    return remaining


def _namespaces(homes: set[str], content: Mapping[ObjectKey, JsonObject | None]) -> Iterator[JsonObject]:
    """Yield the namespaces *homes* of ResourcePlacements, except deleted ones. Unknown ones are assumed to exist."""
    for home in sorted(homes):
        namespace = content.get(ObjectKey(*NAMESPACE.group_kind, home), _UNKNOWN)
        if namespace is not None:
            yield namespace or {"apiVersion": "v1", "kind": NAMESPACE.kind, "metadata": {"name": home}}


def _selected(placement: JsonObject, namespaces: DocumentInventory, state: HubState) -> set[str]:
    """Return the namespaces that a placement selects, without their content."""
    if (
        namespace_of(placement)
        or is_deleting(placement)
        or text_at(placement, "spec", "strategy", "type") == "External"
    ):
        return set()
    terms: list[Any] = [
        {**term, "selectionScope": str(SelectionScope.NAMESPACE_ONLY)}
        for term in dicts_at(placement, "spec", "resourceSelectors")
        if is_namespace(term)
    ]
    selection = select_resources(terms, "", namespaces, state.kinds)
    return set() if isinstance(selection, InvalidSelection) else set(map(name_of, selection.objects))


def _clusters(state: HubState, placement: JsonObject) -> Iterator[str]:
    try:
        bindings = scheduled(state, placement).bindings
    except BrokenBindingError:
        return
    for binding in bindings:
        if dict_at(binding, "spec").get("state") in ("Scheduled", "Bound") and not is_deleting(binding):
            yield text_at(binding, "spec", "targetCluster")


def _with_namespaces(member: MemberCluster, additions: set[str], losses: set[str]) -> MemberCluster:
    """Return a member after its next report. A namespace that no Work created remains."""
    reported = member.status.namespaces or {}
    remaining = {name: work for name, work in reported.items() if name not in losses or not work}
    namespaces = {**dict.fromkeys(sorted(additions), ""), **remaining}
    if namespaces.keys() == reported.keys():
        return member
    status = member.status.model_copy(update={"namespaces": namespaces})
    return member.model_copy(update={"status": status})
