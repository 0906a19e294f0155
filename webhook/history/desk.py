"""Where a process notes what happens, and looks up what has happened."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from scorer.api.event import Event
from scorer.api.kinds import CONFIG_MAP
from scorer.api.meta import JsonObject
from webhook.history.entry import EntryType, InvolvedObject, RecordEntry
from webhook.history.query import HistoryPage, Query, find
from webhook.history.record import LABELS, RecordSource, Retention
from webhook.history.writer import HistoryWriter
from webhook.kube.ports import Store
from webhook.settings.observability import HistorySettings

WARNED: Final = "Warned"
POLL_INTERVAL: Final = timedelta(seconds=5)
"""How old the record may be in an answer, what this process has not written yet apart."""


class HistoryService:
    """Notes what happens in this process, and finds what has happened in all of them.

    Args:
        store: The hub.
        namespace: Of the installation.
        writer: Writes the record of this process; None: it writes nothing.
        now: The clock.
        is_kept: Whether others write, where this process does not.
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
        """Whether anything is written down."""

    def note(self, kind: EntryType, about: InvolvedObject, reason: str, message: str, by: str = "") -> None:
        """Have something written down that has happened now."""
        if self._writer is not None:
            self._writer.note(kind, about, reason, message, by)

    def note_review(
        self, operation: str, about: InvolvedObject, by: str, *, refused: str, rules: str, warnings: tuple[str, ...]
    ) -> None:
        """Have a verdict of admission written down, if it refuses or warns.

        Args:
            operation: What was tried, as in "create".
            about: The object.
            by: Who tried.
            refused: Why not; empty: it was allowed.
            rules: The ids of the rules that refused it, separated by commas.
            warnings: What was warned about.
        """
        if refused:
            self.note(EntryType.REFUSAL, about, rules, f"{operation}: {refused}", by)
        for warning in warnings:
            self.note(EntryType.WARNING, about, WARNED, f"{operation}: {warning}", by)

    def note_event(self, document: JsonObject, event: Event) -> None:
        """Have an Event written down that has happened now to *document*."""
        if self._writer is not None:
            self._writer.note_event(document, event)

    async def find(self, query: Query) -> HistoryPage:
        """Return what is wanted of the record of all processes, and of what this one has not written yet.

        Raises:
            webhook.kube.ports.StoreError: The hub does not answer.
        """
        if not self.is_kept:
            return HistoryPage((), more=False, unreadable=0)
        # One at a time, beside the event loop: to go through a whole record takes long enough to be felt in admission.
        async with self._finding:
            now, writes, waiting = self._now(), self._writer.writes if self._writer else 0, self._waiting()
            # Read again also after a write of our own: what was waiting then is nowhere else.
            if self._read_at is None or self._read_at[1] != writes or not now - POLL_INTERVAL < self._read_at[0] <= now:
                self._read = (await self._store.list(CONFIG_MAP, self._namespace, LABELS)).items
                self._read_at = now, writes
            # What was written while we read is not in what we have read, and does not wait any more.
            return await asyncio.to_thread(find, self._read, (*waiting, *self._waiting()), query)

    def _waiting(self) -> tuple[RecordEntry, ...]:
        return self._writer.waiting() if self._writer else ()

    async def run(self) -> None:
        """Write until cancelled, if anything is kept."""
        if self._writer is not None:
            await self._writer.run()


def history_of(
    store: Store,
    namespace: str,
    settings: HistorySettings,
    source: RecordSource,
    instance: str,
    now: Callable[[], datetime],
) -> HistoryService:
    """Make the history of a process, as the settings want it.

    Args:
        store: The hub.
        namespace: Of the installation.
        settings: What is kept.
        source: What kind of process this is.
        instance: Which one; in a pod its name.
        now: The clock.
    """
    options = settings.history()
    retention = Retention(options.age, options.most_bytes)
    writer = HistoryWriter(store, namespace, source, instance, retention, options.interval, now)
    return HistoryService(store, namespace, writer if options.age else None, now)
