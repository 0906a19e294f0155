"""Eligibility of clusters: members that have joined, send heartbeats and are healthy.

The columns contain the instants at which a heartbeat becomes stale and a cluster has been unhealthy for too long, so
they remain valid as time passes. The filter ``plugins.cluster_eligibility`` uses them.

Source: docs/specifications/scheduling.md 5; KubeFleet pkg/scheduler/clustereligibilitychecker.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.conditions import TRUE, find_condition
from scorer.api.names import MEMBER_AGENT
from scorer.columns import MICROSECOND, UNLIMITED, IntColumn, RowColumn, microseconds

_NEVER = np.iinfo(np.int64).min

LEAVING, NOT_REPORTING, STALE, NOT_JOINED, HEALTH_UNKNOWN, UNHEALTHY = range(1, 7)
"""The tests of eligibility, in order (scheduling.md 5). 0 means eligible."""


@dataclass(frozen=True, slots=True)
class EligibilityLimits:
    """Maximum age of a heartbeat, and maximum time that a cluster may be unhealthy, both inclusive."""

    heartbeat: timedelta = timedelta(minutes=5)
    health: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class EligibilityColumns:
    """The instants until which each cluster is eligible, in microseconds since 1970.

    Args:
        failed: The first test that fails regardless of the time (`LEAVING`, `NOT_REPORTING`, `NOT_JOINED`,
            `HEALTH_UNKNOWN`), else 0.
        heartbeat_until: The last instant at which the heartbeat counts as fresh.
        health_until: The last instant at which an unhealthy cluster is tolerated. `UNLIMITED` while it is healthy.
        until: The last instant at which all tests pass.
    """

    failed: NDArray[np.int8]
    heartbeat_until: IntColumn
    health_until: IntColumn
    until: IntColumn

    def failure_of(self, row: int, now: datetime) -> int:
        """Return the first test that one cluster fails, 0 if it passes all. The scalar form of `first_failure`."""
        instant, failed = microseconds(now), self.failed.item(row)
        if failed in (LEAVING, NOT_REPORTING):
            return failed
        if self.heartbeat_until.item(row) < instant:
            return STALE
        return failed or (UNHEALTHY if self.health_until.item(row) < instant else 0)

    def first_failure(self, rows: NDArray[np.intp], now: datetime) -> NDArray[np.int8]:
        """Return the first test that each of *rows* fails, 0 for a row that passes all."""
        instant = microseconds(now)
        failed = self.failed[rows]
        order = [failed == LEAVING, failed == NOT_REPORTING, self.heartbeat_until[rows] < instant]
        order += [failed == NOT_JOINED, failed == HEALTH_UNKNOWN, self.health_until[rows] < instant]
        return np.select(order, range(LEAVING, UNHEALTHY + 1), 0).astype(np.int8)

    @classmethod
    def of(cls, members: Sequence[MemberCluster], limits: EligibilityLimits) -> "EligibilityColumns":
        """Evaluate all *members*."""
        failed, heartbeat_until, health_until, until = _evaluate_all(members, limits)
        return cls(failed.astype(np.int8), heartbeat_until.copy(), health_until.copy(), until.copy())

    def updated(
        self, rows: RowColumn, members: Sequence[MemberCluster], limits: EligibilityLimits
    ) -> "EligibilityColumns":
        """Return the columns with *rows* evaluated again.

        Args:
            rows: The rows of *members*.
            members: The changed clusters.
            limits: The limits with which all other rows were evaluated.
        """
        failed, heartbeat_until, health_until, until = _evaluate_all(members, limits)
        return EligibilityColumns(
            _rewrite_rows(self.failed, rows, failed),
            _rewrite_rows(self.heartbeat_until, rows, heartbeat_until),
            _rewrite_rows(self.health_until, rows, health_until),
            _rewrite_rows(self.until, rows, until),
        )


class _Eligibility(NamedTuple):
    """One row of `EligibilityColumns`."""

    failed: int
    heartbeat_until: int
    health_until: int
    until: int


def _evaluate_all(members: Sequence[MemberCluster], limits: EligibilityLimits) -> NDArray[np.int64]:
    failures = np.array([_evaluate(member, limits) for member in members], dtype=np.int64)
    return failures.reshape(-1, len(_Eligibility._fields)).T


def _evaluate(member: MemberCluster, limits: EligibilityLimits) -> _Eligibility:
    leaving = member.metadata.deletion_timestamp is not None
    agent = next((agent for agent in member.status.agent_status if agent.type == MEMBER_AGENT), None)
    if agent is None:
        return _Eligibility(LEAVING if leaving else NOT_REPORTING, _NEVER, _NEVER, _NEVER)
    heartbeat, health_until = agent.last_received_heartbeat, _NEVER
    heartbeat_until = _NEVER if heartbeat is None else microseconds(heartbeat) + limits.heartbeat // MICROSECOND
    healthy = find_condition(agent.conditions, "Healthy")
    if healthy is not None and healthy.status == TRUE:
        health_until = UNLIMITED
    elif healthy is not None and healthy.last_transition_time is not None:
        health_until = microseconds(healthy.last_transition_time) + limits.health // MICROSECOND
    joined_condition = find_condition(agent.conditions, "Joined")
    has_joined = joined_condition is not None and joined_condition.status == TRUE
    failed = LEAVING if leaving else NOT_JOINED if not has_joined else HEALTH_UNKNOWN if healthy is None else 0
    return _Eligibility(failed, heartbeat_until, health_until, _NEVER if failed else min(heartbeat_until, health_until))


def _rewrite_rows(column: NDArray[Any], rows: RowColumn, values: IntColumn) -> NDArray[Any]:
    """Return a copy with *values* in *rows*, or the column itself if it already contains them."""
    if np.array_equal(column[rows], values):
        return column
    copy = column.copy()
    copy[rows] = values
    return copy
