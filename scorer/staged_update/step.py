"""What a pass wants done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from scorer.api.event import Event
from scorer.api.meta import JsonObject
from scorer.rollout.writes import Write

RECHECK: Final = timedelta(seconds=15)
"""How often clusters in flight are looked at, besides whenever they report (staged-updates.md 11)."""
APPROVAL_RECHECK: Final = timedelta(seconds=60)
"""How often an approval is looked at, besides whenever it is written."""


@dataclass(frozen=True, slots=True)
class Update:
    """Give a cluster the wanted content.

    Args:
        cluster: Its name.
        binding: As it is now.
        wanted: As it shall be; the same object when only the condition is missing.
        message: Of its condition RolloutStarted, which becomes True.
    """

    cluster: str
    binding: JsonObject
    wanted: JsonObject
    message: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Take the placement off a cluster: delete its binding, as it is now."""

    cluster: str
    binding: JsonObject


@dataclass(frozen=True, slots=True)
class Ask:
    """Create an approval request."""

    request: JsonObject


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete an approval request that nobody had asked for."""

    request: JsonObject


@dataclass(frozen=True, slots=True)
class Accept:
    """Store the status of an approval request: the approval counts from now on.

    Args:
        request: As it is now.
        status: The whole of it.
    """

    request: JsonObject
    status: JsonObject


Action = Update | Remove | Ask | Discard | Accept


@dataclass(frozen=True, slots=True)
class Step:
    """What one pass of a run comes to. Carried out in this order; a process may end between any two writes.

    Args:
        annotations: To put on the run.
        snapshots: Resource snapshots to write, one after the other.
        actions: Independent of one another.
        rollback: A run to create: it takes back what this one, which has failed, has changed.
        status: Of the run: stored once everything above is done, and only then. None: as it is.
        again: When to look again; None: after an event.
        waits_for: What a run that has not been initialised waits for, for people; empty: for nothing.
        events: To tell people.
    """

    annotations: Mapping[str, str] = field(default_factory=dict)
    snapshots: tuple[Write, ...] = ()
    actions: tuple[Action, ...] = ()
    rollback: JsonObject | None = None
    status: JsonObject | None = None
    again: timedelta | None = None
    waits_for: str = ""
    events: tuple[Event, ...] = ()
