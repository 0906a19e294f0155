"""What the loop has not asked for takes nothing off a member: bindings deleted by hand, definitions deleted.

The whole world runs: store, loop and simulated members. An object that was deleted and made again has another uid.
"""

import pytest

from scorer.api.kinds import BINDING, CUSTOM_RESOURCE_DEFINITION, MEMBER_CLUSTER, PLACEMENT, RESOURCE_SNAPSHOT, WORK
from scorer.api.unstructured.documents import is_deleting, with_metadata, with_spec
from scorer.rollout.removal.marks import is_marked_for_removal, with_removal_mark
from tests.builders.placement import fixed, make_placement
from tests.waiting import until
from tests.webhook.controllers.placements.deleted_bindings import bindings, delete_bindings, placed
from tests.webhook.controllers.placements.evictions_of_web import add_eviction
from tests.webhook.controllers.world import CONFIG_MAP, held_up, make_config_map, make_member, pick_n, running
from tests.webhook.edits import edit
from webhook.kube.ports import Key


@pytest.fixture
async def world():
    async with running() as found:
        await found.add(make_member("a", nodes=3), make_member("b", nodes=2), make_member("c", nodes=1))
        await found.until(lambda: all(member.status.properties for member in found.cache.fleet.members))
        yield found


async def start(world, policy=None):
    await world.add(make_placement("web", policy))
    wanted = (policy or {}).get("numberOfClusters", 3)
    await world.until(lambda: world.condition("web", "Available").get("status") == "True")
    assert len(world.bound("web")) == wanted


async def test_a_binding_that_somebody_deletes_comes_back_and_nothing_leaves_the_member(world):
    await start(world)
    before = await placed(world, "a", "b", "c")
    works = {work["metadata"]["uid"] for work in world.works()}
    await delete_bindings(world)
    await world.until(lambda: world.condition("web", "Available").get("status") == "True")
    assert world.bound("web") == ["a", "b", "c"]
    assert await placed(world, "a", "b", "c") == before
    assert {work["metadata"]["uid"] for work in world.works()} == works


async def test_a_lost_binding_is_made_anew_where_it_was_though_another_cluster_would_now_be_picked(world):
    await start(world, pick_n(1))
    assert world.bound("web") == ["a"]
    before = await placed(world, "a")
    await world.add(make_member("z", nodes=9))
    await delete_bindings(world)
    await world.until(lambda: world.condition("web", "Available").get("status") == "True")
    assert world.bound("web") == ["a"]
    assert await placed(world, "a") == before


async def test_a_cluster_that_a_lost_binding_was_for_can_still_be_unselected(world):
    await start(world)
    await delete_bindings(world)
    await world.until(lambda: len(world.bound("web")) == 3)
    policy = {"placementType": "PickFixed", "clusterNames": ["b"]}
    await world.change(PLACEMENT, "web", policy=policy)
    await world.until(lambda: len(world.works()) == 1)
    left = await placed(world, "a", "b", "c")
    assert {cluster for cluster, uid in left.items() if uid} == {"b"}


async def test_a_placement_that_somebody_deletes_goes_with_what_it_placed_also_when_its_bindings_were_deleted(world):
    """A deliberate way: nothing about it changes."""
    await start(world)
    for item in bindings(world):
        await world.store.delete(BINDING, Key(item["metadata"]["name"]))
    await world.delete_placement("web")
    await world.until(lambda: world.cache.get(PLACEMENT, "web") is None and not bindings(world) and not world.works())
    assert await placed(world, "a", "b", "c") == dict.fromkeys("abc")


async def test_a_placement_that_goes_with_its_definition_leaves_everything_where_it_is(world):
    await start(world)
    before = await placed(world, "a", "b", "c")
    definition = {
        "apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITION.kind,
        "metadata": {"name": PLACEMENT.resource, "finalizers": ["customresourcecleanup.apiextensions.k8s.io"]},
        "spec": {},
    }
    await world.add(definition)
    await world.store.delete(CUSTOM_RESOURCE_DEFINITION, Key(PLACEMENT.resource))
    await world.store.delete(PLACEMENT, Key("web"))
    await world.until(lambda: world.cache.get(PLACEMENT, "web") is None)
    assert len(bindings(world)) == 3
    assert await placed(world, "a", "b", "c") == before
    stored = await world.store.get(CUSTOM_RESOURCE_DEFINITION, Key(PLACEMENT.resource))
    await world.store.replace(
        CUSTOM_RESOURCE_DEFINITION, {**stored, "metadata": {**stored["metadata"], "finalizers": []}}
    )
    await world.add(make_placement("web"))
    await world.until(lambda: world.condition("web", "Available").get("status") == "True")
    assert await placed(world, "a", "b", "c") == before
    assert len(list(world.store.objects(WORK))) == 3


async def test_works_that_somebody_deletes_come_back_and_nothing_moves_on_the_members(world):
    await start(world)
    before = [await world.on_member(cluster, CONFIG_MAP, "rates", "shop") for cluster in "abc"]
    known = {work["metadata"]["uid"] for work in world.works()}
    for work in world.works():
        await world.store.delete(WORK, Key(work["metadata"]["name"], work["metadata"]["namespace"]))
    await world.until(lambda: not known & {work["metadata"]["uid"] for work in world.works()})
    await world.until(lambda: world.condition("web", "Available").get("status") == "True")
    assert [await world.on_member(cluster, CONFIG_MAP, "rates", "shop") for cluster in "abc"] == before


async def test_members_that_go_with_their_definition_keep_what_they_have(world):
    await start(world)
    before = await placed(world, "a", "b", "c")
    async with world.members.store("a") as one, world.members.store("b") as two, world.members.store("c") as three:
        for cluster in "abc":
            await world.store.delete(MEMBER_CLUSTER, Key(cluster))
        await world.until(lambda: not world.cache.list(MEMBER_CLUSTER) and not world.works())
        found = [await store.get(CONFIG_MAP, Key("rates", "shop")) for store in (one, two, three)]
    assert [live["metadata"]["uid"] for live in found] == list(before.values())


async def test_a_word_of_an_eviction_that_was_withdrawn_is_taken_back(world):
    """A loop that ends between the word on a binding and its deletion leaves a binding that anybody could send off."""
    await start(world, pick_n(1))
    before = await placed(world, "a")
    (binding,) = bindings(world)
    await world.store.replace(BINDING, with_removal_mark(binding))
    await world.until(lambda: not any(map(is_marked_for_removal, bindings(world))))
    await delete_bindings(world)
    await world.until(lambda: world.condition("web", "Available").get("status") == "True")
    assert await placed(world, "a") == before


async def unschedule(world, cluster):
    """Set the binding of a cluster to Unscheduled as ``kubectl patch`` does."""
    (binding,) = (item for item in bindings(world) if item["spec"]["targetCluster"] == cluster)
    await world.store.replace(BINDING, with_spec(binding, state="Unscheduled"))


@pytest.mark.parametrize("strategy", [None, {"type": "External"}], ids=["rolling", "external"])
async def test_a_binding_that_somebody_unschedules_is_restored_and_nothing_moves_on_the_member(world, strategy):
    await start(world)
    if strategy:
        await world.change(PLACEMENT, "web", strategy=strategy)
        await world.until(lambda: True)
    before, works = await placed(world, "a", "b", "c"), {work["metadata"]["uid"] for work in world.works()}
    known = {item["metadata"]["name"]: item["spec"] for item in bindings(world)}
    await unschedule(world, "b")
    await world.until(lambda: world.bound("web") == ["a", "b", "c"])
    assert {item["metadata"]["name"]: item["spec"] for item in bindings(world)} == known
    assert await placed(world, "a", "b", "c") == before
    assert {work["metadata"]["uid"] for work in world.works()} == works
    await world.until(lambda: len(world.events("BindingsRestored")) == 1)
    await world.until(lambda: world.condition("web", "Available").get("status") == "True")


async def test_a_cluster_that_is_no_longer_picked_is_dropped_after_its_binding_was_restored(world):
    await start(world)
    async with held_up(world.loop.queues["scheduler"]):
        await unschedule(world, "b")
        await world.change(PLACEMENT, "web", policy=fixed("a"))
        await until(lambda: world.loop.queues["rollout"].idle and world.loop.queues["placement"].idle)
        assert len(world.works()) == 3
    await world.until(lambda: len(world.works()) == 1)
    left = await placed(world, "a", "b", "c")
    assert {cluster for cluster, uid in left.items() if uid} == {"a"}


async def test_a_binding_that_somebody_unschedules_and_deletes_counts_as_lost(world):
    await start(world)
    before = await placed(world, "b")
    async with held_up(world.loop.queues["scheduler"]), held_up(world.loop.queues["rollout"]):
        await unschedule(world, "b")
        (name,) = (item["metadata"]["name"] for item in bindings(world) if item["spec"]["targetCluster"] == "b")
        await world.store.delete(BINDING, Key(name))
    await world.until(lambda: world.bound("web") == ["a", "b", "c"])
    assert await placed(world, "b") == before


async def test_a_policy_that_changes_no_cluster_leaves_the_reports_of_an_external_rollout_as_they_are(world):
    """The scheduler writes each binding; no update run does so afterwards."""
    await start(world)
    await world.change(PLACEMENT, "web", strategy={"type": "External"})
    await world.until(lambda: True)
    await world.change(PLACEMENT, "web", policy=fixed("a", "b", "c"))
    await world.until(lambda: world.condition("web", "Available").get("status") == "True")
    assert world.bound("web") == ["a", "b", "c"]


async def test_a_binding_that_is_unscheduled_while_it_is_deleted_does_not_hold_up_the_others(world):
    """Its agent may be away for days."""
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}}
    await world.add(make_placement("web", strategy=rolling))
    await world.until(lambda: world.condition("web", "Available").get("status") == "True")
    away = {"harbormaster.dev/simulate": "silent"}
    await edit(world.store, MEMBER_CLUSTER, Key("a"), lambda it: with_metadata(it, annotations=away))
    await world.change(MEMBER_CLUSTER, "a", taints=[{"key": "moving", "effect": "NoSchedule"}])
    await world.until(lambda: True)
    await add_eviction(world.store, "a")
    await world.until(lambda: any(map(is_deleting, bindings(world))))
    await unschedule(world, "a")
    await world.until(lambda: True)
    stored = await world.store.get(CONFIG_MAP, Key("rates", "shop"))
    await world.store.replace(CONFIG_MAP, {**stored, "data": {"value": "new"}})
    await world.until(lambda: True)
    found = [await world.on_member(cluster, CONFIG_MAP, "rates", "shop") for cluster in "bc"]
    assert [each["data"]["value"] for each in found] == ["new", "new"]


async def place_page(world):
    """Place a page, and let it grow beyond what etcd takes."""
    await world.add(make_config_map("page", text="small"))
    await start(world)
    stored = await world.store.get(CONFIG_MAP, Key("page", "shop"))
    await world.store.replace(CONFIG_MAP, {**stored, "data": {"text": "<" * 300_000}})
    await world.until(lambda: "keeps its last content" in reported_sizes(world))


def reported_sizes(world):
    return world.condition("web", "ObjectsTooLarge").get("message", "")


async def lose_snapshots(world):
    for snapshot in world.cache.list(RESOURCE_SNAPSHOT):
        await world.store.delete(RESOURCE_SNAPSHOT, Key(snapshot["metadata"]["name"]))


async def test_an_object_too_large_for_etcd_survives_the_loss_of_all_snapshots_and_works(world):
    """The hub has none of its content then; the members do."""
    await place_page(world)
    async with held_up(world.loop.queues["placement"]), held_up(world.loop.queues["work"]):
        await lose_snapshots(world)
        for work in world.works():
            await world.store.delete(WORK, Key(work["metadata"]["name"], work["metadata"]["namespace"]))
        await until(lambda: not world.works())
    await world.until(lambda: "left out" in reported_sizes(world) and len(world.works()) == 3)
    found = [await world.on_member(cluster, CONFIG_MAP, "page", "shop") for cluster in "abc"]
    assert [each and each["data"]["text"] for each in found] == ["small"] * 3
    await world.store.delete(CONFIG_MAP, Key("page", "shop"))
    await world.until(lambda: not reported_sizes(world))
    assert [await world.on_member(cluster, CONFIG_MAP, "page", "shop") for cluster in "abc"] == [None] * 3


async def test_an_object_too_large_for_etcd_survives_the_loss_of_all_snapshots_in_works_that_are_emptied(world):
    await place_page(world)
    await lose_snapshots(world)
    await world.until(lambda: "left out" in reported_sizes(world))
    for work in world.works():
        await world.store.replace(WORK, with_spec(work, workload={"manifests": []}))
    await world.until(lambda: all(work["spec"]["workload"]["manifests"] for work in world.works()))
    found = [await world.on_member(cluster, CONFIG_MAP, "page", "shop") for cluster in "abc"]
    assert [each and each["data"]["text"] for each in found] == ["small"] * 3
