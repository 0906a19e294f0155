"""Launches: the instance that a planned node becomes in a simulation.

Among the remaining options of a new node, the provider prefers reserved, then spot, then on-demand, and takes the
cheapest offering of the first capacity type that has one. Without known prices, the new node becomes a copy of an
existing node of the pool.

Source: docs/specifications/nodepool-disruption.md 6.3 and 15.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from scorer.api.node_pool import CAPACITY_TYPE, HOSTNAME, NODE_POOL_LABEL, read_duration_or_never
from scorer.node_budgets.nodes import DO_NOT_DISRUPT, INITIALIZED_LABEL, PoolNode
from scorer.node_disruption.cluster.constraints import HELD_EFFECTS
from scorer.node_disruption.cluster.pod import Pod
from scorer.node_disruption.cluster.requirements import (
    INSTANCE_TYPE,
    ZONE,
    Allowed,
    compatible,
    is_of_provider,
    present_labels,
    requirements_of_labels,
)
from scorer.node_disruption.cluster.snapshot import (
    HASH,
    HASH_VERSION,
    Claim,
    ClusterNode,
    ClusterSnapshot,
    NodePoolState,
)
from scorer.node_disruption.instance_types.catalog import CAPACITY_TYPES, InstanceType, Offering
from scorer.node_disruption.instance_types.new_node import NewNode, wishes

_LABELS: Final = ("kubernetes.io/arch", "kubernetes.io/os")
_ANY: Final = "any"
"""Value of a required label if any value is allowed."""


def seen_types(nodes: Iterable[ClusterNode]) -> tuple[InstanceType, ...]:
    """Return the instance types of existing nodes, with their zones and capacity types. All prices are 0.

    Several nodes of one type are merged: the smallest allocatable amounts, and the labels that all of them have.
    """
    types_by_name: dict[str, InstanceType] = {}
    offerings: dict[str, set[tuple[str, str]]] = {}
    for node in nodes:
        if not node.instance_type or node.node is None:
            continue
        labels = {key: value for key, value in node.labels.items() if key in _LABELS or is_of_provider(key)}
        labels[INSTANCE_TYPE] = node.instance_type
        previous = types_by_name.get(node.instance_type)
        if previous is not None:
            labels = dict(labels.items() & previous.labels.items())
        allocatable = node.allocatable if previous is None else _least(previous.allocatable, node.allocatable)
        types_by_name[node.instance_type] = InstanceType(node.instance_type, labels, allocatable)
        offerings.setdefault(node.instance_type, set()).add((node.zone, node.capacity_type))
    return tuple(
        replace(instance_type, offerings=tuple(Offering(zone, kind, 0.0) for zone, kind in sorted(offerings[name])))
        for name, instance_type in sorted(types_by_name.items())
    )


def _least(amounts: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {key: min(amounts[key], other[key]) for key in amounts.keys() & other.keys()}


def choose_offering(node: NewNode) -> tuple[InstanceType, Offering] | None:
    """Return the instance type and offering of a planned node, or None if no option remains."""
    offers = [
        (
            CAPACITY_TYPES.index(offering.capacity_type) if offering.capacity_type in CAPACITY_TYPES else 0,
            kind,
            offering,
        )
        for kind in node.types
        for offering in kind.matching_offerings(node.requirements)
    ]
    if not offers:
        return None
    _, kind, offering = min(offers, key=lambda offer: (offer[0], offer[2].price, offer[1].name, offer[2].zone))
    return kind, offering


def launch_node(node: NewNode, name: str, pool: NodePoolState, now: datetime) -> ClusterNode | None:
    """Return a planned node during its launch, or None if no option remains."""
    instance_type = choose_offering(node)
    if instance_type is None:
        return None
    kind, offering = instance_type
    requested_labels = {
        key: value for key, requirement in node.requirements.items() if (value := _some_value(requirement)) is not None
    }
    labels = {
        **requested_labels,
        **node.labels,
        **kind.labels,
        INSTANCE_TYPE: kind.name,
        ZONE: offering.zone,
        CAPACITY_TYPE: offering.capacity_type,
        NODE_POOL_LABEL: pool.name,
        HOSTNAME: name,
    }
    return ClusterNode(
        name=name,
        node=_pool_node(name, pool),
        labels=labels,
        annotations=pool.model.spec.template.metadata.annotations,
        taints=node.taints,
        allocatable=kind.allocatable,
        capacity=kind.allocatable,
        created=now,
        instance_type=kind.name,
        zone=offering.zone,
        capacity_type=offering.capacity_type,
        claim=_claim(name, pool, labels, now),
    )


def launched_like(old: ClusterNode, node: NewNode, name: str, pool: NodePoolState, now: datetime) -> ClusterNode:
    """Return a launching copy of *old* as its replacement, with the required labels of the planned *node*."""
    labels = _labels_as_required(old.labels, node.requirements) | {HOSTNAME: name}
    return replace(
        old,
        name=name,
        node=_pool_node(name, pool),
        labels=labels,
        annotations=pool.model.spec.template.metadata.annotations,
        taints=node.taints,
        unschedulable=False,
        created=now,
        instance_type=labels.get(INSTANCE_TYPE, ""),
        zone=labels.get(ZONE, ""),
        capacity_type=labels.get(CAPACITY_TYPE, ""),
        claim=_claim(name, pool, labels, now),
    )


def initialize_node(node: ClusterNode, now: datetime) -> ClusterNode:
    """Return a launched node as initialized at *now*."""
    assert node.node is not None
    assert node.claim is not None
    claim = replace(node.claim, initialized_since=now, consolidatable=False)
    pool_node = replace(node.node, ready=True, initialized=True)
    return replace(node, node=pool_node, labels={**node.labels, INITIALIZED_LABEL: "true"}, claim=claim)


def daemons_on(node: ClusterNode, cluster: ClusterSnapshot, now: datetime) -> Iterator[Pod]:
    """Yield the DaemonSet pods of a new node."""
    requirements = requirements_of_labels(node.labels)
    for pod in cluster.daemons:
        untolerated = [
            taint for taint in node.taints if taint.effect in HELD_EFFECTS and not pod.shape.tolerates(taint)
        ]
        if not untolerated and any(compatible(wish, requirements) for wish in wishes(pod.shape)):
            name = f"{pod.name}-{node.name}"
            hold = replace(pod.held, name=name, started=now)
            yield replace(pod, name=name, uid=f"{pod.uid}-{node.name}", node=node.name, held=hold, created=now)


def _some_value(allowed: Allowed) -> str | None:
    """Return a value of a required label, or None if it may be missing."""
    if allowed.may_be_absent:
        return None
    if not allowed.others:
        return min(allowed.values, default=None)
    bound = allowed.high if allowed.low is None else allowed.low
    return _ANY if bound is None else str(bound)


def _labels_as_required(labels: Mapping[str, str], requirements: Mapping[str, Allowed]) -> dict[str, str]:
    """Return the labels of an old node for a new one. Labels that the requirements forbid are changed or removed."""
    labels_present = present_labels({key: value for key, value in labels.items() if key != INITIALIZED_LABEL})
    for key, requirement in requirements.items():
        if key in labels_present and requirement.allows(labels_present[key]):
            continue
        labels_present.pop(key, None)
        if (value := _some_value(requirement)) is not None:
            labels_present[key] = value
    return labels_present


def _pool_node(name: str, pool: NodePoolState) -> PoolNode:
    template = pool.model.spec.template
    return PoolNode(
        name=name,
        pool=pool.name,
        claim=name,
        ready=False,
        initialized=False,
        do_not_disrupt=template.metadata.annotations.get(DO_NOT_DISRUPT) == "true",
        grace_bounded=template.spec.termination_grace_period is not None,
    )


def _claim(name: str, pool: NodePoolState, labels: Mapping[str, str], now: datetime) -> Claim:
    template = pool.model.spec.template
    marks = {key: value for key, value in ((HASH, pool.hash), (HASH_VERSION, pool.hash_version)) if value}
    node_class = pool.node_class
    class_marks = {} if node_class is None else node_class.marks()
    grace = template.spec.termination_grace_period
    return Claim(
        name=name,
        labels=labels,
        annotations={**template.metadata.annotations, **marks, **class_marks},
        created=now,
        expire_after=read_duration_or_never(template.spec.expire_after),
        termination_grace=None if grace is None else read_duration_or_never(grace),
    )
