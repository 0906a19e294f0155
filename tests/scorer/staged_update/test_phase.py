"""Where a run stands, and what it waits for, by its own record."""

from datetime import timedelta

import pytest

from scorer.staged_update.phase import RunPhase, RunWaitKind, situation_of
from tests.scorer.staged_update.records import (
    BEGAN,
    DONE,
    NOW,
    STARTED,
    WAITING,
    WAITS,
    approval,
    cluster,
    request,
    run_of,
    said,
    stage,
)


def waits_of(run, *requests, now=NOW):
    return situation_of(run, requests, now).waits


@pytest.mark.parametrize(
    ("state", "conditions", "phase"),
    [
        ("Run", [], RunPhase.INITIALIZING),
        ("Initialize", ["Initialized"], RunPhase.INITIALIZED),
        ("Run", ["Initialized"], RunPhase.RUNNING),
        ("Stop", ["Initialized"], RunPhase.STOPPING),
        ("Run", ["Initialized=False UpdateRunInitializedFailed"], RunPhase.FAILED),
        ("Run", ["Initialized", "Progressing=True UpdateRunProgressing"], RunPhase.RUNNING),
        ("Run", ["Initialized", "Progressing=False UpdateRunWaiting"], RunPhase.WAITING),
        ("Run", ["Initialized", "Progressing=False UpdateRunStuck"], RunPhase.STUCK),
        ("Stop", ["Initialized", "Progressing=Unknown UpdateRunStopping"], RunPhase.STOPPING),
        ("Stop", ["Initialized", "Progressing=False UpdateRunStopped"], RunPhase.STOPPED),
        (
            "Run",
            ["Initialized", "Progressing=False UpdateRunFailed", "Succeeded=False UpdateRunFailed"],
            RunPhase.ABORTED,
        ),
        (
            "Run",
            ["Initialized", "Progressing=False UpdateRunSucceeded", "Succeeded=True UpdateRunSucceeded"],
            RunPhase.SUCCEEDED,
        ),
    ],
)
def test_the_conditions_of_a_run_are_one_word(state, conditions, phase):
    assert situation_of(run_of(state=state, conditions=conditions), (), NOW).phase is phase


@pytest.mark.parametrize(
    ("state", "progressing", "phase"),
    [
        ("Stop", "Progressing=False UpdateRunWaiting", RunPhase.STOPPING),
        ("Run", "Progressing=False UpdateRunStopped", RunPhase.RUNNING),
    ],
)
def test_a_state_that_the_run_has_not_noticed_yet_counts_before_what_it_says(state, progressing, phase):
    run = run_of(state=state, generation=2, conditions=["Initialized", progressing])
    assert situation_of(run, (), NOW).phase is phase


def test_an_initialised_run_waits_for_a_person_to_start_it():
    run = run_of(stage("try", cluster("a")), state="Initialize", conditions=["Initialized"])
    found = situation_of(run, (), NOW)
    assert [(wait.kind, wait.since) for wait in found.waits] == [(RunWaitKind.STATE, BEGAN)]
    assert found.needs_person
    assert found.stage == "try"


def test_a_stopped_run_waits_for_its_state_alone_even_where_an_approval_is_open():
    after = [approval("r-after-try", said("ApprovalRequestCreated"))]
    stopped = stage("try", cluster("a", STARTED, DONE), conditions=[WAITS], after=after)
    run = run_of(stopped, state="Stop", conditions=["Initialized", "Progressing=False UpdateRunStopped"])
    assert [wait.kind for wait in waits_of(run)] == [RunWaitKind.STATE]


def before_all(*conditions):
    task = approval("r-before-all", *conditions)
    return run_of(stage("all", cluster("a"), conditions=[WAITS], before=[task]), conditions=WAITING)


def test_the_approval_before_a_stage_is_waited_for_once_it_has_been_asked_for():
    (wait,) = waits_of(before_all(said("ApprovalRequestCreated")), request("r-before-all"))
    assert (wait.kind, wait.stage, wait.request, wait.needs_person) == (
        RunWaitKind.APPROVAL,
        "all",
        "r-before-all",
        True,
    )
    assert waits_of(before_all(), request("r-before-all")) == ()


def test_an_approval_that_the_run_has_accepted_is_not_waited_for():
    assert waits_of(before_all(said("ApprovalRequestCreated"), said("ApprovalRequestApproved"))) == ()


def test_an_approval_that_was_given_needs_no_person_any_more():
    (wait,) = waits_of(before_all(said("ApprovalRequestCreated")), request("r-before-all", said("Approved")))
    assert wait.answered
    assert not wait.needs_person


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(said("Approved=False"), id="not approved"),
        pytest.param(said("Approved") | {"observedGeneration": 7}, id="of another generation"),
    ],
)
def test_an_approval_that_does_not_count_still_needs_a_person(given):
    (wait,) = waits_of(before_all(said("ApprovalRequestCreated")), request("r-before-all", given))
    assert wait.needs_person


def analyzed(text, message="main returned 7, must be below 5 [0123abcd]"):
    return said(f"Analyzed={text}") | {"message": message}


@pytest.mark.parametrize(
    ("text", "needs_person"),
    [
        pytest.param("False NotMet", False, id="not-met-yet"),
        pytest.param("True Met", False, id="met"),
        pytest.param("Unknown Timeout", False, id="no-answer"),
        pytest.param("Unknown Rejected", True, id="rejected"),
        pytest.param("Unknown AnalysisInvalid", True, id="unreadable"),
        pytest.param("Unknown EndpointUnknown", True, id="endpoint-not-in-the-settings"),
        pytest.param("Unknown EndpointNotAllowed", True, id="endpoint-not-for-this-namespace"),
        pytest.param("Unknown KindNotAllowed", True, id="kind-not-in-the-settings"),
        pytest.param("Unknown NamespaceMissing", True, id="no-namespace-in-the-annotation"),
    ],
)
def test_what_is_looked_at_for_an_approval_is_told_and_a_person_may_wait(text, needs_person):
    (wait,) = waits_of(before_all(said("ApprovalRequestCreated")), request("r-before-all", analyzed(text)))
    assert wait.message == "approval of r-before-all before stage all: main returned 7, must be below 5"
    assert wait.needs_person is needs_person


def test_a_request_of_another_run_answers_nothing():
    theirs = request("r-before-all", said("Approved"), run="another")
    (wait,) = waits_of(before_all(said("ApprovalRequestCreated")), theirs)
    assert wait.needs_person


PLAN = {"name": "try", "afterStageTasks": [{"type": "Approval"}, {"type": "TimedWait", "waitTime": "90m"}]}


def after_try(*conditions, plan=PLAN):
    tasks = [
        {"type": "TimedWait", "conditions": list(conditions)},
        approval("r-after-try", said("ApprovalRequestCreated")),
    ]
    done = stage("try", cluster("a", STARTED, DONE), conditions=[WAITS], after=tasks)
    return run_of(done, conditions=WAITING, plan=[plan])


def test_after_a_stage_its_wait_and_its_approval_are_open_side_by_side():
    timed, asked = waits_of(after_try())
    assert (timed.kind, timed.since, timed.until) == (RunWaitKind.TIMED_WAIT, BEGAN, BEGAN + timedelta(minutes=90))
    assert not timed.needs_person
    assert asked.request == "r-after-try"


@pytest.mark.parametrize(
    ("conditions", "now"),
    [((said("WaitTimeElapsed"),), NOW), ((), BEGAN + timedelta(minutes=90))],
    ids=["recorded", "by the clock"],
)
def test_a_wait_that_is_over_is_not_waited_for(conditions, now):
    assert [wait.kind for wait in waits_of(after_try(*conditions), now=now)] == [RunWaitKind.APPROVAL]


@pytest.mark.parametrize("text", ["soon", "2562047h", ""])
def test_the_end_of_a_wait_that_nobody_can_tell_is_unknown(text):
    plan = {"name": "try", "afterStageTasks": [{"type": "TimedWait", "waitTime": text}]}
    timed = waits_of(after_try(plan=plan))[0]
    assert timed.until is None or timed.until > NOW + timedelta(days=36500)


def test_clusters_in_flight_and_those_that_may_not_be_touched_are_waited_for():
    held = said("Started=False ClusterUpdatingWaiting", "the maintenance windows open at 2026-03-02T01:00:00Z")
    working = said("Started=True ClusterUpdatingStarted", "not applied: quota")
    entries = [cluster("a", STARTED, DONE), cluster("b", working), cluster("c", held), cluster("d")]
    found = situation_of(run_of(stage("try", *entries), stage("all", cluster("e"))), (), NOW)
    assert [(wait.kind, wait.cluster, wait.since) for wait in found.waits] == [
        (RunWaitKind.CLUSTER, "b", BEGAN),
        (RunWaitKind.HELD, "c", BEGAN),
    ]
    assert "quota" in found.waits[0].message
    assert "2026-03-02T01:00:00Z" in found.waits[1].message
    assert not found.needs_person


def test_a_stopping_run_waits_for_what_is_in_flight_only():
    held = said("Started=False ClusterUpdatingWaiting", "the maintenance windows are closed")
    run = run_of(
        stage("try", cluster("b", STARTED), cluster("c", held)),
        state="Stop",
        conditions=["Initialized", "Progressing=Unknown UpdateRunStopping"],
    )
    assert [wait.cluster for wait in waits_of(run)] == ["b"]


def test_after_the_last_stage_the_removals_are_waited_for():
    run = run_of(stage("try", conditions=[DONE]), removed=[cluster("z", STARTED)])
    found = situation_of(run, (), NOW)
    assert found.stage == "kubernetes-fleet.io/deleteStage"
    assert [(wait.kind, wait.cluster) for wait in found.waits] == [(RunWaitKind.CLUSTER, "z")]


def test_a_run_that_is_over_waits_for_nothing_and_says_where_it_has_failed():
    conditions = ["Initialized", "Progressing=False UpdateRunFailed", said("Succeeded=False UpdateRunFailed", "why")]
    stages = (
        stage("try", conditions=[DONE]),
        stage("all", cluster("b", STARTED), conditions=[said("Succeeded=False")]),
    )
    found = situation_of(run_of(*stages, conditions=conditions), (), NOW)
    assert (found.is_over, found.stage, found.waits, found.message) == (True, "all", (), "why")


@pytest.mark.parametrize(
    "status",
    [
        pytest.param("done", id="text"),
        pytest.param({"conditions": "none", "stagesStatus": [7], "deletionStageStatus": []}, id="other types"),
        pytest.param({"conditions": [{"type": "Initialized", "status": "True"}], "stagesStatus": [{}]}, id="empty"),
    ],
)
def test_a_record_that_no_run_wrote_is_read_as_far_as_it_can_be(status):
    found = situation_of({"metadata": {"name": "r"}, "spec": {"state": "Run"}, "status": status}, (), NOW)
    assert found.phase in (RunPhase.INITIALIZING, RunPhase.RUNNING)
