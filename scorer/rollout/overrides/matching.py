"""Override snapshots that apply to the objects of a placement, and the member clusters where they apply.

An override whose rules cannot be read counts as matching every cluster: the binding then names it, and its status
reports why it cannot be applied, where a user will see it. Ignoring it would place the objects unchanged, without a
warning.

Source: docs/specifications/rollout.md 6.2 and 6.3; KubeFleet pkg/utils/overrider.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from scorer.api.kinds import KINDS, NAMESPACE, NAMESPACED_ENVELOPE, Kind, split_api_version
from scorer.api.meta import JsonObject
from scorer.api.names import IGNORE_RESOURCE_OVERRIDES, PARENT_OVERRIDE, SNAPSHOT_REFUSED
from scorer.api.placement.override import PlacementScope
from scorer.api.unstructured.documents import annotation, dict_at, dicts_at, label, name_of, namespace_of
from scorer.api.values.quoting import printable, shortened
from scorer.rollout.bindings import NO_OVERRIDES, Overrides
from scorer.rollout.envelopes import EnvelopeError, unwrap
from scorer.rollout.overrides.rules import RulesError, describe_override, member_labels, override_spec, read_rules
from scorer.rollout.snapshots.groups import SnapshotGroup
from scorer.rollout.snapshots.overrides import latest_override_snapshots, snapshot_obstacle
from scorer.rollout.snapshots.resources import is_envelope

LONGEST_REFUSAL: Final = 1000
"""Maximum length of the reason for a refused snapshot, in characters."""
_MOST_NAMED: Final = 3
"""Maximum number of overrides that a message names."""


class OverrideTarget(NamedTuple):
    """Target of an override's selector. *namespace* is that of a ResourceOverride, else empty."""

    namespace: str
    group: str
    version: str
    kind: str
    name: str


def selected_by(snapshot: JsonObject) -> Iterator[OverrideTarget]:
    """Yield the targets of an override snapshot."""
    return selected_in(override_spec(snapshot), namespace_of(snapshot))


def selected_in(spec: Mapping[str, Any], namespace: str) -> Iterator[OverrideTarget]:
    """Yield the targets of the ``spec`` of an override in *namespace*, which is empty for a ClusterResourceOverride."""
    for selector in dicts_at(spec, "resourceSelectors" if namespace else "clusterResourceSelectors"):
        group, version, kind, name = (str(selector.get(key) or "") for key in ("group", "version", "kind", "name"))
        yield OverrideTarget(namespace, group, version, kind, name)


def selections_of(content: JsonObject) -> tuple[OverrideTarget, ...]:
    """Return the selections that match an object, ClusterResourceOverrides first.

    A selector for a cluster-scoped object names the object. A selector for a namespaced object names its Namespace, or,
    in a ResourceOverride, the object.
    """
    group, version = split_api_version(str(content.get("apiVersion") or ""))
    kind, name, namespace = str(content.get("kind") or ""), name_of(content), namespace_of(content)
    if not namespace:
        return (OverrideTarget("", group, version, kind, name),)
    return by_namespace(namespace), OverrideTarget(namespace, group, version, kind, name)


def by_namespace(namespace: str) -> OverrideTarget:
    """Return the target of a ClusterResourceOverride that selects everything in a namespace."""
    return OverrideTarget("", NAMESPACE.group, NAMESPACE.versions[0], NAMESPACE.kind, namespace)


def placement_key(override: Mapping[str, Any], namespace: str) -> str:
    """Return the key of the placement that an override is for: ``name`` or ``namespace/name``, empty for any placement.

    Args:
        override: ``spec`` of the override.
        namespace: Namespace of the override, empty for a ClusterResourceOverride.
    """
    placement = override.get("placement")
    if not placement:
        return ""
    name = str(placement.get("name") or "")
    return f"{namespace}/{name}" if placement.get("scope") == PlacementScope.NAMESPACED else name


def ignores_resource_overrides(placement: JsonObject) -> bool:
    """Return whether a ClusterResourcePlacement has opted out of the ResourceOverrides of namespaces."""
    return not namespace_of(placement) and annotation(placement, IGNORE_RESOURCE_OVERRIDES) == "true"


def matching_overrides(
    placement: JsonObject,
    group: SnapshotGroup,
    snapshots: Iterable[JsonObject],
    *,
    kinds: Mapping[tuple[str, str], Kind] = KINDS,
) -> list[JsonObject]:
    """Return the override snapshots that apply to a placement's objects, in the order of application.

    Args:
        placement: ClusterResourcePlacement or ResourcePlacement. See `ignores_resource_overrides`.
        group: The objects that it places.
        snapshots: Override snapshots of both kinds. Only the latest of each override counts.
        kinds: The known kinds, for the scope of objects in envelopes.
    """
    key = f"{namespace_of(placement)}/{name_of(placement)}" if namespace_of(placement) else name_of(placement)
    cluster_wide_only = ignores_resource_overrides(placement)
    matching_snapshots = [
        snapshot
        for snapshot in latest_override_snapshots(snapshots)
        if placement_key(override_spec(snapshot), namespace_of(snapshot)) in ("", key)
        and not (cluster_wide_only and namespace_of(snapshot))
    ]
    if not matching_snapshots:
        return []
    selections = set(placed_targets(group.objects(), kinds))
    return [snapshot for snapshot in matching_snapshots if not selections.isdisjoint(selected_by(snapshot))]


def describe_awaited(awaited: Sequence[JsonObject]) -> str:
    """Return a message about the snapshots that a rollout waits for. Empty: nothing.

    Args:
        awaited: Result of `awaited_override_snapshots`.
    """
    descriptions = [_describe_awaited(snapshot) for snapshot in awaited[:_MOST_NAMED]]
    more = f" and {len(awaited) - _MOST_NAMED} more" if len(awaited) > _MOST_NAMED else ""
    return f"waits for the snapshot of {', '.join(descriptions)}{more}" if awaited else ""


def _describe_awaited(snapshot: JsonObject) -> str:
    obstacle = snapshot_obstacle(label(snapshot, PARENT_OVERRIDE)) or annotation(snapshot, SNAPSHOT_REFUSED)
    # The annotation can be up to 256 KiB long, if a user has written it. A condition with more than 32 KiB is refused.
    reason = shortened(printable(obstacle), LONGEST_REFUSAL)
    return f"{describe_override(snapshot)} ({reason})" if obstacle else describe_override(snapshot)


def placed_targets(
    objects: Iterable[JsonObject], kinds: Mapping[tuple[str, str], Kind] = KINDS
) -> Iterator[OverrideTarget]:
    """Yield the selections that match placed objects.

    For an envelope, they are those of its content. A ResourceEnvelope is also selected by its Namespace, even if its
    content cannot be placed.
    """
    for content in objects:
        if not is_envelope(content):
            yield from selections_of(content)
            continue
        if content.get("kind") == NAMESPACED_ENVELOPE.kind:
            yield by_namespace(namespace_of(content))
        for inner in _wrapped_objects(content, kinds):
            yield from selections_of(inner)


def _wrapped_objects(envelope: JsonObject, kinds: Mapping[tuple[str, str], Kind]) -> Iterator[JsonObject]:
    """Yield the objects in an envelope that can be placed. The work generator reports the others."""
    for entry, content in dict_at(envelope, "data").items():
        objects = unwrap({**envelope, "data": {entry: content}}, kinds)
        if not isinstance(objects, EnvelopeError):
            yield from objects


@dataclass(frozen=True, slots=True)
class ClusterOverrides:
    """The override lists that the bindings of a placement should hold.

    Args:
        by_cluster: Overrides by cluster, for `scorer.rollout.planner.plan_rollout`. Clusters without overrides are
            omitted.
        missing: Clusters without a MemberCluster, whose overrides cannot be determined. Retry later.
    """

    by_cluster: Mapping[str, Overrides]
    missing: tuple[str, ...] = ()


def overrides_by_cluster(matching: Sequence[JsonObject], members: Mapping[str, JsonObject | None]) -> ClusterOverrides:
    """Return the override snapshots that apply on each cluster.

    Args:
        matching: Result of `matching_overrides`.
        members: MemberClusters by name, None for one that does not exist.
    """
    if not matching:
        return ClusterOverrides({})
    rules_by_snapshot = [(snapshot, read_rules(snapshot)) for snapshot in matching]
    by_cluster: dict[str, Overrides] = {}
    for cluster, member in sorted(members.items()):
        if member is None:
            continue
        labels = member_labels(member)
        applicable = [
            snapshot
            for snapshot, rules in rules_by_snapshot
            if isinstance(rules, RulesError) or any(rule.holds_for(labels) for rule in rules)
        ]
        cluster_wide = tuple(name_of(snapshot) for snapshot in applicable if not namespace_of(snapshot))
        namespaced_names = tuple(
            (namespace_of(snapshot), name_of(snapshot)) for snapshot in applicable if namespace_of(snapshot)
        )
        if (overrides := Overrides(cluster_wide, namespaced_names)) != NO_OVERRIDES:
            by_cluster[cluster] = overrides
    return ClusterOverrides(by_cluster, tuple(sorted(name for name, member in members.items() if member is None)))
