"""What is asked of the record, and what it answers."""

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
    """Which entries are wanted; what is empty or None does not matter.

    Args:
        types: Of one of these types.
        kind: About an object of this kind.
        namespace: About an object in this namespace.
        name: About an object of this name.
        reason: For this reason; of several ids of rules, one.
        by: Caused by this user.
        since: Not before.
        before: Before, by the last occurrence.
        after: After the entry at this place, which was the last of the page before.
        limit: How many at most, the latest ones.
        hidden: Not about objects of these kinds.
        in_namespaces: About objects in namespaces only of these kinds; None: of any.
        cluster_scoped: About cluster-scoped objects only of these kinds; None: unlimited.
        untold: Not of these types about objects of these kinds.
    """

    types: frozenset[EntryType] = frozenset()
    kind: str = ""
    namespace: str = ""
    name: str = ""
    reason: str = ""
    by: str = ""
    since: datetime | None = None
    before: datetime | None = None
    after: tuple[datetime, str] | None = None
    limit: int = USUAL_ITEMS
    hidden: frozenset[str] = frozenset()
    in_namespaces: frozenset[str] | None = None
    cluster_scoped: frozenset[str] | None = None
    untold: frozenset[tuple[str, EntryType]] = frozenset()

    def matches(self, entry: RecordEntry) -> bool:
        """Return whether an entry is wanted."""
        about = entry.about
        return (
            (not self.types or entry.type in self.types)
            and about.kind not in self.hidden
            and (about.kind, entry.type) not in self.untold
            and (self.in_namespaces is None or not about.namespace or about.kind in self.in_namespaces)
            and (self.cluster_scoped is None or about.namespace or about.kind in self.cluster_scoped)
            and self.kind in ("", about.kind)
            and self.namespace in ("", about.namespace)
            and self.name in ("", about.name)
            and self.by in ("", entry.by)
            and (not self.reason or self.reason in entry.reason.split(","))
            and (self.since is None or entry.until >= self.since)
            and (self.before is None or entry.until < self.before)
            and (self.after is None or entry.place < self.after)
        )


def format_place(place: tuple[datetime, str]) -> str:
    """Write the place of an entry, as a token that asks for those after it."""
    return f"{format_time(place[0])}/{place[1]}"


def parse_place(token: str) -> tuple[datetime, str]:
    """Read such a token. Raises `ValueError`."""
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
    """What the record has.

    Args:
        entries: Latest first.
        more: There are older ones.
        unreadable: How many lines could not be read.
    """

    entries: tuple[RecordEntry, ...]
    more: bool
    unreadable: int

    def document(self) -> RecordedEntries:
        """Return it as ``harbormaster history -o json`` does."""
        items = [entry.document() for entry in self.entries]
        return {"items": items, "more": self.more, "unreadable": self.unreadable}

    @property
    def token(self) -> str:
        """Return what asks for the entries after these; empty: there are none."""
        return format_place(self.entries[-1].place) if self.more else ""


def find(documents: Iterable[JsonObject], waiting: Iterable[RecordEntry], query: Query) -> HistoryPage:
    """Return what is wanted of the record.

    Args:
        documents: ConfigMaps; those that are not of the record do not count.
        waiting: What is not written yet.
        query: What is wanted.
    """
    unreadable = 0
    # After a lost answer, a process writes the same entry again, perhaps with more counted.
    found: dict[str, RecordEntry] = {}
    for entry in (*entries_in(filter(is_chunk, documents)), *waiting):
        if entry is None:
            unreadable += 1
        elif (previous := found.get(entry.id)) is None or previous.count < entry.count:
            found[entry.id] = entry
    latest = sorted(filter(query.matches, found.values()), key=lambda entry: entry.place, reverse=True)
    return HistoryPage(tuple(latest[: query.limit]), len(latest) > query.limit, unreadable)
