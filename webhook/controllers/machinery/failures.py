"""Reports of a controller's repeated failures on the object it reconciles.

The report is a condition, or an Event if the loop does not own the object's status.
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
"""Kinds whose status belongs to the loop."""


class Concerned(NamedTuple):
    """The object that a queue key refers to."""

    kind: Kind
    key: Key


def concerned_of(kind: Kind) -> Callable[[str], Concerned]:
    """Return a function that maps a key to its object, for keys that are names without a namespace."""
    return lambda name: Concerned(kind, Key(name))


def concerned_placement(ref: PlacementRef) -> Concerned:
    """Return the placement of a key."""
    return Concerned(FAMILY_OF[ref.kind].placement, Key(ref.name, ref.namespace))


class FailureReporter(Generic[K]):
    """Reports the failures of one controller.

    Args:
        hub: The hub cluster.
        now: The clock.
        record: Records Events.
        controller: Name of the controller.
        concerned: Returns the object of a key.
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
        self._reported: dict[K, str] = {}
        """Last Event per key, for objects whose status does not belong to the loop."""

    def failing(self, key: K, error: BaseException) -> None:
        """Report the recurring *error* on the object of *key*, unless it is already reported."""
        kind, name = self._concerned(key)
        document = self._hub.cache.get(kind, *name)
        if document is None:
            return
        reason = "CannotGoOn" if isinstance(error, (StuckError, TerminalError)) else type(error).__name__
        message = printable(f"the {self._controller} controller keeps failing: {str(error) or reason}")
        if kind in WITH_STATUS:
            status = failing_status(document, self._controller, reason, message, self._now())
            if status is not None:
                self._hub.report(kind, document, status, tells_failures=True)
        elif self._reported.get(key) != message:
            self._reported[key] = message
            self._record(document, Event(failure_type(self._controller).rpartition("/")[2], message, "Warning"))

    def passed(self, key: K) -> None:
        """Remove the failure from the object's status after a successful reconcile."""
        self._reported.pop(key, None)
        kind, name = self._concerned(key)
        if kind not in WITH_STATUS:
            return
        document = self._hub.cache.get(kind, *name)
        if document is not None and (status := passed_status(document, self._controller)) is not None:
            self._hub.report(kind, document, status, tells_failures=True)
