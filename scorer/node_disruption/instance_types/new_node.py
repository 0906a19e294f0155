"""A new node and its remaining options, which narrow as pods are added.

Instance type and zone of a new node are left open as long as possible. A pod narrows them by its requirements, by its
spread over zones, or by its affinity to other pods.

Source: docs/specifications/nodepool-disruption.md 6.3 and 15; Karpenter v1.15.0
``pkg/controllers/provisioning/scheduling/nodeclaim.go``.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from scorer.api.node_pool import CAPACITY_TYPE, HOSTNAME, NODE_POOL_LABEL
from scorer.node_disruption.cluster.constraints import HELD_EFFECTS, NODE_NAME, NodeTerm, ParsedTaint, PodShape
from scorer.node_disruption.cluster.pod import Pod
from scorer.node_disruption.cluster.requirements import (
    ALIASES,
    INSTANCE_TYPE,
    ZONE,
    Allowed,
    add,
    compatible,
    intersect,
    merged,
    one_of,
    read_allowed,
    requirements_of_labels,
)
from scorer.node_disruption.cluster.resources import total
from scorer.node_disruption.cluster.snapshot import ClusterNode, ClusterSnapshot, NodePoolState
from scorer.node_disruption.instance_types.catalog import InstanceType, repriced

_NODES = "nodes"


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node to be created. Without pods, it is the template of a pool.

    Args:
        pool: Name of the NodePool.
        types: Remaining instance types, each with an offering that meets *requirements*.
        requirements: Requirements of the pool and of its pods.
        labels: Labels of the pool's template.
        taints: Taints of the pool's template, without startup taints.
        daemons: Resources of its DaemonSet pods.
        taken: Resources of all its pods, including those of DaemonSets.
        min_values: Smallest number of distinct values among its types, by key.
        room: Remaining limits of the pool for all its new nodes, by resource. ``nodes`` counts nodes.
        pods: Pods, in the order of placement.
        name: Name among the new nodes of one result, empty for a template.
    """

    pool: str
    types: tuple[InstanceType, ...]
    requirements: Mapping[str, Allowed] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[ParsedTaint, ...] = ()
    daemons: Mapping[str, int] = field(default_factory=dict)
    taken: Mapping[str, int] = field(default_factory=dict)
    min_values: Mapping[str, int] = field(default_factory=dict)
    room: Mapping[str, int] = field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    name: str = ""

    def values(self, key: str) -> tuple[str, ...]:
        """Return the values that a label may still have, empty if unknown."""
        allowed_values = self.requirements.get(key)
        offered_values = {value for instance_type in self.types for value in values_of(instance_type, key)}
        if not offered_values and allowed_values is not None and not allowed_values.others:
            offered_values = set(allowed_values.values)
        return tuple(
            sorted(value for value in offered_values if allowed_values is None or allowed_values.allows(value))
        )

    def welcomes(self, pod: Pod) -> bool:
        """Return whether *pod* tolerates the taints and its host ports are free."""
        used_ports = [port for other in self.pods for port in other.shape.host_ports]
        if any(port.conflicts(other) for port in pod.shape.host_ports for other in used_ports):
            return False
        return self.is_tolerated(pod.shape)

    def is_tolerated(self, shape: PodShape) -> bool:
        """Return whether pods of a shape tolerate the taints that repel pods."""
        return all(shape.tolerates(taint) for taint in self.taints if taint.effect in HELD_EFFECTS)

    def domains(self, key: str) -> frozenset[str]:
        """Return the values that a label is limited to. Empty if it is not limited to certain values."""
        if key == HOSTNAME:
            return frozenset((self.name,))
        requirement = self.requirements.get(key)
        return frozenset() if requirement is None or requirement.others else requirement.values

    def narrow(self, requirements: Mapping[str, Allowed], pod: Pod | None = None) -> "NewNode | None":
        """Return the node with more requirements and one more pod, or None if no option remains."""
        pods, reserved_ports, types = self.pods, self.taken, self.types
        if pod is not None:
            pods, reserved_ports = (*pods, pod), total((reserved_ports, pod.requests))
            types = tuple(instance_type for instance_type in types if fits_instance_type(instance_type, reserved_ports))
        if requirements != self.requirements:
            types = tuple(instance_type for instance_type in types if can_be(instance_type, requirements))
        if not types or not _are_enough(types, self.min_values):
            return None
        return replace(self, types=types, requirements=requirements, pods=pods, taken=reserved_ports)


def templates(
    cluster: ClusterSnapshot, types: Iterable[InstanceType], without: Collection[str] = ()
) -> tuple[NewNode, ...]:
    """Return the templates of pools by precedence: by weight, then by name, both descending.

    Pools that are static, deleting, not ready or at their limits are omitted. See also `beyond_limits`.

    Args:
        cluster: The cluster with the pools.
        types: Available instance types.
        without: Names of nodes to be removed, which limits do not count.
    """
    instance_types = tuple(types)
    pools = sorted(cluster.pools.values(), key=lambda pool: (pool.weight, pool.name), reverse=True)
    nodes = (_template(pool, cluster, instance_types, without) for pool in pools if pool.is_dynamic)
    return tuple(node for node in nodes if node is not None)


def pool_template(pool: NodePoolState, types: Iterable[InstanceType]) -> NewNode:
    """Return a new node of a pool, without pods. Limits of the pool are not applied.

    Args:
        pool: The pool.
        types: Available instance types. Those that do not meet the pool's requirements are left out.
    """
    template = pool.model.spec.template
    requirements = intersect(merged(template.spec.requirements), requirements_of_labels(template.metadata.labels))
    add(requirements, NODE_POOL_LABEL, one_of(pool.name))
    return NewNode(
        pool=pool.name,
        types=tuple(kind for kind in repriced(types, pool.prices) if can_be(kind, requirements)),
        requirements=requirements,
        labels=template.metadata.labels,
        taints=tuple(ParsedTaint(taint.key, taint.effect, taint.value or "") for taint in template.spec.taints),
        min_values=_min_values(pool),
    )


def beyond_limits(cluster: ClusterSnapshot) -> frozenset[str]:
    """Return the names of the pools whose usage, including nodes to be removed, exceeds a limit.

    Such pools cannot create nodes now.
    """
    nodes = cluster.nodes.values()
    limited_pools = (pool for pool in cluster.pools.values() if pool.limits)
    return frozenset(pool.name for pool in limited_pools if any(left < 0 for left in _room(pool, nodes, ()).values()))


def wishes(shape: PodShape) -> Iterator[dict[str, Allowed]]:
    """Yield the alternative label requirements of a pod. A new node must meet one of them."""
    selector = [(key, one_of(value)) for key, value in shape.node_selector]
    groups = [*shape.volume_terms] if shape.node_terms is None else [shape.node_terms, *shape.volume_terms]
    groups += [] if shape.preferred_nodes is None else [(shape.preferred_nodes,)]
    for combination in product(*groups):
        if all(map(_may_be_new, combination)):
            label_requirements = (
                (label.key, read_allowed(label.operator, label.values)) for term in combination for label in term.labels
            )
            requirements = _together(
                (*selector, *((key, requirement) for key, requirement in label_requirements if requirement is not None))
            )
            if requirements is not None:
                yield requirements


def fits_instance_type(kind: InstanceType, needs: Mapping[str, int]) -> bool:
    """Return whether *needs*, by resource, fit on an instance type."""
    allocatable = kind.allocatable
    for resource, amount in needs.items():  # noqa: SIM110 - asked for 500,000 times in a pass; all() takes thrice as long
        if amount > 0 and amount > allocatable.get(resource, 0):
            return False
    return True


def can_be(kind: InstanceType, requirements: Mapping[str, Allowed]) -> bool:
    """Return whether an instance type meets *requirements* by its labels, and has an offering that meets them.

    A label that the type does not have counts as met.
    """
    for key, requirement in requirements.items():
        value = kind.name if key == INSTANCE_TYPE else kind.labels.get(key)
        if value is not None and not requirement.allows(value):
            return False
    return next(kind.matching_offerings(requirements), None) is not None


def values_of(kind: InstanceType, key: str) -> Iterable[str]:
    """Return the values that a label can have on nodes of an instance type."""
    if key == ZONE:
        return kind.zones
    if key == CAPACITY_TYPE:
        return kind.capacity_types
    value = kind.name if key == INSTANCE_TYPE else kind.labels.get(key)
    return () if value is None else (value,)


def within_limits(node: NewNode, room: Mapping[str, int]) -> NewNode | None:
    """Return the node without the types that exceed the remaining limits, or None if it cannot be created."""
    if room.get(_NODES, 1) < 1:
        return None
    types = tuple(
        instance_type
        for instance_type in node.types
        if all(instance_type.allocatable.get(key, 0) <= left for key, left in room.items() if key != _NODES)
    )
    return replace(node, types=types) if types and _are_enough(types, node.min_values) else None


def remaining_limits(node: NewNode, room: Mapping[str, int]) -> dict[str, int]:
    """Return the limits that remain after creating *node*, assuming the largest of its types for each resource."""
    most = {key: max(instance_type.allocatable.get(key, 0) for instance_type in node.types) for key in room}
    return {key: left - (1 if key == _NODES else most[key]) for key, left in room.items()}


def _template(
    pool: NodePoolState, cluster: ClusterSnapshot, types: tuple[InstanceType, ...], without: Collection[str]
) -> NewNode | None:
    node = replace(pool_template(pool, types), room=_room(pool, cluster.nodes.values(), without))
    requirements = node.requirements
    daemons = total(pod.requests for pod in cluster.daemons if node.welcomes(pod) and _may_run(pod, requirements))
    kinds = tuple(instance_type for instance_type in node.types if fits_instance_type(instance_type, daemons))
    return within_limits(replace(node, types=kinds, daemons=daemons, taken=daemons), node.room)


def _may_run(pod: Pod, requirements: Mapping[str, Allowed]) -> bool:
    return any(compatible(wish, requirements) for wish in wishes(pod.shape))


def _min_values(pool: NodePoolState) -> dict[str, int]:
    min_values: dict[str, int] = {}
    for requirement in pool.model.spec.template.spec.requirements:
        if requirement.min_values is not None:
            min_values[requirement.key] = max(requirement.min_values, min_values.get(requirement.key, 0))
    return min_values


def _room(pool: NodePoolState, nodes: Iterable[ClusterNode], without: Collection[str]) -> dict[str, int]:
    """Return the remaining limits of a pool."""
    if not pool.limits:
        return {}
    pool_nodes = [node for node in nodes if node.pool == pool.name and node.name not in without]
    usage = total((*(node.capacity for node in pool_nodes), {_NODES: len(pool_nodes)}))
    return {resource: limit - usage.get(resource, 0) for resource, limit in pool.limits.items()}


def _together(pairs: Iterable[tuple[str, Allowed]]) -> dict[str, Allowed] | None:
    """Merge requirements, or return None if they contradict each other.

    Inside a pool, a contradiction means "absent".
    """
    requirements: dict[str, Allowed] = {}
    keys = set()
    for key, requirement in pairs:
        if not requirement.may_be_absent:
            keys.add(ALIASES.get(key, key))
        add(requirements, key, requirement)
    return None if any(requirements[key].is_nothing for key in keys) else requirements


def _may_be_new(term: NodeTerm) -> bool:
    """Return whether a new node, whose name is not known yet, can match the fields of a term."""
    return all(expression.key == NODE_NAME and expression.operator == "NotIn" for expression in term.fields)


def _are_enough(types: Sequence[InstanceType], min_values: Mapping[str, int]) -> bool:
    return all(
        len({value for instance_type in types for value in values_of(instance_type, key)}) >= number
        for key, number in min_values.items()
    )
