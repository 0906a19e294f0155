"""Hypothetical scheduling of a placement: the decision, and the resulting bindings and policy snapshots."""

from collections.abc import Sequence
from dataclasses import dataclass

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import generation_of, name_of, spec_of, with_spec
from scorer.placement.binding_plan import Drops, plan_bindings
from scorer.placement.plan_document import decide
from scorer.placement.policy_hash import policy_hash, policy_in_force
from scorer.placement.record import snapshot_status
from scorer.placement.schedule import ScheduleResult
from scorer.rollout.confirmation.dropped_bindings import ClusterChanges, DropFacts, DropJudgement, judge_drops
from scorer.rollout.snapshots.policies import plan_policy_snapshots
from scorer.rollout.writes import applied
from scorer.what_if.state import HubState


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A placement that has been scheduled.

    Args:
        run: The decision.
        bindings: The resulting bindings.
        policy_snapshots: The resulting policy snapshots. The latest one has the decision.
        drops: The verdict on the clusters that lose the placement.
    """

    run: ScheduleResult
    bindings: Sequence[JsonObject]
    policy_snapshots: Sequence[JsonObject]
    drops: DropJudgement


def scheduled(state: HubState, placement: JsonObject) -> Scheduled:
    """Schedule a placement.

    Raises:
        scorer.placement.binding_plan.BrokenBindingError: A binding contradicts itself.
    """
    bindings, snapshots = list(state.bindings_of(placement)), list(state.policy_snapshots_of(placement))
    run = decide(placement, state.fleet, bindings, snapshots, state.now)
    digest = policy_hash(spec_of(placement).get("policy"))
    policy = plan_policy_snapshots(placement, snapshots, digest, in_force=policy_in_force(placement, snapshots))
    policy_documents = applied(snapshots, policy.writes)
    judged = _judged_drops(state, placement, run, policy.name, policy_documents, bindings)
    drops = Drops(state.now, judged.marks, judged.replacing)
    plan = plan_bindings(run, placement, policy.name, bindings, {}, drops=drops)
    updates = {name_of(document): document for document in (*judged.changed, *plan.replace)}
    new_bindings = [*(updates.get(name_of(binding), binding) for binding in bindings), *plan.create]
    if not snapshots:  # every binding counts as made under the present policy
        new_bindings = [_with_policy_snapshot(policy.name, document) for document in new_bindings]
    policy_snapshots = [
        {**document, "status": snapshot_status(run, document, generation_of(placement), state.now)}
        if name_of(document) == policy.name
        else document
        for document in policy_documents
    ]
    return Scheduled(run, new_bindings, policy_snapshots, judged)


def _judged_drops(
    state: HubState,
    placement: JsonObject,
    run: ScheduleResult,
    snapshot: str,
    snapshots: Sequence[JsonObject],
    bindings: Sequence[JsonObject],
) -> DropJudgement:
    """Return which dropped clusters lose their content now, and which wait for confirmation."""
    (latest,) = (document for document in snapshots if name_of(document) == snapshot)
    facts = DropFacts(placement, state.removal, latest, snapshots, lambda name: _is_member(state, name), state.now)
    changes = ClusterChanges(run.picked_clusters, run.new_clusters, run.held_bindings, run.dropped_with_content)
    return judge_drops(facts, changes, bindings)


def _is_member(state: HubState, name: str) -> bool:
    member = state.fleet.member(name)
    return member is not None and member.metadata.deletion_timestamp is None


def _with_policy_snapshot(policy_snapshot: str, binding: JsonObject) -> JsonObject:
    return with_spec(binding, schedulingPolicySnapshotName=policy_snapshot)
