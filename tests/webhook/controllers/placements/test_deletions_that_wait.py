"""A placement that is deleted while the agent of a member does not answer stays until its Works are gone.

The whole world runs: store, loop and simulated members.
"""

import pytest

from scorer.api.kinds import MEMBER_CLUSTER, NAMESPACE, NAMESPACED_BINDING, PLACEMENT, RESOURCE_PLACEMENT
from scorer.api.names import FORGET_WORKS, MEMBER_CLUSTER_FINALIZER, REMOVAL_CONFIRMATION
from scorer.api.unstructured.documents import is_deleting, with_metadata, without_finalizer
from scorer.rollout.removal.marks import is_marked_for_removal
from tests.builders.placement import fixed, make_placement, namespace_term
from tests.waiting import until
from tests.webhook.controllers.placements.deleted_bindings import placed
from tests.webhook.controllers.staged_world import pass_time
from tests.webhook.controllers.world import CONFIG_MAP, held_up, make_member, running
from tests.webhook.edits import edit
from webhook.kube.ports import Key

SIMULATE = "harbormaster.dev/simulate"


@pytest.fixture
async def world():
    async with running() as found:
        await found.add(*map(make_member, "ab"), make_placement("web"))
        await found.until(lambda: found.condition("web", "Available").get("status") == "True")
        await annotate(found, MEMBER_CLUSTER, "a", **{SIMULATE: "silent"})
        await found.until(lambda: True)
        yield found


@pytest.fixture
async def shop():
    """A ResourcePlacement in a namespace of its own, on a member whose agent does not answer any more."""
    async with running() as found:
        selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}
        home = namespace_term("shop") | {"selectionScope": "NamespaceOnly"}
        await found.add(make_member("a"), make_placement("home", selectors=[home]))
        await found.until(lambda: found.condition("home", "Available").get("status") == "True")
        placement = make_placement("web", namespace="shop", selectors=[selector])
        await found.add(with_metadata(placement, annotations={REMOVAL_CONFIRMATION: "Off"}))
        await found.until(lambda: found.view("web", "shop")["state"] == "available")
        await annotate(found, MEMBER_CLUSTER, "a", **{SIMULATE: "silent"})
        await found.until(lambda: True)
        yield found


async def annotate(world, kind, name, **annotations):
    await edit(world.store, kind, Key(name), lambda it: with_metadata(it, annotations=annotations))


def is_gone(world):
    return world.cache.get(PLACEMENT, "web") is None


def reported(world):
    return world.condition("web", "Removed").get("message", "")


async def delete(world):
    await world.delete_placement("web")
    await world.until(lambda: len(world.works()) == 1 and is_marked_for_removal(world.works()[0]))
    pass_time(world, minutes=1)
    world.again()
    await world.until(lambda: reported(world))


async def test_it_names_the_cluster_and_the_work_and_goes_when_the_agent_is_back(world):
    await delete(world)
    assert reported(world) == (
        "waiting until its Works are deleted: a: Work web-work: the agent has not removed the content yet"
    )
    await world.until(lambda: world.events("PlacementNotRemoved"))
    assert world.events("PlacementNotRemoved") == ["a: Work web-work: the agent has not removed the content yet"]
    assert world.view("web")["why"] == f"the placement is being deleted; {reported(world)}"
    assert (await placed(world, "b"))["b"] is None
    await annotate(world, MEMBER_CLUSTER, "a", **{SIMULATE: ""})
    await world.until(lambda: is_gone(world) and not world.works())
    assert (await placed(world, "a"))["a"] is None


async def test_a_second_pass_writes_nothing(world):
    await delete(world)
    before = world.store.resource_version
    for _ in range(2):
        pass_time(world, minutes=1)
        world.again()
        await world.until(lambda: True)
    assert world.store.resource_version == before


async def test_it_goes_at_once_when_it_is_to_forget_its_works_and_their_orders_remain(world):
    await delete(world)
    await annotate(world, PLACEMENT, "web", **{FORGET_WORKS: "true"})
    pass_time(world, minutes=1)
    world.again()
    await world.until(lambda: is_gone(world))
    await world.until(lambda: world.events("PlacementWorksLeft"))
    (note,) = world.events("PlacementWorksLeft")
    assert "a: Work web-work" in note
    (work,) = world.works()
    assert is_deleting(work)
    assert is_marked_for_removal(work)
    await annotate(world, MEMBER_CLUSTER, "a", **{SIMULATE: ""})
    await world.until(lambda: not world.works())
    assert (await placed(world, "a"))["a"] is None


async def test_a_member_that_is_unregistered_does_not_hold_it_up_and_keeps_its_content(world):
    before = await placed(world, "a")
    await delete(world)
    async with world.members.store("a") as member:
        await edit(world.store, MEMBER_CLUSTER, Key("a"), _without_finalizer)
        await world.store.delete(MEMBER_CLUSTER, Key("a"))
        await world.until(lambda: is_gone(world))
        assert (await member.get(CONFIG_MAP, Key("rates", "shop")))["metadata"]["uid"] == before["a"]


def _without_finalizer(member):
    return without_finalizer(member, MEMBER_CLUSTER_FINALIZER) or member


async def test_a_namespace_that_is_deleted_does_not_wait_for_the_agent(shop):
    await shop.store.delete(NAMESPACE, Key("shop"))
    await shop.until(lambda: shop.cache.get(NAMESPACE, "shop") is None)
    assert not shop.cache.list(RESOURCE_PLACEMENT)
    assert not shop.cache.list(NAMESPACED_BINDING)
    (work,) = (work for work in shop.works() if work["metadata"]["name"] == "shop.web-work")
    assert is_deleting(work)
    assert is_marked_for_removal(work)
    await shop.until(lambda: shop.events("PlacementWorksLeft"))
    (note,) = shop.events("PlacementWorksLeft")
    assert "a: Work shop.web-work" in note
    await annotate(shop, MEMBER_CLUSTER, "a", **{SIMULATE: ""})
    await shop.until(lambda: "shop.web-work" not in [work["metadata"]["name"] for work in shop.works()])
    assert await shop.on_member("a", CONFIG_MAP, "rates", "shop") is None


async def test_the_works_that_a_deleted_namespace_leaves_are_reported_though_their_placement_is_behind(shop):
    async with held_up(shop.loop.queues["placement"]):
        await shop.store.delete(NAMESPACE, Key("shop"))
        await until(lambda: any(is_marked_for_removal(work) and is_deleting(work) for work in shop.works()))
        await until(lambda: shop.loop.queues["scheduler"].idle and shop.loop.queues["work"].idle)
        assert len(shop.cache.list(NAMESPACED_BINDING)) == 1
    await shop.until(lambda: shop.cache.get(NAMESPACE, "shop") is None)
    await shop.until(lambda: shop.events("PlacementWorksLeft"))


async def test_a_namespace_that_is_deleted_does_not_wait_for_a_binding_that_was_dropped_before(shop):
    """The namespace controller deletes it, before the rollout has removed its content."""
    async with held_up(shop.loop.queues["rollout"]):
        await shop.change(RESOURCE_PLACEMENT, "web", "shop", policy=fixed("b"))
        await until(lambda: [binding["spec"]["state"] for binding in in_shop(shop)] == ["Unscheduled"])
        await shop.store.delete(NAMESPACE, Key("shop"))
        await until(lambda: all(map(is_deleting, in_shop(shop))))
    await shop.until(lambda: shop.cache.get(NAMESPACE, "shop") is None)
    assert not in_shop(shop)


def in_shop(world):
    return world.cache.list(NAMESPACED_BINDING)
