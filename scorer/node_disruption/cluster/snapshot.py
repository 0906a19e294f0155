"""Snapshot of a cluster: its nodes, NodeClaims, NodePools and pods at one instant, and their parsers.

Source: docs/specifications/nodepool-disruption.md 3.1, 4.1, 5.3, 5.6, 10 and 15.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from scorer.api.conditions import TRUE, find_condition
from scorer.api.kinds import group_kind
from scorer.api.meta import JsonObject, read_instant
from scorer.api.node_class import hash_annotation
from scorer.api.node_pool import CAPACITY_TYPE, HOSTNAME, Budget, NodePool, read_duration_or_never
from scorer.api.unstructured.documents import (
    annotation,
    annotations_of,
    conditions_of,
    dict_at,
    is_deleting,
    labels_of,
    metadata_of,
    name_of,
    spec_of,
    status_of,
    text_at,
)
from scorer.node_budgets.blockers import PodGuard
from scorer.node_budgets.nodes import DO_NOT_DISRUPT, PoolNode, read_pool_node
from scorer.node_disruption.cluster.constraint_reader import read_taints
from scorer.node_disruption.cluster.constraints import ParsedTaint
from scorer.node_disruption.cluster.pod import Pod
from scorer.node_disruption.cluster.requirements import INSTANCE_TYPE, ZONE, present_labels
from scorer.node_disruption.cluster.resources import amounts

HASH: Final = "karpenter.sh/nodepool-hash"
HASH_VERSION: Final = "karpenter.sh/nodepool-hash-version"
TERMINATION_TIMESTAMP: Final = "karpenter.sh/nodeclaim-termination-timestamp"


ClassKey = tuple[str, str, str]
"""Group, kind and name of a node class."""
OfferingKey = tuple[str, str, str]
"""Instance type, zone and capacity type."""


def key_of(document: JsonObject) -> ClassKey:
    """Return the key of an object, which is a node class if a pool names it."""
    return (*group_kind(document), name_of(document))


@dataclass(frozen=True, slots=True)
class Claim:
    """A NodeClaim.

    Args:
        name: Name.
        labels: Labels.
        annotations: Annotations, which include the template hash and its version.
        created: Creation time. None: unknown.
        expire_after: Lifetime. None: unlimited.
        termination_grace: Longest drain. None: unlimited.
        initialized_since: Time at which it became initialized. None: unset.
        last_pod_event: Time of its last pod event. None: unknown, or no event.
        drifted_since: Time at which it was first found drifted. None: unset.
        drift_reason: Reason of that condition.
        consolidatable: Whether its condition ``Consolidatable`` is True.
        deletion: deletionTimestamp. None if it is not being deleted.
        terminates_at: Announced end of its drain, when remaining pods are deleted. None: unset.
        conditions: Status of all conditions by type.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    created: datetime | None = None
    expire_after: timedelta | None = None
    termination_grace: timedelta | None = None
    initialized_since: datetime | None = None
    last_pod_event: datetime | None = None
    drifted_since: datetime | None = None
    drift_reason: str = ""
    consolidatable: bool = False
    deletion: datetime | None = None
    terminates_at: datetime | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node, with or without a pool.

    Args:
        name: Name.
        node: The node as budgets count it. None if it belongs to no pool.
        labels: Labels.
        annotations: Annotations.
        taints: All taints, with any effect.
        unschedulable: Whether it is cordoned.
        allocatable: Allocatable resources: cpu in millicores, everything else in whole units.
        capacity: Capacity of the instance in the same units. Limits of pools refer to it.
        created: Creation time. None: unknown.
        instance_type: Value of its instance type label, current or deprecated. Empty if unknown.
        zone: Value of its zone label, current or deprecated. Empty if unknown.
        capacity_type: Value of its capacity type label. Empty if unknown.
        claim: NodeClaim. None: unset.
    """

    name: str
    node: PoolNode | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[ParsedTaint, ...] = ()
    unschedulable: bool = False
    allocatable: Mapping[str, int] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    created: datetime | None = None
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    claim: Claim | None = None

    @property
    def pool(self) -> str:
        """Name of its pool, or empty."""
        return self.node.pool if self.node else ""

    @property
    def initialized(self) -> bool:
        """Whether it is initialized. Always True for a node without a pool."""
        return self.node is None or self.node.initialized


@dataclass(frozen=True, slots=True)
class NodeClassState:
    """The node class of a pool.

    Args:
        group: API group of the provider.
        kind: Kind.
        name: Name.
        document: The object.
        hash: Annotation with the provider's hash of its fields, or empty.
        hash_version: Version of the hash, or empty.
        why: Changed fields that existing nodes do not have yet, or empty.
    """

    group: str
    kind: str
    name: str
    document: JsonObject = field(default_factory=dict)
    hash: str = ""
    hash_version: str = ""
    why: str = ""

    @property
    def hash_keys(self) -> tuple[str, str]:
        """Annotations with the hash and its version."""
        key = hash_annotation(self.group, self.kind)
        return key, f"{key}-version"

    def marks(self) -> dict[str, str]:
        """Return the annotations of a new claim, empty if the hash is unknown."""
        values = (self.hash, self.hash_version)
        return dict(zip(self.hash_keys, values, strict=True)) if all(values) else {}


@dataclass(frozen=True, slots=True)
class NodePoolState:
    """A NodePool.

    Args:
        name: Name.
        model: The complete object.
        budgets: Disruption budgets.
        weight: Pools with a larger weight are tried first for a new node.
        replicas: Number of nodes of a static pool. None if it is not static.
        hash: Annotation with the hash of its template, or empty.
        hash_version: Version of the hash, or empty.
        do_not_disrupt: Whether its template forbids the disruption of its nodes.
        limits: Resource limits: cpu in millicores, everything else in whole units.
        in_use: Resources of its nodes, in the same units.
        ready: Whether its condition ``Ready`` is True or missing. It is missing in a file that no controller has
            processed.
        deleting: Whether it is being deleted.
        node_class: Its node class. None: unknown.
        prices: Prices of offerings for this pool, where NodeOverlays change them.
    """

    name: str
    model: NodePool
    budgets: tuple[Budget, ...] = ()
    weight: int = 0
    replicas: int | None = None
    hash: str = ""
    hash_version: str = ""
    do_not_disrupt: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)
    in_use: Mapping[str, int] = field(default_factory=dict)
    ready: bool = True
    deleting: bool = False
    node_class: NodeClassState | None = None
    prices: Mapping[OfferingKey, float] = field(default_factory=dict)

    @property
    def is_dynamic(self) -> bool:
        """Whether it creates nodes for pending pods."""
        return self.replicas is None and self.ready and not self.deleting


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster at one instant.

    Args:
        pools: Pools by name.
        nodes: Nodes by name, sorted.
        launching: Nodes of NodeClaims whose instances have not joined yet, by claim name.
        pods: Pods by node name, sorted by namespace and name. Nodes without pods are omitted.
        pending: Pods without a node, except for finished ones and those with scheduling gates.
        guards: PodDisruptionBudgets by namespace.
        daemons: One pod per DaemonSet, as it would run on a new node.
        namespaces: Labels of the known namespaces.
        notes: Oddities found by the parser, for users.
    """

    pools: Mapping[str, NodePoolState] = field(default_factory=dict)
    nodes: Mapping[str, ClusterNode] = field(default_factory=dict)
    launching: Mapping[str, ClusterNode] = field(default_factory=dict)
    pods: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    pending: tuple[Pod, ...] = ()
    guards: Mapping[str, Sequence[PodGuard]] = field(default_factory=dict)
    daemons: tuple[Pod, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_claim(document: JsonObject) -> Claim:
    """Parse a NodeClaim. A field of the wrong type counts as absent."""
    spec, metadata, conditions = spec_of(document), metadata_of(document), _conditions(document)
    since = {kind: read_instant(condition.get("lastTransitionTime")) for kind, condition in conditions.items()}
    status = {kind: text_at(condition, "status") for kind, condition in conditions.items()}
    return Claim(
        name=name_of(document),
        labels=labels_of(document),
        annotations=annotations_of(document),
        created=read_instant(metadata.get("creationTimestamp")),
        expire_after=read_duration_or_never(text_at(spec, "expireAfter")),
        termination_grace=read_duration_or_never(text_at(spec, "terminationGracePeriod")),
        initialized_since=since["Initialized"] if status.get("Initialized") == "True" else None,
        last_pod_event=read_instant(status_of(document).get("lastPodEventTime")),
        drifted_since=since["Drifted"] if status.get("Drifted") == "True" else None,
        drift_reason=text_at(conditions.get("Drifted", {}), "reason"),
        consolidatable=status.get("Consolidatable") == "True",
        deletion=read_instant(metadata.get("deletionTimestamp")),
        terminates_at=read_instant(annotation(document, TERMINATION_TIMESTAMP)),
        conditions=status,
    )


def read_node(document: JsonObject, claim: JsonObject | None = None) -> ClusterNode:
    """Parse a Node with its NodeClaim. A field of the wrong type counts as absent."""
    labels = labels_of(document)
    present = present_labels(labels)
    return ClusterNode(
        name=name_of(document),
        node=read_pool_node(document, claim),
        labels=labels,
        annotations=annotations_of(document),
        taints=read_taints(document),
        unschedulable=spec_of(document).get("unschedulable") is True,
        allocatable=amounts(dict_at(document, "status", "allocatable")),
        capacity=amounts(dict_at(document, "status", "capacity")),
        created=read_instant(metadata_of(document).get("creationTimestamp")),
        instance_type=present.get(INSTANCE_TYPE, ""),
        zone=present.get(ZONE, ""),
        capacity_type=present.get(CAPACITY_TYPE, ""),
        claim=None if claim is None else read_claim(claim),
    )


def read_launching(claim: JsonObject) -> ClusterNode:
    """Parse the future node of a NodeClaim. Before its launch, it has the requested resources of the claim."""
    capacity = dict_at(claim, "status", "allocatable") or dict_at(claim, "spec", "resources", "requests")
    name = name_of(claim)
    node = {
        "metadata": {"name": name, "labels": {HOSTNAME: name, **labels_of(claim)}},
        "spec": {"taints": spec_of(claim).get("taints", [])},
        "status": {"allocatable": capacity, "capacity": dict_at(claim, "status", "capacity") or capacity},
    }
    return read_node(node, claim)


def read_node_class(document: JsonObject) -> NodeClassState:
    """Read a node class of any provider."""
    group, kind, name = key_of(document)
    state = NodeClassState(group, kind, name, document)
    marks = [annotation(document, key) for key in state.hash_keys]
    return replace(state, hash=marks[0], hash_version=marks[1])


def read_pool(document: JsonObject, node_class: JsonObject | None = None) -> NodePoolState:
    """Read a NodePool, with its node class if that is known.

    Raises:
        pydantic.ValidationError: *document* is not a NodePool.
    """
    model = NodePool.read(document)
    ready = find_condition(model.status.conditions, "Ready")
    return NodePoolState(
        name=model.metadata.name,
        model=model,
        budgets=model.spec.disruption.budgets,
        weight=model.spec.weight or 0,
        replicas=model.spec.replicas,
        hash=annotation(document, HASH),
        hash_version=annotation(document, HASH_VERSION),
        do_not_disrupt=model.spec.template.metadata.annotations.get(DO_NOT_DISRUPT) == "true",
        limits=amounts(dict(model.spec.limits)),
        in_use=amounts(dict(model.status.resources)) | {"nodes": model.status.nodes},
        ready=ready is None or ready.status == TRUE,
        deleting=is_deleting(document),
        node_class=None if node_class is None else read_node_class(node_class),
    )


def _conditions(document: JsonObject) -> dict[str, JsonObject]:
    return {text_at(condition, "type"): condition for condition in conditions_of(document)}
