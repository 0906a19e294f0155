"""What the scheduler writes: what is picked again before what is dropped, and when that was."""

from scorer.api.kinds import BINDING, MEMBER_CLUSTER, PLACEMENT
from scorer.api.meta import parse_time
from scorer.api.names import UNSCHEDULED_AT
from scorer.api.unstructured.documents import annotation
from tests.builders.placement import make_placement
from tests.virtual_time import loop_now
from tests.webhook.controllers.world import make_member, running
from webhook.kube.ports import Key, UnavailableError


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


async def test_a_binding_says_when_its_cluster_was_dropped():
    """A settled placement that loses a member has moved then, although nothing else says so."""
    async with running() as world:
        await world.add(*map(make_member, "ab"), make_placement("p"))
        await world.until(lambda: world.view("p")["state"] == "available")
        settled = loop_now().replace(microsecond=0)
        said = []

        def watch(change):
            if change.new is not None and change.new["spec"]["state"] == "Unscheduled":
                said.append(annotation(change.new, UNSCHEDULED_AT))

        world.cache.subscribe(BINDING, watch)
        await world.store.delete(MEMBER_CLUSTER, Key("b"))
        await world.until(lambda: world.bound("p") == ["a"] and bool(said))
        assert min(map(parse_time, said)) >= settled
