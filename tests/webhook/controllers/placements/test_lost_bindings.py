"""A binding that somebody deletes comes back as it was: what it had is neither changed nor forgotten.

The whole world runs. A controller that is slow, as with much to do, is held up until it is let go on.
"""

import pytest

from scorer.api.kinds import (
    BINDING,
    NAMESPACE,
    NAMESPACED_BINDING,
    NAMESPACED_OVERRIDE,
    NAMESPACED_OVERRIDE_SNAPSHOT,
    PLACEMENT,
    RESOURCE_PLACEMENT,
)
from scorer.api.names import REMOVAL_CONFIRMATION, SCHEDULER_CLEANUP
from scorer.api.unstructured.documents import current_condition, finalizers_of, is_deleting
from tests.builders.placement import make_placement
from tests.waiting import until
from tests.webhook.controllers.override_rules import delete, make_override, rule
from tests.webhook.controllers.placements.deleted_bindings import bindings, delete_bindings, placed
from tests.webhook.controllers.world import CONFIG_MAP, held_up, make_member, pick_n, running
from webhook.kube.ports import AlreadyExistsError, Key

ONE_AT_A_TIME = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}
HELD = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}


@pytest.fixture
async def world():
    async with running() as found:
        await found.add(*map(make_member, "abc"))
        yield found


def is_available(world):
    return world.condition("web", "Available").get("status") == "True"


async def start(world, **spec):
    await world.add(make_placement("web", **spec))
    await world.until(lambda: is_available(world) and len(bindings(world)) == 3)


async def test_its_works_go_with_the_placement_also_when_their_controller_is_behind(world):
    await start(world)
    await delete_bindings(world)
    await world.until(lambda: is_available(world) and len(bindings(world)) == 3)
    async with held_up(world.loop.queues["work"]):
        await world.delete_placement("web")
        await until(lambda: SCHEDULER_CLEANUP not in finalizers_of(world.cache.get(PLACEMENT, "web")))
    await world.until(lambda: not bindings(world) and not world.works())
    assert world.cache.get(PLACEMENT, "web") is None
    assert await placed(world, *"abc") == dict.fromkeys("abc")


def contents(world):
    """Everything that Works have held of the ConfigMap that is overridden, from now on."""
    seen = set()

    def look():
        for work in world.works():
            held = [each for each in work["spec"]["workload"]["manifests"] if each["metadata"]["name"] == "rates"]
            seen.add((work["metadata"]["namespace"], str([each["data"] for each in held])))

    look()
    replace = world.store.replace

    async def replacing(kind, document):
        stored = await replace(kind, document)
        look()
        return stored

    world.store.replace = replacing
    return seen


@pytest.mark.parametrize("its", [rule("own", path="/data/value", op="replace"), delete()], ids=["patch", "delete"])
async def test_the_overrides_that_were_in_force_stay_so(world, its):
    await world.add(make_override("its", its, placement="web"))
    await world.until(lambda: bool(world.cache.list(NAMESPACED_OVERRIDE_SNAPSHOT)))
    await start(world, strategy=ONE_AT_A_TIME)
    seen = contents(world)
    before, works = set(seen), [work["metadata"]["resourceVersion"] for work in world.works()]
    assert "'1'" not in str(before)
    await delete_bindings(world)
    await world.until(lambda: is_available(world) and len(bindings(world)) == 3)
    assert seen == before
    assert [work["metadata"]["resourceVersion"] for work in world.works()] == works


async def test_overrides_that_have_changed_meanwhile_wait_for_the_rollout(world):
    """No cluster may be taken away, so nothing may change before somebody lets it."""
    old, new = (rule(value, path="/data/value", op="replace") for value in ("old", "new"))
    await world.add(make_override("its", old, placement="web"))
    await world.until(lambda: bool(world.cache.list(NAMESPACED_OVERRIDE_SNAPSHOT)))
    await start(world, strategy=HELD)
    await world.change(NAMESPACED_OVERRIDE, "its", "shop", policy={"overrideRules": [new]})
    await world.until(lambda: all("RolloutNotStartedYet" in str(binding["status"]) for binding in bindings(world)))
    seen = contents(world)
    assert "new" not in str(seen)
    before = set(seen)
    await delete_bindings(world)
    await world.until(lambda: all("RolloutNotStartedYet" in str(binding.get("status")) for binding in bindings(world)))
    assert (seen, len(bindings(world))) == (before, 3)
    await world.change(PLACEMENT, "web", strategy=ONE_AT_A_TIME)
    await world.until(lambda: is_available(world) and all("new" in str(work["spec"]) for work in world.works()))


async def test_with_an_external_strategy_it_says_that_it_was_rolled_out(world):
    """No run comes to say so, and without it neither its Works nor its status are looked at."""
    await start(world)
    placement = await world.store.get(PLACEMENT, Key("web"))
    external = {**placement, "spec": {**placement["spec"], "strategy": {"type": "External"}}}
    async with held_up(world.loop.queues["rollout"]):
        await world.store.replace(PLACEMENT, external)
        await delete_bindings_quickly(world)
    await world.until(lambda: len(bindings(world)) == 3 and all(says_available(each) for each in bindings(world)))
    written = world.hub.writes
    world.again()
    await world.until(lambda: True)
    assert world.hub.writes == written


def says_available(binding):
    return all((current_condition(binding, kind) or {}).get("status") == "True" for kind in ("Applied", "Available"))


async def delete_bindings_quickly(world):
    """Delete all bindings, and wait only until each has been made anew."""
    before = uids(world)
    for item in bindings(world):
        await world.store.delete(BINDING, Key(item["metadata"]["name"]))
    await until(lambda: len(uids(world)) == 3 and not uids(world) & before)


def uids(world):
    return {item["metadata"]["uid"] for item in bindings(world)}


NAMESPACE_ONLY = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop", "selectionScope": "NamespaceOnly"}


@pytest.fixture
async def shop():
    """A namespace that is on a member, and a placement in it."""
    async with running() as found:
        await found.add(make_member("a"), make_placement("home", resourceSelectors=[NAMESPACE_ONLY]))
        await found.until(lambda: found.condition("home", "Available").get("status") == "True")
        selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}
        document = {"apiVersion": RESOURCE_PLACEMENT.api_version, "kind": RESOURCE_PLACEMENT.kind}
        metadata = {"name": "web", "namespace": "shop", "annotations": {REMOVAL_CONFIRMATION: "Off"}}
        await found.add({**document, "metadata": metadata, "spec": {"resourceSelectors": [selector]}})
        await found.until(lambda: found.view("web", "shop")["state"] == "available")
        yield found


async def is_gone_from_its_cluster(world):
    await world.until(lambda: world.cache.get(RESOURCE_PLACEMENT, "web", "shop") is None)
    await world.until(lambda: not any(work["metadata"]["name"].startswith("shop.") for work in world.works()))
    return await world.on_member("a", CONFIG_MAP, "rates", "shop") is None


async def test_a_placement_goes_with_its_namespace_after_its_binding_was_made_anew(shop):
    (before,) = shop.cache.list(NAMESPACED_BINDING)
    await shop.store.delete(NAMESPACED_BINDING, Key(before["metadata"]["name"], "shop"))
    await shop.until(
        lambda: (
            [item["metadata"]["uid"] for item in shop.cache.list(NAMESPACED_BINDING)] != [before["metadata"]["uid"]]
            and shop.view("web", "shop")["state"] == "available"
        )
    )
    await shop.store.delete(NAMESPACE, Key("shop"))
    assert await is_gone_from_its_cluster(shop)


async def test_a_placement_goes_with_its_namespace_when_its_binding_is_gone_already(shop):
    """Nothing can be made anew in a namespace that goes."""
    async with held_up(shop.loop.queues["scheduler"]), held_up(shop.loop.queues["work"]):
        (binding,) = shop.cache.list(NAMESPACED_BINDING)
        key = Key(binding["metadata"]["name"], "shop")
        stored = await shop.store.get(NAMESPACED_BINDING, key)
        free = {**stored, "metadata": {**stored["metadata"], "finalizers": []}}
        await shop.store.replace(NAMESPACED_BINDING, free)
        await shop.store.delete(NAMESPACED_BINDING, key)
        await shop.store.delete(NAMESPACE, Key("shop"))
    assert await is_gone_from_its_cluster(shop)


async def test_a_binding_that_waits_for_its_placement_goes_as_soon_as_that_says_so(world):
    """It was deleted by hand; its Works look again by themselves after half a minute only."""
    await start(world)
    async with held_up(world.loop.queues["scheduler"]):
        await world.delete_placement("web")
        for item in bindings(world):
            await world.store.delete(BINDING, Key(item["metadata"]["name"]))
        await until(lambda: all(map(is_deleting, bindings(world))) and world.loop.queues["work"].idle)
    await world.until(lambda: not bindings(world) and not world.works())
    assert await placed(world, *"abc") == dict.fromkeys("abc")


async def test_one_that_another_client_was_faster_to_create_again_counts(world):
    """Another member would score better now: a run that does not know of the binding picks that one instead."""
    await world.add(make_placement("web", pick_n(2)))
    await world.until(lambda: is_available(world) and len(bindings(world)) == 2)
    picked = {item["spec"]["targetCluster"] for item in bindings(world)}
    await world.add(make_member("z", nodes=9))
    create, seen = world.store.create, set()

    async def beaten(kind, document):
        made = await create(kind, document)
        if kind == BINDING:
            seen.add(document["spec"]["targetCluster"])
            raise AlreadyExistsError("another client was faster")
        return made

    world.store.create = beaten
    await delete_bindings(world)
    await world.until(lambda: len(bindings(world)) == 2)
    assert seen == picked
    await world.until(lambda: is_available(world))
    assert {item["spec"]["targetCluster"] for item in bindings(world)} == picked
