"""Member clusters and placements for display: one JSON object each, every state with its reason.

Shapes are those of ``GET /v1/clusters`` and ``GET /v1/placements``; the page shows nothing else.
"""

from collections.abc import Container, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.cluster.scores import read_score, score_names
from scorer.api.conditions import FALSE, TRUE, UNKNOWN
from scorer.api.family import FAMILIES, Family
from scorer.api.meta import JsonObject, format_time
from scorer.api.names import MEMBER_AGENT, PARENT_PLACEMENT
from scorer.api.placement.binding import BindingState
from scorer.api.unstructured.documents import (
    current_condition,
    dict_at,
    find_current,
    generation_of,
    is_deleting,
    list_at,
    status_of,
)
from scorer.api.values.duration import format_duration
from scorer.api.values.quantity import read_quantity
from scorer.fleet import Fleet
from scorer.framework.status import Category, FilterRejection
from scorer.plugins.cluster_eligibility import ineligibility
from scorer.properties import NODE_COUNT, observation_time, read_property
from scorer.rollout.bindings import AVAILABLE, ROLLOUT_STARTED, waits_for_window
from scorer.rollout.removal.finalization import removal_detail
from scorer.rollout.status.failures import failure_of
from scorer.rollout.status.placement_conditions import (
    JUDGED_AGAIN,
    SCHEDULED,
    condition_type,
    expected_conditions,
    is_decision_pending,
    too_large_message,
)
from scorer.rollout.status.progress import STALLED, failed_object
from webhook.kube.cache.informer import Cache

_NOT_SATISFIED: Final = frozenset({"failed", "invalid", "removing", "stalled"})
"""States in which a placement does not count as satisfied, even if it has enough clusters."""

_STATES = {
    Category.CLUSTER_LEAVING: "leaving",
    Category.AGENT_NOT_REPORTING: "not reporting",
    Category.HEARTBEAT_STALE: "silent",
    Category.AGENT_NOT_JOINED: "not joined",
    Category.HEALTH_UNKNOWN: "health unknown",
    Category.CLUSTER_UNHEALTHY: "unhealthy",
}


def clusters_view(cache: Cache, names: Iterable[str], now: datetime) -> list[JsonObject]:
    """Return member clusters in the order of *names*, without those that there are not."""
    placed = _placements_by_cluster(cache)
    fleet = cache.fleet
    rows = ((name, fleet.row(name)) for name in names)
    return [_cluster(fleet, row, placed.get(name, []), now) for name, row in rows if row is not None]


def _placements_by_cluster(cache: Cache) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for family in FAMILIES:
        for binding in cache.list(family.binding):
            if not is_deleting(binding) and binding["spec"].get("state") != "Unscheduled":
                found.setdefault(binding["spec"]["targetCluster"], set()).add(str(family.parent(binding)))
    return {cluster: sorted(refs) for cluster, refs in found.items()}


def _cluster(fleet: Fleet, row: int, placements: list[str], now: datetime) -> JsonObject:
    member = fleet.members[row]
    rejection = ineligibility(fleet, row, now)
    agent = next((agent for agent in member.status.agent_status if agent.type == MEMBER_AGENT), None)
    heartbeat = agent.last_received_heartbeat if agent else None
    nodes = read_property(member, NODE_COUNT)
    return {
        "name": member.metadata.name,
        "state": _STATES[rejection.category] if rejection else "eligible",
        "stateDetail": _detail(fleet, rejection) if rejection else "",
        "eligible": rejection is None,
        "reason": str(rejection.category) if rejection else "",
        "labels": member.metadata.labels,
        "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in member.spec.taints],
        "lastHeartbeat": format_time(heartbeat) if heartbeat else None,
        "properties": _properties(member, now),
        "nodes": int(nodes.quantity.number) if nodes and nodes.quantity else None,
        "cpu": _capacity(member, "cpu"),
        "memory": _capacity(member, "memory"),
        "placements": placements,
    }


def _detail(fleet: Fleet, rejection: FilterRejection) -> str:
    """Return why a cluster is not eligible, without an age: the instant of the last heartbeat stands beside it."""
    if rejection.category is Category.HEARTBEAT_STALE:
        return f"no heartbeat within {format_duration(fleet.limits.heartbeat)}"
    return rejection.message


def _properties(member: MemberCluster, now: datetime) -> JsonObject:
    properties = {}
    for name, value in member.status.properties.items():
        observed = observation_time(member, name)
        properties[name] = {
            "value": value.value,
            "observedAt": format_time(observed) if observed else None,
        }
    for name in score_names(member.metadata.annotations):
        properties[name] = _external_score(member, name, now)
    return dict(sorted(properties.items()))


def _external_score(member: MemberCluster, name: str, now: datetime) -> JsonObject:
    """Return an external score, until when it is valid, and whether it has expired."""
    reading, score = read_property(member, name), read_score(member.metadata.annotations, name)
    entry: JsonObject = {"value": reading.text if reading else "", "observedAt": None}
    if score is None:
        return entry | {"unreadable": True}
    if score.valid_until is None:
        return entry
    entry["validUntil"] = format_time(score.valid_until)
    return entry | {"expired": True} if score.valid_until < now else entry


def _capacity(member: MemberCluster, resource: str) -> JsonObject | None:
    usage = member.status.resource_usage
    available, allocatable = usage.available.get(resource), usage.allocatable.get(resource)
    if available is None or allocatable is None:
        return None
    free, whole = read_quantity(str(available)), read_quantity(str(allocatable))
    ratio = free.nano / whole.nano if free and whole and whole.nano else None
    return {"available": str(available), "allocatable": str(allocatable), "ratio": ratio}


def placement_view(cache: Cache, family: Family, document: JsonObject) -> JsonObject:
    """Return one placement: what it wants and has, where, and what is wrong with it."""
    ref = family.ref(document)
    spec, status = document["spec"], status_of(document)
    policy = spec.get("policy") or {}
    generation = document["metadata"].get("generation", 0)
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    scheduled = conditions.get(condition_type(document, SCHEDULED)) or {}
    bindings = cache.labelled(
        family.binding, PARENT_PLACEMENT, document["metadata"]["name"], document["metadata"].get("namespace", "")
    )
    live = {
        str(binding["spec"]["targetCluster"]): binding
        for binding in bindings
        if not is_deleting(binding) and binding["spec"].get("state") != BindingState.UNSCHEDULED
    }
    judged_again = bool(live) and is_decision_pending(document)
    if judged_again:  # until the new decision the status names no cluster, so the bindings tell the state
        clusters = [_placed(_last_known(live[name], document), generation_of(live[name])) for name in sorted(live)]
    else:
        reported = [entry for entry in status.get("placementStatuses") or () if entry.get("clusterName")]
        clusters = [_placed(entry, generation) for entry in reported]
    clusters = [_with_binding(entry, live.get(entry["cluster"])) for entry in clusters]
    picked = len(clusters)
    clusters += _removals(bindings, {entry["cluster"] for entry in clusters})
    state, reason = _placement_state(document, clusters, judged_again=judged_again)
    stalled = find_current(conditions.values(), condition_type(document, STALLED), generation) or {}
    if stalled and state == "rolling out":
        state, reason = "stalled", str(stalled.get("message", ""))
    kind = policy.get("placementType") or "PickAll"
    wanted = _wanted(kind, policy)
    current = scheduled.get("observedGeneration") == generation
    has_all = picked >= (wanted or 0) if judged_again else current and scheduled.get("status") == TRUE
    return {
        "ref": str(ref),
        "kind": ref.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "type": kind,
        "wanted": wanted,
        "picked": picked,
        "available": sum(entry["serves"] == "new" for entry in clusters),
        "availableOld": sum(entry["serves"] == "old" for entry in clusters),
        "satisfied": has_all and state not in _NOT_SATISFIED,
        "judgedAgain": judged_again,
        "stalledSince": stalled.get("lastTransitionTime"),
        "state": state,
        "why": reason,
        "generation": generation,
        "labels": document["metadata"].get("labels") or {},
        "clusters": clusters,
        "conditions": list(conditions.values()),
        "decidedAt": None if judged_again else scheduled.get("lastTransitionTime"),
    }


def _last_known(binding: JsonObject, placement: JsonObject) -> JsonObject:
    """Return the status of a binding as an entry of ``placementStatuses``."""
    condition = (current_condition(binding, word) for word in expected_conditions(placement))
    return {
        "clusterName": str(binding["spec"]["targetCluster"]),
        "conditions": [condition for condition in condition if condition is not None],
        "failedPlacements": list_at(binding, "status", "failedPlacements"),
    }


def _with_binding(entry: JsonObject, binding: JsonObject | None) -> JsonObject:
    """Complete the entry of a cluster from its binding; what serves there counts even if the rollout has failed."""
    serves = _serves(entry, binding)
    failure = failure_of(binding) if binding is not None else ""
    return {**entry, "serves": serves} | ({"state": "failed", "detail": failure} if failure else {})


def _serves(entry: JsonObject, binding: JsonObject | None) -> str:
    """Return which release is available on a cluster: ``new``, ``old``, or empty if neither is known to be."""
    if entry["state"] == "available":
        return "new"
    available = current_condition(binding, AVAILABLE) if binding is not None and entry["state"] == "waiting" else None
    return "old" if available is not None and available.get("status") == TRUE else ""


def _wanted(kind: str, policy: Mapping[str, Any]) -> int | None:
    match kind:
        case "PickN":
            return policy.get("numberOfClusters")
        case "PickFixed":
            return len(policy.get("clusterNames") or ())
        case _:
            return None


def _placed(entry: Mapping[str, Any], generation: int) -> JsonObject:
    """Return the progress of one picked cluster: the first condition that is not True decides."""
    for condition in entry.get("conditions") or ():
        if condition["type"] == "Scheduled" or (
            condition["status"] == TRUE and condition.get("observedGeneration") == generation
        ):
            continue
        return {
            "cluster": entry["clusterName"],
            "state": _progress(condition),
            "detail": failed_object(entry) or condition.get("message") or condition.get("reason", ""),
        }
    kinds = {condition["type"] for condition in entry.get("conditions") or ()}
    done = bool(kinds & {"Available", "DiffReported"})
    detail = "" if done else "nothing has happened yet"
    return {"cluster": entry["clusterName"], "state": "available" if done else "waiting", "detail": detail}


def _progress(condition: Mapping[str, Any]) -> str:
    match condition["type"], condition["status"]:
        case "RolloutStarted", _:
            return "waiting"
        case "Overridden" | "WorkSynchronized", status if status == FALSE:
            return "failed"
        case "Applied", status if status == FALSE:
            return "applying" if condition.get("reason") == "ApplyInProgress" else "failed"
        case _:
            return "applying"


def _removals(bindings: Iterable[JsonObject], names: Container[str]) -> list[JsonObject]:
    removals = {}
    for binding in bindings:
        cluster = binding["spec"]["targetCluster"]
        if (is_deleting(binding) or binding["spec"].get("state") == BindingState.UNSCHEDULED) and cluster not in names:
            detail = _leaving(binding)
            removals[cluster] = {"cluster": cluster, "state": "removing", "detail": detail, "serves": ""}
    return [removals[cluster] for cluster in sorted(removals)]


def _leaving(binding: JsonObject) -> str:
    """Say how far a cluster is that is losing the placement."""
    if is_deleting(binding):
        return "its objects are being removed"
    said = current_condition(binding, ROLLOUT_STARTED) or {}
    return str(said["message"]) if waits_for_window(said) else "waits for the limits of the rollout"


def _placement_state(document: JsonObject, clusters: list[JsonObject], *, judged_again: bool) -> tuple[str, str]:
    failure = failure_of(document)
    if is_deleting(document):
        return "removing", removal_detail(document, failure)
    scheduled = current_condition(document, condition_type(document, SCHEDULED)) or {}
    if scheduled.get("reason") in ("SchedulingPolicyInvalid", "InvalidResourceSelectors"):
        return "invalid", str(scheduled.get("message", ""))
    if failure:
        return "failed", failure
    if not judged_again and scheduled.get("status") in (None, UNKNOWN):
        return "pending", "not scheduled yet"
    state, reason = _progress_of_all(document, clusters)
    if judged_again:
        return state, f"{JUDGED_AGAIN}; last known: {reason}" if reason else JUDGED_AGAIN
    if state == "available" and scheduled["status"] == FALSE:
        return "short", str(scheduled.get("message", ""))
    return state, reason or too_large_message(document)


def _progress_of_all(document: JsonObject, clusters: Iterable[JsonObject]) -> tuple[str, str]:
    """Return the progress of a placement on its picked clusters, and what holds it up."""
    by_state: dict[str, list[JsonObject]] = {}
    for entry in clusters:
        by_state.setdefault(entry["state"], []).append(entry)
    if failed := by_state.get("failed"):
        return "failed", f"{failed[0]['cluster']}: {failed[0]['detail']}"
    busy = [entry for state in ("applying", "waiting", "removing") for entry in by_state.get(state, ())]
    if busy and dict_at(document, "spec", "strategy").get("type") == "External":
        return "external", "waits for a staged update run"
    if busy:
        return "rolling out", f"{busy[0]['cluster']}: {busy[0]['detail']}"
    return "available", ""
