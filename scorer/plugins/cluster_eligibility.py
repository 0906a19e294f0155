"""ClusterEligibility: only clusters that have joined, report heartbeats and are healthy can be picked.

Source: docs/specifications/scheduling.md 5; KubeFleet pkg/scheduler/clustereligibilitychecker.
"""

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from scorer.api.conditions import find_condition
from scorer.api.names import MEMBER_AGENT
from scorer.api.values.duration import format_duration
from scorer.columns import BoolColumn, microseconds
from scorer.eligibility import HEALTH_UNKNOWN, LEAVING, NOT_JOINED, NOT_REPORTING, STALE, UNHEALTHY
from scorer.fleet import Fleet
from scorer.framework.cycle import Cycle
from scorer.framework.status import Category, FilterRejection

_CATEGORY = {
    LEAVING: Category.CLUSTER_LEAVING,
    NOT_REPORTING: Category.AGENT_NOT_REPORTING,
    STALE: Category.HEARTBEAT_STALE,
    NOT_JOINED: Category.AGENT_NOT_JOINED,
    HEALTH_UNKNOWN: Category.HEALTH_UNKNOWN,
    UNHEALTHY: Category.CLUSTER_UNHEALTHY,
}


@dataclass(frozen=True, slots=True)
class ClusterEligibility:
    """The six tests of eligibility. Time is the only input besides the cluster."""

    name = "ClusterEligibility"

    def filter(self, cycle: Cycle) -> BoolColumn:
        """Return the clusters that pass all tests at the cycle's instant."""
        return eligible(cycle.fleet, cycle.now)

    def categories(self, cycle: Cycle, rejections: BoolColumn) -> dict[Category, int]:
        """Count by the first test that failed."""
        failures = cycle.fleet.eligibility.first_failure(np.flatnonzero(rejections), cycle.now)
        counts = np.bincount(failures, minlength=UNHEALTHY + 1)
        return {category: int(counts[failure]) for failure, category in _CATEGORY.items() if counts[failure]}

    def reject(self, cycle: Cycle, row: int) -> FilterRejection:
        """Return a rejection that names the first test that failed, with its numbers."""
        rejection = ineligibility(cycle.fleet, row, cycle.now)
        assert rejection is not None
        return rejection


def eligible(fleet: Fleet, now: datetime) -> BoolColumn:
    """Return the clusters that can be picked at *now*."""
    return fleet.eligibility.until >= microseconds(now)


def ineligibility(fleet: Fleet, row: int, now: datetime) -> FilterRejection | None:
    """Return why the cluster in *row* cannot be picked at *now*, None if it can."""
    failure = fleet.eligibility.failure_of(row, now)
    if failure == 0:
        return None
    member = fleet.members[row]
    agent = next((agent for agent in member.status.agent_status if agent.type == MEMBER_AGENT), None)
    healthy = find_condition(agent.conditions, "Healthy") if agent else None
    joined_condition = find_condition(agent.conditions, "Joined") if agent else None
    help_text = ""
    well = fleet.eligibility.health_until[row] >= microseconds(now)
    if failure == LEAVING:
        message = "the cluster is leaving the fleet"
    elif failure == NOT_REPORTING:
        message = "no member agent reports for the cluster"
    elif failure == STALE:
        limit = format_duration(fleet.limits.heartbeat)
        if agent is None or agent.last_received_heartbeat is None:
            message = f"no heartbeat yet: at least one is required every {limit}"
        else:
            age = format_duration(now - agent.last_received_heartbeat)
            message = f"last heartbeat {age} ago, limit {limit}"
        help_text = "its agent sending a heartbeat" if well and not fleet.eligibility.failed[row] else ""
    elif failure == NOT_JOINED:
        message = (
            f"the agent's Joined condition is {joined_condition.status if joined_condition else 'absent'}, not True"
        )
        help_text = "its agent having joined" if well else ""
    elif failure == HEALTH_UNKNOWN:
        message = "the agent reports no health"
        help_text = "its agent reporting that it is healthy"
    else:
        assert healthy is not None
        since = healthy.last_transition_time
        age = f"for {format_duration(now - since)}" if since else "for an unknown time"
        message = f"Healthy is {healthy.status} {age}, limit {format_duration(fleet.limits.health)}"
        help_text = "the cluster being healthy again"
    return FilterRejection(ClusterEligibility.name, _CATEGORY[failure], message, help_text)
