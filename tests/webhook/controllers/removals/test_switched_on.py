"""Confirmation is switched on over content that was placed while it was off: the first pass judges what leaves."""

import pytest

from scorer.api.kinds import NAMESPACE, PLACEMENT, RESOURCE_SNAPSHOT
from scorer.api.names import SOURCES
from scorer.api.unstructured.documents import annotation
from scorer.rollout.confirmation.policy import NO_CONFIRMATION
from tests.builders.placement import fixed, make_placement
from tests.virtual_time import loop_now
from tests.webhook.controllers.placements.confirmed_world import (
    AT_ONCE,
    MEMBERS,
    STATEFUL_SET,
    bindings,
    confirm,
    confirming,
    delete,
    on_members,
    pending,
)
from tests.webhook.controllers.world import NO_DEBOUNCE, held_up
from webhook.access.user import UserInfo
from webhook.admission.cached import CachedContext
from webhook.admission.removal_effects import removal_losses
from webhook.kube.ports import Key
from webhook.settings.admission import AdmissionSettings
from webhook.settings.loop import LoopSettings


async def delete_the_database(world):
    await delete(world, STATEFUL_SET, "db", "shop")


async def drop_the_clusters(world):
    await world.change(PLACEMENT, "shop", policy=fixed())


async def delete_the_placement(world):
    await delete(world, PLACEMENT, "shop")


async def switch_on(world):
    """Start the loop with the settings of a user who sets nothing."""
    world.settings = LoopSettings(snapshots=NO_DEBOUNCE)
    await world.restart()


@pytest.mark.parametrize("is_on_first", [False, True], ids=["lost-before-the-first-pass", "lost-afterwards"])
@pytest.mark.parametrize("act", [delete_the_database, drop_the_clusters, delete_the_placement])
async def test_the_first_pass_judges_what_was_placed_without_confirmation(act, is_on_first):
    placement = make_placement(policy=fixed(*MEMBERS), strategy=AT_ONCE)
    async with confirming(placement=placement, removal=NO_CONFIRMATION) as world:
        assert not any(annotation(each, SOURCES) for each in world.cache.list(RESOURCE_SNAPSHOT))
        if is_on_first:
            await switch_on(world)
            await act(world)
        else:
            async with held_up(world.loop.queues["placement"]), held_up(world.loop.queues["scheduler"]):
                await act(world)
                await switch_on(world)
        await world.until(lambda: pending(world))
        assert await on_members(world, STATEFUL_SET, "db") == list(MEMBERS)
        assert set(bindings(world)) == set(MEMBERS)
        await confirm(world)
        await world.until(lambda: not pending(world))
        assert await on_members(world, STATEFUL_SET, "db") == []


async def test_admission_judges_it_before_the_loop_has_written_a_record():
    async with confirming(removal=NO_CONFIRMATION) as world:
        shop = await world.store.get(NAMESPACE, Key("shop"))
        alice = UserInfo("alice", frozenset({"system:authenticated"}))
        context = CachedContext(world.cache, AdmissionSettings(), loop_now)().with_user(alice)
        deletion = {"operation": "DELETE", "name": "shop", "oldObject": shop, "object": None}
        (loss,) = removal_losses(deletion, context)
        assert (loss.ref, loss.clusters) == ("crp/shop", MEMBERS)
        assert str(loss.groups[0]) == "Namespace shop and 8 objects in it"
