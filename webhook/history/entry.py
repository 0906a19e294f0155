"""One entry of the history, and its encoding as a line of JSON.

Events of the loop are entries too, because an API server expires Events after an hour and deduplication drops the later
notes of one reason. Actions of users, refusals and warnings of admission, and answers of the gate are recorded nowhere
else.
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
"""Longest message in UTF-8 bytes, as for the note of an Event."""
NAME_CHARACTERS: Final = 253
USER_CHARACTERS: Final = 320
ID_CHARACTERS: Final = 32
MOST_COUNTED: Final = 2**53
CLUSTERS_PICKED: Final = "ClustersPicked"
"""Reason of the Event that lists the clusters a placement gained, kept and lost."""


class EntryType(StrEnum):
    """Category of an entry."""

    DECISION = "Decision"
    ROLLOUT = "Rollout"
    ACTION = "Action"
    REFUSAL = "Refusal"
    WARNING = "Warning"
    GATE = "Gate"
    EVENT = "Event"


class HistoryObject(TypedDict):
    """The object of an entry."""

    kind: str
    name: str
    namespace: NotRequired[str]


class HistoryEntry(TypedDict):
    """One event in the history of an object."""

    id: str
    """Unique id."""
    time: Instant
    """Time of the first occurrence."""
    type: Annotated[str, ShapeOf(EntryType)]
    object: HistoryObject
    reason: str
    """One word, or ids of admission rules, separated by commas."""
    message: str
    by: NotRequired[str]
    """The requesting user. Omitted if harbormaster acted by itself."""
    count: NotRequired[int]
    """Number of occurrences. Omitted if 1."""
    lastTime: NotRequired[Instant]
    """Time of the last occurrence. Omitted if `count` is omitted."""


class InvolvedObject(NamedTuple):
    """The object of an entry. ``namespace`` is empty for cluster-scoped kinds."""

    kind: str
    name: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class RecordEntry:
    """One event in the history of an object.

    Args:
        time: Time of the first occurrence.
        type: Category.
        about: The object.
        reason: One word, or the ids of rules, separated by commas.
        message: Human-readable message.
        by: The requesting user. Empty if harbormaster acted by itself.
        count: Number of occurrences.
        last: Time of the last occurrence. None if there was only one.
        id: Unique id, even among entries with equal content. Empty until the entry is queued.
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
        """Sort key: the last occurrence, with the id as a stable tie-breaker."""
        return self.until, self.id

    @property
    def until(self) -> datetime:
        """Time of the last occurrence."""
        return self.last or self.time

    @property
    def identity(self) -> tuple[object, ...]:
        """Deduplication key."""
        return self.type, self.about, self.reason, self.message, self.by

    # Fast path: `dataclasses.replace` would double the time of recording an entry, and admission waits for it.
    def repeated(self, time: datetime, times: int = 1) -> "RecordEntry":
        """Return the entry with *times* more occurrences, the last of them at *time*."""
        count, last = min(self.count + times, MOST_COUNTED), max(time, self.until)
        return RecordEntry(self.time, self.type, self.about, self.reason, self.message, self.by, count, last, self.id)

    def named(self, name: str) -> "RecordEntry":
        """Return the entry with an id."""
        return RecordEntry(
            self.time, self.type, self.about, self.reason, self.message, self.by, self.count, self.last, name
        )

    def document(self) -> HistoryEntry:
        """Return the JSON form used by ``/v1/history`` and the record."""
        about: HistoryObject = {"kind": self.about.kind, "name": self.about.name}
        if self.about.namespace:
            about["namespace"] = self.about.namespace
        entry: HistoryEntry = {
            "id": self.id,
            "time": format_time(self.time),
            "type": str(self.type),
            "object": about,
            "reason": self.reason,
            "message": self.message,
        }
        if self.by:
            entry["by"] = self.by
        if self.count > 1:
            entry |= {"count": self.count, "lastTime": format_time(self.until)}
        return entry

    def line(self) -> str:
        """Return the entry as a line of the record."""
        return orjson.dumps(self.document()).decode()


def entry(
    time: datetime, kind: EntryType, about: InvolvedObject, reason: str, message: str, by: str = ""
) -> RecordEntry:
    """Return an entry with its texts truncated and stripped of control characters."""
    return RecordEntry(
        time.replace(microsecond=0),
        kind,
        InvolvedObject(*(printable(part[:NAME_CHARACTERS]) for part in about)),
        printable(reason[:NAME_CHARACTERS]),
        _shortened(printable(message[: MESSAGE_BYTES + 1])),  # truncate first: refusals can be long, and come in bursts
        printable(by[:USER_CHARACTERS]),
    )


def of_event(document: JsonObject, event: Event, now: datetime) -> RecordEntry:
    """Return the entry for *event* on *document*."""
    metadata = document["metadata"]
    about = InvolvedObject(document["kind"], metadata["name"], metadata.get("namespace") or "")
    return entry(now, _type_of(about.kind, event.reason), about, event.reason, event.message)


def read_entry(line: str) -> RecordEntry | None:
    """Parse a line of the record. Return None if it is not an entry."""
    try:
        fields = orjson.loads(line)
        about = fields["object"]
        return RecordEntry(
            _time(fields["time"]),
            EntryType(fields["type"]),
            InvolvedObject(_text(about["kind"]), _text(about["name"]), _text(about.get("namespace", ""))),
            _text(fields["reason"]),
            _text(fields["message"]),
            _text(fields.get("by", "")),
            _count(fields.get("count", 1)),
            _time(fields["lastTime"]) if "lastTime" in fields else None,
            _text(fields.get("id", ""))[:ID_CHARACTERS] or hashlib.sha256(line.encode()).hexdigest()[:ID_CHARACTERS],
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
