"""The record: ConfigMaps in the namespace of the installation.

Each has the entries of one process and one stretch of time, as lines of JSON. ConfigMaps, and not a volume: every
replica, the page and a user with nothing but a kubeconfig read the same record, it outlives pods and nodes, needs no
storage class, and is backed up with the rest of the hub. It costs little: a process writes only its own ConfigMap, at
most once per interval, and nothing while nothing happens. The embedded store keeps the same objects in its file.

What is kept is bounded by age and by size: whole ConfigMaps go, oldest first.
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
"""Keys of ``data``: the lines, when the last of them happened, and what kind of process wrote them."""
CHUNK_BYTES: Final = 64 * 1024
"""Largest size of the entries of one ConfigMap.

Each write repeats all of them, and the API server's answer as well, which enlarges the TLS buffer of its connection.
"""
MOST_CHUNKS: Final = 2000
"""Most ConfigMaps of one kind of process, however small: a process that ends soon leaves one.

The largest history that can be set, 64 MiB, takes 1,024 full ones.
"""
STRETCHES: Final = 7
"""A ConfigMap covers at most this part of the time that is kept: whole ones go, with all that is in them."""
SHARES: Final = 8
"""The record is put in order whenever a process has written this part of the size that is kept."""


class RecordSource(StrEnum):
    """What kind of process an entry comes from."""

    LOOP = "loop"
    SERVER = "server"


def chunk_name(began: datetime, instance: str, number: int) -> str:
    """Return the name of the ConfigMap that a process begins at an instant, its *number*-th; names sort by time."""
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
    """Say whether a ConfigMap is part of the record."""
    return name_of(document).startswith(PREFIX) and label(document, LABEL) == LABELS[LABEL]


def size_of(document: JsonObject) -> int:
    """Return how many bytes of entries a ConfigMap holds."""
    return len(text_at(document, "data", ENTRIES).encode(errors="replace"))


def lines_of(document: JsonObject) -> list[str]:
    """Return the lines of entries that a ConfigMap holds."""
    return [line for line in text_at(document, "data", ENTRIES).split("\n") if line]


def entries_in(documents: Iterable[JsonObject]) -> Iterator[RecordEntry | None]:
    """Yield what ConfigMaps of the record hold, in their order; None for each line that cannot be read."""
    for document in documents:
        yield from map(read_entry, lines_of(document))


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept.

    Args:
        age: How long.
        most_bytes: How much of entries, over all processes of one kind: users who are refused again and again cannot
            push out what the loop has decided.
    """

    age: timedelta
    most_bytes: int

    def outdated(self, documents: Iterable[JsonObject], own: str, now: datetime) -> Iterator[JsonObject]:
        """Yield the ConfigMaps of the record that are to go, oldest first; never *own*, the name of one in use.

        One whose end cannot be read is taken to have ended when it was made.
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
