"""What the rollout leaves alone, and how often it asks again when nothing can move."""

from scorer.api.family import PlacementRef
from scorer.api.kinds import BINDING, PLACEMENT, RESOURCE_SNAPSHOT
from scorer.api.names import PARENT_PLACEMENT, RESOURCE_INDEX, SUBINDEX_OF_RESOURCE_SNAPSHOT
from scorer.rollout.bindings import NO_OVERRIDES, bound
from tests.builders.placement import make_placement
from tests.webhook.controllers.world import CONFIG_MAP, controller, make_member, pick_n, running
from webhook.kube.ports import Key


async def test_with_an_external_strategy_no_apply_strategy_is_pushed():
    """The update run writes the one that it recorded (rollout.md 8)."""
    async with running() as world:
        await world.add(make_member("a"))
        await world.add(make_placement("p", strategy={"type": "External"}))
        await world.until(lambda: world.view("p")["state"] == "external")
        strategy = {"type": "External", "applyStrategy": {"type": "ReportDiff"}}
        await world.change(PLACEMENT, "p", strategy=strategy)
        await world.until(lambda: True)
        assert [binding["spec"].get("applyStrategy") for binding in world.cache.list(BINDING)] == [None]


async def test_a_rollout_that_cannot_move_does_not_spin():
    """All are ready and fewer than wanted, so that nothing may be taken away: example R6 of rollout.md 7.7."""
    async with running() as world:
        await world.add(make_member("a"), make_member("b"))
        await world.add(make_placement("p", pick_n(12)))
        await world.until(lambda: len(world.bound("p")) == 2 and world.condition("p", "Available") != {})
        stored = await world.store.get(CONFIG_MAP, Key("rates", "shop"))
        await world.store.replace(CONFIG_MAP, {**stored, "data": {"value": "2"}})
        await world.until(lambda: world.condition("p", "RolloutStarted").get("status") == "False")
        await world.until(lambda: True)  # the loop is idle, so each requeue waits longer than the one before
        before = world.store.resource_version
        await controller(world.loop, "rollout").reconcile(PlacementRef(PLACEMENT.kind, "p"))
        await world.until(lambda: True)
        assert world.store.resource_version == before


async def test_with_an_external_strategy_shards_without_their_master_are_no_content():
    async with running() as world:
        await world.add(make_member("a"))
        await world.add(make_placement("p", strategy={"type": "External"}))
        labels = {PARENT_PLACEMENT: "p", RESOURCE_INDEX: "0"}
        annotations = {SUBINDEX_OF_RESOURCE_SNAPSHOT: "0"}
        metadata = {"name": "p-0-0", "labels": labels, "annotations": annotations}
        shard = {"apiVersion": RESOURCE_SNAPSHOT.api_version, "kind": RESOURCE_SNAPSHOT.kind, "metadata": metadata}
        await world.until(lambda: world.view("p")["state"] == "external")
        await world.add({**shard, "spec": {"selectedResources": []}})
        world.again()
        await world.until(lambda: True)
        assert world.cache.get(PLACEMENT, "p")["status"]["observedResourceIndex"] == ""


def test_a_binding_that_is_being_deleted_gets_no_finalizer():
    """An API server refuses that, and with it the whole write."""
    spec = {"state": "Scheduled", "targetCluster": "a"}
    going = {"metadata": {"name": "b", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}, "spec": spec}
    made = bound(going, "p-0-snapshot", NO_OVERRIDES)
    assert made["metadata"]["finalizers"] == ["x"]
    assert made["spec"]["state"] == "Bound"
