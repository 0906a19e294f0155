"""Placements that are deleted on a running hub: their content goes, stays, or waits for confirmation."""

import pytest

from scorer.api.family import NAMESPACED
from scorer.api.kinds import MEMBER_CLUSTER, NAMESPACE, PLACEMENT, RESOURCE_PLACEMENT
from scorer.api.unstructured.documents import is_deleting, with_metadata, with_spec
from scorer.rollout.removal.marks import is_marked_for_removal
from tests.builders.placement import fixed, make_placement, namespace_term
from tests.webhook.controllers.placements.confirmed_world import (
    CONFIG_MAP,
    STATEFUL_SET,
    bindings,
    confirm,
    confirming,
    digests,
    on_members,
    pending,
)
from tests.webhook.controllers.staged_world import pass_time
from tests.webhook.edits import edit
from webhook.kube.ports import Key

EVERYWHERE = ["fish", "lion", "wolf"]


async def test_a_deleted_placement_waits_with_its_content():
    async with confirming() as world:
        await world.store.delete(PLACEMENT, Key("shop"))
        await world.until(lambda: pending(world))
        assert "the content of the deleted placement remains" in pending(world)["message"]
        assert set(bindings(world)) == set(EVERYWHERE)
        assert not any(map(is_deleting, bindings(world).values()))
        assert await on_members(world, STATEFUL_SET, "db") == EVERYWHERE
        assert len(digests(world)) == 1
        await confirm(world)
        await world.until(lambda: world.cache.get(PLACEMENT, "shop") is None)
        assert await on_members(world, STATEFUL_SET, "db") == []


async def test_it_may_be_abandoned_instead():
    async with confirming() as world:
        await world.store.delete(PLACEMENT, Key("shop"))
        await world.until(lambda: pending(world))
        strategy = {"deleteStrategy": {"propagationPolicy": "Abandon"}}
        await edit(world.store, PLACEMENT, Key("shop"), lambda it: with_spec(it, strategy=strategy))
        await world.until(lambda: world.cache.get(PLACEMENT, "shop") is None)
        assert await on_members(world, STATEFUL_SET, "db") == EVERYWHERE


async def test_a_placement_on_one_cluster_is_deleted_at_once():
    async with confirming(placement=make_placement(policy=fixed("fish"))) as world:
        await world.store.delete(PLACEMENT, Key("shop"))
        await world.until(lambda: world.cache.get(PLACEMENT, "shop") is None)
        assert await on_members(world, STATEFUL_SET, "db") == []


async def test_clusters_that_were_left_one_by_one_count():
    async with confirming(placement=make_placement(policy=fixed(*EVERYWHERE))) as world:
        await world.change(PLACEMENT, "shop", policy=fixed("fish", "lion"))
        await world.until(lambda: len(bindings(world)) == 2)
        await world.change(PLACEMENT, "shop", policy=fixed("fish"))
        await world.until(lambda: len(bindings(world)) == 1)
        await world.store.delete(PLACEMENT, Key("shop"))
        await world.until(lambda: pending(world))
        pass_time(world, hours=2)
        await world.until(lambda: True)
        assert await on_members(world, STATEFUL_SET, "db") == ["fish"]
        await confirm(world, hours=4)
        await world.until(lambda: world.cache.get(PLACEMENT, "shop") is None)
        assert await on_members(world, STATEFUL_SET, "db") == []


RP_TERMS = [{"group": "", "version": "v1", "kind": "ConfigMap", "name": f"c{number}"} for number in range(4)]


async def test_a_placement_in_a_terminating_namespace_does_not_wait():
    home = make_placement(selectors=[{**namespace_term("shop"), "selectionScope": "NamespaceOnly"}])
    async with confirming(placement=home) as world:
        await world.add(make_placement("web", namespace="shop", selectors=RP_TERMS))
        await world.until(lambda: world.view("web", "shop")["state"] == "available")
        await world.store.delete(NAMESPACE, Key("shop"))
        await world.until(lambda: world.cache.get(RESOURCE_PLACEMENT, "web", "shop") is None)
        assert await on_members(world, CONFIG_MAP, "c0") == EVERYWHERE
        (note,) = world.events("PlacementContentOrphaned")
        assert "fish, lion, wolf" in note
        assert await on_members(world, NAMESPACE, "shop", "") == EVERYWHERE


@pytest.mark.parametrize("before", ["deleted", "without-clusters"])
async def test_what_waits_in_a_namespace_does_not_block_its_termination(before):
    home = make_placement(selectors=[{**namespace_term("shop"), "selectionScope": "NamespaceOnly"}])
    async with confirming(placement=home) as world:
        await world.add(make_placement("web", namespace="shop", selectors=RP_TERMS))
        await world.until(lambda: world.view("web", "shop")["state"] == "available")
        if before == "deleted":
            await world.store.delete(RESOURCE_PLACEMENT, Key("web", "shop"))
        else:
            key = Key("web", "shop")
            await edit(world.store, RESOURCE_PLACEMENT, key, lambda it: with_spec(it, policy=fixed("unknown")))
        await world.until(lambda: "RemovalPending" in str(world.cache.get(RESOURCE_PLACEMENT, "web", "shop")["status"]))
        await world.store.delete(NAMESPACE, Key("shop"))
        await world.until(lambda: world.cache.get(RESOURCE_PLACEMENT, "web", "shop") is None)
        assert not world.cache.list(NAMESPACED.binding, "shop")
        assert await on_members(world, CONFIG_MAP, "c0") == EVERYWHERE


async def test_a_confirmed_deletion_does_not_wait_for_a_member_that_is_away():
    async with confirming() as world:
        silent = {"harbormaster.dev/simulate": "silent"}
        await edit(world.store, MEMBER_CLUSTER, Key("wolf"), lambda it: with_metadata(it, annotations=silent))
        await world.until(lambda: True)
        pass_time(world, minutes=6)
        await world.until(lambda: world.events("MemberClusterSilent"))
        await world.store.delete(PLACEMENT, Key("shop"))
        await world.until(lambda: pending(world))
        await confirm(world)
        pass_time(world, minutes=1)
        await world.until(lambda: world.cache.get(PLACEMENT, "shop") is None)
        assert await on_members(world, STATEFUL_SET, "db") == ["wolf"], (
            "its agent carries the order out when it is back"
        )
        assert all(map(is_marked_for_removal, world.works()))
        assert world.events("PlacementWorksLeft")
