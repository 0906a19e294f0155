"""What runs would do on a hub of documents, before and after changes to it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from scorer.api.meta import format_time
from scorer.api.names import IGNORE_RESOURCE_OVERRIDES, IS_LATEST_SNAPSHOT, UPGRADE_WINDOWS
from scorer.fleet import Fleet
from scorer.staged_update.execution.engine import advance
from scorer.staged_update.views.forecast import initialize_run
from scorer.what_if.changed import Changed
from scorer.what_if.runs import planned_runs, run_facts
from scorer.what_if.state import HubState, HypotheticalChanges, identity_of
from tests.scorer.builders import NOW, pick_n
from tests.scorer.staged_update.plans import APPROVAL, WAIT, run, stage
from tests.scorer.what_if.settled_hub import RATES, SHOP, binding, cluster, placement, window
from webhook.cli.planning.output import changes_anything

API = "placement.kubernetes-fleet.io/v1beta1"


def strategy(*stages, **annotations):
    meta = {"name": "careful", "annotations": {f"harbormaster.dev/{key}": text for key, text in annotations.items()}}
    return {"apiVersion": API, "kind": "ClusterStagedUpdateStrategy", "metadata": meta, "spec": {"stages": [*stages]}}


def external(wanted=None):
    """Return the placement ``p``, which is left to runs."""
    return placement("p", wanted, strategy={"type": "External"})


FLEET = [cluster(name, labels={"stage": stage}) for name, stage in (("t1", "test"), ("v1", "live"), ("v2", "live"))]
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "key", "namespace": "shop"},
    "data": {"t": "aGlkZGVu"},
}


def hub(*stages, content=(SHOP, RATES), **more):
    """Return a hub with the placement ``p``, which has never been rolled out, and a run over it."""
    made = HubState(
        Fleet.of(FLEET),
        NOW,
        placements=[external()],
        runs=[run()],
        strategies=[strategy(*(stages or (stage("test"), stage("live"))))],
        content=lambda: content,
    )
    return replace(made, **more)


IN_LIVE = {"matchLabels": {"stage": "live"}}


def entry(state, changes=None):
    (found,) = planned_runs(state, changes or HypotheticalChanges())
    return found


def rolled_out(state):
    """Return a hub as it is after its run, with the resource snapshot that this has made."""
    facts, _ = run_facts(state.runs[0], Changed(state, state.fleet))
    _, facts = initialize_run(state.runs[0], facts)
    bound = [binding("p", name) for name in ("t1", "v1", "v2")]
    documents = [document for group in facts.groups for document in group.documents]
    return replace(state, bindings=bound, resource_snapshots=documents, policy_snapshots=facts.policy_snapshots)


def names(found):
    return {each["name"]: [cluster["cluster"] for cluster in each["clusters"]] for each in found["stages"]}


class TestANewRun:
    """A run that has just been created, on what the scheduler would make of its placement."""

    def test_its_clusters_are_those_that_the_scheduler_would_pick(self):
        found = entry(hub(placements=[external(pick_n(2))]))
        assert names(found) == {"test": [], "live": ["v1", "v2"]}

    def test_every_object_is_new_to_a_cluster_that_has_nothing(self):
        (content,) = entry(hub())["contents"]
        assert (content["from"], content["to"], content["clusters"]) == ("", "p-0-snapshot", ["t1", "v1", "v2"])
        assert [(each["change"], each["kind"], each["name"]) for each in content["objects"]] == [
            ("Added", "Namespace", "shop"),
            ("Added", "ConfigMap", "rates"),
        ]

    def test_waits_and_approvals_and_the_earliest_finish(self):
        found = entry(hub(stage("test", afterStageTasks=[WAIT, APPROVAL]), stage("live", maxConcurrency=2)))
        tasks = [(task["type"], task["request"], task["wait"]) for task in found["stages"][0]["tasks"]]
        assert tasks == [("TimedWait", "", "10m"), ("Approval", "r-after-test", "")]
        assert found["earliestFinish"] == format_time(NOW + timedelta(minutes=10))
        assert found["assumptions"] == [
            "the update of a cluster is assumed to take no time",
            "an approval is assumed to be given when it is requested",
            "the placement selects from the objects that the plan knows",
        ]

    def test_a_run_of_a_namespace_has_its_placement_and_strategy_there(self):
        there = {"name": "r", "namespace": "shop"}
        mine = {**run(), "kind": "StagedUpdateRun", "metadata": there}
        stages = {**strategy(stage("all", labelSelector={})), "kind": "StagedUpdateStrategy"}
        stages["metadata"] = {"name": "careful", "namespace": "shop"}
        state = hub(runs=[mine], strategies=[stages])
        assert entry(state)["finding"]["cause"] == "placement-not-found"
        placed = placement("p", None, namespace="shop", strategy={"type": "External"})
        placed["spec"]["resourceSelectors"] = [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}]
        found = entry(replace(state, placements=[placed]))
        assert (found["phase"], names(found)) == ("New", {"all": ["t1", "v1", "v2"]})
        assert [each["name"] for each in found["contents"][0]["objects"]] == ["rates"]

    def test_overrides_that_hold_for_a_cluster_are_given_to_it(self):
        rule = {"clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"stage": "test"}}}]}}
        spec = {
            "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
            "policy": {"overrideRules": [{**rule, "overrideType": "Delete"}]},
        }
        meta = {"name": "o-0", "labels": {IS_LATEST_SNAPSHOT: "true"}}
        made = {
            "apiVersion": API,
            "kind": "ClusterResourceOverrideSnapshot",
            "metadata": meta,
            "spec": {"overrideSpec": spec, "overrideHash": ""},
        }
        found = entry(hub(override_snapshots=[made]))
        changes = {
            each["cluster"]: each["differs"] for each_stage in found["stages"] for each in each_stage["clusters"]
        }
        assert changes == {"t1": ["content", "overrides"], "v1": ["content"], "v2": ["content"]}

    def test_overrides_that_a_placement_ignores_are_not_foreseen(self):
        spec = {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}],
            "policy": {"overrideRules": [{"clusterSelector": {}, "overrideType": "Delete"}]},
        }
        made = {
            "apiVersion": API,
            "kind": "ResourceOverrideSnapshot",
            "metadata": {"name": "o-0", "namespace": "shop", "labels": {IS_LATEST_SNAPSHOT: "true"}},
            "spec": {"overrideSpec": spec, "overrideHash": ""},
        }
        state = hub(override_snapshots=[made])
        ignoring = [
            {**each, "metadata": {**each["metadata"], "annotations": {IGNORE_RESOURCE_OVERRIDES: "true"}}}
            for each in state.placements
        ]

        def changed(state):
            found = [each for stage in entry(state)["stages"] for each in stage["clusters"]]
            return {each["cluster"] for each in found if "overrides" in each["differs"]}

        assert changed(state) == {"t1", "v1", "v2"}
        assert changed(replace(state, placements=ignoring)) == set()

    def test_one_that_is_only_to_be_initialised_says_that_it_waits(self):
        found = entry(hub(runs=[run(state="Initialize")]))
        assert found["changed"]
        assert found["assumptions"][0].startswith("spec.state is Initialize: it is assumed to be set to Run now")

    def test_the_failure_policy_of_its_strategy_counts(self):
        found = entry(hub(strategies=[strategy(stage("test"), stage("live"), **{"on-failure": "Rollback"})]))
        assert found["failurePolicy"] == {"onFailure": "Rollback", "maxFailures": 0, "clusterDeadline": "5m"}

    def test_a_cluster_that_may_not_be_touched_says_why(self):
        opens = NOW.replace(minute=0) + timedelta(hours=3)
        nights = window("nights", opens, memberSelector=IN_LIVE)
        found = entry(hub(windows=[nights]))
        (first, *_), stage_end = found["stages"][1]["clusters"], found["stages"][1]["earliestEnd"]
        assert first["waitsFor"] == f"maintenance window nights is closed until {format_time(opens)}"
        assert stage_end == found["earliestFinish"] == format_time(opens)

    def test_a_cluster_whose_window_is_not_there_has_no_opening(self):
        named = cluster("v1", labels={"stage": "live"}, annotations={UPGRADE_WINDOWS: "lost"})
        found = entry(hub(fleet=Fleet.of([*FLEET, named])))
        assert found["stages"][1]["clusters"][0]["waitsFor"] == "maintenance window lost does not exist"
        assert "it is unknown when these clusters may be changed: v1" in found["assumptions"]

    def test_a_window_among_the_changes_counts(self):
        state = hub(runs=[run("r")])
        opens = NOW.replace(minute=0) + timedelta(hours=5)
        nights = window("nights", opens, memberSelector={})
        found = entry(state, HypotheticalChanges(objects=[nights]))
        assert (found["earliestFinish"], found["changed"]) == (format_time(opens), True)

    @pytest.mark.parametrize(
        ("changes", "cause"),
        [
            ({"strategies": []}, "strategy-not-found"),
            ({"placements": []}, "placement-not-found"),
            ({"placements": [placement("p", None)]}, "placement-not-external"),
            ({"strategies": [strategy(stage("test"))]}, "clusters-in-no-stage"),
            ({"runs": [run(index="7")]}, "resource-snapshot-not-found"),
        ],
    )
    def test_what_its_initialisation_would_refuse_is_found(self, changes, cause):
        found = entry(hub(**changes))
        assert (found["phase"], found["finding"]["cause"], found["changed"]) == ("Refused", cause, False)
        assert found["finding"]["message"]

    def test_a_binding_that_contradicts_itself_holds_it_up(self):
        found = entry(hub(bindings=[binding("p", "t1", state="Lost")]))
        assert (found["phase"], found["finding"]["cause"]) == ("Pending", "broken-binding")
        assert "spec.state: 'Lost' is not a valid state" in found["finding"]["message"]


class TestTheNextRun:
    """A run on clusters that have the content of an earlier one."""

    def test_only_what_is_selected_differently_changes(self):
        before = rolled_out(hub(content=(SHOP, RATES, SECRET)))
        dearer = {**RATES, "data": {"a": "2"}}
        other = {**SECRET, "data": {"t": "b3RoZXI="}}
        found = entry(replace(before, runs=[run("r2")], content=lambda: (SHOP, dearer, other)))
        (content,) = found["contents"]
        assert (content["from"], content["to"]) == ("p-0-snapshot", "p-1-snapshot")
        changes = {each["name"]: each["fields"] for each in content["objects"]}
        assert changes["rates"] == [{"path": "data.a", "before": '"1"', "after": '"2"'}]
        assert changes["key"] == [{"path": "data", "before": "(redacted)", "after": "(redacted)"}]
        assert "aGlkZGVu" not in repr(found)

    def test_objects_that_are_not_given_are_as_in_the_latest_snapshot(self):
        found = entry(replace(rolled_out(hub()), runs=[run("r2")], content=tuple))
        assert (found["snapshot"], found["changed"]) == ("p-0-snapshot", False)
        assert "; all others are taken from resource snapshot p-0-snapshot" in found["assumptions"][-1]

    def test_content_is_left_out_for_those_who_may_not_see_it(self):
        state = replace(rolled_out(hub()), runs=[run("r2")], content=lambda: [{**RATES, "data": {"a": "2"}}])
        (found,) = planned_runs(state, shown=set())
        (content,) = found["contents"]
        assert (content["hidden"], content["objects"]) == (True, [])
        (found,) = planned_runs(state, shown={"ClusterResourceSnapshot"})
        assert found["contents"][0]["objects"]

    def test_what_has_been_trimmed_is_said_to_be_unknown(self):
        state = rolled_out(hub())
        old = [binding("p", name, resourceSnapshotName="p-9-snapshot") for name in ("t1", "v1", "v2")]
        (content,) = entry(replace(state, runs=[run("r2", index="0")], bindings=old))["contents"]
        assert (content["from"], content["known"], content["objects"]) == ("p-9-snapshot", False, [])


class TestChanges:
    """A run that is there already, and a change to the hub."""

    def begun(self):
        """Return a hub whose run has been initialised."""
        state = rolled_out(hub())
        facts, _ = run_facts(state.runs[0], Changed(state, state.fleet))
        step = advance(state.runs[0], facts)
        return replace(state, runs=[{**state.runs[0], "status": step.status}])

    def test_a_change_that_would_abort_it_is_found(self):
        state = self.begun()
        assert entry(state)["phase"] == "UnderWay"
        found = entry(state, HypotheticalChanges(objects=[placement("p", None)]))
        assert (found["phase"], found["finding"]["cause"]) == ("Aborted", "placement-not-external")
        assert changes_anything({"placements": [], "runs": [found]})

    def test_a_change_that_does_not_concern_it_makes_no_difference(self):
        found = entry(self.begun(), HypotheticalChanges(objects=[placement("q", None)]))
        assert (found["phase"], found["changed"]) == ("UnderWay", False)

    def test_a_lost_member_aborts_it(self):
        found = entry(self.begun(), HypotheticalChanges(lost=["v2"]))
        assert (found["phase"], found["finding"]["cause"]) == ("Aborted", "stages-changed")

    def test_a_run_among_the_changes_is_planned_with_them(self):
        state = hub(runs=[], strategies=[])
        made = strategy(stage("all", labelSelector={}, maxConcurrency="50%"))
        found = entry(state, HypotheticalChanges(objects=[run("new"), made]))
        assert (found["name"], found["changed"]) == ("new", True)
        assert found["stages"][0]["batches"] == [["t1"], ["v1"], ["v2"]]

    def test_without_runs_there_is_nothing_to_plan(self):
        assert planned_runs(hub(runs=[])) == []


DONE = {"conditions": [{"type": "Succeeded", "status": "True", "reason": "UpdateRunSucceeded", "message": "done"}]}


class TestRunsThatAreOver:
    """They are only told of when asked for."""

    def test_they_are_left_out(self):
        assert planned_runs(hub(runs=[run(status=DONE)])) == []

    def test_one_that_is_asked_for_says_how_it_has_ended(self):
        over = run(status=DONE)
        (found,) = planned_runs(hub(runs=[over, run("other")]), only=[identity_of(over)])
        assert (found["name"], found["phase"], found["changed"]) == ("r", "Over", False)
        assert found["finding"] == {"cause": "UpdateRunSucceeded", "message": "done"}
