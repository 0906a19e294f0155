"""A simulated back end: its upgrades take as long, and end, as the caller sets.

Source: upgrade-runs.md 13.2.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from scorer.api.upgrade.fields import NodeImageVersion, UpgradeError, UpgradeType
from scorer.upgrade.back_ends.interface import Inventory, Observation, Operation, OperationState, Pool, Rejected, Target
from scorer.upgrade.versions.comparison import image_order, is_version, parse_version

UPGRADER: Final = "simulated"
"""The name of the simulated back end."""


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """How one attempt goes.

    Args:
        after: How long it takes; None: it never ends.
        fails: Whether it fails.
        error: What is said of the failure.
        rejections: What the first calls that start it are answered; the next one is taken.
        lost_calls: How many calls that start it never arrive, before those.
        unseen_for: How long the cluster still looks as before, after a success.
    """

    after: timedelta | None
    fails: bool = False
    error: UpgradeError | None = None
    rejections: tuple[Rejected, ...] = ()
    lost_calls: int = 0
    unseen_for: timedelta = timedelta()


Outcomes = Callable[[str, int], AttemptOutcome]
"""Tells how an attempt on a member goes; attempts count from 1."""


@dataclass(slots=True)
class _Attempt:
    """An operation that the back end was asked to begin."""

    operation: Operation
    outcome: AttemptOutcome
    calls: int = 0
    begun: datetime | None = None

    @property
    def ends(self) -> datetime | None:
        return None if self.begun is None or self.outcome.after is None else self.begun + self.outcome.after


class SimulatedBackEnd:
    """What has been asked of the back end, and what has become of it."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self._attempts: dict[str, _Attempt] = {}
        self._moving: dict[str, _Attempt] = {}
        self._instants: list[datetime] = []

    def start_upgrade(self, operation: Operation, now: datetime) -> Rejected | None:
        """Begin an operation; one that has begun goes on. Return why it does not begin, if so."""
        attempt = self._attempts.get(operation.id)
        if attempt is None:
            attempt = _Attempt(operation, self._outcomes(operation.member, operation.attempt))
            self._attempts[operation.id] = attempt
        if attempt.begun is not None:
            return None
        place = attempt.calls - attempt.outcome.lost_calls
        attempt.calls += 1
        if place < 0:
            return None
        if place < len(attempt.outcome.rejections):
            return attempt.outcome.rejections[place]
        self._begin(attempt, now)
        return None

    def resume(self, operation: Operation, begun: datetime, outcome: AttemptOutcome) -> None:
        """Take up an operation that has begun already."""
        attempt = self._attempts[operation.id] = _Attempt(operation, outcome)
        self._begin(attempt, begun)

    def _begin(self, known: _Attempt, now: datetime) -> None:
        known.begun = now
        if (ends := known.ends) is None:
            return
        heapq.heappush(self._instants, ends)
        if not known.outcome.fails:
            self._moving[known.operation.id] = known
            heapq.heappush(self._instants, ends + known.outcome.unseen_for)

    def observe(self, operation: str, now: datetime) -> Observation:
        """Say how far an operation is."""
        attempt = self._attempts.get(operation)
        if attempt is None or attempt.begun is None:
            return Observation(OperationState.UNKNOWN)
        if attempt.ends is None or attempt.ends > now:
            return Observation(OperationState.IN_PROGRESS)
        if not attempt.outcome.fails:
            return Observation(OperationState.SUCCEEDED, finished_at=attempt.ends, asked=_asked(attempt.operation))
        return Observation(OperationState.FAILED, error=attempt.outcome.error, finished_at=attempt.ends)

    def cancel(self, operation: str) -> None:
        """Call an operation off: its cluster stays as it is."""
        self._moving.pop(operation, None)

    def arrived(self, now: datetime) -> Iterator[Operation]:
        """Yield the operations whose clusters have come to run their target, each once."""
        for attempt in list(self._moving.values()):
            if attempt.ends is not None and attempt.ends + attempt.outcome.unseen_for <= now:
                del self._moving[attempt.operation.id]
                yield attempt.operation

    def last_seen(self) -> Mapping[str, datetime]:
        """Return the members that are looked at belatedly, and when that was."""
        return {
            attempt.operation.member: attempt.begun
            for attempt in self._moving.values()
            if attempt.outcome.unseen_for and attempt.begun is not None
        }

    def next_instant(self, now: datetime) -> datetime | None:
        """Return when, after *now*, something ends or comes to be seen; None: nothing does."""
        while self._instants and self._instants[0] <= now:
            heapq.heappop(self._instants)
        return self._instants[0] if self._instants else None


def _asked(operation: Operation) -> tuple[NodeImageVersion, ...]:
    return tuple(NodeImageVersion(family=family, version=image) for family, image in operation.target.images.items())


def moved(inventory: Inventory, target: Target) -> Inventory:
    """Return what a cluster runs after an upgrade; nothing ever goes down."""
    version = target.kubernetes_version
    pools = tuple(_moved_pool(pool, target) for pool in inventory.pools)
    return replace(inventory, version=_later(inventory.version, version), pools=pools)


def _moved_pool(pool: Pool, target: Target) -> Pool:
    wanted = target.kubernetes_version if target.type is UpgradeType.FULL else ""
    image = target.images.get(pool.family, pool.image)
    is_current = image_order(image) < image_order(pool.image)
    return replace(pool, version=_later(pool.version, wanted), image=pool.image if is_current else image)


def _later(known: str, wanted: str) -> str:
    if not wanted or (is_version(known) and parse_version(known) > parse_version(wanted)):
        return known
    return wanted
