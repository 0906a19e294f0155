"""An object that another Work of its placement holds from now on is handed over: it is never deleted to be made anew.

A placement that outgrows one snapshot is cut into several, each with a Work of its own, and where the cuts are follows
from the sizes of the objects: one that grows pushes others into the next Work.
"""

from datetime import timedelta

import pytest

from scorer.api.kinds import NAMESPACE, PLACEMENT
from scorer.api.names import KEEP
from scorer.api.unstructured.documents import with_metadata
from tests.builders.placement import make_placement
from tests.webhook.controllers.world import CONFIG_MAP, make_config_map, make_member, running
from webhook.kube.ports import Key
from webhook.member.works import backoff


@pytest.fixture
async def world(monkeypatch):
    monkeypatch.setattr(backoff, "FIRST", timedelta(seconds=0.2))
    async with running() as found:
        await found.add(make_member("a"))
        yield found


async def resize(world, name, size):
    stored = await world.store.get(CONFIG_MAP, Key(name, "shop"))
    await world.store.replace(CONFIG_MAP, {**stored, "data": {"text": "x" * size}})


async def uids(world):
    names = ("grows", "in-between", "last")
    found = {name: await world.on_member("a", CONFIG_MAP, name, "shop") for name in names}
    return {name: item and item["metadata"]["uid"] for name, item in found.items()}


def holds(world):
    """Return which Work holds which ConfigMap."""
    return {
        item["metadata"]["name"]: work["metadata"]["name"]
        for work in world.works()
        for item in work["spec"]["workload"]["manifests"]
        if item["kind"] == "ConfigMap"
    }


def is_available(work):
    conditions = work.get("status", {}).get("conditions", ())
    good = {entry["type"]: entry["observedGeneration"] for entry in conditions if entry["status"] == "True"}
    return good.get("Available") == work["metadata"]["generation"]


async def settled(world, **places):
    """Wait until every Work is available, and the objects are where they are wanted."""
    await world.until(lambda: places.items() <= holds(world).items() and all(map(is_available, world.works())))


async def test_an_object_that_moves_to_another_work_and_back_is_never_made_anew(world):
    for name, size in (("grows", 10), ("in-between", 500_000), ("last", 200_000)):
        await world.add(make_config_map(name, text="x" * size))
    await world.add(make_placement("web"))
    await settled(world, last="web-work")
    before = await uids(world)
    await resize(world, "grows", 300_000)
    await settled(world, last="web-0")
    assert await uids(world) == before
    await resize(world, "grows", 10)
    await settled(world, last="web-work")
    assert await uids(world) == before


async def test_what_is_marked_to_stay_keeps_its_namespace_though_another_work_has_placed_that(world):
    for name in ("first", "last"):
        await world.add(make_config_map(name, text="x" * 500_000))
    await world.add(make_placement("web"))
    await settled(world, first="web-work", last="web-0")
    async with world.members.store("a") as member:
        live = await member.get(CONFIG_MAP, Key("last", "shop"))
        await member.replace(CONFIG_MAP, with_metadata(live, annotations={KEEP: "true"}))
    await world.store.delete(PLACEMENT, Key("web"))
    await world.until(lambda: not world.works())
    kept = await world.on_member("a", CONFIG_MAP, "last", "shop"), await world.on_member("a", NAMESPACE, "shop")
    assert [item and item["metadata"].get("ownerReferences", []) for item in kept] == [[], []]
    assert await world.on_member("a", CONFIG_MAP, "first", "shop") is None
