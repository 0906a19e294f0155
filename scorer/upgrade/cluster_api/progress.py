"""Progress of Cluster API with the rollout of a topology.

``TopologyReconciled`` alone only means that specs have been passed on, while machines may still be rolling. Conditions
that aggregate others may also be stale. Therefore all conditions must agree, and the control plane and every set of
machines are checked as well.

Cluster API reports little about MachinePools. They have no conditions of the newer kind, so ``RollingOut`` and
``Available`` of a Cluster with a MachinePool remain Unknown, and its machines always count as up to date. The pools
themselves are checked in that case. ``TopologyReconciled`` compares the versions of their nodes, but only the provider
knows their images.

Source: docs/specifications/upgrade-runs.md 13.3; Cluster API v1.13,
internal/controllers/cluster/cluster_controller_status.go and internal/topology/check/upgrade.go.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from scorer.api.meta import parse_time
from scorer.api.unstructured.documents import dict_at, generation_of, list_at, name_of, status_of, text_at
from scorer.api.upgrade.fields import UpgradeError, UpgradeType
from scorer.upgrade.back_ends.interface import Observation, OperationState
from scorer.upgrade.cluster_api.history import NO_LOOKS, ClusterApiHistory, is_failing
from scorer.upgrade.cluster_api.machines import is_complete, is_rolling, is_seen, is_unavailable
from scorer.upgrade.cluster_api.topology import (
    ClusterApiObjects,
    full_name,
    is_paused,
    operation_on,
    version_of,
    versions_of,
)

RECONCILE_FAILED_FOR: Final = timedelta(minutes=10)
UNAVAILABLE_FOR: Final = timedelta(minutes=15)
UNDATED_FOR: Final = timedelta(minutes=2)
"""How long conditions without an observedGeneration are not trusted after a change."""

_DEFERRED: Final = frozenset({"MachineDeploymentsUpgradeDeferred", "MachinePoolsUpgradeDeferred"})
_NO_REPLICAS: Final = "NoReplicas"
_INTERNAL_ERROR: Final = "InternalError"
_TOPOLOGY: Final = "TopologyReconciled"
_ROLLING_CONTROL_PLANE: Final = "the control plane is being rolled out"
_OF_AVAILABLE: Final = ("RemoteConnectionProbe", "InfrastructureReady", "ControlPlaneAvailable")
"""Conditions that ``Available`` aggregates, besides that of the workers."""


def observation_of(
    parts: ClusterApiObjects, operation: str, upgrade: UpgradeType, now: datetime, looks: ClusterApiHistory = NO_LOOKS
) -> Observation:
    """Return the progress of an operation.

    Args:
        parts: The Cluster and its objects.
        operation: Id of the operation.
        upgrade: Parts of the cluster that it changes.
        now: Current time.
        looks: Result of all polls of the Cluster, including this one.
    """
    if operation_on(parts.cluster) != operation:
        return Observation(OperationState.UNKNOWN)
    if not any(remaining_steps(parts, upgrade)) and not _is_too_early(parts, now, looks):
        return Observation(OperationState.SUCCEEDED)
    if is_paused(parts.cluster):
        message = f"Cluster {full_name(parts.cluster)} has been paused"
        return Observation(OperationState.FAILED, error=UpgradeError(code="ClusterPaused", message=message))
    if (error := find_problem(parts, now, looks)) is not None:
        return Observation(OperationState.FAILED, error=error)
    return Observation(OperationState.IN_PROGRESS)


def _is_too_early(parts: ClusterApiObjects, now: datetime, looks: ClusterApiHistory) -> bool:
    """Return whether conditions that report success may be older than the change.

    Conditions of the older API version have no observedGeneration. Until Cluster API has passed a new image on, nothing
    else differs either.
    """
    if isinstance(parts.condition(_TOPOLOGY).get("observedGeneration"), int):
        return False
    since = looks.operation_since
    return since is None or now - since < UNDATED_FOR


def find_problem(parts: ClusterApiObjects, now: datetime, looks: ClusterApiHistory = NO_LOOKS) -> UpgradeError | None:
    """Return why Cluster API is stuck on a Cluster, or None if no problem is visible.

    Args:
        parts: The Cluster and its objects.
        now: Current time.
        looks: Result of all polls of the Cluster, including this one.
    """
    since = looks.failing_since if is_failing(parts) else None
    if since is not None and now - since > RECONCILE_FAILED_FOR:
        return _stuck_error(_TOPOLOGY, parts.condition(_TOPOLOGY), RECONCILE_FAILED_FOR)
    kind = "ControlPlaneAvailable"
    available, initialized_condition = parts.condition(kind), parts.condition("ControlPlaneInitialized")
    was_initialized = initialized_condition.get("status", "True") == "True"
    since = _since(available) if available.get("status") == "False" and was_initialized else None
    if since is not None and now - since > UNAVAILABLE_FOR:
        return _stuck_error(kind, available, UNAVAILABLE_FOR)
    return None


def _stuck_error(kind: str, condition: Mapping[str, Any], limit: timedelta) -> UpgradeError:
    minutes = int(limit.total_seconds() / 60)
    message = f"{kind} has been False for more than {minutes} minutes: {text_at(condition, 'message')}"
    return UpgradeError(code=text_at(condition, "reason") or kind, message=message)


def _since(condition: Mapping[str, Any]) -> datetime | None:
    try:
        return parse_time(text_at(condition, "lastTransitionTime"))
    except ValueError:
        return None


def holds_workers(parts: ClusterApiObjects) -> bool:
    """Return whether Cluster API defers the upgrade of held workers.

    It does not change them in any other way until then.

    Source: Cluster API v1.13, internal/controllers/topology/cluster/reconcile_state.go: workers whose upgrade is
    pending are left as they are, so that they are rolled out once.
    """
    condition = parts.condition(_TOPOLOGY)
    return condition.get("status") == "False" and condition.get("reason") in _DEFERRED


def at_work(parts: ClusterApiObjects) -> Iterator[str]:
    """Yield the pending work of Cluster API on a Cluster. Empty if an upgrade may start.

    Availability does not matter: an upgrade may be the repair for a broken node. Workers held at an older version do
    not count either.
    """
    yield from _passed_on(parts, is_deferred=True)
    for kind, busy in (("RollingOut", "True"), ("ControlPlaneMachinesUpToDate", "False")):
        condition = parts.condition(kind)
        if condition.get("status") == busy and condition.get("reason") != _NO_REPLICAS:
            yield _condition_text(kind, condition)
    yield from _other_versions(parts, "controlPlane")
    if not is_seen(parts.control_plane, unsaid=True) or is_rolling(parts.control_plane):
        yield _ROLLING_CONTROL_PLANE
    for machines in (*parts.deployments, *parts.pools):
        if not is_seen(machines) or is_rolling(machines):
            yield f"{name_of(machines)} is being rolled out"


def remaining_steps(parts: ClusterApiObjects, upgrade: UpgradeType) -> Iterator[str]:
    """Yield the differences between a Cluster and its topology.

    Args:
        parts: The Cluster and its objects.
        upgrade: With ``ControlPlaneOnly``, workers may be held.
    """
    workers = upgrade is not UpgradeType.CONTROL_PLANE_ONLY
    yield from _passed_on(parts, is_deferred=not workers)
    if parts.has_new_conditions:
        yield from _conditions(parts, workers=workers)
    else:
        yield from _older_conditions(parts, workers=workers)
    yield from _machines(parts, workers=workers)


def _passed_on(parts: ClusterApiObjects, *, is_deferred: bool) -> Iterator[str]:
    """Yield the parts of the topology that Cluster API has not observed or passed on yet."""
    generation, version = generation_of(parts.cluster), version_of(parts.cluster)
    observed_generation = status_of(parts.cluster).get("observedGeneration")
    if isinstance(observed_generation, int) and observed_generation < generation:
        yield "the change has not been observed yet"
    condition = parts.condition(_TOPOLOGY)
    observed_generation = condition.get("observedGeneration")
    if isinstance(observed_generation, int) and observed_generation < generation:
        yield "TopologyReconciled is for an earlier generation"
    elif condition.get("status") != "True" and not (is_deferred and holds_workers(parts)):
        yield _condition_text(_TOPOLOGY, condition)
    for section in ("spec", "status"):
        actual = text_at(parts.control_plane, section, "version").removeprefix("v")
        if actual != version:
            yield f"{section}.version of the control plane is {actual or 'missing'}, not {version}"


def _conditions(parts: ClusterApiObjects, *, workers: bool) -> Iterator[str]:
    """Yield the conditions and versions of a Cluster that report outdated or unavailable machines."""
    rolling_out = parts.condition("RollingOut")
    if rolling_out.get("status") != "False" and not _is_unsaid(parts, rolling_out):
        yield _condition_text("RollingOut", rolling_out)
    up_to_date = parts.condition("ControlPlaneMachinesUpToDate")
    if not _is_up_to_date(up_to_date):
        yield _condition_text("ControlPlaneMachinesUpToDate", up_to_date)
    up_to_date = parts.condition("WorkerMachinesUpToDate")
    if workers and not _is_up_to_date(up_to_date) and not _is_unsaid(parts, up_to_date):
        yield _condition_text("WorkerMachinesUpToDate", up_to_date)
    for member in ("controlPlane", *(("workers",) if workers else ())):
        yield from _other_versions(parts, member)
    available = parts.condition("Available")
    if _is_unsaid(parts, available):
        yield from _not_available(parts)
    elif available.get("status") != "True":
        yield _condition_text("Available", available)


def _is_up_to_date(condition: Mapping[str, Any]) -> bool:
    return condition.get("status") == "True" or condition.get("reason") == _NO_REPLICAS


def _is_unsaid(parts: ClusterApiObjects, condition: Mapping[str, Any]) -> bool:
    """Return whether a condition is Unknown only because MachinePools do not report what it aggregates."""
    unknown = condition.get("status") == "Unknown" and condition.get("reason") != _INTERNAL_ERROR
    return unknown and bool(parts.pools)


def _not_available(parts: ClusterApiObjects) -> Iterator[str]:
    """Yield the failing conditions among those that ``Available`` aggregates, and the unavailable machines."""
    for kind in _OF_AVAILABLE:
        condition = parts.condition(kind)
        if condition and condition.get("status") != "True":
            yield _condition_text(kind, condition)
    for machines in (*parts.deployments, *parts.pools):
        if is_unavailable(machines):
            yield f"{name_of(machines)} is not available"


def _other_versions(parts: ClusterApiObjects, member: str) -> Iterator[str]:
    """Yield the versions that a Cluster still runs or still has to pass through."""
    version, topology = version_of(parts.cluster), dict_at(status_of(parts.cluster), member)
    other_versions = sorted({seen_version for seen_version in _versions(topology) if seen_version != version})
    if other_versions:
        yield f"{member} still has {', '.join(other_versions)}"
    if list_at(topology, "upgradePlan"):
        yield f"{member} has pending upgrades"


def _versions(topology: Mapping[str, Any]) -> Iterator[str]:
    for version in list_at(topology, "versions"):
        text = version if isinstance(version, str) else text_at(version, "version")
        yield text.removeprefix("v")


def _older_conditions(parts: ClusterApiObjects, *, workers: bool) -> Iterator[str]:
    """Yield the conditions of the older API version that report unfinished work."""
    for kind in ("ControlPlaneReady", "Ready"):
        condition = parts.condition(kind)
        if condition.get("status") != "True" and not (
            not workers and kind == "Ready" and condition.get("reason") in _DEFERRED
        ):
            yield _condition_text(kind, condition)


def _machines(parts: ClusterApiObjects, *, workers: bool) -> Iterator[str]:
    """Yield the control plane and the sets of machines that are not rolled out."""
    if not is_seen(parts.control_plane, unsaid=True) or not is_complete(parts.control_plane):
        yield _ROLLING_CONTROL_PLANE
    version = version_of(parts.cluster)
    for machines in (*parts.deployments, *parts.pools) if workers else ():
        machines_version = versions_of(machines)
        if machines_version != version:
            yield f"{name_of(machines)} {f'is at {machines_version}' if machines_version else 'has no version'}"
        elif not is_seen(machines) or not is_complete(machines):
            yield f"{name_of(machines)} is being rolled out"


def _condition_text(kind: str, condition: Mapping[str, Any]) -> str:
    if not condition:
        return f"{kind} has not been reported yet"
    return f"{kind} is {condition.get('status')} ({condition.get('reason')})"
