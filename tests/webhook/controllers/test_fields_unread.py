"""A field of a user's object stays, also where the loop has read the object without it.

That happens when a definition has just got the field: the API server stores it already, and a watch that it began
before still leaves the field out.
"""

import pytest

from scorer.api.kinds import EVICTION, MEMBER_CLUSTER, NAMESPACED_OVERRIDE, PLACEMENT
from scorer.api.names import (
    MEMBER_CLUSTER_FINALIZER,
    MEMBER_NAME,
    OVERRIDE_CLEANUP,
    PLACEMENT_CLEANUP,
    SCHEDULER_CLEANUP,
)
from scorer.api.unstructured.documents import annotation, finalizers_of, is_deleting, label, with_spec
from scorer.rollout.removal.eviction import EVICTED_BINDING
from tests.builders.placement import make_placement
from tests.webhook.controllers.override_rules import make_override, rule
from tests.webhook.controllers.world import make_member, pick_n, running
from webhook.kube.ports import Key

HOLD = "example.com/hold"
WRITTEN = (PLACEMENT, NAMESPACED_OVERRIDE, MEMBER_CLUSTER, EVICTION)


def unread(document):
    """What a watch of before the new field makes of an object."""
    return with_spec(document, since=None)


def with_new_field(document, *finalizers):
    metadata = {**document["metadata"], **({"finalizers": list(finalizers)} if finalizers else {})}
    return {**document, "metadata": metadata, "spec": {**document["spec"], "since": "2.0"}}


@pytest.fixture
async def world():
    async with running() as world:
        for kind in WRITTEN:
            world.cache.trim(kind, unread)
        await world.add(
            with_new_field(make_member("a"), HOLD),
            with_new_field(make_placement("p", pick_n(1)), HOLD),
            with_new_field(make_override("own", rule("west", path="/data/zone")), HOLD),
        )
        await world.until(lambda: world.view("p")["state"] == "available")
        yield world


async def stored(world, kind, name, namespace=""):
    found = await world.store.get(kind, Key(name, namespace))
    assert found["spec"]["since"] == "2.0"
    return found


async def test_it_stays_when_finalizers_and_labels_are_written(world):
    assert {PLACEMENT_CLEANUP, SCHEDULER_CLEANUP, HOLD} == set(finalizers_of(await stored(world, PLACEMENT, "p")))
    override = await stored(world, NAMESPACED_OVERRIDE, "own", "shop")
    assert set(finalizers_of(override)) == {OVERRIDE_CLEANUP, HOLD}
    member = await stored(world, MEMBER_CLUSTER, "a")
    assert set(finalizers_of(member)) == {MEMBER_CLUSTER_FINALIZER, HOLD}
    assert label(member, MEMBER_NAME) == "a"


async def test_it_stays_when_an_eviction_is_noted(world):
    eviction = {"apiVersion": EVICTION.api_version, "kind": EVICTION.kind, "metadata": {"name": "off"}}
    spec = {"placementName": "p", "clusterName": "a"}
    await world.add(with_new_field({**eviction, "spec": spec}))
    await world.until(lambda: bool((world.cache.get(EVICTION, "off") or {}).get("status")))
    assert annotation(await stored(world, EVICTION, "off"), EVICTED_BINDING)


async def test_it_stays_when_finalizers_are_removed(world):
    objects = (NAMESPACED_OVERRIDE, "own", "shop"), (PLACEMENT, "p", ""), (MEMBER_CLUSTER, "a", "")
    for kind, name, namespace in objects:
        await world.store.delete(kind, Key(name, namespace))
        await world.until(lambda kind=kind, at=(name, namespace): finalizers_of(world.cache.get(kind, *at)) == [HOLD])
        assert is_deleting(await stored(world, kind, name, namespace))
