"""How an upgrade is ordered: what is changed in the topology of a Cluster, all of it in one write.

Nothing is ever moved down: a version or an image that is at its target, or later, stays. Where the version of a
topology is later than the target, workers that are behind follow to that version, as Cluster API has it.

Source: upgrade-runs.md 6.1 and 13.3.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from scorer.api.meta import JsonObject, format_time
from scorer.api.unstructured.documents import dict_at, list_at, spec_of, with_metadata
from scorer.api.upgrade.fields import UpgradeType
from scorer.upgrade.back_ends.interface import Operation, Rejected
from scorer.upgrade.cluster_api.progress import at_work, holds_workers
from scorer.upgrade.cluster_api.topology import (
    FAMILY,
    OPERATION,
    ClusterApiObjects,
    ClusterApiRef,
    full_name,
    image_of,
    is_paused,
    operation_on,
    topology_of,
    version_of,
)
from scorer.upgrade.versions.comparison import image_order, is_version, parse_version

HOLD: Final = "topology.cluster.x-k8s.io/hold-upgrade-sequence"
"""On a set of machines in a topology: it and those after it keep their version."""
DEFER: Final = "topology.cluster.x-k8s.io/defer-upgrade"
OURS_TO_TAKE_OFF: Final = "harbormaster"
"""Value of the two where an upgrade of ours has put them; those of others stay."""
_WORKERS: Final = ("machineDeployments", "machinePools")
_DENIED: Final = "denied the request: "
_ABOUT_VERSION: Final = "version cannot be "
_STILL_BUSY: Final = "version cannot be changed"
"""Is in every refusal of Cluster API that says that an earlier upgrade is not complete."""


def refusal_of(message: str) -> Rejected:
    """Return what a refusal of Cluster API means; one that goes by itself may be tried again.

    What matters stands behind the names of the hook and the object, and statuses have little room.
    """
    _, separator, rest = message.partition(_ABOUT_VERSION)
    text = separator + rest if separator else message.rpartition(_DENIED)[2]
    if _STILL_BUSY in text:
        return Rejected("ClusterBusy", text, retryable=True)
    return Rejected("UpgradeRefused", text)


def held_message(cluster: str) -> str:
    """Say why the images of a Cluster cannot be changed for now: Cluster API leaves workers alone that are held."""
    return f"workers of Cluster {cluster} are held back: their images can change when they have followed"


def changed_cluster(
    parts: ClusterApiObjects, place: ClusterApiRef, operation: Operation, now: datetime
) -> JsonObject | Rejected:
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
    if waits := list(at_work(parts)):
        earlier = operation_on(cluster)
        whose = f"operation {earlier} is under way" if earlier else "Cluster API is at work"
        return Rejected("ClusterBusy", f"{whose} on Cluster {full_name(cluster)}: {waits[0]}", retryable=True)
    changed, image = dict(topology), target.images.get(FAMILY, "")
    if target.type is UpgradeType.NODE_IMAGE_ONLY:
        if holds_workers(parts):
            return Rejected("WorkersHeld", held_message(full_name(cluster)), retryable=True)
        if not place.variable and parts.is_old:
            return Rejected("NoImageVariable", f"Cluster {full_name(cluster)}: no variable carries the node image")
    else:
        raised = not _is_reached(version_of(cluster), target.kubernetes_version)
        if raised:
            changed["version"] = f"v{target.kubernetes_version}"
        if raised or target.type is UpgradeType.FULL:
            changed = _with_workers(changed, held=target.type is UpgradeType.CONTROL_PLANE_ONLY)
    if target.type is not UpgradeType.CONTROL_PLANE_ONLY and image and place.variable:
        changed = _with_image(changed, place.variable, image, image_of(parts, place.variable))
    elif target.type is UpgradeType.NODE_IMAGE_ONLY and not place.variable:
        changed = _with_rollout(changed, now)
    spec = {**spec_of(cluster), "topology": changed}
    return with_metadata({**cluster, "spec": spec}, annotations={OPERATION: operation.id})


def _is_reached(version: str, target: str) -> bool:
    """Say whether a version is a target, or later."""
    return is_version(version) and is_version(target) and parse_version(version) >= parse_version(target)


def _with_image(topology: JsonObject, name: str, image: str, present: str) -> JsonObject:
    """Return a topology whose machines get an image, unless they have a later one.

    Args:
        topology: The topology. A set of machines, or the control plane, that has a value of its own keeps one.
        name: Of the variable.
        image: What it is to be.
        present: What it is for machines without a value of their own.
    """

    def raised(value: Any) -> Any:
        return value if isinstance(value, str) and image_order(value) >= image_order(image) else image

    def set_in(variables: list[Any]) -> list[Any]:
        return [
            {**variable, "value": raised(variable.get("value"))}
            if isinstance(variable, dict) and variable.get("name") == name
            else variable
            for variable in variables
        ]

    def override(machines: JsonObject) -> JsonObject:
        variables = dict_at(machines, "variables")
        if not (overrides := list_at(variables, "overrides")):
            return machines
        return {**machines, "variables": {**variables, "overrides": set_in(overrides)}}

    variables = set_in(list_at(topology, "variables"))
    if (
        not any(isinstance(variable, dict) and variable.get("name") == name for variable in variables)
        and raised(present) == image
    ):
        variables.append({"name": name, "value": image})
    changed = {**topology, "variables": variables} if variables else topology
    if control_plane := dict_at(topology, "controlPlane"):
        changed = {**changed, "controlPlane": override(control_plane)}
    for member in _WORKERS:
        changed = _with_each(changed, member, lambda _, machines: override(machines))
    return changed


def _with_each(topology: JsonObject, member: str, change: Callable[[int, JsonObject], JsonObject]) -> JsonObject:
    """Return a topology with other sets of workers; *change* gets the place of each and what it is."""
    workers = dict_at(topology, "workers")
    if not (topology_entries := list_at(workers, member)):
        return topology
    changed = [change(at, each) if isinstance(each, dict) else each for at, each in enumerate(topology_entries)]
    return {**topology, "workers": {**workers, member: changed}}


def _with_workers(topology: JsonObject, *, held: bool) -> JsonObject:
    """Return a topology whose workers keep their version, or follow."""
    changed = _with_each(topology, "machineDeployments", lambda at, each: _annotated(each, HOLD, held=held and at == 0))
    return _with_each(changed, "machinePools", lambda _, each: _annotated(each, DEFER, held=held))


def _annotated(machines: JsonObject, key: str, *, held: bool) -> JsonObject:
    metadata = dict(dict_at(machines, "metadata"))
    annotations = dict(dict_at(metadata, "annotations"))
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
    """Return a topology whose machines are made anew from their present templates.

    A run does not come here by itself: the pools of a Cluster without an image variable have no image that could be
    behind one, nor one that could be found reached afterwards. See `inventory_of`.
    """
    after = format_time(now)
    return _with_each(
        topology,
        "machineDeployments",
        lambda _, each: {**each, "rollout": {**dict_at(each, "rollout"), "after": after}},
    )
