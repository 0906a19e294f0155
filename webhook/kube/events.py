"""Events on an API server (events.k8s.io/v1): the document, and the recorder that writes it in the background.

Events of one object with the same reason within five minutes are deduplicated into one Event with a count. The
Event keeps the note of the first one. The windows are aligned to the clock, so a successor process continues to count.

Source: docs/specifications/rollout.md 17; docs/specifications/serving.md 6.3.
"""

import asyncio
import hashlib
import logging
import socket
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from scorer.api.event import Event
from scorer.api.kinds import EVENT
from scorer.api.meta import JsonObject, format_time
from webhook.kube.ports import AlreadyExistsError, Key, Store, StoreError

NOTE_BYTES: Final = 1024
"""Maximum length of a note in UTF-8: the API server counts bytes."""
INSTANCE_CHARACTERS: Final = 128
CONTROLLER: Final = "harbormaster.dev/controller"


def own_name(name: str = "") -> str:
    """Return the reporting instance of this process: *name*, or the host name, which in a pod is the pod's."""
    return name or socket.gethostname()


def event_document(document: JsonObject, event: Event, now: datetime, instance: str, occasion: str) -> JsonObject:
    """Return the Event for *event* on *document*.

    Its name is derived from the object, the reason and the occasion, because only the count of a stored Event can
    change.

    Args:
        document: The object.
        event: The event.
        now: Time of the event.
        instance: Reporting instance.
        occasion: Equal for occurrences that share one Event.
    """
    metadata = document["metadata"]
    namespace = metadata.get("namespace") or "default"
    note = event.message.encode(errors="replace")[:NOTE_BYTES].decode(errors="ignore")
    digest = hashlib.sha256(f"{metadata.get('uid', '')}/{event.reason}/{occasion}".encode()).hexdigest()[:16]
    regarding = {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
    }
    if metadata.get("namespace"):
        regarding["namespace"] = metadata["namespace"]
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"name": f"{metadata['name'][:40].rstrip('-.')}.{digest}", "namespace": namespace},
        "eventTime": micro_time(now),
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:INSTANCE_CHARACTERS],
        "action": event.reason,
        "reason": event.reason,
        "type": event.type,
        "note": note,
        "regarding": regarding,
    }


def micro_time(instant: datetime) -> str:
    """Return an instant as MicroTime."""
    return format_time(instant).replace("Z", f".{instant.microsecond:06}Z")


WINDOW: Final = timedelta(minutes=5)
MOST_WAITING: Final = 10_000
"""Maximum number of queued events. A fleet of a thousand members that join together causes six thousand."""

log = logging.getLogger(__name__)


class EventRecorder:
    """Writes events in the background. An event that cannot be written is dropped, and never blocks the caller.

    Args:
        store: Store of the events.
        now: The clock.
        instance: Reporting instance, in a pod its name.
        on_event: Called with every event, even with dropped ones.
    """

    def __init__(
        self,
        store: Store,
        now: Callable[[], datetime],
        instance: str,
        *on_event: Callable[[JsonObject, Event], None],
    ) -> None:
        self._store = store
        self._now = now
        self._instance = instance
        self._heard = on_event
        self._line: asyncio.Queue[tuple[JsonObject, Event]] = asyncio.Queue(MOST_WAITING)
        self._dropped = 0

    def record(self, document: JsonObject, event: Event) -> None:
        """Enqueue an Event for *event* on *document*."""
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
                log.warning("event write failed", extra={"reason": event.reason, "error": str(error)})
            except Exception:  # one event that cannot be built must not stop the loop
                log.exception("event write failed", extra={"reason": event.reason})
            if self._dropped:
                log.warning("events dropped", extra={"count": self._dropped})
                self._dropped = 0

    async def _write(self, document: JsonObject, event: Event) -> None:
        now = self._now()
        event_object = event_document(
            document, event, now, self._instance, str(int(now.timestamp() // WINDOW.total_seconds()))
        )
        try:
            await self._store.create(EVENT, event_object)
        except AlreadyExistsError:
            # The count is written over the version read here. After a conflict it is dropped, like any other event.
            current = await self._store.get(
                EVENT, Key(event_object["metadata"]["name"], event_object["metadata"]["namespace"])
            )
            count = (current.get("series") or {"count": 1})["count"] + 1
            series = {"count": count, "lastObservedTime": micro_time(now)}
            await self._store.replace(EVENT, {**current, "series": series})
