"""Objects that leave clusters by an override or an older snapshot: they stay there until the removal is confirmed."""

from scorer.api.kinds import BINDING, NAMESPACED_OVERRIDE, PLACEMENT, STAGED_RUN, WORK
from scorer.api.names import CONFIRM_REMOVAL, CONTENT_REMOVED_AT, OBJECTS_REMOVAL
from scorer.api.unstructured.documents import annotation, with_metadata
from tests.builders.placement import make_placement
from tests.webhook.controllers.placements.confirmed_world import (
    CONFIG_MAP,
    DATABASE,
    MEMBERS,
    STATEFUL_SET,
    bindings,
    confirm,
    confirming,
    dropping,
    in_progress,
    is_available,
    make_database,
    on_members,
    pending,
)
from tests.webhook.controllers.staged_world import make_run, make_stage, staged
from tests.webhook.controllers.world import make_config_map
from tests.webhook.edits import edit
from webhook.kube.ports import Key

ONE_MAP = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "c0"}


async def test_an_override_that_deletes_a_database_waits():
    async with confirming() as world:
        await world.add(dropping("no-db", DATABASE))
        await world.until(lambda: pending(world))
        assert "StatefulSet shop/db" in pending(world)["message"]
        assert await on_members(world, STATEFUL_SET, "db") == list(MEMBERS)
        await edit(world.store, CONFIG_MAP, Key("c0", "shop"), lambda it: {**it, "data": {"hot": "fix"}})
        await world.until(lambda: is_available(world))
        assert (await world.on_member("fish", CONFIG_MAP, "c0", "shop"))["data"] == {"hot": "fix"}
        assert await on_members(world, STATEFUL_SET, "db") == list(MEMBERS)
        before = world.store.resource_version
        world.again()
        await world.until(lambda: True)
        assert world.store.resource_version == before
        await confirm(world)
        await world.until(lambda: not pending(world) and not removals(world))
        assert await on_members(world, STATEFUL_SET, "db") == []


def removals(world, name="shop"):
    """Return the progress of confirmed removals from single clusters."""
    return [text for each in bindings(world, name).values() if (text := annotation(each, OBJECTS_REMOVAL))]


async def end_unavailable_periods(world):
    """Move the times at which clusters have lost content into the past. Nothing is confirmed any more by then."""
    long_ago = {CONTENT_REMOVED_AT: "2026-01-01T00:00:00Z"}
    for each in bindings(world).values():
        if annotation(each, CONTENT_REMOVED_AT):
            key = Key(each["metadata"]["name"])
            await edit(world.store, BINDING, key, lambda it: with_metadata(it, annotations=long_ago))
    await edit(world.store, PLACEMENT, Key("shop"), lambda it: with_metadata(it, annotations={CONFIRM_REMOVAL: None}))
    world.again()


async def test_confirmed_objects_leave_one_cluster_after_the_other():
    strategy = {"rollingUpdate": {"maxUnavailable": 1, "unavailablePeriodSeconds": 3600}}
    async with confirming(placement=make_placement(strategy=strategy)) as world:
        await world.add(dropping("no-db", DATABASE))
        await world.until(lambda: pending(world))
        await confirm(world, hours=1)
        for left in (2, 1, 0):
            await world.until(lambda left=left: not pending(world) and removals(world) == ["Confirmed"] * left)
            remaining = await on_members(world, STATEFUL_SET, "db")
            assert len(remaining) == left
            assert in_progress(world).endswith(", ".join(remaining)) or not remaining
            before = world.store.resource_version
            world.again()
            await world.until(lambda: True)
            assert world.store.resource_version == before
            await end_unavailable_periods(world)
        assert not removals(world)
        assert not in_progress(world)


async def test_without_the_override_nothing_is_pending():
    async with confirming() as world:
        await world.add(dropping("no-db", DATABASE))
        await world.until(lambda: pending(world))
        await world.store.delete(NAMESPACED_OVERRIDE, Key("no-db", "shop"))
        await world.until(lambda: not pending(world))
        assert await on_members(world, STATEFUL_SET, "db") == list(MEMBERS)


class Reads:
    """The store as the loop uses it, and the kinds of what it reads there."""

    def __init__(self, store):
        self.store, self.kinds = store, []

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def get(self, kind, key):
        self.kinds.append(kind)
        return await self.store.get(kind, key)


async def test_works_are_read_only_where_overrides_or_snapshots_may_take_objects_away():
    async with confirming() as world:
        reads = world.hub.store = Reads(world.store)
        await world.add(make_config_map("fresh"))
        await world.until(lambda: "fresh" in str(world.cache.get(PLACEMENT, "shop")["status"]["selectedResources"]))
        await world.store.delete(CONFIG_MAP, Key("c0", "shop"))
        await world.until(lambda: world.events("ContentRemoved") and is_available(world))
        assert await on_members(world, CONFIG_MAP, "c0") == []
        assert WORK not in reads.kinds
        await world.add(dropping("no-c1", {**ONE_MAP, "name": "c1"}))
        await world.until(lambda: WORK in reads.kinds)
        assert await on_members(world, CONFIG_MAP, "c1") == []


async def test_an_override_that_deletes_one_config_map_is_a_warning():
    async with confirming() as world:
        await world.add(dropping("no-c0", ONE_MAP))
        await world.until(lambda: world.events("ContentRemoved"))
        await world.until(lambda: is_available(world))
        assert await on_members(world, CONFIG_MAP, "c0") == []
        assert not pending(world)


async def test_a_run_back_to_a_snapshot_without_the_database_keeps_it():
    everywhere = ("t1", "t2", "v1", "v2", "v3")
    async with staged(make_stage("test"), make_stage("live")) as world:
        await world.add(make_run("first"))
        await world.until(lambda: _succeeded(world, "first"))
        await world.add(make_database())
        await world.add(make_run("second"))
        await world.until(lambda: _succeeded(world, "second"))
        assert await on_members(world, STATEFUL_SET, "db", members=everywhere) == list(everywhere)
        await world.add(make_run("back", index="0"))
        await world.until(lambda: _succeeded(world, "back"))
        assert await on_members(world, STATEFUL_SET, "db", members=everywhere) == list(everywhere)
        assert "StatefulSet shop/db" in pending(world, "p")["message"]
        await confirm(world, name="p")
        await world.until(lambda: not pending(world, "p"))
        assert in_progress(world, "p").startswith("5 clusters still have content whose removal is confirmed: t1, t2, ")
        assert await on_members(world, STATEFUL_SET, "db", members=everywhere) == list(everywhere)
        await world.add(make_run("again", index="0"))
        await world.until(lambda: _succeeded(world, "again"))
        assert await on_members(world, STATEFUL_SET, "db", members=everywhere) == []
        assert not removals(world, "p")
        assert not in_progress(world, "p")


def _succeeded(world, name):
    run = world.cache.get(STAGED_RUN, name) or {}
    conditions = (run.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Succeeded" and each["status"] == "True" for each in conditions)
