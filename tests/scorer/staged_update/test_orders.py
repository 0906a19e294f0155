"""What a person may order of a run, and what is refused with which words."""

import pytest

from scorer.api.placement.staged_update import RunState
from scorer.staged_update.orders import (
    RunOrder,
    RunOrderRefusedError,
    approved_conditions,
    approved_request,
    is_approved,
    open_approval,
    order_resume,
    order_start,
    order_stop,
    rejection_patch,
    state_patch,
)
from scorer.staged_update.phase import situation_of
from tests.scorer.staged_update.records import (
    DONE,
    NOW,
    OVER,
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

WANTED = RunOrder("r")


def situation(run, *requests):
    return situation_of(run, requests, NOW)


def run_in(state, **more):
    return run_of(stage("try", cluster("a")), state=state, **more)


@pytest.mark.parametrize(
    ("order", "states"),
    [
        (
            order_stop,
            {"Run": RunState.STOP, "Stop": None, "Initialize": "has not been started", "": "has not been started"},
        ),
        (order_resume, {"Stop": RunState.RUN, "Run": None, "Initialize": "start it", "": "start it"}),
        (
            lambda run, found: order_start(run, found, WANTED),
            {"Initialize": RunState.RUN, "": RunState.RUN, "Stop": RunState.RUN, "Run": None},
        ),
    ],
    ids=["stop", "resume", "start"],
)
def test_an_order_sets_the_state_or_says_why_not(order, states):
    for state, wanted in states.items():
        run = run_in(state)
        if isinstance(wanted, str) and wanted not in set(RunState):
            with pytest.raises(RunOrderRefusedError, match=wanted):
                order(run, situation(run))
        else:
            assert order(run, situation(run)) is wanted


@pytest.mark.parametrize(
    "order",
    [order_stop, order_resume, lambda run, found: order_start(run, found, WANTED)],
    ids=["stop", "resume", "start"],
)
def test_a_run_that_is_over_takes_no_order(order):
    run = run_in("Run", conditions=OVER)
    with pytest.raises(RunOrderRefusedError, match=r"run r is finished \(Succeeded\)"):
        order(run, situation(run))


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("placementName", RunOrder("r", placement="q")),
        ("stagedRolloutStrategyName", RunOrder("r", strategy="bold")),
        ("resourceSnapshotIndex", RunOrder("r", index="3")),
    ],
)
def test_a_run_that_is_there_is_only_started_if_it_is_the_wanted_one(field, wanted):
    run = run_in("Initialize")
    with pytest.raises(RunOrderRefusedError, match=f"its spec.{field} is "):
        order_start(run, situation(run), wanted)


def test_a_new_run_says_what_is_wanted_and_no_more():
    assert RunOrder("r", "", "p", "s").document() == {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterStagedUpdateRun",
        "metadata": {"name": "r"},
        "spec": {"placementName": "p", "stagedRolloutStrategyName": "s", "state": "Run"},
    }
    made = RunOrder("r", "shop", "p", "s", "4", RunState.INITIALIZE).document()
    assert (made["kind"], made["metadata"]["namespace"]) == ("StagedUpdateRun", "shop")
    assert (made["spec"]["resourceSnapshotIndex"], made["spec"]["state"]) == ("4", "Initialize")


def test_a_rejection_stops_the_run_and_going_on_takes_it_back():
    patch = rejection_patch("r-after-try", " too slow ")
    assert patch["spec"] == {"state": "Stop"}
    assert patch["metadata"]["annotations"] == {"harbormaster.dev/rejected": "r-after-try: too slow"}
    assert state_patch(RunState.RUN)["metadata"]["annotations"] == {"harbormaster.dev/rejected": None}
    assert state_patch(RunState.STOP) == {"spec": {"state": "Stop"}}


def waiting(*names):
    """Return a run that waits for these approvals after its first stage."""
    tasks = [approval(name, said("ApprovalRequestCreated")) for name in names]
    first = stage("try", cluster("a", STARTED, DONE), conditions=[WAITS], after=tasks)
    return run_of(first, stage("all", cluster("b")), conditions=WAITING)


def test_the_approval_that_is_open_is_found_by_stage_or_by_request_or_alone():
    run = waiting("r-after-try")
    for named in ({}, {"stage": "try"}, {"request": "r-after-try"}):
        assert open_approval(run, situation(run), **named).request == "r-after-try"


def test_of_several_approvals_one_has_to_be_named():
    run = waiting("r-after-try", "r-twice")
    with pytest.raises(RunOrderRefusedError, match="several approvals: r-after-try, r-twice"):
        open_approval(run, situation(run))
    assert open_approval(run, situation(run), request="r-twice").request == "r-twice"


@pytest.mark.parametrize(
    ("run", "named", "message"),
    [
        pytest.param(waiting("x"), {"stage": "sea"}, "has no stage 'sea'. Its stages: try, all", id="no such stage"),
        pytest.param(waiting("x"), {"stage": "all"}, "waits for another approval: x", id="another stage"),
        pytest.param(run_in("Run", conditions=OVER), {}, r"is finished \(Succeeded", id="over"),
        pytest.param(run_in("Run"), {}, r"is not waiting for an approval \(Running", id="running"),
        pytest.param(
            run_in("Initialize", conditions=["Initialized"]), {}, "but for a user to start it", id="not started"
        ),
    ],
)
def test_where_no_approval_is_open_the_reason_is_told(run, named, message):
    with pytest.raises(RunOrderRefusedError, match=message):
        open_approval(run, situation(run), **named)


def test_an_approval_replaces_an_older_word_and_keeps_the_other_conditions():
    stored = request("r-after-try", said("Other"), said("Approved=False", "no"))
    other, given = approved_conditions(stored, "by ann", NOW)
    assert other["type"] == "Other"
    assert (given["status"], given["observedGeneration"], given["message"]) == ("True", 1, "by ann")
    assert is_approved({**stored, "status": {"conditions": [other, given]}})
    assert not is_approved(stored)


def test_what_is_approved_already_is_told_from_what_was_never_asked():
    tasks = [approval("r-before-try", said("ApprovalRequestApproved"))]
    run = run_of(stage("try", cluster("a", STARTED), before=tasks))
    assert approved_request(run, (), stage="try") == "r-before-try"
    assert approved_request(run, (), request="r-before-try") == "r-before-try"
    assert approved_request(run, ()) == ""
    assert approved_request(run, (), stage="all") == ""
    assert approved_request(run, [request("r-x", said("Approved"))], request="r-x") == "r-x"
