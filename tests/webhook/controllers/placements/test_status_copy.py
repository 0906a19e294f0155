"""The copy of a status in the selected namespace: it stays where it is, and is written until it is there."""

from datetime import timedelta

from scorer.api.kinds import PLACEMENT, PLACEMENT_STATUS
from tests.builders.placement import make_placement
from tests.webhook.controllers.world import make_member, running
from webhook.controllers.placements import placement
from webhook.kube.ports import Key, UnavailableError


def terms(namespace):
    return [{"group": "", "version": "v1", "kind": "Namespace", "name": namespace}]


def copies(world):
    return {copy["metadata"]["namespace"]: copy for copy in world.cache.list(PLACEMENT_STATUS)}


async def test_a_copy_does_not_follow_to_another_namespace():
    async with running() as world:
        await world.add(make_member("a"), make_placement("p", statusReportingScope="NamespaceAccessible"))
        await world.until(lambda: world.view("p")["state"] == "available")
        await world.change(PLACEMENT, "p", resourceSelectors=terms("dock"))
        await world.until(lambda: world.condition("p", "Scheduled").get("reason") == "InvalidResourceSelectors")
        assert set(copies(world)) == {"shop"}
        told = copies(world)["shop"]["sourceStatus"]["conditions"][0]
        assert (told["status"], told["reason"]) == ("False", "InvalidResourceSelectors")
        await world.change(PLACEMENT, "p", resourceSelectors=terms("shop"))
        await world.until(lambda: world.condition("p", "Scheduled").get("status") == "True")
        assert set(copies(world)) == {"shop"}


async def test_a_copy_that_could_not_be_written_is_tried_again(monkeypatch):
    monkeypatch.setattr(placement, "RETRY_COPY", timedelta(seconds=0.2))
    async with running() as world:
        await world.add(make_member("a"))
        await world.until(lambda: world.cache.synced)
        create, failures = world.store.create, iter(range(2))

        async def refusing(kind, document):
            if kind == PLACEMENT_STATUS and next(failures, None) is not None:
                raise UnavailableError("the store has a headache")
            return await create(kind, document)

        world.store.create = refusing
        await world.add(make_placement("p", statusReportingScope="NamespaceAccessible"))
        await world.until(lambda: world.condition("p", "StatusSynced").get("status") == "True")
        assert await world.store.get(PLACEMENT_STATUS, Key("p", "shop"))
