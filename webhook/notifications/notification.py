"""One notification, and the body that is posted.

The signature covers only the body, so everything that a receiver has to trust is in it. ``sentAt`` makes a replayed
notification recognizable by its age.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import orjson

from scorer.api.event import Event
from scorer.api.meta import JsonObject, format_time
from scorer.api.values.quoting import printable
from webhook.kube.events import NOTE_BYTES, WINDOW

API_VERSION: Final = "notifications.harbormaster.dev/v1"
KIND: Final = "Notification"


@dataclass(frozen=True, slots=True)
class NotificationSource:
    """The sender of notifications.

    Args:
        hub: Name of the hub for the receiver. May be empty.
        namespace: Namespace of the installation.
        instance: Name of the process. In a pod, it is the pod's name.
    """

    hub: str
    namespace: str
    instance: str


@dataclass(frozen=True, slots=True)
class Notification:
    """An Event of one object, as the receiver gets it.

    Args:
        id: Deduplication key. Repeats in the same five-minute window share it, even across processes.
        time: Time at which the Event was emitted.
        severity: ``Warning`` or ``Normal``, as the type of the Event.
        reason: Reason of the Event, one word.
        message: Human-readable message.
        about: The object, as in ``regarding`` of an Event.
    """

    id: str
    time: datetime
    severity: str
    reason: str
    message: str
    about: JsonObject

    def body(self, source: NotificationSource, now: datetime) -> bytes:
        """Return the request body for a post at *now*, as JSON."""
        return orjson.dumps(
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "id": self.id,
                "time": format_time(self.time),
                "sentAt": format_time(now),
                "severity": self.severity,
                "reason": self.reason,
                "message": self.message,
                "object": self.about,
                "source": {"hub": source.hub, "namespace": source.namespace, "instance": source.instance},
            }
        )


def notification_of(document: JsonObject, event: Event, now: datetime) -> Notification:
    """Return the notification for *event* on *document*."""
    metadata = document["metadata"]
    about = {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "name": metadata["name"],
        "namespace": metadata.get("namespace") or "",
        "uid": metadata.get("uid") or "",
    }
    encoded = printable(event.message).encode(errors="replace")[:NOTE_BYTES]
    message = encoded.decode(errors="ignore")
    occasion = int(now.timestamp() // WINDOW.total_seconds())
    # With the message: two gates of one run that open together have the same reason, but are two notifications.
    text = "\0".join((*map(str, about.values()), event.reason, message, str(occasion)))
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]
    return Notification(digest, now, event.type, event.reason, message, about)
