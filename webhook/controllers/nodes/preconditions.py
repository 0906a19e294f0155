"""Preconditions of node disruption: no Karpenter is running, and the local clock agrees with the API server.

Nodes expire by the time of day, and budgets do not limit expiration. A clock that is a month ahead would expire all
nodes of a cluster together. So the local clock is compared with that of the API server, which sets the creation
time of NodeClaims.

Source: docs/specifications/nodepool-disruption.md 5.1 and 10.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from scorer.api.meta import format_time
from scorer.node_disruption.execution.karpenter_lease import Sightings, current_leader, sightings
from webhook.kube.client.evictions import NodeWork
from webhook.kube.ports import ForbiddenError
from webhook.settings.gate import NodeDisruptionOptions

RIVAL_EVERY: Final = timedelta(seconds=10)
"""Poll interval of Karpenter's Lease. It is also read before each command is accepted."""
SKEW: Final = timedelta(minutes=1)
"""Maximum clock skew between processes and servers. A larger difference is an error."""


class KarpenterDetector:
    """Detects a running Karpenter and a wrong clock.

    Args:
        work: Reads the Lease. None: disabled, no command can be executed.
        options: Name of the Lease.
        now: The wall clock of decisions.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self,
        work: NodeWork | None,
        options: NodeDisruptionOptions,
        now: Callable[[], datetime],
        clock: Callable[[], float],
    ) -> None:
        self._work = work
        self._now = now
        self._name = options.karpenter_lease
        self._namespace = options.karpenter_namespace
        self._clock = clock
        self._sightings: Sightings = {}
        self._checked_at = float("-inf")
        self._turn = asyncio.Lock()
        self._why_not = ""

    async def refusal(self, *, surely: bool = False) -> str:
        """Return why no command may be executed, empty if commands may be.

        Args:
            surely: Poll now, regardless of the poll interval.

        Raises:
            StoreError: The Lease cannot be read now.
        """
        if self._work is None:
            return "mode Act requires an API server that can evict pods"
        oldest = self._clock() if surely else self._clock() - RIVAL_EVERY.total_seconds()
        async with self._turn:  # nodes that expire together share one poll
            if self._checked_at < oldest:
                began = self._clock()
                self._why_not = await self._look(self._work)
                self._checked_at = began
            return self._why_not

    @property
    def due_in(self) -> timedelta:
        """Time until the next poll is due, 0 if it is."""
        return max(timedelta(), RIVAL_EVERY - timedelta(seconds=min(self._clock() - self._checked_at, 3600)))

    def invalidate(self) -> None:
        """Invalidate the last result: the clock has been set."""
        self._checked_at = float("-inf")

    async def _look(self, work: NodeWork) -> str:
        try:
            leases = await work.leases(self._name, self._namespace)
        except ForbiddenError as error:
            return f"cannot determine whether Karpenter is running: {error}"
        clock = self._clock()
        self._sightings = sightings(leases, self._sightings, clock)
        return current_leader(self._sightings, clock) or _wrong(self._now(), work.time_of_day())


def _wrong(now: datetime, server_time: datetime | None) -> str:
    """Return how the clock is wrong. Empty: it is right, or the server reports no time."""
    if server_time is None or abs(now - server_time) <= SKEW:
        return ""
    return (
        f"the clock of this process is at {format_time(now)}, and the clock of the API server at "
        f"{format_time(server_time)}. They must differ by at most {SKEW.seconds} s: synchronize the clocks"
    )
