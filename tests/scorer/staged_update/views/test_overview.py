"""A run as a document."""

import pytest

from scorer.staged_update.phase import situation_of
from scorer.staged_update.views.overview import overview
from tests.scorer.staged_update.records import DONE, NOW, STARTED, cluster, run_of, said, stage


def document_of(run):
    return overview(run, situation_of(run, (), NOW))


@pytest.mark.parametrize(
    ("conditions", "state", "since", "finished"),
    [
        ((), "pending", None, None),
        ((said("Started=False", "closed"),), "held", None, None),
        ((STARTED,), "updating", "2026-03-01T11:00:00Z", None),
        ((STARTED, DONE), "done", "2026-03-01T11:00:00Z", "2026-03-01T11:00:00Z"),
        ((STARTED, said("Succeeded=False", "late")), "failed", "2026-03-01T11:00:00Z", "2026-03-01T11:00:00Z"),
    ],
)
def test_a_cluster_is_one_word_with_its_times(conditions, state, since, finished):
    (found,) = document_of(run_of(stage("try", cluster("a", *conditions))))["stages"][0]["clusters"]
    assert (found["state"], found["since"], found["finished"]) == (state, since, finished)
    assert found["message"] == next((each["message"] for each in conditions if each["message"]), "")


@pytest.mark.parametrize(
    ("condition", "state"),
    [
        (None, "pending"),
        ("Progressing=False StageUpdatingWaiting", "waiting"),
        ("Progressing=True StageUpdatingStarted", "updating"),
        ("Progressing=Unknown StageUpdatingStopping", "stopping"),
        ("Progressing=False StageUpdatingStopped", "stopped"),
        ("Progressing=False StageUpdatingSucceeded", "done"),
        ("Progressing=False StageUpdatingSkippedNoClusters", "skipped"),
        ("Progressing=False StageUpdatingFailed", "failed"),
    ],
)
def test_a_stage_is_one_word(condition, state):
    conditions = [said(condition)] if condition else []
    assert document_of(run_of(stage("try", conditions=conditions)))["stages"][0]["state"] == state


def test_waits_are_listed():
    (wait,) = document_of(run_of(stage("try", cluster("a", said("Started=False", "closed")))))["waits"]
    assert (wait["kind"], wait["stage"], wait["cluster"]) == ("Held", "try", "a")
    assert (wait["message"], wait["since"], wait["until"]) == ("cluster a: closed", "2026-03-01T11:00:00Z", None)


def test_a_rejection_is_told_only_while_the_run_is_stopped():
    run = run_of(stage("try"))
    run["metadata"]["annotations"] = {"harbormaster.dev/rejected": "x: slow"}
    assert document_of(run)["run"]["rejected"] == ""
    run["spec"]["state"] = "Stop"
    assert document_of(run)["run"]["rejected"] == "x: slow"


def test_removals_are_a_stage_of_their_own_where_there_are_any():
    names = [
        [each["stage"] for each in document_of(run)["stages"]] for run in (run_of(), run_of(removed=[cluster("z")]))
    ]
    assert names == [[], ["kubernetes-fleet.io/deleteStage"]]
