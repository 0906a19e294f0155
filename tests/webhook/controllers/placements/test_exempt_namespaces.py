"""Namespaces of ResourcePlacements that are labelled exempt on a running hub."""

from datetime import timedelta

import pytest

from scorer.api.kinds import NAMESPACE, NAMESPACED_RESOURCE_SNAPSHOT, RESOURCE_PLACEMENT
from scorer.api.names import EXEMPT_SINCE
from scorer.api.unstructured.documents import annotation, with_metadata, with_spec
from scorer.rollout.confirmation.exemption import ALWAYS
from tests.builders.placement import make_placement, namespace_term
from tests.webhook.controllers.placements.confirmed_world import CONFIG_MAP, confirming, on_members
from tests.webhook.edits import edit
from webhook.kube.ports import Key

EVERYWHERE = ["fish", "lion", "wolf"]
HOME = make_placement(selectors=[{**namespace_term("shop"), "selectionScope": "NamespaceOnly"}])
TERMS = [{"group": "", "version": "v1", "kind": "ConfigMap", "name": f"c{number}"} for number in range(4)]


async def label(world, value="true"):
    labels = {"harbormaster.dev/ephemeral": value}
    await edit(world.store, NAMESPACE, Key("shop"), lambda it: with_metadata(it, labels=labels))
    await world.until(lambda: True)


async def place(world, **spec):
    await world.add(make_placement("web", namespace="shop", selectors=TERMS, **spec))
    await world.until(lambda: world.view("web", "shop")["state"] == "available")


def since(world):
    """Return since when the namespace is exempt, as the placement records it."""
    return annotation(world.cache.get(RESOURCE_PLACEMENT, "web", "shop"), EXEMPT_SINCE).partition(" ")[2]


async def at_first(world):
    """A preview namespace has the label before anything is placed."""
    await label(world)
    await place(world)
    assert since(world) == ALWAYS


async def for_the_whole_window(world):
    await place(world)
    await label(world)
    world.ahead = timedelta(minutes=61)


async def shortly_before(world):
    await place(world)
    await label(world)


async def off_and_on(world):
    """The label counts since it was set last."""
    await at_first(world)
    await label(world, "false")
    assert since(world) == ""
    world.ahead = timedelta(hours=2)
    await label(world)


async def in_a_copy(world):
    """Applied with the record of another one, a placement is not exempt for longer."""
    await shortly_before(world)
    dated = {EXEMPT_SINCE: f"another {ALWAYS}"}
    await edit(world.store, RESOURCE_PLACEMENT, Key("web", "shop"), lambda it: with_metadata(it, annotations=dated))


async def without_snapshots(world):
    """A placement whose snapshots were deleted by another client has placed content before."""
    await place(world)
    for each in world.cache.list(NAMESPACED_RESOURCE_SNAPSHOT, "shop"):
        await world.store.delete(NAMESPACED_RESOURCE_SNAPSHOT, Key(each["metadata"]["name"], "shop"))
    await label(world)
    assert since(world) not in ("", ALWAYS)


async def under_an_external_strategy(world):
    await place(world)
    external = {"type": "External"}
    await edit(world.store, RESOURCE_PLACEMENT, Key("web", "shop"), lambda it: with_spec(it, strategy=external))
    await label(world)
    assert since(world) not in ("", ALWAYS)


@pytest.mark.parametrize(
    ("labelled", "remaining"),
    [
        (at_first, []),
        (for_the_whole_window, []),
        (shortly_before, EVERYWHERE),
        (off_and_on, EVERYWHERE),
        (in_a_copy, EVERYWHERE),
        (without_snapshots, EVERYWHERE),
        (under_an_external_strategy, EVERYWHERE),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
async def test_content_is_removed_with_a_namespace_that_was_exempt_for_the_window(labelled, remaining):
    async with confirming(placement=HOME) as world:
        await labelled(world)
        for _ in range(2):
            writes = world.hub.writes
            world.again()
            await world.until(lambda: True)
        assert world.hub.writes == writes, "a second pass writes nothing"
        await world.store.delete(NAMESPACE, Key("shop"))
        await world.until(lambda: world.cache.get(RESOURCE_PLACEMENT, "web", "shop") is None)
        assert await on_members(world, CONFIG_MAP, "c0") == remaining
        assert bool(world.events("PlacementContentOrphaned")) is bool(remaining)
