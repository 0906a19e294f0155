"""Events on an API server, about placements, members and whatever else a process tells of.

What happens to one object for one reason within five minutes is one Event with a count; its note is that of the first
time. The windows are those of the clock, so a process that takes over goes on counting where another one was ended.

Source: rollout.md 17; serving.md 6.3.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from scorer.api.event import Event
from scorer.api.meta import JsonObject
from webhook.kube.event_documents import EVENT, event_document, micro_time
from webhook.kube.ports import AlreadyExistsError, Key, Store, StoreError

WINDOW: Final = timedelta(minutes=5)
MOST_WAITING: Final = 10_000
"""Events that may wait to be written; a fleet of a thousand members that joins at once makes six thousand."""

log = logging.getLogger(__name__)


class EventRecorder:
    """Writes events in the background; one that cannot be written is dropped, never the work it tells of.

    Args:
        store: Where events go.
        now: The clock.
        instance: Which process reports: in a pod its name.
        heard: Are told of every event as well, also of those that are dropped.
    """

    def __init__(
        self,
        store: Store,
        now: Callable[[], datetime],
        instance: str,
        *heard: Callable[[JsonObject, Event], None],
    ) -> None:
        self._store = store
        self._now = now
        self._instance = instance
        self._heard = heard
        self._line: asyncio.Queue[tuple[JsonObject, Event]] = asyncio.Queue(MOST_WAITING)
        self._dropped = 0

    def record(self, document: JsonObject, event: Event) -> None:
        """Have an Event written: *event* happened to *document*."""
        for hear in self._heard:
            hear(document, event)
        try:
            self._line.put_nowait((document, event))
        except asyncio.QueueFull:
            self._dropped += 1

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            document, event = await self._line.get()
            try:
                await self._write(document, event)
            except StoreError as error:
                log.warning("cannot write event", extra={"reason": event.reason, "error": str(error)})
            except Exception:  # one event that cannot be made must not end the loop
                log.exception("cannot write event", extra={"reason": event.reason})
            if self._dropped:
                log.warning("events dropped", extra={"count": self._dropped})
                self._dropped = 0

    async def _write(self, document: JsonObject, event: Event) -> None:
        now = self._now()
        made = event_document(document, event, now, self._instance, str(int(now.timestamp() // WINDOW.total_seconds())))
        try:
            await self._store.create(EVENT, made)
        except AlreadyExistsError:
            # Counted over the version that is read here; after a conflict the count is dropped, as any event may be.
            stored = await self._store.get(EVENT, Key(made["metadata"]["name"], made["metadata"]["namespace"]))
            count = (stored.get("series") or {"count": 1})["count"] + 1
            series = {"count": count, "lastObservedTime": micro_time(now)}
            await self._store.replace(EVENT, {**stored, "series": series})
