"""Cache transforms: the fields of pods and nodes that planning reads. All others are dropped to save memory.

Every field that `scorer.node_budgets.blockers.essential_pod` keeps for the gate is kept here as well, so that the gate
and the planner can share cached pods.

Source: docs/specifications/nodepool-disruption.md 5.3 to 5.5, 6.1 and 9.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import (
    annotations_of,
    conditions_of,
    dict_at,
    dicts_at,
    metadata_of,
    spec_of,
    status_of,
)
from scorer.node_budgets.nodes import DO_NOT_DISRUPT
from scorer.node_disruption.cluster.pod import COST_ANNOTATIONS

_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "labels", "deletionTimestamp", "creationTimestamp")
_ANNOTATIONS: Final = frozenset((DO_NOT_DISRUPT, *COST_ANNOTATIONS))
_OWNER: Final = ("apiVersion", "kind", "name", "uid", "controller")
_SPEC: Final = (
    "nodeName",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "schedulingGates",
    "priority",
    "priorityClassName",
    "terminationGracePeriodSeconds",
    "overhead",
    "resources",
)
_CONTAINERS: Final = (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses"))


def planned_pod(pod: JsonObject) -> JsonObject:
    """Return the fields of a pod that `scorer.node_disruption.cluster.pod.read_pod` and the gate read."""
    metadata, spec, status = metadata_of(pod), spec_of(pod), status_of(pod)
    metadata_fields = _some(metadata, _METADATA)
    if annotations := {key: value for key, value in annotations_of(pod).items() if key in _ANNOTATIONS}:
        metadata_fields["annotations"] = annotations
    if owners := dicts_at(pod, "metadata", "ownerReferences"):
        metadata_fields["ownerReferences"] = [_some(owner, _OWNER) for owner in owners]
    trimmed_spec, trimmed_status = _some(spec, _SPEC), _some(status, ("phase", "startTime", "resources"))
    for spec_field, status_field in _CONTAINERS:
        containers = [_container(container) for container in dicts_at(spec, spec_field)]
        if containers:
            trimmed_spec[spec_field] = containers
        if statuses := list(_resized_statuses(containers, dicts_at(status, status_field))):
            trimmed_status[status_field] = statuses
    if volumes := list(_volumes(spec)):
        trimmed_spec["volumes"] = volumes
    if conditions := [
        _some(condition, ("type", "status", "reason")) for condition in conditions_of(pod) if _is_read(condition)
    ]:
        trimmed_status["conditions"] = conditions
    return {
        "apiVersion": pod["apiVersion"],
        "kind": pod["kind"],
        "metadata": metadata_fields,
        "spec": trimmed_spec,
        "status": trimmed_status,
    }


def planned_node(node: JsonObject) -> JsonObject:
    """Return the fields of a node that `scorer.node_disruption.cluster.snapshot.read_node` and the gate read."""
    spec, status = spec_of(node), status_of(node)
    conditions = [
        _some(condition, ("type", "status")) for condition in conditions_of(node) if condition.get("type") == "Ready"
    ]
    return {
        "apiVersion": node["apiVersion"],
        "kind": node["kind"],
        "metadata": node["metadata"],
        "spec": _some(spec, ("providerID", "unschedulable", "taints")),
        "status": {**_some(status, ("allocatable", "capacity")), "conditions": conditions},
    }


def _container(container: JsonObject) -> JsonObject:
    fields = _some(container, ("name", "resources", "restartPolicy"))
    if ports := [port for port in dicts_at(container, "ports") if port.get("hostPort")]:
        fields["ports"] = ports
    return fields


def _resized_statuses(containers: Sequence[JsonObject], statuses: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Yield the container statuses whose actual or allocated resources differ from the container's requests."""
    requests = {container.get("name"): dict_at(container, "resources", "requests") for container in containers}
    for status in statuses:
        previous = requests.get(status.get("name"))
        allocation = status.get("allocatedResources") or previous
        if "resources" in status and (previous != dict_at(status, "resources", "requests") or previous != allocation):
            yield _some(status, ("name", "resources", "allocatedResources"))


def _volumes(spec: JsonObject) -> Iterator[JsonObject]:
    for volume in dicts_at(spec, "volumes"):
        if "persistentVolumeClaim" in volume:
            yield _some(volume, ("name", "persistentVolumeClaim"))
        elif "ephemeral" in volume:
            yield {**_some(volume, ("name",)), "ephemeral": {}}


def _is_read(condition: JsonObject) -> bool:
    return condition.get("type") in ("Ready", "PodResizePending")


def _some(document: JsonObject, names: Sequence[str]) -> JsonObject:
    return {name: document[name] for name in names if name in document}
