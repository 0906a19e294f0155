"""What an Event on an API server looks like (events.k8s.io/v1).

Source: serving.md 6.3.
"""

import hashlib
import socket
from datetime import datetime
from typing import Final

from scorer.api.event import Event
from scorer.api.kinds import KINDS
from scorer.api.meta import JsonObject, format_time

EVENT: Final = KINDS["events.k8s.io", "Event"]
NOTE_BYTES: Final = 1024
"""How long a note may be in UTF-8: the API server counts bytes."""
INSTANCE_CHARACTERS: Final = 128
CONTROLLER: Final = "harbormaster.dev/controller"


def own_name(name: str = "") -> str:
    """Return what Events call this process: *name*, or that of the machine, which in a pod is the pod's."""
    return name or socket.gethostname()


def event_document(document: JsonObject, event: Event, now: datetime, instance: str, occasion: str) -> JsonObject:
    """Return the Event which says that *event* happened to *document*.

    Its name is made from the object, the reason and the occasion: a stored Event can only change how often it happened.

    Args:
        document: The object.
        event: What happened.
        now: When.
        instance: Who reports.
        occasion: The same for what is one Event.
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
    """Return an instant as Events have it."""
    return format_time(instant).replace("Z", f".{instant.microsecond:06}Z")
