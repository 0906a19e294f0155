"""Clusters of Cluster API: what they run, what an upgrade changes in them, and when it is done."""

from copy import deepcopy
from dataclasses import replace
from datetime import timedelta

import pytest

from scorer.api.meta import format_time, parse_time
from scorer.api.upgrade.fields import UpgradeType
from scorer.upgrade.back_ends.interface import Operation, OperationState, Pool, Rejected, Target
from scorer.upgrade.cluster_api.change import DEFER, HOLD, changed_cluster, refusal_of
from scorer.upgrade.cluster_api.history import ClusterApiHistory
from scorer.upgrade.cluster_api.inventory import inventory_of
from scorer.upgrade.cluster_api.progress import UNDATED_FOR, observation_of, remaining_steps
from scorer.upgrade.cluster_api.topology import OPERATION, ClusterApiRef, NoClusterError, class_of, control_plane_ref
from tests.builders.cluster_api import (
    GOOD,
    LONG_AGO,
    condition,
    make_class,
    make_cluster,
    make_control_plane,
    make_deployment,
    make_parts,
)

NOW = parse_time(LONG_AGO) + timedelta(hours=1)
PLACE = ClusterApiRef("quays", "c1", "image")
ID = "uid/c1/1"


def operation(kind=UpgradeType.FULL, version="1.31.2", **images):
    return Operation(ID, "r", "c1", "cluster-api", 1, Target(kind, version, images))


def replaced(cluster, *conditions):
    """Return a Cluster with other conditions of these types."""
    kinds = {each["type"] for each in conditions}
    found = deepcopy(cluster)
    found["status"]["conditions"] = [
        *(each for each in found["status"]["conditions"] if each["type"] not in kinds),
        *conditions,
    ]
    return found


def with_operation(parts, name=ID):
    cluster = deepcopy(parts.cluster)
    cluster["metadata"]["annotations"] = {OPERATION: name}
    return replace(parts, cluster=cluster)


@pytest.mark.parametrize("text", ["", "c1", "a/b/c", "/c1", "quays/"])
def test_a_member_names_its_cluster(text):
    annotations = {"harbormaster.dev/capi-cluster": text} if text else {}
    with pytest.raises(NoClusterError, match="capi-cluster of member m"):
        ClusterApiRef.of("m", annotations)


def test_a_place_is_read():
    annotations = {"harbormaster.dev/capi-cluster": "quays/c1", "harbormaster.dev/capi-image-variable": "image"}
    assert ClusterApiRef.of("m", annotations) == PLACE


def test_an_inventory_has_the_control_plane_and_every_set_of_machines():
    found = inventory_of(make_parts(), "image", NOW)
    assert (found.version, found.ready, found.busy, found.chained) == ("1.30.4", True, "", False)
    assert found.pools == (Pool("blue", "1.30.4", "linux", "100", 2), Pool("red", "1.30.4", "linux", "100", 1))
    assert inventory_of(make_parts(cluster_class=make_class(kubernetesVersions=["v1.30.4"])), "", NOW).chained
    assert inventory_of(make_parts(), "", NOW).pools[0] == Pool("blue", "1.30.4", "", "", 2)


def test_a_set_of_machines_may_have_an_image_of_its_own():
    cluster = make_cluster()
    own = {"overrides": [{"name": "image", "value": "101"}]}
    cluster["spec"]["topology"]["workers"]["machineDeployments"][1]["variables"] = own
    found = inventory_of(make_parts(cluster=cluster), "image", NOW)
    assert [pool.image for pool in found.pools] == ["100", "101"]


def test_a_cluster_is_busy_while_cluster_api_is_at_work_and_not_ready_while_it_is_paused_or_stuck():
    rolling = replaced(make_cluster(), condition("RollingOut", "True", "RollingOut"))
    found = inventory_of(make_parts(cluster=rolling), "", NOW)
    assert (found.ready, found.busy) == (True, "Cluster API: RollingOut is True (RollingOut)")
    paused = make_cluster()
    paused["spec"]["paused"] = True
    assert not inventory_of(make_parts(cluster=paused), "", NOW).ready
    stuck = replaced(make_cluster(), condition("ControlPlaneAvailable", "False", "NotAvailable"))
    assert not inventory_of(make_parts(cluster=stuck), "", NOW).ready


def test_workers_that_are_held_back_do_not_make_a_cluster_busy():
    """The run that finishes them must be able to begin."""
    cluster = replaced(
        make_cluster(version="1.31.2"),
        condition("TopologyReconciled", "False", "MachineDeploymentsUpgradeDeferred"),
        condition("WorkerMachinesUpToDate", "False", "NotUpToDate"),
    )
    parts = make_parts("1.31.2", "1.30.4", cluster=cluster)
    assert inventory_of(parts, "", NOW).busy == ""
    assert [pool.version for pool in inventory_of(parts, "", NOW).pools] == ["1.30.4", "1.30.4"]


def test_a_full_upgrade_changes_version_and_image_at_once():
    found = changed_cluster(make_parts(), PLACE, operation(linux="200"), NOW)
    before = make_cluster()
    topology = found["spec"]["topology"]
    assert topology["version"] == "v1.31.2"
    assert topology["variables"] == [{"name": "image", "value": "200"}, {"name": "zone", "value": {"name": "a"}}]
    assert topology["workers"] == before["spec"]["topology"]["workers"]
    assert found["metadata"]["annotations"] == {OPERATION: ID}
    assert found["metadata"]["resourceVersion"] == "7", "over the version that was read"


def test_an_upgrade_of_the_control_plane_holds_the_workers_and_the_next_full_one_lets_them_go():
    cluster = make_cluster()
    pools = [{"class": "p", "name": "green"}, {"class": "p", "name": "white"}]
    cluster["spec"]["topology"]["workers"]["machinePools"] = pools
    held = changed_cluster(make_parts(cluster=cluster), PLACE, operation(UpgradeType.CONTROL_PLANE_ONLY), NOW)
    workers = held["spec"]["topology"]["workers"]
    assert [each.get("metadata") for each in workers["machineDeployments"]] == [
        {"annotations": {HOLD: "harbormaster"}},
        None,
    ]
    assert [each["metadata"] for each in workers["machinePools"]] == [{"annotations": {DEFER: "harbormaster"}}] * 2
    assert held["spec"]["topology"]["variables"] == cluster["spec"]["topology"]["variables"]
    control_plane = make_control_plane(version="1.31.2")
    parts = make_parts(cluster=held, control_plane=control_plane)
    freed = changed_cluster(parts, PLACE, operation(), NOW)
    assert freed["spec"]["topology"]["workers"] == cluster["spec"]["topology"]["workers"]


def test_a_hold_of_somebody_else_stays():
    cluster = make_cluster()
    theirs = {"annotations": {HOLD: "", "note": "x"}}
    cluster["spec"]["topology"]["workers"]["machineDeployments"][0]["metadata"] = theirs
    for kind in (UpgradeType.CONTROL_PLANE_ONLY, UpgradeType.FULL):
        found = changed_cluster(make_parts(cluster=cluster), PLACE, operation(kind), NOW)
        assert found["spec"]["topology"]["workers"]["machineDeployments"][0]["metadata"] == theirs


def test_an_image_alone_is_a_variable_or_a_new_rollout():
    image = operation(UpgradeType.NODE_IMAGE_ONLY, "", linux="200")
    found = changed_cluster(make_parts(), PLACE, image, NOW)
    assert found["spec"]["topology"]["version"] == "v1.30.4"
    assert found["spec"]["topology"]["variables"][0] == {"name": "image", "value": "200"}
    fresh = changed_cluster(make_parts(), ClusterApiRef("quays", "c1", "other"), image, NOW)
    assert fresh["spec"]["topology"]["variables"][-1] == {"name": "other", "value": "200"}
    again = changed_cluster(make_parts(), ClusterApiRef("quays", "c1"), image, NOW)
    workers = again["spec"]["topology"]["workers"]["machineDeployments"]
    assert [each["rollout"] for each in workers] == [{"after": format_time(NOW)}] * 2
    old = {**make_cluster(), "apiVersion": "cluster.x-k8s.io/v1beta1"}
    assert changed_cluster(make_parts(cluster=old), ClusterApiRef("quays", "c1"), image, NOW).code == "NoImageVariable"


def test_what_cannot_be_changed_now_is_rejected():
    bare = make_cluster()
    del bare["spec"]["topology"]
    assert changed_cluster(make_parts(cluster=bare), PLACE, operation(), NOW) == Rejected(
        "NoTopology", "Cluster quays/c1 has no spec.topology: only Clusters of a ClusterClass can be upgraded"
    )
    paused = make_cluster()
    paused["spec"]["paused"] = True
    found = changed_cluster(make_parts(cluster=paused), PLACE, operation(), NOW)
    assert (found.code, found.retryable) == ("ClusterPaused", True)
    assert "set spec.paused to false" in found.message
    rolling = replaced(make_cluster(), condition("RollingOut", "True", "RollingOut"))
    found = changed_cluster(with_operation(make_parts(cluster=rolling), "uid/c1/9"), PLACE, operation(), NOW)
    assert (found.code, found.retryable) == ("ClusterBusy", True)
    assert "uid/c1/9" in found.message


@pytest.mark.parametrize(
    ("message", "code", "retryable"),
    [
        ('version cannot be changed when the "AfterClusterUpgrade" hook is still blocking', "ClusterBusy", True),
        ("version cannot be changed: control plane is still completing a previous upgrade", "ClusterBusy", True),
        ('version cannot be decreased from "1.31.2" to "1.30.4"', "UpgradeRefused", False),
        ('version cannot be increased from "1.30.4" to "1.32.0"', "UpgradeRefused", False),
    ],
)
def test_what_a_refusal_means(message, code, retryable):
    found = refusal_of(f'Cluster "c1" is invalid: spec.topology.version: Invalid value: "v1.31.2": {message}')
    assert (found.code, found.message, found.retryable) == (code, message, retryable)
    hook = refusal_of('admission webhook "quota.example.com" denied the request: no room left')
    assert (hook.message, hook.retryable) == ("no room left", False)


def test_an_upgrade_that_was_never_ordered_is_not_known():
    assert observation_of(make_parts(), ID, UpgradeType.FULL, NOW).state is OperationState.UNKNOWN
    other = with_operation(make_parts(), "uid/c1/2")
    assert observation_of(other, ID, UpgradeType.FULL, NOW).state is OperationState.UNKNOWN


def test_an_upgrade_is_done_when_everything_agrees():
    parts = with_operation(make_parts("1.31.2", deployments=[make_deployment("blue", version="1.31.2")]))
    assert observation_of(parts, ID, UpgradeType.FULL, NOW).state is OperationState.SUCCEEDED


def seen(cluster, generation):
    found = deepcopy(cluster)
    found["metadata"]["generation"] = generation
    return found


def said(cluster, member, **more):
    found = deepcopy(cluster)
    found["status"][member] |= more
    return found


AT = make_cluster(version="1.31.2")
CASES = {
    "not-seen": ({"cluster": seen(AT, 2)}, "the change has not been observed yet"),
    "not-reconciled": (
        {"cluster": replaced(AT, condition("TopologyReconciled", "False", "ClusterUpgrading"))},
        "TopologyReconciled is False (ClusterUpgrading)",
    ),
    "control-plane-spec": ({"control_plane": make_control_plane()}, "spec.version of the control plane is 1.30.4"),
    "no-control-plane": ({"control_plane": {}}, "spec.version of the control plane is missing, not 1.31.2"),
    "rolling": ({"cluster": replaced(AT, condition("RollingOut", "True", "RollingOut"))}, "RollingOut is True"),
    "rolling-unknown": (
        {"cluster": replaced(AT, condition("RollingOut", "Unknown", "RollingOutUnknown"))},
        "RollingOut is Unknown",
    ),
    "control-plane-machines": (
        {"cluster": replaced(AT, condition("ControlPlaneMachinesUpToDate", "False", "NotUpToDate"))},
        "ControlPlaneMachinesUpToDate is False",
    ),
    "worker-machines": (
        {"cluster": replaced(AT, condition("WorkerMachinesUpToDate", "False", "NotUpToDate"))},
        "WorkerMachinesUpToDate is False",
    ),
    "not-available": (
        {"cluster": replaced(AT, condition("Available", "False", "NotAvailable"))},
        "Available is False (NotAvailable)",
    ),
    "old-versions": ({"cluster": said(AT, "workers", versions=["v1.30.4", "v1.31.2"])}, "workers still has 1.30.4"),
    "versions-counted": (
        {"cluster": said(AT, "controlPlane", versions=[{"version": "v1.30.4", "replicas": 1}])},
        "controlPlane still has 1.30.4",
    ),
    "more-to-come": ({"cluster": said(AT, "workers", upgradePlan=["v1.32.0"])}, "workers has pending upgrades"),
}


@pytest.mark.parametrize(("others", "words"), CASES.values(), ids=CASES)
def test_an_upgrade_goes_on_while_anything_is_missing(others, words):
    parts = with_operation(make_parts("1.31.2", **others))
    found = observation_of(parts, ID, UpgradeType.FULL, NOW)
    assert found.state is OperationState.IN_PROGRESS
    assert any(each.startswith(words) for each in remaining_steps(parts, UpgradeType.FULL))


def test_a_condition_about_an_earlier_state_does_not_count():
    cluster = seen(AT, 2)
    cluster["status"]["observedGeneration"] = 2
    assert "TopologyReconciled is for an earlier generation" in list(
        remaining_steps(make_parts("1.31.2", cluster=cluster), UpgradeType.FULL)
    )


def test_a_cluster_without_workers_can_be_done():
    cluster = replaced(AT, condition("WorkerMachinesUpToDate", "Unknown", "NoReplicas"))
    parts = with_operation(make_parts("1.31.2", cluster=cluster, deployments=[]))
    assert observation_of(parts, ID, UpgradeType.FULL, NOW).state is OperationState.SUCCEEDED


def test_the_control_plane_alone_is_done_while_workers_are_held_back():
    cluster = replaced(
        AT,
        condition("TopologyReconciled", "False", "MachineDeploymentsUpgradeDeferred"),
        condition("WorkerMachinesUpToDate", "False", "NotUpToDate"),
    )
    parts = with_operation(make_parts("1.31.2", cluster=cluster))
    assert observation_of(parts, ID, UpgradeType.CONTROL_PLANE_ONLY, NOW).state is OperationState.SUCCEEDED
    assert observation_of(parts, ID, UpgradeType.FULL, NOW).state is OperationState.IN_PROGRESS


def test_an_upgrade_without_a_control_plane_has_failed_after_a_while():
    def state(passed, **others):
        since = format_time(NOW - passed)
        gone = condition("ControlPlaneAvailable", "False", "NotAvailable", since=since)
        others = [condition(kind, *said) for kind, said in others.items()]
        cluster = replaced(AT, gone, condition("Available", "False", "NotAvailable"), *others)
        return observation_of(with_operation(make_parts("1.31.2", cluster=cluster)), ID, UpgradeType.FULL, NOW)

    assert state(timedelta(minutes=15)).state is OperationState.IN_PROGRESS
    found = state(timedelta(minutes=15, seconds=1))
    assert (found.state, found.error.code) == (OperationState.FAILED, "NotAvailable")
    assert "15 minutes" in found.error.message
    never = state(timedelta(hours=1), ControlPlaneInitialized=("False", "NotInitialized"))
    assert never.state is OperationState.IN_PROGRESS, "it has never been True"


def test_a_cluster_that_somebody_pauses_has_failed():
    cluster = replaced(AT, condition("RollingOut", "True", "RollingOut"))
    cluster["spec"]["paused"] = True
    found = observation_of(with_operation(make_parts("1.31.2", cluster=cluster)), ID, UpgradeType.FULL, NOW)
    assert (found.state, found.error.code) == (OperationState.FAILED, "ClusterPaused")


def old_cluster(version="1.31.2", **conditions):
    """Return a Cluster as the older version of the API shows it, with its older conditions."""
    cluster = make_cluster(version=version)
    cluster["apiVersion"] = "cluster.x-k8s.io/v1beta1"
    cluster["spec"]["topology"] |= {"class": "berth"}
    del cluster["spec"]["topology"]["classRef"]
    cluster["spec"]["controlPlaneRef"] = {
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1",
        "kind": "KubeadmControlPlane",
        "name": "c1-cp",
        "namespace": "quays",
    }
    good = {"TopologyReconciled": "True", "ControlPlaneReady": "True", "Ready": "True", **conditions}
    cluster["status"] = {
        "observedGeneration": 1,
        "conditions": [
            {"type": kind, "status": status, "lastTransitionTime": LONG_AGO} for kind, status in good.items()
        ],
    }
    return cluster


def test_older_clusters_are_read_by_their_conditions_and_machines():
    blue = make_deployment("blue", version="1.31.2")
    parts = with_operation(make_parts("1.31.2", cluster=old_cluster(), deployments=[blue]))
    watched = ClusterApiHistory().then(parts, NOW - UNDATED_FOR)
    assert observation_of(parts, ID, UpgradeType.FULL, NOW, watched).state is OperationState.SUCCEEDED
    assert (class_of(parts.cluster), control_plane_ref(parts.cluster)) == (
        ("quays", "berth"),
        (("controlplane.cluster.x-k8s.io", "KubeadmControlPlane"), "c1-cp"),
    )
    for others in (
        {"cluster": old_cluster(ControlPlaneReady="False")},
        {"cluster": old_cluster(Ready="False")},
        {"deployments": [make_deployment("blue")]},
        {"deployments": [{**blue, "status": {"replicas": 2, "updatedReplicas": 1}}]},
        {"deployments": [{**blue, "status": {**blue["status"], "observedGeneration": 0}}]},
        {"control_plane": {**make_control_plane(version="1.31.2"), "status": {"version": "v1.31.2", "replicas": 2}}},
    ):
        found = make_parts("1.31.2", **{"cluster": old_cluster(), "deployments": [blue], **others})
        assert list(remaining_steps(found, UpgradeType.FULL)), others


def test_newer_conditions_of_an_older_cluster_count():
    cluster = old_cluster()
    cluster["status"]["v1beta2"] = {"conditions": [condition(kind, *found) for kind, found in GOOD.items()]}
    parts = make_parts("1.31.2", cluster=cluster, deployments=[])
    assert list(remaining_steps(parts, UpgradeType.FULL)) == []
    cluster["status"]["v1beta2"]["conditions"][1] = condition("RollingOut", "True", "RollingOut")
    assert list(remaining_steps(parts, UpgradeType.FULL)) == ["RollingOut is True (RollingOut)"]
