"""Reports of a controller's repeated failures on the object it reconciles.

A condition, or an Event where the loop does not own the status.

An object whose status is not the loop's to write gets an Event instead.
"""

from collections.abc import Callable, Hashable
from datetime import datetime
from typing import Final, Generic, NamedTuple, TypeVar

from scorer.api.event import Event
from scorer.api.family import FAMILIES, FAMILY_OF, PlacementRef
from scorer.api.kinds import (
    EVICTION,
    MEMBER_CLUSTER,
    Kind,
)
from scorer.api.meta import JsonObject
from scorer.api.values.quoting import printable
from scorer.rollout.status.failures import failing_status, failure_type, passed_status
from webhook.controllers.machinery.result import StuckError, TerminalError
from webhook.kube.cache.hub import Hub
from webhook.kube.ports import Key

K = TypeVar("K", bound=Hashable)

WITH_STATUS: Final = frozenset(
    {MEMBER_CLUSTER, EVICTION, *(kind for family in FAMILIES for kind in (family.placement, family.binding))}
)
"""Kinds whose status is the loop's to write."""


class Concerned(NamedTuple):
    """The object that a key of a queue is about."""

    kind: Kind
    key: Key


def concerned_of(kind: Kind) -> Callable[[str], Concerned]:
    """Return a function that finds the object of a key, where keys are names without a namespace."""
    return lambda name: Concerned(kind, Key(name))


def concerned_placement(ref: PlacementRef) -> Concerned:
    """Return the placement that a key names."""
    return Concerned(FAMILY_OF[ref.kind].placement, Key(ref.name, ref.namespace))


class FailureReporter(Generic[K]):
    """Tells of the failures of one controller.

    Args:
        hub: Where the objects are.
        now: The clock.
        record: Takes events.
        controller: Its name.
        concerned: Returns the object that a key is about.
    """

    def __init__(
        self,
        hub: Hub,
        now: Callable[[], datetime],
        record: Callable[[JsonObject, Event], None],
        controller: str,
        concerned: Callable[[K], Concerned],
    ) -> None:
        self._hub = hub
        self._now = now
        self._record = record
        self._controller = controller
        self._concerned = concerned
        self._told: dict[K, str] = {}
        """What the Events on objects without such a status have said."""

    def failing(self, key: K, error: BaseException) -> None:
        """Say on the object that *error* came up again and again, unless it says so already."""
        kind, name = self._concerned(key)
        document = self._hub.cache.get(kind, *name)
        if document is None:
            return
        reason = "CannotGoOn" if isinstance(error, (StuckError, TerminalError)) else type(error).__name__
        message = printable(f"the {self._controller} controller fails again and again: {str(error) or reason}")
        if kind in WITH_STATUS:
            status = failing_status(document, self._controller, reason, message, self._now())
            if status is not None:
                self._hub.report(kind, document, status, tells_failures=True)
        elif self._told.get(key) != message:
            self._told[key] = message
            self._record(document, Event(failure_type(self._controller).rpartition("/")[2], message, "Warning"))

    def passed(self, key: K) -> None:
        """Take back what the object says."""
        self._told.pop(key, None)
        kind, name = self._concerned(key)
        if kind not in WITH_STATUS:
            return
        document = self._hub.cache.get(kind, *name)
        if document is not None and (status := passed_status(document, self._controller)) is not None:
            self._hub.report(kind, document, status, tells_failures=True)
