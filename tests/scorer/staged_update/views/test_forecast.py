"""How a run would go from here."""

from dataclasses import replace
from datetime import timedelta

import pytest

from scorer.api.meta import format_time
from scorer.rollout.selection.selector import InvalidSelection
from scorer.rollout.snapshots.groups import latest_group
from scorer.staged_update.execution.engine import advance
from scorer.staged_update.facts import ClusterWait
from scorer.staged_update.outcome import NotYetError, RunFailedError, RunFailureCause
from scorer.staged_update.views.forecast import LONGEST_WAIT, ForecastProgress, forecast, initialize_run
from tests.scorer.staged_update.plans import (
    APPROVAL,
    NOW,
    WAIT,
    at,
    binding,
    config_map,
    facts,
    placement,
    run,
    snapshots,
    stage,
)

LONG_WAIT = {"type": "TimedWait", "waitTime": "1h30m"}


def batches(found):
    return {each.planned.name: each.batches for each in found.stages}


def starts(found):
    return {cluster.name: cluster.starts for each in found.stages for cluster in each.clusters}


def conditions(*kinds, since=NOW):
    return [{"type": kind, "status": status, "lastTransitionTime": format_time(since)} for kind, status in kinds]


def under_way(hub, **members):
    """Return a run that has been initialised on a hub, with other members in the record of its first stage."""
    made, _ = initialize_run(run(), hub)
    first, *others = made["status"]["stagesStatus"]
    return {**made, "status": {**made["status"], "stagesStatus": [{**first, **members}, *others]}}


class TestANewRun:
    """A run that has not been initialised."""

    def test_the_clusters_of_each_stage_come_in_batches_of_its_concurrency(self):
        found = forecast(run(), facts(stage("test"), stage("live", maxConcurrency=2)))
        assert batches(found) == {"test": [["t1"]], "live": [["v1", "v2"], ["v3"]]}

    def test_a_concurrency_far_above_the_number_of_clusters_takes_no_memory(self):
        found = forecast(run(), facts(stage("test"), stage("live", maxConcurrency=2147483647)), timedelta(minutes=1))
        assert batches(found)["live"] == [["v1", "v2", "v3"]]
        assert found.ends == NOW + timedelta(minutes=2)

    def test_it_makes_the_snapshot_of_what_is_selected_now(self):
        found = forecast(run(), facts(old=[[config_map(level="0")]]))
        latest = latest_group(found.facts.groups)
        assert (found.snapshot, latest.name) == ("p-1-snapshot", "p-1-snapshot")
        assert latest.objects() == [config_map(level="1")]

    def test_it_uses_the_snapshot_that_holds_what_is_selected_already(self):
        assert forecast(run(), facts(old=[[config_map(level="1")]])).snapshot == "p-0-snapshot"

    def test_it_rolls_out_the_index_that_it_names(self):
        old = [[config_map(level=level)] for level in "012"]
        assert forecast(run(index="1"), facts(old=old)).snapshot == "p-1-snapshot"

    def test_clusters_that_are_not_picked_any_more_come_last_by_name(self):
        assert forecast(run(), facts(removed=["z", "y"])).removed == ("y", "z")

    def test_a_stage_without_clusters_is_skipped_with_its_tasks(self):
        found = forecast(run(), facts(stage("none", afterStageTasks=[LONG_WAIT]), stage("test"), stage("live")))
        assert (found.stages[0].tasks, found.stages[0].ends, found.ends) == ((), NOW, NOW)

    def test_approvals_are_named_as_their_requests(self):
        hub = facts(stage("test", afterStageTasks=[APPROVAL]), stage("live", beforeStageTasks=[APPROVAL]))
        found = forecast(run(), hub)
        assert [task.request for each in found.stages for task in each.tasks] == ["r-after-test", "r-before-live"]


class TestTheEarliestFinish:
    """When the run is done at the earliest."""

    def test_it_is_the_sum_of_the_timed_waits(self):
        hub = facts(stage("test", afterStageTasks=[LONG_WAIT]), stage("live", afterStageTasks=[WAIT, APPROVAL]))
        found = forecast(run(), hub)
        assert [each.ends for each in found.stages] == [at("13:30"), at("13:40")]
        assert found.ends == at("13:40")

    def test_without_waits_it_is_now(self):
        assert forecast(run(), facts()).ends == NOW

    @pytest.mark.parametrize(("concurrency", "ends"), [(1, "12:20"), (2, "12:15"), (3, "12:10"), ("67%", "12:15")])
    def test_what_a_cluster_takes_counts_once_per_batch(self, concurrency, ends):
        hub = facts(stage("test"), stage("live", maxConcurrency=concurrency))
        assert forecast(run(), hub, timedelta(minutes=5)).ends == at(ends)

    def test_a_closed_window_bounds_it(self):
        waits = {"v2": ClusterWait("its windows are closed", at("20:00"))}
        found = forecast(run(), facts(stage("test"), stage("live", afterStageTasks=[WAIT]), waits=waits))
        assert starts(found) == {"t1": NOW, "v1": NOW, "v2": at("20:00"), "v3": NOW}
        assert found.ends == at("20:10")

    def test_a_window_that_opens_before_its_stage_begins_makes_no_difference(self):
        waits = {"v2": ClusterWait("its windows are closed", at("12:05"))}
        hub = facts(stage("test", afterStageTasks=[WAIT]), stage("live"), waits=waits)
        found = forecast(run(), hub)
        assert (found.ends, found.stages[1].clusters[1].wait) == (at("12:10"), None)

    def test_a_window_that_has_closed_when_its_stage_begins_is_waited_for(self):
        def closed(name, instant):
            return ClusterWait("closed", at("22:00")) if name == "v2" and at("12:05") <= instant < at("22:00") else None

        hub = facts(stage("test", afterStageTasks=[WAIT]), stage("live"))
        found = forecast(run(), hub, waits=closed)
        assert (found.ends, found.stages[1].clusters[1].wait) == (at("22:00"), closed("v2", at("12:10")))
        assert forecast(run(), facts(), waits=closed).ends == NOW

    def test_where_clusters_have_an_order_those_behind_one_that_waits_wait_too(self):
        clusters = {name: {"stage": "live", "wave": wave} for name, wave in (("a", "1"), ("b", "2"))}
        waits = {"a": ClusterWait("its windows are closed", at("20:00"))}
        hub = facts(stage("live", sortingLabelKey="wave"), clusters=clusters, waits=waits)
        assert starts(forecast(run(), hub)) == {"a": at("20:00"), "b": at("20:00")}

    def test_where_nobody_knows_when_a_cluster_is_free_it_is_bounded_by_the_rest(self):
        hub = facts(stage("test"), stage("live", afterStageTasks=[WAIT]), waits={"v1": ClusterWait("upgraded now")})
        found = forecast(run(), hub)
        assert found.ends == at("12:10")
        assert [each.wait for each in found.stages[1].clusters] == [ClusterWait("upgraded now"), None, None]

    def test_waits_of_many_centuries_are_cut(self):
        forever = {"type": "TimedWait", "waitTime": "2562047h"}
        found = forecast(run(), facts(stage("all", labelSelector={}, afterStageTasks=[forever])))
        assert found.ends == NOW + LONGEST_WAIT


class TestWhatTheEngineWouldRefuse:
    """The forecast fails as the engine would."""

    @pytest.mark.parametrize(
        ("changes", "cause"),
        [
            ({"placement": None}, RunFailureCause.PLACEMENT_NOT_FOUND),
            ({"placement": placement("RollingUpdate")}, RunFailureCause.PLACEMENT_NOT_EXTERNAL),
            ({"strategy": None}, RunFailureCause.STRATEGY_NOT_FOUND),
            ({"members": {"t1": {"stage": "test"}}}, RunFailureCause.CLUSTERS_IN_NO_STAGE),
            ({"selection": InvalidSelection("nothing")}, RunFailureCause.SELECTION_INVALID),
        ],
    )
    def test_a_run_that_cannot_be_initialised_is_refused_with_its_cause(self, changes, cause):
        with pytest.raises(RunFailedError) as refused:
            forecast(run(), replace(facts(), **changes))
        assert refused.value.cause is cause
        step = advance(run(), replace(facts(), **changes))
        assert f"{cause}: " in step.status["conditions"][0]["message"]

    def test_what_has_changed_since_a_run_was_initialised_ends_it(self):
        hub = facts()
        made, _ = initialize_run(run(), hub)
        with pytest.raises(RunFailedError, match="stage live has lost cluster v3") as refused:
            forecast(made, replace(hub, bindings=hub.bindings[:-1]))
        assert refused.value.cause is RunFailureCause.STAGES_CHANGED

    def test_a_run_that_waits_for_the_scheduler_has_no_forecast_yet(self):
        moving = [*facts().bindings, binding("x", state="Scheduled", policy="p-9")]
        with pytest.raises(NotYetError, match="has not been scheduled by p-0 yet"):
            forecast(run(), facts(bindings=moving))


class TestARunUnderWay:
    """What is still to come, by the record of the run."""

    def test_the_record_counts_and_not_the_strategy_of_today(self):
        hub = facts()
        made, _ = initialize_run(run(), hub)
        found = forecast(made, replace(hub, strategy=None, selection=None))
        assert batches(found) == {"test": [["t1"]], "live": [["v1"], ["v2"], ["v3"]]}

    def test_what_is_done_does_not_come_again(self):
        hub = facts(stage("test", afterStageTasks=[WAIT]), stage("live"))
        done = {"clusterName": "t1", "conditions": conditions(("Started", "True"), ("Succeeded", "True"))}
        made = under_way(hub, clusters=[done], conditions=conditions(("Succeeded", "True"), ("Progressing", "False")))
        found = forecast(made, hub)
        assert [each.progress for each in found.stages] == [ForecastProgress.DONE, ForecastProgress.TO_COME]
        assert (batches(found)["test"], found.stages[0].ends, found.ends) == ([], None, NOW)

    def test_a_wait_counts_from_when_the_clusters_were_done(self):
        hub = facts(stage("test", afterStageTasks=[WAIT]), stage("live"))
        done = {"clusterName": "t1", "conditions": conditions(("Started", "True"), ("Succeeded", "True"))}
        made = under_way(hub, clusters=[done], conditions=conditions(("Progressing", "False"), since=at("11:53")))
        found = forecast(made, hub)
        assert found.stages[0].progress is ForecastProgress.UNDER_WAY
        assert (found.stages[0].tasks[0].until, found.ends) == (at("12:03"), at("12:03"))

    def test_a_wait_whose_time_is_over_is_waited_for_no_longer(self):
        hub = facts(stage("test", afterStageTasks=[WAIT]), stage("live"))
        done = {"clusterName": "t1", "conditions": conditions(("Started", "True"), ("Succeeded", "True"))}
        made = under_way(hub, clusters=[done], conditions=conditions(("Progressing", "False"), since=at("09:00")))
        assert forecast(made, hub).ends == NOW

    def test_a_cluster_in_flight_has_only_the_rest_of_its_time_left(self):
        hub = facts()
        busy = {"clusterName": "t1", "conditions": conditions(("Started", "True"), since=at("11:58"))}
        made = under_way(hub, clusters=[busy], conditions=conditions(("Progressing", "True")))
        found = forecast(made, hub, timedelta(minutes=5))
        assert found.stages[0].clusters[0].progress is ForecastProgress.UNDER_WAY
        assert (found.stages[0].ends, found.ends) == (at("12:03"), at("12:18"))

    def test_a_cluster_that_the_loop_has_held_back_says_why(self):
        hub = facts()
        note = {
            "type": "Started",
            "status": "False",
            "reason": "ClusterUpdatingWaiting",
            "message": "closed until noon",
        }
        made = under_way(hub, clusters=[{"clusterName": "t1", "conditions": [note]}])
        (cluster,) = forecast(made, hub).stages[0].clusters
        assert (cluster.progress, cluster.wait) == (ForecastProgress.TO_COME, ClusterWait("closed until noon"))

    def test_an_approval_that_was_given_is_done(self):
        hub = facts(stage("test", beforeStageTasks=[APPROVAL], afterStageTasks=[APPROVAL]), stage("live"))
        given = {"type": "Approval", "conditions": conditions(("ApprovalRequestApproved", "True"))}
        made = under_way(hub, beforeStageTaskStatus=[given])
        assert [task.done for task in forecast(made, hub).stages[0].tasks] == [True, False]


def test_the_builders_make_what_the_engine_takes_for_a_run_that_it_can_begin():
    step = advance(run(index="0"), facts(old=[[config_map()]]))
    assert step.status["conditions"][0]["reason"] == "UpdateRunInitializedSuccessfully"
    assert [group.index for group in snapshots([config_map()], [config_map(level="2")])] == [0, 1]
