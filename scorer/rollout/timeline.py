"""A rolling update as a timeline: when each cluster of a placement got the latest release, and which ones wait.

A cluster that joined the placement months after the others got the same release then. What lies a day before the next
start is therefore left out of the times: the timeline shows the last stretch of work, and the others as updated.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from scorer.api.binding import BindingState
from scorer.api.conditions import FALSE, TRUE
from scorer.api.documents import dicts_at, find_current, generation_of, is_deleting, status_of, text_at
from scorer.api.meta import JsonObject
from scorer.rollout.bands import Band, Bar, BarState, Timeline, earliest, latest, time_at
from scorer.rollout.bindings import APPLIED, AVAILABLE, DIFF_REPORTED, OVERRIDDEN, ROLLOUT_STARTED, WORK_SYNCHRONIZED
from scorer.rollout.failing import failure_of
from scorer.rollout.stalling import failed_object

BAND: Final = "rolling update"
REST: Final = timedelta(days=1)
"""After so long without a start, what comes next is another stretch of work."""

_IN_PROGRESS: Final = "ApplyInProgress"
_STEPS: Final = (OVERRIDDEN, WORK_SYNCHRONIZED, APPLIED)
_STATES: Final = (
    (BarState.FAILED, "failed"),
    (BarState.UPDATING, "updating"),
    (BarState.WAITING, "waiting"),
)
"""What the band is called, by the worst of its bars."""


def rolling_timeline(bindings: Iterable[JsonObject]) -> Timeline:
    """Return the timeline of the last rolling update of a placement.

    Args:
        bindings: Of the placement; those that are to be removed are no part of it.
    """
    bars = _recent([_bar(binding) for binding in bindings if _counts(binding)])
    bars.sort(key=lambda bar: (bar.started is None, bar.started.timestamp() if bar.started else 0, bar.cluster))
    started = earliest(bar.started for bar in bars)
    is_over = all(bar.state is BarState.UPDATED for bar in bars)
    ended = latest(bar.ended for bar in bars) if is_over else None
    state = next((word for kind, word in _STATES if any(bar.state is kind for bar in bars)), "done")
    return Timeline((Band(BAND, state, tuple(bars), started=started, ended=ended),), started, ended)


def _counts(binding: JsonObject) -> bool:
    return not is_deleting(binding) and text_at(binding, "spec", "state") != BindingState.UNSCHEDULED


def _recent(bars: Sequence[Bar]) -> list[Bar]:
    """Return the bars without the times of those that ended long before the last stretch of work."""
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
    begun = _current(binding, ROLLOUT_STARTED)
    if begun.get("status") != TRUE:
        return Bar(cluster, BarState.WAITING, detail=_words(begun) or "nothing has happened yet")
    started = _started(binding, begun)
    for kind in (AVAILABLE, DIFF_REPORTED):
        outcome = _current(binding, kind)
        if outcome.get("status") == TRUE:
            return Bar(cluster, BarState.UPDATED, started, latest((started, time_at(outcome, "lastTransitionTime"))))
    state, detail = outcome_in_flight(binding)
    return Bar(cluster, state, started, detail=detail)


def _started(binding: JsonObject, begun: JsonObject) -> datetime | None:
    """Return when a cluster got its release.

    A cluster of the first batch is let into one release after the other: that it was let in stays true, and since when
    is told of the first release. The next step begins anew with each.
    """
    return latest(time_at(each, "lastTransitionTime") for each in (begun, _current(binding, OVERRIDDEN)) if each)


def outcome_in_flight(binding: JsonObject) -> tuple[BarState, str]:
    """Return whether a cluster that has got a release and is not available yet has failed, and what is open."""
    if failure := failure_of(binding):
        return BarState.FAILED, failure
    steps = [condition for kind in (*_STEPS, AVAILABLE, DIFF_REPORTED) if (condition := _current(binding, kind))]
    is_open = next((step for step in steps if step.get("status") != TRUE), {})
    named = {"failedPlacements": dicts_at(status_of(binding), "failedPlacements")}
    detail = failed_object(named) or _words(is_open)
    failed = is_open.get("type") in _STEPS and is_open.get("status") == FALSE and is_open.get("reason") != _IN_PROGRESS
    return (BarState.FAILED if failed else BarState.UPDATING), detail


def _current(binding: JsonObject, kind: str) -> JsonObject:
    return find_current(dicts_at(status_of(binding), "conditions"), kind, generation_of(binding)) or {}


def _words(condition: dict[str, Any]) -> str:
    return text_at(condition, "message") or text_at(condition, "reason")
