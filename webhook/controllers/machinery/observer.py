"""Metrics hooks of queues and controllers (a port; `webhook.telemetry.loop_metrics` implements it).

Source: serving.md 6.1.
"""

from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from scorer.api.kinds import Kind


class ReconcileOutcome(StrEnum):
    """What became of one reconcile."""

    SUCCESS = "success"
    """Done, until something changes."""
    ERROR = "error"
    """It failed, or met a conflict; it is retried, or waits for a change."""
    REQUEUE = "requeue"
    """Done for now; the controller asked to reconcile the key again."""


class Queue(Protocol):
    """What metrics read of a queue when they are asked for."""

    @property
    def name(self) -> str:
        """Of its controller."""
        ...

    def __len__(self) -> int:
        """Keys in line."""
        ...

    @property
    def longest_wait_seconds(self) -> float:
        """How long the first key in line has been there; 0 when there is none."""
        ...


class QueueObserver(Protocol):
    """Is told what a queue does; quick, and never raises."""

    def watch(self, queue: Queue) -> None:
        """Read *queue* from now on, in place of an earlier one of that name."""
        ...

    def span(self, controller: str, key: object) -> AbstractContextManager[object]:
        """Return what is entered while one key is reconciled."""
        ...

    def finished(self, controller: str, outcome: ReconcileOutcome, seconds: float) -> None:
        """One key was reconciled."""
        ...

    def retried(self, controller: str) -> None:
        """One key that failed was put back."""
        ...


class LoopObserver(QueueObserver, Protocol):
    """Is told what queues do, and which objects stand still; quick, and never raises."""

    def needs_action(self, kind: Kind, key: Hashable, *, still: bool) -> None:
        """An object goes on only when somebody acts, or does not need that any more.

        A placement whose rollout is stalled, a run that waits for an approval, a member that is silent, a node pool
        that has been shut for a day: what the controller has just told people of, or would, had it not been told.
        """
        ...

    def removal_pending(self, kind: Kind, key: Hashable, since: datetime | None) -> None:
        """Note since when removals of a placement wait for confirmation. None: disabled or confirmed."""
        ...

    def unconfirmed(self, reason: str) -> None:
        """Count an Event about content that was removed with a warning, or is no longer managed."""
        ...


NOTHING: Final = nullcontext()
"""To be entered where nothing is to happen; by as many as like at once."""


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
"""For a loop without an observer."""
