"""What a skip comes to, before it is ordered."""

import pytest

from scorer.api.upgrade.run import SkipTarget, SkipTargetType
from scorer.upgrade.simulation.hub import Start
from tests.scorer.upgrade.scenarios import BEGIN, at, member, play, prepared, stage
from webhook.cli.upgrades.skips import effects

APPROVAL = {"type": "Approval"}
STAGES = [
    stage("test", "g", afterStageWaitSeconds=600),
    stage("live", "h", {"name": "empty"}, afterGates=[APPROVAL]),
    stage("last", {"name": "other", "memberSelector": {"matchLabels": {"is": "nobody"}}}),
]


def run_at(moment):
    hub = prepared(member("a", "g"), member("b", "h"), member("c", "h"), stages=STAGES).hub
    hub.evaluate(BEGIN, [Start()])
    for each in ("30m", "45m")[: ("", "30m", "45m").index(moment)]:
        hub.evaluate(at(each))
    return hub.run


def effect(run, kind, name):
    (found,) = effects(run, [SkipTarget(type=SkipTargetType(kind), name=name)])
    return found.does_something, found.description, found.notes


@pytest.mark.parametrize(
    ("moment", "kind", "name", "found"),
    [
        pytest.param("", "Member", "b", (True, "Member b", ()), id="to-come"),
        pytest.param(
            "", "Member", "a", (False, "Member a", ("a is being upgraded, which is not interrupted",)), id="running"
        ),
        pytest.param("30m", "Member", "a", (False, "Member a", ("a is already upgraded",)), id="done"),
        pytest.param("30m", "Stage", "live", (True, "Stage live (b, c)", ()), id="a-stage"),
        pytest.param("30m", "Group", "h", (True, "Group h (b, c)", ()), id="a-group"),
        pytest.param("30m", "Stage", "last", (True, "Stage last", ()), id="nobody-is-there-yet"),
        pytest.param("", "AfterStageWait", "test", (True, "AfterStageWait test", ()), id="a-wait-to-come"),
        pytest.param("30m", "AfterStageWait", "test", (True, "AfterStageWait test", ()), id="a-wait"),
        pytest.param(
            "45m",
            "AfterStageWait",
            "test",
            (False, "AfterStageWait test", ("the wait after stage test is already Completed",)),
            id="a-wait-that-is-over",
        ),
        pytest.param(
            "",
            "AfterStageWait",
            "live",
            (False, "AfterStageWait live", ("there is no wait after stage live",)),
            id="no-wait",
        ),
    ],
)
def test_what_a_skip_comes_to(moment, kind, name, found):
    assert effect(run_at(moment), kind, name) == found


def test_a_member_that_has_failed_can_be_left_out_of_a_halted_run():
    run = play(member("a", outcomes=["fail"])).hub.run
    assert effect(run, "Member", "a") == (True, "Member a", ())


def test_a_run_that_has_no_stages_yet_takes_every_target():
    run = prepared(member("a")).hub.run
    bare = run.model_copy(update={"status": run.status.model_copy(update={"stages": ()})})
    assert effect(bare, "Member", "whoever") == (True, "Member whoever", ())
