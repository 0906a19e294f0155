"""Whether somebody else disrupts the nodes of the cluster, so that nothing may be carried out here.

Source: nodepool-disruption.md 5.1.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from scorer.node_disruption.rival import Sightings, rival_of, sightings
from webhook.kube.node_work import NodeWork
from webhook.kube.ports import ForbiddenError
from webhook.settings.node_disruption import NodeDisruptionOptions

RIVAL_EVERY: Final = timedelta(seconds=10)
"""How often to look whether Karpenter runs; before a command is accepted in any case."""
FRESH: Final = timedelta(seconds=1)
"""For how long a look counts as one of now."""


class NodeRivals:
    """Looks for a Karpenter.

    Args:
        work: Reads its Lease; None: nothing can be carried out here at all.
        options: Name the Lease.
        clock: Seconds, of a clock that never jumps.
    """

    def __init__(self, work: NodeWork | None, options: NodeDisruptionOptions, clock: Callable[[], float]) -> None:
        self._work = work
        self._name = options.karpenter_lease
        self._namespace = options.karpenter_namespace
        self._clock = clock
        self._seen: Sightings = {}
        self._looked = float("-inf")
        self._why_not = ""

    async def why_not(self, *, surely: bool = False) -> str:
        """Return why nothing may be carried out; empty when it may.

        Args:
            surely: Look now, however short a while ago that was done.

        Raises:
            StoreError: Nobody can tell now.
        """
        if self._work is None:
            return "mode Act needs an API server that evicts pods, and this store does not"
        age = self._clock() - self._looked
        if age >= (FRESH if surely else RIVAL_EVERY).total_seconds():
            self._why_not = await self._look(self._work)
            self._looked = self._clock()
        return self._why_not

    @property
    def due_in(self) -> timedelta:
        """How long it is until the next look."""
        return max(timedelta(), RIVAL_EVERY - timedelta(seconds=min(self._clock() - self._looked, 1e6)))

    async def _look(self, work: NodeWork) -> str:
        try:
            leases = await work.leases(self._name, self._namespace)
        except ForbiddenError as error:
            return f"nobody can tell whether Karpenter runs: {error}"
        now = self._clock()
        self._seen = sightings(leases, self._seen, now)
        return rival_of(self._seen, now)
