"""Nodes of a pool with their claims, as documents, and the instance types that they are of.

A worker is initialized, has been quiet for long, and lives for ever unless it is told otherwise.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from scorer.api.meta import JsonObject, format_time
from scorer.node_disruption.cluster.reader import read_cluster
from scorer.node_disruption.cluster.snapshot import HASH, HASH_VERSION, ClusterSnapshot
from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
from scorer.node_disruption.instance_types.price_table import read_instance_types
from tests.builders.node import make_claim, make_node, make_pool

T = TypeVar("T")
NOW: Final = datetime(2026, 6, 10, 12, tzinfo=UTC)
POOL: Final = "general"
TYPE, CAPACITY = "node.kubernetes.io/instance-type", "karpenter.sh/capacity-type"
FREE: Final = [{"nodes": "100%"}]
"""Budgets that hold nothing."""


def make_worker(
    name: str,
    kind: str = "large",
    *,
    pool: str = POOL,
    zone: str = "z1",
    capacity: str = "on-demand",
    cores: float = 4,
    **more: Any,
) -> tuple[JsonObject, JsonObject]:
    """Make a node and its claim.

    Args:
        name: Of the node; the claim has the same.
        kind: Its instance type.
        pool: Its NodePool.
        zone: Of both; empty: it has none.
        capacity: Its capacity type; empty: it has none.
        cores: What pods may take.
        more: ``annotations``, ``labels`` and ``taints`` of the node, ``conditions`` and ``claim`` (annotations) of the
            claim by type, ``last_pod_event`` and ``created`` as instants; the rest is the claim's spec.
    """
    labels = {TYPE: kind, **({CAPACITY: capacity} if capacity else {}), **more.pop("labels", {})}
    node = make_node(name, pool=pool, zone=zone, labels=labels, taints=more.pop("taints", ()), has={"cpu": str(cores)})
    node["metadata"]["annotations"] = more.pop("annotations", {})
    for key in more.pop("without", ()):
        node["metadata"]["labels"].pop(key)
    conditions, annotations = more.pop("conditions", {}), more.pop("claim", {})
    last_pod_event, created = more.pop("last_pod_event", None), more.pop("created", None)
    deleting = more.pop("deleting", None)
    claim = make_claim(name, name, pool, **{"expireAfter": "Never", **more})
    own = {key: value for key, value in node["metadata"]["labels"].items() if key != "karpenter.sh/initialized"}
    claim["metadata"] |= {"labels": own, "annotations": annotations}
    if created is not None:
        claim["metadata"]["creationTimestamp"] = format_time(created)
    if deleting is not None:
        claim["metadata"]["deletionTimestamp"] = format_time(deleting)
    if last_pod_event is not None:
        claim["status"]["lastPodEventTime"] = format_time(last_pod_event)
    claim["status"]["conditions"] += [_condition(kind, *found) for kind, found in conditions.items()]
    return node, claim


def drifted(since: timedelta = timedelta(hours=1), reason: str = "NodeClassDrifted") -> dict[str, tuple[str, str]]:
    """Make the conditions of a claim that drifted so long ago."""
    return {"Drifted": (reason, format_time(NOW - since))}


def _condition(kind: str, reason: str, since: str) -> JsonObject:
    return {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": since}


def make_pool_of(name: str = POOL, *requirements: JsonObject, digest: str = "", **more: Any) -> JsonObject:
    """Make a NodePool whose budgets hold nothing, unless *budgets* says otherwise.

    Args:
        name: Its own.
        requirements: On its nodes.
        digest: Its annotation with the digest of its template.
        more: ``policy``, ``after`` and ``budgets`` of its disruption, ``ready`` the status of its condition Ready; the
            rest as for `make_pool`.
    """
    disruption = {
        "consolidationPolicy": more.pop("policy", "WhenEmptyOrUnderutilized"),
        "consolidateAfter": more.pop("after", "0s"),
        "budgets": more.pop("budgets", FREE),
    }
    ready = more.pop("ready", "")
    found = make_pool(name, *requirements, disruption=disruption, **more)
    if ready:
        found["status"] = {"conditions": [{"type": "Ready", "status": ready, "reason": "Built"}]}
    if digest:
        found["metadata"]["annotations"] = {HASH: digest, HASH_VERSION: "v3"}
    return found


def make_cluster(*documents: Any, now: datetime = NOW) -> ClusterSnapshot:
    """Read a cluster from documents, any of them in groups."""
    return read_cluster(_flat(documents), now)


def kept(old: ClusterSnapshot, new: ClusterSnapshot) -> ClusterSnapshot:
    """Return *new*, with everything that is as in *old* being the same object."""
    return replace(
        new,
        pools=_same(old.pools, new.pools),
        nodes=_same(old.nodes, new.nodes),
        pods=_same(old.pods, new.pods),
        guards=_same(old.guards, new.guards),
    )


def _same(before: Mapping[str, T], after: Mapping[str, T]) -> dict[str, T]:
    return {name: before[name] if before.get(name) == each else each for name, each in after.items()}


def _flat(documents: Iterable[Any]) -> Iterator[JsonObject]:
    for each in documents:
        if isinstance(each, dict):
            yield each
        else:
            yield from _flat(each)


def make_catalog(
    prices: Mapping[str, float],
    *,
    cores: Mapping[str, float] | None = None,
    zones: Iterable[str] = ("z1",),
    capacity: Iterable[str] = ("on-demand",),
) -> InstanceTypeCatalog:
    """Make instance types.

    Args:
        prices: Per hour, by name.
        cores: What pods may take, by name; 4 where it is not named.
        zones: Where each is offered.
        capacity: As what each is offered; spot costs half as much.
    """
    places = [(zone, kind) for zone in zones for kind in capacity]
    rows = [
        {
            "name": name,
            "cpu": str((cores or {}).get(name, 4)),
            "memory": "16Gi",
            "zone": zone,
            "capacityType": kind,
            "price": price / 2 if kind == "spot" else price,
        }
        for name, price in prices.items()
        for zone, kind in places
    ]
    return InstanceTypeCatalog(read_instance_types(rows))
