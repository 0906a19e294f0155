"""One thing that has happened, and how it is written down: a line of JSON.

What the loop tells as an Event is an entry as well; an Event is gone after an hour, and after five minutes the next one
for the same reason repeats the old note. What admission refuses or warns about, and what the gate answers, is told by
nothing else.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple, NotRequired

import orjson
from typing_extensions import TypedDict

from scorer.api.event import Event
from scorer.api.family import FAMILIES
from scorer.api.kinds import UPGRADE_RUN
from scorer.api.meta import JsonObject, format_time, parse_time
from scorer.api.values.answer import Instant, ShapeOf
from scorer.api.values.quoting import printable

MESSAGE_BYTES: Final = 1024
"""How long a message may be in UTF-8, as that of an Event."""
NAME_CHARACTERS: Final = 253
USER_CHARACTERS: Final = 320
ID_CHARACTERS: Final = 32
MOST_COUNTED: Final = 2**53
CLUSTERS_PICKED: Final = "ClustersPicked"
"""Reason of the Event that tells which clusters a placement got, kept and lost."""


class EntryType(StrEnum):
    """What kind of thing has happened."""

    DECISION = "Decision"
    ROLLOUT = "Rollout"
    REFUSAL = "Refusal"
    WARNING = "Warning"
    GATE = "Gate"
    EVENT = "Event"


class HistoryObject(TypedDict):
    """What an entry is about."""

    kind: str
    name: str
    namespace: NotRequired[str]


class HistoryEntry(TypedDict):
    """What has happened to one object."""

    id: str
    """Tells it from all others."""
    time: Instant
    """When; of a repeated entry, when for the first time."""
    type: Annotated[str, ShapeOf(EntryType)]
    object: HistoryObject
    reason: str
    """One word, or the ids of the rules of admission, separated by commas."""
    message: str
    by: NotRequired[str]
    """Who did it or asked; left out where harbormaster itself did."""
    count: NotRequired[int]
    """How often."""
    lastTime: NotRequired[Instant]
    """When for the last time."""


class InvolvedObject(NamedTuple):
    """Which object an entry is about; ``namespace`` is empty for cluster-scoped kinds."""

    kind: str
    name: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class RecordEntry:
    """What has happened to one object.

    Args:
        time: When; of a repeated entry, when for the first time.
        type: What kind of thing.
        about: The object.
        reason: One word, or the ids of rules, separated by commas.
        message: For people.
        by: Who did it or asked; empty: harbormaster itself.
        count: How often.
        last: When for the last time.
        id: Tells it from all others, also from those that say the same; empty: not noted yet.
    """

    time: datetime
    type: EntryType
    about: InvolvedObject
    reason: str
    message: str
    by: str = ""
    count: int = 1
    last: datetime | None = None
    id: str = ""

    @property
    def place(self) -> tuple[datetime, str]:
        """Return its place among all entries: by the last occurrence; within a second, in an order that stays."""
        return self.until, self.id

    @property
    def until(self) -> datetime:
        """Return when it happened for the last time."""
        return self.last or self.time

    @property
    def identity(self) -> tuple[object, ...]:
        """Return what is the same for what counts as one entry."""
        return self.type, self.about, self.reason, self.message, self.by

    # Without `dataclasses.replace`, which takes as long as the rest of noting, for which admission waits.
    def repeated(self, time: datetime) -> "RecordEntry":
        """Return the entry with one more occurrence."""
        count, last = min(self.count + 1, MOST_COUNTED), max(time, self.until)
        return RecordEntry(self.time, self.type, self.about, self.reason, self.message, self.by, count, last, self.id)

    def named(self, name: str) -> "RecordEntry":
        """Return the entry with an id."""
        return RecordEntry(
            self.time, self.type, self.about, self.reason, self.message, self.by, self.count, self.last, name
        )

    def document(self) -> HistoryEntry:
        """Return it as ``/v1/history`` and the record have it."""
        about: HistoryObject = {"kind": self.about.kind, "name": self.about.name}
        if self.about.namespace:
            about["namespace"] = self.about.namespace
        found: HistoryEntry = {
            "id": self.id,
            "time": format_time(self.time),
            "type": str(self.type),
            "object": about,
            "reason": self.reason,
            "message": self.message,
        }
        if self.by:
            found["by"] = self.by
        if self.count > 1:
            found |= {"count": self.count, "lastTime": format_time(self.until)}
        return found

    def line(self) -> str:
        """Return it as a line of the record."""
        return orjson.dumps(self.document()).decode()


def entry(
    time: datetime, kind: EntryType, about: InvolvedObject, reason: str, message: str, by: str = ""
) -> RecordEntry:
    """Return an entry of a kind, with texts that are short enough, and fit for a terminal."""
    return RecordEntry(
        time.replace(microsecond=0),
        kind,
        InvolvedObject(*(printable(part[:NAME_CHARACTERS]) for part in about)),
        printable(reason[:NAME_CHARACTERS]),
        _shortened(printable(message[: MESSAGE_BYTES + 1])),  # cut first: a refusal may be long, and many come at once
        printable(by[:USER_CHARACTERS]),
    )


def of_event(document: JsonObject, event: Event, now: datetime) -> RecordEntry:
    """Return the entry which says that *event* happened to *document*."""
    metadata = document["metadata"]
    about = InvolvedObject(document["kind"], metadata["name"], metadata.get("namespace") or "")
    return entry(now, _type_of(about.kind, event.reason), about, event.reason, event.message)


def read_entry(line: str) -> RecordEntry | None:
    """Read a line of the record; None: it is no entry."""
    try:
        found = orjson.loads(line)
        about = found["object"]
        return RecordEntry(
            _time(found["time"]),
            EntryType(found["type"]),
            InvolvedObject(_text(about["kind"]), _text(about["name"]), _text(about.get("namespace", ""))),
            _text(found["reason"]),
            _text(found["message"]),
            _text(found.get("by", "")),
            _count(found.get("count", 1)),
            _time(found["lastTime"]) if "lastTime" in found else None,
            _text(found.get("id", ""))[:ID_CHARACTERS] or hashlib.sha256(line.encode()).hexdigest()[:ID_CHARACTERS],
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _type_of(kind: str, reason: str) -> EntryType:
    if reason == CLUSTERS_PICKED:
        return EntryType.DECISION
    return EntryType.ROLLOUT if kind in _ROLLED_OUT else EntryType.EVENT


_ROLLED_OUT: Final = frozenset(
    {UPGRADE_RUN.kind, *(kind.kind for family in FAMILIES for kind in (family.placement, family.run))}
)


def _shortened(text: str) -> str:
    encoded = text.encode(errors="replace")
    return text if len(encoded) <= MESSAGE_BYTES else encoded[: MESSAGE_BYTES - 3].decode(errors="ignore") + "…"


def _time(value: Any) -> datetime:
    return parse_time(_text(value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_COUNTED:
        raise ValueError(value)
    return value
