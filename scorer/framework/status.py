"""Rejection of a cluster by a filter: a category for programs, a message for people.

Source: docs/specifications/scheduling.md 17 (categories), DV-12.
"""

from dataclasses import dataclass
from enum import StrEnum


class Category(StrEnum):
    """The first check that a cluster failed."""

    AFFINITY_MISMATCH = "AffinityMismatch"
    CLUSTER_LEAVING = "ClusterLeaving"
    AGENT_NOT_REPORTING = "AgentNotReporting"
    HEARTBEAT_STALE = "HeartbeatStale"
    AGENT_NOT_JOINED = "AgentNotJoined"
    HEALTH_UNKNOWN = "HealthUnknown"
    CLUSTER_UNHEALTHY = "ClusterUnhealthy"
    NAMESPACE_DATA_MISSING = "NamespaceDataMissing"
    NAMESPACE_MISSING = "NamespaceMissing"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    TOPOLOGY_SPREAD_VIOLATED = "TopologySpreadViolated"
    SCORE_TOO_LOW = "ScoreTooLow"
    TARGET_NOT_FOUND = "TargetNotFound"


@dataclass(frozen=True, slots=True)
class FilterRejection:
    """Rejection of one cluster by a filter.

    Args:
        plugin: The name of the filter, as the reference spells it.
        category: Machine-readable reason.
        message: Human-readable message with the failed check and its numbers.
        help: The single change that would make the cluster pass this check. Empty: no single change would.
    """

    plugin: str
    category: Category
    message: str
    help: str = ""

    def __str__(self) -> str:
        return f"{self.category}: {self.message}"
