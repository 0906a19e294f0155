"""The status of a placement: order, aggregation, both strategies, events, and that a second look changes nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.meta import dump_json
from scorer.api.names import UNSCHEDULED_AT
from scorer.api.placement.status import PlacementStatus
from scorer.rollout.bindings import WAITS_FOR_WINDOW
from scorer.rollout.object_size import TooLarge
from scorer.rollout.status.namespace_copy import (
    moved_namespace_error,
    plan_status_copy,
    reported_namespace,
    with_status_synced,
)
from scorer.rollout.status.placement import SnapshotView, invalid_selection, placement_status
from scorer.rollout.status.placement_conditions import too_large_message
from scorer.rollout.writes import Verb

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=7)
LATEST = SnapshotView("shop-2-snapshot", 2, ({"version": "v1", "kind": "Namespace", "name": "shop"},))
ORDER = ["RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available"]
REASONS = dict(
    zip(
        ORDER,
        ["RolloutStarted", "NoOverrideSpecified", "AllWorkSynced", "AllWorkHaveBeenApplied", "AllWorkAreAvailable"],
        strict=True,
    )
)


def make_placement(number=None, namespace="", strategy=None, status=None, generation=4, **spec):
    policy = {} if number is None else {"policy": {"placementType": "PickN", "numberOfClusters": number}}
    metadata = {"name": "shop", "uid": "u", "generation": generation} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ResourcePlacement" if namespace else "ClusterResourcePlacement",
        "metadata": metadata,
        "spec": {**policy, "strategy": strategy or {}, **spec},
        "status": status or {},
    }


def make_policy(selected, unselected=(), status="True", observed=4):
    condition = {"type": "Scheduled", "status": status, "observedGeneration": 1, "message": "found some"}
    condition["reason"] = "SchedulingPolicyFulfilled" if status == "True" else "SchedulingPolicyUnfulfilled"
    decisions = [{"clusterName": name, "selected": True, "reason": f"picked {name}"} for name in selected]
    decisions += [{"clusterName": name, "selected": False, "reason": "AffinityMismatch: no"} for name in unselected]
    return {
        "metadata": {"name": "shop-0", "generation": 1},
        "status": {"observedCRPGeneration": observed, "conditions": [condition], "targetClusters": decisions},
    }


def make_binding(cluster, reached="Available", good=True, *, snapshot="shop-2-snapshot", policy="shop-0", **status):
    """Make a binding whose conditions go up to *reached*, the last one True or not."""
    spec = status.pop("spec", {})
    words = ORDER[: ORDER.index(reached) + 1] if reached in ORDER else [*ORDER[:3], reached]
    conditions = [
        {
            "type": word,
            "status": "True" if good or word != reached else "False",
            "reason": REASONS.get(word, "x") if good or word != reached else "Bad",
            "message": "m",
            "observedGeneration": 3,
        }
        for word in words
    ]
    return {
        "metadata": {"name": f"shop-{cluster}", "generation": 3},
        "spec": {
            "state": "Bound",
            "targetCluster": cluster,
            "resourceSnapshotName": snapshot,
            "schedulingPolicySnapshotName": policy,
            **spec,
        },
        "status": {"conditions": conditions, **status},
    }


def short(conditions):
    return [
        (condition["type"].removeprefix("ClusterResourcePlacement"), condition["status"], condition["reason"])
        for condition in conditions
    ]


def decide(placement, policy, bindings, latest=LATEST, **more):
    """Decide, and check that the result is well formed and that deciding again later changes nothing."""
    report = placement_status(placement, policy, bindings, latest, NOW, **more)
    PlacementStatus.read(report.status)
    again = placement_status({**placement, "status": report.status}, policy, bindings, latest, LATER, **more)
    assert again.status == report.status
    assert again.events == ()
    assert again.complete == report.complete
    return report


DONE = [
    ("Scheduled", "True", "SchedulingPolicyFulfilled"),
    ("RolloutStarted", "True", "RolloutStarted"),
    ("Overridden", "True", "NoOverrideSpecified"),
    ("WorkSynchronized", "True", "WorkSynchronized"),
    ("Applied", "True", "ApplySucceeded"),
    ("Available", "True", "ResourceAvailable"),
]


def test_a_complete_rollout():
    report = decide(make_placement(2), make_policy("ab"), [make_binding("a"), make_binding("b")])
    assert short(report.status["conditions"]) == DONE
    assert (report.complete, report.requeue_after) == (True, None)
    assert report.status["observedResourceIndex"] == "2"
    assert report.status["selectedResources"] == list(LATEST.identifiers)
    assert [event.reason for event in report.events] == [
        "PlacementScheduled",
        "PlacementRolloutStarted",
        "PlacementOverriddenSucceeded",
        "PlacementWorkSynchronized",
        "PlacementApplied",
        "PlacementAvailable",
        "PlacementRolloutCompleted",
    ]
    assert all("2 clusters" in condition["message"] for condition in report.status["conditions"][1:])
    entry = report.status["placementStatuses"][0]
    assert (entry["clusterName"], entry["observedResourceIndex"]) == ("a", "2")
    assert short(entry["conditions"])[0] == ("Scheduled", "True", "Scheduled")
    assert entry["conditions"][0]["message"] == "picked a"
    assert {condition["observedGeneration"] for condition in entry["conditions"]} == {4}


def example(fourth):
    """The example of rollout.md 16.5: PickN 5, four clusters found."""
    bindings = [make_binding("a"), make_binding("b", "Available", good=False), make_binding("c", "Applied", good=False)]
    policy = make_policy("abcd", ["e", "f"], status="False")
    return decide(make_placement(5), policy, [*bindings, fourth])


@pytest.mark.parametrize(
    ("fourth", "conditions"),
    [
        pytest.param(
            make_binding("d", "RolloutStarted", good=False),
            [("RolloutStarted", "False", "RolloutNotStartedYet", "1 cluster ")],
            id="not-started",
        ),
        pytest.param(
            make_binding("d", "RolloutStarted"),
            [
                ("RolloutStarted", "True", "RolloutStarted", "4 clusters"),
                ("Overridden", "Unknown", "OverriddenPending", "1 cluster "),
            ],
            id="started",
        ),
        pytest.param(
            make_binding("d"),
            [
                ("RolloutStarted", "True", "RolloutStarted", "4 clusters"),
                ("Overridden", "True", "NoOverrideSpecified", "4 clusters"),
                ("WorkSynchronized", "True", "WorkSynchronized", "4 clusters"),
                ("Applied", "False", "ApplyFailed", "1 cluster "),
            ],
            id="available",
        ),
    ],
)
def test_aggregation_stops_at_the_first_that_is_not_true(fourth, conditions):
    report = example(fourth)
    found = report.status["conditions"]
    assert short(found)[0] == ("Scheduled", "False", "SchedulingPolicyUnfulfilled")
    assert short(found)[1:] == [condition[:3] for condition in conditions]
    for condition, (*_, count) in zip(found[1:], conditions, strict=True):
        assert count in f"{condition['message']} "
    assert "Only 4 of 5 clusters are picked" in found[1]["message"]
    assert report.requeue_after == timedelta(minutes=30)


def test_clusters_that_were_not_found_have_entries_without_a_name():
    entries = example(make_binding("d")).status["placementStatuses"]
    assert [entry.get("clusterName") for entry in entries] == ["a", "b", "c", "d", None]
    assert short(entries[-1]["conditions"]) == [("Scheduled", "False", "ScheduleFailed")]
    assert entries[-1]["conditions"][0]["message"] == "e: AffinityMismatch: no"


@pytest.mark.parametrize(
    ("binding", "conditions"),
    [
        pytest.param(None, [("RolloutStarted", "Unknown", "RolloutStartedUnknown")], id="none"),
        pytest.param(
            make_binding("a", policy="shop-9"),
            [("RolloutStarted", "Unknown", "RolloutStartedUnknown")],
            id="older-policy",
        ),
        pytest.param(
            make_binding("a", snapshot="shop-1-snapshot"),
            [("RolloutStarted", "Unknown", "RolloutStartedUnknown")],
            id="older-content",
        ),
        pytest.param(
            make_binding("a", "RolloutStarted", good=False, snapshot="shop-1-snapshot"),
            [("RolloutStarted", "False", "RolloutNotStartedYet")],
            id="older-content-held-back",
        ),
        pytest.param(
            make_binding("a", "Overridden", good=False),
            [("RolloutStarted", "True", "RolloutStarted"), ("Overridden", "False", "Bad")],
            id="copied-with-its-reason",
        ),
        pytest.param(
            make_binding("a", "Overridden"),
            [
                ("RolloutStarted", "True", "RolloutStarted"),
                ("Overridden", "True", "NoOverrideSpecified"),
                ("WorkSynchronized", "Unknown", "WorkSynchronizedUnknown"),
            ],
            id="missing-is-unknown",
        ),
    ],
)
def test_conditions_of_one_cluster(binding, conditions):
    report = decide(make_placement(1), make_policy("a"), [binding] if binding else [])
    assert short(report.status["placementStatuses"][0]["conditions"])[1:] == conditions


@pytest.mark.parametrize(("strategy", "word"), [("ClientSideApply", "Applied"), ("ReportDiff", "DiffReported")])
def test_a_restored_hub_is_named_with_the_next_step(strategy, word):
    binding = make_binding("a", word, good=False)
    binding["status"]["conditions"][-1]["reason"] = "OlderThanApplied"
    placement = make_placement(1, strategy={"applyStrategy": {"type": strategy}})
    last = decide(placement, make_policy("a"), [binding]).status["conditions"][-1]
    assert last["type"] == f"ClusterResourcePlacement{word}"
    assert "Hub restored: Works are held on 1 cluster. To accept older Works" in last["message"]


def test_a_deleting_binding_does_not_count():
    binding = make_binding("a")
    binding["metadata"]["deletionTimestamp"] = "2026-11-20T12:00:00Z"
    report = decide(make_placement(1), make_policy("a"), [binding])
    assert short(report.status["conditions"])[-1] == ("RolloutStarted", "Unknown", "RolloutStartedUnknown")


LISTS = {
    "failedPlacements": [
        {"version": "v1", "kind": "K", "name": "f", "condition": {"type": "Applied", "status": "False"}}
    ],
    "driftedPlacements": [
        {
            "version": "v1",
            "kind": "K",
            "name": "d",
            "observationTime": "2026-11-20T12:00:00Z",
            "targetClusterObservedGeneration": 1,
            "firstDriftedObservedTime": "2026-11-20T12:00:00Z",
        }
    ],
    "diffedPlacements": [
        {
            "version": "v1",
            "kind": "K",
            "name": "d",
            "observationTime": "2026-11-20T12:00:00Z",
            "firstDiffedObservedTime": "2026-11-20T12:00:00Z",
        }
    ],
}


@pytest.mark.parametrize(
    ("reached", "good", "strategy", "shown"),
    [
        pytest.param("Available", True, "ClientSideApply", {"drifted"}, id="available"),
        pytest.param("Available", False, "ClientSideApply", {"drifted", "failed", "diffed"}, id="not-available"),
        pytest.param("Applied", False, "ClientSideApply", {"drifted", "failed", "diffed"}, id="not-applied"),
        pytest.param("WorkSynchronized", True, "ClientSideApply", set(), id="not-reached"),
        pytest.param("DiffReported", True, "ReportDiff", {"diffed"}, id="diff-reported"),
        pytest.param("DiffReported", False, "ReportDiff", {"failed"}, id="diff-not-reported"),
    ],
)
def test_which_lists_a_cluster_shows(reached, good, strategy, shown):
    spec = {
        "clusterResourceOverrideSnapshots": ["cro-0"],
        "resourceOverrideSnapshots": [{"name": "r", "namespace": "x"}],
    }
    placement = make_placement(1, strategy={"applyStrategy": {"type": strategy}})
    report = decide(placement, make_policy("a"), [make_binding("a", reached, good, spec=spec, **LISTS)])
    entry = report.status["placementStatuses"][0]
    assert {key.removesuffix("Placements") for key in entry if key.endswith("Placements")} == shown
    assert entry["applicableClusterResourceOverrides"] == ["cro-0"]
    assert entry["applicableResourceOverrides"] == [{"name": "r", "namespace": "x"}]
    overridden = short(report.status["conditions"])[2]
    assert overridden == ("Overridden", "True", "OverriddenSucceeded")


@pytest.mark.parametrize("huge", ["failed", "drifted", "diffed"])
@pytest.mark.parametrize("hostile", [1, 3], ids=["one-cluster", "three-clusters"])
def test_lists_without_bounds_do_not_hide_what_other_clusters_report(huge, hostile):
    """An agent decides what its own lists hold; etcd stores no object over 1.5 MiB."""
    entry = {**LISTS[f"{huge}Placements"][0], "name": "n" * 16_000}
    bindings = [make_binding(f"h{number}", good=False, **LISTS) for number in range(hostile)]
    for binding in bindings:
        binding["status"][f"{huge}Placements"] = [entry] * 100
    names = [binding["spec"]["targetCluster"] for binding in bindings]
    placement = make_placement(hostile + 1)
    honest = make_binding("a", good=False, **LISTS)
    report = decide(placement, make_policy(["a", *names]), [honest, *bindings])
    assert len(dump_json({**placement, "status": report.status})) < 1_572_864
    shown = {entry["clusterName"]: LISTS.keys() & entry.keys() for entry in report.status["placementStatuses"]}
    assert shown["a"] == LISTS.keys()
    assert set() in shown.values()
    assert all(short(entry["conditions"])[-1][1] == "False" for entry in report.status["placementStatuses"])


def test_report_diff_completes_with_its_own_event():
    placement = make_placement(1, strategy={"applyStrategy": {"type": "ReportDiff"}})
    report = decide(placement, make_policy("a"), [make_binding("a", "DiffReported")])
    assert short(report.status["conditions"])[-1] == ("DiffReported", "True", "DiffReportingCompleted")
    assert [event.reason for event in report.events][-2:] == ["PlacementDiffReported", "PlacementRolloutCompleted"]


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(None, id="no-snapshot"),
        pytest.param(make_policy("a", observed=3), id="older-generation"),
        pytest.param(make_policy("a", status="Unknown"), id="unknown"),
    ],
)
def test_while_the_scheduler_has_not_decided_the_rest_stays(policy):
    before = decide(make_placement(1, generation=3), make_policy("a", observed=3), [make_binding("a")])
    report = decide(make_placement(1, status=before.status), policy, [make_binding("a")])
    assert short(report.status["conditions"]) == [("Scheduled", "Unknown", "SchedulePending"), *DONE[1:]]
    assert "placementStatuses" not in report.status
    assert not report.complete


def test_no_cluster_selected_leaves_scheduled_alone():
    before = decide(make_placement(0), make_policy("a"), [make_binding("a")])
    report = decide(make_placement(0, status=before.status), make_policy(""), [])
    assert short(report.status["conditions"]) == DONE[:1]


def test_a_new_generation_repeats_its_events():
    before = decide(make_placement(1), make_policy("a"), [make_binding("a")])
    placement = make_placement(1, status=before.status, generation=5)
    report = placement_status(placement, make_policy("a", observed=5), [make_binding("a")], LATEST, LATER)
    assert len(report.events) == 7
    assert {condition["lastTransitionTime"] for condition in report.status["conditions"]} == {"2026-11-20T12:00:00Z"}


def test_a_resource_placement_has_its_own_prefix():
    report = placement_status(make_placement(1, namespace="x"), make_policy("a"), [make_binding("a")], LATEST, NOW)
    assert report.status["conditions"][-1]["type"] == "ResourcePlacementAvailable"
    assert report.complete


OLDER = SnapshotView("shop-1-snapshot", 1, ({"version": "v1", "kind": "Namespace", "name": "old"},))
SNAPSHOTS = {view.name: view for view in (OLDER, LATEST)}
CONTROLLED = ("RolloutStarted", "Unknown", "RolloutControlledByExternalController")


@pytest.mark.parametrize(
    ("bindings", "index", "last"),
    [
        pytest.param(
            [make_binding("a", snapshot="shop-1-snapshot"), make_binding("b", snapshot="shop-1-snapshot")],
            "1",
            DONE[-1],
            id="all-equal",
        ),
        pytest.param(
            [make_binding("a", snapshot="shop-1-snapshot"), make_binding("b")], "", CONTROLLED, id="different"
        ),
        pytest.param([make_binding("a", snapshot=""), make_binding("b", snapshot="")], "", CONTROLLED, id="none"),
        pytest.param([make_binding("a")], "", CONTROLLED, id="one-binding-missing"),
        pytest.param([make_binding("a"), {**make_binding("b"), "status": {}}], "2", CONTROLLED, id="one-not-started"),
    ],
)
def test_external_rollouts_report_what_runs_on_all_clusters(bindings, index, last):
    placement = make_placement(2, strategy={"type": "External"})
    report = decide(placement, make_policy("ab"), bindings, None, snapshots=SNAPSHOTS)
    assert short(report.status["conditions"])[-1] == last
    assert report.status["observedResourceIndex"] == index
    views = {"1": OLDER, "2": LATEST}
    assert report.status["selectedResources"] == (list(views[index].identifiers) if index else [])


def test_a_cluster_that_no_update_run_has_reached_says_that_it_waits_for_one():
    bindings = [make_binding("a"), {**make_binding("b"), "status": {}}]
    report = decide(
        make_placement(2, strategy={"type": "External"}), make_policy("ab"), bindings, None, snapshots=SNAPSHOTS
    )
    said = [entry["conditions"][-1] for entry in report.status["placementStatuses"]]
    assert [each["message"] for each in said if each["status"] == "Unknown"] == ["waiting for a staged update run"]


def test_a_mistake_in_the_selectors_changes_one_condition():
    before = decide(make_placement(1), make_policy("a"), [make_binding("a")]).status
    report = invalid_selection(make_placement(1, status=before), "namespace default is reserved", LATER)
    assert short(report.status["conditions"]) == [("Scheduled", "False", "InvalidResourceSelectors"), *DONE[1:]]
    assert report.status["placementStatuses"] == before["placementStatuses"]
    assert report.requeue_after == timedelta(minutes=30)
    again = invalid_selection(
        make_placement(1, status=report.status), "namespace default is reserved", LATER + timedelta(1)
    )
    assert again.status == report.status
    assert [(each.reason, each.type, each.message) for each in report.events] == [
        ("PlacementNotScheduled", "Warning", "namespace default is reserved")
    ]
    assert again.events == ()


def test_too_few_clusters_are_told_once_and_once_more_when_there_are_enough():
    report = decide(make_placement(3), make_policy("a", "b", status="False"), [make_binding("a")])
    assert [(each.reason, each.type) for each in report.events][:1] == [("PlacementNotScheduled", "Warning")]
    short_of_one = make_placement(3, status=report.status)
    found = placement_status(short_of_one, make_policy("a"), [make_binding("a")], LATEST, LATER)
    assert "PlacementScheduled" in [each.reason for each in found.events]


SHARED = {
    "statusReportingScope": "NamespaceAccessible",
    "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
}


def test_the_status_is_copied_into_the_selected_namespace():
    placement = make_placement(1, **SHARED)
    report = decide(placement, make_policy("a"), [make_binding("a")])
    made = plan_status_copy(placement, report.status, None, NOW)
    assert made.verb is Verb.CREATE
    assert (made.name, made.document["metadata"]["namespace"]) == ("shop", "shop")
    assert made.document["sourceStatus"] == report.status
    synced = with_status_synced(placement, report.status, "", NOW)
    assert short(synced["conditions"])[-1] == ("StatusSynced", "True", "StatusSyncSucceeded")
    placement = {**placement, "status": synced}
    again = placement_status(placement, make_policy("a"), [make_binding("a")], LATEST, LATER).status
    assert again == synced
    assert plan_status_copy(placement, again, made.document, LATER) is None
    assert with_status_synced(placement, again, "", LATER) == synced
    changed = plan_status_copy(placement, {**again, "observedResourceIndex": "3"}, made.document, LATER)
    assert (changed.verb, changed.document["lastUpdatedTime"]) == (Verb.REPLACE, "2026-11-20T12:07:00Z")
    failed = with_status_synced(placement, again, "the namespace is gone", LATER)
    assert short(failed["conditions"])[-1] == ("StatusSynced", "False", "StatusSyncFailed")


def test_the_namespace_of_the_copy_may_not_change():
    placement = make_placement(1, **SHARED)
    copies = [{"metadata": {"name": "shop", "namespace": "old"}}]
    assert "in namespace old" in moved_namespace_error(placement, copies)
    assert moved_namespace_error(placement, [{"metadata": {"name": "shop", "namespace": "shop"}}]) == ""
    assert reported_namespace(make_placement(1)) == ""
    labelled = {**SHARED, "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace"}]}
    status = {"selectedResources": list(LATEST.identifiers)}
    assert reported_namespace(make_placement(1, status=status, **labelled)) == "shop"


STALLED_AFTER = timedelta(minutes=10)
BROKEN = {"kind": "Deployment", "name": "web", "namespace": "shop", "condition": {"message": "0 of 3 ready"}}


class TestStalled:
    """A rollout that does not move is reported as stalled: since when, and why."""

    def at(self, now, *bindings, before=None, **more):
        """Decide at an instant, on the status that an earlier report has left."""
        placement = make_placement(2, status=before.status if before else None, **more)
        placement["metadata"]["creationTimestamp"] = NOW.isoformat()
        return placement_status(placement, make_policy("ab"), bindings, LATEST, now, stall_timeout=STALLED_AFTER)

    def bindings(self):
        return make_binding("a", "Available", good=False, failedPlacements=[BROKEN]), make_binding(
            "b", "RolloutStarted", good=False
        )

    def said(self, report):
        found = [each for each in report.status["conditions"] if each["type"] == "ClusterResourcePlacementStalled"]
        return found[0] if found else None

    def test_it_says_since_when_and_which_object(self):
        quick = {"rollingUpdate": {"unavailablePeriodSeconds": 0}}
        first = self.at(NOW, *self.bindings(), strategy=quick)
        assert (self.said(first), first.requeue_after) == (None, STALLED_AFTER)
        soon = self.at(NOW + STALLED_AFTER - timedelta(seconds=1), *self.bindings(), before=first, strategy=quick)
        assert (self.said(soon), soon.requeue_after) == (None, timedelta(seconds=1))
        late = self.at(NOW + STALLED_AFTER, *self.bindings(), before=soon, strategy=quick)
        told = self.said(late)
        assert told is not None
        assert (told["status"], told["lastTransitionTime"]) == ("True", "2026-11-20T12:00:00Z")
        assert told["message"] == "no progress since 2026-11-20T12:00:00Z. a: Deployment shop/web: 0 of 3 ready"
        assert [(each.reason, each.type) for each in late.events] == [("PlacementRolloutStalled", "Warning")]
        again = self.at(NOW + 2 * STALLED_AFTER, *self.bindings(), before=late, strategy=quick)
        assert (again.status, again.events) == (late.status, ())

    def test_what_moves_is_not_stalled(self):
        first = self.at(NOW, *self.bindings())
        late = self.at(NOW + 2 * STALLED_AFTER, *self.bindings(), before=first)
        assert self.said(late) is not None
        moved = make_binding("a"), make_binding("b", "Applied", good=False)
        assert self.said(self.at(NOW + 3 * STALLED_AFTER, *moved, before=late)) is None

    def test_a_cluster_that_waits_for_its_windows_is_no_standstill(self):
        closed = make_binding("b", "RolloutStarted", good=False)
        started = next(each for each in closed["status"]["conditions"] if each["type"] == "RolloutStarted")
        started["message"] = f"{WAITS_FOR_WINDOW}maintenance window nights is closed until 2026-11-23T01:00:00Z"
        first = self.at(NOW, make_binding("a"), closed)
        assert self.said(self.at(NOW + 2 * STALLED_AFTER, make_binding("a"), closed, before=first)) is None
        first = self.at(NOW, self.bindings()[0], closed)
        told = self.said(self.at(NOW + 2 * STALLED_AFTER, self.bindings()[0], closed, before=first))
        assert told is not None
        assert told["message"].endswith(". a: Deployment shop/web: 0 of 3 ready")

    def test_the_period_in_which_a_cluster_proves_itself_is_no_standstill(self):
        slow = {"rollingUpdate": {"unavailablePeriodSeconds": 1200}}
        first = self.at(NOW, *self.bindings(), strategy=slow)
        assert first.requeue_after == timedelta(minutes=30)
        assert self.said(self.at(NOW + timedelta(minutes=29), *self.bindings(), before=first, strategy=slow)) is None
        assert self.said(self.at(NOW + timedelta(minutes=30), *self.bindings(), before=first, strategy=slow))

    def test_a_period_that_slipped_past_admission_stops_nothing(self):
        odd = {"rollingUpdate": {"unavailablePeriodSeconds": 86400000000000}}
        first = self.at(NOW, *self.bindings(), strategy=odd)
        assert self.said(self.at(NOW + STALLED_AFTER, *self.bindings(), before=first, strategy=odd))

    def test_a_time_that_nobody_can_read_tells_nothing(self):
        first = self.at(NOW, *self.bindings())
        for entry in first.status["placementStatuses"]:
            for condition in entry["conditions"]:
                condition["lastTransitionTime"] = "yesterday"
        assert self.said(self.at(NOW + 2 * STALLED_AFTER, *self.bindings(), before=first))

    def test_a_cluster_that_cannot_be_left_is_named(self):
        gone = make_binding("c")
        gone["metadata"] |= {"deletionTimestamp": NOW.isoformat(), "name": "shop-c"}
        kept = make_binding("a"), make_binding("b"), gone
        first = self.at(NOW, *kept)
        late = self.at(NOW + timedelta(minutes=11), *kept, before=first)
        told = self.said(late)
        assert told is not None
        assert told["message"].endswith(". c: its objects are being removed")

    def test_a_cluster_that_is_only_missing_in_the_record_is_not_being_left(self):
        """The record of a decision ends after a thousand clusters."""
        kept = make_binding("a"), make_binding("b"), make_binding("c")
        settled = self.at(NOW, *kept)
        late = self.at(NOW + timedelta(days=1), *kept, before=settled)
        assert (self.said(late), late.events, late.look_again) == (None, (), None)

    @pytest.mark.parametrize("how", ["selectors-are-wrong", "not-decided-yet"])
    def test_it_is_not_said_any_more_while_nobody_looks_whether_it_is_so(self, how):
        first = self.at(NOW, *self.bindings())
        late = self.at(NOW + timedelta(hours=1), *self.bindings(), before=first)
        assert self.said(late)
        placement = make_placement(2, status=late.status)
        then = NOW + timedelta(hours=2)
        if how == "selectors-are-wrong":
            report = invalid_selection(placement, "no such kind", then)
        else:
            report = placement_status(
                placement, make_policy("ab", observed=3), self.bindings(), LATEST, then, stall_timeout=STALLED_AFTER
            )
        assert self.said(report) is None
        kept = [each["type"] for each in late.status["conditions"] if not each["type"].endswith("Stalled")]
        assert [each["type"] for each in report.status["conditions"]] == kept

    def test_a_settled_placement_that_drops_a_cluster_has_moved_then(self):
        kept = make_binding("a"), make_binding("b")
        settled = self.at(NOW, *kept)
        later = NOW + timedelta(days=3)
        dropped = make_binding("c", spec={"state": "Unscheduled"})
        dropped["metadata"]["annotations"] = {UNSCHEDULED_AT: later.isoformat()}
        first = self.at(later, *kept, dropped, before=settled)
        assert (self.said(first), first.events, first.look_again) == (None, (), timedelta(minutes=11))
        told = self.said(self.at(later + timedelta(minutes=11), *kept, dropped, before=first))
        assert told is not None
        assert told["lastTransitionTime"] == "2026-11-23T12:00:00Z"
        assert told["message"].endswith(". c: waiting for the limits of the rollout")

    @pytest.mark.parametrize(
        "more",
        [
            pytest.param({"strategy": {"type": "External"}}, id="update-runs-decide"),
            pytest.param({}, id="all-is-well"),
        ],
    )
    def test_others_are_never_stalled(self, more):
        bindings = self.bindings() if more else (make_binding("a"), make_binding("b"))
        first = self.at(NOW, *bindings, **more)
        assert self.said(self.at(NOW + timedelta(days=1), *bindings, before=first, **more)) is None


PAGE = TooLarge(("", "ConfigMap", "shop", "page"), 1_740_000, kept=True)


def grown(cluster):
    """A binding whose overrides make an object too large."""
    binding = make_binding(cluster)
    condition = {"type": "ObjectsTooLarge", "status": "True", "message": "ConfigMap shop/a (1.6 MB, left out)"}
    binding["status"]["conditions"].append({**condition, "observedGeneration": 3})
    return binding


class TestObjectsTooLarge:
    """Objects that etcd does not take are named; everything else is reported as ever."""

    def test_they_are_named_while_there_are_any(self):
        bindings = [make_binding("a"), make_binding("b")]
        report = decide(make_placement(2), make_policy("ab"), bindings, too_large=[PAGE])
        assert short(report.status["conditions"]) == [*DONE, ("ObjectsTooLarge", "True", "SizeLimitExceeded")]
        said = "larger than the limit of etcd: ConfigMap shop/page (1.8 MB, keeps its last content)"
        assert report.status["conditions"][-1]["message"] == said
        assert [
            (event.message, event.type) for event in report.events if event.reason == "PlacementObjectsTooLarge"
        ] == [(said, "Warning")]
        assert report.complete
        placement = make_placement(2, status=report.status)
        assert too_large_message(placement) == said
        over = decide(placement, make_policy("ab"), bindings)
        assert short(over.status["conditions"]) == DONE
        assert too_large_message(make_placement(2, status=over.status)) == ""

    def test_those_of_single_clusters_are_named_with_three_of_these(self):
        report = decide(make_placement(4), make_policy("abcd"), [grown(cluster) for cluster in "dcba"])
        one = "ConfigMap shop/a (1.6 MB, left out)"
        said = f"larger than the limit of etcd: on a: {one}; on b: {one}; on c: {one}; and on 1 cluster more"
        assert report.status["conditions"][-1]["message"] == said

    def test_they_are_named_before_there_is_a_decision(self):
        first = decide(make_placement(2), None, [], too_large=[PAGE])
        assert short(first.status["conditions"])[1:] == [("ObjectsTooLarge", "True", "SizeLimitExceeded")]
        assert [event.reason for event in first.events] == ["PlacementObjectsTooLarge"]
        assert short(decide(make_placement(2, status=first.status), None, []).status["conditions"])[1:] == []


def blocked(cluster):
    """A binding on whose cluster an object cannot be deleted."""
    binding = make_binding(cluster)
    condition = {"type": "Removed", "status": "False", "message": "ConfigMap shop/rates: finalizer example.com/hold"}
    binding["status"]["conditions"].append({**condition, "observedGeneration": 3})
    return binding


class TestRemovals:
    """Objects that are no longer placed, and that finalizers keep on clusters."""

    def test_they_are_named_while_there_are_any(self):
        bindings = [make_binding("a"), blocked("b")]
        report = decide(make_placement(2), make_policy("ab"), bindings)
        assert short(report.status["conditions"]) == [*DONE, ("Removed", "False", "FinalizersRemain")]
        message = (
            "objects that are no longer placed cannot be deleted: "
            "on b: ConfigMap shop/rates: finalizer example.com/hold"
        )
        assert report.status["conditions"][-1]["message"] == message
        events = [event for event in report.events if event.reason == "PlacementObjectsRemain"]
        assert [(event.message, event.type) for event in events] == [(message, "Warning")]
        assert report.complete
        placement = make_placement(2, status=report.status)
        again = decide(placement, make_policy("ab"), bindings)
        assert (again.status, again.events) == (report.status, ())
        removed = decide(placement, make_policy("ab"), [make_binding("a"), make_binding("b")])
        assert short(removed.status["conditions"]) == DONE

    def test_a_cluster_that_the_placement_leaves_counts(self):
        leaving = blocked("b")
        leaving["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
        report = decide(make_placement(1), make_policy("a"), [make_binding("a"), leaving])
        assert short(report.status["conditions"]) == [*DONE, ("Removed", "False", "FinalizersRemain")]
