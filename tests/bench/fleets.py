"""Fleets and policies for the benchmarks: random, seeded, of any size."""

from datetime import UTC, datetime, timedelta

import numpy as np

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.meta import JsonObject, format_time
from scorer.fleet import Fleet

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
CPU = "resources.kubernetes-fleet.io/available-cpu"
MEMORY = "resources.kubernetes-fleet.io/available-memory"
NODES = "kubernetes-fleet.io/node-count"
COST = "kubernetes.azure.com/per-cpu-core-cost"

DISTINCT = 4096
"""Larger fleets repeat that many distinct clusters, under names of their own."""


def member(name: str, dice: np.random.Generator) -> JsonObject:
    """Return a member cluster with plausible labels, taints, properties and usage."""
    cores = int(dice.integers(8, 4000))
    taints = [{"key": "gpu", "effect": "NoSchedule"}] if dice.random() < 0.1 else []
    healthy = "False" if dice.random() < 0.03 else "True"
    beat = NOW - timedelta(seconds=int(dice.integers(0, 310)))
    since = format_time(NOW - timedelta(days=1))
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1",
        "kind": "MemberCluster",
        "metadata": {
            "name": name,
            "labels": {
                "env": str(dice.choice(["prod", "staging", "dev"])),
                "region": f"region-{int(dice.integers(0, 12)):02}",
                "tier": str(int(dice.integers(1, 4))),
            },
        },
        "spec": {"identity": {"kind": "User", "name": name}, "taints": taints},
        "status": {
            "properties": {
                NODES: {"value": str(int(dice.integers(1, 500)))},
                COST: {"value": f"{dice.random() / 5:.3f}"},
            },
            "resourceUsage": {
                "capacity": {"cpu": str(cores), "memory": f"{cores * 4}Gi"},
                "allocatable": {"cpu": f"{cores * 950}m", "memory": f"{cores * 3}Gi"},
                "available": {
                    "cpu": f"{int(cores * 950 * dice.random())}m",
                    "memory": f"{int(cores * 2 * dice.random())}Gi",
                },
            },
            "agentStatus": [
                {
                    "type": "MemberAgent",
                    "conditions": [
                        {"type": "Joined", "status": "True", "lastTransitionTime": since},
                        {"type": "Healthy", "status": healthy, "lastTransitionTime": since},
                    ],
                    "lastReceivedHeartbeat": format_time(beat),
                }
            ],
        },
    }


def make_fleet(size: int) -> Fleet:
    """Return a fleet of *size* clusters."""
    dice = np.random.default_rng(7)
    distinct = [MemberCluster.read(member(f"cluster-{number:07}", dice)) for number in range(min(size, DISTINCT))]
    copies = []
    for number in range(len(distinct), size):
        original = distinct[number % DISTINCT]
        metadata = original.metadata.model_copy(update={"name": f"cluster-{number:07}"})
        copies.append(original.model_copy(update={"metadata": metadata}))
    return Fleet([*distinct, *copies])


def policy(number: int, *, spread: bool = False) -> JsonObject:
    """Return PickN with two required terms and four sorters, optionally with a hard spread over regions."""
    sorters = [(NODES, "Descending", 40), (COST, "Ascending", 60), (CPU, "Descending", 30), (MEMORY, "Descending", 20)]
    terms = [
        {
            "labelSelector": {"matchLabels": {"env": "prod"}},
            "propertySelector": {"matchExpressions": [{"name": NODES, "operator": "Ge", "values": ["5"]}]},
        },
        {
            "labelSelector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["1", "2"]}]},
            "propertySelector": {"matchExpressions": [{"name": CPU, "operator": "Gt", "values": ["100"]}]},
        },
    ]
    preferred = [
        {"weight": weight, "preference": {"propertySorter": {"name": name, "sortOrder": order}}}
        for name, order, weight in sorters
    ]
    document: JsonObject = {
        "placementType": "PickN",
        "numberOfClusters": number,
        "affinity": {
            "clusterAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms},
                "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            }
        },
        "tolerations": [{"key": "spot", "operator": "Exists"}],
    }
    if spread:
        document["topologySpreadConstraints"] = [{"topologyKey": "region", "maxSkew": 2}]
    return document
