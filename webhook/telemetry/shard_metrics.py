"""The metrics of replicas that share the work of the loop.

Source: serving.md 6.1.
"""

from collections.abc import Callable, Collection
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge

from webhook.kube.leader_election.shards import Move


class ShardMetrics:
    """Shows which shards this replica works on, and counts how they come and go.

    Args:
        registry: Where the metrics are registered.
        count: How many shards there are.
        held: Those that this process works on now.
        clash: How many shards the replicas have that this one waits for; 0: it waits for none.
    """

    def __init__(
        self, registry: CollectorRegistry, count: int, held: Callable[[], Collection[int]], clash: Callable[[], int]
    ) -> None:
        gauge = Gauge(
            "harbormaster_shard_held", "Whether this process works on a shard.", ("shard",), registry=registry
        )
        for shard in range(count):
            gauge.labels(str(shard)).set_function(partial(lambda shard: float(shard in held()), shard))
        self._moves = Counter(
            "harbormaster_shard_moves", "Shards that this process has got or given up.", ("move",), registry=registry
        )
        for move in Move:
            self._moves.labels(move)
        Gauge(
            "harbormaster_shards_waited_for",
            "How many shards the replicas have that this one waits for, because it has another number; 0: none.",
            registry=registry,
        ).set_function(clash)

    def moved(self, _shard: int, move: Move) -> None:
        """Count a shard that comes or goes."""
        self._moves.labels(move).inc()
