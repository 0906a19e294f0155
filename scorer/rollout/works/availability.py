"""Whether an applied object is available on its member cluster, if that can be known at all.

A few kinds report it in their status, and some are available as soon as they exist. All other kinds are not trackable:
the rollout waits for a fixed time instead (rollout.md 7.4).

Source: docs/specifications/rollout.md 12; KubeFleet pkg/controllers/workapplier/availability_tracker.go.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from scorer.api.conditions import FALSE, TRUE, ConditionStatus
from scorer.api.meta import JsonObject
from scorer.api.values.quoting import format_count


class AvailabilityReason(StrEnum):
    """The four results, spelled as the reasons of the manifest's Available condition."""

    AVAILABLE = "Available"
    NOT_YET = "ManifestNotAvailableYet"
    FAILED = "Failed"
    NOT_TRACKABLE = "NotTrackable"


@dataclass(frozen=True, slots=True)
class Availability:
    """The result for one object."""

    reason: AvailabilityReason
    message: str

    @property
    def status(self) -> ConditionStatus:
        """Status of the manifest's Available condition. Untrackable objects count as available."""
        return TRUE if self.reason in (AvailabilityReason.AVAILABLE, AvailabilityReason.NOT_TRACKABLE) else FALSE


def availability(document: JsonObject) -> Availability:
    """Return the availability of an object as read from the member cluster.

    The kind must match in group and version. If a field that decides has the wrong type, the result is
    `AvailabilityReason.FAILED`, and the message names the field.
    """
    name = f"{document.get('kind')} {document.get('apiVersion')}"
    if (document.get("apiVersion"), document.get("kind")) in _AVAILABLE_WHEN_APPLIED:
        return Availability(AvailabilityReason.AVAILABLE, "available when it exists")
    judge = _JUDGES.get((str(document.get("apiVersion")), str(document.get("kind"))))
    if judge is None:
        return _untrackable(f"the availability of a {name} cannot be tracked")
    try:
        return judge(document)
    except _ShapeError as error:
        return Availability(AvailabilityReason.FAILED, f"cannot determine whether the {name} is available: {error}")


class _ShapeError(Exception):
    """A field that decides about availability has the wrong type."""


def _available(message: str) -> Availability:
    return Availability(AvailabilityReason.AVAILABLE, message)


def _not_yet(message: str) -> Availability:
    return Availability(AvailabilityReason.NOT_YET, message)


def _untrackable(message: str) -> Availability:
    return Availability(AvailabilityReason.NOT_TRACKABLE, message)


def _field(document: Mapping[str, Any], path: str, kind: type, default: Any) -> Any:
    """Return the field at dotted *path*, or *default* if the field or a parent is absent or null.

    Raises:
        _ShapeError: The field is not a *kind*, or a parent is not an object.
    """
    value: Any = document
    segments: list[str] = []
    for part in path.split("."):
        if not isinstance(value, Mapping):
            raise _ShapeError(f"{'.'.join(segments)} is not an object")
        segments.append(part)
        value = value.get(part)
        if value is None:
            return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _ShapeError(f"{path} is {value!r:.64}, expected {kind.__name__}")
    return value


def _count(document: JsonObject, path: str, default: int = 0) -> int:
    return int(_field(document, path, int, default))


def _text(document: JsonObject, path: str) -> str:
    return str(_field(document, path, str, ""))


def _condition(document: JsonObject, kind: str) -> Mapping[str, Any]:
    for condition in _field(document, "status.conditions", list, []):
        if isinstance(condition, Mapping) and condition.get("type") == kind:
            return condition
    return {}


def _lag_message(document: JsonObject) -> str:
    """Return why the status is not for the current spec. Empty: it is."""
    observed_generation, generation = (
        _count(document, "status.observedGeneration"),
        _count(document, "metadata.generation"),
    )
    return (
        ""
        if observed_generation == generation
        else f"status is for generation {observed_generation}, the object is at {generation}"
    )


def _all_of(document: JsonObject, *checks: tuple[str, str | int, str | int]) -> Availability:
    """Return available if the status is for the current generation and each check (name, actual, target) agrees."""
    if lag := _lag_message(document):
        return _not_yet(lag)
    for subject, now, target in checks:
        if now != target:
            return _not_yet(f"{subject} is {now}, not yet {target}")
    return _available("all replicas are up to date and available")


def _deployment(document: JsonObject) -> Availability:
    replicas = _count(document, "spec.replicas", 1)
    return _all_of(
        document,
        ("updatedReplicas", _count(document, "status.updatedReplicas"), replicas),
        ("availableReplicas", _count(document, "status.availableReplicas"), replicas),
        ("unavailableReplicas", _count(document, "status.unavailableReplicas"), 0),
    )


def _stateful_set(document: JsonObject) -> Availability:
    return _all_of(
        document,
        ("availableReplicas", _count(document, "status.availableReplicas"), _count(document, "spec.replicas", 1)),
        ("currentReplicas", _count(document, "status.currentReplicas"), _count(document, "status.updatedReplicas")),
        ("currentRevision", _text(document, "status.currentRevision"), _text(document, "status.updateRevision")),
    )


def _daemon_set(document: JsonObject) -> Availability:
    desired = _count(document, "status.desiredNumberScheduled")
    updated = _count(document, "status.updatedNumberScheduled")
    return _all_of(
        document,
        ("numberAvailable", _count(document, "status.numberAvailable"), desired),
        ("updatedNumberScheduled", updated, _count(document, "status.currentNumberScheduled")),
    )


def _service(document: JsonObject) -> Availability:
    match _text(document, "spec.type"):
        case "" | "ClusterIP" | "NodePort":
            addresses = _field(document, "spec.clusterIPs", list, [])
            return _available("has a cluster IP") if addresses and addresses[0] else _not_yet("has no cluster IP yet")
        case "LoadBalancer":
            ingress = _field(document, "status.loadBalancer.ingress", list, [])
            first = ingress[0] if ingress and isinstance(ingress[0], Mapping) else {}
            if first.get("ip") or first.get("hostname"):
                return _available("the load balancer has an address")
            return _not_yet("the load balancer has no address yet")
        case other:
            return _untrackable(f"the availability of a Service of type {other[:64]} cannot be tracked")


def _custom_resource_definition(document: JsonObject) -> Availability:
    for kind in ("Established", "NamesAccepted"):
        if _condition(document, kind).get("status") != TRUE:
            return _not_yet(f"condition {kind} is not True yet")
    return _available("established, names accepted")


def _disruption_budget(document: JsonObject) -> Availability:
    if lag := _lag_message(document):
        return _not_yet(lag)
    allowed_disruptions = _count(document, "status.disruptionsAllowed")
    expected = (TRUE, "SufficientPods") if allowed_disruptions > 0 else (FALSE, "InsufficientPods")
    condition = _condition(document, "DisruptionAllowed")
    message = f"allows {format_count(allowed_disruptions, 'disruption')}"
    if (condition.get("status"), condition.get("reason")) == expected:
        return _available(message)
    return _not_yet(f"{message}, but condition DisruptionAllowed does not report that yet")


_JUDGES: Mapping[tuple[str, str], Callable[[JsonObject], Availability]] = MappingProxyType(
    {
        ("apps/v1", "Deployment"): _deployment,
        ("apps/v1", "StatefulSet"): _stateful_set,
        ("apps/v1", "DaemonSet"): _daemon_set,
        ("v1", "Service"): _service,
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): _custom_resource_definition,
        ("policy/v1", "PodDisruptionBudget"): _disruption_budget,
    }
)

_AVAILABLE_WHEN_APPLIED = frozenset(
    (version, kind)
    for version, kinds in {
        "v1": "Namespace Secret ConfigMap ServiceAccount LimitRange ResourceQuota",
        "rbac.authorization.k8s.io/v1": "Role ClusterRole RoleBinding ClusterRoleBinding",
        "networking.k8s.io/v1": "NetworkPolicy IngressClass",
        "storage.k8s.io/v1": "CSIDriver CSINode StorageClass CSIStorageCapacity",
        "apps/v1": "ControllerRevision",
        "scheduling.k8s.io/v1": "PriorityClass",
    }.items()
    for kind in kinds.split()
)
