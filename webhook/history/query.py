"""Queries on the history, and their results."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from typing_extensions import TypedDict

from scorer.api.meta import JsonObject, format_time, parse_time
from webhook.history.entry import EntryType, HistoryEntry, RecordEntry
from webhook.history.record import entries_in, is_chunk

USUAL_ITEMS: Final = 200
MOST_ITEMS: Final = 1000


@dataclass(frozen=True, slots=True)
class Query:
    """Filter on entries. An empty or unset field matches every entry, except for *in_namespaces* and *cluster_scoped*.

    Args:
        types: Categories of entries.
        kind: Kind of the object.
        namespace: Namespace of the object.
        name: Name of the object.
        reason: The reason, or one of several rule ids.
        by: The requesting user.
        id: The id of one entry.
        words: Words in lower case that the text of an entry must contain, in any order.
        since: Earliest last occurrence, inclusive.
        before: Latest last occurrence, exclusive.
        after: Sort key of the last entry on the previous page. Only older entries match.
        limit: Maximum number of entries. The latest ones are returned.
        hidden: Kinds whose objects are excluded.
        in_namespaces: Kinds whose namespaced objects match. Empty: none match. None: unlimited.
        cluster_scoped: Kinds whose cluster-scoped objects match. Empty: none match. None: unlimited.
        excluded: Excluded pairs of kind and category.
    """

    types: frozenset[EntryType] = frozenset()
    kind: str = ""
    namespace: str = ""
    name: str = ""
    reason: str = ""
    by: str = ""
    id: str = ""
    words: tuple[str, ...] = ()
    since: datetime | None = None
    before: datetime | None = None
    after: tuple[datetime, str] | None = None
    limit: int = USUAL_ITEMS
    hidden: frozenset[str] = frozenset()
    in_namespaces: frozenset[str] | None = None
    cluster_scoped: frozenset[str] | None = None
    excluded: frozenset[tuple[str, EntryType]] = frozenset()

    def matches(self, entry: RecordEntry) -> bool:
        """Return whether an entry meets all conditions except *limit*."""
        about = entry.about
        return (
            (not self.types or entry.type in self.types)
            and about.kind not in self.hidden
            and (about.kind, entry.type) not in self.excluded
            and (self.in_namespaces is None or not about.namespace or about.kind in self.in_namespaces)
            and (self.cluster_scoped is None or about.namespace or about.kind in self.cluster_scoped)
            and self.kind in ("", about.kind)
            and self.namespace in ("", about.namespace)
            and self.name in ("", about.name)
            and self.by in ("", entry.by)
            and self.id in ("", entry.id)
            and (not self.reason or self.reason in entry.reason.split(","))
            and (self.since is None or entry.until >= self.since)
            and (self.before is None or entry.until < self.before)
            and (self.after is None or entry.place < self.after)
            and (not self.words or _has_all(entry, self.words))
        )


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a search."""
    return tuple(text.lower().split())


def _has_all(entry: RecordEntry, words: Iterable[str]) -> bool:
    about = entry.about
    name = f"{about.namespace}/{about.name}" if about.namespace else about.name
    text = f"{entry.type} {about.kind} {name} {entry.reason} {entry.by} {entry.message}".lower()
    return all(word in text for word in words)


def format_place(place: tuple[datetime, str]) -> str:
    """Return the continue token for the entries after a sort key."""
    return f"{format_time(place[0])}/{place[1]}"


def parse_place(token: str) -> tuple[datetime, str]:
    """Parse a continue token.

    Raises:
        ValueError: *token* is not a continue token.
    """
    time, separator, identity = token.partition("/")
    if not separator:
        raise ValueError(token)
    return parse_time(time), identity


class RecordedEntries(TypedDict):
    """Entries of the record, the latest first."""

    items: list[HistoryEntry]
    more: bool
    unreadable: int


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """One page of matching entries.

    Args:
        entries: Latest first.
        more: Whether older entries match.
        unreadable: Number of lines that could not be parsed.
    """

    entries: tuple[RecordEntry, ...]
    more: bool
    unreadable: int

    def document(self) -> RecordedEntries:
        """Return the JSON form of ``harbormaster history -o json``."""
        items = [entry.document() for entry in self.entries]
        return {"items": items, "more": self.more, "unreadable": self.unreadable}

    @property
    def token(self) -> str:
        """Continue token of the next page, empty on the last one."""
        return format_place(self.entries[-1].place) if self.more else ""


def find(documents: Iterable[JsonObject], waiting: Iterable[RecordEntry], query: Query) -> HistoryPage:
    """Return the page of the matching entries, the latest first.

    Args:
        documents: ConfigMaps. Those that are not part of the record are ignored.
        waiting: Entries that are not written yet.
        query: The filter.
    """
    unreadable = 0
    # Deduplicate by id: after a lost response, a process writes the same entry again, perhaps with a higher count.
    by_id: dict[str, RecordEntry] = {}
    for entry in (*entries_in(filter(is_chunk, documents)), *waiting):
        if entry is None:
            unreadable += 1
        elif (previous := by_id.get(entry.id)) is None or previous.count < entry.count:
            by_id[entry.id] = entry
    latest = sorted(filter(query.matches, by_id.values()), key=lambda entry: entry.place, reverse=True)
    return HistoryPage(tuple(latest[: query.limit]), len(latest) > query.limit, unreadable)
