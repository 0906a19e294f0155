"""The default list of plugins, for one policy.

Source: docs/specifications/scheduling.md 3, step 5.
"""

from dataclasses import dataclass, field

from scorer.api.placement.placement import PlacementPolicy, PlacementType
from scorer.framework.plugin import FilterPlugin
from scorer.plugins.cluster_affinity import ClusterAffinityPlugin, read_affinity
from scorer.plugins.cluster_eligibility import ClusterEligibility
from scorer.plugins.namespace_affinity import NamespaceAffinity
from scorer.plugins.taint_toleration import TaintToleration
from scorer.plugins.topology_spread import TopologySpread, read_constraints


@dataclass(frozen=True, slots=True)
class Profile:
    """The plugins of one policy, parsed and checked.

    A cluster that already has the placement is not a candidate (SamePlacementAntiAffinity): the scheduling run excludes
    the cycle's ``placed`` column between TaintToleration and the spread constraints.
    """

    affinity: ClusterAffinityPlugin = field(default_factory=ClusterAffinityPlugin)
    taints: TaintToleration = field(default_factory=TaintToleration)
    spread: TopologySpread = field(default_factory=TopologySpread)
    eligibility: ClusterEligibility = field(default_factory=ClusterEligibility)
    namespaces: NamespaceAffinity = field(default_factory=NamespaceAffinity)

    @property
    def filters(self) -> tuple[FilterPlugin, ...]:
        """The filters that do not depend on existing placements. The first one that rejects a cluster is reported."""
        return self.affinity, self.eligibility, self.namespaces, self.taints


def read_profile(policy: PlacementPolicy) -> Profile:
    """Configure the plugins for *policy*. Parts that its type does not use are ignored.

    Raises:
        scorer.selectors.InvalidPolicyError: A part that its type uses cannot be evaluated.
    """
    if policy.placement_type is PlacementType.PICK_FIXED:
        return Profile()
    picks_n = policy.placement_type is PlacementType.PICK_N
    affinity = policy.affinity.cluster_affinity if policy.affinity else None
    return Profile(
        affinity=read_affinity(affinity, with_preferences=picks_n, path="spec.policy.affinity.clusterAffinity"),
        taints=TaintToleration(policy.tolerations),
        spread=read_constraints(policy.topology_spread_constraints if picks_n else ()),
    )
