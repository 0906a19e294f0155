"""What a plan says about clusters that a placement leaves, and whose content waits for confirmation."""

from dataclasses import replace
from datetime import timedelta

import pytest

from scorer.api.meta import format_time
from scorer.api.names import CONFIRM_REMOVAL
from scorer.api.unstructured.documents import uid_of, with_metadata
from scorer.rollout.confirmation.clusters import cluster_item
from scorer.rollout.confirmation.policy import ConfirmationMode, RemovalPolicy
from scorer.what_if.document import what_if
from scorer.what_if.scheduling import scheduled
from scorer.what_if.state import HypotheticalChanges, identity_of
from tests.scorer.builders import NOW, pick_n
from tests.scorer.what_if.settled_hub import BY_NODES, NODE_COUNTS, cluster, placement, settled
from webhook.cli.planning.output import changes_anything

ALL_FOUR = placement("web", pick_n(4, preferred=BY_NODES))
NONE = placement("web", pick_n(0, preferred=BY_NODES))
OFF = RemovalPolicy(many_clusters=ConfirmationMode.OFF)


def settled_on_four():
    return settled((ALL_FOUR, list(NODE_COUNTS)))


def rollout(state, *objects, **changes):
    (entry,) = what_if(state, HypotheticalChanges(objects=objects, **changes))["placements"]
    return entry["rollout"]


def removed(found):
    return [cluster for step in found["steps"] for cluster in step["remove"]]


def digests(state):
    return {
        one["spec"]["targetCluster"]: cluster_item(one).digest(uid_of(state.placements[0])) for one in state.bindings
    }


def test_the_loss_of_every_cluster_waits_for_confirmation_and_names_the_digests():
    state = settled_on_four()
    found = rollout(state, NONE)
    assert {one["cluster"]: one["digest"] for one in found["removals"]} == digests(state)
    assert {one["reason"] for one in found["removals"]} == {"ConfirmationRequired"}
    assert removed(found) == []


def test_without_confirmation_the_content_is_removed():
    found = rollout(replace(settled_on_four(), removal=OFF), NONE)
    assert (found["removals"], bool(removed(found))) == ([], True)


def pending():
    """Return a hub where the loop has dropped every cluster, and waits for confirmation."""
    state = replace(settled_on_four(), placements=[NONE])
    return replace(state, bindings=scheduled(state, NONE).bindings)


def test_a_removal_that_waits_already_is_no_change():
    state = pending()
    assert len(rollout(state)["removals"]) == 4
    assert not changes_anything(what_if(state, HypotheticalChanges(objects=[NONE])))


def test_a_confirmation_releases_the_clusters_that_its_digests_name():
    state = pending()
    confirmed = ",".join(digests(state)[name] for name in ("dover", "faro"))
    text = f"{confirmed}@{format_time(NOW + timedelta(minutes=10))}"
    plan = what_if(state, HypotheticalChanges(objects=[with_metadata(NONE, annotations={CONFIRM_REMOVAL: text})]))
    (entry,) = plan["placements"]
    assert sorted(one["cluster"] for one in entry["rollout"]["removals"]) == ["genoa", "oslo"]
    assert set(removed(entry["rollout"])) <= {"dover", "faro"}
    assert removed(entry["rollout"])
    assert entry["changed"]


@pytest.mark.parametrize(
    ("surge", "steps"),
    [
        pytest.param("100%", [(4, 0), (0, 4)], id="all-together"),
        pytest.param("25%", [(1, 0), (0, 1), (1, 0), (0, 2), (2, 0), (0, 1)], id="one-by-one"),
    ],
)
def test_clusters_that_are_replaced_are_removed_after_their_replacements(surge, steps):
    fleet = [cluster(name) for name in NODE_COUNTS] + [
        cluster(name, labels={"new": "yes"}) for name in ("porto", "split", "turku", "varna")
    ]
    state = settled((ALL_FOUR, list(NODE_COUNTS)), members_=fleet)
    required = {
        "clusterAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"new": "yes"}}}]
            }
        }
    }
    policy = {"placementType": "PickN", "numberOfClusters": 4, "affinity": required}
    surging = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}}
    found = rollout(state, placement("web", policy, strategy=surging))
    assert [(len(step["bind"]), len(step["remove"])) for step in found["steps"]] == steps
    assert {cluster for step in found["steps"] for cluster in step["bind"]} == {"porto", "split", "turku", "varna"}
    assert set(removed(found)) == set(NODE_COUNTS)
    assert {one["reason"] for one in found["removals"]} == {"ReplacementNotAvailable"}
    assert found["blocked"] is None


def deletion(state, *objects, **more):
    (entry,) = what_if(state, HypotheticalChanges(objects=objects, **more))["placements"]
    return entry


def test_a_deleted_placement_keeps_its_clusters_until_its_digest_is_confirmed():
    state = settled_on_four()
    entry = deletion(state, deleted=frozenset({identity_of(ALL_FOUR)}))
    (removal,) = entry["rollout"]["contentRemovals"]
    assert (removal["kind"], removal["verdict"], entry["moves"]["lost"]) == ("Placement", "Pending", [])
    assert entry["message"] == "the placement is deleted, and its content remains until the removal is confirmed"
    gone = {**ALL_FOUR, "metadata": {**ALL_FOUR["metadata"], "deletionTimestamp": format_time(NOW)}}
    for digest, verdict in ((removal["digest"], "Confirmed"), ("0" * 20, "Pending")):
        confirmation = {CONFIRM_REMOVAL: f"{digest}@{format_time(NOW + timedelta(hours=1))}"}
        answered = deletion(replace(state, placements=[gone]), with_metadata(gone, annotations=confirmation))
        assert [item["verdict"] for item in answered["rollout"]["contentRemovals"]] == [verdict]
        assert bool(answered["moves"]["lost"]) is answered["changed"] is (verdict == "Confirmed")


def test_a_deleted_placement_that_abandons_its_content_removes_nothing():
    spec = {**ALL_FOUR["spec"], "strategy": {"deleteStrategy": {"propagationPolicy": "Abandon"}}}
    state = replace(settled_on_four(), placements=[{**ALL_FOUR, "spec": spec}])
    entry = deletion(state, deleted=frozenset({identity_of(ALL_FOUR)}))
    assert (entry["rollout"]["contentRemovals"], entry["message"]) == (
        [],
        "the placement is deleted, and its content remains",
    )
