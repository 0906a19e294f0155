"""With a history of one there is a moment without any snapshot; after a crash in it the index must not start at zero.

If an index were assigned twice, bindings would seem to have content, or a policy, that they do not have.
"""

from datetime import UTC, datetime

from scorer.rollout.snapshots.policies import plan_policy_snapshots
from scorer.rollout.snapshots.resources import UNTHROTTLED, plan_resource_snapshots

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLACEMENT = {
    "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
    "kind": "ClusterResourcePlacement",
    "metadata": {"name": "web-2", "uid": "u", "generation": 1},
    "spec": {"revisionHistoryLimit": 1},
}


def binding(resources, policy):
    spec = {"resourceSnapshotName": resources, "schedulingPolicySnapshotName": policy, "state": "Bound"}
    return {"metadata": {"name": "b"}, "spec": spec}


def test_the_index_of_content_goes_on_from_what_the_bindings_have():
    bindings = [binding("web-2-0-snapshot", ""), binding("web-2-3-snapshot", ""), binding("", "")]
    plan = plan_resource_snapshots(PLACEMENT, [], [], NOW, UNTHROTTLED, bindings=bindings)
    assert (plan.index, plan.name) == (4, "web-2-4-snapshot")


def test_the_index_of_a_policy_goes_on_from_what_the_bindings_have():
    plan = plan_policy_snapshots(PLACEMENT, [], "d", bindings=[binding("", "web-2-7"), binding("", "web-2-x")])
    assert (plan.index, plan.name) == (8, "web-2-8")


def test_a_longer_history_is_lost_by_hand_only_and_its_policy_is_taken_for_the_same():
    """So nothing moves when a user deletes policy snapshots."""
    placement = {**PLACEMENT, "spec": {}}
    assert plan_policy_snapshots(placement, [], "d", bindings=[binding("", "web-2-0")]).index == 0


def test_without_bindings_everything_begins_at_zero():
    assert plan_policy_snapshots(PLACEMENT, [], "d").index == 0
    assert plan_resource_snapshots(PLACEMENT, [], [], NOW).index == 0
