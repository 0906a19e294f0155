"""The record of a run in the status of the policy snapshot: decisions and the Scheduled condition.

Source: docs/specifications/scheduling.md 17.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from scorer.api.conditions import FALSE, TRUE, ConditionStatus, make_condition, merge_conditions
from scorer.api.meta import JsonObject
from scorer.api.placement.placement import PlacementType
from scorer.api.unstructured.documents import status_of
from scorer.api.values.quoting import format_count
from scorer.framework.status import Category, FilterRejection
from scorer.placement.holdings import Binding
from scorer.placement.schedule import ScheduleResult, Scored

MOST_DECISIONS = 1000
MOST_UNSELECTED = 20
MOST_TOLD = 12
"""Maximum number of clusters that a message names."""

FULFILLED = "SchedulingPolicyFulfilled"
UNFULFILLED = "SchedulingPolicyUnfulfilled"
INVALID = "SchedulingPolicyInvalid"


def decisions(schedule: ScheduleResult) -> list[JsonObject]:
    """Return ``status.targetClusters``: selected clusters, then losers by rank, then rejected ones by name.

    A PickFixed policy has no losers: its selected clusters are followed by the listed clusters that could not be
    picked. The number of entries is limited.
    """
    selected = [picked_decision(schedule, pick) for pick in schedule.picked] + [
        _kept_decision(binding) for binding in schedule.kept
    ]
    selected = selected[:MOST_DECISIONS]
    names = {decision["clusterName"] for decision in selected}
    others = (decision for decision in _unselected_decisions(schedule) if decision["clusterName"] not in names)
    room = MOST_DECISIONS - len(selected)
    if not schedule.missed:
        room = min(room, MOST_UNSELECTED)
    return [*selected, *islice(others, room)]


def picked_decision(schedule: ScheduleResult, pick: Scored) -> JsonObject:
    """Return the decision for a cluster that this run selects. Its binding carries a copy."""
    if schedule.request and schedule.request.policy.placement_type is PlacementType.PICK_FIXED:
        return _selected_decision(pick.cluster, None, None)
    return _selected_decision(pick.cluster, pick.topology, pick.affinity)


def _kept_decision(binding: Binding) -> JsonObject:
    """Return the decision for a kept cluster, with the scores from the time it was picked."""
    return _selected_decision(binding.cluster, binding.topology, binding.affinity)


def _selected_decision(cluster: str, topology: int | None, affinity: int | None) -> JsonObject:
    """Return a positive decision. The text of a new decision equals that of a later run that keeps the cluster."""
    if topology is None and affinity is None:
        return {"clusterName": cluster, "selected": True, "reason": f"Scheduled to {cluster}"}
    topology, affinity = topology or 0, affinity or 0
    return {
        "clusterName": cluster,
        "selected": True,
        "clusterScore": {"affinityScore": affinity, "priorityScore": topology},
        "reason": f"Scheduled to {cluster}, affinity score {affinity}, topology spread score {topology}",
    }


def _unselected_decisions(schedule: ScheduleResult) -> Iterator[JsonObject]:
    for name, rejection in schedule.missed:
        yield _rejected_decision(name, rejection)
    if schedule.last is None:
        return
    for loser in schedule.last.unselected(MOST_UNSELECTED):
        yield {
            "clusterName": loser.cluster,
            "selected": False,
            "clusterScore": {"affinityScore": loser.affinity, "priorityScore": loser.topology},
            "reason": f"{Category.SCORE_TOO_LOW}: {loser.cluster} did not score high enough"
            f" (affinity {loser.affinity}, topology spread {loser.topology})",
        }
    for row in schedule.last.rejected_rows():
        if (reason := schedule.last.reject(int(row))) is not None:
            yield _rejected_decision(schedule.fleet.names[row], reason)


def _rejected_decision(name: str, rejection: FilterRejection) -> JsonObject:
    return {"clusterName": name, "selected": False, "reason": str(rejection)}


def reason_category(decision: Mapping[str, Any]) -> str:
    """Return the category at the start of an unselected decision's reason."""
    return str(decision.get("reason", "")).partition(":")[0]


def scheduled_condition(schedule: ScheduleResult) -> tuple[ConditionStatus, str, str]:
    """Return status, reason and message of the snapshot's ``Scheduled`` condition."""
    if schedule.invalid:
        count = schedule.selected_count
        suffix = f". The placement keeps {format_count(count, 'cluster')}" if count else ""
        return FALSE, INVALID, f"the policy cannot be evaluated: {schedule.invalid}{suffix}"
    if schedule.satisfied:
        return TRUE, FULFILLED, f"found all clusters needed: {_clusters(schedule.selected_count)}"
    assert schedule.request is not None
    desired, counts = schedule.request.wanted or 0, unselected_counts(schedule)
    evaluated_count = desired if schedule.missed else len(schedule.fleet)  # PickFixed judges the listed names only
    reason = ", ".join(f"{count} {category}" for category, count in counts.items())
    unfit_count = sum(counts.values())
    verb = "does" if unfit_count == 1 else "do"
    turned_away = f"; {unfit_count} of {evaluated_count} {verb} not qualify: {reason}" if counts else ""
    return FALSE, UNFULFILLED, f"found {schedule.selected_count} of {_clusters(desired)} needed{turned_away}"


def decision_text(schedule: ScheduleResult) -> str:
    """Return a message about the clusters that a run adds and drops, and the resulting condition. Empty: no changes."""
    old_clusters = {binding.cluster for binding in (*schedule.holdings.obsolete, *schedule.holdings.taken)}
    new_picks = [pick for pick in schedule.picked if pick.cluster not in old_clusters]
    dropped_clusters = sorted(binding.cluster for binding in schedule.dropped)
    if not new_picks and not dropped_clusters:
        return ""
    has_scores = schedule.request is None or schedule.request.policy.placement_type is not PlacementType.PICK_FIXED
    moves = (
        [f"picked {_name_list([_scores_text(pick) if has_scores else pick.cluster for pick in new_picks])}"]
        if new_picks
        else []
    )
    moves += [f"dropped {_name_list(dropped_clusters)}"] if dropped_clusters else []
    return f"{'; '.join(moves)}; {scheduled_condition(schedule)[2]}"


def _scores_text(pick: Scored) -> str:
    scores = f"affinity {pick.affinity}" if pick.affinity else ""
    scores += (", " if scores and pick.topology else "") + (f"spread {pick.topology}" if pick.topology else "")
    return f"{pick.cluster} ({scores})" if scores else pick.cluster


def _name_list(names: list[str]) -> str:
    more = f" and {len(names) - MOST_TOLD} more" if len(names) > MOST_TOLD else ""
    return ", ".join(names[:MOST_TOLD]) + more


def unselected_counts(schedule: ScheduleResult) -> dict[str, int]:
    """Return the number of unselected clusters in each category, most frequent first."""
    counts: dict[str, int] = {}
    for _, rejection in schedule.missed:
        counts[rejection.category] = counts.get(rejection.category, 0) + 1
    if schedule.last is not None:
        counts = {str(category): count for category, count in schedule.last.categories().items()}
        if losers := schedule.last.candidates.rows.size - schedule.last.picked:
            counts[Category.SCORE_TOO_LOW] = losers
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def _clusters(count: int) -> str:
    return f"{count} cluster" if count == 1 else f"{count} clusters"


def snapshot_status(
    run: ScheduleResult, snapshot: Mapping[str, Any], placement_generation: int, now: datetime
) -> JsonObject:
    """Return the whole ``status`` of the policy snapshot after *run*.

    If only the order of decisions differs, the stored status is returned. If N was met before the run, the earlier
    record of the clusters that were not picked is kept, so that a second run writes nothing.

    Args:
        run: The decision.
        snapshot: The policy snapshot as stored.
        placement_generation: Generation of the placement that the snapshot was made for, from its annotation.
        now: Transition time of conditions that change.
    """
    old: JsonObject = dict(status_of(snapshot))
    status, reason, message = scheduled_condition(run)
    generation = snapshot["metadata"].get("generation", 0)
    condition = make_condition("Scheduled", status, reason, message, generation=generation, now=now)
    old_conditions = old.get("conditions") or []
    conditions = [
        *merge_conditions(old_conditions, [condition]),
        *(entry for entry in old_conditions if entry.get("type") != "Scheduled"),
    ]
    targets = decisions(run)
    if run.changes_nothing and _names(targets) == _names(old.get("targetClusters") or ()):
        targets = old.get("targetClusters") or []
    desired = {"observedCRPGeneration": placement_generation, "conditions": conditions, "targetClusters": targets}
    return old if _as_sets(old) == _as_sets(desired) else {**old, **desired}


def _names(entries: Iterable[Mapping[str, Any]]) -> set[str]:
    return {entry["clusterName"] for entry in entries if entry["selected"]}


def _as_sets(status: Mapping[str, Any]) -> tuple[object, object, object]:
    by_name = {decision["clusterName"]: decision for decision in status.get("targetClusters") or ()}
    return status.get("observedCRPGeneration"), status.get("conditions"), by_name
