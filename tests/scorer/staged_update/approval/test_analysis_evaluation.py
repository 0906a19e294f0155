"""What a look at the check of a stage comes to."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.unstructured.documents import conditions_of, current_condition
from scorer.staged_update.approval.analysis import ObjectCheck, QueryCheck, ThresholdComparison
from scorer.staged_update.approval.analysis_evaluation import (
    NotSeen,
    Number,
    Reached,
    awaits_request,
    is_rejected,
    judge,
    pause,
    read_answer,
    read_object,
)
from scorer.staged_update.approval.requests import TaskPlace, make_request

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CHECK = QueryCheck("main", "errors", ThresholdComparison.BELOW, 5.0, timedelta(minutes=10), timedelta(seconds=30))
IMMEDIATE = QueryCheck("main", "errors", ThresholdComparison.BELOW, 5.0, timedelta(), timedelta(seconds=30))
JOB = ObjectCheck("batch/v1", "Job", "team", "smoke", "Complete", "True")
REQUEST = {"metadata": {"name": "r-after-test", "generation": 1}}


def after(look, request=REQUEST):
    """Return the request as it is stored after a look."""
    return request if look.status is None else {**request, "status": look.status}


def said(request, kind="Analyzed"):
    found = current_condition(request, kind) or {}
    return found.get("status"), found.get("reason")


def vector(*samples):
    return {
        "status": "success",
        "data": {"resultType": "vector", "result": [{"value": list(each)} for each in samples]},
    }


def test_a_number_that_is_right_long_enough_approves():
    first = judge(REQUEST, CHECK, Number(0.25), NOW)
    waiting = after(first)
    assert (first.approves, first.again, said(waiting)) == (False, timedelta(seconds=30), ("True", "Met"))
    assert "approved at 2026-03-01T12:10:00Z" in current_condition(waiting, "Analyzed")["message"]
    last = judge(waiting, CHECK, Number(0.25), NOW + timedelta(minutes=9, seconds=50))
    assert (last.approves, last.again, last.status) == (False, timedelta(seconds=10), None)
    done = judge(waiting, CHECK, Number(0.25), NOW + timedelta(minutes=10))
    assert done.approves
    approval = current_condition(after(done, waiting), "Approved")
    assert (approval["status"], approval["reason"], approval["observedGeneration"]) == ("True", "AnalysisPassed", 1)
    assert approval["message"] == "main returned 0.25, must be below 5 for 10m"


def test_without_a_time_the_first_right_number_approves():
    assert judge(REQUEST, IMMEDIATE, Number(1), NOW).approves


def test_a_wrong_number_starts_the_time_anew():
    good = after(judge(REQUEST, CHECK, Number(1), NOW))
    bad = after(judge(good, CHECK, Number(5), NOW + timedelta(minutes=6)), good)
    assert said(bad) == ("False", "NotMet")
    again = after(judge(bad, CHECK, Number(1), NOW + timedelta(minutes=7)), bad)
    assert not judge(again, CHECK, Number(1), NOW + timedelta(minutes=16)).approves
    assert judge(again, CHECK, Number(1), NOW + timedelta(minutes=17)).approves


def test_a_moment_without_an_answer_starts_the_time_anew():
    good = after(judge(REQUEST, CHECK, Number(1), NOW))
    blind = after(judge(good, CHECK, NotSeen("Timeout", "no answer", failed=True), NOW + timedelta(minutes=9)), good)
    assert said(blind) == ("Unknown", "Timeout")
    assert not judge(blind, CHECK, Number(1), NOW + timedelta(minutes=11)).approves


def test_the_time_of_another_check_does_not_count():
    good = after(judge(REQUEST, CHECK, Number(1), NOW))
    other = QueryCheck("main", "latency", ThresholdComparison.BELOW, 5.0, timedelta(minutes=10), timedelta(seconds=30))
    changed = after(judge(good, other, Number(1), NOW + timedelta(minutes=20)), good)
    assert "Approved" not in {each["type"] for each in conditions_of(changed)}
    assert not judge(changed, other, Number(1), NOW + timedelta(minutes=29)).approves
    assert judge(changed, other, Number(1), NOW + timedelta(minutes=30)).approves


def test_a_condition_about_another_generation_of_the_request_does_not_count():
    good = after(judge(REQUEST, CHECK, Number(1), NOW))
    newer = {**good, "metadata": {**good["metadata"], "generation": 2}}
    assert not judge(newer, CHECK, Number(1), NOW + timedelta(minutes=11)).approves


def test_what_has_not_changed_is_not_written():
    for seen in (Number(1), Number(9), NotSeen("NoData", "nothing")):
        request = after(judge(REQUEST, CHECK, seen, NOW))
        assert judge(request, CHECK, seen, NOW + timedelta(seconds=30)).status is None


def test_other_conditions_of_the_request_stay():
    request = {**REQUEST, "status": {"conditions": [{"type": "Approved", "status": "False", "observedGeneration": 1}]}}
    looked = after(judge(request, CHECK, Number(9), NOW), request)
    assert [each["type"] for each in conditions_of(looked)] == ["Approved", "Analyzed"]


def test_what_fails_again_and_again_is_asked_less_often_up_to_a_limit():
    failed = NotSeen("Timeout", "no answer", failed=True)
    waits = [judge(REQUEST, CHECK, failed, NOW, failures).again.total_seconds() for failures in (0, 1, 3, 4, 99)]
    assert waits == [30, 60, 240, 300, 300]
    assert judge(REQUEST, CHECK, NotSeen("NoData", "none"), NOW, 5).again == timedelta(seconds=30)


def test_a_pause_forgets_what_was_counted():
    good = after(judge(REQUEST, CHECK, Number(1), NOW))
    paused = after(pause(good, "Rejected", "a person has rejected it", NOW), good)
    assert said(paused) == ("Unknown", "Rejected")
    assert not judge(paused, CHECK, Number(1), NOW + timedelta(minutes=11)).approves


def test_a_scalar_and_a_single_series_are_numbers():
    stamp = NOW.timestamp()
    assert read_answer(vector((stamp, "0.5")), NOW) == Number(0.5)
    scalar = {"status": "success", "data": {"resultType": "scalar", "result": [stamp, "7"]}}
    assert read_answer(scalar, NOW) == Number(7)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(vector(), "NoData", id="empty"),
        pytest.param(vector((NOW.timestamp(), "1"), (NOW.timestamp(), "2")), "SeveralSeries", id="several"),
        pytest.param(vector((NOW.timestamp(), "NaN")), "NotANumber", id="nan"),
        pytest.param(vector((NOW.timestamp(), "+Inf")), "NotANumber", id="infinity"),
        pytest.param(vector((NOW.timestamp() - 301, "1")), "Stale", id="old"),
        pytest.param(vector((float("nan"), "1")), "Stale", id="of-no-time"),
        pytest.param(vector((NOW.timestamp(), "many")), "AnswerUnreadable", id="no-number"),
        pytest.param(vector((NOW.timestamp(),)), "AnswerUnreadable", id="no-pair"),
        pytest.param({"status": "error", "error": "parse error\x1b[2J"}, "QueryFailed", id="refused"),
        pytest.param({"status": "success", "data": {"resultType": "matrix"}}, "AnswerUnreadable", id="matrix"),
        pytest.param([], "AnswerUnreadable", id="list"),
        pytest.param(
            {"status": "success", "data": {"resultType": "vector", "result": [3]}}, "AnswerUnreadable", id="3"
        ),
    ],
)
def test_an_answer_that_says_nothing_about_now_is_no_number(answer, reason):
    seen = read_answer(answer, NOW)
    assert isinstance(seen, NotSeen)
    assert seen.reason == reason
    assert seen.message.isprintable()


def job(*conditions, **status):
    return {"metadata": {"name": "smoke", "generation": 2}, "status": {"conditions": list(conditions), **status}}


@pytest.mark.parametrize(
    ("document", "seen"),
    [
        pytest.param(job({"type": "Complete", "status": "True"}), Reached("True"), id="reached"),
        pytest.param(job({"type": "Complete", "status": "x" * 99}), Reached("x" * 64), id="cut"),
        pytest.param(job({"type": "Failed", "status": "True"}), Reached(""), id="another-condition"),
        pytest.param({"metadata": {"name": "smoke"}}, Reached(""), id="no-status"),
    ],
)
def test_an_object_says_how_its_condition_stands(document, seen):
    assert read_object(document, JOB) == seen


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        pytest.param(None, "NotFound", id="missing"),
        pytest.param(job({"type": "Complete", "status": "True", "observedGeneration": 1}), "Outdated", id="condition"),
        pytest.param(job({"type": "Complete", "status": "True"}, observedGeneration=1), "Outdated", id="status"),
    ],
)
def test_what_an_object_said_of_an_earlier_generation_does_not_count(document, reason):
    seen = read_object(document, JOB)
    assert isinstance(seen, NotSeen)
    assert seen.reason == reason


def test_an_object_that_has_reached_its_condition_approves():
    assert judge(REQUEST, JOB, Reached("True"), NOW).approves
    waiting = judge(REQUEST, JOB, Reached(""), NOW)
    message = current_condition(after(waiting), "Analyzed")["message"]
    assert message.startswith("Complete of Job team/smoke is absent, must be True")


def make_run(*, created="True", approved="", why="StageUpdatingWaiting", place="after", succeeded="", **more):
    """Make a run that waits for its approval after the stage ``test``, but for what is said."""
    conditions = [{"type": "ApprovalRequestCreated", "status": created}]
    conditions += [{"type": "ApprovalRequestApproved", "status": approved}] if approved else []
    task = {"type": "Approval", "approvalRequestName": "r-after-test", "conditions": conditions}
    progressing = {"type": "Progressing", "status": "False", "reason": why}
    stage = {"stageName": "test", f"{place}StageTaskStatus": [task], "conditions": [progressing]}
    over = [{"type": "Succeeded", "status": succeeded}] if succeeded else []
    spec = {"state": "Run", **more}
    return {"metadata": {"name": "r"}, "spec": spec, "status": {"stagesStatus": [stage], "conditions": over}}


ASKED = make_request({"metadata": {"name": "r"}}, "test", TaskPlace.AFTER)


def test_a_run_that_waits_for_a_request_asks_for_it():
    assert awaits_request(make_run(), ASKED)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(make_run(created="False"), id="not-created-yet"),
        pytest.param(make_run(approved="True"), id="approved"),
        pytest.param(make_run(why="StageUpdatingStarted"), id="clusters-are-updated"),
        pytest.param(make_run(why="StageUpdatingStopped"), id="stopped"),
        pytest.param(make_run(state="Stop"), id="to-be-stopped"),
        pytest.param(make_run(succeeded="False"), id="failed"),
        pytest.param(make_run(place="before"), id="before-the-stage"),
        pytest.param({**make_run(), "metadata": {"name": "other"}}, id="another-run"),
        pytest.param({**make_run(), "metadata": {"name": "r", "namespace": "team"}}, id="a-run-in-a-namespace"),
        pytest.param({"metadata": {"name": "r"}}, id="a-new-run"),
    ],
)
def test_a_run_that_does_not_wait_for_a_request_does_not_ask_for_it(run):
    assert not awaits_request(run, ASKED)


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ({"parentStageRollout": "r", "targetStage": "live"}, "afterStage"),
        ({"parentStageRollout": "s", "targetStage": "test"}, "afterStage"),
        ({"parentStageRollout": "r", "targetStage": "test"}, "beforeStage"),
    ],
)
def test_a_request_for_something_else_is_not_asked_for(spec, kind):
    labels = {"kubernetes-fleet.io/taskType": kind}
    assert not awaits_request(make_run(), {**ASKED, "metadata": {**ASKED["metadata"], "labels": labels}, "spec": spec})


@pytest.mark.parametrize(
    ("text", "rejected"),
    [("r-after-test: too slow", True), ("r-after-test", True), ("r-after-live: too slow", False), ("", False)],
)
def test_the_annotation_names_the_request_that_a_person_has_rejected(text, rejected):
    run = {**make_run(), "metadata": {"name": "r", "annotations": {"harbormaster.dev/rejected": text}}}
    assert is_rejected(run, ASKED) is rejected
