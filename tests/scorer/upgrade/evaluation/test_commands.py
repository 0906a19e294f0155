"""What users order of a run, and what comes of it in which state."""

import pytest

from scorer.api.upgrade.run import SkipTarget, UpgradeRunState
from scorer.upgrade.evaluation.engine import advance
from scorer.upgrade.simulation.hub import Skip, Start, Stop
from tests.scorer.upgrade.evaluation.worlds import World
from tests.scorer.upgrade.scenarios import (
    BEGIN,
    at,
    daily,
    event,
    member,
    play,
    prepared,
    said,
    seen,
    skip,
    stage,
    started,
    told,
)


def states(found, *names):
    return [found["members"][name] for name in names]


def edited(hub, **changes):
    """The run with its spec edited as a user can who goes past admission."""
    return hub.run.model_copy(update={"spec": hub.run.spec.model_copy(update=changes)})


def test_a_second_start_is_refused_and_told():
    hub, _ = started(member("a"))
    moment = hub.evaluate(at("10m"), [Start()])
    assert moment.refused == (Start(),)
    again = advance(edited(hub, restart_token="again"), hub.facts(at("10m")))
    assert [each.reason for each in again.events] == ["CommandRefused"]
    assert again.status.state == "Running"


def test_a_token_that_was_refused_does_not_restart_the_run_later():
    hub, _ = started(member("a", outcomes=["fail"]))
    hub.run = edited(hub, restart_token="early")
    hub.evaluate(at("10m"))
    hub.evaluate(at("30m"))
    assert hub.evaluate(at("40m")).run.status.state == "Failed"
    hub.run = edited(hub, restart_token="late")
    restarted = hub.evaluate(at("50m"))
    assert (restarted.run.status.state, restarted.run.status.restarts) == ("Running", 1)
    assert "RunRestarted" in told([restarted])


def test_a_failed_run_does_not_start_again_by_itself():
    found = seen(member("a", outcomes=["fail"]), until="3d")
    assert (found["run"], found["runDoneAt"], found["attempts"]) == ("Failed", "30m", {"a": 1})


@pytest.mark.parametrize(
    ("events", "rejected"),
    [
        pytest.param([event("0s", "stop")], [["stop", "0s"]], id="stop-before-the-start"),
        pytest.param([event("10m", "start"), event("20m", "start")], [["start", "20m"]], id="start-twice"),
        pytest.param(
            [event("10m", "start"), event("15m", "stop"), event("20m", "start")],
            [["start", "20m"]],
            id="start-while-it-is-stopping",
        ),
        pytest.param(
            [event("10m", "start"), event("15m", "stop"), event("20m", "stop"), event("40m", "stop")],
            [],
            id="stop-again",
        ),
        pytest.param(
            [event("10m", "start"), event("2h", "stop"), event("2h", "start")],
            [["stop", "2h"], ["start", "2h"]],
            id="after-the-end",
        ),
        pytest.param(
            [event("10m", "start"), event("20m", "approve", stage="default", timing="Before")],
            [["approve", "20m"]],
            id="approve-what-is-no-gate",
        ),
    ],
)
def test_commands_are_refused_in_states_that_do_not_take_them(events, rejected):
    assert seen(member("a"), start="", events=events)["rejected"] == rejected


def test_a_stop_lets_what_is_in_flight_end_and_starts_nothing_more():
    found = seen(member("a"), member("b"), events=[event("10m", "stop")], checkAt=["10m", "20m"])
    assert [each["run"] for each in found["at"]] == ["Stopping", "Stopping"]
    assert (found["run"], found["runDoneAt"]) == ("Stopped", "30m")
    assert states(found, "a", "b") == ["Completed", "NotStarted"]


def test_a_run_whose_last_upgrade_ends_while_it_stops_is_completed():
    found = seen(member("a"), events=[event("10m", "stop")])
    assert (found["run"], found["stages"], found["groups"]) == (
        "Completed",
        {"default": "Completed"},
        {"default/default": "Completed"},
    )


def test_a_completion_at_the_instant_of_a_stop_counts_and_the_next_member_does_not_start():
    found = seen(member("a"), member("b"), events=[event("30m", "stop")])
    assert states(found, "a", "b") == ["Completed", "NotStarted"]
    assert (found["run"], found["runDoneAt"]) == ("Stopped", "30m")


def test_a_failure_while_the_user_stops_the_run_makes_it_failed():
    found = seen(member("a", outcomes=["fail"]), events=[event("10m", "stop")])
    assert found["run"] == "Failed"


def test_the_clock_of_a_wait_goes_on_while_the_run_is_stopped():
    stages = [stage("one", "a", afterStageWaitSeconds=3600), stage("two", "b")]
    found = seen(
        *(member("a", "a"), member("b", "b")),
        stages=stages,
        events=[event("40m", "stop"), event("80m", "start")],
        checkAt=["1h"],
    )
    assert (found["at"][0]["waits"]["one"], found["at"][0]["stages"]["one"]) == ("Stopped", "Stopped")
    assert found["times"]["b"] == ["1h30m", "2h"]
    elapsed = seen(
        *(member("a", "a"), member("b", "b")), stages=stages, events=[event("40m", "stop"), event("5h", "start")]
    )
    assert elapsed["times"]["b"] == ["5h", "5h30m"]


def test_a_wait_begins_with_the_last_group_though_the_run_is_stopping():
    stages = [stage("one", "a", afterStageWaitSeconds=3600), stage("two", "b")]
    found = seen(
        *(member("a", "a"), member("b", "b")),
        stages=stages,
        events=[event("10m", "stop"), event("1h", "start")],
        checkAt=["30m"],
    )
    assert found["at"][0]["waits"]["one"] == "Stopped"
    assert found["times"]["b"] == ["1h30m", "2h"]


def test_a_restart_after_a_stop_leaves_failed_members_and_goes_on_with_the_others():
    group = {"name": "g", "maxAllowedFailures": 1}
    found = seen(
        *(member("a", outcomes=["fail"]), member("b"), member("c", windows=[daily("20:00")])),
        stages=[stage("s", group, maxAllowedFailures=1)],
        events=[event("2h", "stop"), event("3h", "start")],
        checkAt=["2h"],
    )
    assert found["at"][0]["members"]["c"] == "Stopped"
    assert "c" not in found["at"][0]["reasons"]
    assert states(found, "a", "b", "c") == ["Failed", "Completed", "Completed"]
    assert found["attempts"]["a"] == 1


def test_a_restart_after_a_failure_opens_groups_again_that_had_tolerated_theirs():
    tolerant = {"name": "a", "maxAllowedFailures": 1}
    found = seen(
        member("a1", "a", outcomes=["fail"]),
        member("b1", "b", outcomes=[{"fail": "1h"}]),
        stages=[stage("s", tolerant, "b", maxAllowedFailures=1)],
        events=[event("2h", "start")],
        checkAt=["90m"],
    )
    assert found["at"][0]["groups"] == {"s/a": "Completed", "s/b": "Failed"}
    assert found["attempts"] == {"a1": 2, "b1": 2}
    assert (found["run"], found["failureCount"]) == ("Completed", 0)


def test_failed_members_of_earlier_stages_stay_failed():
    tolerant = {"name": "a", "maxAllowedFailures": 1}
    found = seen(
        *(member("a1", "a", outcomes=["fail"]), member("b1", "b", outcomes=["fail"])),
        stages=[stage("one", tolerant, maxAllowedFailures=1), stage("two", "b")],
        events=[event("2h", "start")],
    )
    assert found["attempts"] == {"a1": 1, "b1": 2}
    assert (found["run"], found["failureCount"]) == ("Completed", 1)


def test_a_member_that_was_repaired_by_hand_is_skipped_by_the_restart():
    repaired = {"version": "1.31.2", "pools": [{"name": "np1"}]}
    found = seen(
        member("a", outcomes=["fail"]), events=[event("1h", "setMember", name="a", set=repaired), event("2h", "start")]
    )
    assert (found["run"], found["members"], found["reasons"]) == (
        *("Skipped", {"a": "Skipped"}, {"a": "AlreadyAtTarget"}),
    )


@pytest.mark.parametrize(
    ("targets", "word"),
    [
        pytest.param([("Member", "running")], "SkipIgnored", id="member-in-upgrade"),
        pytest.param([("Member", "nobody")], "SkipTargetUnknown", id="no-such-member"),
        pytest.param([("Group", "nobody")], "SkipTargetUnknown", id="no-such-group"),
        pytest.param([("Stage", "nobody")], "SkipTargetUnknown", id="no-such-stage"),
        pytest.param([("AfterStageWait", "nobody")], "SkipTargetUnknown", id="no-such-wait"),
    ],
)
def test_a_skip_without_effect_is_told_and_not_applied_again(targets, word):
    hub, _ = started(member("running"), member("standby"))
    order = Skip(tuple(SkipTarget.read({"type": kind, "name": name}) for kind, name in targets))
    moment = hub.evaluate(at("10m"), [order])
    assert told([moment]) == [word]
    done = hub.evaluate(at("30m"))
    assert told([done]) == ["MemberUpgradeCompleted", "MemberUpgradeStarted"]
    assert done.run.status.observed_skip_targets == 1


def test_a_member_that_has_failed_is_skipped_while_the_run_is_halted_only():
    group = {"name": "g", "maxAllowedFailures": 1}
    tolerated = seen(
        *(member("a", outcomes=["fail"]), member("b")),
        stages=[stage("s", group, maxAllowedFailures=1)],
        events=[skip("40m", "Member", "a")],
    )
    assert states(tolerated, "a", "b") == ["Failed", "Completed"]
    halted = seen(
        *(member("a", outcomes=["fail"]), member("b")), events=[skip("40m", "Member", "a"), event("1h", "start")]
    )
    assert states(halted, "a", "b") == ["Skipped", "Completed"]


def test_skipping_groups_of_a_halted_run_shows_in_them_with_the_restart():
    found = seen(
        *(member("a", "a", outcomes=["fail"]), member("b", "b", outcomes=["fail"])),
        stages=[stage("s", "a", "b")],
        events=[skip("1h", "Group", "a"), event("2h", "start")],
        checkAt=["90m", "2h"],
    )
    assert [each["members"]["a"] for each in found["at"]] == ["Skipped", "Skipped"]
    assert [each["groups"]["s/a"] for each in found["at"]] == ["Failed", "Skipped"]
    assert found["run"] == "Completed"


def test_a_stage_that_failed_is_abandoned_by_skipping_it_also_where_a_group_had_tolerated_a_failure():
    tolerant = {"name": "a", "maxAllowedFailures": 1}
    found = seen(
        *(member("a1", "a", outcomes=["fail"]), member("b1", "b", outcomes=[{"fail": "1h"}]), member("c1", "c")),
        stages=[stage("one", tolerant, "b", maxAllowedFailures=1), stage("two", "c")],
        events=[skip("2h", "Stage", "one"), event("3h", "start")],
    )
    assert states(found, "a1", "b1", "c1") == ["Skipped", "Skipped", "Completed"]
    assert (found["stages"]["one"], found["times"]["c1"], found["run"]) == ("Skipped", ["3h", "3h30m"], "Completed")


def test_a_member_that_fails_in_a_skipped_group_halts_the_run_and_is_skipped_by_the_restart():
    found = seen(
        *(member("a", "a", outcomes=["fail"]), member("b", "b", duration="2h")),
        stages=[stage("s", "a", "b")],
        events=[skip("10m", "Group", "a"), event("3h", "start")],
        checkAt=["1h"],
    )
    assert (found["at"][0]["run"], found["at"][0]["groups"]["s/a"]) == ("Stopping", "Failed")
    assert (found["groups"]["s/a"], found["run"]) == ("Skipped", "Completed")


def test_parts_that_are_skipped_before_the_start_do_not_delay_it():
    found = seen(
        *(member("a", "a"), member("b", "b")),
        stages=[stage("one", "a", afterStageWaitSeconds=3600), stage("two", "b")],
        start="1h",
        events=[skip("30m", "Group", "a")],
        checkAt=["30m"],
    )
    early = found["at"][0]
    assert (early["run"], early["stages"], early["waits"]["one"]) == (
        *("NotStarted", {"one": "Skipped", "two": "NotStarted"}, "Skipped"),
    )
    assert found["times"] == {"b": ["1h", "1h30m"]}


def test_a_run_that_is_skipped_as_a_whole_before_the_start_is_skipped_with_it():
    found = seen(member("a"), start="1h", events=[skip("30m", "Stage", "default")], checkAt=["30m"])
    assert found["at"][0]["run"] == "NotStarted"
    assert (found["run"], found["runDoneAt"]) == ("Skipped", "1h")


def test_the_wait_that_a_stage_is_in_can_be_skipped_and_the_next_stage_begins():
    found = seen(
        *(member("a", "a"), member("b", "b")),
        stages=[stage("one", "a", afterStageWaitSeconds=86400), stage("two", "b")],
        events=[skip("1h", "AfterStageWait", "one")],
    )
    assert (found["waits"]["one"], found["stages"]["one"], found["times"]["b"]) == (
        *("Skipped", "Completed", ["1h", "1h30m"]),
    )


def test_orders_of_one_instant_are_followed_in_their_order():
    hub = prepared(member("a")).hub
    assert hub.evaluate(BEGIN, [Start(), Stop()]).run.status.state == "Stopped"
    assert hub.evaluate(at("1h"), [Start()]).run.status.state == "Running"


def test_people_are_told_how_a_run_goes():
    scenario = prepared(member("a"), member("b", outcomes=["fail"]), events=[event("2h", "start")])
    moments = list(scenario.moments())
    assert told(moments) == [
        *("RunStarted", "StageStarted", "MemberUpgradeStarted"),
        *("MemberUpgradeCompleted", "MemberUpgradeStarted"),
        *("MemberUpgradeFailed", "RunStopping", "RunFailed"),
        *("RunRestarted", "MemberUpgradeStarted"),
        *("MemberUpgradeCompleted", "StageCompleted", "RunCompleted"),
    ]


@pytest.mark.parametrize(
    ("members", "begins", "stops"),
    [
        pytest.param(
            ["a"],
            "the run has started with 1 member",
            "1 member of group g has failed, more than the 0 that it allows",
            id="one",
        ),
        pytest.param(
            ["a", "b"],
            "the run has started with 2 members",
            "2 members of group g have failed, more than the 0 that it allows",
            id="two",
        ),
    ],
)
def test_people_are_told_of_one_member_or_of_several(members, begins, stops):
    wide = stage("s", {"name": "g", "maxConcurrency": "100%"})
    failing = (member(name, outcomes=["fail"]) for name in members)
    said = {
        each.reason: each.message for moment in prepared(*failing, stages=[wide]).moments() for each in moment.events
    }
    assert (said["RunStarted"], said["RunStopping"]) == (begins, stops)


def test_conditions_follow_the_run():
    hub, _ = started(member("a"), member("b", outcomes=["fail"]))
    run = hub.run
    assert [said(run, each) for each in ("Progressing", "Healthy", "Succeeded")] == [
        *("True UpgradeRunning", "True NoFailures", ""),
    ]
    hub.evaluate(at("30m"))
    run = hub.evaluate(at("1h")).run
    assert [said(run, each) for each in ("Progressing", "Healthy", "Succeeded")] == [
        *("False Failed", "False ToleratedFailures", "False FailureThresholdExceeded"),
    ]
    run = hub.evaluate(at("2h"), [Start()]).run
    assert [said(run, each) for each in ("Progressing", "Healthy", "Succeeded")] == [
        *("True UpgradeRunning", "True NoFailures", ""),
    ]
    run = hub.evaluate(at("3h")).run
    assert [said(run, each) for each in ("Progressing", "Succeeded")] == ["False Finished", "True UpgradeCompleted"]
    assert run.spec.state is UpgradeRunState.RUN


def test_counts_add_up_at_every_instant():
    scenario = prepared(member("a"), member("b", outcomes=["fail"]), member("c", version="1.31.2"))
    for moment in scenario.moments():
        counts = moment.run.status.counts.model_dump()
        assert counts.pop("total") == 3 == sum(counts.values())


def test_a_skipped_run_is_over_for_good():
    played = play(member("a", version="1.31.2"))
    assert advance(edited(played.hub, restart_token="x"), played.hub.facts(at("1h"))).changed is False


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param("Member", "a", id="member"),
        pytest.param("Group", "a", id="group"),
        pytest.param("Stage", "one", id="stage"),
        pytest.param("AfterStageWait", "one", id="wait"),
    ],
)
def test_what_is_over_already_is_not_skipped(kind, name):
    hub, _ = started(member("a", "a"), member("b", "b"), stages=[stage("one", "a"), stage("two", "b")])
    before = hub.evaluate(at("30m")).run.status.stages[0]
    moment = hub.evaluate(at("40m"), [Skip((SkipTarget.read({"type": kind, "name": name}),))])
    assert told([moment]) == ["SkipIgnored"]
    assert moment.run.status.stages[0] == before


def test_a_stage_whose_rest_is_skipped_while_the_run_stops_is_skipped():
    found = seen(
        *(member("a", "a"), member("b", "b"), member("c", "c")),
        stages=[stage("one", "a", "b", maxConcurrency=1, afterGates=[{"type": "Approval"}]), stage("two", "c")],
        events=[event("10m", "stop"), skip("20m", "Stage", "one")],
        checkAt=["20m"],
    )
    early = found["at"][0]
    assert (early["run"], early["groups"]["one/a"], early["groups"]["one/b"]) == ("Stopping", "Stopping", "Skipped")
    assert (found["run"], found["stages"], found["members"]["a"]) == (
        *("Stopped", {"one": "Skipped", "two": "NotStarted"}, "Completed"),
    )
    assert set(found["gates"].values()) == {"Skipped"}


def test_a_run_that_is_being_deleted_starts_nothing_more():
    hub, _ = started(member("a"), member("b"))
    metadata = hub.run.metadata.model_copy(update={"deletion_timestamp": at("10m")})
    hub.run = hub.run.model_copy(update={"metadata": metadata})
    assert hub.evaluate(at("10m")).run.status.state == "Stopping"
    run = hub.evaluate(at("30m")).run
    assert (run.status.state, run.status.counts.not_started) == ("Stopped", 1)


def test_a_run_that_is_deleted_before_its_start_does_not_start():
    hub = prepared(member("a")).hub
    metadata = hub.run.metadata.model_copy(update={"deletion_timestamp": BEGIN})
    hub.run = edited(hub, state=UpgradeRunState.RUN).model_copy(update={"metadata": metadata})
    assert hub.evaluate(BEGIN).run.status.state == "NotStarted"


def test_a_group_that_is_done_is_skipped_while_its_stage_goes_on_and_its_members_stay_as_they_are():
    found = seen(
        *(member("a", "a"), member("b", "b", duration="1h")),
        stages=[stage("s", "a", "b", afterStageWaitSeconds=1800)],
        events=[skip("40m", "Group", "a")],
        checkAt=["40m"],
    )
    assert found["at"][0]["groups"] == {"s/a": "Skipped", "s/b": "Running"}
    assert (found["members"]["a"], found["stages"]["s"], found["runDoneAt"]) == ("Completed", "Completed", "1h30m")


def test_skipping_a_stage_during_its_wait_ends_it_as_skipped():
    found = seen(
        *(member("a", "a"), member("b", "b")),
        stages=[stage("one", "a", afterStageWaitSeconds=86400), stage("two", "b")],
        events=[skip("1h", "Stage", "one")],
    )
    assert (found["stages"]["one"], found["groups"]["one/a"], found["waits"]["one"]) == (*["Skipped"] * 3,)
    assert (found["members"]["a"], found["times"]["b"]) == ("Completed", ["1h", "1h30m"])


def test_a_run_that_is_made_to_start_at_once_says_how_many_members_it_has():
    world = World.of(prepared(member("a"), member("b"), start="").hub, state=UpgradeRunState.RUN)
    said = {event.reason: event.message for event in world.step().events}
    assert said["RunStarted"] == "the run has started with 2 members"
