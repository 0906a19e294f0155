"""One watch on one kind: reads past changes from the journal, then follows new ones.

A watcher that falls far behind drops its backlog and later reads it from the journal again, so a slow reader costs
little memory.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from typing import Final, NamedTuple

import orjson

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import labels_of
from webhook.embedded.storage.journal import Journal, KindId, Row
from webhook.kube.ports import EventType, StoreError, WatchEvent

LONGEST_BACKLOG: Final = 512
_PAGE: Final = 256

LabelTest = Callable[[Mapping[str, str]], bool]


class StoreEvent(NamedTuple):
    """A change of one object.

    Args:
        version: Resource version of the change.
        type: Type of the event without a selector.
        document: The object afterwards. For a deletion, its last state.
        old_labels: Labels before.
    """

    version: int
    type: EventType
    document: JsonObject
    old_labels: Mapping[str, str]

    @classmethod
    def of_row(cls, row: Row) -> "StoreEvent":
        """Read a change from the journal."""
        document = orjson.loads(row.body)
        old_labels = labels_of(document) if row.old_labels is None else orjson.loads(row.old_labels)
        return cls(row.version, row.type, document, old_labels)


class Watcher(AsyncIterator[WatchEvent]):
    """Yields the changes to one kind after a resource version.

    Args:
        journal: Journal of past changes, read immediately from *since*.
        kind: Group and kind.
        since: The last known version.
        selects: Objects that enter the selection are ADDED, those that leave it DELETED.
        bookmark_every: Silence after which a bookmark is yielded. None: disabled.
        namespace: Only objects in this namespace. None means all.

    Raises:
        ExpiredError: Changes since that version were removed, or it is in the future.
    """

    def __init__(
        self,
        journal: Journal,
        kind: KindId,
        since: int,
        selects: LabelTest | None = None,
        bookmark_every: timedelta | None = None,
        namespace: str | None = None,
    ) -> None:
        self._journal = journal
        self._kind = kind
        self._position = since
        self._selects = selects
        self._namespace = namespace
        self._silence = bookmark_every.total_seconds() if bookmark_every else None
        self._backlog: deque[StoreEvent] = deque()
        self._behind = True
        self._end: str | None = None
        self._wake = asyncio.Event()
        self._catch_up()

    def offer(self, change: StoreEvent) -> None:
        """Enqueue the newest change. If the backlog is full, drop it: the reader reads it from the journal again."""
        if self._behind:
            pass  # appended now, it would precede older changes that are still to be read from the journal
        elif len(self._backlog) < LONGEST_BACKLOG:
            self._backlog.append(change)
        else:
            self._position = self._backlog[0].version - 1
            self._backlog.clear()
            self._behind = True
        self._wake.set()

    def end(self, failure: str = "") -> None:
        """Stop the reader, even if it is waiting. With a message, it gets a `StoreError`."""
        self._end = failure
        self._wake.set()

    async def __anext__(self) -> WatchEvent:
        deadline = asyncio.get_running_loop().time() + self._silence if self._silence else None
        while True:
            if self._end is not None:
                raise StoreError(self._end) if self._end else StopAsyncIteration
            if not self._backlog and self._behind:
                self._catch_up()
            while self._backlog:
                change = self._backlog.popleft()
                self._position = change.version
                if event := self._event(change):
                    return event
            if self._behind:
                continue
            self._wake.clear()  # no await since the backlog was empty, so no change is missed
            try:
                async with asyncio.timeout_at(deadline):
                    await self._wake.wait()
            except TimeoutError:
                if not self._backlog and not self._behind:  # otherwise a change arrived at the moment of the timeout
                    self._position = self._journal.version
                    return WatchEvent(EventType.BOOKMARK, {}, str(self._position))

    def _catch_up(self) -> None:
        rows = self._journal.read(self._kind, self._position, _PAGE)
        self._backlog.extend(map(StoreEvent.of_row, rows))
        self._behind = len(rows) == _PAGE

    def _event(self, change: StoreEvent) -> WatchEvent | None:
        if self._namespace is not None and change.document["metadata"].get("namespace") != self._namespace:
            return None
        if not (kind_of_event := self._seen_as(change)):
            return None
        return WatchEvent(kind_of_event, change.document, str(change.version))

    def _seen_as(self, change: StoreEvent) -> EventType | None:
        if self._selects is None:
            return change.type
        before = change.type is not EventType.ADDED and self._selects(change.old_labels)
        after = change.type is not EventType.DELETED and self._selects(labels_of(change.document))
        match before, after:
            case True, True:
                return EventType.MODIFIED
            case True, False:
                return EventType.DELETED
            case False, True:
                return EventType.ADDED
            case _:
                return None
