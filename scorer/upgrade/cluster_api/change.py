"""How an upgrade is ordered: what is changed in the topology of a Cluster, all of it in one write.

Source: upgrade-runs.md 13.3.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from scorer.api.documents import dicts_at, with_metadata
from scorer.api.meta import JsonObject, format_time
from scorer.api.upgrade.fields import UpgradeType
from scorer.upgrade.back_end import Operation, Rejected
from scorer.upgrade.cluster_api.progress import lacking
from scorer.upgrade.cluster_api.topology import (
    OPERATION,
    Parts,
    Place,
    full_name,
    is_paused,
    operation_on,
    topology_of,
)

HOLD: Final = "topology.cluster.x-k8s.io/hold-upgrade-sequence"
"""On a set of machines in a topology: it and those after it keep their version."""
DEFER: Final = "topology.cluster.x-k8s.io/defer-upgrade"
OURS_TO_TAKE_OFF: Final = "harbormaster"
"""Value of the two where an upgrade of ours has put them; those of others stay."""
_DENIED: Final = "denied the request: "
_ABOUT_VERSION: Final = "version cannot be "
_STILL_BUSY: Final = "version cannot be changed"
"""Is in every refusal of Cluster API that says that an earlier upgrade is not complete."""


def refusal_of(message: str) -> Rejected:
    """Return what a refusal of Cluster API means; one that goes by itself may be tried again.

    What matters stands behind the names of the hook and the object, and statuses have little room.
    """
    _, found, rest = message.partition(_ABOUT_VERSION)
    said = found + rest if found else message.rpartition(_DENIED)[2]
    if _STILL_BUSY in said:
        return Rejected("ClusterBusy", said, retryable=True)
    return Rejected("UpgradeRefused", said)


def changed_cluster(parts: Parts, place: Place, operation: Operation, now: datetime) -> JsonObject | Rejected:
    """Return a Cluster as an operation wants it.

    Args:
        parts: The Cluster as it is, and what belongs to it.
        place: How its image is set.
        operation: What is wanted.
        now: The moment.
    """
    cluster, target = parts.cluster, operation.target
    topology = topology_of(cluster)
    if not topology:
        return Rejected("NoTopology", f"Cluster {full_name(cluster)} has no topology")
    if is_paused(cluster):
        return Rejected("ClusterPaused", f"Cluster {full_name(cluster)} is paused", retryable=True)
    if waits := list(lacking(parts, UpgradeType.CONTROL_PLANE_ONLY)):
        earlier = operation_on(cluster)
        whose = f"operation {earlier} is under way" if earlier else "Cluster API is at work"
        return Rejected("ClusterBusy", f"{whose} on Cluster {full_name(cluster)}: {waits[0]}", retryable=True)
    changed = dict(topology)
    image = next((target.images[family] for family in sorted(target.images)), "")
    if target.type is not UpgradeType.NODE_IMAGE_ONLY:
        changed["version"] = f"v{target.kubernetes_version}"
        changed = _with_workers(changed, held=target.type is UpgradeType.CONTROL_PLANE_ONLY)
    if target.type is not UpgradeType.CONTROL_PLANE_ONLY and image and place.variable:
        changed["variables"] = _with_variable(topology, place.variable, image)
    elif target.type is UpgradeType.NODE_IMAGE_ONLY:
        if parts.is_old:
            return Rejected("NoImageVariable", f"Cluster {full_name(cluster)}: no variable carries the node image")
        changed = _with_rollout(changed, now)
    spec = {**cluster["spec"], "topology": changed}
    return with_metadata({**cluster, "spec": spec}, annotations={OPERATION: operation.id})


def _with_variable(topology: Mapping[str, Any], name: str, value: str) -> list[JsonObject]:
    """Return the variables of a topology, one of them with another value."""
    found = [dict(each) for each in dicts_at(topology, "variables")]
    known = [each for each in found if each.get("name") == name]
    for each in known:
        each["value"] = value
    return found if known else [*found, {"name": name, "value": value}]


def _with_workers(topology: JsonObject, *, held: bool) -> JsonObject:
    """Return a topology whose workers keep their version, or follow."""
    workers = dict(topology.get("workers") or {})
    for member, key, all_of_them in (("machineDeployments", HOLD, False), ("machinePools", DEFER, True)):
        found = dicts_at(workers, member)
        if found:
            workers[member] = [
                _annotated(each, key, held=held and (all_of_them or at == 0)) for at, each in enumerate(found)
            ]
    return {**topology, "workers": workers} if workers else topology


def _annotated(machines: JsonObject, key: str, *, held: bool) -> JsonObject:
    metadata = dict(machines.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    if held:
        annotations.setdefault(key, OURS_TO_TAKE_OFF)
    elif annotations.get(key) == OURS_TO_TAKE_OFF:
        del annotations[key]
    else:
        return machines
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)
    others = {name: value for name, value in machines.items() if name != "metadata"}
    return {**others, "metadata": metadata} if metadata else others


def _with_rollout(topology: JsonObject, now: datetime) -> JsonObject:
    """Return a topology whose machines are made anew from their present templates."""
    workers = dict(topology.get("workers") or {})
    for member in ("machineDeployments",):
        workers[member] = [
            {**each, "rollout": {**(each.get("rollout") or {}), "after": format_time(now)}}
            for each in dicts_at(workers, member)
        ]
    return {**topology, "workers": workers}
