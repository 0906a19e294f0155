"""When an upgrade by Cluster API is done: conditions that sum up come late, and MachinePools say little."""

from copy import deepcopy
from datetime import timedelta

import pytest

from scorer.api.meta import parse_time
from scorer.api.upgrade.fields import UpgradeType
from scorer.upgrade.back_ends.interface import OperationState
from scorer.upgrade.cluster_api.inventory import inventory_of
from scorer.upgrade.cluster_api.progress import observation_of, remaining_steps
from scorer.upgrade.cluster_api.topology import OPERATION
from tests.builders.cluster_api import (
    LONG_AGO,
    WITH_POOLS,
    condition,
    make_cluster,
    make_control_plane,
    make_deployment,
    make_parts,
    make_pool,
)

NOW = parse_time(LONG_AGO) + timedelta(hours=1)
ID = "uid/c1/1"
SUCCEEDED, IN_PROGRESS = OperationState.SUCCEEDED, OperationState.IN_PROGRESS


def at_generation(document, generation, **status):
    """Return an object of a later generation, with a status that is as *status* says."""
    found = deepcopy(document)
    found["metadata"]["generation"] = generation
    found["status"] |= {"observedGeneration": generation, **status}
    return found


def ordered(version="1.30.4", workers="", *, generation=2, conditions=None, **others):
    """Return a Cluster after an order of ours that Cluster API has passed on."""
    cluster = at_generation(make_cluster(version=version, **(conditions or {})), generation)
    cluster["metadata"]["annotations"] = {OPERATION: ID}
    for each in cluster["status"]["conditions"]:
        each["observedGeneration"] = generation
    return make_parts(version, workers, cluster=cluster, **others)


def state(parts, upgrade):
    return observation_of(parts, ID, upgrade, NOW).state


BLUE, PLANE = make_deployment("blue"), make_control_plane()
ROLLING = {
    "deployment-not-seen": {"deployments": [at_generation(BLUE, 2, observedGeneration=1)]},
    "deployment-just-made": {"deployments": [{**BLUE, "status": {}}]},
    "deployment-rolling": {"deployments": [at_generation(BLUE, 2, upToDateReplicas=1)]},
    "deployment-surging": {"deployments": [at_generation(BLUE, 2, replicas=3, upToDateReplicas=2)]},
    "deployment-with-machines-of-an-earlier-template": {
        "deployments": [at_generation(BLUE, 2, deprecated={"v1beta1": {"updatedReplicas": 0}})]
    },
    "control-plane-not-seen": {"control_plane": at_generation(PLANE, 2, observedGeneration=1)},
    "control-plane-rolling": {"control_plane": at_generation(PLANE, 2, replicas=4, upToDateReplicas=1)},
    "pool-not-seen": {"pools": [at_generation(make_pool("green"), 2, observedGeneration=1)], "conditions": WITH_POOLS},
    "pool-scaling": {"pools": [at_generation(make_pool("green"), 2, replicas=3)], "conditions": WITH_POOLS},
}


@pytest.mark.parametrize("others", ROLLING.values(), ids=ROLLING)
def test_a_new_image_has_to_be_rolled_out_whatever_the_conditions_of_the_cluster_still_say(others):
    parts = ordered(**others)
    assert state(parts, UpgradeType.NODE_IMAGE_ONLY) is IN_PROGRESS
    assert next(remaining_steps(parts, UpgradeType.NODE_IMAGE_ONLY)).endswith("is being rolled out")


def test_a_new_image_that_is_rolled_out_everywhere_is_done():
    seen = [at_generation(BLUE, 2), at_generation(make_deployment("red"), 2)]
    assert state(ordered(deployments=seen), UpgradeType.NODE_IMAGE_ONLY) is SUCCEEDED


def test_a_control_plane_need_not_say_which_generation_it_has_seen_nor_how_many_machines_it_has():
    managed = {"metadata": {"name": "c1-cp", "generation": 4}}
    managed |= {"spec": {"version": "v1.30.4"}, "status": {"version": "v1.30.4"}}
    assert state(ordered(control_plane=managed), UpgradeType.FULL) is SUCCEEDED


def test_workers_that_are_held_back_are_not_asked_for():
    conditions = {"TopologyReconciled": ("False", "MachineDeploymentsUpgradeDeferred")}
    rolling = [at_generation(BLUE, 2, observedGeneration=1)]
    parts = ordered("1.31.2", "1.30.4", conditions=conditions, deployments=rolling)
    assert state(parts, UpgradeType.CONTROL_PLANE_ONLY) is SUCCEEDED


def test_a_cluster_with_pools_can_be_upgraded_and_found_done():
    """Cluster API 1.13 sets no conditions of the newer kind on MachinePools, so what sums them up stays Unknown."""
    resting = make_parts(cluster=make_cluster(**WITH_POOLS), pools=[make_pool("green")])
    assert inventory_of(resting, "", NOW).busy == ""
    done = ordered("1.31.2", conditions=WITH_POOLS, pools=[make_pool("green", version="1.31.2")])
    assert state(done, UpgradeType.FULL) is SUCCEEDED
    behind = ordered("1.31.2", conditions=WITH_POOLS, pools=[make_pool("green")])
    assert state(behind, UpgradeType.FULL) is IN_PROGRESS
    assert list(remaining_steps(behind, UpgradeType.FULL)) == ["c1-green is at 1.30.4"]


def failing_pool(place):
    """Return a pool whose provider says that it cannot be used."""
    pool = make_pool("green")
    conditions = {"conditions": [condition("Ready", "False", "ScaleSetModelOutdated")]}
    pool["status"] |= {"deprecated": {"v1beta1": conditions}} if place == "deprecated" else conditions
    return pool


MISSING = {
    "no-pool": ({}, "RollingOut is Unknown (RollingOutUnknown)"),
    "error": (
        {"conditions": {**WITH_POOLS, "RollingOut": ("Unknown", "InternalError")}, "pools": [make_pool("green")]},
        "RollingOut is Unknown (InternalError)",
    ),
    "connection": (
        {"conditions": {**WITH_POOLS, "RemoteConnectionProbe": ("False", "Failed")}, "pools": [make_pool("green")]},
        "RemoteConnectionProbe is False (Failed)",
    ),
    "control-plane": (
        {"conditions": {**WITH_POOLS, "ControlPlaneAvailable": ("Unknown", "X")}, "pools": [make_pool("green")]},
        "ControlPlaneAvailable is Unknown (X)",
    ),
    "deployment": (
        {
            "deployments": [at_generation(BLUE, 1, conditions=[condition("Available", "False", "NotAvailable")])],
            "pools": [make_pool("green")],
        },
        "c1-blue is not available",
    ),
    "pool": ({"pools": [failing_pool("")]}, "c1-green is not available"),
    "pool-of-newer-version": ({"pools": [failing_pool("deprecated")]}, "c1-green is not available"),
}


@pytest.mark.parametrize(("others", "words"), MISSING.values(), ids=MISSING)
def test_what_pools_leave_unsaid_is_looked_at_elsewhere(others, words):
    parts = ordered(**{"conditions": WITH_POOLS, **others})
    assert next(remaining_steps(parts, UpgradeType.NODE_IMAGE_ONLY)) == words


@pytest.mark.parametrize(
    ("others", "busy"),
    [
        pytest.param({"conditions": {"Available": ("False", "NotAvailable")}}, "", id="broken-node"),
        pytest.param({"conditions": {"Available": ("Unknown", "AvailableUnknown")}}, "", id="unknown"),
        pytest.param({"deployments": [at_generation(BLUE, 1, replicas=1, upToDateReplicas=1)]}, "", id="scaling"),
        pytest.param(
            {"conditions": {"RollingOut": ("True", "RollingOut")}}, "RollingOut is True (RollingOut)", id="rolling"
        ),
        pytest.param(
            {"conditions": {"ControlPlaneMachinesUpToDate": ("False", "NotUpToDate")}},
            "ControlPlaneMachinesUpToDate is False (NotUpToDate)",
            id="control-plane-rolling",
        ),
        pytest.param(
            {"deployments": [at_generation(BLUE, 2, observedGeneration=1)]}, "c1-blue is being rolled out", id="unseen"
        ),
        pytest.param(
            {"control_plane": at_generation(PLANE, 1, replicas=4, upToDateReplicas=1)},
            "the control plane is being rolled out",
            id="conditions-are-late",
        ),
    ],
)
def test_only_progress_is_in_the_way_of_a_start(others, busy):
    assert inventory_of(ordered(**others), "", NOW).busy == (f"Cluster API: {busy}" if busy else "")
