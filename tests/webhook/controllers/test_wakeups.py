"""Changes that somebody waits for."""

from contextlib import suppress
from dataclasses import replace

from scorer.api.family import PlacementRef
from scorer.api.kinds import KINDS, MEMBER_CLUSTER, PLACEMENT
from scorer.api.unstructured.documents import with_metadata
from scorer.rollout.selection.exclusions import SelectionSettings
from tests.builders.placement import make_placement
from tests.webhook.controllers.by_hand import Served
from tests.webhook.controllers.world import make_member, pick_n, running
from tests.webhook.edits import edit
from webhook.controllers.placements.resource_watches import Selectables
from webhook.kube.ports import Key, NotFoundError


def without_finalizers(document):
    return {**document, "metadata": {**document["metadata"], "finalizers": []}}


async def test_a_changed_wish_for_reports_reaches_the_works():
    async with running() as world:
        await world.add(make_member("a"), make_placement("p", pick_n(1)))
        await world.until(lambda: world.view("p")["state"] == "available")
        wish = {"type": "Mirror", "destination": "OriginalResource"}
        await world.change(PLACEMENT, "p", strategy={"type": "RollingUpdate", "reportBackStrategy": wish})
        await world.until(lambda: [work["spec"].get("reportBackStrategy") for work in world.works()] == [wish])


async def test_a_cluster_that_comes_while_the_placement_does_not_say_yet_that_it_misses_one(monkeypatch):
    """The placement still says that it is fully scheduled; the record of its scheduler says more."""
    async with running() as world:
        await world.add(make_member("a", zone="x"), make_member("b", zone="y"))
        term = {"labelSelector": {"matchLabels": {"zone": "x"}}}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [term]}}
        policy = {"placementType": "PickN", "numberOfClusters": 1, "affinity": {"clusterAffinity": required}}
        await world.add(make_placement("p", policy))
        await world.until(lambda: world.view("p")["state"] == "available")
        for name in ("add", "add_after"):  # the queue of placements is long
            monkeypatch.setattr(world.loop.queues["placement"], name, lambda *_: None)
        await world.store.delete(MEMBER_CLUSTER, Key("a"))
        await world.until(lambda: world.cache.get(MEMBER_CLUSTER, "a") is None and not world.bound("p"))
        assert world.condition("p", "Scheduled")["status"] == "True"
        await edit(world.store, MEMBER_CLUSTER, Key("b"), lambda it: with_metadata(it, labels={"zone": "x"}))
        await world.until(lambda: world.bound("p") == ["b"])


async def test_a_member_that_goes_while_it_cannot_be_read_is_missed():
    async with running() as world:
        await world.add(make_member("a"), make_member("b"), make_placement("p"))
        await world.until(lambda: world.view("p")["available"] == 2)
        await world.change(MEMBER_CLUSTER, "b", identity=7)
        await world.until(lambda: True)
        await world.store.delete(MEMBER_CLUSTER, Key("b"))
        with suppress(NotFoundError):  # the loop may still release it, from what it has read before
            await edit(world.store, MEMBER_CLUSTER, Key("b"), without_finalizers)
        await world.until(lambda: world.bound("p") == ["a"])


async def test_a_term_for_another_version_than_the_preferred_one_is_watched(monkeypatch):
    """Only v1 of the kind is blocked, and the term names another version that is served."""
    budget = replace(KINDS["policy", "PodDisruptionBudget"], versions=("v1", "v1beta1"))
    async with running() as world:
        settings = SelectionSettings.of(blocked="policy/v1/PodDisruptionBudget")
        found = Selectables(world.cache, Served(budget), settings)
        term = {"group": "policy", "version": "v1beta1", "kind": "PodDisruptionBudget"}
        monkeypatch.setattr(found, "_stale", False)
        await found.watch(PlacementRef("ClusterResourcePlacement", "p"), [term])
        assert world.cache.watches(budget)
