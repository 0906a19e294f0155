"""What it costs to disrupt a node: figures that put candidates in order.

Source: nodepool-disruption.md 6.1 and 6.2; Karpenter v1.15.0 ``pkg/utils/disruption/disruption.go``.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from scorer.node_disruption.pod import Pod

BASE_COST: Final = 1.0
"""What it costs to disrupt a node that has no pods."""
_DELETION_COST_SHARE: Final = 2.0**27
_PRIORITY_SHARE: Final = 2.0**25
_LARGEST: Final = 10.0


def eviction_cost(pod: Pod) -> float:
    """Return what it costs to evict *pod*: 1 for most pods, -10 to 10 by its deletion cost and its priority."""
    cost = 1.0 + pod.deletion_cost / _DELETION_COST_SHARE + (pod.priority or 0) / _PRIORITY_SHARE
    return max(-_LARGEST, min(_LARGEST, cost))


def reschedule_cost(pods: Iterable[Pod]) -> float:
    """Return what it costs to find new places for the reschedulable ones of *pods*; pods of negative cost are free."""
    return BASE_COST + sum(max(0.0, eviction_cost(pod)) for pod in pods if pod.reschedulable)


def is_empty(cost: float) -> bool:
    """Say whether a node of this reschedule cost counts as empty (nodepool-disruption.md 5.5)."""
    return cost <= BASE_COST


def lifetime_remaining(created: datetime | None, expire_after: timedelta | None, now: datetime) -> float:
    """Return the share of its life that a claim still has, 1 when it lives for ever or its age is not known."""
    if expire_after is None or created is None:
        return 1.0
    if not expire_after:
        return 0.0
    return max(0.0, min(1.0, (expire_after - (now - created)) / expire_after))


def disruption_cost(pods: Iterable[Pod], remaining: float) -> float:
    """Return the eviction cost of all pods of a node, times the share of its life that *remaining* is."""
    return sum(map(eviction_cost, pods)) * remaining


def savings_ratio(price: float, cost: float) -> float:
    """Return the price per hour that disrupting a node saves for each unit of its reschedule cost."""
    return price / cost
