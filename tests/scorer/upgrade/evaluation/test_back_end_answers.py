"""What back ends answer and report, and what the engine makes of it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from scorer.api.upgrade.fields import UpgradeError, UpgradeType
from scorer.api.upgrade.run import SkipTarget, SkipTargetType
from scorer.upgrade.back_ends.interface import Capabilities, Inventory, Observation, OperationState, Pool, Rejected
from scorer.upgrade.evaluation.engine import advance
from scorer.upgrade.planning.forecast import ForecastAssumptions, forecast
from scorer.upgrade.simulation.back_end import UPGRADER, AttemptOutcome, SimulatedBackEnd
from scorer.upgrade.simulation.hub import Skip, Start, Stop, simulate
from scorer.upgrade.state.operations import members_to_observe, occupied_members
from scorer.upgrade.state.step import CancelUpgrade, StartUpgrade
from tests.scorer.upgrade.planning.planned import half_hour
from tests.scorer.upgrade.scenarios import BEGIN, after, at, daily, entry, event, member, prepared, seen, stage, started
from tests.vector_families.upgrade_runs import written

HALF_HOUR = timedelta(minutes=30)


def answering(*outcomes, **given):
    """A hub with one member, whose attempts go as told; later ones succeed after half an hour."""
    hub = prepared(member("a"), **given).hub
    return attempted(hub, outcomes)


def attempted(hub, outcomes):
    hub.back_end = SimulatedBackEnd(
        lambda name, attempt: outcomes[attempt - 1] if attempt <= len(outcomes) else AttemptOutcome(HALF_HOUR)
    )
    return hub


def operations(moment):
    return [each.operation.id for each in moment.step.actions if isinstance(each, StartUpgrade)]


def observed(hub, now, **observation):
    """Evaluate with what a back end says about the only operation."""
    (operation,) = members_to_observe(hub.run.status)
    return advance(hub.run, replace(hub.facts(now), observations={operation: Observation(**observation)}))


def test_what_a_back_end_refuses_for_good_has_failed():
    hub = answering(AttemptOutcome(HALF_HOUR, rejections=(Rejected("Forbidden", "not this cluster"),)))
    hub.evaluate(BEGIN, [Start()])
    run = hub.evaluate(BEGIN).run
    found = entry(run, "a")
    assert (run.status.state, found.state, found.reason, found.message) == (
        *("Failed", "Failed", "UpgradeRejected", "not this cluster"),
    )


def test_what_a_back_end_refuses_for_now_waits_and_is_the_same_attempt_again():
    hub = answering(AttemptOutcome(HALF_HOUR, rejections=(Rejected("Busy", "rolling", retryable=True),)))
    moments = list(simulate(hub, BEGIN, [(BEGIN, Start())], after(hours=3)))
    assert [operations(moment) for moment in moments] == [["uid/a/1"], [], ["uid/a/1"], []]
    waiting = entry(moments[1].run, "a")
    assert (waiting.state, waiting.reason, waiting.attempt) == ("Pending", "ClusterBusy", 1)
    assert [written(moment.now - BEGIN) for moment in moments] == ["0s", "0s", "1m", "31m"]
    assert moments[-1].run.status.state == "Completed"


def test_a_call_that_is_lost_is_made_again_as_the_same_operation():
    hub = answering(AttemptOutcome(HALF_HOUR, lost_calls=2))
    moments = list(simulate(hub, BEGIN, [(BEGIN, Start())], after(hours=3)))
    assert [each for moment in moments for each in operations(moment)] == ["uid/a/1"] * 3
    found = entry(moments[-1].run, "a")
    assert (found.state, found.attempt, found.completion_time) == ("Completed", 1, after(minutes=30, seconds=30))


def test_a_call_that_is_lost_is_not_made_again_for_an_attempt_that_is_given_up():
    hub = answering(AttemptOutcome(HALF_HOUR, lost_calls=1), spec={"timeouts": {"memberUpgradeSeconds": 3600}})
    hub.evaluate(BEGIN, [Start()])
    moment = hub.evaluate(at("2h"))
    assert entry(moment.run, "a").reason == "UpgradeTimeout"
    assert operations(moment) == []


def test_what_is_refused_for_now_while_the_run_stops_is_stopped_and_goes_on_as_the_same_attempt():
    hub = answering(AttemptOutcome(HALF_HOUR))
    hub.evaluate(BEGIN, [Start()])
    assert hub.evaluate(BEGIN, [Stop()]).run.status.state == "Stopping"
    facts = replace(hub.facts(BEGIN), rejections={"uid/a/1": Rejected("Busy", retryable=True)})
    hub.run = hub.run.model_copy(update={"status": advance(hub.run, facts).status})
    assert (hub.run.status.state, entry(hub.run, "a").state) == ("Stopped", "Stopped")
    assert operations(hub.evaluate(at("10m"), [Start()])) == ["uid/a/1"]


def test_an_operation_that_nobody_was_asked_about_is_left_alone():
    hub, _ = started(member("a"))
    step = advance(hub.run, replace(hub.facts(at("10m")), observations={}))
    assert not step.actions
    assert not step.changed


def test_a_success_counts_once_the_cluster_was_looked_at_afterwards():
    hub = answering(AttemptOutcome(HALF_HOUR, unseen_for=timedelta(minutes=5)))
    moments = {written(each.now - BEGIN): each for each in simulate(hub, BEGIN, [(BEGIN, Start())], after(hours=3))}
    assert entry(moments["30m"].run, "a").state == "Running"
    done = entry(moments["35m"].run, "a")
    assert (done.state, done.completion_time) == ("Completed", at("30m"))


@pytest.mark.parametrize(
    ("inventory", "missing"),
    [
        pytest.param(Inventory("1.30.4"), "control plane runs 1.30.4 instead of 1.31.2", id="control-plane"),
        pytest.param(Inventory(""), "an unknown version instead of 1.31.2", id="unknown"),
        pytest.param(
            Inventory("1.31.2", (Pool("np1", "1.30.4"),)), "pool np1 runs 1.30.4 instead of 1.31.2", id="a-pool"
        ),
    ],
)
def test_a_cluster_that_is_not_at_the_target_after_a_success_has_failed(inventory, missing):
    hub, _ = started(member("a"))
    step = observed(hub, at("10m"), state=OperationState.SUCCEEDED, inventory=inventory)
    found = step.status.stages[0].groups[0].members[0]
    assert (found.state, found.reason) == ("Failed", "VerificationFailed")
    assert missing in found.message


def test_a_consistent_image_that_is_missing_after_a_success_is_a_failure():
    published = {"regions": {"r1": {"images": {"linux": ["100", "110"]}}}}
    upgrade = {"type": "NodeImageOnly", "nodeImage": {"selection": "Consistent"}}
    hub, _ = started(member("a"), catalog=published, upgrade=upgrade)
    step = observed(hub, at("10m"), state=OperationState.SUCCEEDED)
    found = step.status.stages[0].groups[0].members[0]
    assert (found.state, found.message) == ("Failed", "its pool np1 runs image 100")


@pytest.mark.parametrize(
    ("state", "error", "reason"),
    [
        pytest.param(OperationState.FAILED, None, "UpgradeFailed", id="without-a-code"),
        pytest.param(OperationState.FAILED, UpgradeError(code="DrainStuck"), "DrainStuck", id="with-a-code"),
        pytest.param(OperationState.CANCELLED, None, "UpgradeFailed", id="called-off"),
    ],
)
def test_a_failure_has_the_code_of_the_back_end_and_ends_when_it_says(state, error, reason):
    hub, _ = started(member("a"))
    step = observed(hub, at("20m"), state=state, error=error, finished_at=at("15m"))
    found = step.status.stages[0].groups[0].members[0]
    assert (found.state, found.reason, found.completion_time) == ("Failed", reason, at("15m"))
    assert (step.status.state, step.status.completion_time) == ("Failed", at("20m"))


@pytest.mark.parametrize(
    "capabilities",
    [
        pytest.param(Capabilities(types=frozenset({UpgradeType.CONTROL_PLANE_ONLY})), id="other-types-only"),
        pytest.param(None, id="unknown-upgrader"),
    ],
)
def test_an_upgrade_that_no_back_end_can_do_fails(capabilities):
    hub = prepared(member("a")).hub
    if capabilities is None:
        hub.members["a"] = replace(hub.members["a"], upgrader="nobody-knows")
    else:
        hub.upgraders = {UPGRADER: capabilities}
    assert entry(hub.evaluate(BEGIN, [Start()]).run, "a").reason == "UnsupportedByUpgrader"


@pytest.mark.parametrize(
    ("unclaimed", "reason"),
    [pytest.param(False, "UpgradeTimeout", id="at-work"), pytest.param(True, "UpgraderNotResponding", id="unclaimed")],
)
def test_an_attempt_that_takes_too_long_is_given_up(unclaimed, reason):
    hub, _ = started(member("a"), memberTimeout="1h")
    assert hub.run.status.next_wakeup == at("1h")
    state = OperationState.ACCEPTED if unclaimed else OperationState.IN_PROGRESS
    assert not observed(hub, at("59m"), state=state, unclaimed=unclaimed).changed
    step = observed(hub, at("1h"), state=state, unclaimed=unclaimed)
    assert step.status.stages[0].groups[0].members[0].reason == reason
    assert not step.actions


def test_an_attempt_that_is_given_up_is_called_off_where_the_user_wants_that():
    scenario = prepared(
        member("a", outcomes=["hang"]), spec={"timeouts": {"memberUpgradeSeconds": 3600, "cancelOnTimeout": True}}
    )
    moments = list(scenario.moments())
    assert moments[-1].step.actions == (CancelUpgrade("uid/a/1", "a", "simulated"),)


def test_a_success_at_the_deadline_counts():
    found = seen(member("a", duration="1h"), memberTimeout="1h")
    assert found["run"] == "Completed"


def test_until_an_attempt_that_was_given_up_ends_the_cluster_is_busy():
    found = seen(
        member("a", duration="3h"), memberTimeout="1h", events=[event("2h", "start")], checkAt=["1h", "2h", "3h"]
    )
    assert [each["run"] for each in found["at"]] == ["Failed", "Pending", "Skipped"]
    assert found["at"][1]["reasons"] == {"a": "ClusterBusy"}
    assert found["attempts"] == {"a": 1}


ABANDONED = (
    "run run has abandoned upgrade uid/a/1, and upgrader simulated has not reported that the upgrade is complete"
)


def without_answers(hub, now):
    """Evaluate while the back end does not say how operations go."""
    return advance(hub.run, replace(hub.facts(now), observations={}))


@pytest.mark.parametrize("tolerated", [False, True], ids=["failed", "over"])
def test_other_runs_leave_a_member_alone_until_its_attempt_has_ended(tolerated):
    allowed = {"maxAllowedFailures": "1"} if tolerated else {}
    hub, moment = started(
        *(member("a", duration="3h"), member("b", "h")),
        stages=[stage("s", {"name": "g", **allowed}, **allowed)],
        memberTimeout="1h",
    )
    assert list(occupied_members(moment.run)) == [("a", "run run is upgrading it")]
    given_up = hub.evaluate(at("1h")).run
    assert given_up.status.state == ("Completed" if tolerated else "Failed")
    ((name, said),) = occupied_members(given_up)
    assert (name, said.partition(":")[0]) == ("a", ABANDONED)
    moment = hub.evaluate(at("2h"))
    assert (moment.step.changed, moment.step.in_flight, list(members_to_observe(moment.run.status))) == (
        *(False, True, ["uid/a/1"]),
    )
    ended = hub.evaluate(at("3h"))
    assert (ended.run.status.state, list(occupied_members(ended.run)), list(members_to_observe(ended.run.status))) == (
        *(given_up.status.state, [], []),
    )
    assert not ended.step.in_flight


def test_a_back_end_that_does_not_answer_has_not_reported_an_end():
    hub, _ = started(member("a", outcomes=["hang"]), memberTimeout="1h")
    hub.evaluate(at("1h"))
    hub.run = hub.run.model_copy(update={"spec": hub.run.spec.model_copy(update={"restart_token": "again"})})
    step = without_answers(hub, at("61m"))
    waiting = step.status.stages[0].groups[0].members[0]
    assert (waiting.state, waiting.reason, waiting.attempt) == ("Pending", "ClusterBusy", 1)
    assert waiting.message.startswith(ABANDONED)
    assert not step.actions


def test_what_a_back_end_does_not_know_has_come_to_its_end():
    hub, _ = started(member("a", outcomes=["hang"]), memberTimeout="1h")
    hub.evaluate(at("1h"))
    hub.back_end = SimulatedBackEnd(lambda name, attempt: AttemptOutcome(HALF_HOUR))
    assert list(occupied_members(hub.evaluate(at("61m")).run)) == []


def test_an_attempt_that_never_reached_its_back_end_is_not_waited_for_when_it_is_given_up():
    hub = answering(AttemptOutcome(HALF_HOUR, lost_calls=9), memberTimeout="1h")
    hub.evaluate(BEGIN, [Start()])
    assert list(occupied_members(hub.evaluate(at("1h")).run)) == []


def test_a_member_that_is_skipped_after_it_was_given_up_is_still_left_alone_by_others():
    hub, _ = started(member("a", outcomes=["hang"]), memberTimeout="1h")
    hub.evaluate(at("1h"))
    hub.evaluate(at("2h"), [Skip((SkipTarget(type=SkipTargetType.MEMBER, name="a"),))])
    run = hub.evaluate(at("2h"), [Start()]).run
    assert (run.status.state, entry(run, "a").state) == ("Skipped", "Skipped")
    assert [name for name, _ in occupied_members(run)] == ["a"]


def test_a_plan_takes_what_was_given_up_for_busy_as_long_as_an_upgrade_takes():
    hub, _ = started(member("a", outcomes=["hang"]), memberTimeout="1h")
    hub.evaluate(at("1h"))
    found = forecast(hub.run, half_hour(hub).facts(at("1h")), ForecastAssumptions())
    assert found.beginnings["a"].at == at("90m")


# Calls that are lost.


LATER = at("20m")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(lambda a: replace(a, upgrades_paused=True), "MemberOnHold", id="on-hold"),
        pytest.param(lambda a: a, "MaintenanceWindowClosed", id="window-closed"),
    ],
)
def test_a_call_that_is_lost_is_not_made_again_when_its_upgrade_would_not_begin_now(change, reason):
    hub = attempted(
        prepared(member("a", windows=[daily("00:00", hours=1)])).hub, [AttemptOutcome(HALF_HOUR, lost_calls=1)]
    )
    hub.evaluate(BEGIN, [Start()])
    hub.members["a"] = change(hub.members["a"])
    now = LATER if reason == "MemberOnHold" else at("2h")
    moment = hub.evaluate(now)
    waiting = entry(moment.run, "a")
    assert operations(moment) == []
    assert (waiting.state, waiting.reason, waiting.attempt, waiting.operation_id) == ("Pending", reason, 1, "")
    assert (waiting.start_time, waiting.completion_time, waiting.pending_since) == (None, None, now)
    assert not hub.evaluate(now).step.changed
    hub.members["a"] = replace(hub.members["a"], upgrades_paused=False)
    again = LATER if reason == "MemberOnHold" else at("1d")
    assert operations(hub.evaluate(again)) == ["uid/a/1"]
    done = entry(hub.evaluate(again + HALF_HOUR).run, "a")
    assert (done.state, done.attempt, done.start_time) == ("Completed", 1, again)


def test_a_call_that_is_lost_is_not_made_again_in_a_run_that_is_stopped():
    hub = answering(AttemptOutcome(HALF_HOUR, lost_calls=1))
    hub.evaluate(BEGIN, [Start()])
    moment = hub.evaluate(LATER, [Stop()])
    stopped = entry(moment.run, "a")
    assert (moment.run.status.state, stopped.state, stopped.operation_id) == ("Stopped", "Stopped", "")
    assert operations(moment) == []
    assert operations(hub.evaluate(at("1h"), [Start()])) == ["uid/a/1"]


def test_a_call_that_is_lost_is_not_made_again_in_the_pass_in_which_the_run_halts():
    hub = attempted(
        prepared(
            *(member("a", "g"), member("b", "h", busyUntil="1h")),
            stages=[stage("s", "g", "h")],
        ).hub,
        [AttemptOutcome(HALF_HOUR, lost_calls=1)],
    )
    hub.evaluate(BEGIN, [Start()])
    hub.members["b"] = replace(hub.members["b"], inventory=Inventory("1.29.9"))
    moment = hub.evaluate(LATER)
    assert (moment.run.status.state, entry(moment.run, "a").state, operations(moment)) == ("Failed", "Stopped", [])
    assert not hub.evaluate(LATER).step.changed


def test_the_times_of_a_member_are_those_of_its_latest_attempt():
    skipped = seen(
        member("a", outcomes=["fail"]),
        events=[event("1h", "skip", targets=[{"type": "Member", "name": "a"}])],
    )
    assert skipped["times"] == {"a": ["0s", "30m"]}
    waiting = seen(
        member("a", outcomes=["fail"]),
        events=[
            event("1h", "catalog", catalog={"regions": {"r1": {"kubernetes": []}}}),
            event("2h", "start"),
        ],
    )
    assert (waiting["members"], waiting["times"]) == ({"a": "Pending"}, {"a": ["0s", "30m"]})
