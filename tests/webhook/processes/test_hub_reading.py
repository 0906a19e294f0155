"""Reading the hub of a kubeconfig, whose owner may lack rights."""

import asyncio

import pytest

from scorer.api.kinds import NODE, NODE_CLAIM, NODE_POOL
from tests.waiting import until
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import ForbiddenError
from webhook.processes import hub_reading
from webhook.processes.hub_reading import ReadForbiddenError, reading


class Denying:
    """A store that denies lists of node claims at once, and of nodes after *answer* is set."""

    def __init__(self, store):
        self._store = store
        self.answer = asyncio.Event()

    async def list(self, kind, namespace=None, labels=None):
        if kind == NODE:
            await self.answer.wait()
        if kind in (NODE, NODE_CLAIM):
            raise ForbiddenError(f"{kind.plural} is forbidden")
        return await self._store.list(kind, namespace, labels)

    def watch(self, kind, since, namespace=None):
        return self._store.watch(kind, since, namespace)


@pytest.fixture
def store():
    opened = EmbeddedStore.open(None)
    yield opened
    opened.close()


@pytest.fixture
def denying(store):
    return Denying(store)


@pytest.fixture
def cache(denying):
    cache = Cache(denying)
    cache.require([NODE, NODE_POOL, NODE_CLAIM])
    return cache


async def read(cache):
    async with reading(cache):
        pytest.fail("two kinds cannot be read")


async def test_a_refusal_names_every_kind_that_cannot_be_read(denying, cache, monkeypatch):
    """Whichever is denied first."""
    monkeypatch.setattr(hub_reading, "_POLL_SECONDS", 0)
    task = asyncio.create_task(read(cache))
    await until(lambda: cache.refusal(NODE_CLAIM))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not task.done()
    denying.answer.set()
    with pytest.raises(ReadForbiddenError) as refused:
        await task
    assert str(refused.value) == "nodes is forbidden; nodeclaims is forbidden"


async def test_a_kind_that_does_not_answer_hides_no_refusal(cache, monkeypatch):
    monkeypatch.setattr(hub_reading, "MORE_REFUSALS_SECONDS", 0)
    with pytest.raises(ReadForbiddenError, match=r"^nodeclaims is forbidden$"):
        await read(cache)
