"""The controllers of a simulated member: they bring objects to the states that real controllers would.

`progress` is a pure function of the stored object and the time. The object itself says when its rollout began (creation
time, start of the rollout in its status), so a restart continues where it was, and the same times always give the same
states.

The annotation ``harbormaster.dev/simulate`` of an object takes a comma-separated list of:

* ``ready-after=5s``: how long it takes until everything is ready (default: 2 s);
* ``never-ready``: it starts and never becomes ready;
* ``crash-after=1m``: it fails that long after it became ready, and stays failed.

Anything else keeps the object from becoming ready, with a message in its status that says why.

Simulated: Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job, Pod, Service,
Ingress, Namespace, PersistentVolume(Claim), PodDisruptionBudget and CustomResourceDefinition. Only the
object's own status changes; no Pods are created.

Over 500 lines because each kind has its own few: a table of small pure functions, read one at a time.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, TypeAlias

from scorer.api.documents import (
    annotation,
    conditions_of,
    dict_at,
    dicts_at,
    is_deleting,
    spec_of,
    status_of,
)
from scorer.api.duration import parse_sum
from scorer.api.kinds import KINDS, Kind, group_kind
from scorer.api.meta import JsonObject, format_time, parse_time
from scorer.api.names import OURS
from scorer.api.quantity import read_quantity
from webhook.kube.ports import ConflictError, Key, NotFoundError, Store
from webhook.member.owners import is_applied_work, owners

SIMULATE = OURS + "simulate"
READY_AFTER = timedelta(seconds=2)
NODES = 3
"""How many nodes a member has that does not say so; a DaemonSet runs one Pod on each."""


@dataclass(frozen=True, slots=True)
class Script:
    """How an object behaves.

    Args:
        ready_after: None: never.
        crash_after: Counted from when it became ready; None: never.
        problem: What is wrong with the annotation.
    """

    ready_after: timedelta | None = READY_AFTER
    crash_after: timedelta | None = None
    problem: str = ""


def parse_script(text: str, ready_after: timedelta = READY_AFTER) -> Script:
    """Read the annotation ``harbormaster.dev/simulate`` of an object; a mistake becomes `Script.problem`."""
    crash_after = None
    never = False
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = word.partition("=")
        try:
            match name:
                case "never-ready":
                    never = True
                case "ready-after":
                    ready_after = parse_sum(value)
                case "crash-after":
                    crash_after = parse_sum(value)
                case _:
                    wanted = "ready-after=5s, crash-after=1m or never-ready"
                    return Script(None, None, f"annotation {SIMULATE}: {word[:64]!r} is not one of {wanted}")
        except ValueError as error:
            return Script(None, None, f"annotation {SIMULATE}: {word[:64]!r}: {error}")
    return Script(None if never else ready_after, crash_after)


@dataclass(frozen=True, slots=True)
class Progress:
    """The state that an object has reached.

    Args:
        document: The object to store.
        changes_at: When it next changes by itself; None: never.
    """

    document: JsonObject
    changes_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Moment:
    """The inputs from which the stage of an object is computed."""

    now: datetime
    script: Script
    nodes: int

    def stage(self, started: datetime) -> tuple[str, datetime | None]:
        """Return ``starting``, ``ready`` or ``crashed``, and when the stage changes."""
        if self.script.ready_after is None:
            return "starting", None
        ready = _after(started, self.script.ready_after)
        if self.now < ready:
            return "starting", ready
        if self.script.crash_after is None:
            return "ready", None
        crash = _after(ready, self.script.crash_after)
        return ("ready", crash) if self.now < crash else ("crashed", None)


_LAST_INSTANT = datetime.max - timedelta(days=1)


def _after(start: datetime, wait: timedelta) -> datetime:
    last = _LAST_INSTANT.replace(tzinfo=start.tzinfo)
    return last if wait > last - start else start + wait


def progress(
    document: JsonObject, now: datetime, *, nodes: int = NODES, ready_after: timedelta = READY_AFTER
) -> Progress:
    """Return the object as the controllers of its cluster would have left it by *now*.

    Args:
        document: As stored; kinds that are not simulated come back unchanged.
        now: The time.
        nodes: How many nodes the member has.
        ready_after: How long objects take to become ready if they do not say so.
    """
    simulate = _SIMULATED.get(group_kind(document))
    if simulate is None or is_deleting(document):
        return Progress(document)
    script = parse_script(annotation(document, SIMULATE), ready_after)
    return simulate(document, _Moment(now, script, nodes))


def is_simulated(kind: Kind) -> bool:
    """Say whether objects of this kind are simulated."""
    return kind.group_kind in _SIMULATED


def _created(document: JsonObject, moment: _Moment) -> datetime:
    text = document["metadata"].get("creationTimestamp")
    return parse_time(text) if text else moment.now


def _count(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def _condition(document: JsonObject, kind: str) -> Mapping[str, Any]:
    found = (entry for entry in conditions_of(document) if entry.get("type") == kind)
    return next(found, {})


def _conditions(document: JsonObject, moment: _Moment, *wanted: tuple[str, bool, str, str]) -> list[JsonObject]:
    """Return the conditions (type, status, reason, message), with the old transition times where the status stays."""
    made = []
    for kind, good, reason, message in wanted:
        status = "True" if good else "False"
        known = _condition(document, kind)
        at = format_time(moment.now)
        if known.get("status") == status:
            at = known.get("lastTransitionTime", at)
        made.append({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at})
    return made


def _whole_seconds(instant: datetime) -> datetime:
    """Return *instant* with the precision that the store keeps."""
    return parse_time(format_time(instant))


def _rollout_start(document: JsonObject, moment: _Moment) -> datetime:
    """Return when the rollout of the present generation began: by the status, else when the object did, else now."""
    if not _observed(document):
        return _whole_seconds(moment.now) if "observedGeneration" in status_of(document) else _created(document, moment)
    text = _condition(document, "Progressing").get("lastUpdateTime")
    return parse_time(text) if text else _created(document, moment)


def _observed(document: JsonObject) -> bool:
    return bool(status_of(document).get("observedGeneration") == document["metadata"].get("generation"))


@dataclass(frozen=True, slots=True)
class _Pods:
    """Pods of a workload: how many it wants, how many have the present template, and how many serve."""

    wanted: int
    updated: int
    serving: int


def _pods(document: JsonObject, stage: str, wanted: int, fields: tuple[str, str]) -> _Pods:
    """Count the Pods of a workload; *fields* of its status hold the updated ones and those that serve.

    A first rollout creates all Pods at once; an update keeps the old ones serving until the new ones are ready.
    """
    if stage == "ready":
        return _Pods(wanted, wanted, wanted)
    if stage == "crashed":
        return _Pods(wanted, wanted, 0)
    status = status_of(document)
    updated, serving = (_count(status.get(field), 0) for field in fields)
    if not _observed(document):
        updated = 0 if "observedGeneration" in status else wanted
    return _Pods(wanted, min(updated, wanted), min(serving, wanted))


_Counts: TypeAlias = Callable[[JsonObject, str, _Moment], JsonObject]


def _workload(counts: _Counts) -> Callable[[JsonObject, _Moment], Progress]:
    """Make the simulation of a kind that runs Pods; *counts* fills in the numbers of its status."""

    def simulate(document: JsonObject, moment: _Moment) -> Progress:
        started = _rollout_start(document, moment)
        stage, changes_at = moment.stage(started)
        words = {
            "starting": ("MinimumReplicasUnavailable", moment.script.problem or "waiting for Pods to become ready"),
            "ready": ("MinimumReplicasAvailable", "all Pods are ready"),
            "crashed": ("MinimumReplicasUnavailable", f"Pods crash, as annotation {SIMULATE} asks for"),
        }
        reason, message = words[stage]
        good = stage == "ready"
        available, progressing = _conditions(
            document,
            moment,
            ("Available", good, reason, message),
            ("Progressing", True, "NewReplicaSetAvailable" if good else "ReplicaSetUpdated", message),
        )
        status = {
            "observedGeneration": document["metadata"].get("generation", 0),
            **counts(document, stage, moment),
            "conditions": [available, {**progressing, "lastUpdateTime": format_time(started)}],
        }
        return Progress({**document, "status": status}, changes_at)

    return simulate


def _replicas(document: JsonObject) -> int:
    return _count(spec_of(document).get("replicas"), 1)


def _deployment(document: JsonObject, stage: str, _: _Moment) -> JsonObject:
    pods = _pods(document, stage, _replicas(document), ("updatedReplicas", "availableReplicas"))
    return {
        "replicas": pods.wanted,
        "updatedReplicas": pods.updated,
        "readyReplicas": pods.serving,
        "availableReplicas": pods.serving,
        "unavailableReplicas": pods.wanted - pods.serving,
    }


def _stateful_set(document: JsonObject, stage: str, _: _Moment) -> JsonObject:
    pods = _pods(document, stage, _replicas(document), ("updatedReplicas", "availableReplicas"))
    update = f"{document['metadata']['name']}-{document['metadata'].get('generation', 0)}"
    done = pods.updated == pods.wanted
    return {
        "replicas": pods.wanted,
        "readyReplicas": pods.serving,
        "availableReplicas": pods.serving,
        "currentReplicas": pods.wanted if done else pods.wanted - pods.updated,
        "updatedReplicas": pods.updated,
        "currentRevision": update if done else status_of(document).get("currentRevision", update),
        "updateRevision": update,
    }


def _daemon_set(document: JsonObject, stage: str, moment: _Moment) -> JsonObject:
    pods = _pods(document, stage, moment.nodes, ("updatedNumberScheduled", "numberAvailable"))
    return {
        "desiredNumberScheduled": pods.wanted,
        "currentNumberScheduled": pods.wanted,
        "updatedNumberScheduled": pods.updated,
        "numberReady": pods.serving,
        "numberAvailable": pods.serving,
        "numberUnavailable": pods.wanted - pods.serving,
        "numberMisscheduled": 0,
    }


def _replica_set(document: JsonObject, stage: str, _: _Moment) -> JsonObject:
    pods = _pods(document, stage, _replicas(document), ("fullyLabeledReplicas", "availableReplicas"))
    return {
        "replicas": pods.wanted,
        "fullyLabeledReplicas": pods.updated,
        "readyReplicas": pods.serving,
        "availableReplicas": pods.serving,
    }


def _job(document: JsonObject, moment: _Moment) -> Progress:
    """Run to completion; with ``crash-after`` it fails instead, that long after it would have completed."""
    started = _created(document, moment)
    stage, changes_at = moment.stage(started)
    if stage == "ready" and moment.script.crash_after is not None:
        stage = "starting"
    spec, start = spec_of(document), format_time(started)
    completions = _count(spec.get("completions"), 1)
    if stage == "starting":
        active = min(_count(spec.get("parallelism"), 1), completions)
        status: JsonObject = {"startTime": start, "active": active, "ready": active}
    elif stage == "ready":
        ended = _conditions(document, moment, ("Complete", True, "CompletionsReached", "all Pods have completed"))
        end = ended[0]["lastTransitionTime"]
        status = {"startTime": start, "completionTime": end, "succeeded": completions, "conditions": ended}
    else:
        message = f"Pods crash, as annotation {SIMULATE} asks for"
        ended = _conditions(document, moment, ("Failed", True, "BackoffLimitExceeded", message))
        status = {"startTime": start, "failed": completions, "conditions": ended}
    return Progress({**document, "status": status}, changes_at)


def _pod(document: JsonObject, moment: _Moment) -> Progress:
    started = _created(document, moment)
    stage, changes_at = moment.stage(started)
    phase = {"starting": "Pending", "ready": "Running", "crashed": "Failed"}[stage]
    good = stage == "ready"
    message = moment.script.problem or f"the Pod is {phase}"
    conditions = _conditions(document, moment, ("Ready", good, "PodReady" if good else "PodNotReady", message))
    status = {"phase": phase, "startTime": format_time(started), "conditions": conditions}
    return Progress({**document, "status": status}, changes_at)


def _address(document: JsonObject, block: tuple[int, int]) -> str:
    """Return an address of a /16 block, always the same for one object."""
    number = zlib.crc32(document["metadata"].get("uid", document["metadata"]["name"]).encode())
    return f"{block[0]}.{block[1]}.{number >> 8 & 255}.{number & 255 or 1}"


def _service(document: JsonObject, moment: _Moment) -> Progress:
    """Give the Service a cluster IP at once, and a load balancer its address after a while."""
    spec = spec_of(document)
    if spec.get("type") == "ExternalName":
        return Progress(document)
    address = spec.get("clusterIP") or _address(document, (10, 96))
    if not spec.get("clusterIPs"):
        document = {**document, "spec": {**spec, "clusterIP": address, "clusterIPs": [address]}}
    if spec.get("type") != "LoadBalancer":
        return Progress(document)
    stage, changes_at = moment.stage(_created(document, moment))
    ingress = [{"ip": _address(document, (198, 18))}] if stage == "ready" else []
    return Progress({**document, "status": {"loadBalancer": {"ingress": ingress} if ingress else {}}}, changes_at)


def _ingress(document: JsonObject, moment: _Moment) -> Progress:
    stage, changes_at = moment.stage(_created(document, moment))
    ingress = [{"ip": _address(document, (198, 18))}] if stage == "ready" else []
    return Progress({**document, "status": {"loadBalancer": {"ingress": ingress} if ingress else {}}}, changes_at)


def _namespace(document: JsonObject, _: _Moment) -> Progress:
    return Progress({**document, "status": {**status_of(document), "phase": "Active"}})


def _volume(document: JsonObject, _: _Moment) -> Progress:
    phase = "Bound" if spec_of(document).get("claimRef") else "Available"
    return Progress({**document, "status": {**status_of(document), "phase": phase}})


def _claim(document: JsonObject, moment: _Moment) -> Progress:
    stage, changes_at = moment.stage(_created(document, moment))
    status: JsonObject = {"phase": "Pending"}
    if stage == "ready":
        spec = spec_of(document)
        capacity = dict_at(spec, "resources", "requests")
        status = {"phase": "Bound", "accessModes": spec.get("accessModes") or [], "capacity": capacity}
    elif stage == "crashed":
        status = {"phase": "Lost"}
    return Progress({**document, "status": status}, changes_at)


def _disruption_budget(document: JsonObject, moment: _Moment) -> Progress:
    """Count no Pods, since there are none: the budget allows no disruption, and says so for its generation."""
    no_pods = ("DisruptionAllowed", False, "InsufficientPods", "no Pods are simulated")
    (condition,) = _conditions(document, moment, no_pods)
    status = {
        "observedGeneration": document["metadata"].get("generation", 0),
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
        "conditions": [condition],
    }
    return Progress({**document, "status": status})


def _custom_resource_definition(document: JsonObject, moment: _Moment) -> Progress:
    spec = spec_of(document)
    established = moment.script.ready_after is not None
    conditions = _conditions(
        document,
        moment,
        ("NamesAccepted", True, "NoConflicts", "no conflicts found"),
        ("Established", established, "InitialNamesAccepted" if established else "Installing", "the kind is served"),
    )
    stored = [version.get("name") for version in dicts_at(spec, "versions") if version.get("storage")]
    status = {"acceptedNames": spec.get("names") or {}, "storedVersions": stored, "conditions": conditions}
    return Progress({**document, "status": status})


_SIMULATED: Mapping[tuple[str, str], Callable[[JsonObject, _Moment], Progress]] = MappingProxyType(
    {
        ("apps", "Deployment"): _workload(_deployment),
        ("apps", "StatefulSet"): _workload(_stateful_set),
        ("apps", "DaemonSet"): _workload(_daemon_set),
        ("apps", "ReplicaSet"): _workload(_replica_set),
        ("", "ReplicationController"): _workload(_replica_set),
        ("batch", "Job"): _job,
        ("", "Pod"): _pod,
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
        changes_at: When to settle it again; None: only after another write to it.
        works: Names of the Works it belongs to, if it was changed.
    """

    changes_at: datetime | None = None
    works: tuple[str, ...] = ()


async def settle(
    store: Store, kind: Kind, key: Key, now: datetime, *, nodes: int = NODES, ready_after: timedelta = READY_AFTER
) -> Settled:
    """Bring one object of a member to the state it has reached by *now*.

    Level-triggered and idempotent: the object is read, and written only where it differs.
    """
    try:
        document = await store.get(kind, key)
        step = progress(document, now, nodes=nodes, ready_after=ready_after)
        changed = False
        if step.document.get("spec") != document.get("spec"):
            await store.replace(kind, step.document)
            return Settled(now, _works(document))  # at once again: a status goes with the version that has this spec
        if step.document.get("status") != document.get("status"):
            await store.replace_status(kind, step.document)
            changed = True
    except NotFoundError:
        return Settled()
    except ConflictError:  # the agent wrote in between: settle what it wrote
        return Settled(now)
    return Settled(step.changes_at, _works(document) if changed else ())


def _works(document: JsonObject) -> tuple[str, ...]:
    return tuple(owner["name"] for owner in owners(document) if is_applied_work(owner))


def requests(document: JsonObject, *, nodes: int = NODES) -> dict[str, int]:
    """Return what the Pods of a workload request, resource name to 10^-9 units; nothing for other kinds.

    Only regular containers count, and Pods that have ended do not (scheduling.md 18).
    """
    pods = _PODS.get(group_kind(document))
    if pods is None:
        return {}
    count = pods(document, nodes)
    spec = spec_of(document)
    if document["kind"] != "Pod":
        spec = dict_at(spec, "template", "spec")
    total: dict[str, int] = {}
    for container in dicts_at(spec, "containers"):
        wanted = dict_at(container, "resources", "requests")
        for name, text in wanted.items():
            quantity = read_quantity(str(text))
            if quantity is not None and quantity.nano > 0:
                total[name] = total.get(name, 0) + quantity.nano * count
    return total


def _job_pods(document: JsonObject, _: int) -> int:
    return _count(status_of(document).get("active"), 0)


def _single_pod(document: JsonObject, _: int) -> int:
    return int(status_of(document).get("phase") not in ("Succeeded", "Failed"))


_PODS: Mapping[tuple[str, str], Callable[[JsonObject, int], int]] = MappingProxyType(
    {
        ("apps", "Deployment"): lambda document, _: _replicas(document),
        ("apps", "StatefulSet"): lambda document, _: _replicas(document),
        ("apps", "ReplicaSet"): lambda document, _: _replicas(document),
        ("", "ReplicationController"): lambda document, _: _replicas(document),
        ("apps", "DaemonSet"): lambda _, nodes: nodes,
        ("batch", "Job"): _job_pods,
        ("", "Pod"): _single_pod,
    }
)

WORKLOAD_KINDS = tuple(KINDS[identity] for identity in _PODS)
