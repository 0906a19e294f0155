"""What a timeline is made of: bands, each with a bar per cluster and a mark per wait.

A rolling update is one band, a staged update has one per stage, so that both can be drawn alike. Every time here comes
from a condition: what has none, has no time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from scorer.api.documents import text_at
from scorer.api.meta import JsonObject, format_time, parse_time


class BarState(StrEnum):
    """How far an update is on one cluster."""

    NOT_REACHED = "not reached"
    WAITING = "waiting"
    UPDATING = "updating"
    UPDATED = "updated"
    FAILED = "failed"
    LEFT = "left"
    SKIPPED = "skipped"


class MarkKind(StrEnum):
    """What is waited for between clusters."""

    APPROVAL_BEFORE = "approval before"
    APPROVAL_AFTER = "approval after"
    TIMED_WAIT = "timed wait"
    SCHEDULED_BEFORE = "scheduled before"
    SCHEDULED_AFTER = "scheduled after"


@dataclass(frozen=True, slots=True)
class Span:
    """From one instant to another."""

    begin: datetime
    end: datetime

    def document(self) -> JsonObject:
        """Return it as JSON."""
        return {"from": written(self.begin), "to": written(self.end)}


@dataclass(frozen=True, slots=True)
class Bar:
    """One cluster.

    Args:
        cluster: Its name.
        state: How far the update is there.
        started: When it began; None: not yet.
        ended: When its outcome was known; None: not yet.
        detail: What it waits for, or what is wrong; empty: nothing is to be said.
        forecast: When it is expected to be updated; None: it has been, or nobody knows.
        windows: When it may be updated from now on; empty: at any time, or that does not matter any more.
    """

    cluster: str
    state: BarState
    started: datetime | None = None
    ended: datetime | None = None
    detail: str = ""
    forecast: Span | None = None
    windows: tuple[Span, ...] = ()

    def document(self) -> JsonObject:
        """Return it as JSON; what is expected, and windows, only where there are some."""
        document: JsonObject = {
            "cluster": self.cluster,
            "state": self.state.value,
            "startedAt": written(self.started),
            "endedAt": written(self.ended),
            "detail": self.detail,
        }
        if self.forecast is not None:
            document["forecast"] = self.forecast.document()
        if self.windows:
            document["windows"] = [window.document() for window in self.windows]
        return document


@dataclass(frozen=True, slots=True)
class Mark:
    """One wait of a band.

    Args:
        kind: For what.
        since: When it began; None: not yet.
        until: When it ended, or will end; None: nobody knows.
        over: Whether it has ended.
        request: Name of the approval request; empty: none.
    """

    kind: MarkKind
    since: datetime | None = None
    until: datetime | None = None
    over: bool = False
    request: str = ""

    def document(self) -> JsonObject:
        """Return it as JSON."""
        return {
            "kind": self.kind.value,
            "since": written(self.since),
            "until": written(self.until),
            "over": self.over,
            "request": self.request,
        }


@dataclass(frozen=True, slots=True)
class Band:
    """Clusters that belong together.

    Args:
        name: Of the stage.
        state: In a word or two.
        bars: One per cluster, in the order of their turns.
        marks: The waits, those before the clusters first.
        started: When the first cluster was started, or the stage was passed over.
        ended: When all was done.
        at_once: How many clusters may be updated at the same time; None: no limit.
        detail: What is wrong with it; empty: nothing.
        deletes: Whether the placement is removed from these clusters.
    """

    name: str
    state: str
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...] = ()
    started: datetime | None = None
    ended: datetime | None = None
    at_once: int | None = None
    detail: str = ""
    deletes: bool = False

    def document(self) -> JsonObject:
        """Return it as JSON."""
        return {
            "name": self.name,
            "state": self.state,
            "detail": self.detail,
            "deletes": self.deletes,
            "startedAt": written(self.started),
            "endedAt": written(self.ended),
            "atOnce": self.at_once,
            "bars": [bar.document() for bar in self.bars],
            "marks": [mark.document() for mark in self.marks],
        }


@dataclass(frozen=True, slots=True)
class Timeline:
    """An update from its first cluster to its last.

    Args:
        bands: In the order in which they run.
        started: When it began; None: not yet.
        ended: When it was over; None: it is not.
    """

    bands: tuple[Band, ...]
    started: datetime | None = None
    ended: datetime | None = None

    def document(self) -> JsonObject:
        """Return it as JSON; it is the same at all times, so that answers that hold it can be cached."""
        return {
            "startedAt": written(self.started),
            "endedAt": written(self.ended),
            "bands": [band.document() for band in self.bands],
        }

    def count(self, state: BarState) -> int:
        """Return how many clusters are so far."""
        return sum(bar.state is state for band in self.bands for bar in band.bars)


def written(instant: datetime | None) -> str | None:
    """Write an instant, None when there is none."""
    return None if instant is None else format_time(instant)


def earliest(instants: Iterable[datetime | None]) -> datetime | None:
    """Return the first of the instants that are known."""
    return min((each for each in instants if each is not None), default=None)


def latest(instants: Iterable[datetime | None]) -> datetime | None:
    """Return the last of the instants that are known."""
    return max((each for each in instants if each is not None), default=None)


def time_at(document: object, *members: str) -> datetime | None:
    """Return the instant at a path; None: there is none, or it cannot be read."""
    try:
        return parse_time(text_at(document, *members))
    except ValueError:
        return None
