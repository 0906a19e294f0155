"""The clock of the loop jumps by a month, either way: nothing that was placed is lost, and all goes on."""

from datetime import timedelta

import pytest

from scorer.api.kinds import BINDING, MEMBER_CLUSTER
from scorer.api.unstructured.documents import is_deleting
from tests.builders.placement import make_placement
from tests.webhook.controllers.world import CONFIG_MAP, make_member, pick_n, running
from webhook.kube.ports import Key

MONTH = timedelta(days=30)


@pytest.mark.parametrize("jump", [MONTH, -MONTH], ids=["ahead", "back"])
@pytest.mark.parametrize(
    "policy",
    [None, pick_n(2), {"placementType": "PickFixed", "clusterNames": ["a", "b"]}],
    ids=["all", "n", "fixed"],
)
async def test_what_is_placed_stays_and_what_changes_arrives(jump, policy):
    async with running() as world:
        await world.add(*map(make_member, "ab"), make_placement("p", policy) if policy else make_placement("p"))
        await world.until(lambda: world.view("p")["state"] == "available" and world.bound("p") == ["a", "b"])
        bindings = {each["metadata"]["uid"] for each in world.store.objects(BINDING)}
        works = {each["metadata"]["uid"] for each in world.works()}
        for world.ahead in (jump, timedelta()):
            world.again()
            await world.until(lambda: world.loop.idle)
            assert {each["metadata"]["uid"] for each in world.store.objects(BINDING)} == bindings
            assert {each["metadata"]["uid"] for each in world.works()} == works
            assert not any(map(is_deleting, (*world.store.objects(BINDING), *world.works())))
            assert not any(map(is_deleting, world.store.objects(MEMBER_CLUSTER)))
            value = {"value": str(world.ahead)}
            rates = await world.store.get(CONFIG_MAP, Key("rates", "shop"))
            await world.store.replace(CONFIG_MAP, {**rates, "data": value})
            await world.until(lambda: world.view("p")["state"] == "available")
            for cluster in "ab":
                assert (await world.on_member(cluster, CONFIG_MAP, "rates", "shop"))["data"] == value
