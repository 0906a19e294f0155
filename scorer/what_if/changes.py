"""The hub after the changes, before any controller reacts to them.

Source: docs/specifications/rollout.md 19 and 21.2; KubeFleet tools/fleet, draincluster.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from scorer.api.cluster.member_cluster import CORDON, MemberCluster
from scorer.api.family import FAMILIES
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, MEMBER_CLUSTER, NAMESPACE, group_kind
from scorer.api.meta import JsonObject, format_time, without_nulls
from scorer.api.names import SNAPSHOT_REFUSED
from scorer.api.unstructured.documents import (
    annotation,
    dicts_at,
    generation_of,
    is_deleting,
    metadata_of,
    name_of,
    namespace_of,
    spec_of,
    text_at,
)
from scorer.fleet import Fleet
from scorer.rollout.bindings import BindingView, views
from scorer.rollout.removal.eviction import (
    Eviction,
    EvictionReason,
    decide_eviction,
    is_finished,
    judge_eviction,
)
from scorer.rollout.snapshots.overrides import awaited_override_snapshots, snapshot_obstacle
from scorer.what_if.changed import Changed, Evicted
from scorer.what_if.namespaces import fleet_with_namespaces
from scorer.what_if.overrides import snapshots_of_overrides
from scorer.what_if.planned import PlannedFleet
from scorer.what_if.state import FIELDS, HubState, HypotheticalChanges, ObjectKey, identity_of

_BINDING_KINDS: Final = tuple(family.binding.group_kind for family in FAMILIES)


def apply_changes(state: HubState, changes: HypotheticalChanges) -> Changed:
    """Return *state* after *changes*. Names that do not exist on the hub are ignored."""
    fleet, report = _fleet_after(state, changes)
    content: dict[ObjectKey, JsonObject | None] = {}
    overrides: dict[str, dict[ObjectKey, JsonObject]] = {}
    for document in changes.objects:
        if (name := FIELDS.get(group_kind(document))) is not None:
            overrides.setdefault(name, {})[identity_of(document)] = document
        else:
            content[identity_of(document)] = document
    deletions: dict[str, set[ObjectKey]] = {}
    for identity in changes.deleted:
        if (name := FIELDS.get((identity.group, identity.kind))) is not None:
            deletions.setdefault(name, set()).add(identity)
        elif (identity.group, identity.kind) != MEMBER_CLUSTER.group_kind:
            content[identity] = None
    changed: dict[str, Any] = {
        name: _overlaid(getattr(state, name), overrides.get(name, {}), deletions.get(name, set()), state)
        for name in overrides.keys() | deletions.keys()
    }
    new_state = replace(state, fleet=fleet, **changed)
    overrides_known = state.overrides_complete or bool(
        state.overrides or state.override_snapshots or new_state.overrides
    )
    unsnapshotted: list[JsonObject] = []
    if overrides_known:
        refused = _refused(state.overrides, new_state.overrides)
        snapshots = snapshots_of_overrides(new_state, changes.deleted, refused)
        new_state = replace(new_state, override_snapshots=snapshots)
        remaining = [
            override
            for override in new_state.overrides
            if snapshot_obstacle(name_of(override)) or identity_of(override) in refused
        ]
        unsnapshotted = awaited_override_snapshots(remaining, snapshots)
    evictions = _Evictions(new_state)
    for cluster in changes.drained:
        evictions.drain(cluster)
    for eviction in new_state.evictions:
        if not (is_finished(eviction) or is_deleting(eviction)):
            evictions.evict(eviction)
    if evictions.outcomes:
        new_state = replace(new_state, bindings=evictions.bindings())
    reselecting = frozenset(_reselecting(state.placements, overrides.get("placements", {})))
    hub = Changed(
        new_state, state.fleet, evictions.outcomes, report, content, overrides_known, unsnapshotted, reselecting
    )
    reported = fleet_with_namespaces(state, hub)
    return hub if reported is fleet else replace(hub, state=replace(new_state, fleet=reported))


def unchanged(state: HubState) -> Changed:
    """Return a hub without changes, except for those that its controllers are about to make."""
    return apply_changes(state, HypotheticalChanges())


def _refused(before: Iterable[JsonObject], after: Iterable[JsonObject]) -> frozenset[ObjectKey]:
    """Return the overrides whose spec is unchanged since the API server refused a snapshot with that spec."""
    specs = {identity_of(override): spec_of(override) for override in before if annotation(override, SNAPSHOT_REFUSED)}
    return frozenset(key for override in after if specs.get(key := identity_of(override)) == spec_of(override))


def with_dependent_objects(state: HubState, changes: HypotheticalChanges) -> HypotheticalChanges:
    """Return *changes* that also delete the objects in deleted namespaces, except objects that they write.

    The same applies to the objects of a kind whose CustomResourceDefinition is deleted. Objects that are only known
    from resource snapshots are included. Bindings and snapshots are not: they are deleted with their placement.
    """
    names = {item.name for item in changes.deleted if (item.group, item.kind) == NAMESPACE.group_kind}
    definitions = {
        item.name for item in changes.deleted if (item.group, item.kind) == CUSTOM_RESOURCE_DEFINITION.group_kind
    }
    kinds = {kind.group_kind for kind in state.kinds.values() if f"{kind.plural}.{kind.group}" in definitions}
    if not (names or kinds):
        return changes
    documents = chain(
        *(state.placements, state.runs, state.strategies, state.approval_requests, state.overrides),
        state.content(),
        *(dicts_at(snapshot, "spec", "selectedResources") for snapshot in state.resource_snapshots),
    )
    identities = {
        identity_of(document)
        for document in documents
        if namespace_of(document) in names or group_kind(document) in kinds
    }
    written = set(map(identity_of, changes.objects))
    return replace(changes, deleted=changes.deleted | (identities - written))


def _reselecting(placements: Iterable[JsonObject], changes: Mapping[ObjectKey, JsonObject]) -> Iterator[ObjectKey]:
    for placement in placements:
        key = identity_of(placement)
        if key in changes and _selectors(placement) != _selectors(changes[key]):
            yield key


def _selectors(placement: JsonObject) -> Sequence[JsonObject]:
    terms = without_nulls(spec_of(placement).get("resourceSelectors") or [])
    return [{"selectionScope": "NamespaceWithResources", **term} for term in terms]


def _fleet_after(state: HubState, changes: HypotheticalChanges) -> tuple[Fleet, PlannedFleet]:
    old_fleet = state.fleet
    members = {member.metadata.name: member for member in changes.members}
    report: PlannedFleet = {
        "gained": sorted(name for name in members if old_fleet.row(name) is None),
        "changed": sorted(name for name, member in members.items() if old_fleet.member(name) not in (None, member)),
        "lost": [],
        "drained": sorted(changes.drained),
    }
    leaving_names = [
        identity.name
        for identity in changes.deleted
        if (identity.group, identity.kind) == MEMBER_CLUSTER.group_kind and old_fleet.row(identity.name) is not None
    ]
    for name in leaving_names:
        member = members.get(name) or old_fleet.member(name)
        assert member is not None
        if member.metadata.deletion_timestamp is None:
            metadata = member.metadata.model_copy(update={"deletion_timestamp": state.now})
            members[name] = member.model_copy(update={"metadata": metadata})
    for name in changes.drained:
        if (drained := members.get(name) or old_fleet.member(name)) is not None:
            members[name] = _cordon(drained)
    report["lost"] = sorted({*changes.lost, *leaving_names})
    if not members and not changes.lost:
        return old_fleet, report
    return old_fleet.updated(members.values(), changes.lost), report


def _cordon(member: MemberCluster) -> MemberCluster:
    if any(taint.key == CORDON.key for taint in member.spec.taints):
        return member
    spec = member.spec.model_copy(update={"taints": (*member.spec.taints, CORDON)})
    return member.model_copy(update={"spec": spec})


def _overlaid(
    documents: Iterable[JsonObject],
    overrides: Mapping[ObjectKey, JsonObject],
    deletions: set[ObjectKey],
    state: HubState,
) -> list[JsonObject]:
    """Return *documents*, with those in *overrides* replaced or appended and those in *deletions* removed.

    Bindings in *deletions* are kept with a deletion timestamp, because their finalizers keep them until the
    controllers are done.
    """
    additions = dict(overrides)
    result = []
    for document in documents:
        identity = identity_of(document)
        if identity in deletions:
            if (identity.group, identity.kind) in _BINDING_KINDS:
                result.append(_mark_deleted(document, state))
        else:
            result.append(additions.pop(identity, document))
    return [*result, *additions.values()]


def _mark_deleted(document: JsonObject, state: HubState) -> JsonObject:
    """Return the object with a deletionTimestamp and a higher generation, as the API server sets them."""
    if is_deleting(document):
        return document
    mark = {"deletionTimestamp": format_time(state.now), "generation": generation_of(document) + 1}
    return {**document, "metadata": {**metadata_of(document), **mark}}


class _Evictions:
    """Evicts placements one after another, as the controller does.

    An evicted binding still counts, as unavailable, which is the state right after its eviction. A user who waits until
    the binding is deleted may succeed with more evictions.
    """

    def __init__(self, state: HubState) -> None:
        self._state = state
        self._bindings: dict[tuple[str, str], list[JsonObject]] = {}
        self._placements = {(namespace_of(item), name_of(item)): item for item in state.placements}
        self.outcomes: dict[tuple[str, str], list[Evicted]] = {}

    def drain(self, cluster: str) -> None:
        """Evict every placement from a cluster, in the order of their names."""
        for place, placement in sorted(self._placements.items()):
            bindings = self._bindings_of(place)
            if not any(spec_of(document).get("targetCluster") == cluster for document in bindings):
                continue
            outcome = _not_for_resource_placements()
            if not place[0]:
                outcome = judge_eviction(placement, cluster, _readable(bindings), self._state.budget_of(placement))
            self._record(place, Evicted(cluster, outcome))

    def evict(self, eviction: JsonObject) -> None:
        """Carry out an eviction that has no outcome yet."""
        place = "", text_at(spec_of(eviction), "placementName")
        cluster, placement = text_at(spec_of(eviction), "clusterName"), self._placements.get(place)
        bindings = self._bindings_of(place)
        try:
            budget = None if placement is None else self._state.budget_of(placement)
            outcome = decide_eviction(eviction, placement, bindings, budget)
        except ValueError:  # planning the placement reports which binding is broken
            return
        self._record(place, Evicted(cluster, outcome, name_of(eviction)))

    def bindings(self) -> list[JsonObject]:
        """Return all bindings of the hub, evicted ones with a deletion mark."""
        marked = {identity_of(document): document for documents in self._bindings.values() for document in documents}
        return [marked.get(identity_of(binding), binding) for binding in self._state.bindings]

    def _bindings_of(self, place: tuple[str, str]) -> list[JsonObject]:
        if place not in self._bindings:
            namespace, name = place
            metadata = {"name": name, "namespace": namespace}
            self._bindings[place] = list(self._state.bindings_of({"metadata": metadata}))
        return self._bindings[place]

    def _record(self, place: tuple[str, str], evicted: Evicted) -> None:
        if evicted.eviction.executed:
            self._bindings[place] = [
                _mark_deleted(binding, self._state) if name_of(binding) == evicted.eviction.binding else binding
                for binding in self._bindings[place]
            ]
        self.outcomes.setdefault(place, []).append(evicted)


def _readable(documents: Sequence[JsonObject]) -> list[BindingView]:
    try:
        return views(documents)
    except ValueError:  # planning the placement reports which binding is broken
        return []


def _not_for_resource_placements() -> Eviction:
    return Eviction("", EvictionReason.INVALID, "only ClusterResourcePlacements can be evicted")


def binding_states(bindings: Iterable[Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    """Return the bindings that hold a cluster, scheduled or bound and not being deleted, by cluster."""
    return {
        str(spec_of(binding).get("targetCluster")): binding
        for binding in bindings
        if spec_of(binding).get("state") in ("Scheduled", "Bound") and not is_deleting(binding)
    }
