"""Members with maintenance windows: rollouts and staged updates wait until one opens."""

from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cache

import pytest

from scorer.api.family import PlacementRef
from scorer.api.kinds import BINDING, EVICTION, MAINTENANCE_WINDOW, MEMBER_CLUSTER, PLACEMENT
from scorer.api.meta import format_time
from scorer.api.names import UPGRADE_WINDOWS
from scorer.api.unstructured.documents import current_condition, uid_of, with_metadata
from scorer.staged_update.record import condition
from tests.builders.placement import make_placement
from tests.virtual_time import loop_now
from tests.waiting import until
from tests.webhook.controllers.staged_world import contents, make_run, make_stage, run_of, said, staged
from tests.webhook.controllers.world import (
    CONFIG_MAP,
    controller,
    held_up,
    make_config_map,
    make_member,
    pick_n,
    running,
)
from tests.webhook.edits import edit
from webhook.kube.ports import Key

REF = PlacementRef(PLACEMENT.kind, "web")
FIXED = {"placementType": "PickFixed"}


@cache
def this_minute():
    """Return the whole minute in which the test began, the same one until it ends."""
    return loop_now().replace(second=0, microsecond=0)


@pytest.fixture(autouse=True)
def _one_minute_for_each_test():
    this_minute.cache_clear()


def in_hours(hours):
    """Return the whole minute that many hours after the test began."""
    return this_minute() + timedelta(hours=hours)


def make_window(name, opens, **spec):
    """Make a window that opens at that time of every day, for four hours."""
    spec = {"schedule": {"daily": {"intervalDays": 1}}, "startTime": f"{opens:%H:%M}", **spec}
    head = {"apiVersion": MAINTENANCE_WINDOW.api_version, "kind": MAINTENANCE_WINDOW.kind}
    return {**head, "metadata": {"name": name}, "spec": spec}


async def name_windows(world, member, names):
    """Have a member name these windows, and no others."""
    named = {UPGRADE_WINDOWS: names}
    await edit(world.store, MEMBER_CLUSTER, Key(member), lambda it: with_metadata(it, annotations=named))


def move(world, **units):
    """Move the clock of the loop on, and have it look at everything again."""
    world.ahead += timedelta(**units)
    world.again()


@asynccontextmanager
async def placed(policy=None, opens=3.0, **strategy):
    """A world whose members ``a`` to ``c`` hold one placement; ``b`` has window ``nights``."""
    async with running() as world:
        window = make_window("nights", in_hours(opens))
        await world.add(window, *map(make_member, "abc"), make_placement("web", policy or pick_n(3), **strategy))
        await world.until(lambda: world.view("web")["state"] == "available")
        await name_windows(world, "b", "nights")
        yield world, f"maintenance window nights is closed until {format_time(in_hours(opens))}"


def started(world, cluster):
    """Return what a binding has been given, and what it says of its rollout."""
    found = next(each for each in world.cache.list(BINDING) if each["spec"]["targetCluster"] == cluster)
    told = current_condition(found, "RolloutStarted") or {}
    return found["spec"].get("resourceSnapshotName"), told.get("status"), told.get("message")


async def release_anew(world):
    """Change what is placed, and wait until the members without windows have it."""
    await world.add(make_config_map("extra", value="1"))
    await world.until(lambda: all(started(world, each)[0] == "web-1-snapshot" for each in "ac"))


async def has_extra(world, member):
    return await world.on_member(member, CONFIG_MAP, "extra", "shop") is not None


async def test_a_rollout_waits_for_the_windows_of_a_member_and_goes_on_when_one_opens():
    async with placed() as (world, closed):
        await release_anew(world)
        waits = ("web-0-snapshot", "False", f"waits for the member's windows: {closed}")
        await world.until(lambda: started(world, "b") == waits)
        assert await has_extra(world, "a")
        assert not await has_extra(world, "b")
        await world.until_silent()
        before = world.store.resource_version
        move(world, hours=1)
        await world.until(lambda: True)
        assert world.store.resource_version == before
        assert not world.condition("web", "Stalled")
        move(world, hours=2)
        await world.until(lambda: started(world, "b")[:2] == ("web-1-snapshot", "True"))
        await world.until(lambda: world.view("web")["state"] == "available")
        assert await has_extra(world, "b")


async def test_the_rollout_comes_back_at_the_opening():
    async with placed() as (world, closed):
        await release_anew(world)
        await world.until(lambda: (started(world, "b")[2] or "").endswith(closed))
        opens, before = in_hours(3), loop_now()
        found = await controller(world.loop, "rollout").reconcile(REF)
        assert opens - loop_now() <= found.requeue_after <= opens - before


async def test_nobody_waits_for_a_member_that_is_up_to_date():
    async with placed() as (world, _):
        found = await controller(world.loop, "rollout").reconcile(REF)
        assert found.requeue_after is None


async def test_a_member_is_not_given_up_while_its_windows_are_closed():
    async with placed({**FIXED, "clusterNames": ["a", "b", "c"]}) as (world, closed):
        await world.change(PLACEMENT, "web", policy={**FIXED, "clusterNames": ["a"]})
        await world.until(lambda: [each["spec"]["targetCluster"] for each in world.cache.list(BINDING)] == ["a", "b"])
        assert await world.on_member("b", CONFIG_MAP, "rates", "shop") is not None
        assert started(world, "b")[1:] == ("False", f"waits for the member's windows: {closed}")
        leaving = {each["cluster"]: each["detail"] for each in world.view("web")["clusters"]}
        assert leaving["b"] == f"waits for the member's windows: {closed}"
        await world.until_silent()
        before = world.store.resource_version
        move(world, hours=1)
        await world.until(lambda: True)
        assert world.store.resource_version == before
        assert not world.condition("web", "Stalled")
        move(world, hours=4)
        await world.until(lambda: [each["spec"]["targetCluster"] for each in world.cache.list(BINDING)] == ["a"])


async def test_what_is_under_way_when_the_window_closes_goes_on():
    unlimited = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}}
    async with placed(opens=-1, strategy=unlimited) as (world, _):
        async with held_up(world.loop.queues["work"]):
            await world.add(make_config_map("extra", value="1"))
            await until(lambda: started(world, "b")[:2] == ("web-1-snapshot", "True"))
            move(world, hours=5)
        await world.until(lambda: world.view("web")["state"] == "available")
        assert await has_extra(world, "b")


async def test_an_eviction_does_not_wait():
    async with placed() as (world, _):
        binding = next(each for each in world.cache.list(BINDING) if each["spec"]["targetCluster"] == "b")
        eviction = {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterResourcePlacementEviction",
            "metadata": {"name": "off"},
            "spec": {"placementName": "web", "clusterName": "b"},
        }
        await world.add(eviction)
        await world.until(lambda: uid_of(binding) not in {uid_of(each) for each in world.cache.list(BINDING)})
        await world.until(lambda: (current_condition(world.cache.get(EVICTION, "off"), "Executed") or {}).get("status"))
        assert current_condition(world.cache.get(EVICTION, "off"), "Executed")["status"] == "True"


async def test_edits_of_the_window_and_of_the_member_wake_the_rollout():
    async with placed() as (world, closed):
        await name_windows(world, "b", "nihgts")
        await release_anew(world)
        begin = "waits for the member's windows: "
        await world.until(lambda: started(world, "b")[2] == f"{begin}maintenance window nihgts does not exist")
        await name_windows(world, "b", "nights")
        await world.until(lambda: started(world, "b")[2] == begin + closed)
        await world.change(MAINTENANCE_WINDOW, "nights", startTime=f"{in_hours(5):%H:%M}")
        opens = format_time(in_hours(5))
        await world.until(lambda: started(world, "b")[2] == f"{begin}maintenance window nights is closed until {opens}")
        await world.change(MAINTENANCE_WINDOW, "nights", startTime=f"{in_hours(-1):%H:%M}")
        await world.until(lambda: started(world, "b")[:2] == ("web-1-snapshot", "True"))


async def test_a_new_window_closes_the_members_that_it_selects_and_opens_them_when_it_is_deleted():
    async with placed() as (world, _):
        await world.add(make_window("all", in_hours(6), memberSelector={}))
        await world.until(lambda: True)
        await world.add(make_config_map("extra", value="1"))
        await world.until(lambda: all(started(world, each)[1] == "False" for each in "abc"))
        assert started(world, "b")[2].endswith(f"windows all, nights are closed until {format_time(in_hours(3))}")
        await world.store.delete(MAINTENANCE_WINDOW, Key("all"))
        await world.until(lambda: all(started(world, each)[0] == "web-1-snapshot" for each in "ac"))
        assert started(world, "b")[0] == "web-0-snapshot"


async def test_a_staged_update_waits_for_the_windows_of_a_cluster_and_goes_on_when_one_opens():
    async with staged(make_stage("test"), make_stage("live", maxConcurrency="100%")) as world:
        await world.add(make_window("nights", in_hours(3)))
        await name_windows(world, "v2", "nights")
        await world.until(lambda: True)
        await world.add(make_run("r"))
        await world.until(lambda: contents(world) == {"t1": "0", "t2": "0", "v1": "0", "v2": "", "v3": "0"})
        entry = next(
            each for each in run_of(world)["status"]["stagesStatus"][1]["clusters"] if each["clusterName"] == "v2"
        )
        told = condition(entry, "Started")
        closed = f"maintenance window nights is closed until {format_time(in_hours(3))}"
        assert (told["status"], told["reason"], told["message"]) == ("False", "ClusterUpdatingWaiting", closed)
        before = world.hub.writes
        world.again()
        await world.until(lambda: True)
        assert world.hub.writes == before
        move(world, hours=3)
        await world.until(lambda: said(world, "Succeeded") == "True UpdateRunSucceeded")
        assert contents(world)["v2"] == "0"
