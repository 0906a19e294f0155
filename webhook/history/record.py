"""The record: ConfigMaps in the namespace of the installation.

Each holds the entries of one process and one period, as lines of JSON. The record is in ConfigMaps and not on a volume,
so that every replica, the page and a user with only a kubeconfig can read it. It outlives pods and nodes, needs no
storage class, and is backed up with the hub. The embedded store keeps the same objects in its file.

Writes are cheap: a process writes only its own ConfigMap, at most once per interval, and only if it has new entries.

Retention is bounded by age and by size. Whole ConfigMaps are deleted, oldest first.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from scorer.api.kinds import CONFIG_MAP
from scorer.api.meta import JsonObject, format_time, parse_time
from scorer.api.names import OURS
from scorer.api.unstructured.documents import label, name_of, text_at
from webhook.history.entry import RecordEntry, read_entry

PREFIX: Final = "harbormaster-history-"
LABEL: Final = OURS + "history"
LABELS: Final = {LABEL: "true"}
ENTRIES: Final = "entries"
UNTIL: Final = "until"
SOURCE: Final = "source"
"""Keys of ``data``: `ENTRIES` has the lines, `UNTIL` the time of the last one, `SOURCE` the kind of process."""
CHUNK_BYTES: Final = 64 * 1024
"""Largest size of the entries of one ConfigMap.

Each write and its response carry all entries of a ConfigMap. The response enlarges the TLS buffer of the connection.
"""
MOST_CHUNKS: Final = 2000
"""Maximum number of ConfigMaps per kind of process, however small, because each short-lived process leaves one.

The largest configurable history, 64 MiB, fills 1,024 of them.
"""
STRETCHES: Final = 7
"""Divisor of the retention period. One ConfigMap covers at most that part of it: only whole ConfigMaps are deleted."""
SHARES: Final = 8
"""Divisor of the retained size. A process enforces retention each time it has written that part of it."""


class RecordSource(StrEnum):
    """Kind of process that wrote an entry."""

    LOOP = "loop"
    SERVER = "server"


def chunk_name(began: datetime, instance: str, number: int) -> str:
    """Return the name of the *number*-th ConfigMap of a process. Names sort by time."""
    digest = hashlib.sha256(f"{instance}/{number}".encode()).hexdigest()[:10]
    return f"{PREFIX}{began:%Y%m%d%H%M%S}-{digest}"


def chunk_document(
    name: str, namespace: str, source: RecordSource, instance: str, lines: Sequence[str], until: datetime
) -> JsonObject:
    """Return a ConfigMap of the record."""
    return {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": LABELS},
        "data": {
            SOURCE: str(source),
            "instance": instance,
            UNTIL: format_time(until),
            ENTRIES: "\n".join(lines),
        },
    }


def is_chunk(document: JsonObject) -> bool:
    """Return whether a ConfigMap is part of the record."""
    return name_of(document).startswith(PREFIX) and label(document, LABEL) == LABELS[LABEL]


def size_of(document: JsonObject) -> int:
    """Return the size of a ConfigMap's entries in bytes."""
    return len(text_at(document, "data", ENTRIES).encode(errors="replace"))


def lines_of(document: JsonObject) -> list[str]:
    """Return the entries in a ConfigMap of the record, one line each."""
    return [line for line in text_at(document, "data", ENTRIES).split("\n") if line]


def entries_in(documents: Iterable[JsonObject]) -> Iterator[RecordEntry | None]:
    """Yield the entries of ConfigMaps in order, and None for each line that cannot be parsed."""
    for document in documents:
        yield from map(read_entry, lines_of(document))


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits of the history.

    Args:
        age: Retention period.
        most_bytes: Limit on the size of entries per kind of process, so that a user who is refused repeatedly cannot
            displace the decisions of the loop.
    """

    age: timedelta
    most_bytes: int

    def outdated(self, documents: Iterable[JsonObject], own: str, now: datetime) -> Iterator[JsonObject]:
        """Yield the ConfigMaps that exceed a limit, oldest first, but never *own*, the name of the one in use.

        If the end of a period cannot be parsed, the creation time counts.
        """
        chunks = sorted(filter(is_chunk, documents), key=_end, reverse=True)
        held: Counter[str] = Counter()
        many: Counter[str] = Counter()
        going = []
        for chunk in chunks:
            source = text_at(chunk, "data", SOURCE)
            held[source] += size_of(chunk)
            many[source] += 1
            late = _end(chunk) < now - self.age or held[source] > self.most_bytes or many[source] > MOST_CHUNKS
            if late and name_of(chunk) != own:
                going.append(chunk)
        yield from reversed(going)


_NEVER: Final = parse_time("0001-01-01T00:00:00Z")


def _end(document: JsonObject) -> datetime:
    for text in (text_at(document, "data", UNTIL), text_at(document, "metadata", "creationTimestamp")):
        try:
            return parse_time(text)
        except ValueError:
            continue
    return _NEVER
