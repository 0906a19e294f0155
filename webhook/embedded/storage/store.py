"""The embedded store: the semantics of an API server in one process over one SQLite file.

Reads are served from memory. A write is checked against memory and takes the next resource version. A write and its
consequences are one transaction of the journal, so a killed process leaves all of it or nothing. The consequences are
the deletion of dependents and content, and of a namespace or definition that was waiting for that.

A write is in the journal before its caller continues, so it survives a kill of the process. Watchers see a write only
after that. In write-ahead mode, a write costs a few tens of microseconds, so writes are not batched.

Deliberate differences from an API server: those that `webhook.kube.ports.Store` lists, owners are found by uid alone,
and the oldest Events are deleted if there are more than `MOST_EVENTS`.
"""

import asyncio
import secrets
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import orjson

from scorer.api.kinds import NAMESPACE, Kind
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import labels_of
from webhook.embedded.storage import lifecycle
from webhook.embedded.storage.journal import RETAINED, Journal, KindId
from webhook.embedded.storage.kinds import DEFINITION, StoredKinds
from webhook.embedded.storage.lifecycle import Propagation
from webhook.embedded.storage.object_table import ObjectIndex
from webhook.embedded.storage.transaction import WriteTransaction
from webhook.embedded.storage.watcher import LabelTest, Watcher
from webhook.kube.ports import (
    AlreadyExistsError,
    ExpiredError,
    ForbiddenError,
    InvalidObjectError,
    Key,
    Listing,
    NotFoundError,
    Store,
    StoreError,
    key_of,
)

MOST_EVENTS: Final = 1000
"""Maximum number of Events (of both groups together) that a store keeps. Those written last are kept."""

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_NAME_ATTEMPTS: Final = 8


class NamespaceTerminatingError(ForbiddenError):
    """No object can be created in a namespace that is being deleted."""


def utc_now() -> datetime:
    """Return the time of the wall clock."""
    return datetime.now(UTC)


def random_suffix(length: int) -> str:
    """Return random characters for a generated name, without vowels and look-alikes."""
    return "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(length))


class EmbeddedStore(Store):
    """An open store, see `Store` for the contract of its methods.

    Not thread-safe. With ``dry_run`` a write checks everything and stores nothing.
    """

    def __init__(self, journal: Journal, now: Callable[[], datetime], most_events: int) -> None:
        self._journal = journal
        self._now = now
        self._most_events = most_events
        self._table = ObjectIndex()
        self._watchers: dict[KindId, weakref.WeakSet[Watcher]] = {}
        self._closed = False
        self.kinds = StoredKinds()

    @classmethod
    def open(
        cls,
        path: Path | None,
        *,
        now: Callable[[], datetime] = utc_now,
        retention: int = RETAINED,
        most_events: int = MOST_EVENTS,
    ) -> "EmbeddedStore":
        """Open the store in a file, creating it if needed.

        Args:
            path: The file. SQLite keeps a second one alongside it while the store is open. None means memory only.
            now: The clock for ``creationTimestamp`` and ``deletionTimestamp``.
            retention: Number of old versions that a watch can resume.
            most_events: Maximum number of Events.

        Raises:
            StoreError: The file is of a newer schema, not ours, damaged, in use, or not accessible.
        """
        journal = Journal.open(path, retention=retention)
        store = cls(journal, now, most_events)
        try:
            store._load()
        except ValueError as error:
            journal.close()
            raise StoreError(
                f"cannot read {path}: an object in it is damaged ({error}). Restore it from a copy"
            ) from error
        except StoreError:
            journal.close()
            raise
        return store

    def close(self) -> None:
        """Release the file and stop all watches. A second call is a no-op."""
        self._closed = True
        for watchers in self._watchers.values():
            for watcher in tuple(watchers):
                watcher.end("the store was closed")
        self._journal.close()

    @property
    def resource_version(self) -> str:
        """The newest resource version."""
        return str(self._journal.version)

    def __len__(self) -> int:
        return len(self._table)

    def objects(self, kind: Kind) -> Sequence[JsonObject]:
        """Return the objects of *kind*, sorted by namespace and name.

        Synchronous, for callers that cannot await: admission rules.

        Raises:
            StoreError: The store is closed.
        """
        self._check_open()
        return self._table.documents(kind.group_kind)

    def _load(self) -> None:
        for _, kind, body in self._journal.load():
            document = orjson.loads(body)
            self._table.store(kind, key_of(document), document)
            if kind == DEFINITION:
                self.kinds.define(document)

    async def get(self, kind: Kind, key: Key) -> JsonObject:
        """See `Store.get`."""
        return self._existing(kind, key)

    async def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> Listing:
        """See `Store.list`."""
        self._check_open()
        items = self._table.documents(kind.group_kind, namespace)
        if labels:
            pairs = labels.items()
            items = [document for document in items if pairs <= labels_of(document).items()]
        return Listing(tuple(items), self.resource_version)

    def watch(
        self,
        kind: Kind,
        since: str,
        namespace: str | None = None,
        *,
        selects: LabelTest | None = None,
        bookmark_every: timedelta | None = None,
    ) -> Watcher:
        """See `Store.watch`. `ExpiredError` is raised by this call or, if the reader falls too far behind, later.

        Args:
            kind: The kind to watch.
            since: The last known resource version.
            namespace: Only objects in this namespace. None means all.
            selects: Objects whose labels enter the selection are ADDED, those that leave it DELETED.
            bookmark_every: Silence after which a bookmark is sent. None: disabled.
        """
        self._check_open()
        if not since.isascii() or not since.isdecimal() or len(since) > 19:
            raise ExpiredError(f"resource version {since[:64]!r} is not one of this store: list again")
        # The watcher reads past changes on construction, and there is no await before its registration, so no change is
        # missed in between.
        watcher = Watcher(self._journal, kind.group_kind, int(since), selects, bookmark_every, namespace)
        self._watchers.setdefault(kind.group_kind, weakref.WeakSet()).add(watcher)
        return watcher

    async def create(self, kind: Kind, document: JsonObject, *, dry_run: bool = False) -> JsonObject:
        """See `Store.create`. Raises `NotFoundError` or `NamespaceTerminatingError` for the namespace."""
        await self._turn()
        document = lifecycle.checked_new(kind, document)
        metadata = document["metadata"]
        namespace = metadata.get("namespace", "")
        if kind.namespaced:
            self._check_namespace(namespace)
        name = metadata.get("name") or self._generated_name(kind, metadata["generateName"], namespace)
        if self._table.get(kind.group_kind, Key(name, namespace)):
            raise AlreadyExistsError(f"{kind.kind} {Key(name, namespace)} already exists")
        first = lifecycle.created(kind, document, name=name, uid=str(uuid.uuid4()), now=self._now())
        return first if dry_run else self._store(kind, first)

    async def replace(self, kind: Kind, document: JsonObject, *, dry_run: bool = False) -> JsonObject:
        """See `Store.replace`."""
        await self._turn()
        current = self._existing(kind, _key_given(kind, document))
        changed = lifecycle.replaced(kind, current, document)
        return changed if dry_run or changed is current else self._store(kind, changed)

    async def replace_metadata(self, kind: Kind, document: JsonObject) -> JsonObject:
        """See `Store.replace_metadata`."""
        await self._turn()
        current = self._existing(kind, _key_given(kind, document))
        changed = lifecycle.metadata_replaced(kind, current, document)
        return changed if changed is current else self._store(kind, changed)

    async def replace_status(self, kind: Kind, document: JsonObject, *, dry_run: bool = False) -> JsonObject:
        """See `Store.replace_status`. Raises `NotFoundError` for a kind without a status subresource."""
        await self._turn()
        if not kind.has_status:
            raise NotFoundError(f"{kind.kind} has no status subresource")
        current = self._existing(kind, _key_given(kind, document))
        changed = lifecycle.status_replaced(kind, current, document)
        return changed if dry_run or changed is current else self._store(kind, changed, is_shared=True)

    async def delete(
        self,
        kind: Kind,
        key: Key,
        *,
        uid: str = "",
        resource_version: str = "",
        dry_run: bool = False,
        propagation: Propagation | None = None,
    ) -> None:
        """See `Store.delete`. *propagation* is the policy for the dependents.

        None means the policy that the object's finalizers name, otherwise Background.
        """
        await self._turn()
        current = self._existing(kind, key)
        lifecycle.check_preconditions(kind, current, uid, resource_version)
        if not dry_run:
            with self._write() as write:
                write.delete(kind.group_kind, current, propagation)

    async def _turn(self) -> None:
        """Yield to other tasks before a write: a loop of writes would never yield otherwise.

        It yields before the checks of the write, not after: an await between the checks and the journal could
        invalidate them.
        """
        await asyncio.sleep(0)
        self._check_open()  # the store may have been closed in the meantime

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed")

    def _existing(self, kind: Kind, key: Key) -> JsonObject:
        self._check_open()
        document = self._table.get(kind.group_kind, key)
        if document is None:
            raise NotFoundError(f"{kind.kind} {key} not found")
        return document

    def _check_namespace(self, name: str) -> None:
        namespace = self._existing(NAMESPACE, Key(name))
        if "deletionTimestamp" in namespace["metadata"]:
            raise NamespaceTerminatingError(f"namespace {name} is being deleted: nothing can be created in it")

    def _generated_name(self, kind: Kind, prefix: str, namespace: str) -> str:
        for _ in range(_NAME_ATTEMPTS):
            name = lifecycle.generated_name(prefix, random_suffix)
            if self._table.get(kind.group_kind, Key(name, namespace)) is None:
                return name
        raise AlreadyExistsError(f"{kind.kind}: no free name found for generateName {prefix!r}. Try again")

    def _store(self, kind: Kind, document: JsonObject, *, is_shared: bool = False) -> JsonObject:
        with self._write() as write:
            return write.put(kind.group_kind, document, is_shared=is_shared)

    @contextmanager
    def _write(self) -> Iterator[WriteTransaction]:
        """Collect a write and its consequences. Store all and notify the watchers, or undo all and raise."""
        write = WriteTransaction(self._table, self.kinds, self._journal.version, self._now, self._most_events)
        try:
            yield write
            write.settle()
            if write.rows:
                self._journal.append(write.rows)
        except BaseException:
            write.undo()
            raise
        for row, change in zip(write.rows, write.changes, strict=True):
            if watchers := self._watchers.get(row.kind):
                for watcher in tuple(watchers):
                    watcher.offer(change)
        with suppress(StoreError):  # the write is safe, and a full disk fails the next one
            self._journal.compact()


def _key_given(kind: Kind, document: JsonObject) -> Key:
    """Return the key that an update names. Raises `InvalidObjectError` if a part of it is missing or no string."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}
    name, namespace = metadata.get("name"), metadata.get("namespace") or ""
    if not isinstance(name, str) or not isinstance(namespace, str):
        raise InvalidObjectError(f"{kind.kind} is invalid: metadata.name and metadata.namespace must be strings")
    return Key(name, namespace)
