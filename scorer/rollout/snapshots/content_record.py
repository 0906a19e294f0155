"""The record of a resource snapshot about its objects, alongside their content.

Source: docs/specifications/removal.md 6.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.names import SOURCES
from scorer.api.unstructured.documents import annotation, name_of, with_metadata
from scorer.rollout.snapshots.groups import selected_resources


@dataclass(frozen=True, slots=True)
class ContentRecord:
    """The record of the snapshots of a group.

    Args:
        sources: Returns the record about the objects of one snapshot. None: disabled, nothing is recorded.
        retained: Names of masters that are not trimmed from the history.
        removes: Whether a confirmed removal takes objects of the latest snapshot out of the content.
    """

    sources: Callable[[Sequence[JsonObject]], str] | None = None
    retained: frozenset[str] = frozenset()
    removes: bool = False

    def written(self, snapshot: JsonObject) -> JsonObject:
        """Return a new snapshot with its record."""
        if self.sources is None:
            return snapshot
        return with_metadata(snapshot, annotations={SOURCES: self.sources(selected_resources(snapshot))})


NO_RECORD: Final = ContentRecord()


def missing_records(stored: Iterable[JsonObject], desired: Iterable[JsonObject]) -> dict[str, str]:
    """Return the missing or outdated records, by name. Empty if another release has split the content differently.

    Args:
        stored: The snapshots of a group.
        desired: The same group as it is written now.
    """
    by_name = {name_of(document): document for document in stored}
    pairs = [(by_name[name_of(document)], document) for document in desired if name_of(document) in by_name]
    if any(len(selected_resources(old)) != len(selected_resources(new)) for old, new in pairs):
        return {}
    texts = [(name_of(old), annotation(old, SOURCES), annotation(new, SOURCES)) for old, new in pairs]
    return {name: text for name, present, text in texts if text and text != present}
