"""The loop on a whole hub in memory: what placements come to, and that a second pass writes nothing."""

import pytest

from scorer.api.kinds import (
    BINDING,
    MEMBER_CLUSTER,
    NAMESPACE,
    PLACEMENT,
    POLICY_SNAPSHOT,
    RESOURCE_PLACEMENT,
    RESOURCE_SNAPSHOT,
    WORK,
)
from tests.builders.placement import make_placement
from tests.webhook.controllers.world import CONFIG_MAP, DEPLOYMENT, World, make_config_map, make_member, pick_n, running
from webhook.kube.ports import Key


async def add_members(world: World, count: int = 4) -> None:
    """Add clusters a, b, c, … with 1, 2, 3, … nodes, and wait until all of them report."""
    names = "abcdefghij"[:count]
    await world.add(*(make_member(name, nodes=number) for number, name in enumerate(names, start=1)))
    await world.until(lambda: all(member.status.properties for member in world.cache.fleet.members))


def is_available(world: World, name: str) -> bool:
    return world.view(name)["state"] == "available"


async def test_a_placement_reaches_the_best_clusters_and_becomes_available():
    async with running() as world:
        await add_members(world)
        await world.add(make_placement("p", pick_n(2)))
        await world.until(lambda: is_available(world, "p"))
        assert world.bound("p") == ["c", "d"]
        assert world.view("p")["available"] == 2
        rates = await world.on_member("d", CONFIG_MAP, "rates", "shop")
        assert rates is not None
        assert rates["data"] == {"value": "1"}
        assert await world.on_member("a", CONFIG_MAP, "rates", "shop") is None


async def test_conditions_follow_one_another_and_end_with_available():
    async with running() as world:
        await add_members(world)
        await world.add(make_placement("p", pick_n(2)))
        await world.until(lambda: is_available(world, "p"))
        status = (await world.store.get(PLACEMENT, Key("p")))["status"]
        words = ["Scheduled", "RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available"]
        assert [entry["type"] for entry in status["conditions"]] == [
            f"ClusterResourcePlacement{word}" for word in words
        ]
        assert {entry["status"] for entry in status["conditions"]} == {"True"}
        assert status["observedResourceIndex"] == "0"
        assert [item["kind"] for item in status["selectedResources"]] == ["Namespace", "ConfigMap"]
        assert [entry["clusterName"] for entry in status["placementStatuses"]] == ["d", "c"]


async def test_a_second_pass_over_everything_writes_nothing():
    async with running() as world:
        await add_members(world)
        await world.add(make_placement("n", pick_n(2)), make_placement("all", home="dock"))
        await world.add(make_placement("short", pick_n(9), home="quay"))
        states = {"n": "available", "all": "available", "short": "short"}
        await world.until(lambda: {name: world.view(name)["state"] for name in states} == states)
        before = world.hub.writes, world.store.resource_version
        world.again()
        await world.until(lambda: True)
        assert (world.hub.writes, world.store.resource_version) == before


async def test_scaling_moves_only_the_difference():
    async with running() as world:
        await add_members(world)
        await world.add(make_placement("p", pick_n(1)))
        await world.until(lambda: is_available(world, "p"))
        await world.change(PLACEMENT, "p", policy=pick_n(3))
        await world.until(lambda: world.view("p")["available"] == 3)
        assert world.bound("p") == ["b", "c", "d"]
        await world.change(PLACEMENT, "p", policy=pick_n(2))
        await world.until(lambda: is_available(world, "p") and len(world.works()) == 2)
        assert world.bound("p") == ["c", "d"]
        assert await world.on_member("b", CONFIG_MAP, "rates", "shop") is None
        assert len(world.cache.list(POLICY_SNAPSHOT)) == 1


async def test_changed_content_rolls_out_within_the_limits():
    async with running() as world:
        await add_members(world, 6)
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}
        await world.add(make_placement("p", strategy=strategy))
        await world.until(lambda: is_available(world, "p"))
        rolling = []

        def watch(_):
            bindings = world.cache.list(BINDING)
            rolling.append(sum(not _available(binding) for binding in bindings))

        world.cache.subscribe(BINDING, watch)
        rolling.clear()
        stored = await world.store.get(CONFIG_MAP, Key("rates", "shop"))
        await world.store.replace(CONFIG_MAP, {**stored, "data": {"value": "2"}})
        await world.until(lambda: is_available(world, "p") and len(world.cache.list(RESOURCE_SNAPSHOT)) == 2)
        assert max(rolling) == 1
        for name in "abcdef":
            copy = await world.on_member(name, CONFIG_MAP, "rates", "shop")
            assert copy is not None
            assert copy["data"] == {"value": "2"}


def _available(binding):
    generation = binding["metadata"]["generation"]
    conditions = (binding.get("status") or {}).get("conditions") or ()
    return any(
        entry["type"] == "Available" and entry["status"] == "True" and entry["observedGeneration"] == generation
        for entry in conditions
    )


async def test_a_broken_release_stops_and_a_fixed_one_replaces_it():
    """The limit keeps the damage to maxUnavailable clusters; failed ones take the fix at once (rollout.md R5)."""

    def deployment(annotation: str, image: str):
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "annotations": {"harbormaster.dev/simulate": annotation}},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": image}]},
                },
            },
        }

    async with running() as world:
        await add_members(world, 4)
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}
        await world.add(deployment("ready-after=0s", "web:1"), make_placement("p", strategy=strategy))
        await world.until(lambda: is_available(world, "p"))
        stored = await world.store.get(DEPLOYMENT, Key("web", "shop"))
        await world.store.replace(DEPLOYMENT, {**stored, **_content(deployment("never-ready", "web:2"), stored)})
        await world.until(lambda: world.view("p")["available"] == 0 or _on_image(world, "web:2") == 1)
        await world.until(lambda: _on_image(world, "web:2") == 1)
        stored = await world.store.get(DEPLOYMENT, Key("web", "shop"))
        await world.store.replace(DEPLOYMENT, {**stored, **_content(deployment("ready-after=0s", "web:3"), stored)})
        await world.until(lambda: is_available(world, "p") and _on_image(world, "web:3") == 4)


def _content(made, stored):
    metadata = {**stored["metadata"], "annotations": made["metadata"]["annotations"]}
    return {"metadata": metadata, "spec": made["spec"]}


def _on_image(world: World, image: str) -> int:
    return sum(image in str(work["spec"]["workload"]["manifests"]) for work in world.works())


async def test_a_leaving_cluster_is_replaced():
    async with running() as world:
        await add_members(world)
        await world.add(make_placement("p", pick_n(2)))
        await world.until(lambda: is_available(world, "p"))
        await world.store.delete(MEMBER_CLUSTER, Key("d"))
        await world.until(lambda: world.bound("p") == ["b", "c"] and is_available(world, "p"))


async def test_a_new_cluster_joins_placements_that_take_all():
    async with running() as world:
        await add_members(world, 2)
        await world.add(make_placement("p"))
        await world.until(lambda: is_available(world, "p"))
        await world.add(make_member("z"))
        await world.until(lambda: world.view("p")["available"] == 3)
        assert world.bound("p") == ["a", "b", "z"]


async def test_an_invalid_policy_that_slipped_past_admission_moves_nothing():
    async with running() as world:
        await add_members(world)
        await world.add(make_placement("p", pick_n(2)))
        await world.until(lambda: is_available(world, "p"))
        broken = pick_n(3)
        preferred = broken["affinity"]["clusterAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        preferred[0]["preference"]["propertySorter"]["sortOrder"] = "Sideways"
        await world.change(PLACEMENT, "p", policy=broken)
        await world.until(lambda: world.condition("p", "Scheduled").get("reason") == "SchedulingPolicyInvalid")
        assert "Sideways" in world.condition("p", "Scheduled")["message"]
        assert world.bound("p") == ["c", "d"]
        assert world.view("p")["state"] == "invalid"


async def test_an_unreadable_member_stops_nobody_else():
    async with running() as world:
        await add_members(world)
        await world.change(MEMBER_CLUSTER, "a", identity=7)
        await world.add(make_placement("p", pick_n(2)))
        await world.until(lambda: is_available(world, "p"))
        assert world.bound("p") == ["c", "d"]


async def test_a_selector_mistake_is_reported_and_writes_no_snapshot():
    async with running() as world:
        await add_members(world)
        selector = {"group": "nowhere.example.com", "version": "v1", "kind": "Boat"}
        await world.add(make_placement("p", resourceSelectors=[selector]))
        await world.until(lambda: world.condition("p", "Scheduled").get("reason") == "InvalidResourceSelectors")
        assert world.cache.list(RESOURCE_SNAPSHOT) == []


async def test_deleting_a_placement_leaves_nothing_behind():
    async with running() as world:
        await add_members(world)
        await world.add(make_placement("p", pick_n(2)))
        await world.until(lambda: is_available(world, "p"))
        await world.delete_placement("p")
        await world.until(lambda: not world.works() and world.cache.get(PLACEMENT, "p") is None)
        for kind in (BINDING, POLICY_SNAPSHOT, RESOURCE_SNAPSHOT):
            assert world.cache.list(kind) == []
        assert await world.on_member("d", NAMESPACE, "shop") is None


async def test_a_placement_that_finds_too_few_clusters_says_how_many():
    async with running() as world:
        await add_members(world, 2)
        await world.add(make_placement("p", pick_n(5)))
        await world.until(lambda: world.view("p")["state"] == "short")
        assert world.condition("p", "Scheduled")["message"].startswith("found 2 of 5 clusters needed")
        entries = (await world.store.get(PLACEMENT, Key("p")))["status"]["placementStatuses"]
        assert [entry.get("clusterName", "") for entry in entries] == ["b", "a"]


async def test_an_external_strategy_schedules_and_waits():
    async with running() as world:
        await add_members(world)
        await world.add(make_placement("p", pick_n(2), strategy={"type": "External"}))
        await world.until(lambda: world.view("p")["state"] == "external")
        assert world.bound("p") == ["c", "d"]
        assert world.works() == []


async def test_a_namespaced_placement_places_objects_of_its_namespace():
    async with running() as world:
        await add_members(world)
        await world.add(make_placement("home", resourceSelectors=_namespace_only()))
        await world.until(lambda: is_available(world, "home"))
        selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}
        placement = {
            "apiVersion": RESOURCE_PLACEMENT.api_version,
            "kind": "ResourcePlacement",
            "metadata": {"name": "p", "namespace": "shop"},
            "spec": {"resourceSelectors": [selector], "policy": pick_n(1)},
        }
        await world.add(placement)
        await world.until(lambda: world.view("p", "shop")["state"] == "available")
        assert await world.on_member("d", CONFIG_MAP, "rates", "shop") is not None
        assert await world.on_member("c", CONFIG_MAP, "rates", "shop") is None


def _namespace_only():
    return [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop", "selectionScope": "NamespaceOnly"}]


async def test_a_new_object_in_a_selected_namespace_is_placed():
    async with running() as world:
        await add_members(world)
        await world.add(make_placement("p", pick_n(1)))
        await world.until(lambda: is_available(world, "p"))
        await world.add(make_config_map("later", x="y"))
        await world.until(lambda: is_available(world, "p") and len(world.cache.list(RESOURCE_SNAPSHOT)) == 2)
        assert await world.on_member("d", CONFIG_MAP, "later", "shop") is not None


@pytest.mark.parametrize("kind", [BINDING, POLICY_SNAPSHOT, RESOURCE_SNAPSHOT], ids=str)
async def test_objects_deleted_by_hand_are_made_anew(kind):
    async with running() as world:
        await add_members(world)
        await world.add(make_placement("p", pick_n(2)))
        await world.until(lambda: is_available(world, "p"))
        for document in world.cache.list(kind):
            await world.store.delete(kind, Key(document["metadata"]["name"]))
        await world.until(lambda: is_available(world, "p") and len(world.works()) == 2)
        assert world.bound("p") == ["c", "d"]
        assert len({work["metadata"]["namespace"] for work in world.works()}) == 2


async def test_a_work_that_is_edited_by_hand_is_put_right():
    async with running() as world:
        await add_members(world, 1)
        await world.add(make_placement("p"))
        await world.until(lambda: is_available(world, "p"))
        key = Key("p-work", "fleet-member-a")
        work = await world.store.get(WORK, key)
        manifests = [*work["spec"]["workload"]["manifests"][:1], make_config_map("rates", value="edited")]
        await world.store.replace(WORK, {**work, "spec": {**work["spec"], "workload": {"manifests": manifests}}})
        await world.until(lambda: is_available(world, "p"))
        assert (await world.store.get(WORK, key))["spec"] == work["spec"]
        copy = await world.on_member("a", CONFIG_MAP, "rates", "shop")
        assert copy is not None
        assert copy["data"] == {"value": "1"}


async def test_a_work_that_lost_its_labels_is_taken_over():
    async with running() as world:
        await add_members(world, 1)
        await world.add(make_placement("p"))
        await world.until(lambda: is_available(world, "p"))
        key = Key("p-work", "fleet-member-a")
        work = await world.store.get(WORK, key)
        await world.store.replace(WORK, {**work, "metadata": {**work["metadata"], "labels": {}}})
        await world.until(lambda: world.cache.get(WORK, *key)["metadata"].get("labels") == work["metadata"]["labels"])
