"""Overrides after changes to a hub: their snapshots, the clusters that they apply to, and the objects that they break.

The functions are those of the controllers, so that a plan names the same snapshots and repeats the same messages.

Source: docs/specifications/what-if.md 3; docs/specifications/rollout.md 6.
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Final

from scorer.api.family import FAMILIES, family_in
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject, dump_json
from scorer.api.names import MEMBER_NAME, PARENT_OVERRIDE
from scorer.api.unstructured.documents import is_deleting, label, labels_of, name_of, namespace_of, spec_of, text_at
from scorer.fleet import Fleet
from scorer.rollout.bindings import NO_OVERRIDES, Overrides, bound
from scorer.rollout.overrides.application import CLUSTER_NAME_VARIABLE
from scorer.rollout.overrides.matching import matching_overrides, overrides_by_cluster
from scorer.rollout.overrides.rules import ParsedOverrideRule, RulesError, read_rules
from scorer.rollout.snapshots.groups import SnapshotGroup
from scorer.rollout.snapshots.overrides import plan_override_snapshots, plan_retirement
from scorer.rollout.views.rendering import ContentSources, rendered
from scorer.rollout.works.plan import Placeable, WorkCause, WorkProblem
from scorer.rollout.writes import applied
from scorer.what_if.state import HubState, ObjectKey, identity_of

_IDENTITY_PATHS: Final = (b'"/metadata"', b'"/metadata/name', b'"/kind"', b'"/apiVersion"')
_OVERRIDE_KINDS = frozenset(family.override.group_kind for family in FAMILIES)


def snapshots_of_overrides(
    state: HubState, deleted: Collection[ObjectKey] = (), refused: Collection[ObjectKey] = ()
) -> list[JsonObject]:
    """Return the override snapshots that a hub will have once the controller has processed its overrides.

    Unused ones may already have been deleted then. No decision depends on them.

    Args:
        state: The hub.
        deleted: Deleted objects. The snapshots of deleted overrides remain for the bindings that name them.
        refused: Overrides whose snapshots the API server refuses.
    """
    by_place: dict[tuple[Kind, str], list[JsonObject]] = defaultdict(list)
    removed = {(item.namespace, item.name) for item in deleted if (item.group, item.kind) in _OVERRIDE_KINDS}
    removed |= {(namespace_of(item), name_of(item)) for item in state.overrides if is_deleting(item)}
    for snapshot in state.override_snapshots:
        namespace = namespace_of(snapshot)
        is_removed = (namespace, label(snapshot, PARENT_OVERRIDE)) in removed
        remaining = applied([snapshot], plan_retirement([snapshot])) if is_removed else [snapshot]
        by_place[family_in(namespace).override_snapshot, namespace] += remaining
    for override in sorted(state.overrides, key=identity_of):
        if not is_deleting(override) and identity_of(override) not in refused:
            place = family_in(namespace_of(override)).override_snapshot, namespace_of(override)
            by_place[place] = applied(by_place[place], plan_override_snapshots(override, by_place[place]).writes)
    return [snapshot for snapshots in by_place.values() for snapshot in snapshots]


def overrides_of_placement(
    state: HubState, placement: JsonObject, group: SnapshotGroup, clusters: Iterable[str]
) -> Mapping[str, Overrides]:
    """Return the override lists of a placement by cluster. A cluster that is missing has none.

    Args:
        state: The hub.
        placement: The placement.
        group: The objects that it places.
        clusters: Names of member clusters. Unknown ones have no overrides.
    """
    snapshots = state.override_snapshots_for(placement)
    if not snapshots:
        return {}
    matching = matching_overrides(placement, group, snapshots)
    members = {name: member for name in clusters if (member := member_document(state.fleet, name)) is not None}
    return overrides_by_cluster(matching, members).by_cluster if matching else {}


def deletion_rules(snapshot: JsonObject) -> Sequence[ParsedOverrideRule]:
    """Return the rules of type Delete of an override snapshot. Empty if its rules are invalid."""
    rules = read_rules(snapshot)
    return () if isinstance(rules, RulesError) else [rule for rule in rules if rule.deletes]


def member_document(fleet: Fleet, name: str) -> JsonObject | None:
    """Return the part of a MemberCluster that overrides read, or None if there is no such member."""
    member = fleet.member(name)
    return None if member is None else {"metadata": {"name": name, "labels": dict(member.metadata.labels)}}


def work_problems(
    state: HubState,
    bindings: Sequence[JsonObject],
    group: SnapshotGroup,
    overrides: Mapping[str, Overrides],
) -> Mapping[str, WorkProblem]:
    """Return why clusters would not get their Works, by cluster. Clusters without a lasting problem are missing.

    Args:
        state: The hub.
        bindings: The bindings that get new content or overrides.
        group: That content.
        overrides: The override lists by cluster. A cluster that is missing has none.
    """
    problems: dict[str, WorkProblem] = {}
    snapshots = state.override_snapshots_by_key
    renderable: set[Hashable] = set()
    for binding in bindings:
        cluster = text_at(spec_of(binding), "targetCluster")
        applicable = overrides.get(cluster, NO_OVERRIDES)
        applied_snapshots = [snapshots[key] for key in applicable.keys if key in snapshots]
        member = member_document(state.fleet, cluster) or {"metadata": {"name": cluster}}
        alike = _alike(applicable, member, applied_snapshots)
        if alike in renderable:
            continue
        sources = ContentSources(bound(binding, group.name, applicable), member, group.documents, applied_snapshots)
        problem = rendered(sources, placeable=Placeable(state.kinds)).problem
        if problem is None:
            renderable.add(alike)
        elif problem.cause is not WorkCause.NOT_YET:
            problems[cluster] = problem
    return problems


def _alike(applicable: Overrides, member: JsonObject, snapshots: Iterable[JsonObject]) -> Hashable:
    """Return a key that clusters share if their objects can be made on all of them or on none of them.

    Rendering a thousand clusters one by one takes a second. Only labels tell clusters apart, unless an override selects
    clusters by name, or may give an object the name of a cluster.
    """
    if any(_needs_name(snapshot) for snapshot in snapshots):
        return applicable, name_of(member)
    return applicable, frozenset(labels_of(member).items())


def _needs_name(snapshot: JsonObject) -> bool:
    text = dump_json(spec_of(snapshot))
    return MEMBER_NAME.encode() in text or (
        CLUSTER_NAME_VARIABLE.encode() in text and any(path in text for path in _IDENTITY_PATHS)
    )
