"""Placements as in ``GET /v1/placements``: requested and current clusters of each, and its problems."""

from collections.abc import Container, Iterable, Mapping
from typing import Annotated, Any, Final, Literal

from typing_extensions import TypedDict

from scorer.api.conditions import FALSE, TRUE, UNKNOWN, Condition
from scorer.api.family import Family
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_PLACEMENT
from scorer.api.placement.binding import BindingState
from scorer.api.placement.placement import PlacementType, RolloutStrategy
from scorer.api.placement.status import ResourceIdentifier
from scorer.api.unstructured.documents import (
    current_condition,
    dict_at,
    find_current,
    generation_of,
    is_deleting,
    list_at,
    status_of,
)
from scorer.api.values.answer import Instant, ShapeOf, one_of
from scorer.rollout.bindings import (
    AVAILABLE,
    ROLLOUT_STARTED,
    Overrides,
    PendingReason,
    pending_reason,
    waits_for_window,
)
from scorer.rollout.removal.finalization import removal_detail
from scorer.rollout.status.advisories import advisory_lines
from scorer.rollout.status.failures import failure_of
from scorer.rollout.status.placement_conditions import (
    JUDGED_AGAIN,
    SCHEDULED,
    condition_type,
    expected_conditions,
    is_decision_pending,
    is_removal_pending,
    removal_pending_condition,
    resting_state,
)
from scorer.rollout.status.progress import STALLED, failed_object
from scorer.rollout.views.removals import UnconfirmedRemoval
from scorer.rollout.views.timeline import UpdateTimeline
from webhook.kube.cache.informer import Cache

_NOT_SATISFIED: Final = frozenset({"failed", "invalid", "removing", "stalled"})
"""States of a placement that is not satisfied, even if it has enough clusters."""


ClusterProgress = Literal["available", "applying", "waiting", "failed", "removing", "removal pending"]
PlacementState = Literal[
    "available",
    "empty",
    "removal pending",
    "rolling out",
    "stalled",
    "external",
    "pending",
    "removing",
    "short",
    "failed",
    "invalid",
]
Release = Literal["new", "old", ""]


class PlacedCluster(TypedDict):
    """Progress of a placement on one cluster."""

    cluster: str
    state: ClusterProgress
    detail: str
    """Reason why it is not available."""
    serves: Release
    """The release that is available there: the latest, or an earlier one that waits to be replaced. Empty: none is
    known."""


class Placement(TypedDict):
    """Requested and current clusters of a placement, and the reason for its state."""

    ref: str
    """`crp/<name>` or `rp/<namespace>/<name>`."""
    kind: Annotated[str, one_of("ClusterResourcePlacement", "ResourcePlacement")]
    namespace: str
    """Empty for a ClusterResourcePlacement."""
    name: str
    type: Annotated[str, one_of(*PlacementType)]
    wanted: int | None
    """Number of clusters to pick, null for all."""
    picked: int
    available: int
    """Number of them with the latest release available."""
    availableOld: int
    """Number of other clusters with an earlier release available, until their turn in the rollout."""
    satisfied: bool
    """Whether it has all requested clusters, and is neither failed, nor invalid, nor stalled, nor being removed."""
    judgedAgain: bool
    """Whether it changed since the last decision: clusters and states are the last known."""
    stalledSince: Instant | None
    """Time of the last progress of a stalled rollout, else null."""
    state: PlacementState
    why: str
    """Reason for the state, such as removals that wait for confirmation. Empty otherwise."""
    generation: int
    labels: dict[str, str]
    clusters: list[PlacedCluster]
    conditions: list[Annotated[JsonObject, ShapeOf(Condition)]]
    advisories: list[str]
    """Warnings of admission that apply to it now, at most ten: the id of the rule, the field and the text."""
    removalPendingSince: Instant | None
    """Time when removals of its content started to wait for confirmation. Null: no pending removals."""
    decidedAt: Instant | None
    """Time when the decision last changed. Null before the first decision, and until a changed placement is decided
    again.
    """


class PlacementDetail(Placement, TypedDict):
    """A placement with its selected resources and its rollout."""

    resourceIndex: str
    """Index of its latest resource snapshot. Empty: none yet, or update runs decide which one a cluster gets."""
    overrides: int
    """Number of overrides that apply on at least one of its clusters."""
    selectedResources: list[Annotated[JsonObject, ShapeOf(ResourceIdentifier)]]
    strategy: Annotated[JsonObject, ShapeOf(RolloutStrategy)]
    removals: list[UnconfirmedRemoval]
    """Removals that wait for confirmation. Until then, the content remains on the clusters."""
    timeline: UpdateTimeline | None
    """The last rolling update. Null if update runs roll it out."""


def placement_view(cache: Cache, family: Family, document: JsonObject) -> Placement:
    """Return one placement: requested clusters, current clusters, and problems."""
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
    if judged_again:  # before the new decision the status names no cluster, but bindings do
        clusters = [_placed(_last_known(live[name], document), generation_of(live[name])) for name in sorted(live)]
    else:
        reports = [entry for entry in status.get("placementStatuses") or () if entry.get("clusterName")]
        clusters = [_placed(entry, generation) for entry in reports]
    clusters = [_with_binding(entry, live.get(entry["cluster"])) for entry in clusters]
    pick_count = len(clusters)
    clusters += _removals(bindings, {entry["cluster"] for entry in clusters})
    state, reason = _placement_state(document, clusters, judged_again=judged_again)
    stalled_condition = find_current(conditions.values(), condition_type(document, STALLED), generation) or {}
    if stalled_condition and state == "rolling out":
        state, reason = "stalled", str(stalled_condition.get("message", ""))
    kind = policy.get("placementType") or "PickAll"
    wanted_count = _cluster_count(kind, policy)
    current = scheduled.get("observedGeneration") == generation
    is_complete = pick_count >= (wanted_count or 0) if judged_again else current and scheduled.get("status") == TRUE
    return {
        "ref": str(ref),
        "kind": ref.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "type": kind,
        "wanted": wanted_count,
        "picked": pick_count,
        "available": sum(entry["serves"] == "new" for entry in clusters),
        "availableOld": sum(entry["serves"] == "old" for entry in clusters),
        "satisfied": is_complete and state not in _NOT_SATISFIED,
        "judgedAgain": judged_again,
        "stalledSince": stalled_condition.get("lastTransitionTime"),
        "state": state,
        "why": reason,
        "generation": generation,
        "labels": document["metadata"].get("labels") or {},
        "clusters": clusters,
        "conditions": list(conditions.values()),
        "advisories": list(advisory_lines(document)),
        "removalPendingSince": (removal_pending_condition(document) or {}).get("lastTransitionTime"),
        "decidedAt": None if judged_again else scheduled.get("lastTransitionTime"),
    }


def override_count(bindings: Iterable[JsonObject]) -> int:
    """Return the number of overrides that at least one binding has, in any version."""
    keys = (key for binding in bindings for key in Overrides.of(binding["spec"]).keys)
    return len({(namespace, name.rpartition("-")[0]) for namespace, name in keys})


def _last_known(binding: JsonObject, placement: JsonObject) -> JsonObject:
    """Return the status of a binding as an entry of ``placementStatuses``."""
    condition = (current_condition(binding, word) for word in expected_conditions(placement))
    return {
        "clusterName": str(binding["spec"]["targetCluster"]),
        "conditions": [condition for condition in condition if condition is not None],
        "failedPlacements": list_at(binding, "status", "failedPlacements"),
    }


def _with_binding(entry: PlacedCluster, binding: JsonObject | None) -> PlacedCluster:
    """Complete the entry of a cluster from its binding. The serving release counts even if the rollout has failed."""
    complete: PlacedCluster = {**entry, "serves": _serves(entry, binding)}
    if binding is not None and (failure := failure_of(binding)):
        complete["state"], complete["detail"] = "failed", failure
    return complete


def _serves(entry: PlacedCluster, binding: JsonObject | None) -> Release:
    """Return the release that is available on a cluster: ``new``, ``old``, or empty if neither is known to be."""
    if entry["state"] == "available":
        return "new"
    available = current_condition(binding, AVAILABLE) if binding is not None and entry["state"] == "waiting" else None
    return "old" if available is not None and available.get("status") == TRUE else ""


def _cluster_count(kind: str, policy: Mapping[str, Any]) -> int | None:
    match kind:
        case "PickN":
            return policy.get("numberOfClusters")
        case "PickFixed":
            return len(policy.get("clusterNames") or ())
        case _:
            return None


def _placed(entry: Mapping[str, Any], generation: int) -> PlacedCluster:
    """Return the progress of one picked cluster, by its first condition that is not True for *generation*.

    ``Scheduled`` does not count.
    """
    for condition in entry.get("conditions") or ():
        if condition["type"] == "Scheduled" or (
            condition["status"] == TRUE and condition.get("observedGeneration") == generation
        ):
            continue
        return {
            "cluster": entry["clusterName"],
            "state": _progress(condition),
            "detail": failed_object(entry) or condition.get("message") or condition.get("reason", ""),
            "serves": "",
        }
    kinds = {condition["type"] for condition in entry.get("conditions") or ()}
    is_done = bool(kinds & {"Available", "DiffReported"})
    detail = "" if is_done else "no progress yet"
    state: ClusterProgress = "available" if is_done else "waiting"
    return {"cluster": entry["clusterName"], "state": state, "detail": detail, "serves": ""}


def _progress(condition: Mapping[str, Any]) -> ClusterProgress:
    match condition["type"], condition["status"]:
        case "RolloutStarted", _:
            return "waiting"
        case "Overridden" | "WorkSynchronized", status if status == FALSE:
            return "failed"
        case "Applied", status if status == FALSE:
            return "applying" if condition.get("reason") == "ApplyInProgress" else "failed"
        case _:
            return "applying"


def _removals(bindings: Iterable[JsonObject], names: Container[str]) -> list[PlacedCluster]:
    removals: dict[str, PlacedCluster] = {}
    for binding in bindings:
        cluster = binding["spec"]["targetCluster"]
        if (is_deleting(binding) or binding["spec"].get("state") == BindingState.UNSCHEDULED) and cluster not in names:
            is_unconfirmed = not is_deleting(binding) and pending_reason(binding) is PendingReason.CONFIRMATION
            state: ClusterProgress = "removal pending" if is_unconfirmed else "removing"
            removals[cluster] = {"cluster": cluster, "state": state, "detail": _leaving(binding), "serves": ""}
    return [removals[cluster] for cluster in sorted(removals)]


def _leaving(binding: JsonObject) -> str:
    """Return the progress of a cluster that loses the placement."""
    if is_deleting(binding):
        return "its objects are being removed"
    if reason := pending_reason(binding):
        return reason.describe()
    condition = current_condition(binding, ROLLOUT_STARTED) or {}
    return str(condition["message"]) if waits_for_window(condition) else "waits for the limits of the rollout"


def _placement_state(
    document: JsonObject, clusters: list[PlacedCluster], *, judged_again: bool
) -> tuple[PlacementState, str]:
    failure = failure_of(document)
    if is_deleting(document):
        return "removal pending" if is_removal_pending(document) else "removing", removal_detail(document, failure)
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
    if state != "available":
        return state, reason
    if scheduled["status"] == FALSE and not is_removal_pending(document):
        return "short", str(scheduled.get("message", ""))
    return resting_state(document)


def _progress_of_all(document: JsonObject, clusters: Iterable[PlacedCluster]) -> tuple[PlacementState, str]:
    """Return the progress of a placement on its picked clusters, and its blocker."""
    by_state: dict[str, list[PlacedCluster]] = {}
    for entry in clusters:
        by_state.setdefault(entry["state"], []).append(entry)
    if failed := by_state.get("failed"):
        return "failed", f"{failed[0]['cluster']}: {failed[0]['detail']}"
    busy = [entry for state in ("applying", "waiting", "removing") for entry in by_state.get(state, ())]
    if busy and dict_at(document, "spec", "strategy").get("type") == "External":
        return "external", "waiting for a staged update run"
    if busy:
        return "rolling out", f"{busy[0]['cluster']}: {busy[0]['detail']}"
    return "available", ""
