"""Upgrade runs and the upkeep of clusters, as the page and ``/v1`` show them, in a whole hub in memory."""

from datetime import timedelta

from scorer.api.documents import dict_at, status_of
from scorer.api.kinds import UPGRADE_RUN
from scorer.api.meta import format_time, parse_time
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
from webhook.answers.update_runs import HubRuns
from webhook.settings.clock import utc_now

APPROVAL = {"type": "Approval", "displayName": "fine?"}


def shown(world):
    return HubRuns(world.cache, utc_now)


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
        detail = runs.upgrade("r")
        assert (detail["state"], detail["stage"], detail["updated"]) == ("waiting", "test", 1)
        (wait,) = detail["waits"]
        assert (wait["kind"], wait["command"]) == ("Approval", f"harbormaster approve {next(iter(gates(world)))}")
        bands = {band["name"]: band for band in detail["timeline"]["bands"]}
        assert list(bands) == ["test", "live / u", "live / v"]
        assert [mark["kind"] for mark in bands["test"]["marks"]] == ["approval after"]
        first, second = bands["live / u"]["bars"]
        assert parse_time(second["forecast"]["from"]) == parse_time(first["forecast"]["to"])
        assert runs.upgrade("nowhere") is None


async def test_windows_are_shown_of_members_that_are_still_to_come():
    opens = (utc_now() + timedelta(hours=3)).replace(second=0, microsecond=0)
    async with upgrading() as world:
        await world.add(make_window("later", opens.strftime("%H:%M")))
        await annotate(world, "t1", upgrade_windows="later")
        await world.add(make_upgrade_run())
        await world.until(lambda: states(world).get("t1") == "Pending")
        runs = shown(world)
        (bar,) = runs.upgrade("r")["timeline"]["bands"][0]["bars"]
        assert bar["windows"][0] == {"from": format_time(opens), "to": format_time(opens + timedelta(hours=1))}
        assert bar["state"] == "waiting"
        kept = runs.upkeep.every()
        assert (kept["t1"]["version"], kept["t1"]["windowOpen"]) == ("1.30.4", False)
        assert kept["t1"]["windowUntil"] == format_time(opens)
        assert (kept["t1"]["upgrade"]["run"], kept["t1"]["upgrade"]["state"]) == ("r", "Pending")
        assert kept["u1"] == {"version": "1.30.4"}


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
