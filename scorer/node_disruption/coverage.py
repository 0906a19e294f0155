"""Whether a table of instance types has what the nodes of a cluster are.

A node whose type is not offered any more has drifted, and goes. A table that a person wrote may just not name it.

Source: nodepool-disruption.md 3.4.
"""

from collections import Counter

from scorer.node_disruption.cluster import Cluster
from scorer.node_disruption.instance_types import Catalog

_NAMED = 5


def lacking(catalog: Catalog, cluster: Cluster) -> str:
    """Return what a table lacks of the nodes of pools, for people; empty: nothing."""
    missing = Counter(
        (node.instance_type, node.zone, node.capacity_type)
        for node in cluster.nodes.values()
        if node.pool in cluster.pools and node.instance_type and node.zone and node.capacity_type
        if catalog.price_of(node.instance_type, node.zone, node.capacity_type) is None
    )
    if not missing:
        return ""
    named = [f"{kind} in {zone} as {how} ({number} nodes)" for (kind, zone, how), number in sorted(missing.items())]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"the instance types are not used, as they lack what nodes are: {', '.join(named[:_NAMED])}{more}"
