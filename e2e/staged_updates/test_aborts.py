"""What ends a staged update for good on a real hub, what does not, and what cannot even begin.

The runs of one test stand side by side, each on a placement of its own, so that one fleet shows all rows at once.

Source: docs/specifications/staged-updates.md 3 to 5 and 9.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.controlplane.cluster import ApiError, JsonObject
from e2e.fleet.bed import MEMBERS, Fleet
from e2e.fleet.changes import live_bindings
from e2e.fleet.objects import make_placement, pick_fixed, pick_n
from e2e.fleet.settled import assert_settled
from e2e.fleet.staged import (
    ABORTED,
    APPROVAL,
    ASKS_FIRST,
    DONE,
    EXTERNAL,
    NEVER_BEGUN,
    ONE_STAGE,
    WAITING,
    StagedUpdates,
    make_stage,
    make_strategy,
)
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import APPROVAL_REQUEST, MEMBER_CLUSTER, PLACEMENT, STAGED_RUN, STAGED_STRATEGY

ASKS_FOR_ONE_STAGE = (make_stage("all", maxConcurrency="100%", beforeStageTasks=[APPROVAL]),)


@pytest.fixture(scope="module", autouse=True)
def _left_as_it_was(fleet: Fleet) -> Iterator[None]:
    yield
    assert_settled(fleet)


@pytest.fixture
def updates(fleet, scene) -> StagedUpdates:
    return StagedUpdates(fleet, scene)


def change_placement(name: str, **spec: Any) -> Callable[[Fleet], None]:
    return lambda fleet: fleet.on_hub.patch(PLACEMENT, name, {"spec": spec}) and None


ROWS: dict[str, tuple[JsonObject | None, Callable[[Fleet], None], str]] = {
    "policy": (
        pick_fixed(*MEMBERS),
        change_placement("e2e-policy", policy=pick_fixed("bravelion", "jumpingcat")),
        "policy-changed",
    ),
    "number": (pick_n(3), change_placement("e2e-number", policy=pick_n(2)), "binding-count-mismatch"),
    "apply": (
        None,
        change_placement("e2e-apply", strategy={**EXTERNAL, "applyStrategy": {"comparisonOption": "FullComparison"}}),
        "apply-strategy-changed",
    ),
    "deleted": (None, lambda fleet: fleet.on_hub.delete(PLACEMENT, "e2e-deleted"), "placement-not-found"),
}
"""By the name of the placement: its policy, what is changed under the run, the cause that the run names."""


def test_a_change_of_what_a_run_relies_on_ends_it(fleet, updates):
    """Each run waits after its first stage; what that has updated stays updated, the other clusters get nothing."""
    for name, (policy, _, _) in ROWS.items():
        updates.place(f"e2e-{name}", *ASKS_FIRST, policy=policy)
        updates.start(f"e2e-{name}-run", f"e2e-{name}")
    for name, (_, change, _) in ROWS.items():
        updates.wait(f"e2e-{name}-run", WAITING)
        change(fleet)
    for name, (_, _, cause) in ROWS.items():
        updates.wait(f"e2e-{name}-run", ABORTED)
        assert updates.message(f"e2e-{name}-run", "Succeeded").startswith(f"{cause}: ")
    assert updates.colours("e2e-apply") == {"jumpingcat": "green"}


LABELS = {"e2e-ring": "1", "e2e-order": "1", "e2e-sort": "1", "e2e-in": "yes"}


def in_the_ring() -> JsonObject:
    terms = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"e2e-in": "yes"}}}]}
    affinity = {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {"placementType": "PickAll", "affinity": affinity}


def ring(name: str, value: str, **more: Any) -> JsonObject:
    return {"name": name, "labelSelector": {"matchLabels": {"e2e-ring": value}}, **more}


def test_another_label_of_a_member_ends_the_runs_whose_stages_it_changes(fleet, scene, updates):
    """One member is relabelled once; every strategy reads another of its labels."""
    stages = {
        "e2e-stage": (ring("one", "1", beforeStageTasks=[APPROVAL]), ring("two", "2")),
        "e2e-place": (make_stage("all", sortingLabelKey="e2e-order", beforeStageTasks=[APPROVAL]),),
        "e2e-sort": (make_stage("all", sortingLabelKey="e2e-sort", beforeStageTasks=[APPROVAL]),),
        "e2e-more": ASKS_FOR_ONE_STAGE,
        "e2e-calm": ASKS_FOR_ONE_STAGE,
    }
    causes = {
        "e2e-stage": "stages-changed: stage one has lost cluster smartfish",
        "e2e-place": "stages-changed: stage all has a different order",
        "e2e-sort": "sorting-label-invalid: sortingLabelKey of stage all: label e2e-sort",
        "e2e-more": "stages-changed: stage all has gained cluster smartfish",
    }
    label_all(fleet, LABELS)
    fleet.on_hub.patch(MEMBER_CLUSTER, "smartfish", {"metadata": {"labels": {"e2e-in": "no"}}})
    try:
        for name, found in stages.items():
            updates.place(name, *found, policy=in_the_ring() if name == "e2e-more" else None)
            updates.start(f"{name}-run", name)
        for name in stages:
            updates.wait(f"{name}-run", WAITING)
        other = {"e2e-ring": "2", "e2e-order": "0", "e2e-sort": "last", "e2e-in": "yes"}
        fleet.on_hub.patch(MEMBER_CLUSTER, "smartfish", {"metadata": {"labels": other}})
        for name, cause in causes.items():
            updates.wait(f"{name}-run", ABORTED)
            assert updates.message(f"{name}-run", "Succeeded").startswith(cause)
        updates.approve("e2e-calm-run-before-all")
        updates.wait("e2e-calm-run", DONE)
    finally:
        label_all(fleet, dict.fromkeys(LABELS))


def label_all(fleet: Fleet, labels: dict[str, Any]) -> None:
    for name in MEMBERS:
        fleet.on_hub.patch(MEMBER_CLUSTER, name, {"metadata": {"labels": labels}})


def test_neither_the_strategy_nor_content_nor_a_deleted_request_ends_a_run(fleet, updates):
    """The run keeps its own copy of the stages and its own snapshot; a request that goes is made again."""
    updates.place("e2e-keeps", *ASKS_FIRST)
    updates.start("e2e-keeps-run", "e2e-keeps")
    updates.wait("e2e-keeps-run", WAITING)
    fleet.on_hub.patch(STAGED_STRATEGY, "e2e-keeps", {"spec": {"stages": list(ONE_STAGE)}})
    fleet.on_hub.delete(STAGED_STRATEGY, "e2e-keeps")
    updates.paint("e2e-keeps", "red")
    request = "e2e-keeps-run-after-europe"
    first = fleet.on_hub.get(APPROVAL_REQUEST, request)["metadata"]["uid"]
    fleet.on_hub.delete(APPROVAL_REQUEST, request)

    def problem() -> str:
        found = fleet.on_hub.find(APPROVAL_REQUEST, request)
        return "" if found is not None and found["metadata"]["uid"] != first else "no other request"

    wait_until("it is asked again", problem)
    updates.approve(request)
    updates.wait("e2e-keeps-run", DONE)
    assert updates.colours("e2e-keeps") == dict.fromkeys(MEMBERS, "green")


def test_a_member_that_leaves_in_the_midst_of_a_stage_ends_the_run(fleet, updates):
    """The member comes back in the end; the run does not, so another one finishes its work."""
    updates.place_unready("e2e-leaves", *ONE_STAGE)
    updates.start("e2e-leaves-run", "e2e-leaves")
    updates.wait_in_flight("e2e-leaves-run", *MEMBERS)
    leaving = fleet.members["smartfish"]
    fleet.on_hub.delete(MEMBER_CLUSTER, leaving.name)
    try:
        updates.wait("e2e-leaves-run", ABORTED)
        assert "smartfish" in updates.message("e2e-leaves-run", "Succeeded")
    finally:
        fleet.on_hub.create({key: value for key, value in leaving.document.items() if key != "status"})
        fleet.wait_joined()
    wait_until("it is picked again", lambda: "" if len(live_bindings(fleet, "e2e-leaves")) == 3 else "not yet")
    updates.start("e2e-leaves-again", "e2e-leaves")
    updates.wait_in_flight("e2e-leaves-again", *MEMBERS)
    updates.make_ready("e2e-leaves", *MEMBERS)
    updates.wait("e2e-leaves-again", DONE)


BAD_STAGES: dict[str, tuple[tuple[JsonObject, ...], str]] = {
    "twice": ((make_stage("one", "europe"), make_stage("all")), "cluster-in-two-stages: stage all selects"),
    "nowhere": ((make_stage("one", "europe"),), "clusters-in-no-stage: no stage selects 2 clusters: bravelion"),
    "order": (
        (make_stage("all", sortingLabelKey="region"),),
        "sorting-label-invalid: sortingLabelKey of stage all: label region",
    ),
    "wait": (
        (make_stage("all", afterStageTasks=[{"type": "TimedWait", "waitTime": "0s"}]),),
        "after-stage-tasks-invalid: stage all has invalid afterStageTasks: waitTime '0s'",
    ),
}
"""By strategy: what the API server takes, and no run can carry out."""


def test_a_run_that_can_never_begin_names_the_field_and_the_value(fleet, scene, updates):
    updates.place("e2e-bad", *ONE_STAGE)
    wanted: dict[str, str] = {}
    for name, (stages, cause) in BAD_STAGES.items():
        scene.put(make_strategy(f"e2e-{name}", *stages))
        updates.start(f"e2e-bad-{name}", "e2e-bad", f"e2e-{name}")
        wanted[f"e2e-bad-{name}"] = cause
    scene.put(make_strategy("e2e-maybe", *ONE_STAGE, on_failure="Maybe"))
    scene.home("e2e-rolls", colour="green")
    scene.put(make_placement("e2e-rolls", pick_n(1)))
    scene.home("e2e-short", colour="green")
    scene.put(make_placement("e2e-short", pick_n(5), strategy=EXTERNAL))
    for name, placement, strategy, index, cause in (
        ("ghost", "e2e-ghost", "e2e-bad", "", "placement-not-found: placement e2e-ghost"),
        ("rolls", "e2e-rolls", "e2e-bad", "", "placement-not-external: the strategy of placement e2e-rolls"),
        ("short", "e2e-short", "e2e-bad", "", "policy-not-scheduled: "),
        ("plan", "e2e-bad", "e2e-ghost", "", "strategy-not-found: strategy e2e-ghost"),
        ("index", "e2e-bad", "e2e-bad", "7", "resource-snapshot-not-found: resource snapshot 7"),
        ("maybe", "e2e-bad", "e2e-maybe", "", "failure-policy-invalid: "),
    ):
        updates.start(f"e2e-bad-{name}", placement, strategy, index=index)
        wanted[f"e2e-bad-{name}"] = cause
    for run, cause in wanted.items():
        updates.wait(run, NEVER_BEGUN)
        assert updates.message(run, "Initialized").startswith(cause), updates.message(run, "Initialized")
        assert set(updates.said(run)) == {"Initialized"}


def test_the_api_server_keeps_a_placement_with_its_runs(fleet, updates):
    """So no run ever sees its placement taken away by a rolling update."""
    updates.place("e2e-stays", *ONE_STAGE)
    with pytest.raises(ApiError, match="must not change from External"):
        fleet.on_hub.patch(PLACEMENT, "e2e-stays", {"spec": {"strategy": {"type": "RollingUpdate"}}})


@pytest.mark.parametrize(
    ("state", "change", "words"),
    [
        pytest.param("Initialize", {"state": "Stop"}, "state", id="stopped-before-it-runs"),
        pytest.param("Stop", {"state": "Initialize"}, "state", id="back-to-the-beginning"),
        pytest.param("Initialize", {"placementName": "other"}, "placementName", id="another-placement"),
        pytest.param("Initialize", {"resourceSnapshotIndex": "3"}, "resourceSnapshotIndex", id="another-index"),
        pytest.param("Initialize", {"state": "Pause"}, "state", id="no-such-state"),
    ],
)
def test_the_api_server_refuses_what_a_run_cannot_follow(fleet, updates, state, change, words):
    updates.start("e2e-fixed", "e2e-nobody", state=state)
    with pytest.raises(ApiError, match=words) as refused:
        fleet.on_hub.patch(STAGED_RUN, "e2e-fixed", {"spec": change})
    assert refused.value.code == 422
