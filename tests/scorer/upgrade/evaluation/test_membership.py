"""Members that come and go, those that wait for too long, and when a run is looked at again."""

import pytest

from scorer.upgrade.simulation.hub import Start
from scorer.upgrade.state.operations import occupied_members
from scorer.upgrade.state.step import CancelUpgrade
from tests.scorer.upgrade.scenarios import (
    BEGIN,
    at,
    daily,
    entry,
    event,
    member,
    prepared,
    said,
    seen,
    skip,
    stage,
    started,
)


def test_a_member_that_leaves_while_it_is_upgraded_is_called_off_and_frees_its_slot():
    hub, _ = started(member("a"), member("b"))
    del hub.members["a"]
    moment = hub.evaluate(at("10m"))
    assert CancelUpgrade("uid/a/1", "a", "simulated") in moment.step.actions
    assert (entry(moment.run, "a").reason, entry(moment.run, "b").state) == ("MemberRemoved", "Running")
    assert moment.run.status.failure_count == 0


def test_a_member_that_joins_again_waits_for_the_end_of_the_upgrade_that_it_left_in():
    hub, _ = started(member("a", duration="1h"), member("b"))
    left = hub.members.pop("a")
    run = hub.evaluate(at("10m")).run
    assert entry(run, "a").operation_open
    hub.members["a"] = left
    assert dict(occupied_members(hub.evaluate(at("20m")).run))["a"].startswith("run run has abandoned upgrade uid/a/1")
    assert not entry(hub.evaluate(at("2h")).run, "a").operation_open


def test_members_of_later_stages_that_leave_are_skipped_at_once():
    found = seen(
        *(member("a", "a"), member("b", "b")),
        stages=[stage("one", "a"), stage("two", "b")],
        events=[event("10m", "removeMember", name="b")],
        checkAt=["10m"],
    )
    assert (found["at"][0]["members"]["b"], found["at"][0]["stages"]["two"]) == ("Skipped", "Skipped")
    assert found["runDoneAt"] == "30m"


def test_members_that_have_had_their_turn_may_leave():
    found = seen(
        *(member("a"), member("b", outcomes=["fail"])),
        events=[event("2h", "removeMember", name="a"), event("2h", "removeMember", name="b")],
    )
    assert found["members"] == {"a": "Completed", "b": "Failed"}


def test_members_that_join_later_are_named_and_take_no_part():
    hub, moment = started(member("a"), stages=[stage("s", "g")])
    assert said(moment.run, "MembershipDrifted") == "False NoChange"
    late = prepared(member("late"), member("other", "elsewhere")).hub.members
    hub.members.update(late)
    run = hub.evaluate(at("10m")).run
    assert said(run, "MembershipDrifted") == "True MembersChanged"
    message = next(each.message for each in run.status.conditions if each.type == "MembershipDrifted")
    assert "late" in message
    assert "other" not in message


@pytest.mark.parametrize(
    ("policy", "state", "run"),
    [
        pytest.param("Wait", "Completed", "Completed", id="wait"),
        pytest.param("Skip", "Skipped", "Skipped", id="skip"),
        pytest.param("Fail", "Failed", "Failed", id="fail"),
    ],
)
def test_the_policy_says_what_becomes_of_a_member_that_waits_for_too_long(policy, state, run):
    scenario = prepared(
        member("a", windows=[daily("10:00")]), spec={"timeouts": {"pendingSeconds": 7200, "onPendingTimeout": policy}}
    )
    scenario.play()
    found = scenario.seen()
    assert (found["members"], found["run"]) == ({"a": state}, run)
    if policy != "Wait":
        assert (found["reasons"], found["runDoneAt"]) == ({"a": "PendingTimeout"}, "2h")


@pytest.mark.parametrize(
    ("given", "wakeup"),
    [
        pytest.param({"memberTimeout": "3h"}, "3h", id="deadline-of-an-attempt"),
        pytest.param({}, None, id="only-the-back-end-knows"),
    ],
)
def test_a_run_in_upgrade_is_looked_at_when_its_time_is_over(given, wakeup):
    _, moment = started(member("a"), **given)
    assert moment.step.again == (at(wakeup) if wakeup else None)
    assert moment.step.in_flight


@pytest.mark.parametrize(
    ("members", "stages", "wakeup"),
    [
        pytest.param([member("a", windows=[daily("09:30")])], [stage("s", "g")], "9h30m", id="a-window-opens"),
        pytest.param(
            [member("a", windows=[daily("09:30")]), member("b", windows=[daily("07:00")])],
            [stage("s", "g")],
            "7h",
            id="the-first-window-opens",
        ),
        pytest.param(
            [member("a", version="1.31.2"), member("b", "b")],
            [
                stage("s", "g", {"name": "b", "beforeGates": [{"type": "Approval"}]}),
            ],
            None,
            id="an-approval-comes-by-itself",
        ),
        pytest.param(
            [member("a")],
            [
                stage(
                    "s",
                    "g",
                    beforeGates=[
                        {"type": "ScheduledStart", "scheduledStart": {"startDay": "Monday", "startTime": "08:00"}}
                    ],
                )
            ],
            "8h",
            id="a-scheduled-gate",
        ),
    ],
)
def test_a_run_that_waits_is_looked_at_at_the_exact_instant(members, stages, wakeup):
    _, moment = started(*members, stages=stages)
    assert moment.step.again == moment.run.status.next_wakeup == (at(wakeup) if wakeup else None)
    assert not moment.step.in_flight


def test_a_run_in_its_wait_is_looked_at_at_the_end_of_it():
    hub, _ = started(member("a"), stages=[stage("s", "g", afterStageWaitSeconds=5400)])
    assert hub.evaluate(at("30m")).step.again == at("2h")


def test_a_run_that_is_stopped_or_over_is_not_looked_at_again():
    hub, _ = started(member("a", windows=[daily("10:00")]))
    ((_, order),) = prepared(events=[event("1h", "stop")], start="").orders()
    assert hub.evaluate(at("1h"), [order]).step.again is None
    ((_, order),) = prepared(events=[skip("1h", "Stage", "default")], start="").orders()
    over = prepared(member("a")).hub.evaluate(BEGIN, [Start(), order])
    assert (over.run.status.state, over.step.again) == ("Skipped", None)


def test_after_a_long_outage_a_missed_window_stays_missed():
    hub, _ = started(member("a", windows=[daily("04:00", 2)]))
    run = hub.evaluate(at("7h")).run
    assert (entry(run, "a").state, entry(run, "a").next_window_open) == ("Pending", at("1d4h"))


def test_instants_are_recorded_in_whole_seconds_and_waits_are_not_shorter_for_it():
    hub = prepared(member("a"), stages=[stage("s", "g", afterStageWaitSeconds=60)]).hub
    hub.evaluate(BEGIN.replace(microsecond=900_000), [Start()])
    done = hub.evaluate(at("30m1s").replace(microsecond=500_000))
    assert done.run.status.stages[0].after_stage_wait.start_time == at("30m1s")
    assert hub.evaluate(at("31m").replace(microsecond=999_999)).run.status.state == "Running"
    assert hub.evaluate(at("31m1s")).run.status.state == "Completed"


def test_a_member_that_would_be_in_two_groups_is_not_named_among_those_that_joined_later():
    both = {"name": "all", "memberSelector": {"matchLabels": {"x": "1"}}}
    hub, _ = started(member("a"), stages=[stage("s", "g", both)])
    hub.members.update(prepared(member("late", labels={"x": "1"})).hub.members)
    run = hub.evaluate(at("10m")).run
    assert said(run, "MembershipDrifted") == "False NoChange"
    assert run.status.state == "Running"
