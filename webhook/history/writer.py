"""Buffers the entries of one process and flushes them periodically.

Recording an entry is cheap and never fails, because admission does it between a verdict and its response. Repeats
within one interval are deduplicated into one entry with a count, so a client that is refused a thousand times leaves
one line. A failed flush is retried at the next interval. The buffer is bounded, and a separate entry records how many
were dropped.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

from scorer.api.event import Event
from scorer.api.kinds import CONFIG_MAP
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import name_of
from webhook.history.entry import MESSAGE_BYTES, EntryType, InvolvedObject, RecordEntry, entry, of_event
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
"""Size of the buffer, in entries."""
MOST_OF_USER: Final = 100
"""Maximum number of buffered entries per user. Entries without a user are not limited."""
TIDY_EVERY: Final = timedelta(hours=1)
LAST_SECONDS: Final = 2.0
"""Timeout of the last flush on shutdown."""
DROPPED: Final = "EntriesDropped"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Repetition:
    """Repetitions of a buffered entry that are not added to it yet.

    Args:
        identity: Deduplication key of the entry.
        last: Time of the last repetition.
        times: Number of repetitions.
    """

    identity: tuple[object, ...]
    last: datetime
    times: int = 0


class HistoryWriter:
    """Writes entries into ConfigMaps that belong to this process.

    Args:
        store: The hub.
        namespace: Namespace of the installation.
        source: Kind of the process. The size limit applies to each kind separately.
        instance: Name of the process, in a pod the pod's name.
        retention: Limits on the record of all processes.
        interval: Time between two flushes.
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
        self._repetitions: dict[tuple[object, ...], _Repetition] = {}
        """Repetitions of buffered entries, by the arguments of `note` that created the entry."""
        self._dropped = 0
        self._chunk: JsonObject | None = None
        self._stretch = now(), now()
        """Start of the current ConfigMap's period, and the time of its last entry."""
        self._number = 0
        self._origin = uuid4().hex[:16]
        self._entry_count = 0
        self.writes = 0
        """Number of flushes. Entries that waited before a flush are in the record after it."""
        self._tidied: datetime | None = None
        self._bytes = 0
        """Bytes written since retention was last enforced."""
        self._trouble = ("", "")

    def note(
        self, kind: EntryType, about: InvolvedObject, reason: str, message: str, by: str = "", *, once: str = ""
    ) -> None:
        """Buffer an entry, timestamped now.

        A repetition with equal arguments is only counted, because admission waits for this call. `_settle` adds it to
        its entry. With *once*, the id of the entry, a repetition is ignored. Readers ignore repetitions of other
        processes.
        """
        now, words = self._now(), (kind, about, reason, message, by)
        if once:
            if (once,) not in self._waiting:
                self._add((once,), entry(now, kind, about, reason, message, by).named(once))
            return
        if (repetition := self._repetitions.get(words)) is not None:
            repetition.times += 1
            repetition.last = now
            return
        noted = entry(now, kind, about, reason, message, by)
        self._take(noted)
        if noted.identity in self._waiting and len(message) <= MESSAGE_BYTES and len(self._repetitions) < MOST_WAITING:
            self._repetitions[words] = _Repetition(noted.identity, now)

    def note_event(self, document: JsonObject, event: Event) -> None:
        """Buffer an Event of *document*, timestamped now."""
        self._take(of_event(document, event, self._now()))

    def waiting(self) -> tuple[RecordEntry, ...]:
        """Return the buffered entries, oldest first."""
        self._settle()
        return tuple(self._waiting.values())

    async def run(self) -> None:
        """Flush periodically until cancelled, then once more."""
        try:
            while True:
                await asyncio.sleep(self._interval.total_seconds())
                await self.write()
        finally:
            try:
                async with asyncio.timeout(LAST_SECONDS):
                    await self.write()
            except TimeoutError:
                log.warning("history not flushed before shutdown", extra={"entries": len(self._waiting)})

    def _settle(self) -> None:
        """Add counted repetitions to their entries."""
        for repetition in self._repetitions.values():
            if repetition.times:
                last = repetition.last.replace(microsecond=0)
                self._waiting[repetition.identity] = self._waiting[repetition.identity].repeated(last, repetition.times)
        self._repetitions.clear()

    def _take(self, record: RecordEntry) -> None:
        cached = self._waiting.get(record.identity)
        if cached is not None:
            self._waiting[record.identity] = cached.repeated(record.time)
        else:
            self._add(record.identity, record)

    def _add(self, identity: tuple[object, ...], record: RecordEntry) -> None:
        """Buffer an entry within the limits. One without an id gets one."""
        if len(self._waiting) < MOST_WAITING and self._of_user[record.by] < MOST_OF_USER:
            self._waiting[identity] = record if record.id else self._with_id(record)
            self._of_user[record.by] += bool(record.by)
        else:
            self._dropped += 1

    def _with_id(self, record: RecordEntry) -> RecordEntry:
        """Return an entry with an id that is unique across processes and sorts by age within one."""
        self._entry_count += 1
        return record.named(f"{self._origin}-{self._entry_count:010}")

    async def write(self) -> None:
        """Flush, and log a failure once. Entries that are not written remain buffered."""
        try:
            await self._write_entries()
        except StoreError as error:
            if self._is_new("write", str(error)):
                log.warning("history write failed", extra={"error": str(error)})
            return
        try:
            await self._enforce_retention()
        except StoreError as error:
            if self._is_new("retention", str(error)):
                log.warning("history retention failed", extra={"error": str(error)})
            return
        if self._is_new("", ""):
            log.info("history writes resumed")

    def _is_new(self, step: str, cause: str) -> bool:
        """Return whether this failure differs from that of the last write. Empty: the write succeeded."""
        last, self._trouble = self._trouble, (step, cause)
        return self._trouble != last

    async def flush(self) -> None:
        """Write the buffered entries, then enforce retention if it is due.

        Raises:
            StoreError: The hub rejected the write, so that all entries remain buffered, or retention could not be
                enforced.
        """
        await self._write_entries()
        await self._enforce_retention()

    async def _write_entries(self) -> None:
        """Write the buffered entries. Raises `StoreError`: all remain buffered."""
        self._settle()
        written, dropped = tuple(self._waiting.items()), self._dropped
        if not (written or dropped):
            return
        entries = [each for _, each in written]
        if dropped:
            entries.append(self._loss(dropped))
        await self._append([each.line() for each in entries], max(each.until for each in entries))
        self.writes += 1
        self._dropped -= dropped
        for identity, each in written:
            if (buffered_entry := self._waiting[identity]) is each:
                del self._waiting[identity]
            else:  # repeated during the write: keep only the occurrences that are not on record
                self._waiting[identity] = self._with_id(_since(buffered_entry, each))
        self._of_user = Counter(each.by for each in self._waiting.values() if each.by)

    async def _enforce_retention(self) -> None:
        """Delete expired ConfigMaps if it is due. Raises `StoreError`."""
        if self._is_untidy():
            await self.delete_expired()

    def _loss(self, dropped: int) -> RecordEntry:
        """Return the entry that records how many entries were dropped."""
        about = InvolvedObject(CONFIG_MAP.kind, self._instance, self._namespace)
        message = f"{self._instance} recorded too many entries within one write interval: {dropped} dropped"
        return self._with_id(entry(self._now(), EntryType.EVENT, about, DROPPED, message))

    def _is_untidy(self) -> bool:
        """Return whether to enforce retention: hourly, or earlier after a burst."""
        if self._tidied is None or self._bytes >= self._retention.most_bytes // SHARES:
            return True
        return not timedelta() <= self._now() - self._tidied < TIDY_EVERY  # a clock that was set back counts as due

    async def _append(self, lines: list[str], until: datetime) -> None:
        chunk, (began, last), now = self._chunk, self._stretch, self._now()
        size = sum(len(line.encode()) + 1 for line in lines)
        self._bytes += size
        is_young = timedelta() <= now - began < self._retention.age / STRETCHES
        if chunk is not None and is_young and size_of(chunk) + size <= CHUNK_BYTES:
            both = [*lines_of(chunk), *lines]
            until = max(until, last)
            chunk_object = chunk_document(name_of(chunk), self._namespace, self._source, self._instance, both, until)
            chunk_object["metadata"] |= {key: chunk["metadata"][key] for key in ("uid", "resourceVersion")}
            try:
                self._chunk = await self._store.replace(CONFIG_MAP, chunk_object)
            except (ConflictError, NotFoundError):  # deleted or modified by another client: start a new one
                self._chunk = None
            else:
                self._stretch = began, until
                return
        self._stretch = now, until
        for part in _parts(lines):
            self._number += 1
            name = chunk_name(now, self._instance, self._number)
            chunk_object = chunk_document(name, self._namespace, self._source, self._instance, part, until)
            # A lost response can lead to a second write of the same entries. Readers deduplicate them by id.
            self._chunk = await self._store.create(CONFIG_MAP, chunk_object)

    async def delete_expired(self) -> None:
        """Delete the ConfigMaps of the record that exceed a limit.

        Raises:
            StoreError: The hub refuses a request or does not respond.
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
            except (NotFoundError, ConflictError):  # another process deleted it, or still writes to it
                continue
        self._tidied, self._bytes = now, 0


def _parts(lines: list[str]) -> list[list[str]]:
    """Split lines into the contents of as many ConfigMaps as they need."""
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


def _since(buffered_entry: RecordEntry, written: RecordEntry) -> RecordEntry:
    """Return the occurrences of an entry after *written* was flushed."""
    return replace(buffered_entry, time=buffered_entry.until, count=buffered_entry.count - written.count, last=None)
