"""A cluster as it would be with other pools: nodes of a changed template have drifted from then on.

Source: nodepool-disruption.md 3.1 and 3.2.
"""

from collections.abc import Iterable
from dataclasses import replace

from scorer.node_disruption.cluster import Cluster, ClusterNode, Pool
from scorer.node_disruption.cluster_reading import HASH, HASH_VERSION
from scorer.node_disruption.template_hash import HASH_VERSION_OWN, template_digest


def with_pools(cluster: Cluster, changed: Iterable[Pool]) -> Cluster:
    """Return the cluster with pools in place of those of the same names, and with those that it does not have.

    The digest of a pool is that of today's unless its template is another one; claims without a digest are taken to be
    what today's pool asks for. So nodes drift as they will when the change is applied, whoever wrote their digests.
    """
    pools, nodes = dict(cluster.pools), dict(cluster.nodes)
    for pool in changed:
        today = cluster.pools.get(pool.name)
        if today is None:
            pools[pool.name] = pool
            continue
        mark, version = today.hash or template_digest(today.model), today.hash_version or HASH_VERSION_OWN
        is_same = template_digest(today.model) == template_digest(pool.model)
        pools[pool.name] = replace(
            pool,
            hash=mark if is_same else f"{mark}, changed",
            hash_version=version,
            in_use=today.in_use,
            deleting=today.deleting,
        )
        if not today.hash:
            nodes.update((name, _marked(node, mark, version)) for name, node in nodes.items() if node.pool == pool.name)
    return replace(cluster, pools=pools, nodes=nodes)


def _marked(node: ClusterNode, mark: str, version: str) -> ClusterNode:
    """Return a node whose claim has a digest; one that it has already stays."""
    if node.claim is None or HASH in node.claim.annotations:
        return node
    annotations = {**node.claim.annotations, HASH: mark, HASH_VERSION: version}
    return replace(node, claim=replace(node.claim, annotations=annotations))
