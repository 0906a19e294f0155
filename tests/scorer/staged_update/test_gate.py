"""Whose turn it is in a staged update run, by the run's own record."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.placement.staged_update import ClusterStagedUpdateRun
from scorer.member_gate.answer import RETRY_INTERVAL
from scorer.staged_update.gate import covers, has_ended, may_update

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
STARTED, DONE = ("Started",), ("Started", "Succeeded")


def said(text):
    """Return a condition from ``Type`` or ``Type=Status``."""
    kind, _, status = text.partition("=")
    return {"type": kind, "status": status or "True", "lastTransitionTime": "2026-03-01T11:59:00Z"}


def cluster(name, *conditions):
    return {"clusterName": name, "conditions": [said(each) for each in conditions]}


def stage(name, *clusters, conditions=(), before=(), after=()):
    return {
        "stageName": name,
        "clusters": list(clusters),
        "conditions": [said(each) for each in conditions],
        "beforeStageTaskStatus": list(before),
        "afterStageTaskStatus": list(after),
    }


def approval(*conditions, request=""):
    return {"type": "Approval", "approvalRequestName": request, "conditions": [said(each) for each in conditions]}


def wait(*conditions):
    return {"type": "TimedWait", "conditions": [said(each) for each in conditions]}


def run_of(*stages, state="Run", conditions=("Initialized",), plan=None, last=None):
    status = {"conditions": [said(each) for each in conditions], "stagesStatus": list(stages)}
    status |= {"stagedUpdateStrategySnapshot": {"stages": plan}} if plan is not None else {}
    status |= {"deletionStageStatus": last} if last is not None else {}
    return ClusterStagedUpdateRun.read(
        {
            "metadata": {"name": "spring"},
            "spec": {"placementName": "p", "stagedRolloutStrategyName": "s", "state": state},
            "status": status,
        }
    )


def turn(run, name="b", promised=()):
    found = may_update(run, name, NOW, promised)
    return str(found.reason), found.message, found.retry_after


@pytest.mark.parametrize(
    ("conditions", "ended"),
    [
        pytest.param([], False, id="new"),
        pytest.param(["Initialized"], False, id="under-way"),
        pytest.param(["Initialized=False"], True, id="cannot-be-initialised"),
        pytest.param(["Initialized", "Succeeded"], True, id="succeeded"),
        pytest.param(["Initialized", "Succeeded=False"], True, id="aborted"),
    ],
)
def test_a_run_has_ended_when_nothing_more_comes_of_it(conditions, ended):
    assert has_ended(run_of(conditions=conditions)) is ended


def test_a_run_covers_the_clusters_of_its_stages_and_those_it_removes():
    run = run_of(stage("one", cluster("a")), stage("two", cluster("b")), last=stage("gone", cluster("c")))
    assert [covers(run, name) for name in "abcd"] == [True, True, True, False]


ONE = stage("one", cluster("b"))


@pytest.mark.parametrize(
    ("run", "reason", "message"),
    [
        pytest.param(
            run_of(ONE, conditions=()), "WaitingForRun", "run spring has not been initialized yet", id="not-initialised"
        ),
        pytest.param(
            run_of(ONE, state="Initialize", conditions=()),
            "WaitingForRun",
            "run spring has not been initialized yet",
            id="to-be-initialised",
        ),
        pytest.param(
            run_of(ONE, state="Initialize"),
            "WaitingForRun",
            "run spring is initialized and waits for state Run",
            id="initialised",
        ),
        pytest.param(
            run_of(stage("one", cluster("a"))), "WaitingForRun", "run spring does not change cluster b", id="not-its"
        ),
        pytest.param(
            run_of(stage("one", cluster("b", *DONE))), "NothingToDo", "run spring has updated cluster b", id="updated"
        ),
        pytest.param(
            run_of(stage("one", cluster("b", *DONE)), state="Stop"),
            "NothingToDo",
            "run spring has updated cluster b",
            id="updated-and-stopped",
        ),
        pytest.param(run_of(ONE, state="Stop"), "RunStopped", "run spring is stopped", id="stopped"),
        pytest.param(
            run_of(stage("one", cluster("b", *STARTED)), state="Stop"),
            "Allowed",
            "run spring is updating cluster b in stage one",
            id="what-has-begun-is-ended",
        ),
        pytest.param(
            run_of(stage("one", cluster("a")), stage("two", cluster("b", *STARTED))),
            "Allowed",
            "run spring is updating cluster b in stage two",
            id="under-way-whatever-comes-before",
        ),
        pytest.param(run_of(ONE), "Allowed", "stage one of run spring is next", id="its-turn"),
    ],
)
def test_what_the_record_says_of_a_cluster(run, reason, message):
    assert turn(run) == (reason, message, RETRY_INTERVAL)


def after_one(*clusters, after=(), conditions=()):
    """A run that reaches cluster b in its second stage."""
    return run_of(stage("one", *clusters, after=after, conditions=conditions), stage("two", cluster("b")))


def test_the_detail_says_what_is_waited_for():
    assert may_update(run_of(ONE, conditions=()), "b", NOW).detail == {"run": "spring"}
    assert may_update(run_of(ONE), "b", NOW).detail == {"run": "spring", "stage": "one"}
    later = after_one(cluster("a"))
    assert may_update(later, "b", NOW).detail == {"run": "spring", "stage": "two", "waitsForStage": "one"}
    asked = run_of(stage("one", cluster("b"), before=[approval(request="spring-before-one")]))
    assert may_update(asked, "b", NOW).detail["approvalRequest"] == "spring-before-one"
    assert "approvalRequest" not in may_update(run_of(stage("one", cluster("b"), before=[approval()])), "b", NOW).detail


@pytest.mark.parametrize(
    ("run", "reason", "message"),
    [
        pytest.param(
            after_one(cluster("a", *DONE), cluster("c"), after=[approval()]),
            "WaitingForStage",
            "stage one of run spring comes first",
            id="its-clusters",
        ),
        pytest.param(
            after_one(cluster("a", *DONE)),
            "WaitingForStage",
            "stage one of run spring is about to complete",
            id="its-end",
        ),
        pytest.param(
            after_one(cluster("a", *DONE), after=[approval("ApprovalRequestApproved"), wait("WaitTimeElapsed")]),
            "WaitingForStage",
            "stage one of run spring is about to complete",
            id="its-end-after-its-tasks",
        ),
        pytest.param(
            after_one(cluster("a", *DONE), after=[wait("WaitTimeElapsed"), approval("ApprovalRequestCreated")]),
            "WaitingForApproval",
            "after stage one of run spring, approval is required",
            id="an-approval",
        ),
        pytest.param(
            after_one(cluster("a", *DONE), after=[approval(request="spring-after-one")]),
            "WaitingForApproval",
            "after stage one of run spring, approval of spring-after-one is required",
            id="an-approval-by-name",
        ),
        pytest.param(
            after_one(cluster("a"), conditions=["Succeeded"]),
            "Allowed",
            "stage two of run spring is next",
            id="nothing",
        ),
        pytest.param(
            run_of(stage("one", cluster("a")), last=stage("gone", cluster("b"))),
            "WaitingForStage",
            "stage one of run spring comes first",
            id="removals-come-last",
        ),
        pytest.param(
            run_of(stage("one", cluster("b")), stage("two", cluster("a"))),
            "Allowed",
            "stage one of run spring is next",
            id="no-later-stage",
        ),
    ],
)
def test_what_keeps_an_earlier_stage_from_being_over(run, reason, message):
    assert turn(run) == (reason, message, RETRY_INTERVAL)


def test_a_stage_may_have_to_be_approved_before_it_begins():
    waiting = stage("one", cluster("b"), before=[approval(request="spring-before-one")])
    assert turn(run_of(waiting)) == (
        "WaitingForApproval",
        "before stage one of run spring, approval of spring-before-one is required",
        RETRY_INTERVAL,
    )
    assert turn(run_of(stage("one", cluster("b"), before=[approval("ApprovalRequestApproved")])))[0] == "Allowed"
    assert (
        turn(run_of(stage("one", cluster("b"), before=[wait()])))[0] == "Allowed"
    )  # only approvals come before a stage


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param("10m", timedelta(minutes=9), id="some-time"),
        pytest.param("30s", timedelta(seconds=1), id="about-to-end"),
        pytest.param("2562048h", timedelta(hours=2562047), id="longer-than-can-be-counted"),
        pytest.param("9" * 50 + "h", timedelta(hours=2562047), id="much-longer"),
        pytest.param("2562047h", timedelta(hours=2562047) - timedelta(minutes=1), id="as-long-as-can-be-counted"),
    ],
)
def test_a_wait_that_is_too_long_to_be_counted_is_no_short_one(text, left):
    assert turn(waiting(text)) == ("WaitTime", "run spring waits after its stage one", left)


def waiting(text, conditions=("Progressing=False",)):
    """A run whose first stage finished its only cluster a minute ago, and now waits."""
    tasks = [{"type": "Approval"}, {"type": "TimedWait", "waitTime": text}]
    return run_of(
        stage("one", cluster("a", *DONE), conditions=conditions, after=[wait()]),
        stage("two", cluster("b")),
        plan=[{"name": "zero"}, {"name": "one", "afterStageTasks": tasks}, {"name": "two"}],
    )


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(waiting("10m", conditions=()), id="since-when-is-not-known"),
        pytest.param(after_one(cluster("a", *DONE), after=[wait()]), id="how-long-is-not-known"),
    ],
)
def test_a_wait_of_unknown_length_is_asked_about_soon(run):
    assert turn(run) == ("WaitTime", "run spring waits after its stage one", timedelta(seconds=1))


@pytest.mark.parametrize(
    ("limit", "busy", "most"),
    [
        pytest.param(1, ["a"], 1, id="full"),
        pytest.param(2, ["a"], None, id="room"),
        pytest.param("50%", ["a"], 1, id="a-share-rounds-down"),
        pytest.param("67%", ["a"], None, id="room-in-a-share"),
        pytest.param("many", ["a"], 1, id="one-where-it-cannot-be-read"),
        pytest.param("many", [], None, id="room-for-one"),
    ],
)
def test_no_more_than_the_limit_are_changed_at_once(limit, busy, most):
    clusters = [cluster(name, *(STARTED if name in busy else ())) for name in "abc"]
    run = run_of(stage("one", *clusters), plan=[{"name": "one", "maxConcurrency": limit}])
    expected = ("Allowed", "stage one of run spring is next")
    if most:
        expected = (
            "BudgetUsedUp",
            f"stage one of run spring changes at most {most} concurrently, and is busy with {', '.join(busy)}",
        )
    assert turn(run)[:2] == expected


def test_without_a_plan_all_clusters_of_a_stage_are_changed_at_once():
    assert turn(run_of(stage("one", cluster("a", *STARTED), cluster("b"))))[0] == "Allowed"


def test_what_is_promised_counts_until_it_has_been_done_or_has_failed():
    plan = [{"name": "one", "maxConcurrency": 1}]
    for conditions, reason in (((), "BudgetUsedUp"), (DONE, "Allowed"), (("Succeeded=False",), "Allowed")):
        run = run_of(stage("one", cluster("a", *conditions), cluster("b")), plan=plan)
        assert turn(run, promised=["a"])[0] == reason
    assert turn(run_of(stage("one", cluster("a"), cluster("b")), plan=plan))[0] == "Allowed"


def test_no_more_than_three_busy_clusters_are_named():
    busy = [cluster(name, *STARTED) for name in "acde"]
    run = run_of(stage("one", cluster("b"), *busy), plan=[{"name": "one", "maxConcurrency": 4}])
    assert turn(run)[1] == "stage one of run spring changes at most 4 concurrently, and is busy with a, c, d"
