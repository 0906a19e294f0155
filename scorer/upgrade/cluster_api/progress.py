"""How far Cluster API is with what a topology asks for.

``TopologyReconciled`` alone says that specs have been passed on; machines may still be rolling. So everything that says
something about machines has to agree.

Source: upgrade-runs.md 13.3.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from scorer.api.documents import dict_at, generation_of, list_at, spec_of, status_of, text_at
from scorer.api.meta import parse_time
from scorer.api.upgrade.fields import UpgradeError, UpgradeType
from scorer.upgrade.back_end import Observation, OperationState
from scorer.upgrade.cluster_api.topology import (
    Parts,
    full_name,
    is_paused,
    operation_on,
    replicas_of,
    version_of,
    versions_of,
)

RECONCILE_FAILED_FOR: Final = timedelta(minutes=10)
UNAVAILABLE_FOR: Final = timedelta(minutes=15)

_DEFERRED: Final = frozenset({"MachineDeploymentsUpgradeDeferred", "MachinePoolsUpgradeDeferred"})
_NO_REPLICAS: Final = "NoReplicas"


def observation_of(parts: Parts, operation: str, upgrade: UpgradeType, now: datetime) -> Observation:
    """Say how far an operation is.

    Args:
        parts: The Cluster and what belongs to it.
        operation: The id.
        upgrade: What it changes.
        now: The moment.
    """
    if operation_on(parts.cluster) != operation:
        return Observation(OperationState.UNKNOWN)
    if not any(lacking(parts, upgrade)):
        return Observation(OperationState.SUCCEEDED)
    if is_paused(parts.cluster):
        message = f"Cluster {full_name(parts.cluster)} has been paused"
        return Observation(OperationState.FAILED, error=UpgradeError(code="ClusterPaused", message=message))
    if (error := trouble(parts, now)) is not None:
        return Observation(OperationState.FAILED, error=error)
    return Observation(OperationState.IN_PROGRESS)


def trouble(parts: Parts, now: datetime) -> UpgradeError | None:
    """Return why Cluster API does not get on with a Cluster; None: it does, as far as can be seen."""
    for kind, reasons, limit in (
        ("TopologyReconciled", frozenset({"ReconcileFailed", "TopologyReconcileFailed"}), RECONCILE_FAILED_FOR),
        ("ControlPlaneAvailable", frozenset[str](), UNAVAILABLE_FOR),
    ):
        found = parts.condition(kind)
        if found.get("status") != "False" or (reasons and found.get("reason") not in reasons):
            continue
        since = _since(found)
        if since is not None and now - since > limit:
            minutes = int(limit.total_seconds() / 60)
            message = f"{kind} has been False for more than {minutes} minutes: {text_at(found, 'message')}"
            return UpgradeError(code=text_at(found, "reason") or kind, message=message)
    return None


def _since(condition: Mapping[str, Any]) -> datetime | None:
    try:
        return parse_time(text_at(condition, "lastTransitionTime"))
    except ValueError:
        return None


def lacking(parts: Parts, upgrade: UpgradeType) -> Iterator[str]:
    """Yield what a Cluster lacks to be what its topology asks for, nothing when it is.

    Args:
        parts: The Cluster and what belongs to it.
        upgrade: With ``ControlPlaneOnly``, workers may be held back.
    """
    version, workers = version_of(parts.cluster), upgrade is not UpgradeType.CONTROL_PLANE_ONLY
    generation = generation_of(parts.cluster)
    seen = status_of(parts.cluster).get("observedGeneration")
    if isinstance(seen, int) and seen < generation:
        yield "the change has not been seen yet"
    yield from _topology(parts, generation, deferred=not workers)
    yield from _control_plane(parts, version)
    if parts.has_new_conditions:
        yield from _machines(parts, version, workers=workers)
    else:
        yield from _older(parts, version, workers=workers)


def _topology(parts: Parts, generation: int, *, deferred: bool) -> Iterator[str]:
    found = parts.condition("TopologyReconciled")
    observed = found.get("observedGeneration")
    if isinstance(observed, int) and observed < generation:
        yield "TopologyReconciled is about an earlier state"
    elif found.get("status") != "True" and not (deferred and found.get("reason") in _DEFERRED):
        yield _said("TopologyReconciled", found)


def _control_plane(parts: Parts, version: str) -> Iterator[str]:
    for where in ("spec", "status"):
        found = text_at(parts.control_plane, where, "version").removeprefix("v")
        if found != version:
            yield f"{where}.version of the control plane is {found or 'missing'}, not {version}"


def _machines(parts: Parts, version: str, *, workers: bool) -> Iterator[str]:
    """Look at what a Cluster says of its machines by itself."""
    rolling = parts.condition("RollingOut")
    if rolling.get("status") != "False":
        yield _said("RollingOut", rolling)
    kinds = ("ControlPlaneMachinesUpToDate", *(("WorkerMachinesUpToDate",) if workers else ()))
    for kind in kinds:
        found = parts.condition(kind)
        if found.get("status") != "True" and found.get("reason") != _NO_REPLICAS:
            yield _said(kind, found)
    for member in ("controlPlane", *(("workers",) if workers else ())):
        said = dict_at(status_of(parts.cluster), member)
        others = sorted({each for each in _versions(said) if each != version})
        if others:
            yield f"{member} still has {', '.join(others)}"
        if list_at(said, "upgradePlan"):
            yield f"{member} has upgrades to come"
    available = parts.condition("Available")
    if available.get("status") != "True":
        yield _said("Available", available)


def _versions(said: Mapping[str, Any]) -> Iterator[str]:
    for each in list_at(said, "versions"):
        text = each if isinstance(each, str) else text_at(each, "version")
        yield text.removeprefix("v")


def _older(parts: Parts, version: str, *, workers: bool) -> Iterator[str]:
    """Look at the conditions of the older version of the API, and at the machines themselves."""
    for kind in ("ControlPlaneReady", "Ready"):
        found = parts.condition(kind)
        if found.get("status") != "True" and not (not workers and kind == "Ready" and found.get("reason") in _DEFERRED):
            yield _said(kind, found)
    if not _all_updated(parts.control_plane):
        yield "the control plane is being rolled out"
    for machines in (*parts.deployments, *parts.pools) if workers else ():
        if versions_of(machines) != version:
            yield f"{text_at(machines, 'metadata', 'name')} is at {versions_of(machines) or 'no version'}"
        elif not _all_updated(machines):
            yield f"{text_at(machines, 'metadata', 'name')} is being rolled out"


def _all_updated(machines: Mapping[str, Any]) -> bool:
    status = status_of(machines)
    if status.get("observedGeneration", generation_of(machines)) < generation_of(machines):
        return False
    wanted = spec_of(machines).get("replicas", 0)
    updated = status.get("updatedReplicas", status.get("upToDateReplicas", replicas_of(machines)))
    return bool(updated == status.get("replicas", wanted) == wanted)


def _said(kind: str, condition: Mapping[str, Any]) -> str:
    if not condition:
        return f"{kind} is not known yet"
    return f"{kind} is {condition.get('status')} ({condition.get('reason')})"
