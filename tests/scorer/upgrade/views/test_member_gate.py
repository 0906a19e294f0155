"""Whose turn it is in an upgrade run, by the run's own record."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.meta import format_time
from scorer.api.upgrade.run import ClusterUpgradeRun
from scorer.member_gate.answer import RETRY_INTERVAL
from scorer.upgrade.views.member_gate import covers, has_ended, is_upgrading, may_upgrade

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SOON = timedelta(minutes=5)
MESSAGE = "somebody has to see to it"


def member(name, state="NotStarted", reason="", **more):
    return {"name": name, "state": state, "reason": reason, **more}


def group(*members, name="g", state="Running", concurrency=0, **more):
    return {"name": name, "state": state, "maxConcurrency": concurrency, "members": list(members), **more}


def stage(*groups, name="s", state="Running", concurrency=0, **more):
    return {"name": name, "state": state, "maxConcurrency": concurrency, "groups": list(groups), **more}


def gate(state="Pending", **more):
    return {"type": "Approval", "state": state, **more}


def run_of(*stages, state="Running", wanted="Run"):
    upgrade = {"type": "ControlPlaneOnly", "kubernetesVersion": "1.31"}
    return ClusterUpgradeRun.read(
        {
            "metadata": {"name": "v131"},
            "spec": {"state": wanted, "upgrade": upgrade},
            "status": {"state": state, "stages": list(stages)},
        }
    )


def turn(run, name="a", *, upgrades_paused=False):
    found = may_upgrade(run, name, NOW, upgrades_paused=upgrades_paused)
    return str(found.reason), found.message, found.retry_after


@pytest.mark.parametrize(
    ("state", "ended"),
    [
        pytest.param("Completed", True, id="completed"),
        pytest.param("Skipped", True, id="skipped"),
        pytest.param("Failed", False, id="failed-and-may-be-started-again"),
        pytest.param("Stopped", False, id="stopped-and-may-be-started-again"),
        pytest.param("Running", False, id="running"),
    ],
)
def test_a_run_has_ended_when_nothing_more_comes_of_it(state, ended):
    assert has_ended(run_of(state=state)) is ended


def test_a_run_covers_the_members_of_its_stages():
    run = run_of(stage(group(member("a"))), stage(group(member("b", "Running")), name="t"))
    assert [covers(run, name) for name in "abc"] == [True, True, False]
    assert [is_upgrading(run, name) for name in "abc"] == [False, True, False]


def test_the_detail_says_where_a_member_stands():
    answer = may_upgrade(run_of(stage(group(member("a")))), "a", NOW, upgrades_paused=False)
    assert answer.detail == {"run": "v131", "stage": "s", "group": "g", "state": "NotStarted"}
    assert may_upgrade(run_of(), "a", NOW, upgrades_paused=False).detail == {"run": "v131"}


@pytest.mark.parametrize(
    ("entry", "run", "reason", "message"),
    [
        pytest.param(member("b"), {}, "NotInRun", "member a is not in run v131", id="another-member"),
        pytest.param(member("a", "Completed"), {}, "NothingToDo", "run v131 has upgraded member a", id="upgraded"),
        pytest.param(member("a", "Skipped"), {}, "NothingToDo", "run v131 has skipped member a", id="skipped"),
        pytest.param(member("a", "Running"), {}, "Allowed", "run v131 is upgrading member a", id="under-way"),
        pytest.param(
            member("a", "Running"), {"state": "Stopping"}, "Allowed", "run v131 is upgrading member a", id="to-its-end"
        ),
        pytest.param(member("a"), {"state": "Stopping"}, "RunHalted", "run v131 is stopping", id="stopping"),
        pytest.param(member("a"), {"state": "Failed"}, "RunHalted", "run v131 is failed", id="failed"),
        pytest.param(member("a"), {"wanted": "Stop"}, "RunHalted", "run v131 is being stopped", id="to-be-stopped"),
        pytest.param(member("a", "Stopped"), {}, "RunHalted", "run v131 is being stopped", id="not-yet-going-on"),
        pytest.param(
            member("a", "Failed", "Timeout"),
            {},
            "NothingToDo",
            "the upgrade of member a in run v131 has failed: Timeout",
            id="failed-and-tolerated",
        ),
        pytest.param(
            member("a", "Failed", "Timeout", message=MESSAGE),
            {},
            "NothingToDo",
            f"the upgrade of member a in run v131 has failed: {MESSAGE}",
            id="failed-with-a-message",
        ),
        pytest.param(
            member("a"), {"state": "NotStarted"}, "NotItsTurn", "run v131 has not started", id="run-not-started"
        ),
        pytest.param(member("a"), {}, "Allowed", "member a is next in run v131", id="its-turn"),
    ],
)
def test_what_the_record_says_of_a_member(entry, run, reason, message):
    assert turn(run_of(stage(group(entry)), **run)) == (reason, message, RETRY_INTERVAL)


DONE = group(name="f", state="Completed")
EARLIER = format_time(NOW - SOON)


@pytest.mark.parametrize(
    ("first", "message", "after"),
    [
        pytest.param(
            stage(group(name="f"), name="first"), "stage first of run v131 comes first", RETRY_INTERVAL, id="busy"
        ),
        pytest.param(
            stage(DONE, group(name="h"), name="first", afterGates=[gate()]),
            "stage first of run v131 comes first",
            RETRY_INTERVAL,
            id="gates-come-after-all-its-groups",
        ),
        pytest.param(
            stage(
                DONE, name="first", afterStageWait={"seconds": 600, "state": "Running", "startTime": format_time(NOW)}
            ),
            "run v131 waits after its stage first",
            timedelta(minutes=10),
            id="waits",
        ),
        pytest.param(
            stage(
                DONE,
                name="first",
                afterStageWait={"seconds": 60, "state": "Running", "startTime": EARLIER},
            ),
            "run v131 waits after its stage first",
            timedelta(seconds=1),
            id="has-waited",
        ),
        pytest.param(
            stage(DONE, name="first"), "stage first of run v131 comes first", RETRY_INTERVAL, id="is-about-to-end"
        ),
        pytest.param(
            stage(DONE, name="first", afterStageWait={"seconds": 600, "state": "Running"}),
            "stage first of run v131 comes first",
            RETRY_INTERVAL,
            id="is-about-to-wait",
        ),
        pytest.param(
            stage(DONE, name="first", afterStageWait={"seconds": 600, "state": "Completed", "startTime": EARLIER}),
            "stage first of run v131 comes first",
            RETRY_INTERVAL,
            id="is-about-to-end-after-its-wait",
        ),
    ],
)
def test_an_earlier_stage_comes_first(first, message, after):
    run = run_of(stage(name="zero", state="Skipped"), first, stage(group(member("a"))))
    assert turn(run) == ("NotItsTurn", message, after)
    assert may_upgrade(run, "a", NOW, upgrades_paused=False).detail["waitsForStage"] == "first"


def test_a_later_stage_is_not_looked_at():
    assert turn(run_of(stage(group(member("a"))), stage(name="later")))[0] == "Allowed"


@pytest.mark.parametrize(
    ("gates", "message", "after"),
    [
        pytest.param([gate()], "a gate has not completed", RETRY_INTERVAL, id="no-name"),
        pytest.param([gate(gate="v131-g")], "the gate v131-g has not completed", RETRY_INTERVAL, id="its-name"),
        pytest.param(
            [gate(gate="v131-g", displayName="Ask Ann")],
            "the gate Ask Ann has not completed",
            RETRY_INTERVAL,
            id="shown",
        ),
        pytest.param(
            [gate("Completed"), gate(gate="two")], "the gate two has not completed", RETRY_INTERVAL, id="the-second"
        ),
        pytest.param(
            [gate(absoluteStartTime=format_time(NOW + SOON))], "a gate has not completed", SOON, id="scheduled"
        ),
        pytest.param([gate(absoluteStartTime=format_time(NOW))], "a gate has not completed", RETRY_INTERVAL, id="due"),
    ],
)
def test_a_gate_that_is_not_done_is_named_with_its_place(gates, message, after):
    later = stage(group(member("a")))
    places = {
        "before stage s of run v131": [stage(group(member("a"), beforeGates=[gate(gate="later")]), beforeGates=gates)],
        "before group g of run v131": [stage(group(member("a"), beforeGates=gates), beforeGates=[gate("Skipped")])],
        "after stage first of run v131": [stage(DONE, name="first", afterGates=gates), later],
    }
    for where, stages in places.items():
        assert turn(run_of(*stages)) == ("GatePending", f"{where}, {message}", after)


def test_the_detail_of_a_gate_has_its_name_once_it_has_one():
    run = run_of(stage(group(member("a"), beforeGates=[gate(gate="v131-g", displayName="Ask Ann")])))
    assert may_upgrade(run, "a", NOW, upgrades_paused=False).detail["gate"] == "v131-g"
    unnamed = run_of(stage(group(member("a"), beforeGates=[gate(displayName="Ask Ann")])))
    assert "gate" not in may_upgrade(unnamed, "a", NOW, upgrades_paused=False).detail


def test_a_member_on_hold_is_told_by_which_annotation_once_it_is_its_turn():
    reason, message, _ = turn(run_of(stage(group(member("a")))), upgrades_paused=True)
    assert reason == "MemberOnHold"
    assert message == "member a is on hold: its annotation harbormaster.dev/upgrade-hold is true"
    waiting = run_of(stage(group(member("a"), beforeGates=[gate()])))
    assert turn(waiting, upgrades_paused=True)[0] == "GatePending"


OPENS = format_time(NOW + SOON)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        pytest.param(
            member("a", "Pending", "PlacementGuard"),
            ("PlacementGuard", "PlacementGuard", RETRY_INTERVAL),
            id="no-message",
        ),
        pytest.param(
            member("a", "Pending", "MaintenanceWindowClosed", message=MESSAGE, nextWindowOpen=OPENS),
            ("MaintenanceWindowClosed", MESSAGE, SOON),
            id="window",
        ),
        pytest.param(
            member("a", "Pending", "MaintenanceWindowClosed", message=MESSAGE, nextWindowOpen=format_time(NOW)),
            ("MaintenanceWindowClosed", MESSAGE, RETRY_INTERVAL),
            id="window-that-opens-now",
        ),
        pytest.param(
            member("a", "Pending", "MemberOnHold", message=MESSAGE),
            ("Allowed", "member a is next in run v131", RETRY_INTERVAL),
            id="hold-taken-off",
        ),
        pytest.param(
            member("a", "Pending", "SomethingNew", message=MESSAGE),
            ("Allowed", "member a is next in run v131", RETRY_INTERVAL),
            id="of-another-version",
        ),
        pytest.param(
            member("a", "NotStarted", "PlacementGuard"),
            ("Allowed", "member a is next in run v131", RETRY_INTERVAL),
            id="not-pending-any-more",
        ),
    ],
)
def test_why_a_member_is_pending_is_told_as_recorded(entry, expected):
    assert turn(run_of(stage(group(entry)))) == expected


@pytest.mark.parametrize(
    ("in_stage", "in_group", "busy", "says"),
    [
        pytest.param(2, 0, ["b"], "", id="room-in-the-stage"),
        pytest.param(0, 2, ["b"], "", id="room-in-the-group"),
        pytest.param(0, 0, ["b", "c", "d", "e"], "", id="no-limit"),
        pytest.param(
            1, 0, ["b"], "stage s of run v131 upgrades at most 1 concurrently, and is busy with b", id="stage-is-full"
        ),
        pytest.param(
            9, 1, ["b"], "group g of run v131 upgrades at most 1 concurrently, and is busy with b", id="group-is-full"
        ),
        pytest.param(
            4,
            0,
            ["b", "c", "d", "e"],
            "stage s of run v131 upgrades at most 4 concurrently, and is busy with b, c, d",
            id="many",
        ),
    ],
)
def test_no_more_than_the_limits_are_upgraded_at_once(in_stage, in_group, busy, says):
    entries = [member("a"), member("z", "Pending"), *(member(name, "Running") for name in busy)]
    reason, message, _ = turn(run_of(stage(group(*entries, concurrency=in_group), concurrency=in_stage)))
    assert (reason, message) == (("NotItsTurn", says) if says else ("Allowed", "member a is next in run v131"))


def test_members_of_other_groups_take_the_slots_of_the_stage_and_not_of_the_group():
    other = group(member("b", "Running"), name="h")
    assert turn(run_of(stage(group(member("a"), concurrency=1), other)))[0] == "Allowed"
    assert turn(run_of(stage(group(member("a")), other, concurrency=1)))[0] == "NotItsTurn"
