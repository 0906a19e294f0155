"""Node disruption rows: one decision about 2,000 nodes and 30,000 pods, and the memory that all of it takes.

The dearest decision is one that finds nothing: every method is tried, and single-node consolidation tries every node.
The floor is one look at every node for every kind of pod: whether there is room, as one comparison of numpy columns.
"""

import gc
import resource
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final

import numpy as np

from scorer.api.meta import JsonObject
from scorer.node_disruption.cluster.reader import read_cluster
from scorer.node_disruption.cluster.snapshot import ClusterSnapshot
from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
from scorer.node_disruption.instance_types.price_table import read_instance_types
from scorer.node_disruption.methods.planner import DisruptionDecision, decide
from tests.bench.figures import Figure, Part
from tests.builders.node import ZONE
from tests.builders.pod import apart, make_pod, make_spread
from tests.builders.worker import NOW, drifted, make_pool_of, make_worker

NODES, PODS_PER_NODE, POOLS, APPS = 2_000, 15, 4, 60
GOAL_SECONDS, GOAL_MEGABYTES = 5.0, 500.0
PART: Final = Part("node_disruption")
ZONES: Final = ("z1", "z2", "z3")
SIZES: Final = (2, 4, 8, 16, 32)
FAMILIES: Final = tuple("abcdefghijklmnopqrst")
HOST: Final = "kubernetes.io/hostname"


def documents(fill: float, *, drift: bool = False, cheap: bool = False) -> Iterator[JsonObject]:
    """Yield the objects of a cluster.

    Args:
        fill: Share of the cores of each node that its pods request.
        drift: One node in ten has drifted.
        cheap: All nodes are of the cheapest type of their size, and spot; else of many types, and one in three is spot.
    """
    dice = np.random.default_rng(18)
    for pool in range(POOLS):
        yield make_pool_of(f"pool-{pool}", budgets=[{"nodes": "10%"}], limits={"cpu": "1000000"})
    for number in range(NODES):
        node = f"node-{number:04}"
        conditions = drifted(timedelta(hours=1 + number % 50)) if drift and number % 10 == 0 else {}
        kind, zone = f"{FAMILIES[0 if cheap else number % len(FAMILIES)]}-16", ZONES[number % len(ZONES)]
        capacity = "spot" if cheap or number % 3 == 0 else "on-demand"
        yield from make_worker(
            node,
            kind,
            pool=f"pool-{number % POOLS}",
            zone=zone,
            capacity=capacity,
            cores=15.8,
            conditions=conditions,
            expireAfter="720h",
            created=NOW - timedelta(hours=int(dice.integers(1, 700))),
        )
        shares = dice.dirichlet(np.ones(PODS_PER_NODE)) * fill * 15_800
        for slot in range(PODS_PER_NODE):
            yield _pod(f"{number:04}-{slot:02}", node, max(10, int(shares[slot])), (number * 7 + slot) % APPS)


def _pod(name: str, node: str, milli: int, app: int) -> JsonObject:
    labels = {"app": f"app-{app}"}
    more: JsonObject = {}
    if app % 6 == 0:
        more["topologySpreadConstraints"] = [make_spread(ZONE, labels, 100)]
    if app % 10 == 1:
        more["nodeSelector"] = {"kubernetes.io/os": "linux"}
    if app % 12 == 2:
        more["affinity"] = apart(HOST, {"app": "nobody"})
    made = make_pod(
        name, node, namespace=f"ns-{app % 12}", labels=labels, needs={"cpu": f"{milli // 50 * 50 + 10}m"}, **more
    )
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"app-{app}", "uid": f"rs-{app}", "controller": True}
    ]
    return made


def catalog(dearer: float = 0.0, capacities: tuple[str, ...] = ("on-demand", "spot")) -> InstanceTypeCatalog:
    """Return twenty families of five sizes.

    Args:
        dearer: How much more a type costs in each next zone, as a share.
        capacities: As what each is offered, in each of three zones.
    """
    rows = [
        {
            "name": f"{family}-{size}",
            "cpu": f"{size * 1000 - 200}m",
            "memory": f"{size * 4}Gi",
            "zone": zone,
            "capacityType": capacity,
            "price": size * (0.04 + 0.001 * index) * (0.4 if capacity == "spot" else 1.0) * (1 + number * dearer),
        }
        for index, family in enumerate(FAMILIES)
        for size in SIZES
        for number, zone in enumerate(ZONES)
        for capacity in capacities
    ]
    return InstanceTypeCatalog(read_instance_types(rows))


def _labelled(found: Iterator[JsonObject]) -> Iterator[JsonObject]:
    for each in found:
        if each["kind"] == "Node":
            each["metadata"]["labels"] |= {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        yield each


def _memory() -> float:
    """Return the most memory that the process has taken, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(
    title: str,
    cluster: ClusterSnapshot,
    types: InstanceTypeCatalog | None,
    expected: Callable[[DisruptionDecision], bool],
) -> None:
    """Tell a figure."""
    start = time.perf_counter()
    found = decide(cluster, types, NOW)
    seconds = time.perf_counter() - start
    assert expected(found), found.commands
    nodes = sum(len(each.nodes) for each in found.commands)
    what = f"{found.command.method} of {nodes}" if found.command else "nothing"
    PART.report(Figure(title, seconds, "s", GOAL_SECONDS, _floor(cluster), note=what))


def _floor(cluster: ClusterSnapshot) -> float:
    free = np.array([node.allocatable.get("cpu", 0) for node in cluster.nodes.values()])
    needs = [pod.requests.get("cpu", 0) for pods in cluster.pods.values() for pod in pods]
    start = time.perf_counter()
    for need in needs:
        (free >= need).argmax()
    return time.perf_counter() - start


def _read(fill: float, *, drift: bool = False, cheap: bool = False) -> ClusterSnapshot:
    return read_cluster(_labelled(documents(fill, drift=drift, cheap=cheap)), NOW)


def main() -> None:
    """Tell the figures."""
    gc.collect()
    types = catalog()
    cheap = _read(0.97, cheap=True)
    measure("full nodes, no price list", cheap, None, lambda found: not found.commands)
    measure("full nodes of the cheapest type: all are tried", cheap, types, lambda found: not found.commands)
    zones = catalog(0.1, ("spot",))
    measure("and cheaper in one zone: new nodes are tried, too", cheap, zones, lambda found: not found.commands)
    del cheap
    measure("full nodes of many types", _read(0.97), types, lambda found: bool(found.commands))
    measure("half full nodes", _read(0.5), types, lambda found: bool(found.commands))
    measure("one in ten has drifted", _read(0.97, drift=True), types, lambda found: bool(found.commands))
    PART.report(Figure("memory at the most", _memory(), "MB", GOAL_MEGABYTES))


if __name__ == "__main__":
    main()
