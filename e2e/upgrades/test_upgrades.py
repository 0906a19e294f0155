"""Upgrade runs on a real hub: order, failures, commands, hand-off, and leaders that are killed.

Source: docs/specifications/upgrade-runs.md; seed 001.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.controlplane.cluster import JsonObject
from e2e.controlplane.process import Program
from e2e.fleet.bed import Fleet
from e2e.fleet.scene import Scene
from e2e.fleet.settled import assert_settled
from e2e.fleet.upgrades import (
    OURS,
    SETTINGS,
    SHIPS,
    STAGES,
    Upgrades,
    eight_ships,
    forget_upgrades,
    gates_of,
    kill_leaders,
    ships,
)
from e2e.fleet.waiting import wait_until
from e2e.fleet.writes import Writes, names
from scorer.api.kinds import MEMBER_CLUSTER, UPGRADE_REQUEST, UPGRADE_RUN
from scorer.api.unstructured.documents import annotation, status_of

KILLS = 2
UPGRADER = Path(__file__).parents[2] / "examples" / "upgrader"
APPROVAL = {"type": "Approval", "displayName": "fine?"}


@pytest.fixture(scope="module", autouse=True)
def _upgraded(fleet: Fleet) -> Iterator[None]:
    """Have members that can be upgraded, and a loop that can do it."""
    loop = fleet.add_reconciler("upgrading", **SETTINGS)
    with fleet.other_reconcilers(loop):
        fleet.wait_leader(loop.identity)
        with ships(fleet, eight_ships()):
            yield
    assert_settled(fleet)


@pytest.fixture
def upgrades(fleet: Fleet, scene: Scene) -> Iterator[Upgrades]:
    yield Upgrades(fleet, scene)
    scene.clear()  # the requests go with the runs; until then they say what the members run
    wait_until("no request is left", lambda: str([each["metadata"]["name"] for each in left(fleet)] or ""))
    forget_upgrades(fleet)


def left(fleet: Fleet) -> list[JsonObject]:
    return fleet.on_hub.all(UPGRADE_REQUEST)


@pytest.mark.core
def test_two_stages_of_two_groups_of_two_members(fleet, upgrades):
    upgrades.start("e2e-order", *STAGES)
    upgrades.wait("e2e-order", "Completed")
    upgrades.check_once("e2e-order")
    entries = upgrades.entries("e2e-order")
    assert entries["a1-ship"]["startTime"] == entries["b1-ship"]["startTime"], "groups go beside each other"
    observed = annotation(fleet.on_hub.get(MEMBER_CLUSTER, "d2-ship"), f"{OURS}upgrade-observed")
    assert '"controlPlaneVersion":"1.31.2"' in observed
    since = Writes(fleet)
    fleet.reconcilers[-1].stop()
    fleet.reconcilers[-1].start()
    fleet.wait_leader("upgrading")
    wait_until("the loop has looked at it again", lambda: "" if fleet.reconcilers[-1].ready() else "not ready")
    written = since.of_loop()
    assert not names(written, "clusterupgraderuns/status"), written
    assert not names(written, "clusterupgraderequests"), written


@pytest.mark.core
def test_a_failure_halts_the_run_and_a_restart_goes_on(fleet, upgrades):
    upgrades.annotate("b1-ship", simulate_upgrade="fail")
    upgrades.start("e2e-fails", *STAGES)
    upgrades.wait("e2e-fails", "Failed")
    states = upgrades.states("e2e-fails")
    assert (states["b1-ship"], states["b2-ship"], states["c1-ship"]) == ("Failed", "NotStarted", "NotStarted")
    fleet.reconcilers[-1].stop()
    fleet.reconcilers[-1].start()
    fleet.wait_leader("upgrading")
    assert upgrades.state("e2e-fails") == "Failed", "a failed run does not go on by itself"
    upgrades.annotate("b1-ship", simulate_upgrade=None)
    upgrades.order("e2e-fails", restartToken="again")
    upgrades.wait("e2e-fails", "Completed")
    assert (upgrades.entries("e2e-fails")["b1-ship"]["attempt"], upgrades.states("e2e-fails")) == (
        2,
        dict.fromkeys(SHIPS, "Completed"),
    )


def test_stop_start_and_skip_at_each_level(upgrades):
    upgrades.annotate("a1-ship", upgrade_duration="10s")
    long_wait = ({**STAGES[0], "afterStageWaitSeconds": 3600, "afterGates": [APPROVAL]}, STAGES[1])
    upgrades.start("e2e-skips", *long_wait, {"name": "third", "memberSelector": {"matchLabels": {"none": "such"}}})
    upgrades.wait_member("e2e-skips", "a1-ship", "Running")
    upgrades.order("e2e-skips", state="Stop")
    upgrades.wait("e2e-skips", "Stopped")
    states = upgrades.states("e2e-skips")
    assert (states["a1-ship"], states["a2-ship"]) == ("Completed", "NotStarted"), "what is under way comes to its end"
    member, group = {"type": "Member", "name": "a2-ship"}, {"type": "Group", "name": "quay-c"}
    upgrades.order("e2e-skips", state="Run", restartToken="on", skipTargets=[member, group])
    upgrades.wait("e2e-skips", "Pending")
    wait = {"type": "AfterStageWait", "name": "first"}
    upgrades.order("e2e-skips", skipTargets=[member, group, wait])
    upgrades.approve("e2e-skips")
    upgrades.wait("e2e-skips", "Completed")
    expected = dict.fromkeys(SHIPS, "Completed") | dict.fromkeys(("a2-ship", "c1-ship", "c2-ship"), "Skipped")
    assert upgrades.states("e2e-skips") == expected
    upgrades.annotate("a1-ship", upgrade_duration="1s")


def test_an_upgrade_is_handed_off_to_the_example_upgrader_and_reported_back(fleet, upgrades, tmp_path):
    upgrades.annotate("a1-ship", upgrader="handoff", upgrade_observed='{"controlPlaneVersion":"1.30.4"}')
    seen = tmp_path / "seen"
    upgrader = example_upgrader(fleet, tmp_path, "sh", "-c", f'echo "$MEMBER $TYPE $VERSION" >> {seen}')
    upgrader.start()
    try:
        upgrades.start("e2e-hands", {"name": "only", "groups": [{"name": "quay-a"}]})
        upgrades.wait("e2e-hands", "Completed")
    finally:
        upgrader.stop()
        upgrades.annotate("a1-ship", upgrader=None)
    assert seen.read_text() == "a1-ship Full 1.31.2\n"
    (request,) = [each for each in upgrades.requests("e2e-hands") if each["spec"]["memberName"] == "a1-ship"]
    assert status_of(request)["phase"] == "Succeeded"


def example_upgrader(fleet: Fleet, folder: Path, *command: str) -> Program:
    """Return the upgrader of the examples, with the rights that it ships, not started."""
    rights = yaml.safe_load_all((UPGRADER / "upgrader.yaml").read_text(encoding="utf-8"))
    fleet.on_hub.apply([each for each in rights if each["kind"] != "Deployment"])
    token = folder / "token"
    token.write_text(fleet.hub.token_of("upgrader", "upgrader"))
    words = ("--server", fleet.hub.url, "--token-file", token, "--ca-file", fleet.hub.ca_file, "--every", "0.5")
    return Program([sys.executable, UPGRADER / "upgrader.py", *words, "--", *command], folder / "upgrader.log", {})


def test_a_leader_that_is_killed_again_and_again_upgrades_every_member_once(fleet, upgrades):
    kill_leaders(fleet, upgrades, "e2e-kills", KILLS)


def test_a_run_that_is_deleted_takes_its_gates_and_requests_along(fleet, upgrades):
    upgrades.annotate("a1-ship", simulate_upgrade="hang")
    upgrades.start("e2e-gone", {**STAGES[0], "groups": [{"name": "quay-a"}]}, STAGES[1])
    upgrades.wait_member("e2e-gone", "a1-ship", "Running")
    wait_until("there is a request", lambda: "" if upgrades.requests("e2e-gone") else "none")
    fleet.on_hub.delete(UPGRADE_RUN, "e2e-gone")
    wait_until("it is gone", lambda: str(fleet.on_hub.find(UPGRADE_RUN, "e2e-gone") or ""))
    wait_until("its requests are gone", lambda: str(upgrades.requests("e2e-gone") or ""))
    assert not gates_of(fleet, "e2e-gone")
    assert status_of(fleet.on_hub.get(MEMBER_CLUSTER, "a1-ship"))
