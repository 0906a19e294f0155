"""The record of policy snapshots about clusters that a placement has left: the memory of the window.

Source: docs/specifications/removal.md 7.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import orjson

from scorer.api.meta import JsonObject, dump_json, format_time, parse_time
from scorer.api.names import CLUSTERS_HELD
from scorer.api.unstructured.documents import annotation

DIGEST_PART: Final = 10
"""Characters of a digest in the record, which may list thousands."""


@dataclass(frozen=True, slots=True)
class ClustersHeld:
    """The record of policy snapshots about clusters that were left.

    It only grows until entries leave the window. So it may be written twice, as after a crash, and its parts on
    several snapshots add up.

    Args:
        counts: How many clusters the placement had, and when, each time it left some unconfirmed.
        confirmed: When the removal of each confirmed cluster was ordered, by a part of its digest.
    """

    counts: tuple[tuple[datetime, int], ...] = ()
    confirmed: Mapping[str, datetime] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshots: Iterable[JsonObject]) -> "ClustersHeld":
        """Read the record of all policy snapshots of a placement. A part that cannot be read counts as empty."""
        counts: set[tuple[datetime, int]] = set()
        confirmed: dict[str, datetime] = {}
        for snapshot in snapshots:
            with suppress(ValueError, TypeError, AttributeError, LookupError):
                record = orjson.loads(annotation(snapshot, CLUSTERS_HELD) or "{}")
                ordered = {
                    digest: parse_time(when) for when, text in record["confirmed"].items() for digest in text.split(" ")
                }
                counts |= {(parse_time(when), int(count)) for when, count in record["counts"]}
                confirmed |= {digest: min(when, confirmed.get(digest, when)) for digest, when in ordered.items()}
        return cls(tuple(sorted(counts)), confirmed)

    def since(self, start: datetime) -> "ClustersHeld":
        """Return the entries after *start* that decide: a count is one of the largest since its time."""
        counts: list[tuple[datetime, int]] = []
        for when, count in sorted(self.counts, reverse=True):
            if when > start and (not counts or count > counts[-1][1]):
                counts.append((when, count))
        return ClustersHeld(
            tuple(counts[::-1]), {digest: when for digest, when in self.confirmed.items() if when > start}
        )

    def format(self) -> str:
        """Return the value of the annotation. Empty: no record."""
        if not self.counts:
            return ""
        confirmed: dict[str, list[str]] = {}
        for digest, when in sorted(self.confirmed.items()):
            confirmed.setdefault(format_time(when), []).append(digest)
        return dump_json(
            {
                "counts": [[format_time(when), count] for when, count in self.counts],
                "confirmed": {when: " ".join(digests) for when, digests in sorted(confirmed.items())},
            }
        ).decode()

    @property
    def largest(self) -> int:
        """The largest number of clusters on record, less those that were confirmed since."""
        times = self.confirmed.values()
        return max((count - sum(when >= since for when in times) for since, count in self.counts), default=0)
