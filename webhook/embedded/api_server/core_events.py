"""Events of the core group: the Events of ``events.k8s.io`` with other names of the fields, as on an API server.

The store has one kind of Event. ``kubectl get events`` and ``kubectl describe`` read it as ``v1``.

Source: Kubernetes ``pkg/apis/events/v1/conversion.go``.
"""

from typing import Any, Final

from scorer.api.kinds import EVENT, KINDS
from scorer.api.meta import JsonObject

CORE_EVENT: Final = KINDS["", "Event"]
_NAMES: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_NAMES: Final = {core: name for name, core in _NAMES.items()}
_ALWAYS: Final[dict[str, Any]] = {
    "reportingComponent": "",
    "reportingInstance": "",
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
}
"""Fields of a core Event that an API server writes even if they are empty."""


def core_event(event: JsonObject) -> JsonObject:
    """Return a stored Event as one of the core group."""
    return {**_ALWAYS, **_renamed(event, _NAMES), "apiVersion": CORE_EVENT.api_version}


def stored_event(event: JsonObject) -> JsonObject:
    """Return an Event of the core group as it is stored."""
    given = {name: value for name, value in event.items() if name not in _ALWAYS or value}
    return {**_renamed(given, _CORE_NAMES), "apiVersion": EVENT.api_version}


def _renamed(event: JsonObject, names: dict[str, str]) -> JsonObject:
    return {names.get(name, name): value for name, value in event.items()}
