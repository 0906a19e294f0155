"""The worked timeline of staged-updates.md 12 and the examples of 13, with a moved clock."""

from dataclasses import replace

import pytest

from scorer.api.unstructured.documents import status_of
from scorer.staged_update.facts import ClusterWait
from scorer.staged_update.record import cluster_name, clusters_of, status
from tests.scorer.staged_update.execution.orders import taken_over
from tests.scorer.staged_update.hub import (
    START,
    Hub,
    make_binding,
    make_hub,
    make_policy_snapshot,
    make_run,
    make_stage,
    make_strategy,
)

APPROVAL = {"type": "Approval"}
TRY = make_stage("try", afterStageTasks=[{"type": "TimedWait", "waitTime": "10m"}, APPROVAL])
ALL = make_stage("all", maxConcurrency="40%", beforeStageTasks=[APPROVAL])
CLUSTERS = {"a": "try", "b": "try", **{f"c{number}": "all" for number in range(1, 6)}}


@pytest.fixture
def hub() -> Hub:
    """The hub of section 12, as the run is created."""
    found = make_hub(TRY, ALL, clusters=CLUSTERS)
    return replace(found, bindings={**found.bindings, "z": make_binding("z", "Unscheduled", snapshot="p-9-snapshot")})


def at(hub: Hub, minutes: int, seconds: int = 0) -> Hub:
    """Return the hub at a time of the timeline, after the pass of that time."""
    passed = (START - hub.now).total_seconds() + 60 * minutes + seconds
    return hub.later(seconds=passed).settled()


def states(hub: Hub) -> dict[str, str]:
    """Return who is in flight and who is done."""
    words = {("True", ""): "started", ("True", "True"): "done", ("True", "False"): "failed", ("False", ""): "held"}
    found = {}
    for stage in status_of(hub.run)["stagesStatus"]:
        for entry in clusters_of(stage):
            word = words.get((status(entry, "Started"), status(entry, "Succeeded")))
            if word is not None:
                found[cluster_name(entry)] = word
    return found


def test_the_worked_timeline(hub):
    hub = at(hub, 0)
    assert states(hub) == {"a": "started"}
    hub = at(hub, 0, 15)
    assert states(hub) == {"a": "started"}
    hub = at(hub.reported("a"), 0, 30)
    assert states(hub) == {"a": "done", "b": "started"}
    hub = at(hub, 0, 45)
    assert states(hub)["b"] == "started"
    hub = at(hub.reported("b"), 1)
    assert states(hub) == {"a": "done", "b": "done"}
    assert "r-after-try" in hub.requests
    assert "2026-03-01T00:11:00Z" in hub.message("Progressing")
    assert hub.step.again.total_seconds() == 60  # the approval, which is looked at more often than the wait
    hub = at(hub.approved("r-after-try"), 4)
    assert hub.said("Progressing") == "False UpdateRunWaiting"
    assert hub.step.again.total_seconds() == 7 * 60
    hub = at(hub, 10, 59)
    assert "r-before-all" not in hub.requests
    hub = at(hub, 11)
    assert hub.stage_said("try", "Succeeded") == "True StageUpdatingSucceeded"
    waited = status_of(hub.run)["stagesStatus"][0]["afterStageTaskStatus"][0]["conditions"]
    assert [(each["type"], each["reason"]) for each in waited] == [("WaitTimeElapsed", "AfterStageTaskWaitTimeElapsed")]
    assert hub.stage_said("all", "Progressing") == "False StageUpdatingWaiting"
    assert "r-before-all" in hub.requests
    hub = at(hub.approved("r-before-all"), 12, 10)
    assert {name for name, word in states(hub).items() if word == "started"} == {"c1", "c2"}
    hub = at(hub, 12, 25)
    hub = at(hub.reported("c1", "c2"), 12, 40)
    assert {name for name, word in states(hub).items() if word == "started"} == {"c3", "c4"}
    hub = at(hub.reported("c3", "c4"), 13, 10)
    assert {name for name, word in states(hub).items() if word == "started"} == {"c5"}
    assert "z" in hub.bindings
    hub = at(hub.reported("c5"), 13, 40)
    assert "z" not in hub.bindings
    hub = at(hub, 13, 55)
    assert hub.said("Succeeded") == "True UpdateRunSucceeded"


def test_a_cluster_that_never_becomes_available_keeps_its_slot(hub):
    hub = at(at(hub, 0).reported("a"), 0, 30)
    hub = at(hub.reported("b"), 1)
    hub = at(hub.approved("r-after-try"), 11)
    hub = at(hub.approved("r-before-all"), 12, 10)
    hub = at(hub.reported("c1"), 12, 40)
    assert {name for name, word in states(hub).items() if word == "started"} == {"c2", "c3"}
    hub = at(hub, 17, 10)
    assert hub.said("Progressing") == "True UpdateRunProgressing"
    hub = at(hub, 17, 25)
    assert hub.said("Progressing") == "False UpdateRunStuck"
    assert "c2" in hub.message("Progressing")
    for name, minute in (("c3", 18), ("c4", 19), ("c5", 20)):
        hub = at(hub.reported(name), minute)
    assert {name for name, word in states(hub).items() if word == "started"} == {"c2"}
    assert hub.stage_said("all", "Succeeded") == ""
    hub = at(hub.reported("c2"), 21)
    assert hub.said("Succeeded") == "True UpdateRunSucceeded"


def test_slots_are_filled_in_the_pass_in_which_they_become_free():
    """X2: p is stuck, q and r are done in the same pass."""
    hub = make_hub(make_stage("one", maxConcurrency=3), clusters=dict.fromkeys("pqrst", "one")).settled()
    assert sorted(hub.given()) == ["p", "q", "r"]
    hub = hub.reported("q", "r").settled()
    assert sorted(hub.given()) == ["p", "q", "r", "s", "t"]


def test_a_stopped_run_brings_to_an_end_what_is_in_flight():
    """X3."""
    hub = make_hub(make_stage("one", maxConcurrency=2), clusters=dict.fromkeys("pqrs", "one")).settled()
    hub = hub.state("Stop").settled()
    assert hub.said("Progressing") == "Unknown UpdateRunStopping"
    assert hub.stage_said("one", "Progressing") == "Unknown StageUpdatingStopping"
    hub = hub.reported("p").settled()
    hub = hub.later(minutes=6).settled()
    assert hub.said("Progressing") == "False UpdateRunStuck"
    hub = hub.reported("q").settled()
    assert hub.said("Progressing") == "False UpdateRunStopped"
    assert hub.stage_said("one", "Progressing") == "False StageUpdatingStopped"
    assert sorted(hub.given()) == ["p", "q"]
    hub = hub.state("Run").settled()
    assert sorted(hub.given()) == ["p", "q", "r", "s"]


def test_a_run_that_is_created_stopped_shows_it_on_its_first_stage():
    """X3, with nothing in flight."""
    stages = [make_stage("none"), make_stage("one", beforeStageTasks=[APPROVAL])]
    hub = make_hub(*stages, clusters={"a": "one"}, run=make_run(state="Stop")).settled()
    assert hub.said("Progressing") == "False UpdateRunStopped"
    assert hub.stage_said("none", "Progressing") == "False StageUpdatingStopped"
    assert hub.stage_said("one", "Progressing") == ""
    resumed = hub.state("Run").settled()
    assert resumed.stage_said("none", "Succeeded") == "True StageUpdatingSkippedNoClusters"
    assert resumed.stage_said("one", "Progressing") == "False StageUpdatingWaiting"
    stopped = resumed.state("Stop").settled()
    assert stopped.stage_said("one", "Progressing") == "False StageUpdatingStopped"
    done = stopped.state("Run").settled().approved("r-before-one").settled().reported("a").settled()
    assert done.said("Succeeded") == "True UpdateRunSucceeded"


def test_the_wait_after_a_stage_counts_from_the_stop():
    """X6: stopped 20 minutes after the stage was done, resumed 5 minutes later: 55 minutes are left."""
    stage = make_stage("one", afterStageTasks=[{"type": "TimedWait", "waitTime": "1h"}])
    hub = make_hub(stage, clusters={"a": "one"}).settled().reported("a").settled()
    hub = hub.later(minutes=20).state("Stop").settled()
    hub = hub.later(minutes=5).state("Run").settled()
    assert hub.step.again.total_seconds() == 55 * 60


def test_a_stage_without_clusters_is_passed_without_its_tasks():
    hub = make_hub(make_stage("none", beforeStageTasks=[APPROVAL]), make_stage("one"), clusters={"a": "one"}).settled()
    assert hub.stage_said("none", "Succeeded") == "True StageUpdatingSkippedNoClusters"
    assert hub.requests == {}
    assert list(hub.given()) == ["a"]


def test_a_changed_state_makes_nothing_stale(hub):
    hub = at(hub, 0).state("Stop").settled()
    found = status_of(hub.run)
    owners = [
        found,
        *found["stagesStatus"],
        *(entry for stage in found["stagesStatus"] for entry in clusters_of(stage)),
    ]
    assert {each["observedGeneration"] for owner in owners for each in owner.get("conditions", ())} == {2}


def test_a_run_that_waits_in_initialize_has_its_plan_and_does_nothing():
    hub = make_hub(make_stage("one"), clusters={"a": "one"}, run=make_run(state="Initialize")).settled()
    assert hub.said("Initialized") == "True UpdateRunInitializedSuccessfully"
    assert hub.said("Progressing") == ""
    assert hub.given() == {}
    assert list(hub.state("Run").settled().given()) == ["a"]


class TestAborts:
    """Each row of staged-updates.md 5."""

    STAGES = (make_stage("one", sortingLabelKey="wave"), make_stage("two"))

    @pytest.fixture
    def begun(self) -> Hub:
        """A run at the first cluster of its first stage."""
        clusters = {"a": "one", "b": "one", "c": "two"}
        hub = make_hub(*self.STAGES, clusters=clusters)
        waves = {name: {**labels, "wave": "1"} for name, labels in hub.members.items()}
        return replace(hub, members=waves).settled()

    @staticmethod
    def fails(hub: Hub, cause: str, *words: str) -> None:
        """Check that the run is over, why, and that the message helps."""
        hub = hub.settled()
        assert hub.said("Succeeded") == "False UpdateRunFailed"
        assert hub.said("Progressing") == "False UpdateRunFailed"
        for word in (cause, *words):
            assert word in hub.message("Succeeded")
        again = hub.passed()
        assert again == hub

    def test_the_placement_is_gone(self, begun):
        self.fails(replace(begun, placement=None), "placement-not-found", "p")

    def test_the_placement_is_not_external_any_more(self, begun):
        spec = {**begun.placement["spec"], "strategy": {"type": "RollingUpdate"}}
        self.fails(
            replace(begun, placement={**begun.placement, "spec": spec}), "placement-not-external", "RollingUpdate"
        )

    def test_the_apply_strategy_is_another(self, begun):
        strategy = {"type": "External", "applyStrategy": {"type": "ServerSideApply"}}
        spec = {**begun.placement["spec"], "strategy": strategy}
        self.fails(replace(begun, placement={**begun.placement, "spec": spec}), "apply-strategy-changed")

    def test_the_policy_is_another(self, begun):
        self.fails(replace(begun, policies=(make_policy_snapshot(index=1),)), "policy-changed", "1")

    def test_no_policy_snapshot_is_the_latest(self, begun):
        self.fails(replace(begun, policies=()), "policy-snapshot-invalid")

    def test_the_policy_is_not_satisfied_any_more(self, begun):
        self.fails(replace(begun, policies=(make_policy_snapshot(scheduled=False),)), "policy-not-scheduled")

    def test_the_number_of_clusters_is_another(self, begun):
        policy = {"placementType": "PickN", "numberOfClusters": 4}
        self.fails(replace(begun, policies=(make_policy_snapshot(policy),)), "binding-count-mismatch", "4", "3")

    def test_there_are_no_bindings(self, begun):
        self.fails(replace(begun, bindings={}), "no-bindings")

    def test_a_cluster_is_dropped(self, begun):
        bindings = {**begun.bindings, "c": make_binding("c", "Unscheduled")}
        self.fails(replace(begun, bindings=bindings), "stages-changed", "c")

    def test_a_cluster_is_new(self, begun):
        bindings = {**begun.bindings, "d": make_binding("d")}
        hub = replace(begun, bindings=bindings, members={**begun.members, "d": {"stage": "two"}})
        self.fails(hub, "stages-changed", "two", "d")

    def test_a_member_is_gone(self, begun):
        members = {name: labels for name, labels in begun.members.items() if name != "c"}
        self.fails(replace(begun, members=members), "clusters-in-no-stage", "c")

    def test_a_cluster_changes_its_stage(self, begun):
        self.fails(begun.labelled("b", stage="two", wave="1"), "stages-changed", "b")

    def test_a_cluster_changes_its_place(self, begun):
        self.fails(begun.labelled("a", stage="one", wave="9"), "stages-changed", "order")

    def test_a_sorting_label_is_no_integer_any_more(self, begun):
        self.fails(begun.labelled("b", stage="one", wave="x"), "sorting-label-invalid", "wave", "'x'")

    def test_another_run_changes_a_cluster_in_flight(self, begun):
        spec = {**begun.bindings["a"]["spec"], "resourceSnapshotName": "p-7-snapshot"}
        hub = replace(begun, bindings={**begun.bindings, "a": {**begun.bindings["a"], "spec": spec}})
        self.fails(hub, "preempted", "p-7-snapshot")
        assert hub.settled().stage_said("one", "Succeeded") == "False StageUpdatingFailed"

    @pytest.mark.parametrize("state", ["Run", "Stop"])
    def test_every_cluster_that_another_run_has_changed_is_recorded_as_failed(self, state):
        hub = make_hub(make_stage("one", maxConcurrency=6), clusters=dict.fromkeys("abcdefg", "one")).settled()
        for cluster in "abcde":
            hub = taken_over(hub, cluster)
        hub = hub if state == "Run" else hub.state("Stop")
        self.fails(hub, "preempted", "cluster a", "cluster b", "p-7-snapshot", "1 more")
        hub = hub.settled()
        assert states(hub) == {**dict.fromkeys("abcde", "failed"), "f": "started"}
        reasons = {
            entry["conditions"][-1]["reason"] for entry in clusters_of(status_of(hub.run)["stagesStatus"][0])[:5]
        }
        assert reasons == {"ClusterUpdatingFailed"}

    def test_the_record_was_edited(self, begun):
        one = {**status_of(begun.run), "stagesStatus": status_of(begun.run)["stagesStatus"][:1]}
        self.fails(replace(begun, run={**begun.run, "status": one}), "stages-changed", "2", "1")
        none = {**status_of(begun.run), "stagedUpdateStrategySnapshot": 3}
        self.fails(replace(begun, run={**begun.run, "status": none}), "record-contradicts-itself")

    def test_a_strategy_that_is_edited_or_deleted_is_nothing_to_it(self, begun):
        for strategy in (None, make_strategy(make_stage("other"))):
            hub = replace(begun, strategy=strategy).reported("a").settled()
            assert sorted(hub.given()) == ["a", "b"]


class TestDeletion:
    """The deletion stage (staged-updates.md 6.5 and 7)."""

    @pytest.fixture
    def done(self) -> Hub:
        """A run that has updated everything and removed nothing yet, because the clusters are held."""
        hub = make_hub(make_stage("one"), clusters={"a": "one"})
        gone = {name: make_binding(name, "Unscheduled", snapshot="p-9-snapshot") for name in ("y", "z")}
        held = dict.fromkeys(("y", "z"), ClusterWait("window nights is closed"))
        return replace(hub, bindings={**hub.bindings, **gone}, waits=held).settled().reported("a").settled()

    def test_removals_wait_for_their_clusters(self, done):
        assert sorted(done.bindings) == ["a", "y", "z"]
        entry = clusters_of(status_of(done.run)["deletionStageStatus"])[0]
        assert entry["conditions"][0]["message"] == "window nights is closed"
        after = replace(done, waits={}).settled()
        assert sorted(after.bindings) == ["a"]
        assert after.said("Succeeded") == "True UpdateRunSucceeded"

    def test_a_run_that_is_stopped_before_it_removes_anything_is_stopped_at_once(self, done):
        stopped = done.state("Stop").settled()
        assert stopped.said("Progressing") == "False UpdateRunStopped"
        assert stopped.stage_said("kubernetes-fleet.io/deleteStage", "Progressing") == "False StageUpdatingStopped"
        assert sorted(replace(stopped, waits={}).settled().bindings) == ["a", "y", "z"]

    def test_a_run_that_is_stopped_after_its_last_stage_shows_it_on_the_deletion_stage(self):
        hub = make_hub(make_stage("one"), clusters={"a": "one"}).settled().reported("a").passed()
        assert hub.stage_said("one", "Succeeded") == "True StageUpdatingSucceeded"
        stopped = hub.state("Stop").settled()
        assert stopped.stage_said("kubernetes-fleet.io/deleteStage", "Progressing") == "False StageUpdatingStopped"
        assert stopped.state("Run").settled().said("Succeeded") == "True UpdateRunSucceeded"

    def test_a_run_that_only_removes_the_placement_succeeds_when_it_is_gone_everywhere(self):
        hub = make_hub(make_stage("one"), clusters={})
        hub = replace(hub, bindings={"y": make_binding("y", "Unscheduled", snapshot="p-9-snapshot")}).settled()
        assert hub.bindings == {}
        assert hub.said("Succeeded") == "True UpdateRunSucceeded"

    def test_a_binding_that_is_there_again_ends_the_run(self, done):
        after = replace(done, waits={"z": ClusterWait("held")}).settled()
        again = replace(after, bindings={**after.bindings, "y": make_binding("y", "Unscheduled")}).settled()
        assert "not-deleting" in again.message("Succeeded")
        assert again.stage_said("kubernetes-fleet.io/deleteStage", "Succeeded") == "False StageUpdatingFailed"


class TestWaits:
    """Clusters that may not be touched now."""

    def test_others_go_first_where_the_order_is_only_that_of_names(self):
        hub = replace(
            make_hub(make_stage("one"), clusters={"a": "one", "b": "one"}), waits={"a": ClusterWait("closed")}
        )
        hub = hub.settled()
        assert states(hub) == {"a": "held", "b": "started"}
        hub = replace(hub.reported("b"), waits={}).settled()
        assert states(hub) == {"a": "started", "b": "done"}

    def test_an_order_that_the_operator_has_given_is_kept(self):
        hub = make_hub(make_stage("one", sortingLabelKey="wave"), clusters={"a": "one", "b": "one"})
        waves = {name: {**labels, "wave": str(place)} for place, (name, labels) in enumerate(hub.members.items())}
        hub = replace(hub, members=waves, waits={"a": ClusterWait("closed", START.replace(hour=3))}).settled()
        assert states(hub) == {"a": "held"}
        assert "closed" in hub.message("Progressing")
        assert replace(hub, now=START.replace(hour=2, minute=59, second=50)).settled().step.again.total_seconds() == 10

    def test_what_is_under_way_goes_on_when_a_window_closes(self):
        hub = make_hub(make_stage("one"), clusters={"a": "one"}).settled()
        hub = replace(hub, waits={"a": ClusterWait("closed")}).reported("a").settled()
        assert hub.said("Succeeded") == "True UpdateRunSucceeded"


class TestFailurePolicy:
    """Ours: what happens when clusters miss their deadline."""

    @staticmethod
    def late(hub: Hub) -> Hub:
        """Let the deadline of one minute pass."""
        return hub.settled().later(seconds=61).settled()

    def test_a_cluster_that_misses_its_deadline_ends_the_run(self):
        run = make_run(cluster_deadline="60s")
        hub = self.late(make_hub(make_stage("one"), clusters={"a": "one", "b": "one"}, run=run))
        assert "clusters-failed" in hub.message("Succeeded")
        assert hub.runs == ()
        assert list(hub.given()) == ["a"]

    def test_some_may_fail(self):
        run = make_run(cluster_deadline="60s", max_failures="1")
        hub = self.late(make_hub(make_stage("one"), clusters={"a": "one", "b": "one"}, run=run))
        assert states(hub) == {"a": "failed", "b": "started"}
        hub = hub.reported("b").settled()
        assert hub.said("Succeeded") == "True UpdateRunSucceeded"

    def test_what_was_changed_is_rolled_back_once(self):
        strategy = make_strategy(make_stage("one"), on_failure="Rollback", cluster_deadline="60s")
        hub = make_hub(clusters={"a": "one", "b": "one"}, strategy=strategy, snapshots=2)
        olds = {name: make_binding(name, "Bound", snapshot="p-0-snapshot") for name in hub.bindings}
        hub = self.late(replace(hub, bindings=olds))
        (back,) = hub.runs
        assert back["metadata"]["name"] == "r-rollback"
        assert back["spec"]["resourceSnapshotIndex"] == "0"
        assert "r-rollback" in hub.message("Succeeded")

    def test_a_rollback_is_not_rolled_back(self):
        strategy = make_strategy(make_stage("one"), on_failure="Rollback", cluster_deadline="60s")
        hub = make_hub(clusters={"a": "one"}, strategy=strategy, snapshots=2)
        hub = self.late(replace(hub, bindings={"a": make_binding("a", "Bound", snapshot="p-0-snapshot")}))
        (back,) = hub.runs
        back = {**back, "metadata": {**back["metadata"], "generation": 1, "uid": "uid-back"}}
        late = self.late(replace(hub, run=back, runs=(hub.run, back)))
        assert "clusters-failed" in late.message("Succeeded")
        assert len(late.runs) == 2

    def test_a_crash_before_the_end_is_recorded_makes_no_second_one(self):
        run = make_run(on_failure="Rollback", cluster_deadline="60s")
        hub = make_hub(make_stage("one"), clusters={"a": "one"}, run=run, snapshots=2)
        hub = replace(hub, bindings={"a": make_binding("a", "Bound", snapshot="p-0-snapshot")}).settled()
        late = hub.later(seconds=61)
        ended = late.passed()
        crashed = replace(ended, run=late.run)
        assert crashed.settled().runs == ended.runs

    def test_the_name_of_an_older_one_is_never_taken(self):
        run = make_run(on_failure="Rollback", cluster_deadline="60s")
        old = make_run("r-rollback", rollback_of="r")
        old = {**old, "metadata": {**old["metadata"], "creationTimestamp": "2025-01-01T00:00:00Z"}}
        hub = make_hub(make_stage("one"), clusters={"a": "one"}, run=run, snapshots=2, runs=(old,))
        hub = self.late(replace(hub, bindings={"a": make_binding("a", "Bound", snapshot="p-0-snapshot")}))
        assert [each["metadata"]["name"] for each in hub.runs] == ["r-rollback", "r-rollback-2"]

    def test_the_first_release_ever_cannot_be_rolled_back(self):
        run = make_run(on_failure="Rollback", cluster_deadline="60s")
        hub = self.late(make_hub(make_stage("one"), clusters={"a": "one"}, run=run))
        assert hub.runs == ()
        assert "no other resource snapshot before" in hub.message("Succeeded")

    @pytest.mark.parametrize(
        ("annotation", "value"), [("on_failure", "Undo"), ("max_failures", "-1"), ("cluster_deadline", "1d")]
    )
    def test_one_that_cannot_be_read_lets_no_run_begin(self, annotation, value):
        hub = make_hub(make_stage("one"), clusters={"a": "one"}, run=make_run(**{annotation: value})).settled()
        assert hub.said("Initialized") == "False UpdateRunInitializedFailed"
        assert value in hub.message("Initialized")


def test_times_that_a_wrong_clock_wrote_ahead_count_from_now():
    stage = make_stage("one", afterStageTasks=[{"type": "TimedWait", "waitTime": "1h"}])
    hub = make_hub(stage, clusters={"a": "one"}).settled().later(days=30).reported("a").settled()
    right = hub.later(days=-29).settled()
    assert right.step.again.total_seconds() == 60 * 60
    assert right.later(minutes=61).settled().said("Succeeded") == "True UpdateRunSucceeded"


def picking(*clusters, policy=None):
    """Make the latest policy snapshot, whose record says that these clusters are picked."""
    decisions = [{"clusterName": name, "selected": True} for name in clusters]
    made = make_policy_snapshot(policy)
    return {
        **made,
        "status": {**made["status"], "targetClusters": [*decisions, {"clusterName": "y", "selected": False}]},
    }


class TestBindingsBeingDeleted:
    """They may stay as long as their member is away (staged-updates.md 5)."""

    @staticmethod
    def deleting(hub: Hub, cluster: str, *, picked_again: bool = False) -> Hub:
        """Have the binding of a cluster deleted; it stays for its finalizer, beside a new one if it is picked again."""
        meta = {**hub.bindings[cluster]["metadata"], "deletionTimestamp": "2026-03-01T00:00:00Z"}
        old = {**hub.bindings[cluster], "metadata": meta}
        if not picked_again:
            return replace(hub, bindings={**hub.bindings, cluster: old})
        new = make_binding(cluster)
        new = {**new, "metadata": {**new["metadata"], "name": f"p-{cluster}-again"}}
        return replace(hub, bindings={**hub.bindings, f"{cluster}-before": old, cluster: new})

    @pytest.mark.parametrize("picked_again", [False, True])
    def test_that_of_a_finished_cluster_holds_up_nothing(self, picked_again):
        hub = make_hub(make_stage("one"), make_stage("two"), clusters={"a": "one", "b": "two"})
        hub = self.deleting(hub.settled().reported("a").settled(), "a", picked_again=picked_again)
        assert hub.settled().reported("b").settled().said("Succeeded") == "True UpdateRunSucceeded"

    @pytest.mark.parametrize("picked_again", [False, True])
    def test_that_of_a_cluster_to_come_holds_up_only_this_cluster(self, picked_again):
        hub = make_hub(make_stage("one"), clusters={"a": "one", "b": "one", "c": "one"}).settled()
        waiting = self.deleting(hub, "b", picked_again=picked_again).reported("a").settled().reported("c").settled()
        assert states(waiting) == {"a": "done", "b": "held", "c": "done"}
        assert waiting.said("Progressing") == "True UpdateRunProgressing"
        assert "cluster b of stage one waits: binding p-b of cluster b is being deleted" in waiting.message(
            "Progressing"
        )
        assert waiting.step.again.total_seconds() == 15
        there = {name: binding for name, binding in waiting.bindings.items() if name != "b-before"}
        again = replace(waiting, bindings={**there, "b": make_binding("b")}).settled().reported("b").settled()
        assert again.said("Succeeded") == "True UpdateRunSucceeded"

    def test_an_order_that_the_operator_has_given_is_kept(self):
        hub = make_hub(make_stage("one", sortingLabelKey="wave"), clusters=dict.fromkeys("abc", "one"))
        waves = {name: {**labels, "wave": str(place)} for place, (name, labels) in enumerate(hub.members.items())}
        hub = self.deleting(replace(hub, members=waves).settled(), "b").reported("a").settled()
        assert states(hub) == {"a": "done", "b": "held"}

    def test_that_of_a_cluster_in_flight_is_awaited(self):
        hub = make_hub(make_stage("one"), clusters={"a": "one"}).settled()
        waiting = self.deleting(hub, "a").settled()
        assert states(waiting) == {"a": "started"}
        entry = clusters_of(status_of(waiting.run)["stagesStatus"][0])[0]
        assert entry["conditions"][0]["message"] == "binding p-a of cluster a is being deleted"
        assert waiting.later(minutes=6).settled().said("Progressing") == "False UpdateRunStuck"
        again = {**hub.bindings["a"], "status": {}}
        done = replace(waiting, bindings={"a": again}).settled().reported("a").settled()
        assert done.said("Succeeded") == "True UpdateRunSucceeded"

    def test_a_cluster_in_flight_that_is_evicted_and_picked_again_ends_the_run(self):
        hub = make_hub(make_stage("one"), clusters={"a": "one"}).settled()
        waiting = self.deleting(hub, "a", picked_again=True).settled()
        assert states(waiting) == {"a": "started"}
        ended = replace(waiting, bindings={"a": waiting.bindings["a"]}).settled()
        assert "preempted" in ended.message("Succeeded")

    def test_one_that_the_scheduler_is_about_to_create_is_awaited(self):
        hub = make_hub(make_stage("one"), clusters={"a": "one", "b": "one"}, policies=(picking("a", "b"),)).settled()
        without_b = replace(hub.reported("a"), bindings={"a": hub.reported("a").bindings["a"]}).settled()
        assert states(without_b) == {"a": "done", "b": "held"}
        done = replace(without_b, bindings=hub.reported("a").bindings).settled().reported("b").settled()
        assert done.said("Succeeded") == "True UpdateRunSucceeded"

    @pytest.mark.parametrize("picked_again", [False, True])
    def test_a_new_run_is_planned_with_the_cluster(self, picked_again):
        hub = make_hub(make_stage("one"), clusters={"a": "one", "b": "one"}, policies=(picking("a", "b"),))
        hub = self.deleting(hub, "a", picked_again=picked_again).settled()
        assert states(hub) == {"a": "held", "b": "started"}

    @pytest.mark.parametrize("number", [None, 1])
    def test_a_new_run_is_planned_without_a_cluster_that_is_not_picked_any_more(self, number):
        policy = None if number is None else {"placementType": "PickN", "numberOfClusters": number}
        hub = make_hub(make_stage("one"), clusters={"a": "one", "b": "one"}, policies=(picking("b", policy=policy),))
        hub = self.deleting(hub, "a").settled()
        assert states(hub) == {"b": "started"}
        assert self.deleting(hub, "b").settled().said("Succeeded") == ""

    def test_a_new_run_waits_for_a_binding_that_is_about_to_be_created(self):
        hub = make_hub(make_stage("one"), clusters={"a": "one"}, policies=(picking("a", "b"),))
        assert hub.step.waits_for == "the binding of cluster b is about to be created"
        assert hub.step.again.total_seconds() == 15

    def test_more_clusters_than_are_recorded_are_all_counted(self):
        names = [f"c{number:04}" for number in range(1000)]
        hub = make_hub(make_stage("one"), clusters={"a": "one"}, policies=(picking(*names),))
        assert states(self.deleting(hub, "a").settled()) == {"a": "held"}

    def test_a_stop_waits_for_the_cluster_in_flight(self):
        hub = self.deleting(make_hub(make_stage("one"), clusters={"a": "one"}).settled(), "a").state("Stop").settled()
        assert hub.said("Progressing") == "Unknown UpdateRunStopping"


def test_a_record_that_one_object_cannot_hold_lets_no_run_begin():
    clusters = {f"cluster-{number:05}": "one" for number in range(4000)}
    hub = make_hub(make_stage("one"), clusters=clusters).settled()
    assert "too-many-clusters" in hub.message("Initialized")


@pytest.mark.parametrize(
    ("before", "noted"),
    [
        pytest.param({"a": "", "b": "", "c": ""}, "none", id="nothing"),
        pytest.param({"a": "p-2-snapshot", "b": "p-2-snapshot", "c": ""}, "none", id="what the run brings"),
        pytest.param({"a": "p-0-snapshot", "b": "p-1-snapshot", "c": "p-0-snapshot"}, "0", id="what most had"),
        pytest.param({"a": "p-0-snapshot", "b": "p-1-snapshot", "c": ""}, "1", id="of as many the youngest"),
    ],
)
def test_a_run_notes_what_its_clusters_had_before_once_and_whatever_was_written_there(before, noted):
    bindings = {cluster: make_binding(cluster, snapshot=snapshot) for cluster, snapshot in before.items()}
    run = make_run(previous_index="7")
    hub = make_hub(make_stage("one"), clusters=dict.fromkeys("abc", "one"), bindings=bindings, run=run, snapshots=3)
    assert hub.step.annotations == {"harbormaster.dev/previous-index": noted}
    hub = hub.passed()
    assert not hub.step.annotations
    hub = hub.settled()
    assert hub.run["metadata"]["annotations"]["harbormaster.dev/previous-index"] == noted
