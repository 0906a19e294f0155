"""Node classes of a cluster, and a cluster with changed classes, whose nodes drift.

The provider's hash covers Go values and is not computed here. A change of a hashed field replaces the hash of the
class, and claims without a hash are assumed to match today's class.

Source: docs/specifications/nodepool-disruption.md 3.6.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from scorer.api.kinds import group_kind
from scorer.api.meta import JsonObject
from scorer.api.node_class import (
    AKS_NODE_CLASS,
    SUBNET,
    ChangedFields,
    changed_fields,
    is_read,
    migrates_subnet,
)
from scorer.api.node_pool import NodePool
from scorer.api.unstructured.documents import spec_of
from scorer.node_disruption.cluster.snapshot import ClassKey, ClusterNode, ClusterSnapshot, NodeClassState, key_of

MIGRATION: Final = "changes between valid subnets, which AKS does not support: check the CIDR ranges"
"""Message about a change of ``vnetSubnetID``. Source: seed 002."""


def class_key(pool: NodePool) -> ClassKey:
    """Return the class that a pool names."""
    reference = pool.spec.template.spec.node_class_ref
    return reference.group, reference.kind, reference.name


_NAMED: Final = 5
"""Maximum number of nodes that a note names."""


@dataclass(frozen=True, slots=True)
class ClassChange:
    """A change of a class of the cluster.

    Args:
        key: The class.
        fields: The changed fields.
        pools: Pools that name it, sorted.
        nodes: Their nodes, sorted.
        migration: Whether it moves nodes from one valid subnet to another.
    """

    key: ClassKey
    fields: ChangedFields
    pools: Sequence[str] = ()
    nodes: Sequence[str] = ()
    migration: bool = False

    def notes(self) -> Iterable[str]:
        """Yield notes on effects that a simulation cannot show."""
        title = f"{self.key[1]} {self.key[2]}"
        if self.migration:
            yield f"{title}: spec.{SUBNET} {MIGRATION}. {_nodes(self.nodes)}"
        if self.fields.resolved:
            names = _paths(self.fields.resolved)
            yield f"{title}: {names} changed. Nodes that no longer match will drift: only the provider knows which"
        if self.fields.unknown:
            names = _paths(self.fields.unknown)
            yield f"{title}: {names} changed. Whether that drifts nodes is unknown"


def class_change(old: JsonObject, new: JsonObject, pools: Iterable[str] = (), nodes: Iterable[str] = ()) -> ClassChange:
    """Compare two versions of a class."""
    kind = group_kind(new)
    fields = changed_fields(kind, spec_of(old), spec_of(new))
    migration = kind == AKS_NODE_CLASS.group_kind and migrates_subnet(old, new)
    return ClassChange(key_of(new), fields, sorted(pools), sorted(nodes), migration)


def with_classes(
    cluster: ClusterSnapshot, changed: Iterable[JsonObject]
) -> tuple[ClusterSnapshot, tuple[ClassChange, ...], tuple[str, ...]]:
    """Return the cluster with changed classes, the changes, and notes about effects that cannot be predicted.

    Args:
        cluster: The cluster, with today's classes in its pools.
        changed: Documents of the classes. Other documents are ignored.
    """
    users: dict[ClassKey, list[str]] = {}
    for name, pool in cluster.pools.items():
        users.setdefault(class_key(pool.model), []).append(name)
    changes, notes = list[ClassChange](), list[str]()
    for document in changed:
        key = key_of(document)
        pools = users.get(key, [])
        if not pools:
            if is_read(key[:2]):
                notes.append(f"{key[1]} {key[2]} is not used by a NodePool of the dump")
            continue
        today = cluster.pools[pools[0]].node_class
        if today is None:
            notes.append(f"{key[1]} {key[2]} is not in the dump, so the drift caused by its changes is unknown")
            continue
        nodes = [name for name, node in cluster.nodes.items() if node.pool in pools]
        change = class_change(today.document, document, pools, nodes)
        notes += change.notes()
        changes.append(change)
        cluster = _with_class(cluster, today, change)
    return cluster, tuple(changes), tuple(notes)


def _with_class(cluster: ClusterSnapshot, today: NodeClassState, change: ClassChange) -> ClusterSnapshot:
    if not change.fields.hashed:
        return cluster
    before = today if today.hash and today.hash_version else replace(today, hash="unknown", hash_version="unknown")
    after = replace(before, hash=f"{before.hash}, changed", why=_paths(change.fields.hashed))
    pools = {**cluster.pools, **{name: replace(cluster.pools[name], node_class=after) for name in change.pools}}
    nodes = dict(cluster.nodes)
    for name, node in nodes.items():
        if node.pool in change.pools:
            nodes[name] = _with_marks(node, before.marks(), is_known=before is today)
    return replace(cluster, pools=pools, nodes=nodes)


def _with_marks(node: ClusterNode, marks: Mapping[str, str], *, is_known: bool) -> ClusterNode:
    """Return *node* with the hash annotations *marks* on its claim.

    A node without a claim is unchanged. If the hash of the class is known, existing hash annotations are kept.
    """
    if node.claim is None or (is_known and marks.keys() <= node.claim.annotations.keys()):
        return node
    return replace(node, claim=replace(node.claim, annotations={**node.claim.annotations, **marks}))


def _nodes(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"Nodes: {', '.join(names[:_NAMED])}{more}" if names else "No nodes use it"


def _paths(fields: Iterable[str]) -> str:
    return ", ".join(f"spec.{name}" for name in fields)
