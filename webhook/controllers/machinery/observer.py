"""Metrics hooks of queues and controllers (a port, implemented by `webhook.telemetry.loop_metrics`).

Source: docs/specifications/serving.md 6.1.
"""

from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from scorer.api.kinds import Kind


class ReconcileOutcome(StrEnum):
    """Outcome of one reconcile."""

    SUCCESS = "success"
    """Done until the next change."""
    ERROR = "error"
    """The reconcile failed or met a conflict. The key is retried with backoff or waits for a change."""
    REQUEUE = "requeue"
    """Done for now. The controller requested a requeue, by its result or by a `RetryError`."""


class Queue(Protocol):
    """A queue as read by metrics at scrape time."""

    @property
    def name(self) -> str:
        """Name of the controller."""
        ...

    def __len__(self) -> int:
        """Number of queued keys."""
        ...

    @property
    def longest_wait_seconds(self) -> float:
        """Maximum waiting time of a queued key, or 0 if none is queued."""
        ...


class QueueObserver(Protocol):
    """Metrics hooks of a queue. Calls must be quick and must not raise."""

    def watch(self, queue: Queue) -> None:
        """Register *queue*, which replaces an earlier one of that name."""
        ...

    def span(self, controller: str, key: object) -> AbstractContextManager[object]:
        """Return a context manager to enter while one key is reconciled."""
        ...

    def finished(self, controller: str, outcome: ReconcileOutcome, seconds: float) -> None:
        """Record the reconcile of one key."""
        ...

    def retried(self, controller: str) -> None:
        """Count one requeue after a failure or a `RetryError`."""
        ...


class LoopObserver(QueueObserver, Protocol):
    """Metrics hooks of queues, and of objects that need action. Calls must be quick and must not raise."""

    def needs_action(self, kind: Kind, key: Hashable, *, still: bool) -> None:
        """Set or clear the mark that an object makes no progress without user action.

        Examples are a stalled rollout, a run that waits for an approval, a silent member, and a node pool that has been
        blocked for a day. The controller has recorded an Event for each, in this leadership term or in an earlier one.
        """
        ...

    def removal_pending(self, kind: Kind, key: Hashable, since: datetime | None) -> None:
        """Record when a placement's removals started to wait for confirmation. None: unset, none waits."""
        ...

    def unconfirmed(self, reason: str) -> None:
        """Count an Event about content that was removed without confirmation, or is no longer managed."""
        ...


NOTHING: Final = nullcontext()
"""No-op context manager. Any number of tasks may enter it concurrently."""


class _Unobserved:
    def watch(self, queue: Queue) -> None:
        pass

    def span(self, controller: str, key: object) -> AbstractContextManager[object]:  # noqa: ARG002 - as the others
        return NOTHING

    def finished(self, controller: str, outcome: ReconcileOutcome, seconds: float) -> None:
        pass

    def retried(self, controller: str) -> None:
        pass

    def needs_action(self, kind: Kind, key: Hashable, *, still: bool) -> None:
        pass

    def removal_pending(self, kind: Kind, key: Hashable, since: datetime | None) -> None:
        pass

    def unconfirmed(self, reason: str) -> None:
        pass


UNOBSERVED: Final[LoopObserver] = _Unobserved()
"""No-op observer."""
