"""Where runs stand, and what they wait for."""

from dataclasses import replace

import pytest

from scorer.api.conditions import Condition
from scorer.upgrade.simulation.hub import Start
from scorer.upgrade.views.situation import approved_gates, is_moving, overview, situation_of
from tests.scorer.upgrade.scenarios import BEGIN, at, daily, member, play, prepared, stage

APPROVAL = {"type": "Approval", "displayName": "healthy?"}


def started(*members, **given):
    hub = prepared(*members, **given).hub
    hub.evaluate(BEGIN, [Start()])
    return hub


def waits(run):
    return [(each.kind.value, each.message, each.needs_person) for each in situation_of(run).waits]


def test_a_run_that_nobody_has_started_waits_for_that():
    assert waits(prepared(member("a")).hub.run) == [("Start", "its start", True)]


def test_a_run_that_cannot_be_initialised_waits_for_that():
    hub = prepared(member("a"), upgrade={"type": "Full", "kubernetesVersion": "1.31"}).hub
    hub.evaluate(BEGIN)
    ((kind, message, person),) = waits(hub.run)
    assert (kind, person) == ("Initialization", True)
    assert "VersionNotResolvable" in message
    assert situation_of(hub.run).message.startswith("VersionNotResolvable: ")


def test_a_run_waits_for_an_approval_and_the_end_of_a_wait():
    hub = started(member("a"), stages=[stage("s", "g", afterGates=[APPROVAL], afterStageWaitSeconds=600)])
    hub.evaluate(at("30m"))
    found = situation_of(hub.run)
    gate, wait = found.waits
    assert (gate.kind, gate.needs_person, '"healthy?" after stage s' in gate.message) == ("Gate", True, True)
    assert (wait.kind, wait.until) == ("TimedWait", at("40m"))
    assert (found.phase, found.stage, found.needs_person, found.is_over) == ("Pending", "s", True, False)


@pytest.mark.parametrize(
    ("status", "is_answered"),
    [
        pytest.param("True", True, id="approved"),
        pytest.param("False", False, id="rejected"),
        pytest.param("Unknown", False, id="unknown"),
    ],
)
def test_an_approval_that_the_run_has_not_taken_in_needs_no_person(status, is_answered):
    hub = started(member("a"), stages=[stage("s", "g", afterGates=[APPROVAL])])
    hub.evaluate(at("30m"))
    (open_wait,) = situation_of(hub.run).waits
    condition = {"type": "Approved", "status": status}
    gates = [{"metadata": {"name": open_wait.gate}, "status": {"conditions": [condition]}}]
    found = situation_of(hub.run, approved_gates([*gates, {"metadata": {"name": "another"}}]))
    (wait,) = found.waits
    assert (wait.answered, wait.needs_person, found.needs_person) == (is_answered, not is_answered, not is_answered)
    assert wait.message == open_wait.message + (": approved, the run is about to continue" if is_answered else "")
    assert is_moving(hub.run, found, at("30m")) is is_answered


def test_members_that_wait_for_their_windows_are_told_by_opening():
    later = [member(f"z{each}", windows=[daily("18:00")]) for each in range(5)]
    hub = started(member("m0", windows=[daily("12:00")]), *later, stages=[stage("s", "g", maxConcurrency=50)])
    ((kind, message, person),) = waits(hub.run)
    assert (kind, person) == ("Members", False)
    day = f"{BEGIN:%a %d %b}"
    assert message == f"maintenance windows: m0 until {day} 12:00 UTC, z0, z1, z2 and 2 more until {day} 18:00 UTC"
    assert situation_of(hub.run).waits[0].until == at("12h")


def test_of_many_openings_the_next_are_told():
    members = [member(f"m{each}", windows=[daily(f"{10 + each}:00")]) for each in range(5)]
    ((_, message, _),) = waits(started(*members, stages=[stage("s", "g")]).run)
    assert message.endswith(" 12:00 UTC, 2 more later")


def test_a_window_that_never_opens_needs_a_person():
    blocked = daily("12:00", startDate="2099-01-01")
    ((_, message, person),) = waits(started(member("a", windows=[blocked])).run)
    assert (message, person) == ("maintenance windows: a with no planned opening", True)


def test_members_that_wait_for_the_same_are_named_together():
    hub = prepared(*(member(f"m{each}") for each in range(2)), stages=[stage("s", "g")]).hub
    hub.members |= {name: replace(each, upgrades_paused=True) for name, each in hub.members.items()}
    hub.evaluate(BEGIN, [Start()])
    ((_, message, _),) = waits(hub.run)
    assert message == "m0, m1: MemberOnHold; of m0: member m0 is on hold"


def test_a_gate_that_was_rejected_is_told_once():
    hub = started(member("a"), stages=[stage("s", "g", afterGates=[APPROVAL])])
    hub.evaluate(at("30m"))
    (gate,) = situation_of(hub.run).waits
    known = hub.gates[gate.gate]
    answer = Condition(type="Approved", status="False", reason="Rejected", message="too slow")
    hub.gates[gate.gate] = known.model_copy(update={"conditions": (*known.conditions, answer)})
    hub.evaluate(at("31m"))
    start, rejected = situation_of(hub.run).waits
    assert start.message == "a start: the run is Stopped"
    said = f'gate {gate.gate} "healthy?" after stage s (rejected before: too slow), once the run is started again'
    assert rejected.message == said


def test_a_member_on_hold_needs_a_person():
    hub = prepared(member("a")).hub
    hub.members["a"] = replace(hub.members["a"], upgrades_paused=True)
    hub.evaluate(BEGIN, [Start()])
    assert [person for _, _, person in waits(hub.run)] == [True]


def test_a_run_that_has_failed_says_who_has_and_waits_for_a_start():
    run = play(member("a", outcomes=["fail"])).hub.run
    found = situation_of(run)
    assert (found.is_halted, found.message) == (True, "a: UpgradeFailed: its upgrade has failed")
    assert waits(run) == [("Start", "a start: the run is Failed", True)]


def test_a_run_that_is_over_waits_for_nothing():
    run = play(member("a")).hub.run
    assert (waits(run), situation_of(run).is_over) == ([], True)


def test_the_overview_has_all_that_scripts_need():
    run = play(member("a")).hub.run
    found = overview(run, situation_of(run))
    assert found["run"]["phase"] == "Completed"
    assert found["run"]["counts"]["completed"] == 1
    assert found["stages"][0]["groups"][0]["members"][0]["name"] == "a"
