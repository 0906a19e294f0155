"""The controllers of a simulated member: they bring objects to the states that real controllers would.

`progress` is a pure function of the stored object and the time. The object itself has the start of its rollout
(creation time, start of the rollout in its status), so a restart resumes it, and the same times always give the same
states.

Simulated: Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job, Pod (`workloads`), Service,
Ingress, Namespace, PersistentVolume(Claim), PodDisruptionBudget and CustomResourceDefinition. Only the object's own
status changes, and the cluster IP in the spec of a Service. No Pods are created.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from scorer.api.kinds import KINDS, Kind, group_kind
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import (
    annotation,
    dict_at,
    dicts_at,
    is_deleting,
    spec_of,
    status_of,
)
from webhook.embedded.simulation.scripts import (
    NODES,
    READY_AFTER,
    SIMULATE,
    Moment,
    _WorkloadProgress,
    created_at,
    make_conditions,
    parse_script,
)
from webhook.embedded.simulation.workloads import WORKLOADS
from webhook.kube.ports import ConflictError, Key, NotFoundError, Store
from webhook.member.objects.owner_references import is_applied_work, owners


def progress(
    document: JsonObject, now: datetime, *, nodes: int = NODES, ready_after: timedelta = READY_AFTER
) -> _WorkloadProgress:
    """Return the object as the controllers of its cluster would have left it by *now*.

    Args:
        document: Stored object. It is returned unchanged if it is being deleted or its kind is not simulated.
        now: The time.
        nodes: Number of nodes of the member.
        ready_after: Default time until objects become ready.
    """
    simulate = _SIMULATED.get(group_kind(document))
    if simulate is None or is_deleting(document):
        return _WorkloadProgress(document)
    script = parse_script(annotation(document, SIMULATE), ready_after)
    return simulate(document, Moment(now, script, nodes))


def is_simulated(kind: Kind) -> bool:
    """Return whether objects of this kind are simulated."""
    return kind.group_kind in _SIMULATED


def _address(document: JsonObject, block: tuple[int, int]) -> str:
    """Return an address of a /16 block, always the same for one object."""
    number = zlib.crc32(document["metadata"].get("uid", document["metadata"]["name"]).encode())
    return f"{block[0]}.{block[1]}.{number >> 8 & 255}.{number & 255 or 1}"


def _service(document: JsonObject, moment: Moment) -> _WorkloadProgress:
    """Assign a cluster IP to the Service immediately, and an address to a load balancer after a while."""
    spec = spec_of(document)
    if spec.get("type") == "ExternalName":
        return _WorkloadProgress(document)
    address = spec.get("clusterIP") or _address(document, (10, 96))
    if not spec.get("clusterIPs"):
        document = {**document, "spec": {**spec, "clusterIP": address, "clusterIPs": [address]}}
    if spec.get("type") != "LoadBalancer":
        return _WorkloadProgress(document)
    stage, changes_at = moment.stage(created_at(document, moment))
    ingress = [{"ip": _address(document, (198, 18))}] if stage == "ready" else []
    return _WorkloadProgress(
        {**document, "status": {"loadBalancer": {"ingress": ingress} if ingress else {}}}, changes_at
    )


def _ingress(document: JsonObject, moment: Moment) -> _WorkloadProgress:
    stage, changes_at = moment.stage(created_at(document, moment))
    ingress = [{"ip": _address(document, (198, 18))}] if stage == "ready" else []
    return _WorkloadProgress(
        {**document, "status": {"loadBalancer": {"ingress": ingress} if ingress else {}}}, changes_at
    )


def _namespace(document: JsonObject, _: Moment) -> _WorkloadProgress:
    return _WorkloadProgress({**document, "status": {**status_of(document), "phase": "Active"}})


def _volume(document: JsonObject, _: Moment) -> _WorkloadProgress:
    phase = "Bound" if spec_of(document).get("claimRef") else "Available"
    return _WorkloadProgress({**document, "status": {**status_of(document), "phase": phase}})


def _claim(document: JsonObject, moment: Moment) -> _WorkloadProgress:
    stage, changes_at = moment.stage(created_at(document, moment))
    status: JsonObject = {"phase": "Pending"}
    if stage == "ready":
        spec = spec_of(document)
        capacity = dict_at(spec, "resources", "requests")
        status = {"phase": "Bound", "accessModes": spec.get("accessModes") or [], "capacity": capacity}
    elif stage == "crashed":
        status = {"phase": "Lost"}
    return _WorkloadProgress({**document, "status": status}, changes_at)


def _disruption_budget(document: JsonObject, moment: Moment) -> _WorkloadProgress:
    """Set the status of a budget without Pods: it allows no disruptions, and its generation is observed."""
    no_pods = ("DisruptionAllowed", False, "InsufficientPods", "no Pods are simulated")
    (condition,) = make_conditions(document, moment, no_pods)
    status = {
        "observedGeneration": document["metadata"].get("generation", 0),
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
        "conditions": [condition],
    }
    return _WorkloadProgress({**document, "status": status})


def _custom_resource_definition(document: JsonObject, moment: Moment) -> _WorkloadProgress:
    spec = spec_of(document)
    is_established = moment.script.ready_after is not None
    conditions = make_conditions(
        document,
        moment,
        ("NamesAccepted", True, "NoConflicts", "no conflicts found"),
        (
            "Established",
            is_established,
            "InitialNamesAccepted" if is_established else "Installing",
            "the kind is served",
        ),
    )
    storage_versions = [version.get("name") for version in dicts_at(spec, "versions") if version.get("storage")]
    status = {"acceptedNames": spec.get("names") or {}, "storedVersions": storage_versions, "conditions": conditions}
    return _WorkloadProgress({**document, "status": status})


_SIMULATED: Mapping[tuple[str, str], Callable[[JsonObject, Moment], _WorkloadProgress]] = MappingProxyType(
    {
        **WORKLOADS,
        ("", "Service"): _service,
        ("networking.k8s.io", "Ingress"): _ingress,
        ("", "Namespace"): _namespace,
        ("", "PersistentVolume"): _volume,
        ("", "PersistentVolumeClaim"): _claim,
        ("policy", "PodDisruptionBudget"): _disruption_budget,
        ("apiextensions.k8s.io", "CustomResourceDefinition"): _custom_resource_definition,
    }
)

SIMULATED_KINDS = tuple(KINDS[identity] for identity in _SIMULATED)


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome of `settle` for one object of a member.

    Args:
        changes_at: Time to call `settle` again. None: unset, the state changes only after another write.
        works: Names of the Works of the object if `settle` changed it, otherwise empty.
    """

    changes_at: datetime | None = None
    works: tuple[str, ...] = ()


async def settle(
    store: Store, kind: Kind, key: Key, now: datetime, *, nodes: int = NODES, ready_after: timedelta = READY_AFTER
) -> Settled:
    """Bring one object of a member to the state it has reached by *now*.

    Level-triggered and idempotent: the object is read, and written only if it differs.
    """
    try:
        document = await store.get(kind, key)
        step = progress(document, now, nodes=nodes, ready_after=ready_after)
        changed = False
        if step.document.get("spec") != document.get("spec"):
            await store.replace(kind, step.document)
            return Settled(now, _works(document))  # again immediately: a status needs the new version
        if step.document.get("status") != document.get("status"):
            await store.replace_status(kind, step.document)
            changed = True
    except NotFoundError:
        return Settled()
    except ConflictError:  # the agent wrote in between: settle the new version
        return Settled(now)
    return Settled(step.changes_at, _works(document) if changed else ())


def _works(document: JsonObject) -> tuple[str, ...]:
    return tuple(owner["name"] for owner in owners(document) if is_applied_work(owner))
