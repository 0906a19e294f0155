"""The queue of large answers: its limits, in total and for one caller."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from webhook.answers.one_at_a_time import MOST_OF_ONE, MOST_WAITING, OneAtATime, PlannerBusyError


async def test_one_caller_leaves_room_for_others():
    queue, order = OneAtATime(), []

    async def plan(caller):
        async with queue.acquire(caller):
            order.append(caller)

    async with asyncio.TaskGroup() as group, AsyncExitStack() as running:
        await running.enter_async_context(queue.acquire("shop"))
        for caller in [*["shop"] * MOST_OF_ONE, *["dock"] * (MOST_WAITING - MOST_OF_ONE - 1)]:
            group.create_task(plan(caller))
        await asyncio.sleep(0)
        with pytest.raises(PlannerBusyError, match=f"^{MOST_OF_ONE} plans of shop are already waiting$"):
            await plan("shop")
        group.create_task(plan("jane"))
        await asyncio.sleep(0)
        with pytest.raises(PlannerBusyError, match=f"^{MOST_WAITING} other plans are already waiting$"):
            await plan("jim")
        await running.aclose()
    assert order[-1] == "jane"
    assert len(order) == MOST_WAITING
    await plan("shop")
