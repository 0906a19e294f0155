"""What a rollout is planned from is the same, whoever plans it: gathered from the cache, nothing left out."""

from datetime import UTC, datetime
from itertools import count

import pytest

from scorer.api.family import CLUSTER
from scorer.api.kinds import (
    BINDING,
    MEMBER_CLUSTER,
    OVERRIDE_SNAPSHOT,
    PLACEMENT,
    RESOURCE_SNAPSHOT,
    WORK,
)
from scorer.api.names import (
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_RESOURCE_SNAPSHOTS,
    PARENT_BINDING,
    PARENT_PLACEMENT,
    RESOURCE_HASH,
    RESOURCE_INDEX,
    member_namespace,
)
from scorer.api.placement.placement import PlacementType
from scorer.rollout.planner import Action, RequestedClusters
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.informer import Cache
from webhook.kube.listers.overrides import DesiredOverrides
from webhook.kube.listers.placements import children, rollout_state
from webhook.kube.ports import RetryError

VERSIONS = count(1)
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
OFTEN = {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
READY = [
    {"type": kind, "status": "True", "reason": "AllWorkAreAvailable", "observedGeneration": 1}
    for kind in ("RolloutStarted", "Available")
]


def put(cache, kind, name, *, namespace="", labels=None, annotations=None, **content):
    metadata = {
        "name": name,
        "uid": f"{kind.kind}-{name}",
        "resourceVersion": str(next(VERSIONS)),
        "generation": 1,
        "labels": labels or {},
        "annotations": annotations or {},
        **({"namespace": namespace} if namespace else {}),
    }
    document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}
    cache.of_kind(kind).put(document)
    return document


def put_binding(cache, cluster, state="Bound", conditions=READY):
    spec = {"state": state, "targetCluster": cluster, "resourceSnapshotName": "web-0-snapshot"}
    put(cache, MEMBER_CLUSTER, cluster, spec={})
    labels = {PARENT_PLACEMENT: "web"}
    put(cache, BINDING, f"web-{cluster}", labels=labels, spec=spec, status={"conditions": conditions})


def put_work(cache, cluster):
    labels = {PARENT_PLACEMENT: "web", PARENT_BINDING: f"web-{cluster}"}
    put(cache, WORK, "web-work", namespace=member_namespace(cluster), labels=labels, spec={})


def put_snapshot(cache, index, *, latest=True, of="1"):
    labels = {PARENT_PLACEMENT: "web", RESOURCE_INDEX: str(index), IS_LATEST_SNAPSHOT: str(latest).lower()}
    annotations = {RESOURCE_HASH: "x", NUMBER_OF_RESOURCE_SNAPSHOTS: of}
    config = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    spec = {"selectedResources": [config]}
    put(cache, RESOURCE_SNAPSHOT, f"web-{index}-snapshot", labels=labels, annotations=annotations, spec=spec)


@pytest.fixture
async def cache():
    """A hub with one placement of two clusters that run what was there before its latest snapshot."""
    store = EmbeddedStore.open(None)
    found = Cache(store)
    policy = {"placementType": "PickN", "numberOfClusters": 2}
    put(found, PLACEMENT, "web", spec={"resourceSelectors": [], "policy": policy, "strategy": OFTEN})
    put_binding(found, "b")
    put_binding(found, "a")
    put_snapshot(found, 0, latest=False)
    put_snapshot(found, 1)
    yield found
    store.close()


def gather(cache, *, works_known=True):
    placement = cache.get(PLACEMENT, "web")
    bindings = children(cache, BINDING, CLUSTER.ref(placement))
    return rollout_state(cache, CLUSTER, placement, bindings, works_known=works_known)


def plan(cache, *, promised=(), held=(), removal_needs_budget=True, works_known=True):
    state = gather(cache, works_known=works_known)
    return state.plan(NOW, promised=promised, held=held, removal_needs_budget=removal_needs_budget)


def names(bindings):
    return [binding.cluster for binding in bindings]


async def test_all_of_it_is_gathered(cache):
    state = gather(cache)
    assert state.wanted == RequestedClusters(PlacementType.PICK_N, 2)
    assert (state.strategy, state.snapshot) == (OFTEN, "web-1-snapshot")
    assert (names(state.bindings), state.clusters) == (["a", "b"], ["a", "b"])
    assert state.overrides == DesiredOverrides()


async def test_without_a_snapshot_nothing_can_be_rolled_out(cache):
    for index in (0, 1):
        cache.of_kind(RESOURCE_SNAPSHOT).drop(cache.get(RESOURCE_SNAPSHOT, f"web-{index}-snapshot"))
    assert gather(cache).snapshot is None
    assert plan(cache).action is Action.NO_SNAPSHOT


async def test_as_many_are_updated_as_the_limits_let(cache):
    found = plan(cache)
    assert (names(found.update), names(found.blocked)) == (["a"], ["b"])


async def test_what_is_promised_counts_as_changed_and_is_left_alone(cache):
    found = plan(cache, promised={"b"})
    assert (names(found.update), names(found.blocked), names(found.waiting)) == ([], ["a"], ["b"])


async def test_what_is_held_leaves_its_turn_to_others(cache):
    found = plan(cache, held={"a"})
    assert (names(found.update), names(found.waiting)) == (["b"], ["a"])


async def test_only_who_knows_works_tells_which_bindings_have_none(cache):
    put_binding(cache, "c", "Unscheduled")
    put_binding(cache, "d", "Unscheduled")
    put_work(cache, "d")
    assert [binding.cluster for binding in gather(cache).bindings if binding.empty] == ["c"]
    assert names(plan(cache).remove) == ["c", "d"], "one is above the number, and nothing goes with the other"
    assert not any(binding.empty for binding in gather(cache, works_known=False).bindings)


async def test_removals_need_the_limits_unless_the_operator_says_otherwise(cache):
    placement = cache.get(PLACEMENT, "web")
    policy = {"placementType": "PickN", "numberOfClusters": 0}
    put(cache, PLACEMENT, "web", spec={**placement["spec"], "policy": policy, "strategy": OFTEN})
    for cluster in ("a", "b"):
        put_binding(cache, cluster, "Unscheduled", conditions=[])
        put_work(cache, cluster)
    assert names(plan(cache).remove) == ["a"], "none of them is ready, and one may be missing"
    assert names(plan(cache, removal_needs_budget=False).remove) == ["a", "b"]


async def test_overrides_are_not_guessed_while_a_snapshot_is_being_made(cache):
    put(cache, OVERRIDE_SNAPSHOT, "all-0", spec={"overrideSpec": {}})
    put_snapshot(cache, 1, of="2")
    with pytest.raises(RetryError, match="index 1"):
        gather(cache)


async def test_no_binding_moves_to_an_incomplete_group_nor_back_from_it(cache):
    put_snapshot(cache, 1, of="2")
    assert gather(cache).snapshot is None
    assert plan(cache).action is Action.NO_SNAPSHOT


async def test_a_binding_on_a_superseded_incomplete_group_is_replaced_beyond_the_limits(cache):
    put_snapshot(cache, 0, latest=False, of="2")
    for cluster in ("a", "b"):
        put_binding(cache, cluster, conditions=[])
    assert names(plan(cache).update) == ["a", "b"]
