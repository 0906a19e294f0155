"""The fleet: an immutable snapshot of all member clusters, as columns.

Columns are built the first time a policy asks for them and carried over to the next snapshot with
only the changed rows rewritten, so a request scores against one snapshot and nothing locks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scorer.api.conditions import TRUE, find_condition
from scorer.api.label_selector import dns_subdomain_error, qualified_name_error
from scorer.api.member_cluster import MEMBER_AGENT, MemberCluster, Taint
from scorer.api.quantity import read_quantity
from scorer.columns import BoolColumn, CodeBook, IntColumn, QuantityColumn, Reading, row_of

RESOURCE_PREFIX = "resources.kubernetes-fleet.io/"
CAPACITY_KINDS = ("total", "allocatable", "available")
NODE_COUNT = "kubernetes-fleet.io/node-count"
NODE_COUNT_ALIASES = {NODE_COUNT: "kubernetes.azure.com/node-count", "kubernetes.azure.com/node-count": NODE_COUNT}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NEVER = np.iinfo(np.int64).min
_ALWAYS = np.iinfo(np.int64).max

LEAVING, NOT_REPORTING, STALE, NOT_JOINED, HEALTH_UNKNOWN, UNHEALTHY = range(1, 7)
"""The tests of eligibility in their order (scheduling.md 5); 0 stands for eligible."""


@dataclass(frozen=True, slots=True)
class EligibilityLimits:
    """How long silence and ill health are borne; inclusive."""

    heartbeat: timedelta = timedelta(minutes=5)
    health: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class EligibilityColumns:
    """What decides whether a cluster can be picked, by time.

    Args:
        failed: The first test that fails whatever the time (`LEAVING`, `NOT_REPORTING`, `NOT_JOINED`,
            `HEALTH_UNKNOWN`), else 0.
        heartbeat_until: Microseconds since 1970 up to which the heartbeat counts as fresh.
        health_until: The same for health; without bound while the cluster is healthy.
        until: Up to when all tests pass.
    """

    failed: NDArray[np.int8]
    heartbeat_until: IntColumn
    health_until: IntColumn
    until: IntColumn

    def first_failure(self, rows: NDArray[np.intp], now: datetime) -> NDArray[np.int8]:
        """Return which test fails first for *rows*, 0 where none does."""
        instant = microseconds(now)
        failed = self.failed[rows]
        order = [failed == LEAVING, failed == NOT_REPORTING, self.heartbeat_until[rows] < instant]
        order += [failed == NOT_JOINED, failed == HEALTH_UNKNOWN, self.health_until[rows] < instant]
        return np.select(order, range(LEAVING, UNHEALTHY + 1), 0).astype(np.int8)


NamespaceView: TypeAlias = tuple[bool, frozenset[str] | None]
"""Whether namespace collection is on, and the namespaces that were seen, None when there is no list."""

_Eligibility: TypeAlias = tuple[int, int, int, int]


class Fleet:
    """All member clusters of one moment, in byte order of their names.

    Args:
        members: By name, ascending.
        revision: Grows with every change of the fleet.
        limits: What eligibility is judged by.
    """

    def __init__(
        self, members: Sequence[MemberCluster], revision: int = 0, limits: EligibilityLimits | None = None
    ) -> None:
        self.members = tuple(members)
        self.names = tuple(member.metadata.name for member in self.members)
        self.revision = revision
        self.limits = limits or EligibilityLimits()
        self._labels: dict[str, CodeBook[str]] = {}
        self._quantities: dict[str, QuantityColumn] = {}
        self._taints: CodeBook[tuple[Taint, ...]] | None = None
        self._namespaces: CodeBook[NamespaceView] | None = None
        self._eligibility: EligibilityColumns | None = None

    @classmethod
    def of(
        cls, members: Iterable[MemberCluster], revision: int = 0, limits: EligibilityLimits | None = None
    ) -> "Fleet":
        """Make a snapshot of *members*, in any order; of two with one name the later counts."""
        by_name = {member.metadata.name: member for member in members}
        return cls([by_name[name] for name in sorted(by_name)], revision, limits)

    def __len__(self) -> int:
        return len(self.members)

    def row(self, name: str) -> int | None:
        """Return the row of a cluster, None when it is not in the fleet."""
        return row_of(self.names, name)

    def member(self, name: str) -> MemberCluster | None:
        """Return a cluster, None when it is not in the fleet."""
        row = self.row(name)
        return None if row is None else self.members[row]

    def rows(self, names: Iterable[str]) -> BoolColumn:
        """Return where the clusters named in *names* stand; unknown names are passed over."""
        mask = np.zeros(len(self), dtype=np.bool_)
        if known := [row for name in names if (row := self.row(name)) is not None]:
            mask[known] = True
        return mask

    def label(self, key: str) -> CodeBook[str]:
        """Return the values of a label."""
        if key not in self._labels:
            self._labels[key] = CodeBook.of(member.metadata.labels.get(key) for member in self.members)
        return self._labels[key]

    @property
    def column_count(self) -> int:
        """How many columns of labels and properties have been asked for so far, and are kept."""
        return len(self._labels) + len(self._quantities)

    def quantity(self, name: str) -> QuantityColumn:
        """Return the values of a property; *name* must be one `property_name_error` accepts."""
        if name not in self._quantities:
            self._quantities[name] = QuantityColumn.of([read_property(member, name) for member in self.members])
        return self._quantities[name]

    @property
    def taints(self) -> CodeBook[tuple[Taint, ...]]:
        """The list of taints of each cluster, as one value."""
        if self._taints is None:
            self._taints = CodeBook.of(member.spec.taints for member in self.members)
        return self._taints

    @property
    def namespaces(self) -> CodeBook[NamespaceView]:
        """The namespaces seen on each cluster."""
        if self._namespaces is None:
            self._namespaces = CodeBook.of(map(_namespace_view, self.members))
        return self._namespaces

    @property
    def eligibility(self) -> EligibilityColumns:
        """What decides eligibility."""
        if self._eligibility is None:
            self._eligibility = self._judge(range(len(self)))
        return self._eligibility

    def updated(self, changed: Iterable[MemberCluster], gone: Iterable[str] = ()) -> "Fleet":
        """Return the next snapshot: *changed* clusters replaced or added, *gone* ones left out.

        While no cluster comes or goes, the columns in use are carried over and only the changed rows rewritten.
        """
        news = {member.metadata.name: member for member in changed}
        lost = {name for name in gone if name not in news and self.row(name) is not None}
        if lost or any(self.row(name) is None for name in news):
            members = {member.metadata.name: member for member in self.members} | news
            kept = (member for name, member in members.items() if name not in lost)
            return Fleet.of(kept, self.revision + 1, self.limits)
        members_now = list(self.members)
        rows = []
        for name, member in news.items():
            row = self.row(name)
            assert row is not None
            members_now[row] = member
            rows.append(row)
        fleet = Fleet.__new__(Fleet)
        fleet.members, fleet.names = tuple(members_now), self.names
        fleet.revision, fleet.limits = self.revision + 1, self.limits
        fleet._labels = {
            key: column.updated({row: members_now[row].metadata.labels.get(key) for row in rows})
            for key, column in self._labels.items()
        }
        fleet._quantities = {
            name: column.updated({row: read_property(members_now[row], name) for row in rows})
            for name, column in self._quantities.items()
        }
        fleet._taints = self._taints and self._taints.updated({row: members_now[row].spec.taints for row in rows})
        fleet._namespaces = self._namespaces and self._namespaces.updated(
            {row: _namespace_view(members_now[row]) for row in rows}
        )
        fleet._eligibility = self._eligibility and fleet._judge(rows, self._eligibility)
        return fleet

    def _judge(self, rows: Sequence[int], before: EligibilityColumns | None = None) -> EligibilityColumns:
        if before is None:
            failed = np.zeros(len(self), dtype=np.int8)
            heartbeat, health = np.zeros(len(self), dtype=np.int64), np.zeros(len(self), dtype=np.int64)
            until = np.zeros(len(self), dtype=np.int64)
        else:
            failed, heartbeat = before.failed.copy(), before.heartbeat_until.copy()
            health, until = before.health_until.copy(), before.until.copy()
        for row in rows:
            failed[row], heartbeat[row], health[row], until[row] = _judge_member(self.members[row], self.limits)
        return EligibilityColumns(failed, heartbeat, health, until)


def microseconds(instant: datetime) -> int:
    """Return microseconds since 1970."""
    return (instant - _EPOCH) // _MICROSECOND


def property_name_error(name: str) -> str:
    """Return why *name* cannot name a property, empty when it can (placement-api.md 2.2)."""
    if name.startswith(RESOURCE_PREFIX):
        kind, dash, resource = name.removeprefix(RESOURCE_PREFIX).partition("-")
        if not dash or not resource or kind not in CAPACITY_KINDS:
            return f"must be {RESOURCE_PREFIX}<capacity>-<resource> with a capacity of {', '.join(CAPACITY_KINDS)}"
        return qualified_name_error(name)
    first, *rest = name.split("/")
    if rest and dns_subdomain_error(first) and qualified_name_error(first):
        return f"first segment {dns_subdomain_error(first)}"
    return next(filter(None, map(qualified_name_error, rest or [first])), "")


def read_property(member: MemberCluster, name: str) -> Reading | None:
    """Return what *member* reports for a property, None when it reports nothing.

    Source: scheduling.md 7; DV-2 (node-count aliases), DV-3 (unreadable values), DV-4 (first dash).
    """
    if name.startswith(RESOURCE_PREFIX):
        kind, _, resource = name.removeprefix(RESOURCE_PREFIX).partition("-")
        usage = member.status.resource_usage
        amounts = {"total": usage.capacity, "allocatable": usage.allocatable, "available": usage.available}[kind]
        amount = amounts.get(resource)
        return None if amount is None else _reading(str(amount))
    value = member.status.properties.get(name)
    if value is None and name in NODE_COUNT_ALIASES:
        value = member.status.properties.get(NODE_COUNT_ALIASES[name])
    return None if value is None else _reading(value.value)


def observation_time(member: MemberCluster, name: str) -> datetime | None:
    """Return when the value of a property was observed, None when that is not known."""
    if name.startswith(RESOURCE_PREFIX):
        return member.status.resource_usage.observation_time
    value = member.status.properties.get(name) or member.status.properties.get(NODE_COUNT_ALIASES.get(name, ""))
    return value.observation_time if value else None


def _reading(text: str) -> Reading:
    return Reading(text, read_quantity(text))


def _namespace_view(member: MemberCluster) -> NamespaceView:
    collecting = find_condition(member.status.conditions, "NamespaceCollectionSucceeded") is not None
    namespaces = member.status.namespaces
    return collecting, None if namespaces is None else frozenset(namespaces)


def _judge_member(member: MemberCluster, limits: EligibilityLimits) -> _Eligibility:
    agent = next((agent for agent in member.status.agent_status if agent.type == MEMBER_AGENT), None)
    if agent is None:
        return LEAVING if member.metadata.deletion_timestamp else NOT_REPORTING, _NEVER, _NEVER, _NEVER
    heartbeat = agent.last_received_heartbeat
    heartbeat_until = _NEVER if heartbeat is None else microseconds(heartbeat) + limits.heartbeat // _MICROSECOND
    healthy = find_condition(agent.conditions, "Healthy")
    joined = find_condition(agent.conditions, "Joined")
    if healthy is None:
        health_until = _NEVER
    elif healthy.status == TRUE:
        health_until = _ALWAYS
    else:
        changed = healthy.last_transition_time
        health_until = _NEVER if changed is None else microseconds(changed) + limits.health // _MICROSECOND
    if member.metadata.deletion_timestamp:
        failed = LEAVING
    elif joined is None or joined.status != TRUE:
        failed = NOT_JOINED
    else:
        failed = HEALTH_UNKNOWN if healthy is None else 0
    return failed, heartbeat_until, health_until, _NEVER if failed else min(heartbeat_until, health_until)
