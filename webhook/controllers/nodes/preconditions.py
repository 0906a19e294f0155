"""Preconditions of node disruption: no Karpenter is running, and the local clock agrees with the API server.

Nodes expire by the time of day, and budgets do not hold that. A clock that is a month ahead would have all nodes of a
cluster go at once. So it is compared with that of the API server, which has dated the claims.

Source: nodepool-disruption.md 5.1 and 10.
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
"""How often to look whether Karpenter runs; before a command is accepted in any case."""
SKEW: Final = timedelta(minutes=1)
"""How far the clocks of processes and servers may be apart; what is further apart is a mistake."""


class KarpenterDetector:
    """Looks for a Karpenter, and at the clock.

    Args:
        work: Reads its Lease; None: nothing can be carried out here at all.
        options: Name the Lease.
        now: The clock that decisions are made by.
        clock: Seconds, of a clock that never jumps.
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
        self._seen: Sightings = {}
        self._looked = float("-inf")
        self._turn = asyncio.Lock()
        self._why_not = ""

    async def refusal(self, *, surely: bool = False) -> str:
        """Return why nothing may be carried out; empty when it may.

        Args:
            surely: By a look that begins now, however short a while ago there was one.

        Raises:
            StoreError: Nobody can tell now.
        """
        if self._work is None:
            return "mode Act needs an API server that evicts pods, and this store does not"
        oldest = self._clock() if surely else self._clock() - RIVAL_EVERY.total_seconds()
        async with self._turn:  # what many nodes that expire at once wait for is one look
            if self._looked < oldest:
                began = self._clock()
                self._why_not = await self._look(self._work)
                self._looked = began
            return self._why_not

    @property
    def due_in(self) -> timedelta:
        """How long it is until the next look."""
        return max(timedelta(), RIVAL_EVERY - timedelta(seconds=min(self._clock() - self._looked, 3600)))

    def invalidate(self) -> None:
        """Have the next question be answered by a look: the clock has been set."""
        self._looked = float("-inf")

    async def _look(self, work: NodeWork) -> str:
        try:
            leases = await work.leases(self._name, self._namespace)
        except ForbiddenError as error:
            return f"nobody can tell whether Karpenter runs: {error}"
        clock = self._clock()
        self._seen = sightings(leases, self._seen, clock)
        return current_leader(self._seen, clock) or _wrong(self._now(), work.time_of_day())


def _wrong(now: datetime, server_time: datetime | None) -> str:
    """Say how the clock is wrong by which decisions are made; empty: it is not, or the server does not say the time."""
    if server_time is None or abs(now - server_time) <= SKEW:
        return ""
    return f"the clock here says {format_time(now)}, and that of the API server {format_time(server_time)}"
