"""What the tree finds out from bindings and Works."""

import pytest

from scorer.api.kinds import WORK
from scorer.rollout.views.tree import ClusterState, Sources, essentials, placement_tree
from tests.builders.condition import condition
from tests.webhook.placed import entry, make_binding, make_placement, make_snapshot, make_work

WAITING_ROLLOUT = condition("RolloutStarted", "False", "RolloutNotStartedYet", "waits: no more may be removed now")
NOT_APPLIED = condition("Applied", "False", "NotAllWorkHaveBeenApplied", "not applied: web-work")
NOT_AVAILABLE = condition("Available", "False", "NotAllWorkAreAvailable", "not available: web-work")
STARTED = [condition("RolloutStarted"), condition("Overridden"), condition("WorkSynchronized")]


def tree_of(*bindings, works=(), placement=None, latest=1):
    return placement_tree(Sources(placement or make_placement(), bindings, works, [make_snapshot(latest)]))


def only(*bindings, **sources):
    (cluster,) = tree_of(*bindings, **sources)["clusters"]
    return cluster


@pytest.mark.parametrize(
    ("binding", "state", "detail"),
    [
        pytest.param(make_binding("a"), "available", "", id="all-is-well"),
        pytest.param(
            make_binding("a", condition("Other"), state="Scheduled", index=None),
            "waiting",
            "picked, not rolled out yet",
            id="scheduled",
        ),
        pytest.param(
            make_binding("a", WAITING_ROLLOUT, state="Scheduled", index=None),
            "waiting",
            "no more may be removed now",
            id="scheduled-and-held-back",
        ),
        pytest.param(
            make_binding(
                "a", WAITING_ROLLOUT, *map(condition, ("Overridden", "WorkSynchronized", "Applied", "Available"))
            ),
            "waiting",
            "no more may be removed now",
            id="well-and-held-back",
        ),
        pytest.param(
            make_binding("a", WAITING_ROLLOUT, *STARTED[1:], condition("Applied"), NOT_AVAILABLE),
            "applying",
            "not available: web-work",
            id="not-well-and-held-back",
        ),
        pytest.param(
            make_binding("a", STARTED[0], condition("Overridden", "False", "OverriddenFailed", "no such path")),
            "failed",
            "no such path",
            id="override-failed",
        ),
        pytest.param(
            make_binding("a", *STARTED, condition("Applied", "False", "ApplyInProgress", "on their way")),
            "applying",
            "on their way",
            id="in-progress",
        ),
        pytest.param(make_binding("a", *STARTED), "applying", "Applied is unknown", id="nothing-said"),
        pytest.param(
            make_binding(
                "a", *map(condition, ("RolloutStarted", "Overridden", "WorkSynchronized", "Applied")), generation=2
            ),
            "applying",
            "Overridden is unknown",
            id="said-of-an-earlier-generation",
        ),
        pytest.param(
            make_binding("a", *STARTED, condition("DiffReported"), apply="ReportDiff"), "reported", "", id="differences"
        ),
        pytest.param(
            make_binding("a", condition("Other"), state="Unscheduled"),
            "removing",
            "no longer selected; waiting for the limits of the rollout",
            id="unscheduled",
        ),
        pytest.param(
            make_binding("a", deletionTimestamp="2026-01-01T00:00:00Z"),
            "removing",
            "is being removed, its Works are deleted",
            id="deleting",
        ),
    ],
)
def test_state_of_a_cluster(binding, state, detail):
    cluster = only(binding)
    assert (cluster["state"], cluster["detail"]) == (state, detail)


REFUSED = entry("a", condition("Applied", "False", "ManifestApplyFailed", "admission says no"))


@pytest.mark.parametrize(
    ("found", "state", "detail"),
    [
        pytest.param(REFUSED, "failed", "ConfigMap shop/a: admission says no", id="refused"),
        pytest.param(
            entry("a", condition("Applied", "False", "PreparingToProcess")),
            "applying",
            "not applied: web-work",
            id="about-to-be-applied",
        ),
    ],
)
def test_whether_it_failed_is_in_the_objects(found, state, detail):
    """NotAllWorkHaveBeenApplied alone does not tell a refusal from an agent that is at work."""
    cluster = only(make_binding("a", *STARTED, NOT_APPLIED), works=[make_work("a", found)])
    assert (cluster["state"], cluster["detail"]) == (state, detail)
    assert cluster["binding"]["condition"]["reason"] == "NotAllWorkHaveBeenApplied"


def test_a_binding_is_shown_with_the_snapshots_that_it_was_made_from():
    binding = only(make_binding("a"))["binding"]
    shown = {name: binding[name] for name in ("name", "state", "resourceSnapshot", "resourceIndex", "policySnapshot")}
    assert shown == {
        "name": "web-a",
        "state": "Bound",
        "resourceSnapshot": "web-1-snapshot",
        "resourceIndex": 1,
        "policySnapshot": "web-0",
    }
    bare = make_binding("a")
    del bare["spec"]["schedulingPolicySnapshotName"]
    assert only(bare)["binding"]["policySnapshot"] == ""


def test_a_work_that_the_agent_has_not_seen_is_named():
    work = make_work("a", entry("a"), generation=3, observed=2)
    cluster = only(make_binding("a", *STARTED, condition("Applied", "False", "ApplyInProgress")), works=[work])
    assert cluster["detail"] == "Work web-work is waiting for the agent"
    (told,) = cluster["works"]
    assert (told["generation"], told["reportedGeneration"], told["waitingForAgent"]) == (3, 2, True)


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        pytest.param((condition("Applied"), condition("Available", reason="Available")), "available", id="available"),
        pytest.param(
            (condition("Applied"), condition("Available", reason="NotTrackable")), "applied", id="untrackable"
        ),
        pytest.param((condition("Applied"),), "applied", id="applied"),
        pytest.param(
            (condition("Applied"), condition("Available", "False", "ManifestNotAvailableYet")), "not yet", id="not-yet"
        ),
        pytest.param((condition("Applied"), condition("Available", "False", "Failed")), "failed", id="cannot-be-known"),
        pytest.param((condition("Applied", "False", "NotTakenOver"),), "failed", id="not-applied"),
        pytest.param((condition("Applied", "False", "PreparingToProcess"),), "waiting", id="written-ahead"),
        pytest.param((condition("DiffReported", reason="NoDiffFound"),), "same", id="no-difference"),
        pytest.param((condition("DiffReported", reason="FoundDiff"),), "differs", id="difference"),
        pytest.param((condition("DiffReported", "False", "FailedToReportDiff"),), "failed", id="not-compared"),
    ],
)
def test_state_of_an_object(conditions, state):
    (work,) = only(make_binding("a"), works=[make_work("a", entry("a", *conditions))])["works"]
    assert [each["state"] for each in work["objects"]] == [state]


def test_objects_that_the_agent_has_not_mentioned_wait():
    manifests = [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": "b"}}]
    (work,) = only(make_binding("a"), works=[make_work("a", entry("a"), manifests=manifests)])["works"]
    (found,) = work["objects"]
    assert (found["group"], found["version"], found["kind"], found["name"]) == ("apps", "v1", "Deployment", "b")
    assert found["state"] == "waiting"  # the entry of that ordinal is about another object


def test_drifts_are_counted_without_their_values():
    cluster = only(make_binding("a"), works=[make_work("a", entry("a", drifts=("/data/x", "/data/y")))])
    assert (cluster["state"], cluster["drifts"], cluster["healthy"]) == ("available", 2, False)
    assert cluster["works"][0]["objects"][0]["drifts"] == [{"path": "/data/x"}, {"path": "/data/y"}]


def test_a_work_of_an_envelope_names_it():
    prefix = "kubernetes-fleet.io/envelope-"
    labels = {prefix + "work": "ResourceEnvelope", prefix + "name": "box", prefix + "namespace": "shop"}
    (work,) = only(make_binding("a"), works=[make_work("a", entry("a"), labels=labels)])["works"]
    assert work["envelope"] == {"type": "ResourceEnvelope", "namespace": "shop", "name": "box"}
    assert work["objects"][0]["envelope"] == work["envelope"]


def test_the_worst_comes_first():
    failing = make_binding("z", *STARTED, NOT_APPLIED)
    bindings = [
        make_binding("a"),
        make_binding("m", index=0),
        make_binding("y", state="Scheduled", index=None),
        failing,
    ]
    found = tree_of(*bindings, works=[make_work("z", REFUSED)])
    assert [each["cluster"] for each in found["clusters"]] == ["z", "y", "m", "a"]
    assert found["placement"]["state"] == "failed"
    assert found["summary"] == {
        "clusters": 4,
        "failed": 1,
        "applying": 0,
        "waiting": 1,
        "removing": 0,
        "removal pending": 0,
        "reported": 0,
        "available": 2,
        "outdated": 1,
        "drifted": 0,
        "differing": 0,
    }
    assert set(found["summary"]) >= set(ClusterState)


def test_works_without_a_binding_are_shown_as_left_over():
    cluster = only(works=[make_work("a", entry("a"))])
    assert (cluster["cluster"], cluster["binding"], cluster["state"]) == ("a", None, "removing")
    assert cluster["detail"] == "binding web-a is deleted, its Works remain"


def test_what_holds_a_deletion_is_named():
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["kubernetes-fleet.io/work-cleanup"]}
    cluster = only(make_binding("a", **gone), works=[make_work("a", entry("a"), **gone), make_work("a", name="web-1")])
    assert cluster["detail"] == "is being removed, 2 Works left, 1 of them being deleted"
    for document in (cluster["binding"], cluster["works"][1]):
        assert (document["deleting"], document["finalizers"]) == (True, ["kubernetes-fleet.io/work-cleanup"])


@pytest.mark.parametrize(
    ("placement", "state", "why"),
    [
        pytest.param(make_placement(), "available", "", id="available"),
        pytest.param(make_placement(condition("Other")), "pending", "not scheduled yet", id="pending"),
        pytest.param(
            make_placement(generation=2), "available", "being evaluated again", id="scheduled-before-a-change"
        ),
        pytest.param(
            make_placement(
                condition("ClusterResourcePlacementScheduled", "False", "SchedulingPolicyUnfulfilled", "1 of 2")
            ),
            "short",
            "1 of 2",
            id="short",
        ),
        pytest.param(
            make_placement(condition("ClusterResourcePlacementScheduled", "False", "InvalidResourceSelectors", "no")),
            "invalid",
            "no",
            id="invalid",
        ),
        pytest.param(
            make_placement(deletionTimestamp="2026-01-01T00:00:00Z"),
            "removing",
            "the placement is being deleted",
            id="removing",
        ),
    ],
)
def test_state_of_a_placement(placement, state, why):
    found = tree_of(make_binding("a"), placement=placement)["placement"]
    assert (found["state"], found["why"]) == (state, why)


def test_clusters_that_were_not_found_are_missing():
    found = tree_of(placement=make_placement(missing=["dover: not joined"]))
    assert found["missing"] == [{"reason": "ScheduleFailed", "message": "dover: not joined"}]


def test_while_the_label_moves_on_the_greatest_index_counts():
    found = placement_tree(Sources(make_placement(), [make_binding("a", index=0), make_binding("b", index=2)]))
    assert found["placement"]["resourceIndex"] == 2


def test_what_is_kept_of_a_work_is_enough():
    """Content is dropped when it comes in; the tree is the same."""
    works = [make_work("a", entry("a"), entry("b", ordinal=1, drifts=("/x",)))]
    kept = [essentials(WORK, work) for work in works]
    assert only(make_binding("a"), works=kept) == only(make_binding("a"), works=works)
    assert "nobody shows" not in str(kept)
