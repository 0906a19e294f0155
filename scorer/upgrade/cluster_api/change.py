"""The change that starts an upgrade: one write to the topology of a Cluster.

Versions and images are never downgraded. If the topology already has a later version than the target, outdated workers
are upgraded to the version of the topology, as Cluster API requires.

Source: docs/specifications/upgrade-runs.md 6.1 and 13.3.
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
    PAUSED,
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
"""Annotation of a set of machines in a topology. This set and all sets after it keep their version."""
DEFER: Final = "topology.cluster.x-k8s.io/defer-upgrade"
OURS_TO_TAKE_OFF: Final = "harbormaster"
"""Value of both annotations when one of our upgrades has set them. Other values are never removed."""
_WORKERS: Final = ("machineDeployments", "machinePools")
_DENIED: Final = "denied the request: "
_ABOUT_VERSION: Final = "version cannot be "
_STILL_BUSY: Final = "version cannot be changed"
"""Substring of every refusal by Cluster API because an earlier upgrade is incomplete."""


def refusal_of(message: str) -> Rejected:
    """Classify a refusal by Cluster API. Refusals because of an upgrade in progress are retryable.

    The prefix with the names of the hook and the object is cut, because a status has little room.
    """
    _, separator, versions_text = message.partition(_ABOUT_VERSION)
    text = separator + versions_text if separator else message.rpartition(_DENIED)[2]
    if _STILL_BUSY in text:
        return Rejected("ClusterBusy", text, retryable=True)
    return Rejected("UpgradeRefused", text)


def held_message(cluster: str) -> str:
    """Return the message for held workers, whose images Cluster API does not change."""
    return f"workers of Cluster {cluster} are held back: their images cannot change before their upgrade"


def no_topology_message(cluster: str) -> str:
    """Return the message for a Cluster without a topology."""
    return f"Cluster {cluster} has no spec.topology: only Clusters of a ClusterClass can be upgraded"


def paused_message(cluster: str) -> str:
    """Return the message for a paused Cluster. See `is_paused`."""
    return f"Cluster {cluster} is paused: set spec.paused to false, and remove the annotation {PAUSED}"


def changed_cluster(
    parts: ClusterApiObjects, place: ClusterApiRef, operation: Operation, now: datetime
) -> JsonObject | Rejected:
    """Return a Cluster with the topology that an operation requests, or the reason to refuse.

    Args:
        parts: The Cluster and its objects.
        place: Place in the topology where the image is set.
        operation: The operation.
        now: Current time.
    """
    cluster, target = parts.cluster, operation.target
    topology = topology_of(cluster)
    if not topology:
        return Rejected("NoTopology", no_topology_message(full_name(cluster)))
    if is_paused(cluster):
        return Rejected("ClusterPaused", paused_message(full_name(cluster)), retryable=True)
    if waits := list(at_work(parts)):
        earlier = operation_on(cluster)
        cause = f"a change is in progress (last operation: {earlier})" if earlier else "Cluster API is making a change"
        return Rejected("ClusterBusy", f"{cause} on Cluster {full_name(cluster)}: {waits[0]}", retryable=True)
    changed, image = dict(topology), target.images.get(FAMILY, "")
    if target.type is UpgradeType.NODE_IMAGE_ONLY:
        if holds_workers(parts):
            return Rejected("WorkersHeld", held_message(full_name(cluster)), retryable=True)
        if not place.variable and parts.is_old:
            return Rejected("NoImageVariable", f"Cluster {full_name(cluster)}: no variable carries the node image")
    else:
        is_newer = not _is_reached(version_of(cluster), target.kubernetes_version)
        if is_newer:
            changed["version"] = f"v{target.kubernetes_version}"
        if is_newer or target.type is UpgradeType.FULL:
            changed = _with_workers(changed, is_held=target.type is UpgradeType.CONTROL_PLANE_ONLY)
    if target.type is not UpgradeType.CONTROL_PLANE_ONLY and image and place.variable:
        changed = _with_image(changed, place.variable, image, image_of(parts, place.variable))
    elif target.type is UpgradeType.NODE_IMAGE_ONLY and not place.variable:
        changed = _with_rollout(changed, now)
    spec = {**spec_of(cluster), "topology": changed}
    return with_metadata({**cluster, "spec": spec}, annotations={OPERATION: operation.id})


def _is_reached(version: str, target: str) -> bool:
    """Return whether *version* is *target* or later."""
    return is_version(version) and is_version(target) and parse_version(version) >= parse_version(target)


def _with_image(topology: JsonObject, name: str, image: str, present: str) -> JsonObject:
    """Return a topology with a new image for all machines that do not have a later one.

    Args:
        topology: The topology. An override of the control plane or of a set of machines remains an override.
        name: Name of the variable.
        image: Target image.
        present: Image of machines without an override.
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
        changed = _with_worker_sets(changed, member, lambda _, machines: override(machines))
    return changed


def _with_worker_sets(topology: JsonObject, member: str, change: Callable[[int, JsonObject], JsonObject]) -> JsonObject:
    """Return a topology with every set of workers replaced by *change*, which gets its index and the set."""
    workers = dict_at(topology, "workers")
    if not (topology_entries := list_at(workers, member)):
        return topology
    changed = [
        change(at, workers) if isinstance(workers, dict) else workers for at, workers in enumerate(topology_entries)
    ]
    return {**topology, "workers": {**workers, member: changed}}


def _with_workers(topology: JsonObject, *, is_held: bool) -> JsonObject:
    """Return a topology whose workers are held at their version, or released."""
    changed = _with_worker_sets(
        topology, "machineDeployments", lambda at, workers: _annotate(workers, HOLD, is_held=is_held and at == 0)
    )
    return _with_worker_sets(changed, "machinePools", lambda _, workers: _annotate(workers, DEFER, is_held=is_held))


def _annotate(machines: JsonObject, key: str, *, is_held: bool) -> JsonObject:
    metadata = dict(dict_at(machines, "metadata"))
    annotations = dict(dict_at(metadata, "annotations"))
    if is_held:
        annotations.setdefault(key, OURS_TO_TAKE_OFF)
    elif annotations.get(key) == OURS_TO_TAKE_OFF:
        del annotations[key]
    else:
        return machines
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)
    other_fields = {name: value for name, value in machines.items() if name != "metadata"}
    return {**other_fields, "metadata": metadata} if metadata else other_fields


def _with_rollout(topology: JsonObject, now: datetime) -> JsonObject:
    """Return a topology that rolls out all MachineDeployments again from their current templates.

    Runs never request this, because they skip a Cluster without an image variable: its images are unknown, so a run can
    neither find an outdated pool nor verify the upgrade. See `inventory_of`.
    """
    rollout_after = format_time(now)
    return _with_worker_sets(
        topology,
        "machineDeployments",
        lambda _, workers: {**workers, "rollout": {**dict_at(workers, "rollout"), "after": rollout_after}},
    )
