"""Objects that leave a placement on a running hub: they stay on the members until the removal is confirmed."""

from datetime import timedelta

from scorer.api.kinds import PLACEMENT, RESOURCE_SNAPSHOT
from scorer.api.meta import parse_time
from scorer.api.names import CARRIED_OUT, CONFIRM_REMOVAL
from scorer.api.unstructured.documents import with_metadata
from scorer.rollout.confirmation.digests import CarriedOut
from tests.builders.placement import fixed, make_placement, namespace_term
from tests.webhook.controllers.placements.confirmed_world import (
    CONFIG_MAP,
    MEMBERS,
    NAMESPACE,
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
from tests.webhook.controllers.staged_world import pass_time
from tests.webhook.controllers.world import make_config_map, make_member
from tests.webhook.edits import edit
from webhook.kube.ports import Key


async def test_a_deleted_database_waits_and_the_rest_rolls_out():
    async with confirming() as world:
        await delete(world, STATEFUL_SET, "db", "shop")
        await world.until(lambda: pending(world))
        condition = pending(world)
        assert (condition["status"], condition["reason"]) == ("True", "ConfirmationRequired")
        assert "StatefulSet shop/db" in condition["message"]
        assert len(world.events("RemovalPending")) == 1
        await edit(world.store, CONFIG_MAP, Key("c0", "shop"), lambda it: {**it, "data": {"hot": "fix"}})

        await world.until(lambda: world.condition("shop", "Available").get("status") == "True")
        for member in MEMBERS:
            found = await world.on_member(member, CONFIG_MAP, "c0", "shop")
            assert found["data"] == {"hot": "fix"}
        assert await on_members(world, STATEFUL_SET, "db") == list(MEMBERS)
        await confirm(world)
        await world.until(lambda: not pending(world))
        assert await on_members(world, STATEFUL_SET, "db") == []
        record = world.cache.get(PLACEMENT, "shop")["metadata"]["annotations"][CARRIED_OUT]
        assert len(record) > 20


async def test_a_deleted_namespace_is_one_item():
    async with confirming() as world:
        await delete(world, NAMESPACE, "shop")
        await world.until(lambda: pending(world))
        assert "Namespace shop and 8 objects in it" in pending(world)["message"]
        assert len(digests(world)) == 1
        assert await on_members(world, STATEFUL_SET, "db") == list(MEMBERS)
        assert await on_members(world, CONFIG_MAP, "c3") == list(MEMBERS)
        await confirm(world)
        await world.until(lambda: not pending(world))
        assert await on_members(world, STATEFUL_SET, "db") == []
        assert await on_members(world, NAMESPACE, "shop", "") == []
        assert pending(world, kind="ResourcesSelected")["reason"] == "NoResourcesSelected"


async def test_pending_ends_when_the_source_is_restored():
    async with confirming() as world:
        await delete(world, STATEFUL_SET, "db", "shop")
        await world.until(lambda: pending(world))
        await world.add(make_database())
        await world.until(lambda: not pending(world))
        assert await on_members(world, STATEFUL_SET, "db") == list(MEMBERS)


async def test_one_config_map_is_removed_with_a_warning():
    async with confirming() as world:
        await delete(world, CONFIG_MAP, "c0", "shop")
        await world.until(lambda: world.events("ContentRemoved"))
        counted = {"reason": "ContentRemoved"}
        assert world.registry.get_sample_value("harbormaster_removals_unconfirmed_total", counted) == 1
        assert not pending(world)
        assert await on_members(world, CONFIG_MAP, "c0") == []


async def test_a_resync_writes_nothing():
    async with confirming() as world:
        await delete(world, STATEFUL_SET, "db", "shop")
        await world.until(lambda: pending(world))
        before = world.store.resource_version
        world.again()
        await world.until(lambda: True)
        assert world.store.resource_version == before


async def test_the_deleted_namespace_of_namespaced_selectors_can_be_confirmed():
    selectors = [
        {**namespace_term("shop"), "selectionScope": "NamespaceWithResourceSelectors"},
        {"group": "", "version": "v1", "kind": "ConfigMap"},
        {"group": "apps", "version": "v1", "kind": "StatefulSet", "name": "db"},
    ]
    async with confirming("fish", placement=make_placement(selectors=selectors)) as world:
        await delete(world, NAMESPACE, "shop")
        await world.until(lambda: pending(world))
        assert world.condition("shop", "Scheduled")["reason"] == "InvalidResourceSelectors"
        assert "Namespace shop and 8 objects in it" in pending(world)["message"]
        assert await on_members(world, STATEFUL_SET, "db", members=["fish"]) == ["fish"]
        before = world.store.resource_version
        world.again()
        await world.until(lambda: True)
        assert world.store.resource_version == before
        await confirm(world)
        await world.until(lambda: not pending(world))
        assert await on_members(world, STATEFUL_SET, "db", members=["fish"]) == []
        assert await on_members(world, NAMESPACE, "shop", "", ["fish"]) == []


async def test_a_digest_counts_again_only_in_a_later_confirmation():
    async with confirming("fish") as world:
        await delete(world, STATEFUL_SET, "db", "shop")
        await world.until(lambda: pending(world))
        (digest,) = digests(world)
        await confirm(world)
        await world.until(lambda: not pending(world))
        applied = world.cache.get(PLACEMENT, "shop")["metadata"]["annotations"][CONFIRM_REMOVAL]
        uid = (await world.store.create(STATEFUL_SET, make_database()))["metadata"]["uid"]
        await world.until(lambda: uid in str(world.cache.list(RESOURCE_SNAPSHOT)))
        await delete(world, STATEFUL_SET, "db", "shop")
        await world.until(lambda: pending(world))
        (fresh,) = digests(world)
        assert fresh != digest, "another object, which no earlier confirmation names"

        def spend(it):
            until = applied.partition("@")[2]
            record = CarriedOut().with_digests([fresh], parse_time(until)).format()
            return with_metadata(it, annotations={CARRIED_OUT: record, CONFIRM_REMOVAL: f"{fresh}@{until}"})

        await edit(world.store, PLACEMENT, Key("shop"), spend)
        await world.until(lambda: "To confirm it again, set an expiry after" in pending(world)["message"])
        assert await on_members(world, STATEFUL_SET, "db", members=["fish"]) == ["fish"]
        await confirm(world, fresh, hours=2)
        await world.until(lambda: not pending(world))
        assert await on_members(world, STATEFUL_SET, "db", members=["fish"]) == []


async def test_a_confirmed_removal_counts_its_clusters_as_unavailable_for_the_period():
    placement = make_placement(strategy={"rollingUpdate": {"maxUnavailable": 1, "unavailablePeriodSeconds": 60}})
    async with confirming(placement=placement) as world:
        await delete(world, STATEFUL_SET, "db", "shop")
        await world.until(lambda: pending(world))
        await confirm(world)
        await world.until(lambda: not pending(world))
        for left in (2, 1, 0):
            assert len(await on_members(world, STATEFUL_SET, "db")) == left
            pass_time(world, minutes=2)
            await world.until(lambda: True)


async def test_other_objects_are_placed_while_one_waits():
    async with confirming() as world:
        await delete(world, STATEFUL_SET, "db", "shop")
        await world.until(lambda: pending(world))
        await world.add(make_config_map("fresh"))
        await world.until(lambda: "fresh" in str(world.cache.get(PLACEMENT, "shop")["status"]["selectedResources"]))
        assert await on_members(world, CONFIG_MAP, "fresh") == list(MEMBERS)
        assert await on_members(world, STATEFUL_SET, "db") == list(MEMBERS)


async def test_a_new_cluster_does_not_get_what_is_pending_until_it_is_restored():
    async with confirming("fish", "lion", placement=make_placement(policy=fixed("fish", "lion"))) as world:
        await world.add(make_member("wolf"))
        await world.until(lambda: world.has_joined("wolf"))
        world.ahead = -timedelta(seconds=5)  # the binding is created later than that by the clock of the hub
        await delete(world, STATEFUL_SET, "db", "shop")
        await world.until(lambda: pending(world))
        await world.change(PLACEMENT, "shop", policy=fixed("fish", "lion", "wolf"))
        await world.until(lambda: len(world.bound("shop")) == 3 and is_available(world))
        assert await on_members(world, CONFIG_MAP, "c0") == list(MEMBERS)
        assert await on_members(world, STATEFUL_SET, "db") == ["fish", "lion"]
        await world.add(make_database())
        await world.until(lambda: not pending(world))
        assert await on_members(world, STATEFUL_SET, "db") == list(MEMBERS)
        world.again()
        before = world.store.resource_version
        await world.until(lambda: True)
        assert world.store.resource_version == before
