"""What looks at a Cluster remember: since when its topology cannot be reconciled, and since when it has an order."""

from copy import deepcopy
from datetime import timedelta

import pytest

from scorer.api.meta import format_time, parse_time
from scorer.api.upgrade.fields import UpgradeType
from scorer.upgrade.back_ends.interface import OperationState
from scorer.upgrade.cluster_api.history import FORGET_AFTER, ClusterApiHistory
from scorer.upgrade.cluster_api.inventory import inventory_of
from scorer.upgrade.cluster_api.progress import RECONCILE_FAILED_FOR, UNDATED_FOR, observation_of
from scorer.upgrade.cluster_api.topology import OPERATION
from tests.builders.cluster_api import LONG_AGO, make_cluster, make_parts

NOW = parse_time(LONG_AGO) + timedelta(days=3)
ID = "uid/c1/1"
MINUTE = timedelta(minutes=1)


def upgrading(reason, uid="u1", operation=ID):
    """Return a Cluster whose upgrade is under way since long ago."""
    cluster = make_cluster(version="1.31.2", TopologyReconciled=("False", reason), RollingOut=("True", "RollingOut"))
    cluster["metadata"] |= {"uid": uid, "annotations": {OPERATION: operation}}
    return make_parts("1.31.2", "1.30.4", cluster=cluster)


def looked(*parts, every=MINUTE):
    """Return what looks show that are so far apart, the last of them now."""
    looks = ClusterApiHistory()
    for at, each in enumerate(parts):
        looks = looks.then(each, NOW - every * (len(parts) - 1 - at))
    return looks


def state(parts, looks):
    return observation_of(parts, ID, UpgradeType.FULL, NOW, looks).state


@pytest.mark.parametrize("reason", ["ReconcileFailed", "TopologyReconcileFailed"])
def test_an_upgrade_fails_when_every_look_for_ten_minutes_finds_an_error(reason):
    failing = upgrading(reason)
    ten = looked(*[failing] * 11)
    assert state(failing, ten) is OperationState.IN_PROGRESS
    found = observation_of(failing, ID, UpgradeType.FULL, NOW, looked(*[failing] * 12))
    assert (found.state, found.error.code) == (OperationState.FAILED, reason)
    assert str(int(RECONCILE_FAILED_FOR / MINUTE)) in found.error.message


def test_one_error_that_passes_fails_nothing():
    """The status of the condition has been False for days: its time says nothing of the error."""
    failing, fine = upgrading("ReconcileFailed"), upgrading("ClusterUpgrading")
    assert state(failing, ClusterApiHistory()) is OperationState.IN_PROGRESS
    assert state(failing, looked(*[fine] * 60, failing)) is OperationState.IN_PROGRESS
    assert state(failing, looked(*[failing] * 9, fine, *[failing] * 9)) is OperationState.IN_PROGRESS


def test_workers_that_have_been_held_back_for_days_do_not_make_one_error_of_now_last_for_days():
    failing = upgrading("ReconcileFailed")
    assert inventory_of(failing, "", NOW, looked(upgrading("MachineDeploymentsUpgradeDeferred"), failing)).ready
    assert not inventory_of(failing, "", NOW, looked(*[failing] * 12)).ready


def test_looks_count_anew_for_another_cluster_of_that_name_and_after_a_long_time():
    failing, other = upgrading("ReconcileFailed"), upgrading("ReconcileFailed", uid="u2")
    assert state(other, looked(*[failing] * 12, other)) is OperationState.IN_PROGRESS
    apart = looked(failing, failing, every=FORGET_AFTER + MINUTE)
    assert state(failing, apart) is OperationState.IN_PROGRESS
    assert state(failing, looked(failing, failing, every=FORGET_AFTER)) is OperationState.FAILED


def test_a_clock_that_is_set_back_begins_to_count_there():
    failing = upgrading("ReconcileFailed")
    back = ClusterApiHistory().then(failing, NOW + 5 * MINUTE).then(failing, NOW)
    assert back.failing_since == NOW


def undated(image="100"):
    """Return a Cluster at rest whose conditions do not say which state they are about."""
    cluster = deepcopy(make_cluster())
    cluster["metadata"]["annotations"] = {OPERATION: ID}
    for each in cluster["status"]["conditions"]:
        del each["observedGeneration"]
    return make_parts(cluster=cluster)


def test_conditions_that_do_not_say_what_they_are_about_are_believed_after_a_while():
    """Between the order of an image and its being passed on, nothing else differs from the state before."""
    parts = undated()
    first = ClusterApiHistory().then(parts, NOW - UNDATED_FOR + MINUTE)
    assert state(parts, ClusterApiHistory()) is OperationState.IN_PROGRESS
    assert state(parts, first.then(parts, NOW)) is OperationState.IN_PROGRESS
    second = ClusterApiHistory().then(parts, NOW - UNDATED_FOR)
    assert state(parts, second.then(parts, NOW)) is OperationState.SUCCEEDED
    assert second.then(upgrading("X", operation="other"), NOW).operation_since == NOW, "it is about one operation"


def test_times_of_conditions_that_are_none_count_as_absent():
    cluster = make_cluster(version="1.31.2", ControlPlaneAvailable=("False", "NotAvailable"))
    cluster["metadata"]["annotations"] = {OPERATION: ID}
    assert format_time(NOW) != LONG_AGO
    for each in cluster["status"]["conditions"]:
        each["lastTransitionTime"] = "yesterday"
    assert state(make_parts("1.31.2", "1.30.4", cluster=cluster), ClusterApiHistory()) is OperationState.IN_PROGRESS
