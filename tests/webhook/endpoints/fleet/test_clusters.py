"""A single cluster at ``/v1/clusters/NAME``: its windows, the run that is to upgrade it, and what disrupts it."""

from datetime import timedelta

from scorer.api.meta import format_time
from scorer.api.unstructured.documents import dict_at, status_of
from tests.webhook.controllers.upgrade_world import annotate, make_upgrade_run, make_window, run_of, states, upgrading
from tests.webhook.endpoints.asking import get
from tests.webhook.endpoints.world_server import serving
from webhook.access.rights import Access
from webhook.runtime.clock import utc_now

HANGS = {"simulate_upgrade": "hang"}


class Unable:
    """May ask everything, and list all but upgrade runs."""

    async def may(self, user, wanted):
        return not isinstance(wanted, Access) or wanted.resource != "clusterupgraderuns"


async def one(port, name):
    return (await get(port, f"/v1/clusters/{name}")).json


async def test_what_there_is_to_say_of_one_cluster():
    opens = (utc_now() + timedelta(hours=3)).replace(second=0, microsecond=0)
    async with upgrading() as world:
        await world.add(make_window("later", opens.strftime("%H:%M")))
        await annotate(world, "t1", upgrade_windows="later,nowhere")
        await annotate(world, "u1", upgrade_duration="1h")
        await world.add(make_upgrade_run())
        await world.until(lambda: states(world).get("t1") == "Pending" and dict_at(status_of(run_of(world)), "plan"))
        async with serving(world) as port:
            kept = (await one(port, "t1"))["upkeep"]
            assert kept["windows"] == [
                {"name": "later", "target": "All", "open": False, "until": format_time(opens)},
                {"name": "nowhere", "missing": True},
            ]
            assert (kept["upgrade"]["state"], kept["upgrade"]["expected"]["from"]) == ("Pending", format_time(opens))
            later = (await one(port, "u1"))["upkeep"]["upgrade"]
            assert (later["run"], later["state"]) == ("r", "NotStarted")
            assert "upgrade" not in (await get(port, "/v1/clusters")).json["items"][1].get("upkeep", {})


async def test_what_disrupts_a_cluster_is_named_to_those_who_may_list_it():
    async with upgrading() as world:
        await annotate(world, "t1", **HANGS)
        await world.add(make_upgrade_run())
        await world.until(lambda: states(world).get("t1") == "Running")
        async with serving(world) as port:
            (hold, *_) = (await one(port, "t1"))["holds"]
            assert (hold["kind"], hold["by"]) == ("Upgrade", "upgrade/r")
            assert "holds" not in await one(port, "u1")
        async with serving(world, authorizer=Unable()) as port:
            found = await one(port, "t1")
            assert {(each["kind"], each["by"], each["message"]) for each in found["holds"]} == {("Upgrade", "", "")}
            assert "upgrade" not in found["upkeep"]
