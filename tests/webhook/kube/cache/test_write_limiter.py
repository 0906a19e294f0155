"""The slots of writes: who waits goes by what the write is for, and then by when it came."""

import asyncio

import pytest

from scorer.api.kinds import BINDING, PLACEMENT, RESOURCE_SNAPSHOT, WORK
from webhook.kube.cache.write_limiter import WriteSlots


class Writers:
    """Writers that hold a slot until they are told to give it back."""

    def __init__(self, number):
        self.slots = WriteSlots(number)
        self.held = []
        self._tasks = {}
        self._ends = {}

    async def come(self, *names, kind=PLACEMENT):
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._write(name, kind))
            await asyncio.sleep(0)

    async def _write(self, name, kind):
        async with self.slots.acquire(kind):
            self.held.append(name)
            await self._ends[name].wait()

    async def go(self, name):
        self._ends[name].set()
        await self._tasks[name]
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def cancel(self, name):
        self._tasks[name].cancel()
        await asyncio.wait([self._tasks[name]])
        await asyncio.sleep(0)


async def test_as_many_as_there_are_slots_write_at_once():
    writers = Writers(2)
    await writers.come("a", "b", "c")
    assert writers.held == ["a", "b"]
    await writers.go("b")
    assert writers.held == ["a", "b", "c"]


async def test_what_ends_something_goes_before_what_begins_something_else():
    writers = Writers(1)
    await writers.come("first")
    await writers.come("snapshot", kind=RESOURCE_SNAPSHOT)
    await writers.come("binding", "other-binding", kind=BINDING)
    await writers.come("work", kind=WORK)
    for name in ("first", "work", "binding", "other-binding", "snapshot"):
        await writers.go(name)
    assert writers.held == ["first", "work", "binding", "other-binding", "snapshot"]


@pytest.mark.parametrize("given", [False, True], ids=["waiting", "given-a-slot-at-that-moment"])
async def test_a_writer_that_is_cancelled_leaves_its_slot_to_the_next(given):
    writers = Writers(1)
    await writers.come("a", "b", "c")
    if given:
        writers._ends["a"].set()
        await asyncio.sleep(0)  # its slot is that of "b" now, which has not been told yet
        assert writers._tasks["a"].done()
    await writers.cancel("b")
    if not given:
        await writers.go("a")
    await asyncio.sleep(0)
    assert writers.held == ["a", "c"]
    await writers.go("c")
    await writers.come("d")
    assert writers.held == ["a", "c", "d"]
