"""The order in which the scheduler writes: what is picked again before what is dropped."""

from scorer.api.kinds import BINDING, PLACEMENT
from tests.webhook.controllers.world import make_member, make_placement, running
from webhook.kube.ports import UnavailableError


def pick_fixed(*names):
    return {"placementType": "PickFixed", "clusterNames": list(names)}


async def test_nothing_is_dropped_before_the_others_are_picked_again(monkeypatch):
    async with running() as world:
        await world.add(*map(make_member, "abc"), make_placement("p", pick_fixed("a", "b")))
        await world.until(lambda: world.view("p")["state"] == "available")
        replace, tries = world.store.replace, []

        async def refusing(kind, document):
            if kind == BINDING and document["spec"]["targetCluster"] == "a":
                tries.append(document)
                raise UnavailableError("try later")
            return await replace(kind, document)

        monkeypatch.setattr(world.store, "replace", refusing)
        await world.change(PLACEMENT, "p", policy=pick_fixed("a", "c"))
        await world.until(lambda: len(tries) > 2)
        assert {"a", "b", "c"} == set(world.bound("p"))
        monkeypatch.setattr(world.store, "replace", replace)
        await world.until(lambda: world.bound("p") == ["a", "c"] and world.view("p")["state"] == "available")
