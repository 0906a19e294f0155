"""Entry point to the history: record entries in this process, query those of all processes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from scorer.api.event import Event
from scorer.api.kinds import CONFIG_MAP
from scorer.api.meta import JsonObject
from webhook.history.actions import AcceptedWrite
from webhook.history.entry import EntryType, InvolvedObject, RecordEntry
from webhook.history.query import HistoryPage, Query, find
from webhook.history.record import LABELS, RecordSource, Retention
from webhook.history.writer import HistoryWriter
from webhook.kube.ports import Store
from webhook.settings.observability import HistorySettings

WARNED: Final = "Warned"
POLL_INTERVAL: Final = timedelta(seconds=5)
"""Longest staleness of a query result. Unwritten entries of this process are always included."""


class HistoryService:
    """Records entries of this process and queries those of all processes.

    Args:
        store: The hub.
        namespace: Namespace of the installation.
        writer: Writer of this process. None: disabled.
        now: The clock.
        is_kept: Whether other processes keep a history although this one does not.
    """

    def __init__(
        self,
        store: Store,
        namespace: str,
        writer: HistoryWriter | None,
        now: Callable[[], datetime],
        *,
        is_kept: bool = False,
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._writer = writer
        self._now = now
        self._read: tuple[JsonObject, ...] = ()
        self._read_at: tuple[datetime, int] | None = None
        self._finding = asyncio.Lock()
        self.is_kept = is_kept or writer is not None
        """Whether any process keeps a history."""

    def note(self, kind: EntryType, about: InvolvedObject, reason: str, message: str, by: str = "") -> None:
        """Record an entry, timestamped now, if this process keeps a history."""
        if self._writer is not None:
            self._writer.note(kind, about, reason, message, by)

    def note_review(
        self, operation: str, about: InvolvedObject, by: str, *, refused: str, rules: str, warnings: tuple[str, ...]
    ) -> None:
        """Record an admission verdict if it refuses or warns.

        Args:
            operation: The operation, such as "create".
            about: The object.
            by: The requesting user.
            refused: Message of the refusal. Empty if the request was allowed.
            rules: Ids of the refusing rules, separated by commas.
            warnings: The warnings.
        """
        if refused:
            self.note(EntryType.REFUSAL, about, rules, f"{operation}: {refused}", by)
        for warning in warnings:
            self.note(EntryType.WARNING, about, WARNED, f"{operation}: {warning}", by)

    def note_write(self, write: AcceptedWrite, by: str) -> None:
        """Record the actions of an accepted write. A write that is no action leaves no entry.

        Args:
            write: The write.
            by: The requesting user.
        """
        if self._writer is not None:
            for action in write.actions():
                about, reason, message = action
                self._writer.note(EntryType.ACTION, about, reason, message, by, once=write.id_of(action, by))

    def is_own_account(self, user: str) -> bool:
        """Return whether *user* is a service account in the namespace of the installation."""
        return user.startswith(f"system:serviceaccount:{self._namespace}:")

    def note_event(self, document: JsonObject, event: Event) -> None:
        """Record an Event of *document*, timestamped now, if this process keeps a history."""
        if self._writer is not None:
            self._writer.note_event(document, event)

    async def find(self, query: Query) -> HistoryPage:
        """Return the matching entries of all processes, including unwritten ones of this process.

        The page is empty if no process keeps a history.

        Raises:
            webhook.kube.ports.StoreError: The hub does not respond.
        """
        if not self.is_kept:
            return HistoryPage((), more=False, unreadable=0)
        # In a thread, one at a time: a scan of the whole record would block the event loop, and with it admission.
        async with self._finding:
            now, writes, waiting = self._now(), self._writer.writes if self._writer else 0, self._waiting()
            # A write of our own invalidates the cached read: its entries no longer wait, and are not in that read.
            if self._read_at is None or self._read_at[1] != writes or not now - POLL_INTERVAL < self._read_at[0] <= now:
                self._read = (await self._store.list(CONFIG_MAP, self._namespace, LABELS)).items
                self._read_at = now, writes
            # Entries flushed during the list call are in neither the list nor the queue now, hence both snapshots.
            return await asyncio.to_thread(find, self._read, (*waiting, *self._waiting()), query)

    def _waiting(self) -> tuple[RecordEntry, ...]:
        return self._writer.waiting() if self._writer else ()

    async def run(self) -> None:
        """Flush periodically until cancelled, if this process keeps a history."""
        if self._writer is not None:
            await self._writer.run()


Record = Callable[[JsonObject, Event], None]
"""Records Events."""


@dataclass(frozen=True, slots=True)
class EventSinks:
    """Sinks for the Events of a server.

    Args:
        record: Records Events.
        history: History of this process.
    """

    record: Record
    history: HistoryService


def history_of(
    store: Store,
    namespace: str,
    settings: HistorySettings,
    source: RecordSource,
    instance: str,
    now: Callable[[], datetime],
) -> HistoryService:
    """Return the history of a process, configured by its settings.

    Args:
        store: The hub.
        namespace: Namespace of the installation.
        settings: Retention and interval.
        source: Kind of the process.
        instance: Name of the process, in a pod the pod's name.
        now: The clock.
    """
    options = settings.history()
    retention = Retention(options.age, options.most_bytes)
    writer = HistoryWriter(store, namespace, source, instance, retention, options.interval, now)
    return HistoryService(store, namespace, writer if options.age else None, now)
