"""A placement that is deleted: its content goes, stays, or waits for confirmation."""

import pytest

from scorer.api.meta import format_time
from scorer.api.names import CARRIED_OUT, CLUSTERS_HELD, CONFIRM_REMOVAL, REMOVE
from scorer.rollout.confirmation.deletion import DeletionVerdict, judge_deletion, placement_item
from scorer.rollout.confirmation.digests import CarriedOut
from scorer.rollout.confirmation.policy import ConfirmationMode, RemovalPolicy
from scorer.rollout.snapshots.clusters_held import ClustersHeld
from tests.scorer.rollout.confirmation.placed_content import DEFAULTS, HOUR, NOW, UID, confirm

REMOVED, ABANDONED, PENDING = DeletionVerdict.REMOVED, DeletionVerdict.ABANDONED, DeletionVerdict.PENDING
LIVING = {"metadata": {"name": "shop", "uid": "u-shop"}}
ENDING = {"metadata": {"name": "shop", "uid": "u-shop", "deletionTimestamp": "2026-11-29T11:59:00Z"}}


def make_placement(namespace="", annotations=None, policy=""):
    metadata = {"name": "web", "uid": UID, "annotations": annotations or {}}
    if namespace:
        metadata["namespace"] = namespace
    spec = {"strategy": {"deleteStrategy": {"propagationPolicy": policy}}} if policy else {}
    kind = "ResourcePlacement" if namespace else "ClusterResourcePlacement"
    return {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def make_bindings(*clusters, state="Bound", marked_clusters=()):
    return [
        {
            "metadata": {
                "name": cluster,
                "uid": f"u-{cluster}",
                "annotations": {REMOVE: f"u-{cluster}"} if cluster in marked_clusters else {},
            },
            "spec": {"state": state, "targetCluster": cluster, "resourceSnapshotName": "web-0-snapshot"},
        }
        for cluster in clusters
    ]


DIGEST = placement_item(make_placement()).digest(UID)


@pytest.mark.parametrize(
    ("placement", "bindings", "verdict"),
    [
        pytest.param(make_placement(), make_bindings("a", "b"), PENDING, id="two-clusters"),
        pytest.param(make_placement(), make_bindings("a"), REMOVED, id="one-cluster"),
        pytest.param(make_placement(), [], REMOVED, id="no-cluster"),
        pytest.param(make_placement(), make_bindings("a", "b", state="Scheduled"), REMOVED, id="nothing-was-bound"),
        pytest.param(make_placement(), make_bindings("a", "b", state="Unscheduled"), PENDING, id="dropped-ones-count"),
        pytest.param(make_placement(policy="Abandon"), make_bindings("a", "b"), REMOVED, id="abandoned-on-purpose"),
        pytest.param(
            make_placement(annotations={CONFIRM_REMOVAL: confirm(DIGEST)}),
            make_bindings("a", "b"),
            REMOVED,
            id="confirmed",
        ),
        pytest.param(
            make_placement(annotations={CONFIRM_REMOVAL: confirm(DIGEST, expiry=NOW)}),
            make_bindings("a", "b"),
            PENDING,
            id="expired",
        ),
        pytest.param(
            make_placement(annotations={CARRIED_OUT: CarriedOut().with_digests([DIGEST], NOW - HOUR).format()}),
            make_bindings("a", "b"),
            REMOVED,
            id="confirmed-and-begun-before-it-expired",
        ),
        pytest.param(
            make_placement(), make_bindings("a", "b", marked_clusters="ab"), REMOVED, id="ordered-before-the-upgrade"
        ),
        pytest.param(
            make_placement(), make_bindings("a", "b", "c", marked_clusters="a"), PENDING, id="one-of-three-ordered"
        ),
    ],
)
def test_a_cluster_scoped_placement(placement, bindings, verdict):
    judgement = judge_deletion(placement, bindings, DEFAULTS, None, NOW)
    assert judgement.verdict is verdict
    assert bool(judgement.digest) is (
        "annotations" in placement["metadata"] and verdict is REMOVED and bool(placement["metadata"]["annotations"])
    )


def make_policy_snapshot(count, lost_at):
    record = ClustersHeld(((lost_at, count),)).format()
    return {"metadata": {"name": "web-0", "annotations": {CLUSTERS_HELD: record}}}


@pytest.mark.parametrize(
    ("count", "lost_at", "now", "verdict"),
    [
        pytest.param(3, NOW, NOW, PENDING, id="three-within-the-window"),
        pytest.param(1, NOW, NOW, REMOVED, id="it-has-moved"),
        pytest.param(3, NOW - 2 * HOUR, NOW, REMOVED, id="before-the-window"),
        pytest.param(3, NOW, NOW + 2 * HOUR, PENDING, id="the-window-ends-after-the-deletion"),
    ],
)
def test_clusters_that_were_left_within_the_window_count(count, lost_at, now, verdict):
    snapshots, placement = [make_policy_snapshot(count, lost_at)], make_placement()
    if now != NOW:
        placement["metadata"]["deletionTimestamp"] = format_time(NOW)
    judgement = judge_deletion(placement, make_bindings("a"), DEFAULTS, None, now, snapshots=snapshots)
    assert judgement.verdict is verdict
    assert judge_deletion(placement, [], DEFAULTS, None, now, snapshots=snapshots).verdict is REMOVED


def namespaced_placement(*digests):
    return make_placement("shop", {CONFIRM_REMOVAL: confirm(*digests)} if digests else None)


NAMESPACE_DIGEST = "".join(
    judge_deletion(namespaced_placement(), make_bindings("a"), DEFAULTS, ENDING, NOW).confirmable[-1].digest(UID)
)


@pytest.mark.parametrize(
    ("placement", "bindings", "namespace", "verdict"),
    [
        pytest.param(namespaced_placement(), make_bindings("a", "b"), LIVING, PENDING, id="deleted-alone"),
        pytest.param(namespaced_placement(), make_bindings("a"), LIVING, REMOVED, id="deleted-alone-on-one-cluster"),
        pytest.param(namespaced_placement(), make_bindings("a", "b"), ENDING, ABANDONED, id="with-its-namespace"),
        pytest.param(
            namespaced_placement(), make_bindings("a"), ENDING, ABANDONED, id="with-its-namespace-on-one-cluster"
        ),
        pytest.param(namespaced_placement(), make_bindings("a"), None, ABANDONED, id="its-namespace-is-gone"),
        pytest.param(
            namespaced_placement(NAMESPACE_DIGEST),
            make_bindings("a", "b"),
            ENDING,
            REMOVED,
            id="the-namespace-is-confirmed",
        ),
    ],
)
def test_a_placement_in_a_namespace(placement, bindings, namespace, verdict):
    assert judge_deletion(placement, bindings, DEFAULTS, namespace, NOW).verdict is verdict


def test_modes():
    off = DEFAULTS.with_every_mode(ConfirmationMode.OFF)
    for namespace in (LIVING, ENDING):
        judgement = judge_deletion(namespaced_placement(), make_bindings("a", "b"), off, namespace, NOW)
        assert (judgement.verdict, judgement.warned) == (REMOVED, False)
    warn = RemovalPolicy(placement=ConfirmationMode.WARN)
    assert judge_deletion(make_placement(), make_bindings("a", "b"), warn, None, NOW).warned
    assert (
        judge_deletion(namespaced_placement(), make_bindings("a", "b"), DEFAULTS, ENDING, NOW, exempt=True).verdict
        is REMOVED
    )
