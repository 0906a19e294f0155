"""Routes around the confirmation of removals that pass admission: the loop keeps the content on the members.

`tests.webhook.admission.test_removal_attacks` has the routes that admission closes.
"""

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from scorer.api.kinds import BINDING, NAMESPACE, PLACEMENT, RESOURCE_SNAPSHOT
from scorer.api.names import CARRIED_OUT, CONFIRM_REMOVAL, RESOURCE_INDEX, SOURCES
from scorer.api.unstructured.documents import annotation, with_metadata, with_spec
from tests.builders.placement import make_placement
from tests.virtual_time import loop_now
from tests.waiting import until
from tests.webhook.controllers.placements.confirmed_world import (
    CONFIG_MAP,
    MEMBERS,
    STATEFUL_SET,
    confirm,
    confirming,
    delete,
    digests,
    is_available,
    make_database,
    on_members,
    pending,
)
from tests.webhook.controllers.world import NO_DEBOUNCE, World, make_config_map, make_member
from tests.webhook.edits import edit
from webhook.controllers.assembly import make_loop
from webhook.controllers.placements.resource_watches import Selectables
from webhook.embedded.storage.kinds import EmbeddedKinds
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import Key
from webhook.settings.loop import LoopSettings


async def lose_database(world):
    """Delete the database as a client does whom no hook asks, and wait for the loop."""
    await delete(world, STATEFUL_SET, "db", "shop")
    await world.until(lambda: pending(world))


async def is_everywhere(world):
    return await on_members(world, STATEFUL_SET, "db") == list(MEMBERS)


async def annotate(world, kind, key, **annotations):
    await edit(world.store, kind, key, lambda it: with_metadata(it, annotations=annotations))


async def reuse_a_digest(world):
    """The confirmation of a removal that was carried out does not count for an object of the same name."""
    await lose_database(world)
    await confirm(world)
    await world.until(lambda: not pending(world))
    text = annotation(world.cache.get(PLACEMENT, "shop"), CONFIRM_REMOVAL)
    await world.add(make_database())
    await until(lambda: is_everywhere(world))
    await lose_database(world)
    assert digests(world)[0] not in text


async def restore_a_used_digest(world):
    """Dropping the record of a digest does not bring back one for another object."""
    await reuse_a_digest(world)
    await annotate(world, PLACEMENT, Key("shop"), **{CARRIED_OUT: None})


async def exempt_the_namespace_afterwards(world):
    """A label that is set shortly before the removal exempts nothing."""
    labels = {"harbormaster.dev/ephemeral": "true"}
    await edit(world.store, NAMESPACE, Key("shop"), lambda it: with_metadata(it, labels=labels))
    await world.until(lambda: "ephemeral" in str(world.cache.list(RESOURCE_SNAPSHOT)))
    await lose_database(world)


async def confirm_less_than_what_is_removed(world):
    """The digest of one object does not cover another that is removed with it."""
    await delete(world, CONFIG_MAP, "c0", "shop")
    await world.until(lambda: True)
    await lose_database(world)
    await confirm(world, "0" * 20, *(digest[::-1] for digest in digests(world)))


async def forge_the_sources(world):
    """A snapshot without the record of what is pending is judged again."""
    await lose_database(world)
    for each in world.store.objects(RESOURCE_SNAPSHOT):
        await annotate(world, RESOURCE_SNAPSHOT, Key(each["metadata"]["name"]), **{SOURCES: None})


async def delete_the_snapshots(world):
    """Without its snapshots, a placement does not forget what it has placed: its Works show that."""
    await lose_database(world)
    for each in list(world.store.objects(RESOURCE_SNAPSHOT)):
        await world.store.delete(RESOURCE_SNAPSHOT, Key(each["metadata"]["name"]))


async def delete_the_snapshots_first(world):
    """The same, if the snapshots are deleted before the object."""
    for each in list(world.store.objects(RESOURCE_SNAPSHOT)):
        await world.store.delete(RESOURCE_SNAPSHOT, Key(each["metadata"]["name"]))
    await delete(world, STATEFUL_SET, "db", "shop")


async def forge_a_later_snapshot(world):
    """A snapshot without the object that another client creates is no judgement of the loop."""
    [latest] = world.store.objects(RESOURCE_SNAPSHOT)
    contents = [each for each in latest["spec"]["selectedResources"] if each["kind"] != STATEFUL_SET.kind]
    labels = {**latest["metadata"]["labels"], RESOURCE_INDEX: "1"}
    forged = with_spec(with_metadata(latest, labels=labels), selectedResources=contents)
    for each in ("uid", "resourceVersion", "creationTimestamp", "generation"):
        del forged["metadata"][each]
    await world.add({**forged, "metadata": {**forged["metadata"], "name": "shop-1-snapshot"}})
    await delete(world, STATEFUL_SET, "db", "shop")


async def delete_the_bindings(world):
    """A binding that is deleted by hand comes back, with what is pending."""
    await lose_database(world)
    for each in list(world.store.objects(BINDING)):
        await world.store.delete(BINDING, Key(each["metadata"]["name"]))


async def wait_until_the_window_is_over(world):
    """Neither the end of the window nor a clock that is set ahead confirms anything."""
    await lose_database(world)
    world.ahead = timedelta(hours=2)
    world.again()


async def set_the_clock_past_the_expiry(world):
    """A confirmation counts by the clock of the loop."""
    await lose_database(world)
    world.ahead = timedelta(hours=2)
    await confirm(world, hours=1)
    world.again()


async def set_the_clock_back(world):
    """A clock that was set back makes no confirmation last longer than three days."""
    await lose_database(world)
    world.ahead = timedelta(hours=-72)
    await confirm(world, hours=1)
    world.again()


async def forget_the_history(world):
    """A short history does not forget the largest selection of the window."""
    await world.change(PLACEMENT, "shop", revisionHistoryLimit=1)
    for number in range(6):
        await delete(world, CONFIG_MAP, f"c{number}", "shop")
        await world.until(lambda: True)
    await lose_database(world)


ROUTES = [
    reuse_a_digest,
    restore_a_used_digest,
    exempt_the_namespace_afterwards,
    confirm_less_than_what_is_removed,
    forge_the_sources,
    delete_the_snapshots,
    delete_the_snapshots_first,
    forge_a_later_snapshot,
    delete_the_bindings,
    wait_until_the_window_is_over,
    set_the_clock_past_the_expiry,
    set_the_clock_back,
    forget_the_history,
]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.__name__)
async def test_the_database_remains_on_every_member(route):
    async with confirming() as world:
        await route(world)
        await world.until(lambda: pending(world))
        assert await is_everywhere(world)


async def test_what_is_pending_without_a_snapshot_can_be_confirmed():
    async with confirming() as world:
        await delete_the_snapshots(world)
        await world.until(lambda: pending(world))
        await confirm(world)
        await world.until(lambda: not pending(world))
        assert await on_members(world, STATEFUL_SET, "db") == []


@asynccontextmanager
async def leading(world, *runs):
    """Run coroutines, and kill them in the end."""
    tasks = [asyncio.create_task(each) for each in runs]
    try:
        yield world
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def elect_another(world):
    """Let the next leader of a hub remember nothing."""
    world.cache = Cache(world.store)
    settings = LoopSettings(snapshots=NO_DEBOUNCE)
    selectables = Selectables(world.cache, EmbeddedKinds(world.store.kinds), settings.selection)
    world.loop = make_loop(Hub(world.store, world.cache), loop_now, selectables, settings)


@pytest.mark.parametrize("is_pending", [False, True], ids=["before-it-is-pending", "while-it-is-pending"])
async def test_a_leader_that_is_killed_loses_no_pending_removal(is_pending):
    world = World()
    for name in ("shop", LoopSettings().namespace):
        await world.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await world.add(*map(make_member, MEMBERS), make_database(), make_config_map("c0"), make_placement())
    async with leading(world, world.members.run()):
        async with leading(world, world.cache.run(), world.loop.run()):
            await world.until(lambda: is_available(world))
            if is_pending:
                await lose_database(world)
        if not is_pending:
            await delete(world, STATEFUL_SET, "db", "shop")
        elect_another(world)
        async with leading(world, world.cache.run(), world.loop.run()):
            await world.until(lambda: pending(world))
            assert await is_everywhere(world)
    world.store.close()
