"""Progress of a rollout: the last change, and what it waits for now.

Progress is visible in the transition times of conditions, and in bindings that are created, dropped and deleted. A new
message for the same state is not progress. A cluster that waits for its maintenance windows waits as intended, and is
ignored. The reference has no equivalent.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from scorer.api.conditions import FALSE, TRUE
from scorer.api.meta import JsonObject, parse_time
from scorer.api.names import UNSCHEDULED_AT
from scorer.api.unstructured.documents import annotation, current_condition, is_deleting, metadata_of, name_of, spec_of
from scorer.rollout.bindings import ROLLOUT_STARTED, waits_for_window

STALLED: Final = "Stalled"
"""Short type of the condition of a placement. It exists only while it is True."""
STALLED_REASON: Final = "NoProgress"


@dataclass(frozen=True, slots=True)
class RolloutStall:
    """State of an unfinished rollout without progress.

    Args:
        since: Time of the last progress.
        cluster: The cluster that it waits for. Of several, the one that blocks the others.
        why: The obstacle there, with the object if one is known.
    """

    since: datetime
    cluster: str
    why: str


def find_stall(
    entries: Sequence[Mapping[str, Any]], last: str, leaving_bindings: Iterable[JsonObject], creation_time: datetime
) -> RolloutStall | None:
    """Return the last progress of a rollout and what it waits for, or None if finished or waiting for windows.

    Args:
        entries: ``status.placementStatuses`` of the picked clusters, each with its conditions in order.
        last: The type of the condition that comes last when everything succeeds.
        leaving_bindings: Bindings of other clusters, which are losing the placement.
        creation_time: Creation time of the placement.
    """
    instants = [creation_time, *(moment for entry in entries for moment in _transitions(entry))]
    open_steps = [_open_step(entry, last) for entry in entries]
    obstacles = [obstacle for obstacle in open_steps if obstacle is not None]
    for binding in leaving_bindings:
        if waits_for_window(current_condition(binding, ROLLOUT_STARTED) or {}):
            continue
        instants += _times(metadata_of(binding).get("deletionTimestamp"), annotation(binding, UNSCHEDULED_AT))
        reason = "its objects are being removed" if is_deleting(binding) else "waiting for the limits of the rollout"
        obstacles.append((_LEAVING, str(spec_of(binding).get("targetCluster") or name_of(binding)), reason))
    if not obstacles:
        return None
    _, cluster, reason = min(obstacles)
    return RolloutStall(max(instants), cluster, reason)


def failed_object(entry: Mapping[str, Any]) -> str:
    """Return the first object that has failed on a cluster, with its error, or an empty string."""
    failed = entry.get("failedPlacements") or ()
    if not failed:
        return ""
    first = failed[0]
    namespace = f"{first['namespace']}/" if first.get("namespace") else ""
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return f"{first['kind']} {namespace}{first['name']}: {first['condition'].get('message', '')}{more}"


_FAILED, _STARTED, _LEAVING, _WAITING = range(4)
"""Clusters that keep others waiting come first: failed, in progress, leaving, waiting."""


def _open_step(entry: Mapping[str, Any], last: str) -> tuple[int, str, str] | None:
    """Return the rank of an entry's cluster, its name, and what it waits for, or None without an obstacle."""
    conditions = entry.get("conditions") or ()
    condition = next((condition for condition in conditions if condition.get("status") != TRUE), None)
    if condition is None and any(condition.get("type") == last for condition in conditions):
        return None
    condition = condition or {}
    if waits_for_window(condition):
        return None
    if condition.get("type") == ROLLOUT_STARTED:
        rank = _WAITING
    else:
        rank = _FAILED if condition.get("status") == FALSE else _STARTED
    reason = failed_object(entry) or condition.get("message") or condition.get("reason") or "no progress yet"
    return rank, str(entry.get("clusterName")), str(reason)


def _transitions(entry: Mapping[str, Any]) -> Iterator[datetime]:
    return _times(*(condition.get("lastTransitionTime") for condition in entry.get("conditions") or ()))


def _times(*texts: object) -> Iterator[datetime]:
    for text in texts:
        with suppress(ValueError, OverflowError):  # a time that is missing, or that a user wrote by hand
            yield parse_time(str(text or ""))
