"""How `up` ends when one of its parts does, which only a bug can make it do."""

import asyncio

import pytest

from tests.waiting import PATIENCE_SECONDS
from tests.webhook.services import LISTENERS
from webhook.processes.up import Up
from webhook.settings.programs import UpSettings


async def test_an_error_of_the_server_is_told(tmp_path, monkeypatch):
    async with Up(UpSettings(**LISTENERS), tmp_path / "data") as up:

        async def fail():
            raise RuntimeError("housekeeping failed")

        monkeypatch.setattr(up.server.certificates, "run", fail)
        await up.server.stop()
        await up.server.start()
        with pytest.raises(ExceptionGroup) as error:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await up.wait()
        assert error.group_contains(RuntimeError, match="housekeeping failed")


async def test_while_all_goes_well_it_goes_on_and_a_stop_is_no_error(tmp_path):
    async with Up(UpSettings(**LISTENERS), tmp_path / "data") as up:
        waiting = asyncio.create_task(up.wait())
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await up.server.stop()
        await waiting
