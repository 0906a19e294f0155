"""The timeline of a simulation: which nodes are disrupted when and why, their replacements, and why others are held.

All values are immutable and sorted by time. A longer simulation of the same cluster only appends values.

Source: docs/specifications/nodepool-disruption.md 5 to 10.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

EXPIRATION: Final = "Expiration"
"""Pseudo-method for an expired node (nodepool-disruption.md 10)."""
DELETION: Final = "Deletion"
"""Pseudo-method for a node that was already being deleted at the start."""
SCALE_DOWN: Final = "ScaleDown"
"""Pseudo-method for a surplus node of a static pool. No budget holds it."""
OVERPROVISIONED: Final = "Overprovisioned"
"""Reason for the removal of a surplus node."""
PROVISIONING: Final = "Provisioning"
"""Pseudo-method for nodes launched for pending pods, or for pods of earlier removals."""
SHORTEST_PAUSE: Final = timedelta(seconds=10)
"""Minimum interval between two runs of the planner, as in the reference."""
_NODES_SQUARED_PER_SECOND: Final = 1_000


@dataclass(frozen=True, slots=True)
class SimulationAssumptions:
    """Assumptions of a simulation.

    Args:
        launch: Time until a new node is initialized.
        shortest_drain: Minimum duration of a drain, even of an empty node.
        new_pods: Whether pods are created besides replacements of evicted ones.
        failures: Whether launches, drains or nodes fail.
        prices_change: Whether prices or availability change.
        look_again: Shortest interval between two runs of the planner without a result. The end of a budget window or of
            an annotation triggers a run earlier. None: unset, `poll_interval` decides.
        most_happenings: Maximum number of events before the simulation stops.
        most_looks: Maximum number of runs of the planner before the simulation stops.
    """

    launch: timedelta = timedelta(seconds=90)
    shortest_drain: timedelta = timedelta(seconds=5)
    new_pods: bool = False
    failures: bool = False
    prices_change: bool = False
    look_again: timedelta | None = None
    most_happenings: int = 10_000
    most_looks: int = 50_000

    def poll_interval(self, nodes: int) -> timedelta:
        """Return the interval between two runs of the planner for this number of nodes.

        If `look_again` is set, it is the interval. Otherwise, it is ten seconds for up to 100 nodes, as in the
        reference, and grows with the square of the number of nodes above that: eight minutes for 700 nodes, and an hour
        and seven minutes for 2,000.
        """
        if self.look_again is not None:
            return self.look_again
        return max(SHORTEST_PAUSE, timedelta(seconds=nodes * nodes // _NODES_SQUARED_PER_SECOND))


@dataclass(frozen=True, slots=True)
class SimulationEvent:
    """The start of a removal, or a launch, of nodes of one pool for one reason.

    Args:
        at: Time.
        pool: Pool of the nodes.
        method: A `scorer.node_disruption.methods.command.Method`, or `EXPIRATION`, `DELETION`, `SCALE_DOWN`,
            `PROVISIONING`.
        reason: Reason as named by budgets, ``Expired`` or ``Overprovisioned``. Empty if unknown, or without a removal.
        nodes: Names of the removed nodes, empty for a pure launch.
        why: Human-readable reason.
        savings: Savings per hour, negative if it costs more. None: unknown, a price is missing.
        replaced_by: Names of the nodes launched as replacements, or for evicted pods.
        limit: Concurrent disruptions that the budgets allow for *reason* at this instant. None: unlimited.
        disrupting: Number of the pool's nodes that are being disrupted or not ready at that time, including these.
        pods_of: For `PROVISIONING`: names of the former nodes of the pods. Empty for pending pods.
    """

    at: datetime
    pool: str
    method: str
    reason: str
    nodes: tuple[str, ...]
    why: str
    savings: float | None = None
    replaced_by: tuple[str, ...] = ()
    limit: int | None = None
    disrupting: int = 0
    pods_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeRemoval:
    """Removal of a drained node."""

    at: datetime
    pool: str
    node: str


@dataclass(frozen=True, slots=True)
class Launch:
    """Launch of a node.

    Args:
        at: Time.
        ready: Time at which it is initialized.
        pool: Pool.
        node: Name.
        instance_type: Instance type, empty if unknown.
        zone: Zone, empty if unknown.
        capacity_type: Capacity type, empty if unknown.
        price: Price per hour. None: unknown.
    """

    at: datetime
    ready: datetime
    pool: str
    node: str
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    price: float | None = None


@dataclass(frozen=True, slots=True)
class BlockedPeriod:
    """A period during which a node's disruption is held.

    Args:
        node: Name.
        pool: Pool.
        wanted: Reason for the disruption as named by budgets, or ``Expired``.
        reason: Machine-readable cause of the hold.
        message: Human-readable cause.
        since: First observation.
        until: End. None if it held until the end of the simulation.
        draining: Whether the node is being drained, and its pods are held.
    """

    node: str
    pool: str
    wanted: str
    reason: str
    message: str
    since: datetime
    until: datetime | None = None
    draining: bool = False

    def length(self, end: datetime) -> timedelta:
        """Return its duration. A period without an end lasts until *end*."""
        return (self.until or end) - self.since


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod that is unplaced at the end."""

    pod: str
    since: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class PoolSummary:
    """A pool before and after the simulation.

    Args:
        pool: Name.
        nodes_before: Nodes at the start.
        nodes_after: Nodes at the end.
        price_before: Price of its nodes per hour at the start. None: unknown.
        price_after: Price at the end. None: unknown.
        disrupted: Number of disrupted nodes, by reason.
        savings: Savings per hour of all events. None: unknown, a price is missing.
        longest: Longest hold of one of its nodes, or None.
    """

    pool: str
    nodes_before: int
    nodes_after: int
    price_before: float | None = None
    price_after: float | None = None
    disrupted: Mapping[str, int] = field(default_factory=dict)
    savings: float | None = 0.0
    longest: BlockedPeriod | None = None


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """Result of a simulation.

    Args:
        start: Start time.
        end: End time. All earlier events are included.
        assumptions: Assumptions.
        happenings: Events by time.
        removals: Removals by time.
        launches: Launches by time.
        blocked: Holds by start.
        pools: Pools by name.
        waiting: Pods that are unplaced at the end.
        stopped: Reason why it ended early, otherwise empty.
    """

    start: datetime
    end: datetime
    assumptions: SimulationAssumptions
    happenings: tuple[SimulationEvent, ...] = ()
    removals: tuple[NodeRemoval, ...] = ()
    launches: tuple[Launch, ...] = ()
    blocked: tuple[BlockedPeriod, ...] = ()
    pools: tuple[PoolSummary, ...] = ()
    waiting: tuple[PendingPod, ...] = ()
    stopped: str = ""


_SUBJECT_ENDS: Final = re.compile(r", |: ")
"""Separator before the part of a message that changes between runs: numbers and pod names."""

_Key = tuple[str, str, str, str]


class BlockedPeriods:
    """Holds of nodes, collected over all runs of the planner."""

    def __init__(self) -> None:
        self._open: dict[_Key, BlockedPeriod] = {}
        self._over: list[BlockedPeriod] = []

    def see(self, periods: Iterable[BlockedPeriod], now: datetime) -> None:
        """Record all holds at *now*. Holds that are missing have ended."""
        current: dict[_Key, BlockedPeriod] = {}
        for period in periods:
            current.setdefault(_key(period), period)
        self._end([key for key in self._open if key not in current], now)
        for key, period in current.items():
            self._open.setdefault(key, period)

    def release(self, nodes: Collection[str], now: datetime) -> None:
        """Record that nodes are no longer held."""
        self._end([key for key, period in self._open.items() if period.node in nodes], now)

    def all(self) -> tuple[BlockedPeriod, ...]:
        """Return all holds by start. Those that have not ended have no end."""
        return tuple(sorted((*self._over, *self._open.values()), key=_order))

    def _end(self, keys: Iterable[_Key], now: datetime) -> None:
        for key in keys:
            period = self._open.pop(key)
            if period.since < now:
                self._over.append(replace(period, until=now))


def subject(message: str) -> str:
    """Return the constant part of a message."""
    return _SUBJECT_ENDS.split(message, maxsplit=1)[0]


def _key(period: BlockedPeriod) -> _Key:
    return period.node, period.wanted, period.reason, subject(period.message)


def _order(period: BlockedPeriod) -> tuple[datetime, _Key]:
    return period.since, _key(period)
