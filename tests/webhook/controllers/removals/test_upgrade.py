"""A release that asks for confirmation takes over a hub: removals that an earlier one has ordered are carried out."""

import asyncio

import pytest

from scorer.api.kinds import PLACEMENT, WORK
from scorer.api.unstructured.documents import is_deleting
from scorer.rollout.confirmation.policy import NO_CONFIRMATION
from scorer.rollout.removal.marks import is_marked_for_removal
from tests.builders.placement import make_placement
from tests.waiting import until
from tests.webhook.controllers.placements.confirmed_world import (
    MEMBERS,
    STATEFUL_SET,
    bindings,
    confirming,
    delete,
    on_members,
    pending,
    silence,
)
from tests.webhook.controllers.world import running

NOWHERE = {"placementType": "PickFixed", "clusterNames": []}


async def drop_clusters(world):
    """All bindings are Unscheduled, and the rollout has removed none of them."""

    async def wait(_key):
        await asyncio.Event().wait()

    world.loop.queues["rollout"]._reconcile = wait
    await world.change(PLACEMENT, "shop", policy=NOWHERE)
    await until(lambda: {each["spec"]["state"] for each in bindings(world).values()} == {"Unscheduled"})
    assert not any(map(is_marked_for_removal, bindings(world).values()))


async def remove_clusters(world):
    """All bindings and Works are being deleted."""
    await world.change(PLACEMENT, "shop", policy=NOWHERE)
    await world.until(lambda: all(map(is_deleting, world.works())))
    assert all(map(is_marked_for_removal, world.works()))


async def delete_database(world):
    """The next snapshot lacks it, and one binding of three has that snapshot."""
    await delete(world, STATEFUL_SET, "db", "shop")
    await world.until(lambda: snapshots(world) == {"shop-0-snapshot", "shop-1-snapshot"})


async def delete_placement(world):
    """All bindings and Works are being deleted."""
    await delete(world, PLACEMENT, "shop")
    await world.until(lambda: all(map(is_deleting, world.works())))


def snapshots(world):
    return {each["spec"]["resourceSnapshotName"] for each in bindings(world).values()}


@pytest.mark.parametrize(
    ("order", "is_finished"),
    [
        pytest.param(drop_clusters, lambda world: not bindings(world), id="clusters-dropped"),
        pytest.param(remove_clusters, lambda world: not bindings(world), id="clusters-being-removed"),
        pytest.param(delete_database, lambda world: snapshots(world) == {"shop-1-snapshot"}, id="objects"),
        pytest.param(delete_placement, lambda world: world.cache.get(PLACEMENT, "shop") is None, id="placement"),
    ],
)
async def test_what_was_ordered_before_the_upgrade_is_carried_out(tmp_path, order, is_finished):
    async with confirming(placement=make_placement(), data=tmp_path, removal=NO_CONFIRMATION) as world:
        await silence(world, *MEMBERS)
        await order(world)
        assert await on_members(world, STATEFUL_SET, "db") == list(MEMBERS)
    async with running(tmp_path) as world:
        await world.until(lambda: world.cache.list(WORK))
        assert not pending(world)
        await silence(world, *MEMBERS, over=True)
        await world.until(lambda: is_finished(world))
        assert await on_members(world, STATEFUL_SET, "db") == []
        assert not world.events("RemovalPending")
