"""What users order of runs, and where those stand."""

from dataclasses import replace

import pytest

from scorer.api.upgrade.run import RunState, SkipTarget, SkipTargetType
from scorer.upgrade.orders import OrderRefusedError, order_skip, order_start, order_stop, retry_run
from scorer.upgrade.simulation import Start, Stop
from scorer.upgrade.situation import overview, situation_of
from tests.scorer.upgrade.scenarios import BEGIN, at, daily, member, play, prepared, stage

APPROVAL = {"type": "Approval", "displayName": "healthy?"}


def wants(run, state):
    return run.model_copy(update={"spec": run.spec.model_copy(update={"state": state})})


def started(*members, **given):
    hub = prepared(*members, **given).hub
    hub.evaluate(BEGIN, [Start()])
    return hub


def test_a_run_is_started_once():
    hub = prepared(member("a")).hub
    assert order_start(hub.run, "t") == {"spec": {"state": "Run"}}
    assert order_start(started(member("a")).run, "t") is None


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_that_is_halted_is_started_again_by_a_token(fails):
    if fails:
        run = play(member("a", outcomes=["fail"])).hub.run
    else:
        hub = started(member("a", windows=[daily("12:00")]), stages=[stage("s", "g")])
        hub.evaluate(at("1m"), [Stop()])
        run = hub.run
    assert order_start(run, "t") == {"spec": {"state": "Run", "restartToken": "t"}}
    assert order_stop(run) is None


def test_what_cannot_be_started_or_stopped_says_why():
    over = play(member("a")).hub.run
    with pytest.raises(OrderRefusedError, match="run run is Completed: make another one"):
        order_start(over, "t")
    with pytest.raises(OrderRefusedError, match="run run is Completed"):
        order_stop(over)
    with pytest.raises(OrderRefusedError, match="run run has not started"):
        order_stop(prepared(member("a")).hub.run)
    hub = started(member("a"))
    hub.evaluate(at("1m"), [Stop()])
    with pytest.raises(OrderRefusedError, match="is being stopped"):
        order_start(hub.run, "t")


def test_a_run_is_stopped_once():
    run = started(member("a")).run
    assert order_stop(run) == {"spec": {"state": "Stop"}}
    assert order_stop(wants(run, RunState.STOP)) is None


def targets(*pairs):
    return [SkipTarget(type=kind, name=name) for kind, name in pairs]


def test_what_is_skipped_is_added_to_what_is_there():
    run = started(member("a"), member("b"), stages=[stage("s", "g")]).run
    first = targets((SkipTargetType.MEMBER, "b"))
    run = run.model_copy(update={"spec": run.spec.model_copy(update={"skip_targets": tuple(first)})})
    patch = order_skip(run, targets((SkipTargetType.AFTER_STAGE_WAIT, "s")))
    assert patch["spec"]["skipTargets"] == [{"type": "Member", "name": "b"}, {"type": "AfterStageWait", "name": "s"}]


@pytest.mark.parametrize(
    ("kind", "name"),
    [(SkipTargetType.MEMBER, "zz"), (SkipTargetType.GROUP, "s"), (SkipTargetType.STAGE, "g")],
)
def test_what_the_run_does_not_have_is_not_skipped(kind, name):
    run = started(member("a"), stages=[stage("s", "g")]).run
    with pytest.raises(OrderRefusedError, match=f"has no {kind.value} '{name}'"):
        order_skip(run, targets((kind, name)))


def test_a_retry_has_the_versions_and_the_sequence_of_the_first_run():
    scenario = play(
        member("a"),
        member("b", outcomes=["fail"]),
        stages=[stage("s", "g")],
        upgrade={"type": "Full", "kubernetesVersion": "1.31", "nodeImage": {"selection": "Consistent"}},
        catalog={"regions": {"r1": {"kubernetes": ["1.31.2"], "images": {"linux": ["100", "110"]}}}},
    )
    found = retry_run(scenario.hub.run)
    assert found["metadata"]["name"] == "run-retry"
    assert found["spec"]["state"] == "Initialize"
    assert found["spec"]["strategy"]["stages"][0]["name"] == "s"
    assert found["spec"]["upgrade"] == {
        "type": "Full",
        "kubernetesVersion": "1.31.2",
        "nodeImage": {"selection": "Custom", "customVersions": [{"family": "linux", "version": "110"}]},
    }
    assert not {"strategyRef", "restartToken", "skipTargets"} & set(found["spec"])


def test_a_retry_of_latest_images_takes_the_latest():
    scenario = play(member("a", outcomes=["fail"]), upgrade={"type": "NodeImageOnly"}, catalog=CATALOG)
    assert retry_run(scenario.hub.run)["spec"]["upgrade"] == {
        "type": "NodeImageOnly",
        "nodeImage": {"selection": "Latest"},
    }


CATALOG = {"regions": {"r1": {"images": {"linux": ["100", "110"]}}}}


def test_a_retry_of_a_control_plane_has_no_images():
    upgrade = {"type": "ControlPlaneOnly", "kubernetesVersion": "1.31.2"}
    scenario = play(member("a", outcomes=["fail"]), upgrade=upgrade)
    assert retry_run(scenario.hub.run, "again")["spec"]["upgrade"] == upgrade
    assert retry_run(scenario.hub.run, "again")["metadata"]["name"] == "again"


def test_only_what_has_ended_is_tried_again():
    with pytest.raises(OrderRefusedError, match="only what has ended"):
        retry_run(started(member("a")).run)
    with pytest.raises(OrderRefusedError, match="only what has ended"):
        retry_run(prepared(member("a")).hub.run)


def test_the_name_of_a_retry_is_short_enough():
    run = play(member("a")).hub.run
    long = run.model_copy(update={"metadata": run.metadata.model_copy(update={"name": "x" * 50})})
    assert len(retry_run(long)["metadata"]["name"]) == 50


# Where runs stand.


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


def test_members_that_wait_for_the_same_are_named_together():
    hub = started(*(member(f"m{each}", windows=[daily("12:00")]) for each in range(3)), stages=[stage("s", "g")])
    ((kind, message, person),) = waits(hub.run)
    assert (kind, person) == ("Members", False)
    assert message.startswith("m0, m1, m2: MaintenanceWindowClosed: 3 members, the first: ")
    assert situation_of(hub.run).waits[0].until == at("12h")


def test_a_member_on_hold_needs_a_person():
    hub = prepared(member("a")).hub
    hub.members["a"] = replace(hub.members["a"], on_hold=True)
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
