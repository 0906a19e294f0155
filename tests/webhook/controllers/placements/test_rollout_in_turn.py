"""Rollouts to members that something else disrupts, with ``Rollout`` in the gate: they wait, and others go first."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from scorer.api.kinds import BINDING, LEASE, UPGRADE_RUN
from scorer.api.unstructured.documents import current_condition
from scorer.member_gate.holds import MemberDisruption
from tests.builders.placement import make_placement
from tests.virtual_time import loop_now
from tests.waiting import PATIENCE_SECONDS
from tests.webhook.controllers.placements.reserved_members import reserved, set_upgrade
from tests.webhook.controllers.world import controller, make_config_map, make_member, pick_n, running
from tests.webhook.gate.gates import Tool
from webhook.gate.errors import MemberHeldError
from webhook.gate.keeper import Claimant

ALL = tuple(MemberDisruption)


@asynccontextmanager
async def gated_world(*gated, members="abc", **strategy):
    """A world whose members hold one placement."""
    async with running(gate_members=gated) as world:
        for name in members:
            await world.add(make_member(name))
        rolling = {"type": "RollingUpdate", "rollingUpdate": strategy} if strategy else None
        await world.add(make_placement("web", pick_n(len(members)), **({"strategy": rolling} if rolling else {})))
        await world.until(lambda: world.view("web")["state"] == "available")
        yield world


def started(world, cluster):
    """Return what a binding says of its rollout."""
    found = next(each for each in world.cache.list(BINDING) if each["spec"]["targetCluster"] == cluster)
    said = current_condition(found, "RolloutStarted") or {}
    return found["spec"]["resourceSnapshotName"], said.get("status"), said.get("message")


async def release_anew(world):
    """Change what is placed."""
    await world.add(make_config_map("extra", value="1"))


async def test_a_rollout_gives_every_member_back_when_it_is_available():
    async with gated_world(*ALL) as world:
        await release_anew(world)
        await world.until(lambda: all(started(world, each)[0] == "web-1-snapshot" for each in "abc"))
        await world.until(lambda: world.view("web")["state"] == "available" and not list(world.store.objects(LEASE)))
        before = world.store.resource_version
        world.again()
        await world.until(lambda: True)
        assert world.store.resource_version == before


async def test_a_member_that_is_upgraded_is_left_out_and_says_why_until_the_upgrade_is_over():
    async with gated_world(*ALL, maxUnavailable=1) as world:
        await set_upgrade(world.store, b="Running")
        await world.until(lambda: bool(world.cache.list(UPGRADE_RUN)[0].get("status")))
        await release_anew(world)
        await world.until(lambda: all(started(world, each)[0] == "web-1-snapshot" for each in "ac"))
        await world.until(lambda: started(world, "b")[1] == "False")
        assert started(world, "b") == (
            "web-0-snapshot",
            "False",
            "waits until the member is free: member b is being upgraded by run v131",
        )
        await set_upgrade(world.store, b="Completed")
        await world.until(lambda: started(world, "b")[:2] == ("web-1-snapshot", "True"))
        await world.until(lambda: not list(world.store.objects(LEASE)))


async def test_without_rollout_in_the_gate_nothing_is_read_or_written():
    async with gated_world(MemberDisruption.EVICTION, MemberDisruption.UPGRADE) as world:
        await set_upgrade(world.store, a="Running", b="Running", c="Running")
        await release_anew(world)
        await world.until(lambda: all(started(world, each)[0] == "web-1-snapshot" for each in "abc"))
        assert not list(world.store.objects(LEASE))


async def test_a_member_that_is_rolled_out_to_is_refused_to_others():
    async with gated_world(*ALL, members="a") as world:
        tool = Tool(world.store, loop_now)
        await world.add(make_config_map("extra", value="1"))
        refused = None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while refused is None:
                if (await reserved(world.store))["a"]:
                    with pytest.raises(MemberHeldError) as found:
                        await tool.hold("a")
                    refused = str(found.value)
                await asyncio.sleep(0)
        assert "it is reserved for Rollout by rollout/crp/web" in refused


async def test_what_somebody_else_has_just_reserved_is_found_out_when_the_turn_is_taken():
    """The watch has not told of the reservation yet; the Lease itself does."""
    async with gated_world(*ALL, members="ab") as world:
        tool = Tool(world.store, loop_now)
        await tool.hold("a", 600)
        await release_anew(world)
        await world.until(lambda: started(world, "b")[0] == "web-1-snapshot")
        await world.until(lambda: started(world, "a")[1] == "False")
        assert started(world, "a")[2].endswith("member a is reserved for Upgrade by tool")
        await tool.give_back("a")
        await world.until(lambda: started(world, "a")[:2] == ("web-1-snapshot", "True"))


async def test_what_somebody_has_reserved_of_the_placement_uses_its_limits_up():
    """With one cluster at a time to spare, nobody is changed while a tool changes one."""
    async with gated_world(*ALL, maxUnavailable=1, maxSurge=0) as world:
        keeper = Tool(world.store, loop_now).keeper
        before = started(world, "b")[0]
        reservations = controller(world.loop, "rollout")._turns._reservations

        async def nothing() -> None:
            pass

        held = await keeper.hold_rollout(
            "crp/web", "a", Claimant("tool", "ann"), 600, judge=lambda _held: MemberDisruption.ROLLOUT, look=nothing
        )
        await world.until(lambda: bool(reservations.cached("rollout", "crp/web")))
        await release_anew(world)
        waits = "waits until the member is free: crp/web is reserved on member a by tool"
        await world.until(lambda: started(world, "a")[2] == waits)
        assert [started(world, cluster)[0] for cluster in "abc"] == [before] * 3
        await keeper.release(held.id, "ann")
        await world.until(lambda: all(started(world, cluster)[0] != before for cluster in "abc"))


async def test_a_placement_that_is_deleted_keeps_no_member():
    async with gated_world(*ALL) as world:
        await release_anew(world)
        await world.delete_placement("web")
        await world.until(lambda: not world.cache.list(BINDING))
        await world.until(lambda: not list(world.store.objects(LEASE)))
