"""Simulated workloads: the status of kinds that run Pods, and the requests of their Pods."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TypeAlias

from scorer.api.kinds import KINDS, group_kind
from scorer.api.meta import JsonObject, format_time, parse_time
from scorer.api.unstructured.documents import dict_at, dicts_at, spec_of, status_of
from scorer.api.values.quantity import read_quantity
from webhook.embedded.simulation.scripts import (
    NODES,
    SIMULATE,
    Moment,
    _WorkloadProgress,
    condition_of,
    count_or,
    created_at,
    make_conditions,
)


def _whole_seconds(instant: datetime) -> datetime:
    """Return *instant* with the precision of the store."""
    return parse_time(format_time(instant))


def _rollout_start(document: JsonObject, moment: Moment) -> datetime:
    """Return the start of the rollout of the current generation.

    If the status has observed the current generation, its condition Progressing has the time. If it has observed only
    an earlier one, the rollout starts now. In all other cases, the rollout started with the creation of the object.
    """
    if not _observed(document):
        return (
            _whole_seconds(moment.now) if "observedGeneration" in status_of(document) else created_at(document, moment)
        )
    text = condition_of(document, "Progressing").get("lastUpdateTime")
    return parse_time(text) if text else created_at(document, moment)


def _observed(document: JsonObject) -> bool:
    return bool(status_of(document).get("observedGeneration") == document["metadata"].get("generation"))


@dataclass(frozen=True, slots=True)
class _Pods:
    """Pod counts of a workload: desired, updated to the current template, and serving."""

    desired: int
    updated: int
    serving: int


def _pods(document: JsonObject, stage: str, replicas: int, fields: tuple[str, str]) -> _Pods:
    """Count the Pods of a workload. *fields* name the status fields with the updated and the serving Pods.

    A first rollout creates all Pods together. An update keeps the old ones serving until the new ones are ready.
    """
    if stage == "ready":
        return _Pods(replicas, replicas, replicas)
    if stage == "crashed":
        return _Pods(replicas, replicas, 0)
    status = status_of(document)
    updated, serving = (count_or(status.get(field), 0) for field in fields)
    if not _observed(document):
        updated = 0 if "observedGeneration" in status else replicas
    return _Pods(replicas, min(updated, replicas), min(serving, replicas))


_Counts: TypeAlias = Callable[[JsonObject, str, Moment], JsonObject]


def _workload(counts: _Counts) -> Callable[[JsonObject, Moment], _WorkloadProgress]:
    """Return the simulation of a kind that runs Pods. *counts* fills in the numbers of its status."""

    def simulate(document: JsonObject, moment: Moment) -> _WorkloadProgress:
        start = _rollout_start(document, moment)
        stage, changes_at = moment.stage(start)
        words = {
            "starting": ("MinimumReplicasUnavailable", moment.script.problem or "waiting for Pods to become ready"),
            "ready": ("MinimumReplicasAvailable", "all Pods are ready"),
            "crashed": ("MinimumReplicasUnavailable", f"Pods crash, as annotation {SIMULATE} requests"),
        }
        reason, message = words[stage]
        good = stage == "ready"
        available, progressing = make_conditions(
            document,
            moment,
            ("Available", good, reason, message),
            ("Progressing", True, "NewReplicaSetAvailable" if good else "ReplicaSetUpdated", message),
        )
        status = {
            "observedGeneration": document["metadata"].get("generation", 0),
            **counts(document, stage, moment),
            "conditions": [available, {**progressing, "lastUpdateTime": format_time(start)}],
        }
        return _WorkloadProgress({**document, "status": status}, changes_at)

    return simulate


def _replicas(document: JsonObject) -> int:
    return count_or(spec_of(document).get("replicas"), 1)


def _deployment(document: JsonObject, stage: str, _: Moment) -> JsonObject:
    pods = _pods(document, stage, _replicas(document), ("updatedReplicas", "availableReplicas"))
    return {
        "replicas": pods.desired,
        "updatedReplicas": pods.updated,
        "readyReplicas": pods.serving,
        "availableReplicas": pods.serving,
        "unavailableReplicas": pods.desired - pods.serving,
    }


def _stateful_set(document: JsonObject, stage: str, _: Moment) -> JsonObject:
    pods = _pods(document, stage, _replicas(document), ("updatedReplicas", "availableReplicas"))
    update = f"{document['metadata']['name']}-{document['metadata'].get('generation', 0)}"
    is_done = pods.updated == pods.desired
    return {
        "replicas": pods.desired,
        "readyReplicas": pods.serving,
        "availableReplicas": pods.serving,
        "currentReplicas": pods.desired if is_done else pods.desired - pods.updated,
        "updatedReplicas": pods.updated,
        "currentRevision": update if is_done else status_of(document).get("currentRevision", update),
        "updateRevision": update,
    }


def _daemon_set(document: JsonObject, stage: str, moment: Moment) -> JsonObject:
    pods = _pods(document, stage, moment.nodes, ("updatedNumberScheduled", "numberAvailable"))
    return {
        "desiredNumberScheduled": pods.desired,
        "currentNumberScheduled": pods.desired,
        "updatedNumberScheduled": pods.updated,
        "numberReady": pods.serving,
        "numberAvailable": pods.serving,
        "numberUnavailable": pods.desired - pods.serving,
        "numberMisscheduled": 0,
    }


def _replica_set(document: JsonObject, stage: str, _: Moment) -> JsonObject:
    pods = _pods(document, stage, _replicas(document), ("fullyLabeledReplicas", "availableReplicas"))
    return {
        "replicas": pods.desired,
        "fullyLabeledReplicas": pods.updated,
        "readyReplicas": pods.serving,
        "availableReplicas": pods.serving,
    }


def _job(document: JsonObject, moment: Moment) -> _WorkloadProgress:
    """Run to completion. With ``crash-after`` the Job fails instead, that long after it would have completed."""
    start_time = created_at(document, moment)
    stage, changes_at = moment.stage(start_time)
    if stage == "ready" and moment.script.crash_after is not None:
        stage = "starting"
    spec, start = spec_of(document), format_time(start_time)
    completions = count_or(spec.get("completions"), 1)
    if stage == "starting":
        active = min(count_or(spec.get("parallelism"), 1), completions)
        status: JsonObject = {"startTime": start, "active": active, "ready": active}
    elif stage == "ready":
        end_conditions = make_conditions(
            document, moment, ("Complete", True, "CompletionsReached", "all Pods have completed")
        )
        end = end_conditions[0]["lastTransitionTime"]
        status = {"startTime": start, "completionTime": end, "succeeded": completions, "conditions": end_conditions}
    else:
        message = f"Pods crash, as annotation {SIMULATE} requests"
        end_conditions = make_conditions(document, moment, ("Failed", True, "BackoffLimitExceeded", message))
        status = {"startTime": start, "failed": completions, "conditions": end_conditions}
    return _WorkloadProgress({**document, "status": status}, changes_at)


def _pod(document: JsonObject, moment: Moment) -> _WorkloadProgress:
    start = created_at(document, moment)
    stage, changes_at = moment.stage(start)
    phase = {"starting": "Pending", "ready": "Running", "crashed": "Failed"}[stage]
    good = stage == "ready"
    message = moment.script.problem or f"the Pod is {phase}"
    conditions = make_conditions(document, moment, ("Ready", good, "PodReady" if good else "PodNotReady", message))
    status = {"phase": phase, "startTime": format_time(start), "conditions": conditions}
    return _WorkloadProgress({**document, "status": status}, changes_at)


WORKLOADS: Mapping[tuple[str, str], Callable[[JsonObject, Moment], _WorkloadProgress]] = MappingProxyType(
    {
        ("apps", "Deployment"): _workload(_deployment),
        ("apps", "StatefulSet"): _workload(_stateful_set),
        ("apps", "DaemonSet"): _workload(_daemon_set),
        ("apps", "ReplicaSet"): _workload(_replica_set),
        ("", "ReplicationController"): _workload(_replica_set),
        ("batch", "Job"): _job,
        ("", "Pod"): _pod,
    }
)
"""Simulations of the kinds that run Pods, by API group and kind."""


def requests(document: JsonObject, *, nodes: int = NODES) -> dict[str, int]:
    """Return the requests of a workload's Pods, resource name to 10^-9 units. Empty for other kinds.

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
        requests = dict_at(container, "resources", "requests")
        for name, text in requests.items():
            quantity = read_quantity(str(text))
            if quantity is not None and quantity.nano > 0:
                total[name] = total.get(name, 0) + quantity.nano * count
    return total


def _job_pods(document: JsonObject, _: int) -> int:
    return count_or(status_of(document).get("active"), 0)


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
