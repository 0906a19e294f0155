"""Content that remains on members when the namespace of its placement is deleted unconfirmed."""

import pytest

from scorer.api.family import placement_ref
from scorer.api.kinds import MEMBER_CLUSTER, NAMESPACE, RESOURCE_PLACEMENT
from scorer.api.names import ORPHANED_CONTENT
from scorer.api.unstructured.documents import with_metadata
from tests.builders.placement import make_placement, namespace_term
from tests.virtual_time import loop_now
from tests.waiting import until
from tests.webhook.controllers.placements.confirmed_world import CONFIG_MAP, MEMBERS, confirming, delete, on_members
from tests.webhook.controllers.world import make_config_map
from tests.webhook.edits import edit
from webhook.answers.advisor import HubAdvisor
from webhook.kube.ports import Key

HOME = make_placement(selectors=[{**namespace_term("shop"), "selectionScope": "NamespaceOnly"}])
TERMS = [{"group": "", "version": "v1", "kind": "ConfigMap", "name": f"c{number}"} for number in range(4)]
WEB = placement_ref("web", "shop")


def make_web(name="web", **apply_strategy):
    strategy = {"applyStrategy": apply_strategy} if apply_strategy else None
    return make_placement(name, namespace="shop", selectors=TERMS, strategy=strategy)


def listed(world):
    advisor = HubAdvisor(world.cache, loop_now)
    return {item["placement"]: item["removals"] for item in advisor.removals(advisor.pending_removal_refs())}


async def orphan(world, *placements):
    """Delete the namespace of placements, and wait until they are released."""
    await world.add(*placements)
    await world.until(lambda: world.view(placements[0]["metadata"]["name"], "shop")["state"] == "available")
    await delete(world, NAMESPACE, "shop")
    await world.until(lambda: not world.cache.list(RESOURCE_PLACEMENT, "shop"))


def stop_before(world, kind, number):
    """Let the loop end before it writes an object of a kind, after a number of such writes."""
    store, left = world.mortal, [number]

    async def count(_verb, written, _subject):
        if written == kind:
            left[0] -= 1
            if left[0] < 0:
                store.writes_left = 0

    store.before_write = count


async def create_again(world, web):
    await world.until(lambda: world.cache.get(NAMESPACE, "shop") is None)
    await world.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    await world.add(*(make_config_map(f"c{number}") for number in range(4)), web)


async def test_orphaned_content_is_listed_until_its_placement_is_created_again():
    async with confirming(placement=HOME) as world:
        await orphan(world, make_web())
        [entry] = listed(world)["rp/shop/web"]
        assert (entry["kind"], entry["digest"], entry["objects"]) == ("Orphaned", "", 4)
        assert (entry["clusters"], entry["clusterCount"]) == (list(MEMBERS), 3)
        assert entry["since"] is not None
        await world.restart()
        await world.until(lambda: "rp/shop/web" in listed(world))
        await create_again(world, make_web())
        await world.until(lambda: world.view("web", "shop")["state"] == "available")
        assert "rp/shop/web" not in listed(world)
        assert await on_members(world, CONFIG_MAP, "c0") == list(MEMBERS)


async def test_it_is_listed_while_a_placement_does_not_take_it_over():
    async with confirming(placement=HOME) as world:
        await orphan(world, make_web())
        await create_again(world, make_web(whenToTakeOver="Never"))
        await world.until(lambda: world.view("web", "shop")["clusters"])
        assert "rp/shop/web" in listed(world)


async def test_it_is_not_listed_for_a_member_whose_record_was_removed():
    async with confirming(placement=HOME) as world:
        await orphan(world, make_web())
        nothing = {ORPHANED_CONTENT: None}
        for name in MEMBERS[1:]:
            await edit(world.store, MEMBER_CLUSTER, Key(name), lambda it: with_metadata(it, annotations=nothing))
        await world.until(lambda: listed(world)["rp/shop/web"][0]["clusters"] == [MEMBERS[0]])


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_a_loop_that_stops_between_two_records_completes_them(number):
    async with confirming(placement=HOME) as world:
        await world.add(make_web())
        await world.until(lambda: world.view("web", "shop")["state"] == "available")
        stop_before(world, MEMBER_CLUSTER, number)
        await delete(world, NAMESPACE, "shop")
        await until(lambda: world.mortal.dead)
        await world.restart()
        await world.until(lambda: not world.cache.list(RESOURCE_PLACEMENT, "shop"))
        assert listed(world)["rp/shop/web"][0]["clusters"] == list(MEMBERS)


async def test_placements_that_end_together_are_all_recorded():
    async with confirming(placement=HOME) as world:
        others = [make_placement(f"p{number}", namespace="shop", selectors=[term]) for number, term in enumerate(TERMS)]
        await orphan(world, *others)
        assert {f"rp/shop/p{number}" for number in range(4)} <= listed(world).keys()
