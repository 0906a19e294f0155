"""The timeline of a simulation: which nodes are disrupted when and why, what replaces them, and what holds others.

Everything here is a plain value, in the order of its time. A longer simulation of the same cluster begins with the same
values: it only adds some at the end.

Source: nodepool-disruption.md 5 to 10.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

EXPIRATION: Final = "Expiration"
"""The method by which a node goes that has reached its age (nodepool-disruption.md 10)."""
DELETION: Final = "Deletion"
"""That of a node that was being deleted already when the simulation began."""
SCALE_DOWN: Final = "ScaleDown"
"""That of a node by which a static pool has more than it should; no budget holds it."""
OVERPROVISIONED: Final = "Overprovisioned"
"""Why such a node goes."""
PROVISIONING: Final = "Provisioning"
"""Nodes that come for pods that wait, while none goes."""
SHORTEST_PAUSE: Final = timedelta(seconds=10)
"""Between two looks of the planner, as in the reference."""
_NODES_SQUARED_PER_SECOND: Final = 1_000


@dataclass(frozen=True, slots=True)
class SimulationAssumptions:
    """What a simulation takes for granted, where nobody can know.

    Args:
        launch: How long it takes until a new node is initialized.
        shortest_drain: How long a drain takes at least, even of an empty node.
        new_pods: Whether pods come that are not there at the start, besides those that replace evicted ones.
        failures: Whether anything fails: launches, drains, nodes.
        prices_change: Whether prices, or what can be had, change.
        look_again: How much time passes at least between two looks of the planner when the first found nothing to do;
            the end of a budget's window or of an annotation is not waited for. None: ten seconds, as in the
            reference, and longer the more nodes there are, see `poll_interval`.
        most_happenings: After how many the simulation stops.
        most_looks: After how many looks of the planner it stops.
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
        """Return how much time passes between two looks at a cluster of so many nodes.

        Up to 100 nodes that is the ten seconds of the reference. Beyond, it grows with the time that looks take: eight
        minutes for 700 nodes, an hour and seven minutes for 2,000.
        """
        if self.look_again is not None:
            return self.look_again
        return max(SHORTEST_PAUSE, timedelta(seconds=nodes * nodes // _NODES_SQUARED_PER_SECOND))


@dataclass(frozen=True, slots=True)
class SimulationEvent:
    """Nodes of one pool that begin to go, or come, for one reason.

    Args:
        at: When.
        pool: Of the nodes.
        method: A `scorer.node_disruption.methods.command.Method`, or `EXPIRATION`, `DELETION`, `SCALE_DOWN`,
            `PROVISIONING`.
        reason: What budgets call it, ``Expired`` or ``Overprovisioned``; empty where nothing goes, or nobody knows why.
        nodes: Names of those that go; none when only new ones come.
        why: In words.
        savings: Per hour, negative when it costs more; None: a price is not known.
        replaced_by: Names of the nodes that are made for it, or for the pods that it evicts.
        limit: How many nodes the budgets let go at once for *reason* at this instant; None: budgets do not hold it.
        disrupting: How many nodes of the pool are going or not ready then, these included.
        pods_of: Of `PROVISIONING`: names of the nodes that the pods come from; none: they were pending.
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
    """A node vanishes: its drain has ended."""

    at: datetime
    pool: str
    node: str


@dataclass(frozen=True, slots=True)
class Launch:
    """A node is made.

    Args:
        at: When.
        ready: When it is initialized.
        pool: That it belongs to.
        node: Its name.
        instance_type: Empty: not known.
        zone: Empty: not known.
        capacity_type: Empty: not known.
        price: Per hour; None: not known.
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
    """A stretch of time in which a node should go, and is held.

    Args:
        node: Its name.
        pool: That it belongs to.
        wanted: Why it should go: what budgets call it, or ``Expired``.
        reason: What holds it, in one word.
        message: What holds it, for people.
        since: When that was seen first.
        until: When it had ended; None: it held at the end of the simulation.
        draining: Its drain has begun; what is held are its pods.
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
        """Return how long it lasts, until *end* when it does not end before."""
        return (self.until or end) - self.since


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod that has no place at the end."""

    pod: str
    since: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class PoolSummary:
    """A pool before and after.

    Args:
        pool: Its name.
        nodes_before: At the start.
        nodes_after: At the end.
        price_before: Of its nodes per hour; None: a price is not known.
        price_after: As *price_before*.
        disrupted: How many nodes have begun to go, by reason.
        savings: Per hour, of all that happens; None: a price is not known.
        longest: What held one of its nodes the longest; None: nothing did.
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
    """A simulation.

    Args:
        start: When it begins.
        end: When it ends; all that is before that is there.
        assumptions: What it takes for granted.
        happenings: By time.
        removals: By time.
        launches: By time.
        blocked: By beginning.
        pools: By name.
        waiting: Pods without a place at the end.
        stopped: Why it ended early; empty when it did not.
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
"""What follows in a message changes from look to look: numbers and names of pods."""

_Key = tuple[str, str, str, str]


class BlockedPeriods:
    """What has been found to hold nodes, look by look."""

    def __init__(self) -> None:
        self._open: dict[_Key, BlockedPeriod] = {}
        self._over: list[BlockedPeriod] = []

    def see(self, found: Iterable[BlockedPeriod], now: datetime) -> None:
        """Take in everything that holds nodes at *now*; what was there before and is not any more has ended."""
        current: dict[_Key, BlockedPeriod] = {}
        for period in found:
            current.setdefault(_key(period), period)
        self._end([key for key in self._open if key not in current], now)
        for key, period in current.items():
            self._open.setdefault(key, period)

    def release(self, nodes: Collection[str], now: datetime) -> None:
        """Note that nothing holds some nodes any more."""
        self._end([key for key, period in self._open.items() if period.node in nodes], now)

    def all(self) -> tuple[BlockedPeriod, ...]:
        """Return all stretches by their beginning; those that have not ended are open."""
        return tuple(sorted((*self._over, *self._open.values()), key=_order))

    def _end(self, keys: Iterable[_Key], now: datetime) -> None:
        for key in keys:
            ended = self._open.pop(key)
            if ended.since < now:
                self._over.append(replace(ended, until=now))


def subject(message: str) -> str:
    """Return what a message is about, without what changes from look to look."""
    return _SUBJECT_ENDS.split(message, maxsplit=1)[0]


def _key(blocked: BlockedPeriod) -> _Key:
    return blocked.node, blocked.wanted, blocked.reason, subject(blocked.message)


def _order(blocked: BlockedPeriod) -> tuple[datetime, _Key]:
    return blocked.since, _key(blocked)
