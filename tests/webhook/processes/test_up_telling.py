"""What the server of a local hub tells, besides the loop."""

import asyncio

import pytest

from scorer.api.kinds import EVENT, UPGRADE_RUN
from scorer.upgrade.patches import UpgradeOrderRefusedError
from tests.waiting import PATIENCE_SECONDS
from tests.webhook.controllers.upgrade_world import make_upgrade_run
from tests.webhook.services import LISTENERS
from webhook.embedded.api_server.owner_token import OWNER
from webhook.processes.up import Up
from webhook.settings.programs import UpSettings


async def test_an_order_of_an_upgrade_run_that_is_refused_is_an_event_on_the_run(tmp_path):
    async with Up(UpSettings(**LISTENERS), tmp_path / "data") as up:
        run = await up.store.create(UPGRADE_RUN, make_upgrade_run("r", state="Initialize"))
        with pytest.raises(UpgradeOrderRefusedError):
            await up.services.upgrades.orders.stop("r", OWNER)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (told := [each for each in await events(up) if each["reason"] == "CommandRefused"]):
                await asyncio.sleep(0.01)
    ((regarding, note),) = ((each["regarding"], each["note"]) for each in told)
    assert (regarding["name"], regarding["uid"]) == ("r", run["metadata"]["uid"])
    assert note == f"order of {OWNER.username} refused: run r has not started"


async def events(up):
    return (await up.store.list(EVENT)).items
