"""A simulated back end. The caller defines the duration and the result of each upgrade.

Source: docs/specifications/upgrade-runs.md 13.2.
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
"""Name of the simulated back end."""


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """Outcome of one attempt.

    Args:
        after: Duration. None: unlimited, it never ends.
        fails: Whether it fails.
        error: Error of the failure.
        rejections: Results of the first start calls. The next call is accepted.
        lost_calls: Number of start calls that are lost before those.
        unseen_for: Delay between success and the change of the observed inventory.
    """

    after: timedelta | None
    fails: bool = False
    error: UpgradeError | None = None
    rejections: tuple[Rejected, ...] = ()
    lost_calls: int = 0
    unseen_for: timedelta = timedelta()


Outcomes = Callable[[str, int], AttemptOutcome]
"""Returns the outcome of a member's attempt. Attempts count from 1."""


@dataclass(slots=True)
class _Attempt:
    """An operation that the back end was asked to start."""

    operation: Operation
    outcome: AttemptOutcome
    calls: int = 0
    begun: datetime | None = None

    @property
    def ends(self) -> datetime | None:
        return None if self.begun is None or self.outcome.after is None else self.begun + self.outcome.after


class SimulatedBackEnd:
    """Operations of a simulated back end, and their progress."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self._attempts: dict[str, _Attempt] = {}
        self._moving: dict[str, _Attempt] = {}
        self._instants: list[datetime] = []

    def start_upgrade(self, operation: Operation, now: datetime) -> Rejected | None:
        """Start an operation, unless it is running already. Return the rejection, if any."""
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

    def resume(self, operation: Operation, start: datetime, outcome: AttemptOutcome) -> None:
        """Adopt an operation that is already running."""
        attempt = self._attempts[operation.id] = _Attempt(operation, outcome)
        self._begin(attempt, start)

    def _begin(self, attempt: _Attempt, now: datetime) -> None:
        attempt.begun = now
        if (ends := attempt.ends) is None:
            return
        heapq.heappush(self._instants, ends)
        if not attempt.outcome.fails:
            self._moving[attempt.operation.id] = attempt
            heapq.heappush(self._instants, ends + attempt.outcome.unseen_for)

    def observe(self, operation: str, now: datetime) -> Observation:
        """Return the progress of an operation."""
        attempt = self._attempts.get(operation)
        if attempt is None or attempt.begun is None:
            return Observation(OperationState.UNKNOWN)
        if attempt.ends is None or attempt.ends > now:
            return Observation(OperationState.IN_PROGRESS)
        if not attempt.outcome.fails:
            return Observation(
                OperationState.SUCCEEDED, finished_at=attempt.ends, asked=_requested_images(attempt.operation)
            )
        return Observation(OperationState.FAILED, error=attempt.outcome.error, finished_at=attempt.ends)

    def cancel(self, operation: str) -> None:
        """Cancel an operation. Its cluster does not change."""
        self._moving.pop(operation, None)

    def arrived(self, now: datetime) -> Iterator[Operation]:
        """Yield the operations whose clusters have reached their target, each once."""
        for attempt in list(self._moving.values()):
            if attempt.ends is not None and attempt.ends + attempt.outcome.unseen_for <= now:
                del self._moving[attempt.operation.id]
                yield attempt.operation

    def last_seen(self) -> Mapping[str, datetime]:
        """Return the members whose inventories lag behind, with the time of their observation."""
        return {
            attempt.operation.member: attempt.begun
            for attempt in self._moving.values()
            if attempt.outcome.unseen_for and attempt.begun is not None
        }

    def next_instant(self, now: datetime) -> datetime | None:
        """Return when, after *now*, an operation ends or its result becomes visible, or None."""
        while self._instants and self._instants[0] <= now:
            heapq.heappop(self._instants)
        return self._instants[0] if self._instants else None


def _requested_images(operation: Operation) -> tuple[NodeImageVersion, ...]:
    return tuple(NodeImageVersion(family=family, version=image) for family, image in operation.target.images.items())


def upgrade_inventory(inventory: Inventory, target: Target) -> Inventory:
    """Return the inventory of a cluster after an upgrade. Versions are never downgraded."""
    version = target.kubernetes_version
    pools = tuple(_moved_pool(pool, target) for pool in inventory.pools)
    return replace(inventory, version=_later(inventory.version, version), pools=pools)


def _moved_pool(pool: Pool, target: Target) -> Pool:
    version = target.kubernetes_version if target.type is UpgradeType.FULL else ""
    image = target.images.get(pool.family, pool.image)
    is_current = image_order(image) < image_order(pool.image)
    return replace(pool, version=_later(pool.version, version), image=pool.image if is_current else image)


def _later(current: str, target: str) -> str:
    if not target or (is_version(current) and parse_version(current) > parse_version(target)):
        return current
    return target
