"""Gates: when they open, what completes them, and what their objects say."""

import pytest

from scorer.api.conditions import FALSE, TRUE, Condition, find_condition
from scorer.api.upgrade.gate import GateTiming
from scorer.api.upgrade.strategy import ScheduledStart
from scorer.upgrade.evaluation.gates import next_start
from scorer.upgrade.simulation.hub import Approve, Start
from scorer.upgrade.state.step import WriteGate
from tests.scorer.upgrade.scenarios import BEGIN, after, at, daily, event, member, prepared, seen, stage, started, told

APPROVAL = {"type": "Approval"}
BEFORE, AFTER = GateTiming.BEFORE, GateTiming.AFTER


def written_gates(moment):
    return [each for each in moment.step.actions if isinstance(each, WriteGate)]


def answered(hub, status, reason="Seen", message="as it is"):
    """Let somebody answer the only gate that is there."""
    ((name, known),) = hub.gates.items()
    answer = Condition(type="Approved", status=status, reason=reason, message=message)
    others = tuple(each for each in known.conditions if each.type != "Approved")
    hub.gates[name] = known.model_copy(update={"conditions": (*others, answer)})


@pytest.mark.parametrize(
    ("day", "time", "offset", "hours"),
    [
        pytest.param("Monday", "00:00", "+00:00", 0, id="now-passes-at-once"),
        pytest.param("Monday", "01:30", "+00:00", 1.5, id="later-today"),
        pytest.param("Sunday", "23:59", "+00:00", 7 * 24 - 1 / 60, id="a-minute-too-late-is-a-week"),
        pytest.param("Tuesday", "02:00", "+01:00", 25, id="ahead-of-utc"),
        pytest.param("Sunday", "22:00", "-02:00", 0, id="still-sunday-there"),
        pytest.param("Monday", "13:00", "+14:00", 7 * 24 - 1, id="already-afternoon-there"),
    ],
)
def test_a_scheduled_start_is_the_next_such_day_and_time_in_its_offset(day, time, offset, hours):
    scheduled = ScheduledStart.read({"startDay": day, "startTime": time, "utcOffset": offset})
    assert next_start(scheduled, BEGIN) == after(hours=hours)


def test_a_gate_has_an_object_from_the_moment_at_which_the_run_reaches_it():
    hub, _ = started(member("a"), stages=[stage("s", "g", afterGates=[{**APPROVAL, "displayName": "healthy?"}])])
    assert not hub.gates
    reached = hub.evaluate(at("30m"))
    (gate,) = written_gates(reached)
    assert gate.name.startswith("run-s-after-0-")
    assert (gate.spec.run_name, gate.spec.stage, gate.spec.group, gate.spec.timing) == ("run", "s", None, AFTER)
    assert (gate.spec.display_name, gate.status.state) == ("healthy?", "Pending")
    assert told([reached]) == ["MemberUpgradeCompleted", "GateOpened", "ApprovalNeeded"]


def test_names_of_gates_tell_positions_apart_and_are_short_enough():
    names = set()
    for stage_name, group in (("a-b", "c"), ("a", "b-c"), ("x" * 50, "y" * 50), ("x" * 50, "y" * 49)):
        hub, _ = started(member("m", group), stages=[stage(stage_name, {"name": group, "beforeGates": [APPROVAL]})])
        names |= hub.gates.keys()
    assert len(names) == 4
    assert max(map(len, names)) <= 63


def test_an_object_that_is_lost_while_its_gate_is_waited_for_comes_back_the_same():
    hub, moment = started(member("a"), stages=[stage("s", "g", beforeGates=[APPROVAL])])
    (first,) = written_gates(moment)
    hub.gates.clear()
    assert written_gates(hub.evaluate(at("10m"))) == [first]


def test_an_approval_is_answered_on_the_object_and_lets_the_run_go_on():
    hub, _ = started(member("a"), stages=[stage("s", "g", beforeGates=[APPROVAL])])
    moment = hub.evaluate(at("10m"), [Approve("s", "", BEFORE)])
    (known,) = hub.gates.values()
    assert known.state == "Completed"
    assert find_condition(known.conditions, "ApprovalAccepted").status == TRUE
    assert told([moment]) == ["GateCompleted", "MemberUpgradeStarted"]
    assert not hub.evaluate(at("11m")).step.actions


def test_an_approval_at_the_instant_at_which_its_gate_opens_comes_too_early():
    found = seen(
        member("a"),
        stages=[stage("s", "g", afterGates=[APPROVAL])],
        events=[event("30m", "approve", stage="s", timing="After")],
    )
    assert (found["rejected"], found["run"]) == ([["approve", "30m"]], "Pending")


def test_all_gates_of_a_position_open_together_and_all_must_be_done():
    found = seen(
        member("a"),
        stages=[stage("s", "g", beforeGates=[APPROVAL, APPROVAL])],
        events=[
            event("1h", "approve", stage="s", timing="Before", index=1),
            event("2h", "approve", stage="s", timing="Before"),
        ],
        checkAt=["0s", "90m"],
    )
    assert [list(each["gates"].values()) for each in found["at"]] == [["Pending", "Pending"], ["Pending", "Completed"]]
    assert found["times"] == {"a": ["2h", "2h30m"]}


def test_the_gate_of_a_group_holds_this_group_only():
    found = seen(
        *(member("a", "a"), member("b", "b")),
        stages=[stage("s", {"name": "a", "beforeGates": [APPROVAL]}, "b")],
        events=[event("2h", "approve", stage="s", group="a", timing="Before")],
        checkAt=["10m", "1h"],
    )
    assert [each["groups"] for each in found["at"]] == [
        {"s/a": "Pending", "s/b": "Running"},
        {"s/a": "Pending", "s/b": "Completed"},
    ]
    assert [each["stages"]["s"] for each in found["at"]] == ["Running", "Pending"]
    assert found["times"] == {"b": ["0s", "30m"], "a": ["2h", "2h30m"]}


def test_a_gate_can_be_approved_while_the_run_is_stopped():
    found = seen(
        member("a"),
        stages=[stage("s", "g", beforeGates=[APPROVAL])],
        events=[
            event("1h", "stop"),
            event("2h", "approve", stage="s", timing="Before"),
            event("3h", "start"),
        ],
        checkAt=["1h", "2h"],
    )
    stopped, approved = found["at"]
    assert (stopped["run"], stopped["stages"]["s"], stopped["groups"]["s/g"]) == ("Stopped", "Stopped", "NotStarted")
    assert (approved["run"], approved["gates"]["s:Before:0"]) == ("Stopped", "Completed")
    assert found["times"] == {"a": ["3h", "3h30m"]}


def test_a_rejection_stops_the_run_once_and_says_why():
    hub, _ = started(member("a"), stages=[stage("s", "g", beforeGates=[APPROVAL])])
    answered(hub, FALSE, "Rejected", "not before Christmas")
    moment = hub.evaluate(at("10m"))
    assert moment.run.status.state == "Stopped"
    assert "not before Christmas" in next(each.message for each in moment.events if each.reason == "RunStopping")
    again = hub.evaluate(at("1h"), [Start()])
    assert again.run.status.state == "Pending"
    answered(hub, TRUE)
    assert hub.evaluate(at("2h")).run.status.state == "Running"


def test_another_false_answer_leaves_the_gate_pending():
    hub, _ = started(member("a"), stages=[stage("s", "g", beforeGates=[APPROVAL])])
    answered(hub, FALSE, "NotYet")
    assert hub.evaluate(at("10m")).run.status.state == "Pending"


def test_a_gate_that_nobody_opens_in_time_stops_the_run_and_has_its_time_again_after_the_restart():
    scenario = prepared(
        member("a"),
        stages=[stage("s", "g", beforeGates=[APPROVAL])],
        spec={"timeouts": {"gateSeconds": 3600}},
        events=[event("5h", "start"), event("330m", "approve", stage="s", timing="Before")],
        checkAt=["59m", "1h", "5h"],
    )
    scenario.play()
    found = scenario.seen()
    assert [each["run"] for each in found["at"]] == ["Pending", "Stopped", "Pending"]
    assert found["times"] == {"a": ["5h30m", "6h"]}


def test_a_gate_and_a_window_must_both_allow_a_start():
    found = seen(
        member("a", windows=[daily("04:00")]),
        stages=[stage("s", "g", beforeGates=[APPROVAL])],
        events=[event("1h", "approve", stage="s", timing="Before")],
    )
    assert found["times"] == {"a": ["4h", "4h30m"]}


def test_a_gate_says_what_would_become_of_the_members_behind_it():
    members = (
        *(member("go"), member("done", version="1.31.2"), member("far", version="1.28.0")),
        *(member("shut", windows=[daily("10:00")]), member("gone", "other")),
    )
    hub, _ = started(*members, stages=[stage("s", "g", beforeGates=[APPROVAL])])
    ((name, known),) = hub.gates.items()
    ready = known.readiness
    assert (ready.start, ready.skip, ready.pending, ready.fail) == (1, 1, 1, 1)
    assert ready.pending_reasons == {"MaintenanceWindowClosed": 1}
    hub.evaluate(at("10h"))
    ready = hub.gates[name].readiness
    assert (ready.start, ready.pending, ready.pending_reasons) == (2, 0, {})


def test_the_gates_of_what_is_skipped_are_skipped():
    found = seen(
        *(member("a", "a"), member("b", "b", version="1.31.2")),
        stages=[
            stage("one", {"name": "a", "beforeGates": [APPROVAL], "afterGates": [APPROVAL]}, afterGates=[APPROVAL]),
            stage("two", "b", afterGates=[APPROVAL]),
        ],
        events=[event("1h", "skip", targets=[{"type": "Stage", "name": "one"}])],
    )
    assert set(found["gates"].values()) == {"Skipped"}
    assert (found["run"], found["runDoneAt"]) == ("Skipped", "1h")


def test_a_scheduled_gate_that_passes_at_once_has_its_object():
    now = {"type": "ScheduledStart", "scheduledStart": {"startDay": "Monday", "startTime": "00:00"}}
    hub, moment = started(member("a"), stages=[stage("s", "g", beforeGates=[now])])
    assert told([moment])[-3:] == ["GateOpened", "GateCompleted", "MemberUpgradeStarted"]
    assert [gate.state for gate in hub.gates.values()] == ["Completed"]


def test_the_time_of_a_gate_does_not_wake_a_run_that_is_stopped():
    hub, moment = started(
        member("a"), stages=[stage("s", "g", beforeGates=[APPROVAL])], spec={"timeouts": {"gateSeconds": 3600}}
    )
    assert moment.step.again == at("1h")
    stopped = hub.evaluate(at("1h"))
    assert (stopped.run.status.state, stopped.step.again) == ("Stopped", None)
    assert "GateTimeout" in stopped.run.status.stages[0].message
    assert hub.evaluate(at("2h"), [Start()]).run.status.stages[0].message == ""


def test_a_scheduled_gate_keeps_its_time_while_the_run_is_stopped():
    later = {"type": "ScheduledStart", "scheduledStart": {"startDay": "Monday", "startTime": "08:00"}}
    found = seen(
        member("a"),
        stages=[stage("s", "g", beforeGates=[later])],
        events=[event("1h", "stop"), event("9h", "start")],
        checkAt=["8h"],
    )
    assert found["at"][0]["gates"] == {"s:Before:0": "Completed"}
    assert found["times"] == {"a": ["9h", "9h30m"]}
