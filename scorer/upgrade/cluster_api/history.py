"""History of a Cluster: since when its topology fails to reconcile, as far as this process has seen.

A condition of Cluster API says since when its *status* is what it is, not since when its reason is: during an upgrade
``TopologyReconciled`` is False all the time, and one error that passes changes the reason alone. So whoever looks at a
Cluster again and again remembers when it first saw the error; a process that starts begins to count anew.

Source: upgrade-runs.md 13.3; Cluster API v1.13, internal/controllers/topology/cluster/conditions.go.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self

from scorer.api.unstructured.documents import uid_of
from scorer.upgrade.cluster_api.topology import ClusterApiObjects, operation_on

FORGET_AFTER: Final = timedelta(minutes=30)
"""Looks that are further apart say nothing about the time between them."""

_FAILED: Final = frozenset({"ReconcileFailed", "TopologyReconcileFailed"})
"""Reasons of ``TopologyReconciled`` in the newer version of the API and in the older one."""


@dataclass(frozen=True, slots=True)
class ClusterApiHistory:
    """What looks at one Cluster have shown so far.

    Args:
        uid: Of the Cluster.
        at: When it was looked at last; None: never.
        failing_since: The first of the looks, up to the last one, that all found an error of the topology; None: the
            last one found none.
        operation: The operation that had changed the Cluster last.
        operation_since: The first look that found that operation.
    """

    uid: str = ""
    at: datetime | None = None
    failing_since: datetime | None = None
    operation: str = ""
    operation_since: datetime | None = None

    def then(self, parts: ClusterApiObjects, now: datetime) -> Self:
        """Return the same with one more look, which is at *now*."""
        uid, operation = uid_of(parts.cluster), operation_on(parts.cluster)
        goes_on = self.at is not None and self.uid == uid and abs(now - self.at) <= FORGET_AFTER
        failing = earlier(self.failing_since if goes_on else None, now) if is_failing(parts) else None
        since = self.operation_since if self.uid == uid and self.operation == operation else None
        return type(self)(uid, now, failing, operation, earlier(since, now))


NO_LOOKS: Final = ClusterApiHistory()
"""Nobody has looked yet."""


def earlier(since: datetime | None, now: datetime) -> datetime:
    """Return the earlier of two moments: a clock that was set back does not make a time that has passed negative."""
    return now if since is None else min(since, now)


def is_failing(parts: ClusterApiObjects) -> bool:
    """Say whether the topology of a Cluster cannot be reconciled at the moment."""
    condition = parts.condition("TopologyReconciled")
    return bool(condition.get("status") == "False" and condition.get("reason") in _FAILED)
