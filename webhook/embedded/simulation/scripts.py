"""The script of a simulated object: when it becomes ready or crashes.

The annotation ``harbormaster.dev/simulate`` of an object is a comma-separated list of:

* ``ready-after=5s``: time until everything is ready (default: 2 s)
* ``never-ready``: it starts and never becomes ready
* ``crash-after=1m``: it fails that long after it became ready, and remains failed

Any other value keeps the object from becoming ready, with the reason in its status.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from scorer.api.meta import JsonObject, format_time, parse_time
from scorer.api.names import OURS
from scorer.api.unstructured.documents import conditions_of
from scorer.api.values.duration import parse_sum

SIMULATE = OURS + "simulate"
READY_AFTER = timedelta(seconds=2)
NODES = 3
"""Default number of nodes of a member. A DaemonSet runs one Pod on each."""


@dataclass(frozen=True, slots=True)
class Script:
    """Behavior of an object.

    Args:
        ready_after: Time until it is ready. None: disabled, it never is.
        crash_after: Time from readiness to the crash. None: disabled.
        problem: Error in the annotation.
    """

    ready_after: timedelta | None = READY_AFTER
    crash_after: timedelta | None = None
    problem: str = ""


def parse_script(text: str, ready_after: timedelta = READY_AFTER) -> Script:
    """Parse the annotation ``harbormaster.dev/simulate`` of an object. An error is stored in `Script.problem`."""
    crash_after = None
    never = False
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = word.partition("=")
        try:
            match name:
                case "never-ready":
                    never = True
                case "ready-after":
                    ready_after = parse_sum(value)
                case "crash-after":
                    crash_after = parse_sum(value)
                case _:
                    syntax = "ready-after=5s, crash-after=1m or never-ready"
                    return Script(None, None, f"annotation {SIMULATE}: {word[:64]!r} is not one of {syntax}")
        except ValueError as error:
            return Script(None, None, f"annotation {SIMULATE}: {word[:64]!r}: {error}")
    return Script(None if never else ready_after, crash_after)


@dataclass(frozen=True, slots=True)
class _WorkloadProgress:
    """The state that an object has reached.

    Args:
        document: The object to store.
        changes_at: Time of its next change. None if it no longer changes.
    """

    document: JsonObject
    changes_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """The inputs from which the stage of an object is computed."""

    now: datetime
    script: Script
    nodes: int

    def stage(self, start: datetime) -> tuple[str, datetime | None]:
        """Return ``starting``, ``ready`` or ``crashed``, and when the stage changes. None: unlimited."""
        if self.script.ready_after is None:
            return "starting", None
        ready = _after(start, self.script.ready_after)
        if self.now < ready:
            return "starting", ready
        if self.script.crash_after is None:
            return "ready", None
        crash = _after(ready, self.script.crash_after)
        return ("ready", crash) if self.now < crash else ("crashed", None)


_LAST_INSTANT = datetime.max - timedelta(days=1)


def _after(start: datetime, wait: timedelta) -> datetime:
    last = _LAST_INSTANT.replace(tzinfo=start.tzinfo)
    return last if wait > last - start else start + wait


def created_at(document: JsonObject, moment: Moment) -> datetime:
    """Return when an object was created, or the present moment if unknown."""
    text = document["metadata"].get("creationTimestamp")
    return parse_time(text) if text else moment.now


def count_or(value: object, default: int) -> int:
    """Return *value* if it is a count, else *default*."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def condition_of(document: JsonObject, kind: str) -> Mapping[str, Any]:
    """Return a condition of an object, empty if absent."""
    matches = (entry for entry in conditions_of(document) if entry.get("type") == kind)
    return next(matches, {})


def make_conditions(document: JsonObject, moment: Moment, *rows: tuple[str, bool, str, str]) -> list[JsonObject]:
    """Return the conditions (type, status, reason, message), with the old transition times of unchanged ones."""
    conditions = []
    for kind, good, reason, message in rows:
        status = "True" if good else "False"
        previous = condition_of(document, kind)
        at = format_time(moment.now)
        if previous.get("status") == status:
            at = previous.get("lastTransitionTime", at)
        conditions.append(
            {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}
        )
    return conditions
