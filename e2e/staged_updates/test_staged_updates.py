"""Staged updates on a real hub with real members: what users do with runs, from the first to the last condition.

Source: docs/specifications/staged-updates.md; seed 004.
"""

import json
import signal
import time
from collections.abc import Iterator

import pytest

from e2e.controlplane.cluster import JsonObject
from e2e.fleet.bed import MEMBERS, Fleet
from e2e.fleet.changes import live_bindings, member_change
from e2e.fleet.objects import (
    condition_of,
    make_config_map,
    make_namespace,
    make_resource_placement,
    pick_fixed,
)
from e2e.fleet.settled import assert_settled
from e2e.fleet.staged import (
    ABORTED,
    APPROVAL,
    ASKS_FIRST,
    DONE,
    EXTERNAL,
    NEVER_BEGUN,
    ONE_BY_ONE,
    ONE_STAGE,
    UPDATING,
    WAITING,
    StagedUpdates,
    make_stage,
    make_strategy,
)
from e2e.fleet.waiting import wait_until
from e2e.fleet.writes import Writes, resources
from scorer.api.kinds import APPROVAL_REQUEST, BINDING, NAMESPACED_BINDING, PLACEMENT
from scorer.api.meta import parse_time
from scorer.api.unstructured.documents import dicts_at, status_of

CANARY = {"metadata": {"labels": {"environment": "canary", "name": "7"}}}
NO_CANARY = {"metadata": {"labels": {"environment": "production", "name": None}}}


@pytest.fixture(scope="module", autouse=True)
def _left_as_it_was(fleet: Fleet) -> Iterator[None]:
    yield
    assert_settled(fleet)


@pytest.fixture
def updates(fleet, scene) -> StagedUpdates:
    return StagedUpdates(fleet, scene)


def stage_of(environment: str, **more: object) -> JsonObject:
    return {"name": environment, "labelSelector": {"matchLabels": {"environment": environment}}, **more}


def approval_patch(generation: int = 1) -> str:
    """What the documentation has people send."""
    made = {
        "type": "Approved",
        "status": "True",
        "reason": "LooksGood",
        "message": "checked by hand",
        "observedGeneration": generation,
        "lastTransitionTime": "2026-11-20T12:00:00Z",
    }
    return json.dumps({"status": {"conditions": [made]}})


@pytest.mark.core
def test_the_published_strategy_from_creation_to_success(fleet, updates):
    """Staging, a wait, canary, somebody's approval, production: the wait is of two seconds instead of an hour."""
    stages = (
        stage_of("staging", afterStageTasks=[{"type": "TimedWait", "waitTime": "2s"}]),
        stage_of("canary", sortingLabelKey="name", afterStageTasks=[APPROVAL]),
        stage_of("production", sortingLabelKey="order"),
    )
    with member_change(fleet, "smartfish", CANARY, NO_CANARY):
        updates.place("e2e-seed", *stages)
        updates.start("e2e-seed-1", "e2e-seed")
        updates.wait_message("e2e-seed-1", "waiting after stage canary: the approval e2e-seed-1-after-canary")
        assert updates.colours("e2e-seed") == {"jumpingcat": "green", "smartfish": "green"}
        request = "e2e-seed-1-after-canary"
        words = ("clusterapprovalrequest", request, "--subresource=status", "--type=merge", "-p", approval_patch())
        refused = fleet.hub.kubectl("patch", *words, user="jumpingcat-agent", check=False)
        assert "Forbidden" in refused.stderr, refused.stderr
        fleet.hub.kubectl("patch", *words)
        updates.wait("e2e-seed-1", DONE)
        assert updates.colours("e2e-seed") == dict.fromkeys(MEMBERS, "green")
        assert condition_of(fleet.on_hub.get(APPROVAL_REQUEST, request), "ApprovalAccepted")["status"] == "True"
        staging, canary, _ = status_of(updates.get("e2e-seed-1"))["stagesStatus"]
        waited = parse_time(canary["startTime"]) - parse_time(staging["startTime"])
        assert waited.total_seconds() >= 2, "the wait after staging"
        done = dict.fromkeys(("staging", "canary", "production"), "StageUpdatingSucceeded")
        assert updates.stages("e2e-seed-1") == {**done, "kubernetes-fleet.io/deleteStage": "StageUpdatingSucceeded"}
        wait_until("the placement is done", lambda: unfinished(fleet, "e2e-seed"))


def unfinished(fleet: Fleet, placement: str) -> str:
    """Name the conditions of a placement that are not True."""
    found = fleet.on_hub.get(PLACEMENT, placement)
    return ", ".join(f"{each['type']}: {each}" for each in found["status"]["conditions"] if each["status"] != "True")


@pytest.mark.core
def test_an_older_index_takes_a_release_back(updates):
    updates.place("e2e-back", *ONE_STAGE)
    updates.start("e2e-back-1", "e2e-back")
    updates.wait("e2e-back-1", DONE)
    updates.paint("e2e-back", "red")
    updates.start("e2e-back-2", "e2e-back")
    updates.wait("e2e-back-2", DONE)
    assert updates.colours("e2e-back") == dict.fromkeys(MEMBERS, "red")
    updates.start("e2e-back-3", "e2e-back", index="0")
    updates.wait("e2e-back-3", DONE)
    assert updates.colours("e2e-back") == dict.fromkeys(MEMBERS, "green")


def test_a_stopped_run_lets_what_is_in_flight_finish_and_goes_on_when_it_is_resumed(updates):
    updates.place_unready("e2e-stop", *ONE_BY_ONE)
    updates.start("e2e-stop-1", "e2e-stop")
    updates.wait_in_flight("e2e-stop-1", "jumpingcat")
    updates.set_state("e2e-stop-1", "Stop")
    updates.wait("e2e-stop-1", {"Progressing": "Unknown UpdateRunStopping"})
    updates.make_ready("e2e-stop", "jumpingcat")
    updates.wait("e2e-stop-1", {"Progressing": "False UpdateRunStopped"})
    assert updates.stages("e2e-stop-1")["west"] == ""
    updates.set_state("e2e-stop-1", "Run")
    for member in ("smartfish", "bravelion"):
        updates.wait_in_flight("e2e-stop-1", member)
        updates.make_ready("e2e-stop", member)
    updates.wait("e2e-stop-1", DONE)


def test_a_second_run_takes_over_and_the_first_one_says_so(fleet, updates):
    updates.place_unready("e2e-two", *ONE_STAGE)
    updates.start("e2e-two-1", "e2e-two")
    updates.wait_in_flight("e2e-two-1", *MEMBERS)
    fleet.on_hub.create(make_config_map("settings", "e2e-two", colour="red"))
    updates.start("e2e-two-2", "e2e-two")
    updates.wait("e2e-two-1", ABORTED)
    assert "preempted" in updates.message("e2e-two-1", "Succeeded")
    updates.wait_in_flight("e2e-two-2", *MEMBERS)
    wait_until("it arrives", lambda: "" if len(updates.colours("e2e-two")) == 3 else str(updates.colours("e2e-two")))
    updates.make_ready("e2e-two", *MEMBERS)
    updates.wait("e2e-two-2", DONE)


def test_the_last_stage_takes_the_placement_off_clusters_that_are_not_picked_any_more(fleet, updates):
    updates.place("e2e-less", *ONE_STAGE, policy=pick_fixed(*MEMBERS))
    updates.start("e2e-less-1", "e2e-less")
    updates.wait("e2e-less-1", DONE)
    fleet.on_hub.patch(PLACEMENT, "e2e-less", {"spec": {"policy": pick_fixed("bravelion", "jumpingcat")}})
    updates.start("e2e-less-2", "e2e-less")
    updates.wait("e2e-less-2", DONE)
    stage = status_of(updates.get("e2e-less-2"))["deletionStageStatus"]
    assert [entry["clusterName"] for entry in dicts_at(stage, "clusters")] == ["smartfish"]
    assert set(live_bindings(fleet, "e2e-less")) == {"bravelion", "jumpingcat"}
    assert set(updates.colours("e2e-less")) == {"bravelion", "jumpingcat"}


def test_runs_in_a_namespace_work_on_the_placements_of_that_namespace(fleet, scene):
    home = "e2e-team"
    for objects in fleet.clusters.values():
        scene.put(make_namespace(home), on=objects)
    rates = make_config_map("settings", home, colour="green")
    rates["metadata"]["labels"] = {"app": "rates"}
    stages = (make_stage("first", "europe", afterStageTasks=[APPROVAL]), *ONE_BY_ONE[1:])
    scene.put(make_namespace(home), rates, make_strategy("calm", *stages, namespace=home))
    scene.put(make_resource_placement("rates", home, policy={"placementType": "PickAll"}, strategy=EXTERNAL))
    updates = StagedUpdates(fleet, scene, home)
    wait_until("all members are picked", lambda: unpicked(fleet, home))
    updates.start("release", "rates", "calm")
    updates.wait("release", WAITING)
    assert updates.colours(home) == {"jumpingcat": "green"}
    updates.approve("release-after-first")
    updates.wait("release", DONE)
    assert updates.colours(home) == dict.fromkeys(MEMBERS, "green")
    fleet.on_hub.delete(updates.family.run, "release", home)
    wait_until("its request goes with it", lambda: str(fleet.on_hub.all(updates.family.approval_request, home) or ""))


def unpicked(fleet: Fleet, namespace: str) -> str:
    """Name the members that the placements of a namespace have no binding for."""
    found = {item["spec"]["targetCluster"] for item in fleet.on_hub.all(NAMESPACED_BINDING, namespace)}
    return ", ".join(sorted(set(MEMBERS) - found))


def test_a_deleted_run_takes_its_requests_along_and_leaves_what_it_has_updated(fleet, updates):
    updates.place("e2e-gone", make_stage("europe", "europe", afterStageTasks=[APPROVAL]), *ONE_BY_ONE[1:])
    updates.start("e2e-gone-1", "e2e-gone")
    updates.wait("e2e-gone-1", WAITING)
    fleet.on_hub.delete(updates.family.run, "e2e-gone-1")
    wait_until("its request goes", lambda: str(fleet.on_hub.all(APPROVAL_REQUEST) or ""))
    assert updates.colours("e2e-gone") == {"jumpingcat": "green"}


STATES = {
    "e2e-rest-new": {"Initialized": "True UpdateRunInitializedSuccessfully"},
    "e2e-rest-never": NEVER_BEGUN,
    "e2e-rest-waiting": WAITING,
    "e2e-rest-updating": UPDATING,
    "e2e-rest-stopping": {"Progressing": "Unknown UpdateRunStopping"},
    "e2e-rest-stopped": {"Progressing": "False UpdateRunStopped"},
    "e2e-rest-aborted": ABORTED,
    "e2e-rest-done": DONE,
}
"""A run for each state that it can rest in; the one of a stuck run takes five minutes to come to."""


def test_the_next_leader_goes_on_with_what_a_killed_one_has_begun_and_writes_nothing_that_rests(fleet, updates):
    """``kill -9`` right after the first cluster of three runs was given its content; other runs rest in every state."""
    rest_in_every_state(fleet, updates)
    for name, wanted in STATES.items():
        updates.wait(name, wanted)
    wait_until("statuses are stored", lambda: still_written(fleet))
    names = [f"e2e-kill-{number}" for number in range(3)]
    for name in names:
        updates.place(name, *ONE_BY_ONE)
    since, leader = Writes(fleet), fleet.reconcilers[0]
    for name in names:
        updates.start(f"{name}-run", name)
    wait_until("it works", lambda: "" if BINDING.plural in resources(since.of_loop()) else "no binding is written")
    leader.program.stop(number=signal.SIGKILL)
    leader.start(wait=False)
    for name in names:
        updates.wait(f"{name}-run", DONE)
        assert updates.colours(name) == dict.fromkeys(MEMBERS, "green")
    assert not of_resting(since), of_resting(since)
    go_on_from_every_state(updates)


def of_resting(writes: Writes) -> str:
    """Name the writes to what rests."""
    return "\n".join(str(write) for write in writes.of_loop() if write.name.startswith("e2e-rest"))


def still_written(fleet: Fleet) -> str:
    """Look for a moment whether what is to rest is still written; statuses of placements follow those of runs."""
    since = Writes(fleet)
    time.sleep(1)
    return of_resting(since)


def rest_in_every_state(fleet: Fleet, updates: StagedUpdates) -> None:
    """Have runs come to rest in the states of `STATES`, on four placements."""
    updates.place("e2e-rest-calm", *ASKS_FIRST)
    updates.place("e2e-rest-quick", *ONE_STAGE)
    updates.place("e2e-rest-over", *ASKS_FIRST)
    updates.place_unready("e2e-rest-slow", *ONE_STAGE)
    updates.start("e2e-rest-new", "e2e-rest-calm", state="Initialize")
    updates.start("e2e-rest-never", "e2e-rest-calm", "e2e-rest-ghost")
    updates.start("e2e-rest-waiting", "e2e-rest-calm")
    updates.start("e2e-rest-updating", "e2e-rest-slow")
    updates.start("e2e-rest-stopping", "e2e-rest-slow")
    updates.start("e2e-rest-done", "e2e-rest-quick")
    updates.start("e2e-rest-stopped", "e2e-rest-quick", state="Stop")
    updates.start("e2e-rest-aborted", "e2e-rest-over")
    updates.wait("e2e-rest-aborted", WAITING)
    changed = {**EXTERNAL, "applyStrategy": {"comparisonOption": "FullComparison"}}
    fleet.on_hub.patch(PLACEMENT, "e2e-rest-over", {"spec": {"strategy": changed}})
    updates.wait_in_flight("e2e-rest-stopping", *MEMBERS)
    updates.set_state("e2e-rest-stopping", "Stop")


def go_on_from_every_state(updates: StagedUpdates) -> None:
    """Give every resting run that is not over what it waits for."""
    updates.approve("e2e-rest-waiting-after-europe")
    updates.wait("e2e-rest-waiting", DONE)
    updates.set_state("e2e-rest-new", "Run")
    updates.wait("e2e-rest-new", WAITING)
    updates.approve("e2e-rest-new-after-europe")
    updates.set_state("e2e-rest-stopped", "Run")
    updates.make_ready("e2e-rest-slow", *MEMBERS)
    updates.wait("e2e-rest-stopping", {"Progressing": "False UpdateRunStopped"})
    updates.set_state("e2e-rest-stopping", "Run")
    for name in ("new", "stopped", "updating", "stopping"):
        updates.wait(f"e2e-rest-{name}", DONE)
