"""What would happen to every placement if a hub were changed, as one document for people and machines.

Every placement is scheduled by the engine as it would be after the changes, then rolled out by the planner. Nothing is
written anywhere.

Source: scheduling.md 14 and 22, property 10; design of the command line, ``harbormaster plan -o json``.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scorer.api.meta import JsonObject, format_time
from scorer.placement.binding_plan import BrokenBindingError, plan_bindings
from scorer.placement.plan_document import decide, plan_entry
from scorer.placement.policy_hash import policy_hash
from scorer.placement.record import scheduled_condition
from scorer.placement.schedule import Schedule
from scorer.rollout.documents import is_deleting, name_of, namespace_of, spec_of
from scorer.rollout.planner import Budget
from scorer.rollout.policy_snapshots import plan_policy_snapshots
from scorer.rollout.preview import EXTERNAL, Blocked, RolloutPreview, Step, preview_rollout
from scorer.what_if.changes import Changed, Evicted, apply_changes, binding_states
from scorer.what_if.content import snapshot_to_roll_out
from scorer.what_if.state import Changes, HubState, Identity, identity_of

NO_CHANGES: Final = Changes()


def what_if(state: HubState, changes: Changes = NO_CHANGES, only: Collection[Identity] | None = None) -> JsonObject:
    """Return ``{"placements", "fleet", "evaluatedAt"}``.

    Args:
        state: The hub as it is.
        changes: What is done to it in thought; without any, the plan is what would happen anyway.
        only: The placements to tell about; None: all.
    """
    changed = apply_changes(state, changes)
    before = {identity_of(placement): placement for placement in state.placements}
    after = {identity_of(placement): placement for placement in changed.state.placements}
    entries = [
        _entry(state, changed, before.get(identity), after.get(identity), anyway=not changes)
        for identity in sorted(before.keys() | after.keys(), key=lambda each: (each.namespace, each.name))
        if only is None or identity in only
    ]
    return {"placements": entries, "fleet": changed.fleet, "evaluatedAt": format_time(state.now)}


def changes_anything(plan: Mapping[str, Any]) -> bool:
    """Say whether any placement of *plan* changes."""
    return any(entry["changed"] for entry in plan["placements"])


def _entry(
    state: HubState, changed: Changed, before: JsonObject | None, after: JsonObject | None, *, anyway: bool
) -> JsonObject:
    """Return what would happen to one placement; one of the two documents is there."""
    subject = after or before
    assert subject is not None
    held = binding_states(state.bindings_of(subject))
    evicted = changed.evictions.get((namespace_of(subject), name_of(subject)), ())
    decided: _Decided | None = None
    if after is None or is_deleting(after):
        entry, preview, snapshot = _ending(subject, changed.state.bindings_of(subject)), _DELETION, ""
    else:
        try:
            decided = _decide(changed, after, before)
        except BrokenBindingError as error:
            return _broken(subject, held, str(error))
        entry, snapshot = plan_entry(after, decided.run), decided.snapshot
        preview = preview_rollout(after, decided.bindings, snapshot, state.now)
    moves = _moves(held, entry)
    if anyway:
        changes = bool(moves["gained"] or moves["lost"] or preview.steps or preview.pushed)
    else:
        edited = before is None or after is None or spec_of(before) != spec_of(after)
        changes = edited or bool(evicted) or _differs(state, before, decided)
    return {
        **entry,
        "before": [{"cluster": cluster, "score": _recorded(held[cluster])} for cluster in sorted(held)],
        "moves": moves,
        "rollout": _rollout(preview, snapshot, evicted),
        "changed": changes,
    }


_DELETION: Final = RolloutPreview("Deletion")


@dataclass(frozen=True, slots=True)
class _Decided:
    """What the scheduler makes of one placement.

    Args:
        run: The decision.
        bindings: As they are then.
        snapshot: Name of the resource snapshot that is rolled out to them.
    """

    run: Schedule
    bindings: Sequence[JsonObject]
    snapshot: str

    @property
    def outcome(self) -> tuple[Any, ...]:
        """What tells one decision from another; why others were not picked matters to who did not get all."""
        return (self.snapshot, *scheduled_condition(self.run))


def _decide(changed: Changed, placement: JsonObject, before: JsonObject | None) -> _Decided:
    """Schedule a placement.

    Raises:
        BrokenBindingError: A binding contradicts itself.
    """
    state = changed.state
    run, bindings = _schedule(state, placement)
    snapshots = state.resource_snapshots_of(placement)
    snapshot = snapshot_to_roll_out(placement, before, snapshots, bindings, changed.content)
    return _Decided(run, bindings if snapshots else _as_rolled_out(bindings, snapshot), snapshot)


def _differs(state: HubState, before: JsonObject | None, after: _Decided | None) -> bool:
    """Say whether without the changes it would come otherwise: other clusters, other reasons, another rollout."""
    if before is None or is_deleting(before):
        return after is not None
    try:
        decided = _decide(Changed(state, {}, {}, {}), before, before)
    except BrokenBindingError:
        return after is not None
    return after is None or decided.outcome != after.outcome or decided.bindings != after.bindings


def _schedule(state: HubState, placement: JsonObject) -> tuple[Schedule, list[JsonObject]]:
    """Return the decision, and the bindings as the scheduler leaves them.

    Raises:
        BrokenBindingError: A binding contradicts itself.
    """
    bindings, snapshots = list(state.bindings_of(placement)), list(state.policy_snapshots_of(placement))
    run = decide(placement, state.fleet, bindings, snapshots, state.now)
    policy = plan_policy_snapshots(placement, snapshots, policy_hash(spec_of(placement).get("policy")))
    plan = plan_bindings(run, placement, policy.name, bindings, {}, lambda: "00000000")
    written = {name_of(document): document for document in plan.replace}
    return run, [*(written.get(name_of(each), each) for each in bindings), *plan.create]


def _as_rolled_out(bindings: Sequence[JsonObject], snapshot: str) -> list[JsonObject]:
    """Return *bindings* with those that are on any resource snapshot on the one that counts as the latest."""
    return [
        {**each, "spec": {**each["spec"], "resourceSnapshotName": snapshot}}
        if each["spec"].get("resourceSnapshotName")
        else each
        for each in bindings
    ]


def _moves(held: Mapping[str, Any], entry: Mapping[str, Any]) -> JsonObject:
    then = {pick["cluster"] for pick in entry["picked"]}
    return {
        "gained": sorted(then - held.keys()),
        "lost": sorted(held.keys() - then),
        "stays": sorted(then & held.keys()),
    }


def _recorded(binding: Mapping[str, Any]) -> JsonObject | None:
    score = (spec_of(binding).get("clusterDecision") or {}).get("clusterScore")
    if score is None:
        return None
    return {"topologySpread": score.get("priorityScore") or 0, "affinity": score.get("affinityScore") or 0}


def _ending(placement: JsonObject, bindings: Sequence[JsonObject]) -> JsonObject:
    """Return the entry of a placement that is deleted: everything goes at once."""
    policy = spec_of(placement).get("policy") or {}
    dropped = [
        {"cluster": spec_of(binding).get("targetCluster") or "", "binding": name_of(binding)} for binding in bindings
    ]
    return {
        "name": name_of(placement),
        "namespace": namespace_of(placement),
        "type": str(policy.get("placementType") or "PickAll"),
        "wanted": 0,
        "picked": [],
        "notPicked": [],
        "filtered": [],
        "dropped": sorted(dropped, key=lambda each: (each["cluster"], each["binding"])),
        "satisfied": True,
        "message": "the placement is deleted, and what it has placed goes at once",
    }


def _broken(placement: JsonObject, held: Mapping[str, Any], message: str) -> JsonObject:
    """Return the entry of a placement that the scheduler stops at, until somebody puts its bindings right."""
    return {
        **_ending(placement, ()),
        "wanted": None,
        "satisfied": False,
        "message": message,
        "before": [{"cluster": cluster, "score": _recorded(held[cluster])} for cluster in sorted(held)],
        "moves": {"gained": [], "lost": [], "stays": sorted(held)},
        "rollout": _rollout(RolloutPreview("RollingUpdate", blocked=Blocked((), "BrokenBinding", message)), "", ()),
        "changed": False,
    }


def _rollout(preview: RolloutPreview, snapshot: str, evicted: Sequence[Evicted]) -> JsonObject:
    limits = preview.limits
    return {
        "type": preview.type,
        "snapshot": "" if preview.type == EXTERNAL else snapshot,
        "maxUnavailable": limits.max_unavailable if limits else None,
        "maxSurge": limits.max_surge if limits else None,
        "evictions": [_eviction(each) for each in evicted],
        "applyStrategy": list(preview.pushed),
        "steps": [_step(number, step) for number, step in enumerate(preview.steps, start=1)],
        "more": preview.more,
        "blocked": _blocked(preview.blocked) if preview.blocked else None,
    }


def _eviction(each: Evicted) -> JsonObject:
    eviction = each.eviction
    return {
        "cluster": each.cluster,
        "executed": eviction.executed,
        "reason": str(eviction.reason),
        "message": eviction.message,
        "budget": eviction.budget,
    }


def _step(number: int, step: Step) -> JsonObject:
    return {
        "step": number,
        "update": list(step.update),
        "bind": list(step.bind),
        "remove": list(step.remove),
        "waiting": list(step.waiting),
        "budget": _budget(step.budget),
    }


def _blocked(blocked: Blocked) -> JsonObject:
    return {
        "clusters": list(blocked.clusters),
        "reason": blocked.reason,
        "message": blocked.message,
        "budget": _budget(blocked.budget) if blocked.budget else None,
    }


def _budget(budget: Budget) -> JsonObject:
    return {
        "target": budget.target,
        "ready": budget.ready,
        "canBeReady": budget.can_be_ready,
        "mayVanish": budget.may_vanish,
        "maxToRemove": budget.max_to_remove,
        "maxToAdd": budget.max_to_add,
    }
