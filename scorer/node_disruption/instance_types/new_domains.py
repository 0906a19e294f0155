"""Topology domains of new nodes: possible values of labels such as the zone.

Spread constraints count these domains. A zone where a pool could create a node is a domain, even without nodes.

Source: docs/specifications/nodepool-disruption.md 6.5; Karpenter v1.15.0
``pkg/controllers/provisioning/scheduling/topology.go`` (``buildDomainGroups``) and ``topologydomaingroup.go``.
"""

from collections.abc import Iterable
from dataclasses import replace

from scorer.node_disruption.cluster.constraints import PodShape, Spread
from scorer.node_disruption.cluster.snapshot import NodePoolState
from scorer.node_disruption.instance_types.catalog import InstanceType
from scorer.node_disruption.instance_types.new_node import NewNode, pool_template, values_of, wishes


class NewDomains:
    """Values that the labels of new nodes can have.

    Args:
        pools: All NodePools. Pools that create no nodes for pods, such as static ones, are ignored.
        types: Available instance types.
    """

    def __init__(self, pools: Iterable[NodePoolState], types: Iterable[InstanceType]) -> None:
        self._types = tuple(types)
        self._pools = tuple(pool_template(pool, ()) for pool in pools if pool.is_dynamic)
        self._values: dict[tuple[str, str], frozenset[str]] = {}
        self._expected: dict[tuple[int, Spread], tuple[PodShape, frozenset[str]]] = {}

    def of(self, key: str) -> frozenset[str]:
        """Return the values of a label that some pool could give to a new node."""
        return frozenset[str]().union(*(self._values_of(pool, key) for pool in self._pools))

    def expected(self, shape: PodShape, spread: Spread) -> frozenset[str]:
        """Return the domains that new nodes could open for a pod, as far as a spread constraint counts them.

        Domains that the pod's node selector or required node affinity excludes are omitted. If the constraint honors
        taints, pools with a taint that the pod does not tolerate are ignored.
        """
        key = id(shape), spread
        if (domains := self._expected.get(key)) is None:  # keeps the shape alive: its id is not reused
            domains = self._expected[key] = shape, self._expected_values(shape, spread)
        return domains[1]

    def _expected_values(self, shape: PodShape, spread: Spread) -> frozenset[str]:
        key = spread.topology_key
        own = [wish.get(key) for wish in wishes(replace(shape, volume_terms=(), preferred_nodes=None))]
        pools = (pool for pool in self._pools if not spread.honors_taints or pool.is_tolerated(shape))
        values = frozenset[str]().union(*(self._values_of(pool, key) for pool in pools))
        return frozenset(
            value for value in values if any(requirement is None or requirement.allows(value) for requirement in own)
        )

    def _values_of(self, pool: NewNode, key: str) -> frozenset[str]:
        """Return the values of all types that the pool allows, and those that its own requirement names.

        A type counts for a zone even if the pool excludes the type for another reason, as in Karpenter.
        """
        if (values := self._values.get((pool.pool, key))) is None:
            allowed = pool.requirements.get(key)
            offered_values = {value for instance_type in self._types for value in values_of(instance_type, key)}
            named_values = allowed.values if allowed is not None and not allowed.others else frozenset[str]()
            allowed_values = (value for value in offered_values if allowed is None or allowed.allows(value))
            values = self._values[pool.pool, key] = named_values.union(allowed_values)
        return values
