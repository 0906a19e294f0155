"""What is due when, and one at a time."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from tests.sleeping_clock import SleepingClock
from webhook.member.works.queue import DelayingQueue

START = datetime(2026, 3, 1, tzinfo=UTC)


class Clock(SleepingClock):
    """A clock after whose every step all that it woke has run."""

    async def advance(self, seconds):
        await super().advance(seconds)
        await breathe()


async def breathe():
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
async def clock():
    return Clock(START)


@pytest.fixture
async def agenda(clock):
    agenda = DelayingQueue(clock.now, clock.sleep)
    task = asyncio.create_task(agenda.run())
    yield agenda
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def ready(agenda):
    """Return what is handed out right now, in order, and give it back."""
    found = []
    while True:
        try:
            async with asyncio.timeout(0.01):
                found.append(await agenda.take())
        except TimeoutError:
            break
    for entry in found:
        agenda.done(entry)
    return found


async def test_entries_come_once_in_order(agenda):
    for entry in "abab":
        agenda.add(entry)
    assert await ready(agenda) == ["a", "b"]
    assert not agenda.busy


async def test_an_entry_that_is_handled_comes_again_afterwards(agenda):
    agenda.add("a")
    assert await agenda.take() == "a"
    agenda.add("a")
    agenda.add("a")
    agenda.add_at("a", START + timedelta(seconds=5))
    assert await ready(agenda) == []
    agenda.done("a")
    assert await ready(agenda) == ["a"]
    assert len(agenda) == 0


async def test_later_entries_wait_for_their_time(agenda, clock):
    agenda.add_at("late", START + timedelta(seconds=60))
    agenda.add_at("soon", START + timedelta(seconds=5))
    await breathe()
    assert await ready(agenda) == []
    await clock.advance(5)
    assert await ready(agenda) == ["soon"]
    await clock.advance(54)
    assert await ready(agenda) == []
    await clock.advance(1)
    assert await ready(agenda) == ["late"]


async def test_the_earlier_of_two_times_counts(agenda, clock):
    agenda.add_at("a", START + timedelta(seconds=60))
    await breathe()
    agenda.add_at("a", START + timedelta(seconds=5))
    agenda.add_at("a", START + timedelta(seconds=30))
    await breathe()
    await clock.advance(5)
    assert await ready(agenda) == ["a"]
    await clock.advance(100)
    assert await ready(agenda) == []


async def test_what_is_handled_now_is_not_due_later(agenda, clock):
    agenda.add_at("a", START + timedelta(seconds=5))
    agenda.add("a")
    assert await ready(agenda) == ["a"]
    await clock.advance(10)
    assert await ready(agenda) == []


async def test_forgotten_entries_do_not_come(agenda, clock):
    agenda.add("now")
    agenda.add_at("later", START + timedelta(seconds=5))
    agenda.forget("now")
    agenda.forget("later")
    await clock.advance(10)
    assert await ready(agenda) == []
    agenda.add("now")
    assert await ready(agenda) == ["now"]
    assert len(agenda) == 0
