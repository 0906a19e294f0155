"""Whether a table of instance types has what the nodes of a cluster are.

A node whose type is not offered any more has drifted, and goes. A table that a person wrote may just not name it.

Source: nodepool-disruption.md 3.4.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from scorer.node_disruption.cluster import Cluster, Pool
from scorer.node_disruption.instance_types import Catalog
from scorer.node_disruption.requirements import is_of_provider, merged

_NAMED = 5


def unlabelled(catalog: Catalog, pools: Iterable[Pool]) -> Iterator[str]:
    """Yield, for people, which labels of a provider pools ask for that no type of a table has: nobody checks those."""
    known = {key for each in catalog.types for key in each.labels}
    for pool in pools:
        asked = merged(pool.model.spec.template.spec.requirements)
        for key in sorted(key for key in asked if is_of_provider(key) and key not in known):
            yield f"NodePool {pool.name} asks for label {key}, which no type in the table has: all types count as fine"


def missing(catalog: Catalog, cluster: Cluster) -> Mapping[tuple[str, str, str], int]:
    """Return how many nodes of pools are of what a table lacks, by type, zone and capacity type; sorted."""
    found = Counter(
        (node.instance_type, node.zone, node.capacity_type)
        for node in cluster.nodes.values()
        if node.pool in cluster.pools and node.instance_type and node.zone and node.capacity_type
        if catalog.price_of(node.instance_type, node.zone, node.capacity_type) is None
    )
    return dict(sorted(found.items()))


def lacking(catalog: Catalog, cluster: Cluster) -> str:
    """Return what a table lacks of the nodes of pools, for people; empty: nothing."""
    found = missing(catalog, cluster)
    if not found:
        return ""
    named = [f"{kind} in {zone} as {how} ({number} nodes)" for (kind, zone, how), number in found.items()]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"the instance types are not used, as they lack what nodes are: {', '.join(named[:_NAMED])}{more}"
