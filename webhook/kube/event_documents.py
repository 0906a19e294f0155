"""What an Event on an API server looks like (events.k8s.io/v1): the same message again is the same Event.

Source: serving.md 6.3.
"""

import hashlib
from datetime import datetime
from typing import Final

from scorer.api.kinds import KINDS
from scorer.api.meta import JsonObject, format_time
from scorer.rollout.placement_status import Event

EVENT: Final = KINDS["events.k8s.io", "Event"]
NOTE_LIMIT: Final = 1024
CONTROLLER: Final = "harbormaster.dev/controller"


def event_document(document: JsonObject, event: Event, now: datetime, instance: str) -> JsonObject:
    """Return the Event which says that *event* happened to *document*.

    Args:
        document: The object.
        event: What happened.
        now: When.
        instance: Who reports.
    """
    metadata = document["metadata"]
    namespace = metadata.get("namespace") or "default"
    note = event.message[:NOTE_LIMIT]  # part of the name, since a stored Event can only change how often it happened
    digest = hashlib.sha256(f"{metadata.get('uid', '')}/{event.reason}/{note}".encode()).hexdigest()[:16]
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
        "reportingInstance": instance,
        "action": event.reason,
        "reason": event.reason,
        "type": event.type,
        "note": note,
        "regarding": regarding,
    }


def micro_time(instant: datetime) -> str:
    """Return an instant as Events have it."""
    return format_time(instant).replace("Z", f".{instant.microsecond:06}Z")
