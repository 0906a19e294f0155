"""A hub with one pool of six nodes, of which two may go, and two replicas that answer for it."""

import pytest

from tests.waiting import until
from tests.webhook.gate.gates import Clock, empty_store, put_pool, replica


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def store():
    opened = await empty_store()
    await put_pool(opened, "batch", 6, {"nodes": "2"})
    yield opened
    opened.close()


@pytest.fixture
async def gates(store, clock):
    async with replica(store, clock) as made:
        await until(lambda: made.nodes.view("batch") is not None and made.nodes.view("batch").counts().total == 6)
        yield made


@pytest.fixture
async def other(store, clock):
    async with replica(store, clock) as made:
        await until(lambda: made.nodes.view("batch") is not None and made.nodes.view("batch").counts().total == 6)
        yield made
