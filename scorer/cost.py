"""Cost of a core and of a GiB of memory on a member cluster, from its nodes and a price list.

Both costs are computed from the full price of the nodes: it is not split between CPU and memory. They have three
decimals, so differences below 0.0005 disappear.

Source: docs/specifications/scheduling.md 18; KubeFleet pkg/propertyprovider/azure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from scorer.api.values.quantity import NANO, Quantity

CPU_COST = "kubernetes.azure.com/per-cpu-core-cost"
MEMORY_COST = "kubernetes.azure.com/per-gb-memory-cost"
STALE_AFTER = timedelta(hours=24)
NO_PRICE = 999.0
"""Price of a SKU that is not for sale, as price lists write it."""


@dataclass(frozen=True, slots=True)
class PricedNode:
    """The properties of a node that determine its cost."""

    sku: str
    cpu: Quantity
    memory: Quantity


@dataclass(frozen=True, slots=True)
class Cost:
    """The two cost properties, None if unset, and their condition."""

    cpu: str | None
    memory: str | None
    status: Literal["True", "False"]
    reason: str


FAILED = Cost(None, None, "False", "CostsCalculationFailed")


def cluster_cost(nodes: Iterable[PricedNode], prices: Mapping[str, float], prices_age: timedelta) -> Cost:
    """Return the average hourly cost of a core and of a GiB (2^30 bytes), in the currency of *prices*.

    Both are 0 for a cluster without nodes. The result is `FAILED` if a node has no price, or if the nodes have hardly
    any CPU or memory.

    Args:
        nodes: All nodes of the cluster.
        prices: Price per hour by SKU.
        prices_age: Age of *prices*.
    """
    nodes = tuple(nodes)
    reason = "CostsCalculationDegraded" if prices_age > STALE_AFTER else "CostsCalculated"
    if not nodes:
        return Cost("0.000", "0.000", "True", reason)
    if any(prices.get(node.sku, NO_PRICE) == NO_PRICE for node in nodes):
        return FAILED
    rate = sum(prices[node.sku] for node in nodes)
    cores = sum(node.cpu.nano for node in nodes) / NANO
    memory = sum(node.memory.nano for node in nodes) / NANO
    if cores <= 0.001 or memory <= 1:
        return FAILED
    return Cost(f"{rate / cores:.3f}", f"{rate / (memory / 2**30):.3f}", "True", reason)
