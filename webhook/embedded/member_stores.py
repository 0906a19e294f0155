"""The stores of simulated members: one file each, open only while they are needed.

A store is opened by its first user and stays open afterwards, until more than a number of them are:
then those that were idle for longest are closed again, so a thousand members do not hold a thousand
files. Stores in memory are never closed, since that would empty them.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from scorer.api.kinds import APPLIED_WORK, NAMESPACE, Kind
from scorer.api.meta import JsonObject
from webhook.embedded.store import EmbeddedStore
from webhook.kube.ports import AlreadyExistsError, Key, Listing, Store, StoreError, WatchEvent, key_of

RETAINED = 256
"""Versions that a store of a member keeps for resuming; few, since nothing watches it."""


@dataclass(slots=True)
class _Open:
    store: EmbeddedStore
    users: int = 0


class MemberStores:
    """Opens the store of a member when somebody needs it.

    Args:
        folder: Where the files are, ``<name>.db``; None: in memory.
        now: The clock of the stores.
        limit: How many files may stay open while nobody uses them.
    """

    def __init__(self, folder: Path | None, now: Callable[[], datetime], limit: int) -> None:
        self._folder = folder
        self._now = now
        self._limit = limit
        self._open: OrderedDict[str, _Open] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def exists(self, name: str) -> bool:
        """Say whether the member has a store, without opening it."""
        return name in self._open or (self._folder is not None and self._path(self._folder, name).exists())

    @asynccontextmanager
    async def use(self, name: str) -> AsyncIterator[EmbeddedStore]:
        """Keep the store of a member open for a while.

        Raises:
            StoreError: The file cannot be opened.
        """
        entry = self._open.get(name) or self._opened(name)
        entry.users += 1
        self._open.move_to_end(name)
        try:
            if not len(entry.store):
                await _furnish(entry.store)
            yield entry.store
        finally:
            entry.users -= 1
            self._close_idle()

    def _opened(self, name: str) -> _Open:
        path = self._path(self._folder, name) if self._folder is not None else None
        entry = self._open[name] = _Open(EmbeddedStore.open(path, now=self._now, retained=RETAINED))
        return entry

    @staticmethod
    def _path(folder: Path, name: str) -> Path:
        return folder / f"{name}.db"

    def _close_idle(self) -> None:
        if self._folder is None:
            return
        surplus = len(self._open) - self._limit
        for name in [name for name, entry in self._open.items() if not entry.users][: max(0, surplus)]:
            self._open.pop(name).store.close()

    def close(self) -> None:
        """Close all stores."""
        for entry in self._open.values():
            entry.store.close()
        self._open.clear()


async def _furnish(store: EmbeddedStore) -> None:
    """Give a new cluster what every cluster has."""
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    try:
        await store.create(NAMESPACE, document)
    except AlreadyExistsError:
        return


class ObservedStore(Store):
    """A member's store as its agent sees it: tells what was written, and may refuse to be written to.

    Args:
        store: The store itself.
        refuses: Message with which every object is refused; the agent's own books are kept all the same.
    """

    def __init__(self, store: Store, refuses: str = "") -> None:
        self._store = store
        self._refuses = refuses
        self.written: dict[tuple[Kind, Key], None] = {}
        self.deleted = False

    async def get(self, kind: Kind, key: Key) -> JsonObject:
        """See `Store.get`."""
        return await self._store.get(kind, key)

    async def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> Listing:
        """See `Store.list`."""
        return await self._store.list(kind, namespace, labels)

    def watch(self, kind: Kind, since: str) -> AsyncIterator[WatchEvent]:
        """See `Store.watch`."""
        return self._store.watch(kind, since)

    async def create(self, kind: Kind, document: JsonObject) -> JsonObject:
        """See `Store.create`."""
        self._check(kind)
        return self._note(kind, await self._store.create(kind, document))

    async def replace(self, kind: Kind, document: JsonObject) -> JsonObject:
        """See `Store.replace`."""
        self._check(kind)
        return self._note(kind, await self._store.replace(kind, document))

    async def replace_status(self, kind: Kind, document: JsonObject) -> JsonObject:
        """See `Store.replace_status`."""
        return await self._store.replace_status(kind, document)

    async def delete(self, kind: Kind, key: Key, *, uid: str = "", resource_version: str = "") -> None:
        """See `Store.delete`."""
        self.deleted = True
        await self._store.delete(kind, key, uid=uid, resource_version=resource_version)

    def _check(self, kind: Kind) -> None:
        if self._refuses and kind != APPLIED_WORK:
            raise StoreError(self._refuses)

    def _note(self, kind: Kind, document: JsonObject) -> JsonObject:
        self.written[kind, key_of(document)] = None
        return document
