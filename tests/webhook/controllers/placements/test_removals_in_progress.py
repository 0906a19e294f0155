"""Removals that are confirmed and take time: the status names the clusters that still have the content."""

import pytest

from scorer.api.kinds import PLACEMENT
from tests.builders.placement import make_placement
from tests.webhook.controllers.placements.confirmed_world import (
    MEMBERS,
    STATEFUL_SET,
    confirm,
    confirming,
    delete,
    in_progress,
    on_members,
    pending,
    silence,
)

SLOW = {"rollingUpdate": {"maxUnavailable": 1, "unavailablePeriodSeconds": 3600}}


async def drop_clusters(world):
    await world.change(PLACEMENT, "shop", policy={"placementType": "PickFixed", "clusterNames": []})


async def delete_the_placement(world):
    await delete(world, PLACEMENT, "shop")


@pytest.mark.parametrize("act", [drop_clusters, delete_the_placement])
async def test_clusters_whose_agents_are_away(act):
    async with confirming() as world:
        await silence(world, *MEMBERS)
        await act(world)
        await world.until(lambda: pending(world))
        await confirm(world)
        await world.until(lambda: in_progress(world))
        assert in_progress(world) == "3 clusters still have content whose removal is confirmed: fish, lion, wolf"
        before = world.store.resource_version
        world.again()
        await world.until(lambda: True)
        assert world.store.resource_version == before
        await silence(world, *MEMBERS, over=True)
        await world.until(lambda: not in_progress(world))
        assert await on_members(world, STATEFUL_SET, "db") == []


async def test_an_object_that_leaves_one_cluster_after_the_other():
    async with confirming(placement=make_placement(strategy=SLOW)) as world:
        await delete(world, STATEFUL_SET, "db", "shop")
        await world.until(lambda: pending(world))
        assert not in_progress(world)
        await confirm(world)
        await world.until(lambda: in_progress(world).startswith("2 clusters still have"))
        assert len(await on_members(world, STATEFUL_SET, "db")) == 2
        assert len(world.events("RemovalPending")) == 1, "progress is no Event"
