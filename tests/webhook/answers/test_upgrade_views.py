"""Upgrade runs and the upkeep of clusters, as the page and ``/v1`` show them, in a whole hub in memory."""

import asyncio
from datetime import timedelta

from scorer.api.kinds import UPGRADE_RUN
from scorer.api.meta import format_time, parse_time
from scorer.api.unstructured.documents import dict_at, status_of
from tests.virtual_time import loop_now
from tests.webhook.controllers.upgrade_world import (
    annotate,
    gates,
    make_upgrade_run,
    make_window,
    run_of,
    state,
    states,
    upgrading,
)
from webhook.answers import upgrade_views
from webhook.answers.update_runs import HubRuns
from webhook.kube.ports import Key

APPROVAL = {"type": "Approval", "displayName": "fine?"}


def shown(world):
    return HubRuns(world.cache, loop_now)


async def test_a_run_from_its_start_to_its_end():
    stages = (
        {"name": "test", "groups": [{"name": "t"}], "afterGates": [APPROVAL]},
        {"name": "live", "groups": [{"name": "u"}, {"name": "v"}]},
    )
    async with upgrading(*stages) as world:
        await world.add(make_upgrade_run(state="Initialize"))
        await world.until(lambda: dict_at(status_of(run_of(world)), "plan"))
        runs = shown(world)
        (item,) = runs.runs({UPGRADE_RUN})["items"]
        assert (item["ref"], item["kind"], item["upgrade"]) == ("cuprun/r", "ClusterUpgradeRun", "Kubernetes 1.31.2")
        assert (item["state"], item["clusters"], item["updated"], item["strategy"]) == ("not started", 4, 0, "rings")
        assert item["waits"][0]["command"] == "harbormaster upgrade start r"
        assert item["expectedEnd"]
        assert runs.runs(())["items"] == []
        await world.change(UPGRADE_RUN, "r", state="Run")
        await world.until(lambda: list(gates(world)))
        detail = await runs.upgrade("r")
        assert (detail["state"], detail["stage"], detail["updated"]) == ("waiting", "test", 1)
        (wait,) = detail["waits"]
        assert (wait["kind"], wait["command"]) == ("Approval", f"harbormaster approve {next(iter(gates(world)))}")
        bands = {band["name"]: band for band in detail["timeline"]["bands"]}
        assert list(bands) == ["test", "live / u", "live / v"]
        assert [mark["kind"] for mark in bands["test"]["marks"]] == ["approval after"]
        first, second = bands["live / u"]["bars"]
        assert parse_time(second["forecast"]["from"]) == parse_time(first["forecast"]["to"])
        assert await runs.upgrade("nowhere") is None


async def test_windows_are_shown_of_members_that_are_still_to_come():
    opens = (loop_now() + timedelta(hours=3)).replace(second=0, microsecond=0)
    async with upgrading() as world:
        await world.add(make_window("later", opens.strftime("%H:%M")))
        await annotate(world, "t1", upgrade_windows="later")
        await world.add(make_upgrade_run())
        await world.until(lambda: states(world).get("t1") == "Pending")
        runs = shown(world)
        (bar,) = (await runs.upgrade("r"))["timeline"]["bands"][0]["bars"]
        assert bar["windows"][0] == {"from": format_time(opens), "to": format_time(opens + timedelta(hours=1))}
        assert bar["state"] == "waiting"
        kept = runs.upkeep.every()
        assert (kept["t1"]["version"], kept["t1"]["windowOpen"]) == ("1.30.4", False)
        assert kept["t1"]["windowUntil"] == format_time(opens)
        assert (kept["t1"]["upgrade"]["run"], kept["t1"]["upgrade"]["state"]) == ("r", "Pending")
        assert kept["u1"] == {"version": "1.30.4"}


async def test_a_run_is_read_again_only_when_it_has_changed(monkeypatch):
    """Runs stay after their end, and the list is asked for whenever anything on the hub changes."""
    read, readable = [], upgrade_views.readable_runs

    def counted(documents):
        for run in readable(documents):
            read.append(run.metadata.name)
            yield run

    async with upgrading(members={"t1": "t"}) as world:
        for name in ("first", "second"):
            await world.add(make_upgrade_run(name, state="Initialize"))
            await world.until(lambda name=name: dict_at(status_of(run_of(world, name)), "plan"))
        monkeypatch.setattr(upgrade_views, "readable_runs", counted)
        runs = shown(world)
        await runs.catch_up({UPGRADE_RUN})
        assert sorted(read) == ["first", "second"]
        before = runs.runs({UPGRADE_RUN})
        assert runs.runs({UPGRADE_RUN}) == before
        assert len(read) == 2
        await world.change(UPGRADE_RUN, "first", state="Run")
        await world.until(lambda: state(world, "first") == "Completed")
        read.clear()
        after = {each["name"]: each["state"] for each in runs.runs({UPGRADE_RUN})["items"]}
        assert after == {"first": "succeeded", "second": "not started"}
        assert "first" in read
        await world.store.delete(UPGRADE_RUN, Key("second"))
        await world.until(lambda: not run_of(world, "second"))
        assert [each["name"] for each in runs.runs({UPGRADE_RUN})["items"]] == ["first"]
        read.clear()
        for _ in range(3):
            assert await runs.upgrade("first")
        assert read == ["first"]


async def test_openings_are_searched_once_a_minute_for_every_set_of_windows(monkeypatch):
    searched, search = [], upgrade_views.openings

    def counted(windows, *more):
        searched.append(len(windows))
        return search(windows, *more)

    monkeypatch.setattr(upgrade_views, "openings", counted)
    moment = loop_now().replace(second=0)
    opens = (moment + timedelta(hours=3)).strftime("%H:%M")
    async with upgrading() as world:
        for name in ("one", "two"):
            await world.add(make_window(name, opens))
        for member, windows in (("t1", "one"), ("u1", "one"), ("u2", "one,two")):
            await annotate(world, member, upgrade_windows=windows)
        await world.add(make_upgrade_run())
        await world.until(lambda: states(world).get("t1") == "Pending")
        runs = HubRuns(world.cache, lambda: moment)
        first, second = await asyncio.gather(runs.upgrade("r"), runs.upgrade("r"))
        assert first["timeline"] == second["timeline"]
        assert sorted(searched) == [1, 2]
        moment += timedelta(minutes=1)
        await runs.upgrade("r")
        assert sorted(searched) == [1, 1, 2, 2]


async def test_upkeep_says_what_holds_a_member_and_what_cannot_be_read():
    async with upgrading(members={"t1": "t", "u1": "u"}) as world:
        await annotate(world, "t1", upgrade_hold="true", upgrade_observed="no JSON")
        kept = shown(world).upkeep
        await world.until(lambda: kept.every().get("t1") == {"onHold": True})
        await annotate(world, "t1", upgrade_observed='{"controlPlaneVersion": "1.31.2"}')
        await world.until(lambda: kept.every()["t1"].get("version") == "1.31.2")
        await world.add(make_upgrade_run())
        await world.until(lambda: state(world) in ("Pending", "Completed"))
        assert "upgrade" not in kept.every()["u1"]
