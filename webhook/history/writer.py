"""Keeps the record of one process: collects what has happened, and writes it now and then.

Noting is cheap and never fails: admission does it between a verdict and its answer. Entries that repeat within one
interval are one entry with a count, so a client that is refused a thousand times leaves one line. What cannot be
written waits for the next time, within bounds; what is dropped then is said in the record itself.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

from scorer.api.event import Event
from scorer.api.kinds import CONFIG_MAP
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import name_of
from webhook.history.entry import EntryType, InvolvedObject, RecordEntry, entry, of_event
from webhook.history.record import (
    CHUNK_BYTES,
    LABELS,
    SHARES,
    STRETCHES,
    RecordSource,
    Retention,
    chunk_document,
    chunk_name,
    lines_of,
    size_of,
)
from webhook.kube.ports import ConflictError, NotFoundError, Store, StoreError, key_of

MOST_WAITING: Final = 1_000
"""How many different entries may wait to be written."""
MOST_OF_USER: Final = 100
"""How many of them one user may have caused."""
TIDY_EVERY: Final = timedelta(hours=1)
LAST_SECONDS: Final = 2.0
"""How long the end of a process may take to write what waits."""
DROPPED: Final = "EntriesDropped"

log = logging.getLogger(__name__)


class HistoryWriter:
    """Writes what has happened into ConfigMaps of its own.

    Args:
        store: The hub.
        namespace: Of the installation.
        source: What kind of process this is: what one kind writes never pushes out what another has written.
        instance: Which process this is; in a pod its name.
        retention: What of the record is kept, of all processes.
        interval: How often it is written at most.
        now: The clock.
    """

    def __init__(
        self,
        store: Store,
        namespace: str,
        source: RecordSource,
        instance: str,
        retention: Retention,
        interval: timedelta,
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._source = source
        self._instance = instance
        self._retention = retention
        self._interval = interval
        self._now = now
        self._waiting: dict[tuple[object, ...], RecordEntry] = {}
        self._of_user: Counter[str] = Counter()
        self._dropped = 0
        self._chunk: JsonObject | None = None
        self._stretch = now(), now()
        """When the ConfigMap that is written was begun, and when the last entry in it happened."""
        self._number = 0
        self._origin = uuid4().hex[:16]
        self._noted = 0
        self.writes = 0
        """How often it was written: what waited before is in the record now."""
        self._tidied: datetime | None = None
        self._bytes = 0
        """How much was written since then."""
        self._trouble = ""

    def note(self, kind: EntryType, about: InvolvedObject, reason: str, message: str, by: str = "") -> None:
        """Have something written down that has happened now."""
        self._take(entry(self._now(), kind, about, reason, message, by))

    def note_event(self, document: JsonObject, event: Event) -> None:
        """Have an Event written down that has happened now to *document*."""
        self._take(of_event(document, event, self._now()))

    def waiting(self) -> tuple[RecordEntry, ...]:
        """Return what is not written yet, oldest first."""
        return tuple(self._waiting.values())

    async def run(self) -> None:
        """Write until cancelled, then once more."""
        try:
            while True:
                await asyncio.sleep(self._interval.total_seconds())
                await self._write()
        finally:
            try:
                async with asyncio.timeout(LAST_SECONDS):
                    await self._write()
            except TimeoutError:
                log.warning("the end of the history was not written", extra={"entries": len(self._waiting)})

    def _take(self, found: RecordEntry) -> None:
        cached = self._waiting.get(found.identity)
        if cached is not None:
            self._waiting[found.identity] = cached.repeated(found.time)
        elif len(self._waiting) < MOST_WAITING and self._of_user[found.by] < MOST_OF_USER:
            self._waiting[found.identity] = self._named(found)
            self._of_user[found.by] += bool(found.by)
        else:
            self._dropped += 1

    def _named(self, found: RecordEntry) -> RecordEntry:
        """Return an entry with an id that no other has, in whatever process; those of one process sort by age."""
        self._noted += 1
        return found.named(f"{self._origin}-{self._noted:010}")

    async def _write(self) -> None:
        """Write what waits; what cannot be written goes on waiting."""
        try:
            await self.flush()
            if self._trouble:
                log.info("the history is written again")
            self._trouble = ""
        except StoreError as error:
            if str(error) != self._trouble:
                log.warning("the history cannot be written", extra={"error": str(error)})
            self._trouble = str(error)

    async def flush(self) -> None:
        """Write what waits, and let go of what is too old.

        Raises:
            StoreError: The hub does not take it; everything goes on waiting.
        """
        written, dropped = tuple(self._waiting.items()), self._dropped
        if written or dropped:
            told = [each for _, each in written]
            if dropped:
                told.append(self._loss(dropped))
            await self._append([each.line() for each in told], max(each.until for each in told))
            self.writes += 1
            self._dropped -= dropped
            for identity, each in written:
                if (known := self._waiting[identity]) is each:
                    del self._waiting[identity]
                else:  # repeated meanwhile: what is on record is not told again
                    self._waiting[identity] = self._named(_since(known, each))
            self._of_user = Counter(each.by for each in self._waiting.values() if each.by)
        if self._is_untidy():
            await self.delete_expired()

    def _loss(self, dropped: int) -> RecordEntry:
        """Return the entry that says how many others there are not."""
        about = InvolvedObject(CONFIG_MAP.kind, self._instance, self._namespace)
        message = f"{dropped} further entries of {self._instance} were dropped: too many at once"
        return self._named(entry(self._now(), EntryType.EVENT, about, DROPPED, message))

    def _is_untidy(self) -> bool:
        """Say whether it is time to take away what is too old or too much; a flood does not wait for the hour."""
        if self._tidied is None or self._bytes >= self._retention.most_bytes // SHARES:
            return True
        return not timedelta() <= self._now() - self._tidied < TIDY_EVERY  # a clock that is set back ends the wait

    async def _append(self, lines: list[str], until: datetime) -> None:
        chunk, (began, last), now = self._chunk, self._stretch, self._now()
        size = sum(len(line.encode()) + 1 for line in lines)
        self._bytes += size
        is_young = timedelta() <= now - began < self._retention.age / STRETCHES
        if chunk is not None and is_young and size_of(chunk) + size <= CHUNK_BYTES:
            both = [*lines_of(chunk), *lines]
            until = max(until, last)
            made = chunk_document(name_of(chunk), self._namespace, self._source, self._instance, both, until)
            made["metadata"] |= {key: chunk["metadata"][key] for key in ("uid", "resourceVersion")}
            try:
                self._chunk = await self._store.replace(CONFIG_MAP, made)
            except (ConflictError, NotFoundError):  # somebody took it away or wrote into it: it is not ours any more
                self._chunk = None
            else:
                self._stretch = began, until
                return
        self._stretch = now, until
        for part in _parts(lines):
            self._number += 1
            name = chunk_name(now, self._instance, self._number)
            made = chunk_document(name, self._namespace, self._source, self._instance, part, until)
            # After a lost answer the same entries may be written twice; who reads the record knows them by their ids.
            self._chunk = await self._store.create(CONFIG_MAP, made)

    async def delete_expired(self) -> None:
        """Delete the ConfigMaps of the record that are too old, or too much.

        Raises:
            StoreError: The hub does not answer.
        """
        now = self._now()
        listing = await self._store.list(CONFIG_MAP, self._namespace, LABELS)
        own = name_of(self._chunk) if self._chunk is not None else ""
        for document in self._retention.outdated(listing.items, own, now):
            try:
                metadata = document["metadata"]
                await self._store.delete(
                    CONFIG_MAP, key_of(document), uid=metadata["uid"], resource_version=metadata["resourceVersion"]
                )
            except (NotFoundError, ConflictError):  # another process was faster, or it is in use
                continue
        self._tidied, self._bytes = now, 0


def _parts(lines: list[str]) -> list[list[str]]:
    """Divide lines among as many ConfigMaps as they need."""
    parts: list[list[str]] = [[]]
    size = 0
    for line in lines:
        length = len(line.encode()) + 1
        if parts[-1] and size + length > CHUNK_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(line)
        size += length
    return parts


def _since(known: RecordEntry, written: RecordEntry) -> RecordEntry:
    """Return what of an entry has happened since it was written."""
    return replace(known, time=known.until, count=known.count - written.count, last=None)
