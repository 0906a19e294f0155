"""Which run takes back another one, and to which resource snapshot."""

import pytest

from scorer.staged_update.orders import OrderRefusedError
from scorer.staged_update.undo import undo, undo_index
from scorer.staged_update.waiting import situation_of
from tests.scorer.staged_update.records import DONE, NOW, OVER, STARTED, cluster, run_of, stage

STOPPED = ["Initialized", "Progressing=False UpdateRunStopped"]


def done(used="5", previous="4", name="r", conditions=OVER):
    run = run_of(stage("try", cluster("a", STARTED, DONE)), conditions=conditions)
    about = {**run["metadata"], "name": name, "creationTimestamp": "2026-03-01T10:00:00Z"}
    about["annotations"] = {"harbormaster.dev/previous-index": previous} if previous else {}
    spec = {"placementName": "p", "stagedRolloutStrategyName": "careful", "state": "Run"}
    kind = {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterStagedUpdateRun"}
    return {**kind, "metadata": about, "spec": spec, "status": {**run["status"], "resourceSnapshotIndexUsed": used}}


def taking_back(run, conditions, at="2026-03-01T11:00:00Z"):
    about = {"creationTimestamp": at, "annotations": {"harbormaster.dev/rollback-of": run["metadata"]["name"]}}
    return {**done(conditions=conditions), "metadata": {"name": "r-undo", **about}}


def undone(run, others=(), retained=(3, 4, 5)):
    return undo(run, situation_of(run, (), NOW), [run, *others], retained)


@pytest.mark.parametrize(
    ("previous", "retained", "index"),
    [
        pytest.param("3", {3, 4, 5}, "3", id="what the clusters had"),
        pytest.param("7", {5, 7}, "7", id="what the clusters had, younger"),
    ],
)
def test_the_snapshot_before_is_gone_back_to(previous, retained, index):
    assert undo_index(done(previous=previous), retained) == index


@pytest.mark.parametrize(
    ("previous", "retained", "message"),
    [
        ("2", {3, 5}, "had resource snapshot 2, which is not there any more; those there: 3, 5"),
        ("2", (), "which is not there any more; there is none at all"),
        ("none", {3, 5}, "had no resource snapshot before other than 5: nothing to go back to; those there: 3, 5"),
        ("", {3, 5}, "has no annotation harbormaster.dev/previous-index, so what its clusters had before is not known"),
    ],
)
def test_without_a_snapshot_to_go_back_to_nothing_is_undone(previous, retained, message):
    with pytest.raises(OrderRefusedError, match=message):
        undo_index(done(previous=previous), retained)


def test_the_run_that_takes_another_back_is_like_it_and_says_so():
    assert undone(done()) == {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterStagedUpdateRun",
        "metadata": {"name": "r-undo", "annotations": {"harbormaster.dev/rollback-of": "r"}},
        "spec": {
            "placementName": "p",
            "resourceSnapshotIndex": "4",
            "stagedRolloutStrategyName": "careful",
            "state": "Run",
        },
    }


def test_a_stopped_run_is_taken_back_and_one_under_way_is_not():
    assert undone({**done(conditions=STOPPED)})["metadata"]["name"] == "r-undo"
    with pytest.raises(OrderRefusedError, match=r"run r is not over \(Running\): stop it first"):
        undone(done(conditions=["Initialized", "Progressing=True UpdateRunProgressing"]))


def test_a_run_that_has_changed_no_cluster_has_nothing_to_undo():
    untouched = {**done(), "status": {**run_of(stage("try", cluster("a")), conditions=OVER)["status"]}}
    with pytest.raises(OrderRefusedError, match="has changed no cluster, so there is nothing to undo"):
        undone(untouched)


@pytest.mark.parametrize("conditions", [OVER, ["Initialized"]], ids=["succeeded", "under way"])
def test_what_is_taken_back_already_is_not_taken_back_twice(conditions):
    with pytest.raises(OrderRefusedError, match="run r-undo takes back run r already"):
        undone(done(), [taking_back(done(), conditions)])


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(taking_back(done(), ["Initialized", "Succeeded=False UpdateRunFailed"]), id="failed"),
        pytest.param(taking_back(done(), OVER, at="2026-03-01T09:00:00Z"), id="of an earlier run of that name"),
    ],
)
def test_a_free_name_is_taken_where_an_older_undo_does_not_count(other):
    assert undone(done(), [other])["metadata"]["name"] == "r-undo-2"


@pytest.mark.parametrize("name", ["a" * 63, "a" * 57 + "-" + "b" * 5])
def test_a_long_name_is_cut_to_what_a_run_may_have(name):
    made = undone(done(name=name))["metadata"]["name"]
    assert len(made) <= 63
    assert made.endswith("a-undo")


def test_an_annotation_that_cannot_be_read_does_not_end_the_run_that_takes_back_as_well():
    run = done()
    run["metadata"]["annotations"] |= {"harbormaster.dev/max-failures": "many", "harbormaster.dev/cluster-deadline": ""}
    annotations = undone(run)["metadata"]["annotations"]
    assert annotations == {"harbormaster.dev/rollback-of": "r", "harbormaster.dev/cluster-deadline": ""}
