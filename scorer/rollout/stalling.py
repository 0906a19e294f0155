"""When a rollout does not move any more: since when, and what it waits for.

What moves shows in the transition times of conditions, and in bindings that come, are dropped and go; new words for the
same state are no move. Nothing here is in the reference.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from scorer.api.conditions import FALSE, TRUE
from scorer.api.documents import annotation, is_deleting, metadata_of, name_of, spec_of
from scorer.api.meta import JsonObject, parse_time
from scorer.api.names import UNSCHEDULED_AT
from scorer.rollout.bindings import ROLLOUT_STARTED

STALLED: Final = "Stalled"
"""Word of the condition of a placement; it is there only while it is True."""
STALLED_REASON: Final = "NoProgress"


@dataclass(frozen=True, slots=True)
class Rest:
    """A rollout that is not over, and what it has come to rest at.

    Args:
        since: When something moved last.
        cluster: What it waits for, of several the one that keeps the others.
        why: What is the matter there, with the object where one is known.
    """

    since: datetime
    cluster: str
    why: str


def find_rest(
    entries: Sequence[Mapping[str, Any]], last: str, leaving: Iterable[JsonObject], created: datetime
) -> Rest | None:
    """Return when a rollout moved last and what it waits for; None: it is over.

    Args:
        entries: ``status.placementStatuses`` of the clusters that are picked, each with its conditions in order.
        last: The type of the condition that comes last when all is well.
        leaving: Bindings of other clusters, which the placement is being taken off.
        created: When the placement was made.
    """
    moved = [created, *(moment for entry in entries for moment in _transitions(entry))]
    waiting = [_open(entry, last) for entry in entries]
    found = [each for each in waiting if each is not None]
    for binding in leaving:
        moved += _times(metadata_of(binding).get("deletionTimestamp"), annotation(binding, UNSCHEDULED_AT))
        why = "its objects are being removed" if is_deleting(binding) else "waits for the limits of the rollout"
        found.append((_LEAVING, str(spec_of(binding).get("targetCluster") or name_of(binding)), why))
    if not found:
        return None
    _, cluster, why = min(found)
    return Rest(max(moved), cluster, why)


def failed_object(entry: Mapping[str, Any]) -> str:
    """Return the first object that has failed on a cluster, with what is wrong; empty: none is known."""
    failed = entry.get("failedPlacements") or ()
    if not failed:
        return ""
    first = failed[0]
    where = f"{first['namespace']}/" if first.get("namespace") else ""
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return f"{first['kind']} {where}{first['name']}: {first['condition'].get('message', '')}{more}"


_FAILED, _STARTED, _LEAVING, _WAITING = range(4)
"""What keeps others comes first: who has failed, who is on the way, who is leaving, who waits."""


def _open(entry: Mapping[str, Any], last: str) -> tuple[int, str, str] | None:
    """Return what an entry waits for: its rank, its cluster, and why; None: all is well there."""
    conditions = entry.get("conditions") or ()
    condition = next((each for each in conditions if each.get("status") != TRUE), None)
    if condition is None and any(each.get("type") == last for each in conditions):
        return None
    condition = condition or {}
    if condition.get("type") == ROLLOUT_STARTED:
        rank = _WAITING
    else:
        rank = _FAILED if condition.get("status") == FALSE else _STARTED
    why = failed_object(entry) or condition.get("message") or condition.get("reason") or "nothing has happened yet"
    return rank, str(entry.get("clusterName")), str(why)


def _transitions(entry: Mapping[str, Any]) -> Iterator[datetime]:
    return _times(*(condition.get("lastTransitionTime") for condition in entry.get("conditions") or ()))


def _times(*texts: object) -> Iterator[datetime]:
    for text in texts:
        with suppress(ValueError, OverflowError):  # one that is missing, or that somebody has written by hand
            yield parse_time(str(text or ""))
