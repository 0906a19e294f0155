"""Effects of a change to the hub on every placement, as one document for users and programs.

The engine schedules every placement as it would after the changes, then the planner rolls it out. Nothing is written.

Source: docs/specifications/what-if.md 1 and 2; docs/specifications/scheduling.md 22.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from typing_extensions import TypedDict

from scorer.api.kinds import EVICTION
from scorer.api.meta import JsonObject, format_time
from scorer.api.names import RESOURCE_HASH
from scorer.api.placement.binding import BindingState
from scorer.api.unstructured.documents import annotation, is_deleting, name_of, namespace_of, spec_of, text_at, uid_of
from scorer.placement.binding_plan import BrokenBindingError
from scorer.placement.explanation import PairOfScores
from scorer.placement.plan_document import DroppedBinding, PlacementDecision, plan_entry
from scorer.placement.record import scheduled_condition
from scorer.placement.schedule import ScheduleResult
from scorer.rollout.bindings import NO_OVERRIDES, Overrides, PendingReason, pending_reason
from scorer.rollout.confirmation.clusters import cluster_item
from scorer.rollout.confirmation.deletion import DeletionVerdict
from scorer.rollout.planner import RollingUpdateBudget
from scorer.rollout.removal.deletion import leaves_objects
from scorer.rollout.snapshots.groups import SnapshotGroup
from scorer.rollout.views.preview import EXTERNAL, PreviewStep, RolloutBlocker, RolloutPreview, preview_rollout
from scorer.rollout.works.plan import WorkProblem
from scorer.staged_update.facts import ClusterWait
from scorer.what_if.changed import Changed, Evicted
from scorer.what_if.changes import apply_changes, binding_states, unchanged
from scorer.what_if.cluster_removals import ClusterContent, cluster_object_removals
from scorer.what_if.content import content_to_roll_out
from scorer.what_if.overrides import overrides_of_placement, work_problems
from scorer.what_if.planned import (
    BlockedRollout,
    ContentRemoval,
    Moves,
    PendingClusterRemoval,
    PlannedEviction,
    PlannedFleet,
    PlannedOutcome,
    PlannedPlacement,
    PlannedRollout,
    RolloutBudget,
    RolloutStep,
    RolloutWait,
)
from scorer.what_if.removals import judged_deletion, placement_removals
from scorer.what_if.runs import run_removals
from scorer.what_if.scheduling import scheduled
from scorer.what_if.state import HubState, HypotheticalChanges, ObjectKey, identity_of

NO_CHANGES: Final = HypotheticalChanges()


class WhatIf(TypedDict):
    """Effects on placements and on the fleet."""

    placements: list[PlannedPlacement]
    outcomes: list[PlannedOutcome]
    fleet: PlannedFleet
    evaluatedAt: str


def what_if(
    state: HubState, changes: HypotheticalChanges = NO_CHANGES, only: Collection[ObjectKey] | None = None
) -> WhatIf:
    """Return the effects on placements and on the fleet.

    Args:
        state: The present hub.
        changes: The hypothetical changes. Without any, the plan shows what happens anyway.
        only: The placements to report. None: unlimited.
    """
    before = unchanged(state)
    changed = apply_changes(state, changes) if changes else before
    old_placements = {identity_of(placement): placement for placement in state.placements}
    new_placements = {identity_of(placement): placement for placement in changed.state.placements}
    entries = [
        _entry(before, changed, old_placements.get(identity), new_placements.get(identity))
        for identity in sorted(
            old_placements.keys() | new_placements.keys(), key=lambda identity: (identity.namespace, identity.name)
        )
        if only is None or identity in only
    ]
    return {
        "placements": entries,
        "outcomes": list(
            _outcomes(changed, {(place.namespace, place.name) for place in old_placements | new_placements})
        ),
        "fleet": changed.fleet,
        "evaluatedAt": format_time(state.now),
    }


def _outcomes(changed: Changed, placements: Collection[tuple[str, str]]) -> Iterator[PlannedOutcome]:
    """Yield the outcomes of evictions that name no placement of the hub."""
    for place, evictions in sorted(changed.evictions.items()):
        for evicted in evictions if place not in placements else ():
            yield {
                "kind": EVICTION.kind,
                "namespace": "",
                "name": evicted.name,
                "reason": str(evicted.eviction.reason),
                "message": evicted.eviction.message,
            }


def _entry(before: Changed, changed: Changed, old: JsonObject | None, new: JsonObject | None) -> PlannedPlacement:
    """Return the effects on one placement. At least one of the two documents is given."""
    subject = new or old
    assert subject is not None
    bindings = binding_states(before.state.bindings_of(subject))
    place = namespace_of(subject), name_of(subject)
    evictions = changed.evictions.get(place, ())
    course = _course(changed, subject, ends=new is None)
    entry = _head(subject, course, changed.state)
    clusters = bindings.keys() if course.broken else course.clusters
    if changed is before:
        preview = course.preview
        changes = clusters != bindings.keys() or bool(preview.steps or preview.pushed)
    else:
        changes = evictions != before.evictions.get(place, ()) or old is None or _differs(before, old, course)
    return {
        **entry,
        "before": [{"cluster": cluster, "score": _recorded_scores(bindings[cluster])} for cluster in sorted(bindings)],
        "moves": _moves(bindings, clusters),
        "rollout": _rollout(course, evictions),
        "changed": changes,
    }


@dataclass(frozen=True, slots=True)
class _Course:
    """Course of one placement.

    Args:
        preview: The rollout.
        run: The decision. None if the placement is deleted or broken.
        snapshot: Name of the resource snapshot that is rolled out.
        content_hash: Hash of its objects.
        broken: Error in a binding, otherwise empty.
        closed: The clusters whose maintenance windows are closed now.
        failures: Why clusters would not get their objects, by cluster.
        removals: Clusters that keep their content although they are dropped.
        content_removals: Objects that leave the placement or some clusters, and all content of a deleted one.
        kept: The clusters of a deleted placement, while the removal of their content waits for confirmation.
    """

    preview: RolloutPreview
    run: ScheduleResult | None = None
    snapshot: str = ""
    content_hash: str = ""
    broken: str = ""
    closed: Mapping[str, ClusterWait] = field(default_factory=dict)
    failures: Mapping[str, WorkProblem] = field(default_factory=dict)
    removals: Sequence[PendingClusterRemoval] = ()
    content_removals: Sequence[ContentRemoval] = ()
    kept: frozenset[str] = frozenset()

    @property
    def clusters(self) -> frozenset[str]:
        """The clusters that the placement will have."""
        if self.run is None:
            return self.kept
        return frozenset(pick.cluster for picks in (self.run.picked, self.run.kept) for pick in picks)

    @property
    def outcome(self) -> tuple[object, ...]:
        """Parts that distinguish one course from another: clusters, rollout and obstacles, without messages."""
        preview, blocker, clusters = self.preview, self.preview.blocked, self.clusters
        return (
            preview.type == _DELETION.type,
            clusters,
            self.run is not None and scheduled_condition(self.run)[0],
            self.snapshot if clusters else "",
            preview.pushed,
            [(step.update, step.bind, step.remove) for step in preview.steps],
            preview.more,
            self.failures.keys(),
            self.removals,
            self.content_removals,
            (blocker.reason, sorted(blocker.clusters)) if blocker else None,
        )


_DELETION: Final = RolloutPreview("Deletion")
NO_SNAPSHOT: Final = "OverrideWithoutSnapshot"
"""Reason of a rollout that is blocked by an override that cannot have snapshots."""


_NO_CONTENT: Final = SnapshotGroup(0, None)
INVALID_SELECTION: Final = "InvalidResourceSelectors"
"""Reason of a rollout that is blocked because the resource selectors are invalid."""


def _course(changed: Changed, subject: JsonObject, *, ends: bool = False) -> _Course:
    """Return the course of *subject*, a placement, which is deleted if *ends*."""
    state = changed.state
    if ends or is_deleting(subject):
        judgement = judged_deletion(subject, changed)
        removals_of_all = placement_removals(subject, judgement, changed)
        kept = frozenset(judgement.clusters) if judgement.verdict is DeletionVerdict.PENDING else frozenset[str]()
        return _Course(_DELETION, content_removals=removals_of_all, kept=kept)
    try:
        schedule = scheduled(state, subject)
    except BrokenBindingError as error:
        blocker = RolloutBlocker((), "BrokenBinding", str(error))
        return _Course(RolloutPreview("RollingUpdate", blocked=blocker), broken=str(error))
    run, bindings = schedule.run, schedule.bindings
    clusters = [text_at(spec_of(binding), "targetCluster") for binding in bindings]
    content = content_to_roll_out(subject, bindings, changed)
    group = content.group or _NO_CONTENT
    snapshot = f"{name_of(subject)}-{group.index + 1}-snapshot" if content.uncertain else group.name
    closed, removals = _closed_clusters(state, clusters), _pending_removals(subject, bindings)
    overrides = None
    if changed.overrides_known:
        overrides = overrides_of_placement(state, subject, group, clusters)
    outdated = [binding for binding in bindings if _is_outdated(binding, snapshot, overrides)]
    failures = work_problems(state, outdated, group, overrides or {})
    preview = preview_rollout(
        subject,
        bindings,
        snapshot,
        state.now,
        overrides=overrides,
        failing_clusters=failures,
        held_clusters=closed,
        released=schedule.drops.released,
    )
    if content.waits and preview.type != EXTERNAL:
        preview = RolloutPreview(preview.type, preview.limits, blocked=RolloutBlocker((), NO_SNAPSHOT, content.waits))
    elif content.problem and preview.blocked is None:
        preview = replace(preview, blocked=RolloutBlocker((), INVALID_SELECTION, content.problem))
    leaving = content.removals
    if overrides is not None and content.group is not None and preview.type != EXTERNAL and not content.waits:
        changing = [binding for binding in bindings if text_at(spec_of(binding), "targetCluster") not in failures]
        on_clusters = ClusterContent(content.snapshots, content.group, overrides)
        leaving = [*leaving, *cluster_object_removals(subject, changing, on_clusters, changed)]
    elif preview.type == EXTERNAL:
        leaving = [*leaving, *run_removals(subject, changed)]
    return _Course(
        preview,
        run,
        snapshot,
        annotation(group.master or {}, RESOURCE_HASH),
        closed=closed,
        failures=failures,
        removals=removals,
        content_removals=leaving,
    )


def _pending_removals(placement: JsonObject, bindings: Iterable[JsonObject]) -> list[PendingClusterRemoval]:
    """Return the dropped clusters whose content is not removed yet, by cluster."""
    removals: list[PendingClusterRemoval] = [
        {
            "cluster": text_at(spec_of(binding), "targetCluster"),
            "reason": str(reason),
            "message": reason.describe(),
            "digest": cluster_item(binding).digest(uid_of(placement)) if reason is PendingReason.CONFIRMATION else "",
        }
        for binding in bindings
        if (reason := pending_reason(binding)) is not None and not is_deleting(binding)
    ]
    return sorted(removals, key=lambda removal: removal["cluster"])


def _is_outdated(binding: JsonObject, snapshot: str, overrides: Mapping[str, Overrides] | None) -> bool:
    """Return whether a binding would get another snapshot or other overrides."""
    spec = spec_of(binding)
    if spec.get("state") == BindingState.UNSCHEDULED or is_deleting(binding):
        return False
    if spec.get("resourceSnapshotName") != snapshot:
        return True
    return overrides is not None and Overrides.of(spec) != overrides.get(text_at(spec, "targetCluster"), NO_OVERRIDES)


def _closed_clusters(state: HubState, clusters: Iterable[str]) -> Mapping[str, ClusterWait]:
    """Return the clusters whose maintenance windows are closed now."""
    return {cluster: wait for cluster in clusters if (wait := state.waits(cluster, state.now)) is not None}


def _differs(before: Changed, old: JsonObject, course: _Course) -> bool:
    """Return whether the changes affect the clusters, the rollout or its obstacles.

    A different message is no difference: it may be about clusters that the placement never had.
    """
    return _course(before, old).outcome != course.outcome


def _head(placement: JsonObject, course: _Course, state: HubState) -> PlacementDecision:
    """Return the scheduler's part of the entry of a placement."""
    if course.run is not None:
        return plan_entry(placement, course.run)
    return (
        _broken_entry(placement, course.broken)
        if course.broken
        else _deletion_entry(placement, state.bindings_of(placement), course)
    )


def _moves(old_clusters: Mapping[str, Any], new_clusters: Collection[str]) -> Moves:
    new_clusters = frozenset(new_clusters)
    return {
        "gained": sorted(new_clusters - old_clusters.keys()),
        "lost": sorted(old_clusters.keys() - new_clusters),
        "stays": sorted(new_clusters & old_clusters.keys()),
    }


def _recorded_scores(binding: Mapping[str, Any]) -> PairOfScores | None:
    score = (spec_of(binding).get("clusterDecision") or {}).get("clusterScore")
    if score is None:
        return None
    return {"topologySpread": score.get("priorityScore") or 0, "affinity": score.get("affinityScore") or 0}


def _deletion_entry(placement: JsonObject, bindings: Sequence[JsonObject], course: _Course) -> PlacementDecision:
    """Return the entry of a placement that is deleted. Clusters whose content is kept are not dropped."""
    policy = spec_of(placement).get("policy") or {}
    drops: list[DroppedBinding] = [
        {"cluster": spec_of(binding).get("targetCluster") or "", "binding": name_of(binding)}
        for binding in bindings
        if spec_of(binding).get("targetCluster") not in course.kept
    ]
    return {
        "name": name_of(placement),
        "namespace": namespace_of(placement),
        "type": str(policy.get("placementType") or "PickAll"),
        "wanted": 0,
        "picked": [],
        "notPicked": [],
        "filtered": [],
        "dropped": sorted(drops, key=lambda drop: (drop["cluster"], drop["binding"])),
        "satisfied": True,
        "message": _deletion_message(placement, course),
    }


def _deletion_message(placement: JsonObject, course: _Course) -> str:
    if course.kept:
        return "the placement is deleted, and its content remains until the removal is confirmed"
    if leaves_objects(placement) or any(removal["verdict"] == "Orphaned" for removal in course.content_removals):
        return "the placement is deleted, and its content remains"
    return "the placement is deleted, and its content is removed immediately"


def _broken_entry(placement: JsonObject, message: str) -> PlacementDecision:
    """Return the entry of a placement that the scheduler cannot process until a user repairs its bindings."""
    return {
        **_deletion_entry(placement, (), _Course(_DELETION)),
        "wanted": None,
        "satisfied": False,
        "message": message,
    }


def _rollout(course: _Course, evictions: Sequence[Evicted]) -> PlannedRollout:
    preview = course.preview
    limits = preview.limits
    return {
        "type": preview.type,
        "snapshot": "" if preview.type == EXTERNAL else course.snapshot,
        "contentHash": "" if preview.type == EXTERNAL else course.content_hash,
        "maxUnavailable": limits.max_unavailable if limits else None,
        "maxSurge": limits.max_surge if limits else None,
        "evictions": [_eviction(eviction) for eviction in evictions],
        "applyStrategy": list(preview.pushed),
        "waits": [_wait(cluster, course.closed[cluster]) for cluster in preview.held],
        "steps": [_step(number, step) for number, step in enumerate(preview.steps, start=1)],
        "more": preview.more,
        "failures": [
            {"cluster": cluster, "reason": str(problem.cause), "message": problem.message}
            for cluster, problem in sorted(course.failures.items())
        ],
        "removals": list(course.removals),
        "contentRemovals": list(course.content_removals),
        "blocked": _blocker_entry(preview.blocked) if preview.blocked else None,
    }


def _wait(cluster: str, wait: ClusterWait) -> RolloutWait:
    until = None if wait.until is None else format_time(wait.until)
    return {"cluster": cluster, "until": until, "message": wait.message}


def _eviction(evicted_binding: Evicted) -> PlannedEviction:
    eviction = evicted_binding.eviction
    return {
        "name": evicted_binding.name,
        "cluster": evicted_binding.cluster,
        "executed": eviction.executed,
        "reason": str(eviction.reason),
        "message": eviction.message,
        "budget": eviction.budget,
    }


def _step(number: int, step: PreviewStep) -> RolloutStep:
    return {
        "step": number,
        "update": list(step.update),
        "bind": list(step.bind),
        "remove": list(step.remove),
        "waiting": list(step.waiting),
        "budget": _budget(step.budget),
    }


def _blocker_entry(blocker: RolloutBlocker) -> BlockedRollout:
    return {
        "clusters": list(blocker.clusters),
        "reason": blocker.reason,
        "message": blocker.message,
        "budget": _budget(blocker.budget) if blocker.budget else None,
    }


def _budget(budget: RollingUpdateBudget) -> RolloutBudget:
    return {
        "target": budget.target,
        "ready": budget.ready,
        "canBeReady": budget.can_be_ready,
        "mayVanish": budget.may_vanish,
        "maxToRemove": budget.max_to_remove,
        "maxToAdd": budget.max_to_add,
    }
