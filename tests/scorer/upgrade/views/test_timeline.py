"""Whole runs on a moved clock: what is in which state when."""

from datetime import timedelta

from scorer.api.conditions import find_condition
from scorer.api.meta import parse_time
from scorer.upgrade.simulation.hub import Crash, Start
from scorer.upgrade.state.step import StartUpgrade
from tests.scorer.upgrade.scenarios import daily, event, member, play, seen, skip, stage
from tests.vector_families.upgrade_runs import Scenario

APPROVAL = {"type": "Approval"}


def over_time(found, *path):
    """What was in which state at the instants that were looked at."""
    states = {}
    for each in found["at"]:
        value = each
        for key in path:
            value = value[key]
        states[each["t"]] = value
    return states


def test_windows_and_waits_decide_when_two_stages_go():
    found = seen(
        member("dev-1", "dev", duration="20m"),
        member("dev-2", "dev", duration="40m"),
        member("prod-eu", "eu", duration="1h", windows=[daily("22:00")]),
        member("prod-us-1", "us", duration="1h", windows=[daily("04:00")]),
        member("prod-us-2", "us", duration="1h", windows=[daily("04:00")]),
        stages=[stage("test", "dev", afterStageWaitSeconds=7200), stage("prod", "eu", "us")],
        checkAt=["0s", "20m", "1h", "3h", "4h", "5h", "6h", "22h", "23h"],
    )
    assert found["times"] == {
        "dev-1": ["0s", "20m"],
        "dev-2": ["20m", "1h"],
        "prod-us-1": ["4h", "5h"],
        "prod-us-2": ["5h", "6h"],
        "prod-eu": ["22h", "23h"],
    }
    assert over_time(found, "run") == {
        "0s": "Running",
        "20m": "Running",
        "1h": "Running",
        "3h": "Pending",
        "4h": "Running",
        "5h": "Running",
        "6h": "Pending",
        "22h": "Running",
        "23h": "Completed",
    }
    assert over_time(found, "stages", "prod")["0s"] == "NotStarted"
    assert over_time(found, "stages", "prod")["3h"] == "Pending"
    assert over_time(found, "groups", "prod/eu")["4h"] == "Pending"
    assert over_time(found, "groups", "prod/us") == {
        **dict.fromkeys(["0s", "20m", "1h"], "NotStarted"),
        "3h": "Pending",
        "4h": "Running",
        "5h": "Running",
        **dict.fromkeys(["6h", "22h", "23h"], "Completed"),
    }
    assert over_time(found, "waits", "test")["1h"] == "Running"
    assert over_time(found, "members", "prod-us-2")["4h"] == "Pending"
    assert found["runDoneAt"] == "23h"


def test_a_failure_lets_what_is_in_flight_end_and_a_restart_goes_on_from_there():
    found = seen(
        member("a1", "a"),
        member("a2", "a", outcomes=[{"fail": "12m"}]),
        member("a3", "a"),
        member("b1", "b", duration="1h"),
        member("b2", "b"),
        member("c1", "c"),
        stages=[stage("one", "a", "b"), stage("two", "c")],
        events=[event("3h", "start")],
        checkAt=["0s", "30m", "42m", "1h", "3h", "3h30m", "4h"],
    )
    assert over_time(found, "run") == {
        "0s": "Running",
        "30m": "Running",
        "42m": "Stopping",
        "1h": "Failed",
        "3h": "Running",
        "3h30m": "Running",
        "4h": "Running",
    }
    halted = next(each for each in found["at"] if each["t"] == "42m")
    assert halted["stages"] == {"one": "Stopping", "two": "NotStarted"}
    assert halted["groups"] == {"one/a": "Failed", "one/b": "Stopping", "two/c": "NotStarted"}
    drained = next(each for each in found["at"] if each["t"] == "1h")
    assert drained["stages"] == {"one": "Failed", "two": "NotStarted"}
    assert drained["groups"] == {"one/a": "Failed", "one/b": "Stopped", "two/c": "NotStarted"}
    assert [drained["members"][name] for name in ("a3", "b2", "c1")] == ["NotStarted"] * 3
    assert found["times"] == {
        "a1": ["0s", "30m"],
        "a2": ["3h", "3h30m"],
        "a3": ["3h30m", "4h"],
        "b1": ["0s", "1h"],
        "b2": ["3h", "3h30m"],
        "c1": ["4h", "4h30m"],
    }
    assert (found["attempts"]["a2"], found["failureCount"], found["run"]) == (2, 0, "Completed")
    assert found["runDoneAt"] == "4h30m"


def test_tolerated_failures_leave_a_run_completed_and_unhealthy():
    group = {"name": "p", "maxConcurrency": "50%", "maxAllowedFailures": "30%"}
    played = play(
        *(member(f"p{place}", "p", outcomes=["fail"] if place in (2, 5) else []) for place in range(1, 7)),
        stages=[stage("s", group, maxAllowedFailures="2")],
    )
    found = played.seen()
    assert found["limits"]["s"]["groups"]["p"] == {"maxConcurrency": 3, "maxAllowedFailures": 2}
    assert {name: times[0] for name, times in found["times"].items()} == {
        **dict.fromkeys(["p1", "p2", "p3"], "0s"),
        **dict.fromkeys(["p4", "p5", "p6"], "30m"),
    }
    assert (found["run"], found["runDoneAt"], found["failureCount"]) == ("Completed", "1h", 2)
    healthy = find_condition(played.hub.run.status.conditions, "Healthy")
    assert (healthy.status, healthy.reason) == ("False", "ToleratedFailures")
    assert "p2: UpgradeFailed" in healthy.message


def test_gates_hold_a_stage_until_they_are_approved_or_their_time_has_come():
    scheduled = {"startDay": "Tuesday", "startTime": "02:00", "utcOffset": "+01:00"}
    found = seen(
        member("q1", "qa"),
        member("w1", "prod"),
        member("w2", "prod", windows=[daily("06:00")]),
        t0="2025-01-06T09:00:00Z",
        stages=[
            stage("qa", "qa", afterStageWaitSeconds=3600, afterGates=[APPROVAL]),
            stage("prod", "prod", beforeGates=[{"type": "ScheduledStart", "scheduledStart": scheduled}]),
        ],
        events=[event("3h", "approve", stage="qa", timing="After")],
        checkAt=["30m", "90m", "3h", "16h", "16h30m", "21h", "21h30m"],
    )
    assert over_time(found, "run") == {
        "30m": "Pending",
        "90m": "Pending",
        "3h": "Pending",
        "16h": "Running",
        "16h30m": "Pending",
        "21h": "Running",
        "21h30m": "Completed",
    }
    begun, waited, approved = found["at"][0], found["at"][1], found["at"][2]
    assert (begun["waits"]["qa"], begun["gates"]["qa:After:0"], begun["stages"]["qa"]) == (
        *("Running", "Pending", "Pending"),
    )
    assert waited["waits"]["qa"] == "Completed"
    assert (approved["stages"], approved["groups"]["prod/prod"]) == (
        {"qa": "Completed", "prod": "Pending"},
        "NotStarted",
    )
    assert approved["gates"] == {"qa:After:0": "Completed", "prod:Before:0": "Pending"}
    assert over_time(found, "members", "w2")["16h"] == "NotStarted"
    assert over_time(found, "members", "w2")["16h30m"] == "Pending"
    assert found["times"]["w1"] == ["16h", "16h30m"]
    assert found["times"]["w2"] == ["21h", "21h30m"]


def test_the_system_and_the_user_skip_members():
    found = seen(
        member("k1", version="1.31.2"),
        member("k2", region="r2"),
        member("k3"),
        stages=[stage("s", "g", afterStageWaitSeconds=1800)],
        catalog={"regions": {"r1": {"kubernetes": ["1.31.2"]}, "r2": {"kubernetes": ["1.30.4"]}}},
        events=[skip("6h", "Member", "k2")],
        checkAt=["0s", "30m", "6h", "6h30m"],
    )
    assert over_time(found, "members") == {
        "0s": {"k1": "Skipped", "k2": "Pending", "k3": "Running"},
        "30m": {"k1": "Skipped", "k2": "Pending", "k3": "Completed"},
        "6h": {"k1": "Skipped", "k2": "Skipped", "k3": "Completed"},
        "6h30m": {"k1": "Skipped", "k2": "Skipped", "k3": "Completed"},
    }
    assert found["at"][0]["reasons"] == {"k1": "AlreadyAtTarget", "k2": "KubernetesVersionNotAvailable"}
    assert over_time(found, "run") == {"0s": "Running", "30m": "Pending", "6h": "Running", "6h30m": "Completed"}
    assert over_time(found, "groups", "s/g")["6h"] == "Completed"
    assert over_time(found, "waits", "s")["6h"] == "Running"


def test_a_crash_before_the_call_repeats_the_same_operation():
    hub = Scenario({"members": [member("m1"), member("m2")]}).hub
    begin = parse_time("2025-01-06T00:00:00Z")
    first = hub.evaluate(begin, [Start(), Crash(calls_first=False)])
    leader = hub.evaluate(begin + timedelta(seconds=40))
    done = hub.evaluate(begin + timedelta(minutes=30, seconds=40))
    begun = [
        [each.operation.id for each in moment.step.actions if isinstance(each, StartUpgrade)]
        for moment in (first, leader)
    ]
    assert begun == [["uid/m1/1"], ["uid/m1/1"]]
    m1, m2 = done.run.status.stages[0].groups[0].members
    assert (m1.state, m1.attempt, m2.state) == ("Completed", 1, "Running")


def test_a_crash_after_the_call_calls_nothing_again():
    hub = Scenario({"members": [member("m1"), member("m2")]}).hub
    begin = parse_time("2025-01-06T00:00:00Z")
    hub.evaluate(begin, [Start()])
    leader = hub.evaluate(begin + timedelta(seconds=40), [Crash()])
    assert not leader.step.actions
    assert not leader.step.changed
