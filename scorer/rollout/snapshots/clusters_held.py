"""The clusters that a placement has lost within the window, as recorded on its policy snapshots.

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
"""Length of a digest in the record. Digests are shortened, because the record may list thousands."""


@dataclass(frozen=True, slots=True)
class ClustersHeld:
    """The record of lost clusters on all policy snapshots of a placement.

    Entries are only added, until they leave the window. The record may therefore be written twice, as after a crash,
    and the records of several snapshots are merged.

    Args:
        counts: Time of each unconfirmed loss, and the number of clusters that the placement had before it.
        confirmed: Time at which the removal of each confirmed cluster was ordered, by its shortened digest.
    """

    counts: tuple[tuple[datetime, int], ...] = ()
    confirmed: Mapping[str, datetime] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshots: Iterable[JsonObject]) -> "ClustersHeld":
        """Read the records of all policy snapshots of a placement. An unreadable one counts as empty."""
        counts: set[tuple[datetime, int]] = set()
        confirmation_times: dict[str, datetime] = {}
        for snapshot in snapshots:
            with suppress(ValueError, TypeError, AttributeError, LookupError):
                record = orjson.loads(annotation(snapshot, CLUSTERS_HELD) or "{}")
                times_by_digest = {
                    digest: parse_time(time) for time, text in record["confirmed"].items() for digest in text.split(" ")
                }
                counts |= {(parse_time(time), int(count)) for time, count in record["counts"]}
                confirmation_times |= {
                    digest: min(time, confirmation_times.get(digest, time)) for digest, time in times_by_digest.items()
                }
        return cls(tuple(sorted(counts)), confirmation_times)

    def since(self, start: datetime) -> "ClustersHeld":
        """Return the entries after *start*, without counts that a later count equals or exceeds."""
        counts: list[tuple[datetime, int]] = []
        for time, count in sorted(self.counts, reverse=True):
            if time > start and (not counts or count > counts[-1][1]):
                counts.append((time, count))
        return ClustersHeld(
            tuple(counts[::-1]), {digest: time for digest, time in self.confirmed.items() if time > start}
        )

    def format(self) -> str:
        """Return the value of the annotation. Empty: no unconfirmed loss is recorded."""
        if not self.counts:
            return ""
        digests_by_time: dict[str, list[str]] = {}
        for digest, time in sorted(self.confirmed.items()):
            digests_by_time.setdefault(format_time(time), []).append(digest)
        return dump_json(
            {
                "counts": [[format_time(time), count] for time, count in self.counts],
                "confirmed": {time: " ".join(digests) for time, digests in sorted(digests_by_time.items())},
            }
        ).decode()

    @property
    def largest(self) -> int:
        """The largest recorded number of clusters, less the clusters that were confirmed afterwards."""
        times = self.confirmed.values()
        return max((count - sum(time >= since for time in times) for since, count in self.counts), default=0)
