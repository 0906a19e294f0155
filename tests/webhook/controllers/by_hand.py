"""The hub by hand: one reconcile at a time, in any order, by a process that may die at any write."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TypeVar

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from tests.waiting import until
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import Key, Listing, Store, WatchEvent
from webhook.kube.work_signing_keys import WorkKeys

T = TypeVar("T")


class CrashError(Exception):
    """The process is gone."""


@contextmanager
def opened() -> Iterator[EmbeddedStore]:
    """An empty store in memory, for as long as it is needed."""
    store = EmbeddedStore.open(None)
    try:
        yield store
    finally:
        store.close()


class Served:
    """The kinds of a hub that serves what it is told."""

    silent: frozenset[str] = frozenset()

    def __init__(self, *kinds: Kind) -> None:
        self._kinds = {kind.group_kind: kind for kind in kinds}

    @property
    def kinds(self) -> Mapping[tuple[str, str], Kind]:
        return self._kinds

    async def refresh(self) -> None:
        raise NotImplementedError


class MortalStore(Store):
    """A store as one process sees it, up to the write at which it dies; statuses stored behind are no such writes."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.inner = store
        self.writes_left: int | None = None
        self.last_one_lands = False
        """Whether the write at which it dies is stored, and only the answer is lost."""
        self.dead = False
        self.before_write: Callable[[str, Kind, JsonObject | Key], Awaitable[None]] | None = None

    async def get(self, kind: Kind, key: Key) -> JsonObject:
        self._check()
        return await self.inner.get(kind, key)

    async def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> Listing:
        self._check()
        return await self.inner.list(kind, namespace, labels)

    def watch(self, kind: Kind, since: str, namespace: str | None = None) -> AsyncIterator[WatchEvent]:
        self._check()
        return self.inner.watch(kind, since, namespace)

    async def create(self, kind: Kind, document: JsonObject) -> JsonObject:
        return await self._write("create", kind, document, lambda: self.inner.create(kind, document))

    async def replace(self, kind: Kind, document: JsonObject) -> JsonObject:
        return await self._write("replace", kind, document, lambda: self.inner.replace(kind, document))

    async def replace_metadata(self, kind: Kind, document: JsonObject) -> JsonObject:
        return await self._write("replace", kind, document, lambda: self.inner.replace_metadata(kind, document))

    async def replace_status(self, kind: Kind, document: JsonObject) -> JsonObject:
        self._check()
        return await self.inner.replace_status(kind, document)

    async def delete(self, kind: Kind, key: Key, *, uid: str = "", resource_version: str = "") -> None:
        preconditions = {"uid": uid, "resource_version": resource_version}
        await self._write("delete", kind, key, lambda: self.inner.delete(kind, key, **preconditions))

    async def _write(self, verb: str, kind: Kind, subject: JsonObject | Key, write: Callable[[], Awaitable[T]]) -> T:
        self._check()
        if self.before_write is not None:
            await self.before_write(verb, kind, subject)
        if self.writes_left is None:
            return await write()
        if self.writes_left > 0:
            self.writes_left -= 1
            return await write()
        self.dead = True
        if self.last_one_lands:
            await write()
        raise CrashError

    def _check(self) -> None:
        if self.dead:
            raise CrashError


class Life:
    """One process: a cache that hears of the store when it is told to, and its own writes at once."""

    def __init__(self, store: EmbeddedStore, kinds: Iterable[Kind]) -> None:
        self.store = MortalStore(store)
        self.cache = Cache(self.store)
        self.hub = Hub(self.store, self.cache)
        self.keys = WorkKeys(self.store, "")
        self.keys.current = (b"a key that all lives share, 32 bytes",)
        self._kinds = tuple(kinds)
        self._writer = asyncio.create_task(self.hub.run())

    async def hear(self) -> None:
        """Take in everything as it is stored now."""
        for kind in self._kinds:
            shelf = self.cache.of_kind(kind)
            listing = await self.store.list(kind)
            shelf.replace_all(map(shelf.reduced, listing.items), listing.resource_version)
            shelf.synced.set()

    async def settle(self) -> None:
        """Wait until every reported status is stored."""
        await until(lambda: self.hub.idle)

    async def end(self) -> None:
        """Die: what was reported and is not stored is lost."""
        self._writer.cancel()
        with suppress(asyncio.CancelledError, CrashError, BaseExceptionGroup):
            await self._writer


@asynccontextmanager
async def life(store: EmbeddedStore, *kinds: Kind) -> AsyncIterator[Life]:
    """Let a process live; it has heard of everything there is."""
    process = Life(store, kinds)
    try:
        await process.hear()
        yield process
    finally:
        await process.end()
