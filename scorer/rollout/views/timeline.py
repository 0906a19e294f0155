"""Timelines: bands with a bar per cluster and a mark per wait, and the timeline of a rolling update.

A rolling update is one band, a staged update has one per stage, so that both are drawn in the same way. Every time
comes from the transition time of a condition.

A cluster may join the placement months after the others got the same release. The timeline therefore shows only the
latest period of activity. Times that precede the next start by more than a day are omitted, and their clusters are
shown as updated.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, Final, NotRequired

from typing_extensions import TypedDict

from scorer.api.conditions import FALSE, TRUE
from scorer.api.meta import JsonObject, format_instant, format_time, read_instant
from scorer.api.placement.binding import BindingState
from scorer.api.unstructured.documents import dicts_at, find_current, generation_of, is_deleting, status_of, text_at
from scorer.api.values.answer import Instant, one_of
from scorer.rollout.bindings import APPLIED, AVAILABLE, DIFF_REPORTED, OVERRIDDEN, ROLLOUT_STARTED, WORK_SYNCHRONIZED
from scorer.rollout.status.failures import failure_of
from scorer.rollout.status.progress import failed_object


class BarState(StrEnum):
    """State of an update on one cluster."""

    NOT_REACHED = "not reached"
    WAITING = "waiting"
    UPDATING = "updating"
    UPDATED = "updated"
    FAILED = "failed"
    LEFT = "left"
    SKIPPED = "skipped"


class MarkKind(StrEnum):
    """Kind of wait between clusters."""

    APPROVAL_BEFORE = "approval before"
    APPROVAL_AFTER = "approval after"
    TIMED_WAIT = "timed wait"
    SCHEDULED_BEFORE = "scheduled before"
    SCHEDULED_AFTER = "scheduled after"


_TimelineSpan = TypedDict("_TimelineSpan", {"from": Instant})


class TimelineSpan(_TimelineSpan, TypedDict):
    """A period."""

    to: Instant


class TimelineBar(TypedDict):
    """One cluster."""

    cluster: str
    state: Annotated[str, one_of(*BarState)]
    """Left: the run ended before its outcome was known."""
    startedAt: Instant | None
    endedAt: Instant | None
    """Null until the outcome is known."""
    detail: str
    """Cause of its wait, or an error."""
    forecast: NotRequired[TimelineSpan]
    """Expected period of its upgrade."""
    windows: NotRequired[list[TimelineSpan]]
    """Its open maintenance windows from now on."""


class TimelineMark(TypedDict):
    """A wait before or after the clusters of a stage."""

    kind: Annotated[str, one_of(*MarkKind)]
    since: Instant | None
    """Null until it starts."""
    until: Instant | None
    """Its end, past or expected. Null if unknown."""
    over: bool
    request: str
    """Name of the approval request or of the gate. Empty for a timed wait."""


BandState = Annotated[
    str, one_of("not reached", "waiting", "updating", "stopping", "stopped", "done", "skipped", "failed")
]


class TimelineBand(TypedDict):
    """A stage, or a rolling update as a whole."""

    name: str
    state: BandState
    detail: str
    """An error, or empty."""
    deletes: bool
    """Whether the placement is removed from these clusters."""
    startedAt: Instant | None
    endedAt: Instant | None
    atOnce: int | None
    """Maximum number of concurrent updates of clusters. Null without such a limit."""
    bars: list[TimelineBar]
    """The clusters, in the order of the update."""
    marks: list[TimelineMark]


class UpdateTimeline(TypedDict):
    """An update from its first cluster to its last."""

    startedAt: Instant | None
    endedAt: Instant | None
    """Null until it ends."""
    bands: list[TimelineBand]


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A period."""

    begin: datetime
    end: datetime

    def document(self) -> TimelineSpan:
        """Return it as JSON."""
        return {"from": format_time(self.begin), "to": format_time(self.end)}


@dataclass(frozen=True, slots=True)
class Bar:
    """One cluster.

    Args:
        cluster: Name.
        state: State of the update there.
        started: Start of the update. None if not started.
        ended: Time at which its outcome was known. None if not ended.
        detail: Cause of its wait, or an error, otherwise empty.
        forecast: Expected period of its update. None: unknown, or in the past.
        windows: Maintenance windows from now on. Empty if it has none, or if they no longer matter.
    """

    cluster: str
    state: BarState
    started: datetime | None = None
    ended: datetime | None = None
    detail: str = ""
    forecast: TimeSpan | None = None
    windows: tuple[TimeSpan, ...] = ()

    def document(self) -> TimelineBar:
        """Return it as JSON. Forecast and windows are omitted if empty."""
        document: TimelineBar = {
            "cluster": self.cluster,
            "state": self.state.value,
            "startedAt": format_instant(self.started),
            "endedAt": format_instant(self.ended),
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
        kind: Kind.
        since: Start. None if not started.
        until: End, past or expected. None: unknown.
        over: Whether it has ended.
        request: Name of the approval request or of the gate. Empty for a timed wait.
    """

    kind: MarkKind
    since: datetime | None = None
    until: datetime | None = None
    over: bool = False
    request: str = ""

    def document(self) -> TimelineMark:
        """Return it as JSON."""
        return {
            "kind": self.kind.value,
            "since": format_instant(self.since),
            "until": format_instant(self.until),
            "over": self.over,
            "request": self.request,
        }


@dataclass(frozen=True, slots=True)
class Band:
    """Clusters that belong together.

    Args:
        name: Name of the stage.
        state: State in one or two words.
        bars: One per cluster, in the order of the update.
        marks: The waits, those before the clusters first.
        started: Time at which the first cluster was started, or the stage was skipped.
        ended: Time at which all clusters were done.
        max_concurrency: Maximum number of concurrent updates of clusters. None: unlimited.
        detail: An error, or empty.
        deletes: Whether the placement is removed from these clusters.
    """

    name: str
    state: str
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...] = ()
    started: datetime | None = None
    ended: datetime | None = None
    max_concurrency: int | None = None
    detail: str = ""
    deletes: bool = False

    def document(self) -> TimelineBand:
        """Return it as JSON."""
        return {
            "name": self.name,
            "state": self.state,
            "detail": self.detail,
            "deletes": self.deletes,
            "startedAt": format_instant(self.started),
            "endedAt": format_instant(self.ended),
            "atOnce": self.max_concurrency,
            "bars": [bar.document() for bar in self.bars],
            "marks": [mark.document() for mark in self.marks],
        }


@dataclass(frozen=True, slots=True)
class Timeline:
    """An update from its first cluster to its last.

    Args:
        bands: Bands in the order of execution.
        started: Start. None if not started.
        ended: End. None if not ended.
    """

    bands: tuple[Band, ...]
    started: datetime | None = None
    ended: datetime | None = None

    def document(self) -> UpdateTimeline:
        """Return it as JSON. It does not depend on the current time, so that responses with it can be cached."""
        return {
            "startedAt": format_instant(self.started),
            "endedAt": format_instant(self.ended),
            "bands": [band.document() for band in self.bands],
        }

    def count(self, state: BarState) -> int:
        """Return the number of clusters in this state."""
        return sum(bar.state is state for band in self.bands for bar in band.bars)


def earliest(instants: Iterable[datetime | None]) -> datetime | None:
    """Return the earliest known instant, or None."""
    return min((instant for instant in instants if instant is not None), default=None)


def latest(instants: Iterable[datetime | None]) -> datetime | None:
    """Return the latest known instant, or None."""
    return max((instant for instant in instants if instant is not None), default=None)


def time_at(document: object, *members: str) -> datetime | None:
    """Return the instant at a path. None: unset or invalid."""
    return read_instant(text_at(document, *members))


BAND: Final = "rolling update"
REST: Final = timedelta(days=1)
"""A longer pause between two starts separates two periods of activity."""

_IN_PROGRESS: Final = "ApplyInProgress"
_STEPS: Final = (OVERRIDDEN, WORK_SYNCHRONIZED, APPLIED)
_STATES: Final = (
    (BarState.FAILED, "failed"),
    (BarState.UPDATING, "updating"),
    (BarState.WAITING, "waiting"),
)
"""Name of the state of the band, determined by the worst of its bars."""


def rolling_timeline(bindings: Iterable[JsonObject]) -> Timeline:
    """Return the timeline of the last rolling update of a placement.

    Args:
        bindings: Bindings of the placement. Those to be removed are ignored.
    """
    bars = _recent([_bar(binding) for binding in bindings if _counts(binding)])
    bars.sort(key=lambda bar: (bar.started is None, bar.started.timestamp() if bar.started else 0, bar.cluster))
    start = earliest(bar.started for bar in bars)
    is_over = all(bar.state is BarState.UPDATED for bar in bars)
    end = latest(bar.ended for bar in bars) if is_over else None
    state = next((word for kind, word in _STATES if any(bar.state is kind for bar in bars)), "done")
    return Timeline((Band(BAND, state, tuple(bars), started=start, ended=end),), start, end)


def _counts(binding: JsonObject) -> bool:
    return not is_deleting(binding) and text_at(binding, "spec", "state") != BindingState.UNSCHEDULED


def _recent(bars: Sequence[Bar]) -> list[Bar]:
    """Return the bars without the times of those that ended long before the latest period of activity."""
    starts = sorted((bar.started for bar in bars if bar.started is not None), reverse=True)
    since = starts[0] if starts else None
    for later, earlier in pairwise(starts):
        if later - earlier > REST:
            break
        since = earlier
    return [_without_times(bar) if _is_before(bar, since) else bar for bar in bars]


def _is_before(bar: Bar, since: datetime | None) -> bool:
    if bar.state is not BarState.UPDATED or bar.started is None:
        return False
    return since is not None and bar.started < since


def _without_times(bar: Bar) -> Bar:
    return replace(bar, started=None, ended=None)


def _bar(binding: JsonObject) -> Bar:
    cluster = text_at(binding, "spec", "targetCluster")
    started_condition = _current(binding, ROLLOUT_STARTED)
    if started_condition.get("status") != TRUE:
        return Bar(cluster, BarState.WAITING, detail=_words(started_condition) or "no progress yet")
    start = _start_time(binding, started_condition)
    for kind in (AVAILABLE, DIFF_REPORTED):
        outcome = _current(binding, kind)
        if outcome.get("status") == TRUE:
            return Bar(cluster, BarState.UPDATED, start, latest((start, time_at(outcome, "lastTransitionTime"))))
    state, detail = outcome_in_flight(binding)
    return Bar(cluster, state, start, detail=detail)


def _start_time(binding: JsonObject, started_condition: JsonObject) -> datetime | None:
    """Return when a cluster got its release. None: unknown.

    A cluster of the first batch gets one release after the other. RolloutStarted remains True, with the transition time
    of the first release, while the next condition gets a new transition time with each.
    """
    return latest(
        time_at(condition, "lastTransitionTime")
        for condition in (started_condition, _current(binding, OVERRIDDEN))
        if condition
    )


def outcome_in_flight(binding: JsonObject) -> tuple[BarState, str]:
    """Return whether a cluster that has a release but is not available has failed, and what is pending."""
    if failure := failure_of(binding):
        return BarState.FAILED, failure
    steps = [condition for kind in (*_STEPS, AVAILABLE, DIFF_REPORTED) if (condition := _current(binding, kind))]
    open_step = next((step for step in steps if step.get("status") != TRUE), {})
    failures = {"failedPlacements": dicts_at(status_of(binding), "failedPlacements")}
    detail = failed_object(failures) or _words(open_step)
    failed = (
        open_step.get("type") in _STEPS and open_step.get("status") == FALSE and open_step.get("reason") != _IN_PROGRESS
    )
    return (BarState.FAILED if failed else BarState.UPDATING), detail


def _current(binding: JsonObject, kind: str) -> JsonObject:
    return find_current(dicts_at(status_of(binding), "conditions"), kind, generation_of(binding)) or {}


def _words(condition: dict[str, Any]) -> str:
    return text_at(condition, "message") or text_at(condition, "reason")
