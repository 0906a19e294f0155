"""Which run takes back another one, and to which resource snapshot."""

import sys
from contextlib import suppress

import pytest

from scorer.staged_update.orders import RunOrderRefusedError
from scorer.staged_update.phase import RunPhase, situation_of
from scorer.staged_update.undo import PlacementRuns, UndoRecord, undo, undo_index, undo_target
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


def undone(run, others=(), retained=(3, 4, 5), *, force=False):
    return undo(run, situation_of(run, (), NOW), [run, *others], retained, force=force)


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
        ("2", {3, 5}, "had resource snapshot 2, which no longer exists. Existing snapshots: 3, 5"),
        ("2", (), "which no longer exists. No snapshots exist"),
        ("none", {3, 5}, "had no resource snapshot other than 5. Existing snapshots: 3, 5"),
        (
            "",
            {3, 5},
            "has no valid annotation harbormaster.dev/previous-index, so the previous resource snapshot is unknown",
        ),
    ],
)
def test_without_a_snapshot_to_go_back_to_nothing_is_undone(previous, retained, message):
    with pytest.raises(RunOrderRefusedError, match=message):
        undo_index(done(previous=previous), retained)


@pytest.mark.parametrize("retained", [None, {3, 5}], ids=["unknown snapshots", "known snapshots"])
@pytest.mark.parametrize("previous", ["latest", "-1", "4 ", "\u0664", "4" * 19, "<b>4</b>"])
def test_an_annotation_that_is_no_index_is_not_gone_back_to(previous, retained):
    with pytest.raises(RunOrderRefusedError, match="the previous resource snapshot is unknown"):
        undo_index(done(previous=previous), retained)


def test_while_the_snapshots_are_unknown_the_one_before_counts_as_retained():
    assert undo_index(done(previous="4" * 18), None) == "4" * 18


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
    with pytest.raises(RunOrderRefusedError, match=r"run r is not finished \(Running\)\. Stop it first"):
        undone(done(conditions=["Initialized", "Progressing=True UpdateRunProgressing"]))


def test_a_run_that_has_changed_no_cluster_has_nothing_to_undo():
    untouched = {**done(), "status": {**run_of(stage("try", cluster("a")), conditions=OVER)["status"]}}
    with pytest.raises(RunOrderRefusedError, match=r"run r has changed no cluster \(\w+\): nothing to undo"):
        undone(untouched)


def test_a_run_of_the_snapshot_that_its_clusters_had_has_nothing_to_undo():
    with pytest.raises(RunOrderRefusedError, match="snapshot 5, which its clusters already had: nothing to undo"):
        undone(done(previous="5"))


@pytest.mark.parametrize("conditions", [OVER, ["Initialized"]], ids=["succeeded", "under way"])
def test_what_is_taken_back_already_is_not_taken_back_twice(conditions):
    with pytest.raises(RunOrderRefusedError, match="run r-undo already undoes run r"):
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


def began(name, minute, of="", placement="p", conditions=OVER):
    """Return a run that began its cluster at a minute; *of* another: it takes that back."""
    run = done(name=name, conditions=conditions)
    at = f"2026-03-01T10:{minute:02}:00Z"
    started = {"type": "Started", "status": "True", "lastTransitionTime": at, "reason": "ClusterUpdatingStarted"}
    run["status"]["stagesStatus"][0]["clusters"][0]["conditions"] = [started]
    noted = {"harbormaster.dev/rollback-of": of} if of else {}
    run["metadata"] |= {"creationTimestamp": at, "annotations": {**run["metadata"]["annotations"], **noted}}
    return {**run, "spec": {**run["spec"], "placementName": placement}}


@pytest.mark.parametrize(
    ("others", "named"),
    [
        pytest.param([began("s", 20)], "s", id="one"),
        pytest.param([began("t", 30), began("s", 20)], "s, t", id="several, by age"),
        pytest.param([began("s", 20, conditions=STOPPED)], "s", id="not over"),
        pytest.param([began(f"s{n}", 20 + n) for n in range(7)], "s0, s1, s2, s3, s4 and 2 more", id="many"),
        pytest.param([began("s", 20), began("s-undo", 30, of="s"), began("t", 40)], "t", id="one of them taken back"),
        pytest.param([began("s", 20), began("x", 30, of="s", conditions=STOPPED)], "s, x", id="half taken back"),
        pytest.param([began("q", 5), began("q-undo", 20, of="q")], "q-undo", id="reverted with an older one"),
        pytest.param([began("q", 5), began("q-undo", 20, of="q"), began("s", 15)], "s, q-undo", id="both, by age"),
        pytest.param([began("s", 10)], "s", id="in the same second"),
        pytest.param(
            [began("s", 20), began("s-undo", 30, of="s"), began("s-undo-undo", 40, of="s-undo")],
            "s",
            id="taken back and restored",
        ),
        pytest.param(
            [
                began("s", 20),
                began("s-undo", 30, of="s", conditions=STOPPED),
                began("s-undo-undo", 40, of="s-undo"),
            ],
            "s",
            id="half taken back and restored",
        ),
    ],
)
def test_a_run_after_which_others_have_changed_the_placement_is_undone_only_by_force(others, named):
    with pytest.raises(RunOrderRefusedError, match=f"run r is not the newest: .*.* by {named}, which would be undone"):
        undone(began("r", 10), others)
    assert undone(began("r", 10), others, force=True)["metadata"]["name"] == "r-undo"


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([began("q", 5)], id="older"),
        pytest.param([began("s", 20, placement="another")], id="of another placement"),
        pytest.param([began("s", 20), began("s-undo", 30, of="s")], id="taken back"),
        pytest.param([began("r-undo", 20, of="r", conditions=["Succeeded=False UpdateRunFailed"])], id="failed undo"),
        pytest.param([{**began("s", 20), "status": {}}], id="has changed nothing"),
    ],
)
def test_runs_of_which_nothing_would_be_lost_do_not_keep_a_run_from_being_undone(others):
    assert undone(began("r", 10), others)["spec"]["resourceSnapshotIndex"] == "4"


RESTORED = [began("r-undo", 20, of="r"), began("r-undo-undo", 30, of="r-undo")]


@pytest.mark.parametrize(
    "others",
    [
        pytest.param(RESTORED, id="taken back"),
        pytest.param([began("r-undo", 20, of="r", conditions=STOPPED), RESTORED[1]], id="half taken back"),
        pytest.param([began("q", 5), *RESTORED], id="with an older run"),
    ],
)
def test_a_run_whose_undo_was_undone_can_be_undone_again(others):
    made = undone(began("r", 10), others)
    assert (made["metadata"]["name"], made["spec"]["resourceSnapshotIndex"]) == ("r-undo-2", "4")


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(began("r-undo-2", 40, of="r"), id="a second undo of the run"),
        pytest.param(began("r-undo-undo-undo", 40, of="r-undo-undo"), id="an undo of the last undo"),
    ],
)
def test_a_run_that_was_undone_restored_and_undone_again_counts_no_more(last):
    runs = [began("r", 10), *RESTORED, last]
    assert undone(began("q", 5), runs)["metadata"]["name"] == "q-undo"
    with pytest.raises(RunOrderRefusedError, match=r"run r-undo(-2)? already undoes run r$"):
        undone(runs[0], runs[1:], force=True)


def test_the_verdicts_on_all_runs_of_a_placement_need_no_call_for_every_pair():
    """Function calls for 100 and for 200 runs: a list with all pairs of runs would take four times as many."""

    def calls(count):
        runs = [began(f"s{n}", n % 60) for n in range(count)]
        made = 0

        def note(_, event, __):
            nonlocal made
            made += event == "call"

        sys.setprofile(note)
        try:
            records = [UndoRecord.of(run) for run in runs]
            placement_runs = PlacementRuns(records)
            for record in records:
                with suppress(RunOrderRefusedError):
                    undo_target(record, RunPhase.SUCCEEDED, placement_runs, {4})
        finally:
            sys.setprofile(None)
        return made

    assert calls(200) < 2.5 * calls(100)


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
