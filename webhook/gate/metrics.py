"""Prometheus metrics of the budgets of every node pool.

Pool names are label values here, unlike most names that users choose. Only operators create pools, so they control the
number of series.

Source: docs/specifications/serving.md 6.1; docs/specifications/nodepool-disruption.md 4 and 12; Karpenter
``pkg/controllers/disruption/metrics.go``.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from math import inf
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scorer.node_budgets.budgets import UNLIMITED
from scorer.node_budgets.outlook import Outlook, Prospect, outlook
from scorer.node_budgets.pool_view import PoolView

OPEN: Final = 0.0
LABELS: Final = ("nodepool", "reason")


class PoolMetrics(Collector):
    """Reads the pools at scrape time. An outlook is cached until a window opens or closes.

    * ``harbormaster_disruption_allowed``: the limit, infinite if no budget applies
    * ``harbormaster_disruption_active``: number of nodes that count against the limit. The difference may be disrupted
      now.
    * ``harbormaster_disruption_next_opening_timestamp_seconds``: `OPEN` while one more node may be disrupted. Otherwise
      the time when that becomes possible, assuming the current nodes. It is infinite if only a change to the budgets
      helps. It is absent for a pool without nodes, and if only nodes in flight use up the limit.

    Args:
        registry: Registry of the metrics.
        views: Returns all pools with their reservations.
        now: The clock.
    """

    def __init__(
        self, registry: CollectorRegistry, views: Callable[[], Iterable[PoolView]], now: Callable[[], datetime]
    ) -> None:
        self._views = views
        self._now = now
        self._pools: dict[str, Outlook] = {}
        registry.register(self)

    async def prepare(self) -> None:
        """Compute changed outlooks in a thread, one pool at a time: many budgets would block the event loop.

        Without this call `collect` computes them.
        """
        for pool in tuple(self._views()):
            counts, now = pool.counts(), self._now()
            cached = self._pools.get(pool.name)
            if cached is None or not cached.holds(pool.budgets, counts, now):
                # The pool may change in the meantime: `collect` checks again whether the outlook still holds.
                self._pools[pool.name] = await asyncio.to_thread(outlook, pool.budgets, counts, now)

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics without samples, so that registering them does not read the pools."""
        yield from _families()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics. Called by the registry."""
        allowed, active, opening = _families()
        now = self._now()
        pools: dict[str, Outlook] = {}
        for pool in self._views():
            counts = pool.counts()
            cached = self._pools.get(pool.name)
            if cached is None or not cached.holds(pool.budgets, counts, now):
                cached = outlook(pool.budgets, counts, now)
            pools[pool.name] = cached
            for prospect in cached.prospects:
                key, allowance = (pool.name, prospect.reason.value), prospect.allowed
                allowed.add_metric(key, inf if allowance.limit == UNLIMITED else allowance.limit)
                active.add_metric(key, allowance.disrupting)
                if (opens := _opens(prospect, counts.total)) is not None:
                    opening.add_metric(key, opens)
        self._pools = pools
        yield from (allowed, active, opening)


def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily, GaugeMetricFamily]:
    return (
        GaugeMetricFamily(
            "harbormaster_disruption_allowed",
            "Number of nodes of a pool that may be disrupted concurrently.",
            labels=LABELS,
        ),
        GaugeMetricFamily(
            "harbormaster_disruption_active", "Number of nodes of a pool that count against its budgets.", labels=LABELS
        ),
        GaugeMetricFamily(
            "harbormaster_disruption_next_opening_timestamp_seconds",
            "Time when another node of a pool may be disrupted. 0: now, infinite: never.",
            labels=LABELS,
        ),
    )


def _opens(prospect: Prospect, total: int) -> float | None:
    """Return when one more node may be disrupted, in Unix time. `OPEN`: now.

    Otherwise, the result is None for a pool without nodes, and if only nodes in flight use up the limit.
    """
    if prospect.opening is None:
        return OPEN
    if not total:
        return None
    if prospect.opening.instant is not None:
        return prospect.opening.instant.timestamp()
    return None if prospect.allowed.limit else inf
