"""A week of 2,000 nodes with 30,000 pods on a moved clock.

The pools are well filled, so that consolidation looks at every node and finds hardly anything: that takes longest. Of
the nodes, 466 expire within the week.
"""

import gc
import resource
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from scorer.api.meta import JsonObject
from scorer.node_disruption.cluster.reader import read_cluster
from scorer.node_disruption.cluster.snapshot import ClusterSnapshot
from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
from scorer.node_disruption.instance_types.price_table import read_instance_types
from scorer.node_disruption.simulation.simulator import simulate
from tests.bench.figures import Figure, Part
from tests.builders.pod import make_pod
from tests.builders.worker import make_pool_of, make_worker

POOLS, NODES, PODS = 8, 2_000, 30_000
WEEK_SECONDS, MEGABYTES = 45.0, 500
NOW = datetime(2026, 6, 29, 18, tzinfo=UTC)
LIFE = timedelta(hours=720)
TYPES = {"D4": (4, 0.2), "D8": (8, 0.4)}
ZONES = ("z0", "z1", "z2")
BUDGETS = [{"nodes": "10%"}, {"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"}]


def documents() -> Iterator[JsonObject]:
    """Yield the objects of the cluster."""
    for number in range(POOLS):
        yield make_pool_of(f"pool-{number}", budgets=BUDGETS, after="1h")
    for number in range(NODES):
        kind = "D8" if number % 4 else "D4"
        yield from make_worker(
            f"n{number:04}",
            kind,
            pool=f"pool-{number % POOLS}",
            zone=ZONES[number % len(ZONES)],
            cores=TYPES[kind][0],
            expireAfter="720h",
            created=NOW - LIFE * (number * 7919 % NODES) / NODES,
        )
    for number in range(PODS):
        yield make_pod(
            f"p{number}",
            f"n{number * 104729 % NODES:04}",
            labels={"app": f"a{number % 200}"},
            needs={"cpu": f"{430 + 50 * (number % 7)}m", "memory": "512Mi"},
            owner="ReplicaSet",
        )


def catalog() -> InstanceTypeCatalog:
    """Return the instance types."""
    rows = [
        {"name": name, "cpu": str(cores), "memory": f"{4 * cores}Gi", "zone": zone, "price": price}
        for name, (cores, price) in TYPES.items()
        for zone in ZONES
    ]
    return InstanceTypeCatalog(read_instance_types(rows))


def measure_week(cluster: ClusterSnapshot, types: InstanceTypeCatalog) -> None:
    """Tell how long a simulated week takes, and the memory of all of it."""
    start = time.perf_counter()
    found = simulate(cluster, types, NOW, timedelta(days=7))
    seconds = time.perf_counter() - start
    part = Part("week")
    note = f"{len(found.happenings)} happenings, {len(found.launches)} new nodes"
    part.report(Figure("seven simulated days of 2,000 nodes", seconds, "s", WEEK_SECONDS, note=note))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    part.report(Figure("memory at the most", peak, "MB", MEGABYTES))


def main() -> None:
    """Tell both figures."""
    cluster, types = read_cluster(documents(), NOW), catalog()
    gc.collect()
    gc.freeze()
    measure_week(cluster, types)


if __name__ == "__main__":
    main()
