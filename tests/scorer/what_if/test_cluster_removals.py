"""Objects that leave single clusters because of an override: a plan names them, the clusters, and the verdict."""

from dataclasses import replace
from datetime import timedelta

import pytest

from scorer.api.meta import format_time
from scorer.api.names import (
    CONFIRM_REMOVAL,
    IS_LATEST_SNAPSHOT,
    ON_FAILURE,
    POLICY_INDEX,
    RESOURCE_HASH,
    RESOURCE_INDEX,
    ROLLBACK_OF,
)
from scorer.api.unstructured.documents import with_metadata, with_spec
from scorer.rollout.confirmation.policy import ConfirmationMode, RemovalPolicy
from scorer.rollout.snapshots.overrides import plan_override_snapshots
from scorer.rollout.writes import applied
from scorer.what_if.document import what_if
from scorer.what_if.state import HypotheticalChanges, identity_of
from tests.scorer.builders import pick_fixed
from tests.scorer.staged_update.plans import run, stage
from tests.scorer.what_if.settled_hub import RATES, SHOP, cluster, placement, settled
from tests.webhook.controllers.override_rules import delete, make_override, rule

ZONES = {"dover": "west", "faro": "east", "oslo": "east"}
KIOSK = placement("kiosk", pick_fixed(*ZONES))
FEES = {**RATES, "metadata": {"name": "fees", "namespace": "shop"}}
ENVELOPE = {
    "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
    "kind": "ResourceEnvelope",
    "metadata": {"name": "box", "namespace": "shop"},
    "data": {"rates.yaml": RATES},
}
DROPS = make_override("drops", delete("east"), placement="kiosk")
PATCHES = make_override("drops", rule("2", path="/data/b"), placement="kiosk")
OFF, STRICT = map(RemovalPolicy().with_every_mode, (ConfirmationMode.OFF, ConfirmationMode.CONFIRM))


def hub(*overrides, content=(SHOP, RATES, FEES), named=(), **fields):
    """Return a hub on which everything is rolled out. *named* are the clusters whose bindings name ``drops-0``."""
    state = settled((KIOSK, list(ZONES)), members_=[cluster(name, labels={"zone": z}) for name, z in ZONES.items()])
    (resources,) = state.resource_snapshots
    made = []
    for override in overrides:
        made = applied(made, plan_override_snapshots(override, made).writes)
    lists = [{"name": "drops-0", "namespace": "shop"}]
    bindings = [
        with_spec(one, resourceOverrideSnapshots=lists) if one["spec"]["targetCluster"] in named else one
        for one in state.bindings
    ]
    snapshots = [with_spec(resources, selectedResources=list(content))]
    return replace(
        state, overrides=overrides, override_snapshots=made, bindings=bindings, resource_snapshots=snapshots, **fields
    )


def removals(state, *objects, deleted=(), members=()):
    changes = HypotheticalChanges(members, objects, frozenset(map(identity_of, deleted)))
    (entry,) = what_if(state, changes)["placements"]
    return [(one["verdict"], one["effect"], one["clusters"]) for one in entry["rollout"]["contentRemovals"]]


EAST = ("ConfigMap shop/rates", ["faro", "oslo"])


@pytest.mark.parametrize(
    ("state", "objects", "deleted", "expected"),
    [
        pytest.param(hub(), [DROPS], [], EAST, id="created"),
        pytest.param(hub(PATCHES, named=ZONES), [DROPS], [], EAST, id="edited"),
        pytest.param(hub(DROPS, named=["faro", "oslo"]), [], [], None, id="deleted-long-ago"),
        pytest.param(hub(DROPS, named=["faro", "oslo"]), [], [DROPS], None, id="returns"),
        pytest.param(hub(DROPS, named=["faro"]), [], [], ("ConfigMap shop/rates", ["oslo"]), id="in-progress"),
        pytest.param(hub(content=[SHOP, FEES, ENVELOPE]), [DROPS], [], EAST, id="in-an-envelope"),
        pytest.param(hub(content=[SHOP, FEES]), [DROPS], [], None, id="not-placed"),
        pytest.param(hub(), [PATCHES], [], None, id="patched"),
        pytest.param(
            hub(),
            [make_override("drops", rule("2", "east", "/data/a/b"), delete("east"), placement="kiosk")],
            [],
            None,
            id="fails-before-it-is-deleted",
        ),
    ],
)
def test_objects_that_an_override_deletes_are_named_with_their_clusters(state, objects, deleted, expected):
    found = removals(state, *objects, deleted=deleted)
    assert [(effect, clusters) for _, effect, clusters in found] == ([expected] if expected else [])


def test_a_relabelled_cluster_loses_what_is_deleted_for_its_new_label():
    moved = cluster("dover", labels={"zone": "east"})
    state = hub(DROPS, named=["faro", "oslo"])
    assert [clusters for *_, clusters in removals(state, members=[moved])] == [["dover"]]
    both = make_override("drops", rule("2", "west", "/data/b"), delete("east"), placement="kiosk")
    assert [clusters for *_, clusters in removals(hub(both, named=ZONES), members=[moved])] == [["dover"]]


def test_everything_in_a_namespace():
    everything = make_override("drops", delete("west"), namespace="", placement="kiosk")
    assert {(effect, *clusters) for _, effect, clusters in removals(hub(), everything)} == {
        ("Namespace shop", "dover"),
        ("ConfigMap shop/rates", "dover"),
        ("ConfigMap shop/fees", "dover"),
    }


def test_the_verdict_is_that_of_the_loop_and_a_confirmation_counts():
    assert [verdict for verdict, *_ in removals(hub(), DROPS)] == ["Warned"]
    assert [verdict for verdict, *_ in removals(hub(removal=OFF), DROPS)] == ["Removed"]
    strict = hub(removal=STRICT)
    (entry,) = what_if(strict, HypotheticalChanges(objects=[DROPS]))["placements"]
    (pending,) = entry["rollout"]["contentRemovals"]
    assert (pending["verdict"], pending["objects"]) == ("Pending", 1)
    expiry = format_time(strict.now + timedelta(hours=1))
    confirmed = with_metadata(KIOSK, annotations={CONFIRM_REMOVAL: f"{pending['digest']}@{expiry}"})
    assert removals(strict, DROPS, confirmed) == [("Confirmed", *EAST)]


def hub_with_two_snapshots(*runs):
    """The hub after a rollout of resource snapshot 1. Snapshot 0 lacks an object. The strategy is External."""
    state = hub()
    (latest,) = state.resource_snapshots
    earlier = with_spec(latest, selectedResources=[SHOP, RATES])
    earlier = with_metadata(earlier, labels={IS_LATEST_SNAPSHOT: "false"})
    latest = with_metadata(latest, labels={RESOURCE_INDEX: "1"}, annotations={RESOURCE_HASH: "y"})
    latest = {**latest, "metadata": {**latest["metadata"], "name": "kiosk-1-snapshot"}}
    stages = {"spec": {"stages": [stage("all", labelSelector={})]}}
    return replace(
        state,
        placements=[with_spec(one, strategy={"type": "External"}) for one in state.placements],
        policy_snapshots=[with_metadata(one, labels={POLICY_INDEX: "0"}) for one in state.policy_snapshots],
        resource_snapshots=[earlier, latest],
        bindings=[with_spec(one, resourceSnapshotName=latest["metadata"]["name"]) for one in state.bindings],
        strategies=[{**stages, "metadata": {"name": run()["spec"]["stagedRolloutStrategyName"]}}],
        runs=runs,
        removal=STRICT,
    )


def back_to_first(**annotations):
    """Make a run that goes back to resource snapshot 0."""
    return with_metadata(with_spec(run(index="0"), placementName="kiosk"), annotations=annotations)


def test_a_run_back_to_an_earlier_snapshot_removes_the_objects_that_it_lacks():
    """On the clusters that the run has not reached. The latest snapshot has the object."""
    assert removals(hub_with_two_snapshots()) == []
    assert removals(hub_with_two_snapshots(), back_to_first()) == [
        ("Pending", "ConfigMap shop/fees", ["dover", "faro", "oslo"])
    ]


@pytest.mark.parametrize(
    ("policy", "verdict"),
    [
        pytest.param({ON_FAILURE: "Rollback"}, "Removed", id="ordered-by-the-failure-policy"),
        pytest.param({ON_FAILURE: "Stop"}, "Pending", id="undone-by-a-user"),
        pytest.param({}, "Pending", id="without-policy"),
        pytest.param(None, "Pending", id="of-an-unknown-run"),
    ],
)
def test_only_a_rollback_that_a_failure_policy_has_ordered_waits_for_no_confirmation(policy, verdict):
    aborted = {"conditions": [{"type": "Succeeded", "status": "False"}]}
    failed = with_metadata(with_spec(run("failed", status=aborted), placementName="kiosk"), annotations=policy or {})
    state = hub_with_two_snapshots(*([] if policy is None else [failed]))
    assert removals(state, back_to_first(**{ROLLBACK_OF: "failed"})) == [
        (verdict, "ConfigMap shop/fees", ["dover", "faro", "oslo"])
    ]
