"""History of a Cluster: how long its topology has failed to reconcile, as observed by this process.

A condition of Cluster API records when its *status* changed, not when its reason did. During an upgrade,
``TopologyReconciled`` is False all the time, and a transient error changes only the reason. Therefore each poll records
when it first saw the error. A restarted process counts from zero.

Source: docs/specifications/upgrade-runs.md 13.3; Cluster API v1.13,
internal/controllers/topology/cluster/conditions.go.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self

from scorer.api.unstructured.documents import uid_of
from scorer.upgrade.cluster_api.topology import ClusterApiObjects, operation_on

FORGET_AFTER: Final = timedelta(minutes=30)
"""Maximum gap between two polls that still count as one sequence."""

_FAILED: Final = frozenset({"ReconcileFailed", "TopologyReconcileFailed"})
"""Reasons of ``TopologyReconciled`` in the newer and in the older version of the API."""


@dataclass(frozen=True, slots=True)
class ClusterApiHistory:
    """Result of all polls of one Cluster so far.

    Args:
        uid: Uid of the Cluster.
        at: Time of the last poll. None before the first poll.
        failing_since: Time of the first of the consecutive polls, up to the last one, that found a topology error. None
            if the last poll found none.
        operation: Operation that changed the Cluster last.
        operation_since: Time of the first poll that found this operation.
    """

    uid: str = ""
    at: datetime | None = None
    failing_since: datetime | None = None
    operation: str = ""
    operation_since: datetime | None = None

    def then(self, parts: ClusterApiObjects, now: datetime) -> Self:
        """Return a copy with one more poll, at *now*."""
        uid, operation = uid_of(parts.cluster), operation_on(parts.cluster)
        goes_on = self.at is not None and self.uid == uid and abs(now - self.at) <= FORGET_AFTER
        failing_since = earlier(self.failing_since if goes_on else None, now) if is_failing(parts) else None
        since = self.operation_since if self.uid == uid and self.operation == operation else None
        return type(self)(uid, now, failing_since, operation, earlier(since, now))


NO_LOOKS: Final = ClusterApiHistory()
"""History before the first poll."""


def earlier(since: datetime | None, now: datetime) -> datetime:
    """Return the earlier of two times, so that a clock set back never yields a negative duration."""
    return now if since is None else min(since, now)


def is_failing(parts: ClusterApiObjects) -> bool:
    """Return whether the topology of a Cluster currently fails to reconcile."""
    condition = parts.condition("TopologyReconciled")
    return bool(condition.get("status") == "False" and condition.get("reason") in _FAILED)
