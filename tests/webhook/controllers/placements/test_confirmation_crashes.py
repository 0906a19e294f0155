"""The process of the loop dies at any write while removals are pending or confirmed; the next one goes on."""

import itertools

from scorer.api.kinds import NAMESPACED_OVERRIDE, PLACEMENT
from tests.builders.placement import fixed, make_placement
from tests.waiting import until
from tests.webhook.controllers.placements.confirmed_world import (
    AT_ONCE,
    DATABASE,
    STATEFUL_SET,
    bindings,
    confirm,
    confirming,
    delete,
    digests,
    dropping,
    is_available,
    make_database,
    on_members,
    pending,
)
from webhook.kube.ports import Key

FIVE = ("m1", "m2", "m3", "m4", "m5")


async def crash(world, writes, act, is_done):
    """Let the process of the loop die after so many more writes, and another one go on. Return whether it died.

    The write at which it dies is stored every other time.
    """
    world.mortal.writes_left, world.mortal.last_one_lands = writes // 2, bool(writes % 2)
    await act
    await until(lambda: world.mortal.dead or is_done())
    died = world.mortal.dead
    await world.restart()
    await world.until(is_done)
    return died


async def test_a_confirmed_removal_of_an_object_is_carried_out_whenever_the_loop_dies():
    async with confirming("fish", count=1) as world:
        for writes in itertools.count():
            await delete(world, STATEFUL_SET, "db", "shop")
            await world.until(lambda: pending(world))
            died = await crash(world, writes, confirm(world), lambda: not pending(world))
            assert await on_members(world, STATEFUL_SET, "db", members=["fish"]) == []
            if not died:
                break
            await world.add(make_database())
            await world.until(lambda: "StatefulSet" in str(world.cache.get(PLACEMENT, "shop")["status"]))
        assert writes > 4


async def test_a_confirmed_removal_from_one_cluster_is_carried_out_whenever_the_loop_dies():
    async with confirming("fish", count=1) as world:
        for writes in itertools.count():
            await world.add(dropping("no-db", DATABASE))
            await world.until(lambda: pending(world))
            act = confirm(world, hours=1 + writes / 10)
            died = await crash(world, writes, act, lambda: not pending(world))
            assert await on_members(world, STATEFUL_SET, "db", members=["fish"]) == []
            if not died:
                break
            await delete(world, NAMESPACED_OVERRIDE, "no-db", "shop")
            await world.until(lambda: is_available(world))
            assert await on_members(world, STATEFUL_SET, "db", members=["fish"]) == ["fish"]
        assert writes > 2


async def test_pending_clusters_are_pending_whenever_the_loop_dies():
    async with confirming(*FIVE, count=0, placement=make_placement(policy=fixed(*FIVE))) as world:
        for writes in itertools.count():
            act = world.change(PLACEMENT, "shop", policy=fixed("m1", "m2"))
            died = await crash(world, writes, act, lambda: len(digests(world)) == 3)
            assert await on_members(world, STATEFUL_SET, "db", members=FIVE) == list(FIVE)
            if not died:
                break
            await world.change(PLACEMENT, "shop", policy=fixed(*FIVE))
            await world.until(lambda: not pending(world) and is_available(world))
        assert writes > 6


async def test_clusters_that_were_confirmed_leave_and_the_others_stay_whenever_the_loop_dies():
    placement = make_placement(policy=fixed(*FIVE), strategy=AT_ONCE)
    async with confirming(*FIVE, count=0, placement=placement) as world:
        for writes in itertools.count(step=3):
            await world.change(PLACEMENT, "shop", policy=fixed("m1", "m2"))
            await world.until(lambda: len(digests(world)) == 3)
            act = confirm(world, digests(world)[0])
            died = await crash(world, writes, act, lambda: len(bindings(world)) == 4 and len(digests(world)) == 2)
            assert len(await on_members(world, STATEFUL_SET, "db", members=FIVE)) == 4
            if not died:
                break
            await world.change(PLACEMENT, "shop", policy=fixed(*FIVE))
            await world.until(lambda: len(world.bound("shop")) == 5 and not pending(world) and is_available(world))
        assert writes > 2


async def test_a_confirmed_deletion_is_carried_out_whenever_the_loop_dies():
    async with confirming("fish", "lion", count=0) as world:
        for writes in itertools.count(step=3):
            await world.store.delete(PLACEMENT, Key("shop"))
            await world.until(lambda: pending(world))
            died = await crash(world, writes, confirm(world), lambda: world.cache.get(PLACEMENT, "shop") is None)
            assert await on_members(world, STATEFUL_SET, "db", members=["fish", "lion"]) == []
            if not died:
                break
            await world.add(make_placement())
            await world.until(lambda: is_available(world))
        assert writes > 6


async def test_after_a_restart_a_resync_writes_nothing_while_removals_are_pending():
    async with confirming(*FIVE, placement=make_placement(policy=fixed(*FIVE))) as world:
        await delete(world, STATEFUL_SET, "db", "shop")
        await world.change(PLACEMENT, "shop", policy=fixed("m1", "m2"))
        await world.until(lambda: len(digests(world)) == 4)
        for _ in range(2):
            before = world.store.resource_version
            await world.restart()
            await world.until(lambda: pending(world))
            world.again()
            await world.until(lambda: True)
            assert world.store.resource_version == before
