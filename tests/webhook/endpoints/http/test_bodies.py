"""Who has to give memory back, and when; over connections: `test_server`."""

import asyncio
from dataclasses import dataclass, field

import pytest

from tests.webhook.endpoints.conftest import wait_until
from webhook.endpoints.http.bodies import Bodies, BodyMemoryError


class Content:
    """A body that comes as it is told to."""

    def __init__(self):
        self.chunks = asyncio.Queue()

    def is_eof(self):
        return False

    async def readany(self):
        return await self.chunks.get()


@dataclass
class Request:
    remote: str
    content: Content = field(default_factory=Content)
    content_length: None = None


async def test_one_whose_time_is_up_already_gives_its_memory_to_another():
    """Its timer has gone off, and it has not had its turn since."""
    memory = Bodies(1000)
    slow, honest = Request("192.0.2.6"), Request("192.0.2.1")

    async def read(request, *, vouched):
        async with memory.read(request, 10_000, 60, vouched=vouched) as body:
            return len(body)

    tasks = [asyncio.ensure_future(read(slow, vouched=False)), asyncio.ensure_future(read(honest, vouched=True))]
    slow.content.chunks.put_nowait(b"x" * 700)
    await wait_until(lambda: memory.held == 700)
    honest.content.chunks.put_nowait(b"y" * 600)
    next(iter(memory._unfinished)).patience._on_timeout()  # in the same turn of the loop, after the chunk
    honest.content.chunks.put_nowait(b"")
    assert await tasks[1] == 600
    with pytest.raises(BodyMemoryError):
        await tasks[0]
    assert memory.held == 0
