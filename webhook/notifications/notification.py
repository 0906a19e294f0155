"""One notification, and the body in which it is sent.

The signature covers the body alone, so what a receiver has to believe stands in it, the time of sending included: one
that was recorded and is sent again by somebody else is told by its age.
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
    """Where notifications come from.

    Args:
        hub: What the receiver calls the hub; may be empty.
        namespace: Of the installation.
        instance: The process; in a pod its name.
    """

    hub: str
    namespace: str
    instance: str


@dataclass(frozen=True, slots=True)
class Notification:
    """What has happened to one object.

    Args:
        id: The same when the same is told again, also by another process, within the five minutes of an Event.
        time: When it happened.
        severity: ``Warning`` or ``Normal``, as the type of the Event.
        reason: One word.
        message: For people.
        about: The object, as ``regarding`` of an Event.
    """

    id: str
    time: datetime
    severity: str
    reason: str
    message: str
    about: JsonObject

    def body(self, source: NotificationSource, now: datetime) -> bytes:
        """Return what is posted at an instant."""
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
    """Return the notification which says that *event* happened to *document*."""
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
    # An Event is one for a reason, whatever its note: two gates of one run that open at once are two notifications.
    text = "\0".join((*map(str, about.values()), event.reason, message, str(occasion)))
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]
    return Notification(digest, now, event.type, event.reason, message, about)
