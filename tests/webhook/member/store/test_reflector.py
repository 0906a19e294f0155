"""List, then watch, for ever."""

import asyncio
import weakref
from contextlib import suppress

import pytest

from scorer.api.kinds import KINDS, NAMESPACE
from tests.waiting import PATIENCE_SECONDS
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import ExpiredError, ForbiddenError, Listing, StoreError, UnavailableError
from webhook.member.store.reflector import REFUSED_SECONDS, RETRY_SECONDS, follow

CONFIG_MAP = KINDS["", "ConfigMap"]


class Ear:
    """Writes down what it hears."""

    def __init__(self):
        self.heard = []

    def listed(self, items):
        self.heard.append(["list", *(item["metadata"]["name"] for item in items)])

    def changed(self, event):
        self.heard.append([event.type.value, event.document["metadata"]["name"]])

    def failed(self, error):
        self.heard.append(["failed", str(error)])


class Document(dict):
    """A document that can be watched for being freed."""


class Listed:
    """A store that lists one document, and whose watches bring nothing."""

    def __init__(self):
        self.watching = asyncio.Event()
        self.document = lambda: None

    async def list(self, *_):
        document = Document(metadata={"name": "a"})
        self.document = weakref.ref(document)
        return Listing([document], "1")

    async def watch(self, *_):
        self.watching.set()
        await asyncio.Event().wait()
        yield None


class Failing:
    """A store that fails so many times before it answers."""

    def __init__(self, store, *errors):
        self._store, self._errors = store, list(errors)

    async def list(self, *args):
        if self._errors:
            raise self._errors.pop(0)
        return await self._store.list(*args)

    def watch(self, *args):
        return self._store.watch(*args)


@pytest.fixture
async def store():
    opened = EmbeddedStore.open(None)
    for name in ("a", "b"):
        await opened.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield opened
    opened.close()


async def put(store, name, namespace):
    metadata = {"name": name, "namespace": namespace}
    await store.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


async def run(store, ear, until, **options):
    """Follow until *ear* has heard so much."""
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    task = asyncio.create_task(follow(store, CONFIG_MAP, ear, sleep=sleep, **options))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not until():
            await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return waits


async def test_one_namespace_is_told_of(store):
    await put(store, "here", "a")
    await put(store, "there", "b")
    ear = Ear()

    async def more():
        while not ear.heard:
            await asyncio.sleep(0)
        await put(store, "there-too", "b")
        await put(store, "here-too", "a")

    task = asyncio.create_task(more())
    await run(store, ear, lambda: len(ear.heard) == 2, namespace="a")
    await task
    assert ear.heard == [["list", "here"], ["ADDED", "here-too"]]


async def test_changes_only_lists_nothing(store):
    await put(store, "old", "a")
    ear = Ear()

    async def more():
        while not ear.heard:
            await asyncio.sleep(0)
        await put(store, "new", "a")

    task = asyncio.create_task(more())
    await run(store, ear, lambda: len(ear.heard) == 2, changes_only=True)
    await task
    assert ear.heard == [["list"], ["ADDED", "new"]]


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        pytest.param(UnavailableError("down"), RETRY_SECONDS, id="an-outage"),
        pytest.param(ForbiddenError("no"), REFUSED_SECONDS, id="no-right"),
    ],
)
async def test_failures_are_waited_out_longer_and_longer_and_said_once(store, caplog, error, waits):
    ear, count = Ear(), len(waits) + 2
    waited = await run(Failing(store, *[error] * count), ear, lambda: ear.heard[-1:] == [["list"]])
    assert waited == [*waits, waits[-1], waits[-1]]
    assert ear.heard[:-1] == [["failed", str(error)]] * count
    assert [record.message for record in caplog.records] == ["watch failed"]


async def test_what_has_expired_is_listed_again_at_once(store):
    ear = Ear()
    assert await run(Failing(store, ExpiredError("old"), ExpiredError("old")), ear, lambda: ear.heard) == []
    assert ear.heard == [["list"]]


async def test_a_mistake_of_ours_is_not_swallowed(store):
    with pytest.raises(RuntimeError):
        await follow(Failing(store, RuntimeError()), CONFIG_MAP, Ear())
    assert not issubclass(RuntimeError, StoreError)


async def test_a_list_is_not_kept_while_what_follows_is_watched():
    class Deaf(Ear):
        def listed(self, items):
            assert items == [{"metadata": {"name": "a"}}]

    store = Listed()
    task = asyncio.create_task(follow(store, CONFIG_MAP, Deaf()))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await store.watching.wait()
    assert store.document() is None
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
