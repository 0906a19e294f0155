"""Works that the hub's API server will not take."""

import pytest

from scorer.api.kinds import BINDING, WORK
from tests.builders.placement import make_placement
from tests.webhook.controllers.world import make_member, running
from webhook.kube.ports import InvalidObjectError, UnavailableError


@pytest.fixture
def refused(monkeypatch):
    """Let the creation of Works fail."""

    def refuse(world, error):
        create = world.store.create

        async def refusing(kind, document):
            if kind == WORK:
                raise error
            return await create(kind, document)

        monkeypatch.setattr(world.store, "create", refusing)
        return lambda: monkeypatch.setattr(world.store, "create", create)

    return refuse


def synchronized(world):
    conditions = [
        entry for binding in world.cache.list(BINDING) for entry in binding.get("status", {}).get("conditions", ())
    ]
    return [(c["status"], c["reason"], c["message"]) for c in conditions if c["type"] == "WorkSynchronized"]


async def test_a_work_that_is_refused_is_told_and_tried_again(refused):
    async with running() as world:
        await world.add(make_member("a"))
        await world.until(lambda: world.cache.synced)
        end = refused(world, InvalidObjectError("Work p-work is too large"))
        await world.add(make_placement("p"))
        told = [("False", "SyncWorkFailed", "Work p-work is too large")]
        await world.until(lambda: synchronized(world) == told)
        await world.until(lambda: world.condition("p", "WorkSynchronized").get("status") == "False")
        end()
        await world.until(lambda: world.view("p")["state"] == "available")


async def test_a_store_that_is_away_for_a_moment_is_no_failure_of_the_works(refused):
    async with running() as world:
        await world.add(make_member("a"))
        await world.until(lambda: world.cache.synced)
        end = refused(world, UnavailableError("try later"))
        await world.add(make_placement("p"))
        await world.until(lambda: world.loop.queues["work"].reconciled > 3)
        assert synchronized(world) == []
        end()
        await world.until(lambda: world.view("p")["state"] == "available")
