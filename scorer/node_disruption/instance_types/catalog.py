"""Available instance types with their prices, and a check for types of the cluster's nodes that are missing.

A node whose type is no longer offered has drifted and is disrupted. In a hand-written table, a missing type may be an
oversight instead.

Source: docs/specifications/nodepool-disruption.md 3.4, 5.1, 6.2 and 6.3.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from scorer.api.node_pool import CAPACITY_TYPE
from scorer.api.values.quoting import format_count
from scorer.node_disruption.cluster.requirements import ZONE, Allowed, is_of_provider, merged
from scorer.node_disruption.cluster.snapshot import ClusterNode, ClusterSnapshot, NodePoolState, OfferingKey
from scorer.prices import ON_DEMAND as ON_DEMAND

_MOST_NAMED = 5

ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
SPOT: Final = "spot"
RESERVED: Final = "reserved"
CAPACITY_TYPES: Final = (RESERVED, SPOT, ON_DEMAND)
"""Capacity types by precedence for a new node."""


@dataclass(frozen=True, slots=True)
class Offering:
    """An offering of an instance type.

    Args:
        zone: The zone.
        capacity_type: ``on-demand``, ``spot`` or ``reserved``.
        price: Price per hour, in the currency of the table.
        available: Whether it is currently available.
    """

    zone: str
    capacity_type: str
    price: float
    available: bool = True


@dataclass(frozen=True, slots=True)
class InstanceType:
    """An instance type.

    Args:
        name: Value of its label ``node.kubernetes.io/instance-type``.
        labels: Labels of all its nodes: architecture, operating system, its name.
        allocatable: Allocatable resources: cpu in millicores, everything else in whole units.
        offerings: Offerings by zone and capacity type.
        zones: Zones where it is currently available.
        capacity_types: Capacity types with an available offering.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    offerings: tuple[Offering, ...] = ()
    zones: frozenset[str] = field(init=False, repr=False, compare=False)
    capacity_types: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        available = [offering for offering in self.offerings if offering.available]
        object.__setattr__(self, "zones", frozenset(offering.zone for offering in available))
        object.__setattr__(self, "capacity_types", frozenset(offering.capacity_type for offering in available))

    def matching_offerings(self, requirements: Mapping[str, Allowed]) -> Iterator[Offering]:
        """Yield the available offerings that meet the zone and capacity type in *requirements*."""
        zone, capacity_type = requirements.get(ZONE), requirements.get(CAPACITY_TYPE)
        for offering in self.offerings:
            if (
                offering.available
                and (zone is None or zone.allows(offering.zone))
                and (capacity_type is None or capacity_type.allows(offering.capacity_type))
            ):
                yield offering

    def cheapest(self, requirements: Mapping[str, Allowed]) -> float:
        """Return its lowest available price, or infinity."""
        return min((offering.price for offering in self.matching_offerings(requirements)), default=math.inf)

    def worst_launch_price(self, requirements: Mapping[str, Allowed]) -> float:
        """Return the highest price within the capacity type that would be launched, or infinity if none is available.

        Source: docs/specifications/nodepool-disruption.md 6.3.
        """
        offerings = tuple(self.matching_offerings(requirements))
        for capacity_type in CAPACITY_TYPES:
            prices = [offering.price for offering in offerings if offering.capacity_type == capacity_type]
            if prices:
                return max(prices)
        return math.inf


def repriced(types: Iterable[InstanceType], prices: Mapping[OfferingKey, float]) -> Iterator[InstanceType]:
    """Yield instance types with the prices of a pool. Types that have none are yielded unchanged."""
    names = {name for name, _, _ in prices}
    for kind in types:
        if kind.name not in names:
            yield kind
            continue
        offerings = (
            replace(offering, price=prices.get((kind.name, offering.zone, offering.capacity_type), offering.price))
            for offering in kind.offerings
        )
        yield replace(kind, offerings=tuple(offerings))


@dataclass(frozen=True)
class InstanceTypeCatalog:
    """All instance types."""

    types: tuple[InstanceType, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, InstanceType]:
        """Each type by its name."""
        return {instance_type.name: instance_type for instance_type in self.types}

    @cached_property
    def _prices(self) -> Mapping[tuple[str, str, str], float]:
        return {
            (instance_type.name, offering.zone, offering.capacity_type): offering.price
            for instance_type in self.types
            for offering in instance_type.offerings
        }

    def price_of(self, instance_type: str, zone: str, capacity_type: str) -> float | None:
        """Return the price of a node per hour, even if its offering is currently unavailable, or None if unknown."""
        return self._prices.get((instance_type, zone, capacity_type))

    def price_in(self, pool: NodePoolState | None, node: ClusterNode) -> float | None:
        """Return the price of a node per hour in its pool, whose NodeOverlays may change it, or None if unknown."""
        key = node.instance_type, node.zone, node.capacity_type
        return self.price_of(*key) if pool is None or key not in pool.prices else pool.prices[key]


def unlabelled(catalog: InstanceTypeCatalog, pools: Iterable[NodePoolState]) -> Iterator[str]:
    """Yield messages about provider labels that pools require but no type has. These are not checked."""
    labels = {key for instance_type in catalog.types for key in instance_type.labels}
    for pool in pools:
        requirements = merged(pool.model.spec.template.spec.requirements)
        for key in sorted(key for key in requirements if is_of_provider(key) and key not in labels):
            yield (
                f"NodePool {pool.name} requires label {key}, which no instance type in the table has: all types "
                "count as matching"
            )


def missing(catalog: InstanceTypeCatalog, cluster: ClusterSnapshot) -> Mapping[tuple[str, str, str], int]:
    """Return the number of pool nodes whose offering the table lacks, by type, zone and capacity type, sorted."""
    counts = Counter(
        (node.instance_type, node.zone, node.capacity_type)
        for node in cluster.nodes.values()
        if node.pool in cluster.pools and node.instance_type and node.zone and node.capacity_type
        if catalog.price_of(node.instance_type, node.zone, node.capacity_type) is None
    )
    return dict(sorted(counts.items()))


def missing_types_message(catalog: InstanceTypeCatalog, cluster: ClusterSnapshot) -> str:
    """Return a message about pool nodes whose offerings the table lacks, or an empty string."""
    absent = missing(catalog, cluster)
    if not absent:
        return ""
    descriptions = [
        f"{kind} in {zone} as {capacity_type} ({format_count(number, 'node')})"
        for (kind, zone, capacity_type), number in absent.items()
    ]
    more = f" and {len(descriptions) - _MOST_NAMED} more" if len(descriptions) > _MOST_NAMED else ""
    return (
        "the instance types are not used, because they lack types of existing nodes: "
        f"{', '.join(descriptions[:_MOST_NAMED])}{more}"
    )
