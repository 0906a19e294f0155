"""Which writes of users are actions, and how they are worded."""

import copy

import pytest

from scorer.api.names import CONFIRM_REMOVAL, REJECTED, REMOVAL_CONFIRMATION, ROLLBACK_OF
from webhook.history.actions import AcceptedWrite, ActionReason
from webhook.history.entry import InvolvedObject

PLACEMENT_API = "placement.kubernetes-fleet.io/v1"
CLUSTER_API = "cluster.kubernetes-fleet.io/v1"
FIRST, SECOND = "0" * 20, "1" * 20


def placement(annotations=None, *, deleting=False, **spec):
    metadata = {"name": "web", "annotations": annotations or {}}
    if deleting:
        metadata["deletionTimestamp"] = "2026-03-02T08:00:00Z"
    policy = {"placementType": "PickN", "numberOfClusters": 3}
    made = {"resourceSelectors": [{"kind": "Namespace", "name": "web"}], "policy": policy} | spec
    return {"apiVersion": PLACEMENT_API, "kind": "ClusterResourcePlacement", "metadata": metadata, "spec": made}


def run(state, annotations=None, namespace=""):
    metadata = {"name": "web-1", "annotations": annotations or {}}
    if namespace:
        metadata["namespace"] = namespace
    spec = {"placementName": "web", "stagedRolloutStrategyName": "waves", "state": state}
    kind = "StagedUpdateRun" if namespace else "ClusterStagedUpdateRun"
    return {"apiVersion": PLACEMENT_API, "kind": kind, "metadata": metadata, "spec": spec}


def approval(*conditions, generation=1):
    return {
        "apiVersion": PLACEMENT_API,
        "kind": "ApprovalRequest",
        "metadata": {"name": "web-1-after-canary", "namespace": "shop", "generation": generation},
        "spec": {"parentStageRollout": "web-1", "targetStage": "canary"},
        "status": {"conditions": list(conditions)},
    }


def approved(status="True", message="looks good", generation=1):
    return {"type": "Approved", "status": status, "message": message, "observedGeneration": generation}


def upgrade(state, **spec):
    made = {"state": state, "upgrade": {"type": "Full", "kubernetesVersion": "1.31.2"}} | spec
    return {
        "apiVersion": "upgrade.harbormaster.dev/v1alpha1",
        "kind": "ClusterUpgradeRun",
        "metadata": {"name": "k-1-31"},
        "spec": made,
    }


def member(*taints, deleting=False):
    metadata = {"name": "east"} | ({"deletionTimestamp": "2026-03-02T08:00:00Z"} if deleting else {})
    spec = {"identity": {"kind": "User", "name": "east"}, "taints": list(taints)}
    return {"apiVersion": CLUSTER_API, "kind": "MemberCluster", "metadata": metadata, "spec": spec}


def taint(key="cordon-key", value="cordon-value"):
    return {"key": key, "value": value, "effect": "NoSchedule"}


def gate(*conditions):
    return {
        "apiVersion": "upgrade.harbormaster.dev/v1alpha1",
        "kind": "ClusterUpgradeGate",
        "metadata": {"name": "k-1-31-canary"},
        "spec": {"runName": "k-1-31", "stage": "canary"},
        "status": {"conditions": list(conditions)},
    }


def seen(new, old=None, subresource=""):
    return [(each.reason, each.message) for each in AcceptedWrite(new, old, subresource).actions()]


def policy(number):
    return {"placementType": "PickN", "numberOfClusters": number}


@pytest.mark.parametrize(
    ("new", "old", "reason", "message"),
    [
        pytest.param(placement(), None, "PlacementCreated", "created: PickN 3", id="created"),
        pytest.param(
            placement(policy=policy(5)),
            placement(),
            "PlacementChanged",
            "changed policy.numberOfClusters from 3 to 5",
            id="another-number",
        ),
        pytest.param(
            placement(resourceSelectors=[]), placement(), "PlacementChanged", "changed resourceSelectors", id="a-list"
        ),
        pytest.param(
            placement(policy=None, strategy={"type": "External"}, resourceSelectors=[], revisionHistoryLimit=3),
            placement(),
            "PlacementChanged",
            "changed policy, resourceSelectors, revisionHistoryLimit from unset to 3, and more",
            id="many-fields",
        ),
        pytest.param(None, placement(), "PlacementDeleted", "deleted", id="deleted"),
        pytest.param(
            placement(deleting=True, strategy={"deleteStrategy": {"propagationPolicy": "Abandon"}}),
            placement(deleting=True),
            "ContentAbandoned",
            "leaves its content on the members, unmanaged",
            id="abandoned",
        ),
        pytest.param(
            placement({CONFIRM_REMOVAL: f"{FIRST},{SECOND}@2026-03-03T08:00:00Z"}),
            placement({CONFIRM_REMOVAL: f"{FIRST}@2026-03-03T08:00:00Z"}),
            "RemovalConfirmed",
            f"confirmed the removal {SECOND} until 2026-03-03T08:00:00Z",
            id="one-more-removal-confirmed",
        ),
        pytest.param(
            placement({REMOVAL_CONFIRMATION: "Off"}),
            placement(),
            "ConfirmationChanged",
            'set the confirmation of removals to "Off"',
            id="confirmation-switched-off",
        ),
        pytest.param(run("Run"), None, "RunStarted", "started: placement web, strategy waves", id="run-started-as-new"),
        pytest.param(run("Initialize"), None, "RunCreated", "created: placement web, strategy waves", id="run-created"),
        pytest.param(
            run("Run"), run("Initialize"), "RunStarted", "started: placement web, strategy waves", id="run-started"
        ),
        pytest.param(run("Stop"), run("Run"), "RunStopped", "stopped", id="run-stopped"),
        pytest.param(run("Run"), run("Stop"), "RunResumed", "resumed", id="run-resumed"),
        pytest.param(None, run("Stop"), "RunDeleted", "deleted", id="run-deleted"),
        pytest.param(
            upgrade("Run", restartToken="b"), upgrade("Run", restartToken="a"), "RunResumed", "resumed", id="restarted"
        ),
        pytest.param(upgrade("Run"), None, "RunStarted", "started: upgrade Full to 1.31.2", id="upgrade-started"),
        pytest.param(
            upgrade("Run", skipTargets=[{"type": "Member", "name": "a"}, {"type": "Group", "name": "b"}]),
            upgrade("Run", skipTargets=[{"type": "Member", "name": "a"}]),
            "RunPartsSkipped",
            "skipped Group b",
            id="skipped",
        ),
        pytest.param(member(), None, "MemberCreated", "created", id="member-created"),
        pytest.param(member(taint()), None, "MemberCreated", "created, cordoned", id="member-created-cordoned"),
        pytest.param(
            member(taint("dock"), taint()), member(taint("dock")), "MemberCordoned", "cordoned", id="cordoned"
        ),
        pytest.param(member(), member(taint(value="by-hand")), "MemberUncordoned", "uncordoned", id="uncordoned"),
        pytest.param(None, member(taint()), "MemberDeleted", "deleted", id="member-deleted"),
    ],
)
def test_a_write_that_decides_something_is_an_action(new, old, reason, message):
    assert seen(new, old) == [(reason, message)]


def test_a_rejection_stops_the_run_and_says_why():
    rejecting = run("Stop", {REJECTED: "web-1-after-canary: errors rise"})
    assert seen(rejecting, run("Run")) == [("ApprovalRejected", "rejected web-1-after-canary: errors rise")]


def test_an_undo_is_a_new_run_that_names_the_old_one():
    assert seen(run("Run", {ROLLBACK_OF: "web-0"}), None) == [
        ("RunUndone", "started the rollback of run web-0: placement web, strategy waves")
    ]


def test_an_approval_is_about_its_run():
    (action,) = AcceptedWrite(approval(approved()), approval(), "status").actions()
    assert action == (
        InvolvedObject("StagedUpdateRun", "web-1", "shop"),
        ActionReason.APPROVAL_GIVEN,
        "approved web-1-after-canary of stage canary: looks good",
    )


@pytest.mark.parametrize(
    ("status", "reason", "verb"), [("True", "ApprovalGiven", "approved"), ("False", "ApprovalRejected", "rejected")]
)
def test_the_answer_to_a_gate_is_about_its_run(status, reason, verb):
    (action,) = AcceptedWrite(gate(approved(status)), gate(), "status").actions()
    assert action == (
        InvolvedObject("ClusterUpgradeRun", "k-1-31"),
        reason,
        f"{verb} k-1-31-canary of stage canary: looks good",
    )


@pytest.mark.parametrize(
    ("new", "old", "subresource"),
    [
        pytest.param(placement({"note": "x"}), placement(), "", id="another-annotation"),
        pytest.param(placement() | {"status": {"x": 1}}, placement(), "status", id="status-of-a-placement"),
        pytest.param(None, placement(deleting=True), "", id="deleted-again"),
        pytest.param(placement({CONFIRM_REMOVAL: "nonsense"}), placement(), "", id="confirmation-without-effect"),
        pytest.param(placement(), placement({CONFIRM_REMOVAL: f"{FIRST}@2026-03-03T08:00:00Z"}), "", id="withdrawn"),
        pytest.param(run("Run"), run("Run"), "", id="same-state"),
        pytest.param(approval(approved()), approval(approved(message="before")), "status", id="approved-before"),
        pytest.param(approval(approved(generation=1), generation=2), approval(), "status", id="ignored-approval"),
        pytest.param(approval(approved()), None, "", id="created-approval-request"),
        pytest.param(gate({"type": "ApprovalAccepted", "status": "True"}), gate(), "status", id="answer-of-the-run"),
        pytest.param(member(taint(), taint("dock")), member(taint(value="by-hand")), "", id="cordoned-before"),
        pytest.param(member() | {"status": {"x": 1}}, member(taint()), "status", id="status-of-a-member"),
        pytest.param(None, member(deleting=True), "", id="member-deleted-again"),
        pytest.param({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}, None, "", id="another-kind"),
        pytest.param(None, None, "", id="nothing"),
    ],
)
def test_other_writes_are_none(new, old, subresource):
    assert seen(new, old, subresource) == []


def test_the_compared_objects_remain_as_they_are():
    new, old = placement(policy=policy(5)), placement()
    before = copy.deepcopy((new, old))
    seen(new, old)
    assert (new, old) == before


@pytest.mark.parametrize("odd", [[], "text", 7, None])
def test_objects_of_an_odd_shape_are_no_error(odd):
    """Admission has judged them, but guard rails and exempt users may let them pass unread."""
    for made in (placement(), run("Run"), upgrade("Run"), gate(approved()), approval(approved()), member()):
        for field in ("spec", "status"):
            for subresource in ("", "status"):
                seen(made | {field: odd}, made, subresource)
                seen(made, made | {field: odd}, subresource)
