"""What users order of runs, and where those stand."""

import pytest

from scorer.api.upgrade.run import SkipTarget, SkipTargetType, UpgradeRunState
from scorer.upgrade.patches import UpgradeOrderRefusedError, order_skip, order_start, order_stop, retry_run
from scorer.upgrade.simulation.hub import Start, Stop
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


def test_a_stop_that_a_run_has_not_noticed_is_not_taken_back():
    """Admission refuses it, too (C-39); a run that has not started has nothing to stop."""
    run = started(member("a")).run
    told = run.model_copy(update={"spec": run.spec.model_copy(update={"state": UpgradeRunState.STOP})})
    with pytest.raises(
        UpgradeOrderRefusedError,
        match=r"is stopping and still Running: .* when it is Stopped or Failed",
    ):
        order_start(told, "t")
    early = prepared(member("a")).hub.run
    told = early.model_copy(update={"spec": early.spec.model_copy(update={"state": UpgradeRunState.STOP})})
    assert order_start(told, "t") == {"spec": {"state": "Run"}}


def test_what_cannot_be_started_or_stopped_says_why():
    over = play(member("a")).hub.run
    with pytest.raises(UpgradeOrderRefusedError, match="run run is Completed: create another one"):
        order_start(over, "t")
    with pytest.raises(UpgradeOrderRefusedError, match="run run is Completed"):
        order_stop(over)
    with pytest.raises(UpgradeOrderRefusedError, match="run run has not started"):
        order_stop(prepared(member("a")).hub.run)
    hub = started(member("a"))
    hub.evaluate(at("1m"), [Stop()])
    with pytest.raises(UpgradeOrderRefusedError, match="is being stopped"):
        order_start(hub.run, "t")


def test_a_run_is_stopped_once():
    run = started(member("a")).run
    assert order_stop(run) == {"spec": {"state": "Stop"}}
    assert order_stop(wants(run, UpgradeRunState.STOP)) is None


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
    with pytest.raises(UpgradeOrderRefusedError, match=f"has no {kind.value} '{name}'"):
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
    with pytest.raises(UpgradeOrderRefusedError, match="only a finished, failed or stopped run can be retried"):
        retry_run(started(member("a")).run)
    with pytest.raises(UpgradeOrderRefusedError, match="only a finished, failed or stopped run can be retried"):
        retry_run(prepared(member("a")).hub.run)


def test_the_name_of_a_retry_is_short_enough():
    run = play(member("a")).hub.run
    long = run.model_copy(update={"metadata": run.metadata.model_copy(update={"name": "x" * 50})})
    assert len(retry_run(long)["metadata"]["name"]) == 50
