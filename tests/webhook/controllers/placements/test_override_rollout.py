"""Overrides on a whole hub in memory: what reaches the members, and what happens when an override changes."""

from scorer.api.kinds import (
    BINDING,
    MEMBER_CLUSTER,
    NAMESPACED_OVERRIDE,
    NAMESPACED_OVERRIDE_SNAPSHOT,
    OVERRIDE,
    OVERRIDE_SNAPSHOT,
    PLACEMENT,
)
from scorer.api.names import IGNORE_RESOURCE_OVERRIDES, PARENT_RESOURCE_SNAPSHOT_NAME
from scorer.api.unstructured.documents import with_metadata
from tests.builders.placement import make_placement
from tests.webhook.controllers.override_rules import delete, make_override, rule
from tests.webhook.controllers.world import CONFIG_MAP, World, make_config_map, make_member, running
from tests.webhook.edits import edit
from webhook.controllers.placements.overrides import OverrideRef
from webhook.kube.ports import Key


async def add_members(world: World) -> None:
    await world.add(make_member("a", zone="west"), make_member("b", zone="east"), make_member("c"))
    await world.until(lambda: all(member.status.properties for member in world.cache.fleet.members))
    await world.add(make_config_map("others"))


async def placed(world: World, cluster: str, name: str = "rates") -> object:
    """Return the data of a ConfigMap on a member, None when it is not there."""
    found = await world.on_member(cluster, CONFIG_MAP, name, "shop")
    return found["data"] if found else None


def is_available(world: World) -> bool:
    return world.view("p")["state"] == "available"


def lists(world: World) -> list[object]:
    """Return the ResourceOverrideSnapshots that the bindings name, by cluster."""
    bindings = sorted(world.cache.list(BINDING), key=lambda binding: binding["spec"]["targetCluster"])
    return [[item["name"] for item in binding["spec"].get("resourceOverrideSnapshots") or ()] for binding in bindings]


async def test_every_cluster_gets_its_own():
    async with running() as world:
        await add_members(world)
        await world.add(
            make_override("cluster-wide", delete("east"), namespace=""),
            make_override(
                "own", rule("${MEMBER-CLUSTER-LABEL-KEY-zone}-${MEMBER-CLUSTER-NAME}", "west", "/data/value", "replace")
            ),
        )
        await world.until(
            lambda: world.cache.list(OVERRIDE_SNAPSHOT) and world.cache.list(NAMESPACED_OVERRIDE_SNAPSHOT)
        )
        await world.add(make_placement("p"))
        await world.until(lambda: is_available(world))
        assert await placed(world, "a") == {"value": "west-a"}
        assert await placed(world, "b") is None
        assert await placed(world, "c") == {"value": "1"}
        assert lists(world) == [["own-0"], [], []]
        assert world.condition("p", "Overridden")["status"] == "True"
        statuses = {
            entry["clusterName"]: entry for entry in world.cache.get(PLACEMENT, "p")["status"]["placementStatuses"]
        }
        assert statuses["b"]["applicableClusterResourceOverrides"] == ["cluster-wide-0"]
        assert statuses["a"]["applicableResourceOverrides"] == [{"name": "own-0", "namespace": "shop"}]


async def test_an_override_that_makes_an_object_too_large_leaves_it_and_the_rest_is_carried():
    """Works are kept in the cache without their manifests, which have to be read to keep the content of the object."""
    large = "x" * 800_000
    async with running() as world:
        await add_members(world)
        await world.add(make_placement("p"))
        await world.until(lambda: is_available(world))
        await world.add(make_override("grown", rule(large, "west", "/data/one"), rule(large, "west", "/data/two")))
        await world.until(lambda: lists(world) == [["grown-0"], [], []] and is_available(world))
        said = world.condition("p", "ObjectsTooLarge")["message"]
        assert said == "larger than the limit of etcd: on a: ConfigMap shop/rates (1.7 MB, keeps its last content)"
        assert world.view("p")["why"] == said
        await edit(world.store, CONFIG_MAP, Key("others", "shop"), lambda found: {**found, "data": {"b": "2"}})
        await world.until(lambda: placed_works(world) == {"p-1-snapshot"} and is_available(world))
        await edit(world.store, CONFIG_MAP, Key("rates", "shop"), lambda found: {**found, "data": {"value": "2"}})
        await world.until(lambda: placed_works(world) == {"p-2-snapshot"} and is_available(world))
        assert [await placed(world, cluster, "others") for cluster in "ab"] == [{"b": "2"}, {"b": "2"}]
        assert [await placed(world, cluster) for cluster in "ab"] == [{"value": "1"}, {"value": "2"}]
        await world.store.delete(NAMESPACED_OVERRIDE, Key("grown", "shop"))
        await world.until(lambda: lists(world) == [[], [], []] and is_available(world))
        assert await placed(world, "a") == {"value": "2"}
        assert world.condition("p", "ObjectsTooLarge") == {}
        assert len(world.events("PlacementObjectsTooLarge")) == 1


def placed_works(world: World) -> set[str]:
    """Return the resource snapshots that the Works are made from."""
    return {work["metadata"]["annotations"][PARENT_RESOURCE_SNAPSHOT_NAME] for work in world.works()}


async def test_an_override_that_names_its_placement_is_rolled_out_at_once_and_taken_back_with_it():
    async with running() as world:
        await add_members(world)
        await world.add(make_placement("p"))
        await world.until(lambda: is_available(world) and len(world.bound("p")) == 3)
        await world.add(make_override("own", rule("new", path="/data/value", op="replace")))
        await world.until(lambda: is_available(world) and lists(world) == [["own-0"]] * 3)
        assert [await placed(world, cluster) for cluster in "abc"] == [{"value": "new"}] * 3
        await world.change(
            NAMESPACED_OVERRIDE,
            "own",
            "shop",
            policy={"overrideRules": [rule("newer", "east", "/data/value", "replace")]},
        )
        await world.until(lambda: is_available(world) and lists(world) == [[], ["own-1"], []])
        assert [await placed(world, cluster) for cluster in "abc"] == [
            {"value": "1"},
            {"value": "newer"},
            {"value": "1"},
        ]
        await world.store.delete(NAMESPACED_OVERRIDE, Key("own", "shop"))
        await world.until(lambda: is_available(world) and lists(world) == [[], [], []])
        assert await placed(world, "b") == {"value": "1"}
        assert world.cache.get(NAMESPACED_OVERRIDE, "own", "shop") is None


async def test_a_placement_that_ignores_overrides_of_namespaces_does_so_at_once_and_until_it_no_longer_does():
    async with running() as world:
        await add_members(world)
        await world.add(make_override("own", rule("new", path="/data/value", op="replace"), placement=""))
        await world.until(lambda: bool(world.cache.list(NAMESPACED_OVERRIDE_SNAPSHOT)))
        await world.add(make_placement("p"))
        await world.until(lambda: is_available(world) and lists(world) == [["own-0"]] * 3)
        for value, named, data in (("true", [], "1"), ("false", ["own-0"], "new")):
            await edit(
                world.store,
                PLACEMENT,
                Key("p"),
                lambda it, value=value: with_metadata(it, annotations={IGNORE_RESOURCE_OVERRIDES: value}),
            )
            await world.until(lambda named=named: is_available(world) and lists(world) == [named] * 3)
            assert [await placed(world, cluster) for cluster in "abc"] == [{"value": data}] * 3


async def test_what_cannot_be_applied_says_why_and_a_better_override_follows_at_once():
    async with running() as world:
        await add_members(world)
        await world.add(make_override("own", rule("${MEMBER-CLUSTER-LABEL-KEY-zone}", path="/data/zone")))
        await world.until(lambda: bool(world.cache.list(NAMESPACED_OVERRIDE_SNAPSHOT)))
        await world.add(make_placement("p"))
        await world.until(lambda: world.condition("p", "Overridden").get("status") == "False")
        statuses = {
            entry["clusterName"]: entry for entry in world.cache.get(PLACEMENT, "p")["status"]["placementStatuses"]
        }
        failed = next(entry for entry in statuses["c"]["conditions"] if entry["type"] == "Overridden")
        assert failed["reason"] == "OverriddenFailed"
        assert "ResourceOverride shop/own (snapshot own-0): spec.policy.overrideRules[0]" in failed["message"]
        assert "cluster c has no label zone" in failed["message"]
        assert await placed(world, "a") == {"value": "1", "zone": "west"}
        assert await placed(world, "c") is None
        good = [rule("${MEMBER-CLUSTER-NAME}", path="/data/zone")]
        await world.change(NAMESPACED_OVERRIDE, "own", "shop", policy={"overrideRules": good})
        await world.until(lambda: is_available(world))
        assert [await placed(world, cluster) for cluster in "abc"] == [{"value": "1", "zone": name} for name in "abc"]


async def test_a_label_that_was_missing_is_taken_up_when_it_comes():
    async with running() as world:
        await add_members(world)
        await world.add(make_override("own", rule("${MEMBER-CLUSTER-LABEL-KEY-zone}", path="/data/zone")))
        await world.add(make_placement("p"))
        await world.until(lambda: world.condition("p", "Overridden").get("status") == "False")
        await edit(world.store, MEMBER_CLUSTER, Key("c"), lambda it: with_metadata(it, labels={"zone": "north"}))
        await world.until(lambda: is_available(world))
        assert await placed(world, "c") == {"value": "1", "zone": "north"}


async def test_everything_deleted_still_becomes_available():
    async with running() as world:
        await add_members(world)
        await world.add(make_override("all", delete(), namespace="", placement=""))
        await world.until(lambda: bool(world.cache.list(OVERRIDE_SNAPSHOT)))
        await world.add(make_placement("p"))
        await world.until(lambda: is_available(world))
        assert [work["spec"]["workload"]["manifests"] for work in world.works()] == [[], [], []]


async def test_a_second_pass_writes_nothing():
    async with running() as world:
        await add_members(world)
        await world.add(make_override("all", rule({"k": "v"}, path="/metadata/labels"), namespace="", placement=""))
        await world.add(make_override("own", rule("new", path="/data/value", op="replace")))
        await world.until(lambda: bool(world.cache.list(OVERRIDE_SNAPSHOT)))
        await world.add(make_placement("p"))
        await world.until(lambda: is_available(world))
        writes = world.hub.writes
        world.again()
        for override in (*world.cache.list(OVERRIDE), *world.cache.list(NAMESPACED_OVERRIDE)):
            world.loop.queues["override"].add(OverrideRef.of(override))
        await world.until(lambda: is_available(world))
        assert world.hub.writes == writes
