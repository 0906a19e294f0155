"""Kubernetes Events on placements, members and the other objects that the loop tells about.

Source: rollout.md 17; serving.md 6.3 (events.k8s.io/v1, aggregated by object and reason).
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from scorer.api.meta import JsonObject
from scorer.rollout.placement_status import Event
from webhook.kube.event_documents import EVENT, event_document, micro_time
from webhook.kube.hub import Hub
from webhook.kube.ports import AlreadyExistsError, Key, StoreError

MOST_WAITING = 10_000
"""Events that may wait to be written; a fleet of a thousand members that joins at once makes six thousand."""

log = logging.getLogger(__name__)


class EventRecorder:
    """Writes events in the background; one that cannot be written is dropped, never the work it tells of.

    Args:
        hub: Where events go.
        now: The clock.
        instance: Who reports.
    """

    def __init__(self, hub: Hub, now: Callable[[], datetime], instance: str = "harbormaster") -> None:
        self._hub = hub
        self._now = now
        self._instance = instance
        self._line: asyncio.Queue[tuple[JsonObject, Event]] = asyncio.Queue(MOST_WAITING)
        self._dropped = 0

    def record(self, document: JsonObject, event: Event) -> None:
        """Have an Event written: *event* happened to *document*."""
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
        made = event_document(document, event, self._now(), self._instance)
        try:
            await self._hub.store.create(EVENT, made)
        except AlreadyExistsError:
            # Counted over the version that is read here; after a conflict the count is dropped, as any event may be.
            stored = await self._hub.store.get(EVENT, Key(made["metadata"]["name"], made["metadata"]["namespace"]))
            count = (stored.get("series") or {"count": 1})["count"] + 1
            series = {"count": count, "lastObservedTime": micro_time(self._now())}
            await self._hub.store.replace(EVENT, {**stored, "series": series})
