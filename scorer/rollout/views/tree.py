"""A placement with everything below it: clusters, bindings, Works, objects, every state with its reason.

Made from documents alone, so that every reader of the same documents gets the same tree. The shape is the output of
``harbormaster tree -o json``. The words for states are those of `webhook.answers.views`, but here they come from
bindings and Works, which the page does not read and which are ahead of the placement's status.

Source: docs/specifications/rollout.md 5.3, 9.2, 12, 13, 15, 16.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from scorer.api.conditions import FALSE, TRUE, UNKNOWN
from scorer.api.kinds import WORK, Kind, split_api_version
from scorer.api.meta import JsonObject
from scorer.api.names import MEMBER_NAMESPACE_PREFIX, PARENT_BINDING, RESOURCE_INDEX
from scorer.api.placement.binding import BindingState
from scorer.api.unstructured.documents import (
    conditions_of,
    current_condition,
    dicts_at,
    finalizers_of,
    generation_of,
    index_of,
    is_deleting,
    label,
    list_at,
    metadata_of,
    name_of,
    namespace_of,
    spec_of,
)
from scorer.api.values.quoting import format_count
from scorer.rollout.apply_strategy import reports_diff
from scorer.rollout.bindings import (
    APPLIED,
    AVAILABLE,
    DIFF_REPORTED,
    OVERRIDDEN,
    ROLLOUT_STARTED,
    WORK_SYNCHRONIZED,
    PendingReason,
    pending_reason,
)
from scorer.rollout.envelopes import ENVELOPE_NAME, ENVELOPE_NAMESPACE, ENVELOPE_WORK
from scorer.rollout.removal.finalization import describe_removal_wait, removal_detail
from scorer.rollout.status.failures import failure_of
from scorer.rollout.status.placement_conditions import (
    JUDGED_AGAIN,
    condition_type,
    is_decision_pending,
    is_removal_pending,
    resting_state,
)
from scorer.rollout.status.progress import STALLED

_SNAPSHOT: Final = re.compile(r"-(0|[1-9][0-9]*)-snapshot\Z", re.ASCII)
_INVALID: Final = ("SchedulingPolicyInvalid", "InvalidResourceSelectors")
_UNTRACKED: Final = "NotTrackable"


class ClusterState(StrEnum):
    """Rollout state of a placement on one cluster. The order of the members, from worst to best, is the rank."""

    FAILED = "failed"
    APPLYING = "applying"
    WAITING = "waiting"
    REMOVING = "removing"
    REMOVAL_PENDING = "removal pending"
    REPORTED = "reported"
    AVAILABLE = "available"


class ObjectState(StrEnum):
    """State of one object on a member. The order of the members, from worst to best, is the rank."""

    FAILED = "failed"
    NOT_YET = "not yet"
    WAITING = "waiting"
    DIFFERS = "differs"
    APPLIED = "applied"
    SAME = "same"
    AVAILABLE = "available"


_CLUSTER_RANK: Final = {state: rank for rank, state in enumerate(ClusterState)}
_OBJECT_RANK: Final = {state: rank for rank, state in enumerate(ObjectState)}
_DONE: Final = (ClusterState.AVAILABLE, ClusterState.REPORTED)
_DROPPED: Final = (ClusterState.REMOVING, ClusterState.REMOVAL_PENDING)


@dataclass(frozen=True, slots=True)
class Sources:
    """A placement, its bindings, and its Works and latest resource snapshots, whole or as `essentials` leaves them."""

    placement: JsonObject
    bindings: Sequence[JsonObject] = ()
    works: Sequence[JsonObject] = ()
    snapshots: Sequence[JsonObject] = ()


def essentials(kind: Kind, document: JsonObject) -> JsonObject:
    """Return the part of a document that the tree reads, so that thousands of Works are not kept with their content."""
    metadata = {
        key: value for key, value in metadata_of(document).items() if key not in ("managedFields", "annotations")
    }
    spec = spec_of(document)
    if kind.kind == WORK.kind:
        manifests = list_at(document, "spec", "workload", "manifests")
        names = [
            {"apiVersion": item.get("apiVersion"), "kind": item.get("kind"), "metadata": _place(metadata_of(item))}
            for item in manifests
        ]
        strategy = {"type": (spec.get("applyStrategy") or {}).get("type")}
        spec = {"workload": {"manifests": names}, "applyStrategy": strategy}
    elif kind.kind.endswith("Snapshot"):
        spec = {}
    return {**document, "metadata": metadata, "spec": spec}


def _place(meta: Mapping[str, Any]) -> JsonObject:
    return {key: meta[key] for key in ("namespace", "name") if key in meta}


def placement_tree(sources: Sources) -> JsonObject:
    """Return the whole tree: ``placement``, ``summary``, ``clusters`` (the worst first) and ``missing``."""
    placement = sources.placement
    latest = _latest(sources)
    works: dict[tuple[str, str], list[JsonObject]] = defaultdict(list)
    for work in sources.works:
        works[namespace_of(work), label(work, PARENT_BINDING)].append(work)
    clusters = []
    for binding in sources.bindings:
        key = (MEMBER_NAMESPACE_PREFIX + str(spec_of(binding).get("targetCluster")), name_of(binding))
        clusters.append(_cluster(binding, works.pop(key, []), latest))
    clusters += [
        _orphaned_cluster(namespace.removeprefix(MEMBER_NAMESPACE_PREFIX), owner, left)
        for (namespace, owner), left in works.items()
    ]
    clusters.sort(key=_badness)
    state, reason = _placement_state(placement, clusters)
    return {
        "placement": _placement(placement, clusters, latest, state, reason),
        "summary": _summary(clusters),
        "clusters": clusters,
        "missing": _missing_clusters(placement),
    }


def _latest(sources: Sources) -> int | None:
    """Return the index of the latest snapshot, or None.

    While the label moves to a new snapshot, none has it: then the greatest index that a binding names counts.
    """
    labelled_indices = [index_of(snapshot, RESOURCE_INDEX) for snapshot in sources.snapshots]
    bound_indices = [index for binding in sources.bindings if (index := _index(binding)) is not None]
    return max(labelled_indices or bound_indices, default=None)


def _index(binding: JsonObject) -> int | None:
    """Return the index of the resource snapshot that a binding names, or None."""
    match = _SNAPSHOT.search(str(spec_of(binding).get("resourceSnapshotName") or ""))
    return int(match[1]) if match else None


def _badness(cluster: JsonObject) -> tuple[int, bool, str, str]:
    state = ClusterState(cluster["state"])
    return (
        _CLUSTER_RANK[state],
        bool(cluster["healthy"]),
        cluster["cluster"],
        (cluster["binding"] or {}).get("name", ""),
    )


def _placement(
    document: JsonObject, clusters: Sequence[JsonObject], latest: int | None, state: str, detail: str
) -> JsonObject:
    policy = spec_of(document).get("policy") or {}
    kind = policy.get("placementType") or "PickAll"
    requested = {"PickN": policy.get("numberOfClusters"), "PickFixed": len(policy.get("clusterNames") or ())}.get(kind)
    space = namespace_of(document)
    return {
        "ref": f"rp/{space}/{name_of(document)}" if space else f"crp/{name_of(document)}",
        "kind": str(document.get("kind", "")),
        "namespace": space,
        "name": name_of(document),
        "generation": generation_of(document),
        "type": kind,
        "wanted": requested,
        "picked": sum(cluster["state"] not in _DROPPED for cluster in clusters),
        "state": state,
        "why": detail,
        "resourceIndex": latest,
        "conditions": [_condition(document, condition) for condition in conditions_of(document)],
        **_removal_state(document),
    }


def _removal_state(document: JsonObject) -> JsonObject:
    """Return whether the object is being deleted, and the finalizers that hold it."""
    return {"deleting": is_deleting(document), "finalizers": finalizers_of(document)}


def _condition(document: JsonObject, condition: Mapping[str, Any]) -> JsonObject:
    return {
        "type": str(condition.get("type", "")),
        "status": str(condition.get("status", "")),
        "reason": str(condition.get("reason", "")),
        "message": str(condition.get("message", "")),
        "current": condition.get("observedGeneration", 0) == generation_of(document),
    }


def _placement_state(document: JsonObject, clusters: Sequence[JsonObject]) -> tuple[str, str]:
    """Return the state in one word, as `webhook.answers.views` does, and why it is not ``available``."""
    failure = failure_of(document)
    if is_deleting(document):
        return "removal pending" if is_removal_pending(document) else "removing", removal_detail(document, failure)
    scheduled = current_condition(document, condition_type(document, "Scheduled")) or {}
    if scheduled.get("reason") in _INVALID:
        return "invalid", str(scheduled.get("message", ""))
    if failure:
        return "failed", failure
    is_decision_due = is_decision_pending(document) and any(cluster["state"] not in _DROPPED for cluster in clusters)
    if not is_decision_due and scheduled.get("status") in (None, UNKNOWN):
        return "pending", "not scheduled yet"
    state, reason = _progress_of_all(document, clusters)
    if is_decision_due:
        return state, f"{JUDGED_AGAIN}; last known: {reason}" if reason else JUDGED_AGAIN
    if state == "rolling out" and (stalled_condition := current_condition(document, condition_type(document, STALLED))):
        return "stalled", str(stalled_condition.get("message", ""))
    if state != "available":
        return state, reason
    if scheduled["status"] == FALSE and not is_removal_pending(document):
        return "short", str(scheduled.get("message", ""))
    return resting_state(document)


def _progress_of_all(document: JsonObject, clusters: Sequence[JsonObject]) -> tuple[str, str]:
    """Return the combined rollout state of a placement's clusters, and the worst obstacle."""
    resting_states = (*_DONE, ClusterState.REMOVAL_PENDING)
    busy = [cluster for cluster in clusters if cluster["state"] not in resting_states]
    if busy and busy[0]["state"] == ClusterState.FAILED:
        return "failed", f"{busy[0]['cluster']}: {busy[0]['detail']}"
    if busy and (spec_of(document).get("strategy") or {}).get("type") == "External":
        return "external", "waiting for a staged update run"
    if busy:
        return "rolling out", f"{busy[0]['cluster']}: {busy[0]['detail']}"
    return "available", ""


def _summary(clusters: Iterable[JsonObject]) -> JsonObject:
    clusters = list(clusters)
    states = Counter(cluster["state"] for cluster in clusters)
    return {
        "clusters": len(clusters),
        **{str(state): states[state] for state in ClusterState},
        "outdated": sum(cluster["upToDate"] is False for cluster in clusters),
        "drifted": sum(cluster["drifts"] > 0 for cluster in clusters),
        "differing": sum(cluster["diffs"] > 0 for cluster in clusters),
    }


def _missing_clusters(placement: JsonObject) -> list[JsonObject]:
    """Return reason and message for each cluster that the placement requests and that could not be picked."""
    unnamed = (entry for entry in dicts_at(placement, "status", "placementStatuses") if not entry.get("clusterName"))
    firsts: Iterator[Mapping[str, Any]] = (next(iter(entry.get("conditions") or ()), {}) for entry in unnamed)
    return [{key: str(condition.get(key, "")) for key in ("reason", "message")} for condition in firsts]


def _cluster(binding: JsonObject, works: Iterable[JsonObject], latest: int | None) -> JsonObject:
    spec = spec_of(binding)
    entries = _works(works)
    objects = [content for work in entries for content in work["objects"]]
    index = _index(binding)
    up_to_date = None if latest is None or index is None else index == latest
    state, detail, deciding_condition = _state(binding, entries)
    if state in _DONE and up_to_date is False and not detail:
        detail = f"on resources {index}, the latest are {latest}"
    drifts, diffs = (sum(len(entry[key]) for entry in objects) for key in ("drifts", "diffs"))
    rollout = current_condition(binding, ROLLOUT_STARTED)
    return {
        "cluster": str(spec.get("targetCluster") or ""),
        "state": str(state),
        "detail": detail,
        "healthy": state in _DONE and up_to_date is not False and not drifts and not diffs,
        "upToDate": up_to_date,
        "drifts": drifts,
        "diffs": diffs,
        "binding": {
            "name": name_of(binding),
            "namespace": namespace_of(binding),
            "state": str(spec.get("state") or ""),
            "resourceSnapshot": str(spec.get("resourceSnapshotName") or ""),
            "resourceIndex": index,
            "policySnapshot": str(spec.get("schedulingPolicySnapshotName") or ""),
            "rollout": None if rollout is None else _condition(binding, rollout),
            "condition": None if deciding_condition is None else _condition(binding, deciding_condition),
            **_removal_state(binding),
        },
        "works": entries,
    }


def _orphaned_cluster(cluster: str, owner: str, works: Iterable[JsonObject]) -> JsonObject:
    """Return the entry of Works whose binding no longer exists."""
    return {
        "cluster": cluster,
        "state": str(ClusterState.REMOVING),
        "detail": f"binding {owner or 'unknown'} is deleted, its Works remain",
        "healthy": False,
        "upToDate": None,
        "drifts": 0,
        "diffs": 0,
        "binding": None,
        "works": _works(works),
    }


_Verdict = tuple[ClusterState, str, Mapping[str, Any] | None]


def _state(binding: JsonObject, works: Sequence[JsonObject]) -> _Verdict:
    """Return the rollout state of one binding, the obstacle, and the deciding condition."""
    rollout = current_condition(binding, ROLLOUT_STARTED)
    is_held_back = rollout is not None and rollout.get("status") == FALSE
    message = str((rollout or {}).get("message", "")).removeprefix("waits: ") if is_held_back else ""
    if is_deleting(binding):
        return ClusterState.REMOVING, _removal(works), None
    failure = failure_of(binding)
    match spec_of(binding).get("state"):
        case BindingState.UNSCHEDULED:
            waits = describe_removal_wait(binding, message)
            needs_confirmation = pending_reason(binding) is PendingReason.CONFIRMATION
            removal_state = ClusterState.REMOVAL_PENDING if needs_confirmation else ClusterState.REMOVING
            return removal_state, f"no longer selected; {waits}", rollout if is_held_back else None
        case _ if failure:
            return ClusterState.FAILED, failure, None
        case BindingState.BOUND:
            pass
        case _:
            return ClusterState.WAITING, message or "picked, not rolled out yet", rollout
    verdict = _progress(binding, works)
    if verdict[0] in _DONE and is_held_back:
        return ClusterState.WAITING, message or "waiting for the rollout", rollout
    return verdict


def _removal(works: Sequence[JsonObject]) -> str:
    if not works:
        return "is being removed, its Works are deleted"
    deleting_count = sum(work["deleting"] for work in works)
    return f"is being removed, {format_count(len(works), 'Work')} left, {deleting_count} of them being deleted"


def _progress(binding: JsonObject, works: Sequence[JsonObject]) -> _Verdict:
    """Evaluate a bound binding: the first condition that is not True decides."""
    last = (DIFF_REPORTED,) if reports_diff(binding) else (APPLIED, AVAILABLE)
    for kind in (OVERRIDDEN, WORK_SYNCHRONIZED, *last):
        condition = current_condition(binding, kind)
        if condition is None or condition.get("status") not in (TRUE, FALSE):
            return ClusterState.APPLYING, f"{kind} is unknown", condition
        if condition["status"] == TRUE:
            continue
        objects = [entry for work in works for entry in work["objects"]]
        failed = kind in (OVERRIDDEN, WORK_SYNCHRONIZED) or any(
            entry["state"] == ObjectState.FAILED for entry in objects
        )
        detail = _trouble(objects) or _waiting_text(works) or _words(condition)
        return ClusterState.FAILED if failed else ClusterState.APPLYING, detail, condition
    return ClusterState.REPORTED if reports_diff(binding) else ClusterState.AVAILABLE, "", None


def _words(condition: Mapping[str, Any]) -> str:
    return str(condition.get("message") or condition.get("reason") or "")


def _trouble(objects: Sequence[JsonObject]) -> str:
    """Name the worst object and its problem."""
    for state in (ObjectState.FAILED, ObjectState.NOT_YET):
        matching = [entry for entry in objects if entry["state"] == state]
        if matching:
            more = f" (and {len(matching) - 1} more)" if len(matching) > 1 else ""
            return f"{title_of_object(matching[0])}: {matching[0]['message'] or matching[0]['reason']}{more}"
    return ""


def _waiting_text(works: Sequence[JsonObject]) -> str:
    silent = [work for work in works if work["waitingForAgent"]]
    if not silent:
        return ""
    more = f" (and {len(silent) - 1} more)" if len(silent) > 1 else ""
    return f"Work {silent[0]['name']} is waiting for the agent{more}"


def title_of_object(entry: Mapping[str, Any]) -> str:
    """Return ``Kind namespace/name``."""
    space = f"{entry['namespace']}/" if entry["namespace"] else ""
    return f"{entry['kind'] or 'object'} {space}{entry['name'] or '#' + str(entry['ordinal'])}"


def _works(works: Iterable[JsonObject]) -> list[JsonObject]:
    return [_work(work) for work in sorted(works, key=name_of)]


def _work(work: JsonObject) -> JsonObject:
    decisive = DIFF_REPORTED if reports_diff(work) else APPLIED
    condition = next((condition for condition in conditions_of(work) if condition.get("type") == decisive), None)
    envelope = _envelope(work)
    return {
        "name": name_of(work),
        "namespace": namespace_of(work),
        "generation": generation_of(work),
        "reportedGeneration": None if condition is None else condition.get("observedGeneration", 0),
        "waitingForAgent": current_condition(work, decisive) is None,
        "envelope": envelope,
        "conditions": [_condition(work, condition) for condition in conditions_of(work)],
        **_removal_state(work),
        "objects": _objects(work, envelope),
    }


def _envelope(work: JsonObject) -> JsonObject | None:
    kind = label(work, ENVELOPE_WORK)
    if not kind:
        return None
    return {"type": kind, "namespace": label(work, ENVELOPE_NAMESPACE), "name": label(work, ENVELOPE_NAME)}


def _objects(work: JsonObject, envelope: JsonObject | None) -> list[JsonObject]:
    """Return the objects of a Work, the worst first. An object without a report of the agent is waiting."""
    reports = {}
    for entry in dicts_at(work, "status", "manifestConditions"):
        reports[(entry.get("identifier") or {}).get("ordinal", 0)] = entry
    manifests = list_at(work, "spec", "workload", "manifests")
    objects = [_object(ordinal, item, reports.get(ordinal), envelope) for ordinal, item in enumerate(manifests)]
    return sorted(objects, key=lambda item: (_OBJECT_RANK[ObjectState(item["state"])], item["ordinal"]))


def _object(
    ordinal: int, manifest: Mapping[str, Any], entry: Mapping[str, Any] | None, envelope: JsonObject | None
) -> JsonObject:
    group, version = split_api_version(str(manifest.get("apiVersion") or ""))
    meta = metadata_of(manifest)
    identity = {
        "ordinal": ordinal,
        "group": group,
        "version": version,
        "kind": str(manifest.get("kind") or ""),
        "namespace": str(meta.get("namespace") or ""),
        "name": str(meta.get("name") or ""),
    }
    identifier = (entry or {}).get("identifier") or {}
    if entry is None or any(
        identifier.get(key) and identity[key] and identity[key] != identifier[key]
        for key in ("kind", "namespace", "name")
    ):
        entry = {}  # an older generation had another object at this position, and the agent's report is about that one
    state, condition = _object_state({condition.get("type"): condition for condition in entry.get("conditions") or ()})
    reason = str(condition.get("reason") or "")
    quiet = state in (ObjectState.APPLIED, ObjectState.AVAILABLE, ObjectState.SAME)
    return {
        **identity,
        "state": str(state),
        "tracked": reason != _UNTRACKED,
        "reason": reason,
        "message": "" if quiet else str(condition.get("message") or ""),
        "drifts": _details(entry.get("driftDetails"), "observedDrifts"),
        "diffs": _details(entry.get("diffDetails"), "observedDiffs"),
        "envelope": envelope,
    }


def _object_state(conditions: Mapping[Any, Mapping[str, Any]]) -> tuple[ObjectState, Mapping[str, Any]]:
    """Return the state of one object and the condition that decides it."""
    if (diff := conditions.get(DIFF_REPORTED)) is not None:
        if diff.get("status") != TRUE:
            return ObjectState.FAILED, diff
        return (ObjectState.SAME if diff.get("reason") == "NoDiffFound" else ObjectState.DIFFERS), diff
    applied_condition = conditions.get(APPLIED)
    if applied_condition is None or applied_condition.get("reason") == "PreparingToProcess":
        return ObjectState.WAITING, applied_condition or {}
    if applied_condition.get("status") != TRUE:
        return ObjectState.FAILED, applied_condition
    available = conditions.get(AVAILABLE)
    if available is None:
        return ObjectState.APPLIED, applied_condition
    if available.get("status") != TRUE:
        return (ObjectState.FAILED if available.get("reason") == "Failed" else ObjectState.NOT_YET), available
    return (ObjectState.APPLIED if available.get("reason") == _UNTRACKED else ObjectState.AVAILABLE), available


def _details(details: Mapping[str, Any] | None, key: str) -> list[JsonObject]:
    """Return the fields that differ, without their values, which may be long or secret."""
    return [{"path": str(detail.get("path", ""))} for detail in (details or {}).get(key) or ()]
