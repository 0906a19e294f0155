"""The stores of simulated members: one file each, not all open concurrently.

A store is opened on first use and remains open. If too many are open, the ones that have been idle longest are closed,
so that a thousand members do not hold a thousand files. In-memory stores are never closed, because that would empty
them.
"""

from collections import ChainMap, OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from scorer.api.kinds import APPLIED_WORK, KINDS, NAMESPACE, Kind
from scorer.api.meta import JsonObject
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import (
    AlreadyExistsError,
    ConflictError,
    Key,
    Listing,
    NotFoundError,
    ServedKinds,
    StoreError,
    WatchEvent,
    key_of,
)
from webhook.member.apply.retained_fields import whole_object
from webhook.member.apply.three_way_merge import last_applied, three_way_merge
from webhook.member.objects.owner_references import owners, with_owners
from webhook.member.store.ports import MemberStore

RETAINED = 256
"""Number of old versions that a watch on a member's store can resume. Small, because no client watches it."""


@dataclass(slots=True)
class _Open:
    store: EmbeddedStore
    users: int = 0


class MemberStores:
    """Opens the stores of members on demand.

    Args:
        folder: Directory of the files, ``<name>.db``. None: unset, in memory.
        now: The clock of the stores.
        limit: Maximum number of open files. Only files in use may exceed it.
    """

    def __init__(self, folder: Path | None, now: Callable[[], datetime], limit: int) -> None:
        self._folder = folder
        self._now = now
        self._limit = limit
        self._open: OrderedDict[str, _Open] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def exists(self, name: str) -> bool:
        """Return whether the member has a store, without opening it."""
        return name in self._open or (self._folder is not None and self._path(self._folder, name).exists())

    @asynccontextmanager
    async def use(self, name: str) -> AsyncIterator[EmbeddedStore]:
        """Open the store of a member, and keep it open while the block runs.

        Raises:
            StoreError: The file cannot be opened.
        """
        entry = self._open.get(name) or self._opened(name)
        entry.users += 1  # before the first await: another user that finishes in the meantime must not close it
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
        entry = self._open[name] = _Open(EmbeddedStore.open(path, now=self._now, retention=RETAINED))
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
    """Create the objects that every new cluster has."""
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    try:
        await store.create(NAMESPACE, document)
    except AlreadyExistsError:  # two workers opened the store concurrently
        return


class ObservedStore(MemberStore):
    """A member's store as its agent sees it: records the agent's writes, and may refuse them.

    Server-side apply is a merge over the manifest that the object keeps. Field managers are not distinguished, so there
    are no conflicts.

    Args:
        store: The underlying store.
        refuses: Message of the refusal of every object except AppliedWorks. Empty: disabled.
    """

    def __init__(self, store: EmbeddedStore, refuses: str = "") -> None:
        self._store = store
        self._refuses = refuses
        self._served = _StoredKindsServed(store)
        self.written: dict[tuple[Kind, Key], None] = {}
        self.deleted = False

    @property
    def served(self) -> ServedKinds:
        """See `MemberStore.served`."""
        return self._served

    async def get(self, kind: Kind, key: Key) -> JsonObject:
        """See `Store.get`."""
        return await self._store.get(self._stored(kind), key)

    async def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> Listing:
        """See `Store.list`."""
        return await self._store.list(self._stored(kind), namespace, labels)

    def watch(self, kind: Kind, since: str, namespace: str | None = None) -> AsyncIterator[WatchEvent]:
        """See `Store.watch`."""
        return self._store.watch(self._stored(kind), since, namespace)

    async def create(self, kind: Kind, document: JsonObject) -> JsonObject:
        """See `Store.create`."""
        self._check(kind)
        return self._note(kind, await self._store.create(self._stored(kind), document))

    async def replace(self, kind: Kind, document: JsonObject, *, dry_run: bool = False) -> JsonObject:
        """See `MemberStore.replace`."""
        if dry_run:
            return await self._store.replace(self._stored(kind), document, dry_run=True)
        self._check(kind)
        return self._note(kind, await self._store.replace(self._stored(kind), document))

    async def replace_metadata(self, kind: Kind, document: JsonObject) -> JsonObject:
        """See `Store.replace_metadata`."""
        self._check(kind)
        return self._note(kind, await self._store.replace_metadata(self._stored(kind), document))

    async def replace_status(self, kind: Kind, document: JsonObject) -> JsonObject:
        """See `Store.replace_status`."""
        return await self._store.replace_status(self._stored(kind), document)

    async def apply(
        self,
        kind: Kind,
        document: JsonObject,
        *,
        manager: str,  # noqa: ARG002 - see above
        force: bool,  # noqa: ARG002
        dry_run: bool = False,
    ) -> JsonObject:
        """See `MemberStore.apply`."""
        try:
            live = await self.get(kind, key_of(document))
        except NotFoundError:
            return document if dry_run else await self.create(kind, document)
        metadata = document["metadata"]
        for member in ("uid", "resourceVersion"):
            if metadata.get(member, live["metadata"][member]) != live["metadata"][member]:
                raise ConflictError(f"{kind.kind} {key_of(document)} is not the object, or the version, that was read")
        result = three_way_merge(kind, last_applied(live), whole_object(document, live), live)
        references = {owner["uid"]: owner for owner in (*owners(live), *owners(document))}
        if references:
            result = with_owners(result, list(references.values()))
        if dry_run or result == live:
            return result
        return await self.replace(kind, result)

    async def delete(
        self,
        kind: Kind,
        key: Key,
        *,
        uid: str = "",
        resource_version: str = "",
        foreground: bool = False,  # noqa: ARG002 - the same transaction deletes the dependents
    ) -> None:
        """See `MemberStore.delete`."""
        self.deleted = True
        await self._store.delete(self._stored(kind), key, uid=uid, resource_version=resource_version)

    def _stored(self, kind: Kind) -> Kind:
        """Return the kind as the store has it: the store keeps objects in its preferred version."""
        return self._store.kinds.find(*kind.group_kind) or kind

    def _check(self, kind: Kind) -> None:
        if self._refuses and kind.group_kind != APPLIED_WORK.group_kind:
            raise StoreError(self._refuses)

    def _note(self, kind: Kind, document: JsonObject) -> JsonObject:
        self.written[self._stored(kind), key_of(document)] = None
        return document


class _StoredKindsServed:
    """The kinds of an embedded store, always up to date."""

    silent: frozenset[str] = frozenset()

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    @property
    def kinds(self) -> Mapping[tuple[str, str], Kind]:
        """See `ServedKinds.kinds`."""
        return ChainMap(KINDS, self._store.kinds.custom)  # type: ignore[arg-type]  # it is only read

    async def refresh(self) -> None:
        """See `ServedKinds.refresh`."""
