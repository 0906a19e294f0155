"""A controller that fails on an object says so on the object, once, until it passes."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from scorer.api.family import PlacementRef
from scorer.api.kinds import BINDING, MEMBER_CLUSTER, PLACEMENT, Kind
from scorer.rollout.status.failures import failing_status
from scorer.rollout.views.tree import Sources, placement_tree
from tests.builders.placement import make_placement
from tests.waiting import until
from tests.webhook.controllers.world import World, held_up, make_member, pick_n, running
from webhook.controllers.machinery import loop
from webhook.kube.ports import Key

AGES = 86_400_000_000_000
REF = PlacementRef(PLACEMENT.kind, "p")


def failure(world: World, kind: Kind, name: str) -> dict[str, Any]:
    conditions = ((world.cache.get(kind, name) or {}).get("status") or {}).get("conditions") or ()
    return next((entry for entry in conditions if entry["type"].endswith("Failed")), {})


async def test_a_rollout_that_cannot_be_planned_says_so_on_the_placement_until_it_can():
    """The period slipped past admission: no clock counts so far."""
    async with running() as world:
        await world.add(make_member("a"), make_placement("p", pick_n(1)))
        await world.until(lambda: world.view("p")["state"] == "available")
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"unavailablePeriodSeconds": AGES}}
        await world.change(PLACEMENT, "p", strategy=strategy)
        await world.until(lambda: bool(failure(world, PLACEMENT, "p")))
        said = failure(world, PLACEMENT, "p")
        assert (said["type"], said["status"]) == ("harbormaster.dev/RolloutFailed", "True")
        assert f"spec.strategy.rollingUpdate: unavailablePeriodSeconds {AGES}" in said["message"]
        seen = world.view("p")
        assert (seen["state"], seen["why"], seen["satisfied"]) == ("failed", said["message"], False)
        document = world.cache.get(PLACEMENT, "p")
        tree = placement_tree(Sources(document, world.cache.list(BINDING)))["placement"]
        assert (tree["state"], tree["why"]) == ("failed", said["message"])
        before = world.store.resource_version
        tries = world.loop.queues["rollout"].reconciled
        world.loop.queues["placement"].add(REF)
        world.loop.queues["rollout"].add(REF)
        await world.until(lambda: world.loop.queues["rollout"].reconciled > tries)
        assert world.store.resource_version == before, "it failed again and wrote something"
        await world.change(PLACEMENT, "p", strategy={"type": "RollingUpdate"})
        await world.until(lambda: not failure(world, PLACEMENT, "p") and world.view("p")["state"] == "available")
        stored = await world.store.get(PLACEMENT, Key("p"))
        assert len(stored["status"]["conditions"]) == 6


async def test_a_binding_on_which_the_controller_stumbles_fails_its_placement():
    async with running() as world:
        await world.add(*(make_member(name) for name in "ab"))
        await world.until(lambda: all(member.status.properties for member in world.cache.fleet.members))
        await world.add(make_placement("p"))
        await world.until(lambda: world.view("p")["state"] == "available")
        (binding,) = (each for each in world.cache.list(BINDING) if each["spec"]["targetCluster"] == "b")
        status = failing_status(binding, "odd", "KeyError", "no such key", datetime.now(UTC))
        await world.store.replace_status(BINDING, {**binding, "status": status})
        await world.until(lambda: bool(failure(world, BINDING, binding["metadata"]["name"])))
        seen = world.view("p")
        assert (seen["state"], seen["why"], seen["available"]) == ("failed", "b: no such key", 2)
        assert [(each["cluster"], each["state"]) for each in seen["clusters"]] == [("a", "available"), ("b", "failed")]
        document = world.cache.get(PLACEMENT, "p")
        tree = placement_tree(Sources(document, world.cache.list(BINDING)))
        assert (tree["placement"]["state"], tree["placement"]["why"]) == ("failed", "b: no such key")


async def test_a_member_on_which_the_controller_stumbles_says_so():
    """What stumbles is a mistake of ours, whatever it is; here an annotation that nobody checks."""
    async with running() as world:
        await world.add(make_member("a"))
        await world.until(lambda: bool(world.cache.fleet.members))
        reconcile = world.loop.queues["member"]._reconcile

        async def stumble(name: str) -> Any:
            if name == "a" and not (world.cache.get(MEMBER_CLUSTER, name) or {})["spec"].get("taints"):
                raise OverflowError("date value out of range")
            return await reconcile(name)

        world.loop.queues["member"]._reconcile = stumble
        world.loop.queues["member"].add("a")
        await world.until(lambda: bool(failure(world, MEMBER_CLUSTER, "a")))
        said = failure(world, MEMBER_CLUSTER, "a")
        assert (said["type"], said["reason"]) == ("harbormaster.dev/MemberFailed", "OverflowError")
        assert said["message"].endswith("date value out of range")
        await world.change(MEMBER_CLUSTER, "a", taints=[{"key": "k", "effect": "NoSchedule"}])
        await world.until(lambda: not failure(world, MEMBER_CLUSTER, "a"))


async def test_a_failure_to_report_back_passes_when_nobody_asks_for_reports_any_more():
    """An earlier leader said it, and the wish went while none was there."""
    async with running() as world:
        await world.add(make_member("a"), make_placement("p"))
        await world.until(lambda: world.view("p")["state"] == "available")
        stored = await world.store.get(PLACEMENT, Key("p"))
        status = failing_status(stored, "back_report", "StoreError", "the hub is away", datetime.now(UTC))
        async with held_up(world.loop.queues["back_report"]):
            await world.store.replace_status(PLACEMENT, {**stored, "status": status})
            await world.until(lambda: bool(failure(world, PLACEMENT, "p")))
        assert failure(world, PLACEMENT, "p")
        world.again()  # as when the next one begins
        await world.until(lambda: not failure(world, PLACEMENT, "p"))


async def test_a_broken_binding_that_is_put_right_lets_its_placement_be_scheduled():
    async with running() as world:
        await world.add(make_member("a"), make_placement("p"))
        await world.until(lambda: world.view("p")["state"] == "available")
        (binding,) = world.cache.list(BINDING)
        await world.change(BINDING, binding["metadata"]["name"], state="Nonsense")
        await world.until(lambda: failure(world, PLACEMENT, "p").get("type") == "harbormaster.dev/SchedulerFailed")
        await world.change(BINDING, binding["metadata"]["name"], state="Bound")
        await world.until(lambda: not failure(world, PLACEMENT, "p") and world.view("p")["state"] == "available")


async def test_everything_that_can_fail_is_looked_at_again_after_a_while(monkeypatch):
    """No event may ever come that says what was put right."""
    async with running() as world:
        await world.add(make_member("a"), make_placement("p"))
        await world.until(lambda: world.view("p")["state"] == "available")
        queues = [world.loop.queues[name] for name in ("placement", "scheduler", "rollout", "work")]
        before, written = [queue.reconciled for queue in queues], world.hub.writes
        monkeypatch.setattr(loop, "RESYNC", timedelta(seconds=1))
        resync = asyncio.create_task(world.loop._resync())
        await until(lambda: all(queue.reconciled > times for queue, times in zip(queues, before, strict=True)))
        resync.cancel()
        await world.until(lambda: True)
        assert world.hub.writes == written
