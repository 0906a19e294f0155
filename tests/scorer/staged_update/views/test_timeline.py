"""A run as a timeline, at the moments of the worked example."""

import pytest

from scorer.api.placement.staged_update import DELETE_STAGE
from scorer.rollout.views.timeline import BarState, MarkKind
from scorer.staged_update.views.timeline import run_timeline
from tests.builders.update_run import STRATEGY, Moments

MOMENTS = Moments()
at = MOMENTS.at


def bars(run, band):
    """Per cluster of a band: its state, and from when to when in minutes and seconds of the example."""

    def text(instant):
        if instant is None:
            return ""
        minutes, seconds = divmod(int((instant - MOMENTS.start).total_seconds()), 60)
        return f"{minutes}:{seconds:02}"

    found = run_timeline(run).bands[band].bars
    return {bar.cluster: (bar.state.value, text(bar.started), text(bar.ended)) for bar in found}


def test_each_cluster_has_a_bar_from_its_start_to_its_outcome():
    run = MOMENTS.at_twelve()
    assert bars(run, 0) == {"a": ("updated", "0:00", "0:30"), "b": ("updated", "0:30", "1:00")}
    assert bars(run, 1) == {
        "c1": ("updating", "12:10", ""),
        "c2": ("updating", "12:10", ""),
        "c3": ("waiting", "", ""),
        "c4": ("waiting", "", ""),
        "c5": ("waiting", "", ""),
    }
    assert bars(run, 2) == {"z": ("not reached", "", "")}


@pytest.mark.parametrize(
    ("moment", "states"),
    [
        ("unstarted", ["not reached", "not reached", "not reached"]),
        ("at_four", ["waiting", "not reached", "not reached"]),
        ("at_eleven", ["done", "waiting", "not reached"]),
        ("at_twelve", ["done", "updating", "not reached"]),
        ("stopped", ["done", "stopped", "not reached"]),
        ("aborted", ["done", "failed", "not reached"]),
        ("succeeded", ["done", "done", "done"]),
    ],
)
def test_each_stage_says_in_a_word_how_far_it_is(moment, states):
    run = getattr(MOMENTS, moment)()
    assert [band.state for band in run_timeline(run).bands] == states


def test_a_band_says_when_it_was_and_how_many_clusters_go_at_once():
    first, second, last = run_timeline(MOMENTS.succeeded()).bands
    assert (first.name, first.started, first.ended, first.max_concurrency) == ("try", at("0:00"), at("11:00"), 1)
    assert (second.name, second.started, second.ended, second.max_concurrency) == ("all", at("12:10"), at("13:40"), 2)
    assert (last.name, last.deletes, last.max_concurrency) == ("deletion", True, None)


def test_an_approval_is_marked_from_its_request_to_its_answer():
    first, second, _ = run_timeline(MOMENTS.at_eleven()).bands
    answered, asked = first.marks[1], second.marks[0]
    assert (answered.kind, answered.request) == (MarkKind.APPROVAL_AFTER, "r-after-try")
    assert (answered.since, answered.until, answered.over) == (at("1:00"), at("4:00"), True)
    assert (asked.kind, asked.since, asked.until, asked.over) == (MarkKind.APPROVAL_BEFORE, at("11:00"), None, False)


def test_a_timed_wait_says_until_when_it_lasts():
    open_wait = run_timeline(MOMENTS.at_four()).bands[0].marks[0]
    assert (open_wait.since, open_wait.until, open_wait.over) == (at("1:00"), at("11:00"), False)
    ended = run_timeline(MOMENTS.at_twelve()).bands[0].marks[0]
    assert (ended.since, ended.until, ended.over) == (at("1:00"), at("11:00"), True)


def test_a_wait_begins_only_after_the_last_cluster():
    """A stage that waits for the approval before it has nothing to wait for afterwards yet."""
    wait = run_timeline(MOMENTS.unstarted()).bands[0].marks[0]
    assert (wait.since, wait.until, wait.over) == (None, None, False)


def test_a_wait_beyond_the_calendar_has_no_end():
    run = MOMENTS.at_four(strategy={"stages": [STRATEGY["stages"][0] | {"afterStageTasks": [endless()]}]})
    assert run_timeline(run).bands[0].marks[0].until is None


def endless():
    return {"type": "TimedWait", "waitTime": "87000000h"}


def test_a_cluster_that_may_not_be_touched_says_what_it_waits_for():
    band = run_timeline(MOMENTS.stuck()).bands[1]
    assert band.bars[4].state is BarState.WAITING
    assert band.bars[4].detail == "its maintenance window opens at 2026-11-23T13:00:00Z"


def test_a_cluster_in_flight_says_what_is_open_there():
    band = run_timeline(MOMENTS.stuck()).bands[1]
    assert band.bars[1].detail == "Deployment shop/web: 0 of 3 replicas available"


def test_after_an_abort_nothing_is_waiting_any_more():
    run = MOMENTS.aborted()
    assert bars(run, 1) == {
        "c1": ("failed", "12:10", "12:50"),
        "c2": ("left", "12:10", "12:50"),
        "c3": ("not reached", "", ""),
        "c4": ("not reached", "", ""),
        "c5": ("not reached", "", ""),
    }
    assert run_timeline(run).bands[1].detail == "the binding of c1 was changed by another run"


def test_a_run_lasts_from_its_first_cluster_to_its_end():
    over = run_timeline(MOMENTS.succeeded())
    assert (over.started, over.ended) == (at("0:00"), at("13:55"))
    assert run_timeline(MOMENTS.stuck()).ended is None


def test_a_run_that_removes_nothing_has_no_band_for_it():
    run = MOMENTS.run([MOMENTS.tried()], deletion=MOMENTS.stage(DELETE_STAGE, []))
    assert [band.name for band in run_timeline(run).bands] == ["try"]


def test_a_run_without_a_record_is_an_empty_timeline():
    over = run_timeline({"kind": "ClusterStagedUpdateRun", "metadata": {"name": "r"}, "spec": {}})
    assert (over.bands, over.started, over.ended) == ((), None, None)


@pytest.mark.parametrize(
    "broken", [{"stagesStatus": [{"clusters": [7, {}]}]}, {"conditions": "no"}, {"stagesStatus": 3}]
)
def test_a_record_that_a_user_has_spoilt_is_shown_as_far_as_it_can_be_read(broken):
    run = {"metadata": {"name": "r"}, "spec": {}, "status": broken}
    document = run_timeline(run).document()
    assert (document["startedAt"], document["endedAt"]) == (None, None)


def test_the_document_writes_instants_as_kubernetes_does():
    band = run_timeline(MOMENTS.at_four()).document()["bands"][0]
    assert band["bars"][0] == {
        "cluster": "a",
        "state": "updated",
        "startedAt": "2026-11-23T08:00:00Z",
        "endedAt": "2026-11-23T08:00:30Z",
        "detail": "",
    }
    assert band["marks"][0] == {
        "kind": "timed wait",
        "since": "2026-11-23T08:01:00Z",
        "until": "2026-11-23T08:11:00Z",
        "over": False,
        "request": "",
    }
