"""The fleet: an immutable snapshot of all member clusters, as columns.

A column is built when a policy first needs it, and carried over to the next snapshot with only the changed
rows rewritten. So a request scores against one snapshot without locks, while the cache already builds the next.

One thread per fleet: reading it may add columns to it. A worker thread gets its own fleet from ``updated(())``,
which shares the arrays, never written to, but not the dicts that hold them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scorer.api.cluster.member_cluster import MemberCluster, Taint
from scorer.api.cluster.scores import ExternalScore, read_score
from scorer.api.conditions import TRUE, find_condition
from scorer.api.names import MEMBER_AGENT, SCORE_PREFIX
from scorer.columns import BoolColumn, DictionaryColumn, IntColumn, PropertyReading, QuantityColumn, Rows, row_of
from scorer.eligibility import EligibilityLimits
from scorer.properties import read_property

_REVISIONS = 2**64

MOST_COLUMNS = 256
"""How many label columns, and how many property columns, a snapshot keeps; the oldest is dropped first.

Without a limit, a user could fill the memory with policies of made-up label keys, and every report of a member would
rewrite all of these columns.
"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NEVER = np.iinfo(np.int64).min
_ALWAYS = np.iinfo(np.int64).max
_FOREVER = datetime.max.replace(tzinfo=UTC)

LEAVING, NOT_REPORTING, STALE, NOT_JOINED, HEALTH_UNKNOWN, UNHEALTHY = range(1, 7)
"""The tests of eligibility, in order (scheduling.md 5); 0 means eligible."""


@dataclass(frozen=True, slots=True)
class EligibilityColumns:
    """What decides until when a cluster can be picked.

    Instants, not verdicts, so that the columns stay valid as time passes. All are microseconds since 1970.

    Args:
        failed: The first test that fails regardless of the time (`LEAVING`, `NOT_REPORTING`, `NOT_JOINED`,
            `HEALTH_UNKNOWN`), else 0.
        heartbeat_until: The last instant at which the heartbeat counts as fresh.
        health_until: The same for health; unbounded while the cluster is healthy.
        until: The last instant at which all tests pass.
    """

    failed: NDArray[np.int8]
    heartbeat_until: IntColumn
    health_until: IntColumn
    until: IntColumn

    def failure_of(self, row: int, now: datetime) -> int:
        """Return the first test that one cluster fails, 0 when it passes all; the scalar form of `first_failure`."""
        instant, failed = microseconds(now), self.failed.item(row)
        if failed in (LEAVING, NOT_REPORTING):
            return failed
        if self.heartbeat_until.item(row) < instant:
            return STALE
        return failed or (UNHEALTHY if self.health_until.item(row) < instant else 0)

    def first_failure(self, rows: NDArray[np.intp], now: datetime) -> NDArray[np.int8]:
        """Return the first test that each of *rows* fails, 0 where it passes all."""
        instant = microseconds(now)
        failed = self.failed[rows]
        order = [failed == LEAVING, failed == NOT_REPORTING, self.heartbeat_until[rows] < instant]
        order += [failed == NOT_JOINED, failed == HEALTH_UNKNOWN, self.health_until[rows] < instant]
        return np.select(order, range(LEAVING, UNHEALTHY + 1), 0).astype(np.int8)


NamespaceView: TypeAlias = tuple[bool, frozenset[str] | None]
"""Whether the member collects namespaces, and the namespaces it reported, None when it has reported no list."""

_Eligibility: TypeAlias = tuple[int, int, int, int]


@dataclass(slots=True)
class _Columns:
    """The columns of one snapshot that have been needed so far; None and missing ones are built on demand."""

    labels: dict[str, DictionaryColumn[str]] = field(default_factory=dict)
    quantities: dict[str, QuantityColumn] = field(default_factory=dict)
    expiries: dict[str, IntColumn] = field(default_factory=dict)
    taints: DictionaryColumn[tuple[Taint, ...]] | None = None
    namespaces: DictionaryColumn[NamespaceView] | None = None
    eligibility: EligibilityColumns | None = None


class Fleet:
    """All member clusters at one moment, in byte order of their names.

    Args:
        members: By name, ascending.
        limits: The limits of eligibility.
    """

    def __init__(self, members: Sequence[MemberCluster], limits: EligibilityLimits | None = None) -> None:
        self.members = Rows(members)
        self.names = tuple(member.metadata.name for member in self.members)
        self._revision: int | None = None
        self.limits = limits or EligibilityLimits()
        self._columns = _Columns()
        self._scored: frozenset[int] | None = None
        self._fresh_until: datetime | None = None
        self._view: _LaterFleet | None = None

    @classmethod
    def of(cls, members: Iterable[MemberCluster], limits: EligibilityLimits | None = None) -> "Fleet":
        """Make a snapshot of *members*, in any order; of two with the same name, the later counts."""
        by_name = {member.metadata.name: member for member in members}
        return cls([by_name[name] for name in sorted(by_name)], limits)

    @property
    def revision(self) -> int:
        """Names the members and the versions at which they are stored, below 2**64.

        Two processes that know the same members at the same versions get the same number, in whatever order they heard
        of them.
        """
        if self._revision is None:
            self._revision = sum(map(_stamp, self.members)) % _REVISIONS
        return self._revision

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
        """Return a mask of the clusters named in *names*; unknown names are ignored."""
        mask = np.zeros(len(self), dtype=np.bool_)
        if known := [row for name in names if (row := self.row(name)) is not None]:
            mask[known] = True
        return mask

    def label(self, key: str) -> DictionaryColumn[str]:
        """Return the values of a label."""
        labels = self._columns.labels
        if key not in labels:
            _make_room(labels)
            labels[key] = DictionaryColumn.of(member.metadata.labels.get(key) for member in self.members)
        return labels[key]

    @property
    def column_count(self) -> int:
        """How many columns of labels and properties this snapshot holds."""
        return len(self._columns.labels) + len(self._columns.quantities)

    def quantity(self, name: str) -> QuantityColumn:
        """Return the values of a property; *name* must be one that `property_name_error` accepts."""
        quantities = self._columns.quantities
        if name not in quantities:
            _make_room(quantities)
            quantities[name] = QuantityColumn.of(_Readings(self.members, name))
        return quantities[name]

    @property
    def taints(self) -> DictionaryColumn[tuple[Taint, ...]]:
        """The list of taints of each cluster, as one value."""
        columns = self._columns
        if columns.taints is None:
            columns.taints = DictionaryColumn.of(member.spec.taints for member in self.members)
        return columns.taints

    @property
    def namespaces(self) -> DictionaryColumn[NamespaceView]:
        """The namespaces seen on each cluster."""
        columns = self._columns
        if columns.namespaces is None:
            columns.namespaces = DictionaryColumn.of(map(_namespace_view, self.members))
        return columns.namespaces

    @property
    def eligibility(self) -> EligibilityColumns:
        """What decides eligibility."""
        columns = self._columns
        if columns.eligibility is None:
            columns.eligibility = self._judge(range(len(self)))
        return columns.eligibility

    def at(self, now: datetime) -> "Fleet":
        """Return the fleet to judge at *now*: without the external scores that have expired.

        That is this fleet itself until a score expires, and then one that shares everything else with it.
        """
        if self._fresh_until is None:
            self._look_for_scores()
        assert self._fresh_until is not None
        if now <= self._fresh_until:
            return self
        if self._view is None or self._view.now != now:
            self._view = _LaterFleet(self, now)
        return self._view

    def _look_for_scores(self) -> None:
        if self._scored is None:
            found = (row for row, member in enumerate(self.members) if _has_scores(member))
            self._scored = frozenset(found)
        instants = (until for row in self._scored if (until := _first_expiry(self.members[row])) is not None)
        self._fresh_until = min(instants, default=_FOREVER)

    def expired_score(self, name: str, row: int) -> ExternalScore | None:  # noqa: ARG002 - see `at`
        """Return the external score of the cluster in *row* that has expired, None when there is none."""
        return None

    def expiry(self, name: str) -> IntColumn:
        """Return the end of an external score, in microseconds since 1970; unbounded where it does not expire."""
        expiries = self._columns.expiries
        if name not in expiries:
            _make_room(expiries)
            expiries[name] = np.array([_expiry(member, name) for member in self.members], dtype=np.int64)
        return expiries[name]

    def updated(self, changed: Iterable[MemberCluster], gone: Iterable[str] = ()) -> "Fleet":
        """Return the next snapshot: *changed* clusters replaced or added, *gone* ones left out.

        If no cluster is added or removed, the columns in use are carried over and only the changed rows rewritten.
        """
        news = {member.metadata.name: member for member in changed}
        lost = {name for name in gone if name not in news and self.row(name) is not None}
        rows: dict[int, MemberCluster] = {}
        for name, member in news.items():
            if (row := self.row(name)) is None:
                lost.add("")  # no cluster has this name: it only says that rows move, so that columns start afresh
                break
            rows[row] = member
        if lost:
            members = {member.metadata.name: member for member in self.members} | news
            kept = (member for name, member in members.items() if name not in lost)
            return Fleet.of(kept, self.limits)
        fleet = Fleet.__new__(Fleet)  # without the constructor, which would walk over all members for their names
        # Copies throughout: requests under way go on reading this snapshot.
        fleet.members, fleet.names = self.members.replaced(rows), self.names
        fleet.limits, fleet._revision = self.limits, None
        if self._revision is not None:
            moved = sum(_stamp(member) - _stamp(self.members[row]) for row, member in rows.items())
            fleet._revision = (self._revision + moved) % _REVISIONS
        fleet._columns, fleet._view = self._carried_over(fleet.members, rows), None
        fleet._scored = fleet._fresh_until = None
        if self._scored is not None:
            fleet._scored = self._scored
            if any((row in self._scored) != _has_scores(member) for row, member in rows.items()):
                came = frozenset(row for row, member in rows.items() if _has_scores(member))
                fleet._scored = (self._scored - rows.keys()) | came
            if not fleet._scored:
                fleet._fresh_until = _FOREVER
        return fleet

    def _carried_over(self, now: Sequence[MemberCluster], rows: Mapping[int, MemberCluster]) -> _Columns:
        """Return the columns in use with *rows* rewritten; unaffected columns are shared."""
        old, before = self._columns, self.members
        relabelled = [row for row, new in rows.items() if new.metadata.labels != before[row].metadata.labels]
        tainted = [row for row, new in rows.items() if new.spec.taints != before[row].spec.taints]
        columns = _Columns(dict(old.labels))
        for key, labels in old.labels.items() if relabelled else ():
            columns.labels[key] = labels.updated({row: rows[row].metadata.labels.get(key) for row in relabelled})
        columns.quantities = {
            name: column.updated(rows, _Readings(now, name)) for name, column in old.quantities.items()
        }
        for name, expiry in old.expiries.items():
            columns.expiries[name] = expiry.copy()
            columns.expiries[name][list(rows)] = [_expiry(member, name) for member in rows.values()]
        columns.taints = old.taints and old.taints.updated({row: rows[row].spec.taints for row in tainted})
        columns.namespaces = old.namespaces and old.namespaces.updated(
            {row: _namespace_view(new) for row, new in rows.items() if _collects(new) or _collects(before[row])}
        )
        if old.eligibility is not None:
            columns.eligibility = self._judge(rows, old.eligibility, now)
        return columns

    def _judge(
        self,
        rows: Iterable[int],
        before: EligibilityColumns | None = None,
        members: Sequence[MemberCluster] | None = None,
    ) -> EligibilityColumns:
        members = self.members if members is None else members
        where = np.fromiter(rows, dtype=np.intp)
        judged = np.array([_judge_member(members[row], self.limits) for row in where.tolist()], dtype=np.int64)
        failed, heartbeat, health, until = judged.reshape(-1, 4).T
        if before is None:
            return EligibilityColumns(failed.astype(np.int8), heartbeat.copy(), health.copy(), until.copy())
        return EligibilityColumns(
            _rewritten(before.failed, where, failed),
            _rewritten(before.heartbeat_until, where, heartbeat),
            _rewritten(before.health_until, where, health),
            _rewritten(before.until, where, until),
        )


def _rewritten(column: NDArray[Any], where: NDArray[np.intp], values: IntColumn) -> NDArray[Any]:
    """Return a copy with other *values* in the rows *where*; the column itself if they are there already."""
    if np.array_equal(column[where], values):
        return column
    copy = column.copy()
    copy[where] = values
    return copy


def _stamp(member: MemberCluster) -> int:
    """Return a number of 64 bits that names one member at one version."""
    text = "\0".join((member.metadata.name, member.metadata.uid, member.metadata.resource_version))
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=8).digest())


def _make_room(columns: dict[str, Any]) -> None:
    if len(columns) >= MOST_COLUMNS:
        del columns[next(iter(columns))]


class _LaterFleet(Fleet):
    """A fleet at an instant at which some external scores have expired; everything else is shared with the fleet."""

    def __init__(self, fleet: Fleet, now: datetime) -> None:
        self.members, self.names = fleet.members, fleet.names
        self._revision, self.limits = fleet._revision, fleet.limits
        self._columns, self._fleet, self.now = fleet._columns, fleet, now
        self._scores: dict[str, QuantityColumn] = {}

    def at(self, now: datetime) -> Fleet:
        """Return the fleet to judge at *now*, which may be another instant."""
        return self if now == self.now else self._fleet.at(now)

    def quantity(self, name: str) -> QuantityColumn:
        """Return the values of a property; external scores that have expired are absent."""
        column = super().quantity(name)
        if not name.startswith(SCORE_PREFIX):
            return column
        if name not in self._scores:
            _make_room(self._scores)
            self._scores[name] = column.without(self.expiry(name) < microseconds(self.now))
        return self._scores[name]

    def expired_score(self, name: str, row: int) -> ExternalScore | None:
        """Return the external score of the cluster in *row* that has expired, None when there is none."""
        score = read_score(self.members[row].metadata.annotations, name)
        return score if score and score.valid_until and score.valid_until < self.now else None

    def updated(self, changed: Iterable[MemberCluster], gone: Iterable[str] = ()) -> Fleet:
        """Return the next snapshot, which is not bound to an instant."""
        return self._fleet.updated(changed, gone)


@dataclass(frozen=True, slots=True)
class _Readings:
    """What each cluster reports for one property, read on access."""

    members: Sequence[MemberCluster]
    name: str

    def __getitem__(self, row: int) -> PropertyReading | None:
        return read_property(self.members[row], self.name)

    def __iter__(self) -> Iterator[PropertyReading | None]:
        return (read_property(member, self.name) for member in self.members)


def microseconds(instant: datetime) -> int:
    """Return microseconds since 1970."""
    return (instant - _EPOCH) // _MICROSECOND


def _has_scores(member: MemberCluster) -> bool:
    annotations = member.metadata.annotations
    return bool(annotations) and any(map(_is_score, annotations))


def _is_score(key: str) -> bool:
    return key.startswith(SCORE_PREFIX)


def _first_expiry(member: MemberCluster) -> datetime | None:
    annotations = member.metadata.annotations
    scores = (read_score(annotations, name) for name in annotations if _is_score(name))
    return min((score.valid_until for score in scores if score and score.valid_until), default=None)


def _expiry(member: MemberCluster, name: str) -> int:
    score = read_score(member.metadata.annotations, name)
    return _ALWAYS if score is None or score.valid_until is None else microseconds(score.valid_until)


def _collects(member: MemberCluster) -> bool:
    return member.status.namespaces is not None or _collecting(member)


def _collecting(member: MemberCluster) -> bool:
    return find_condition(member.status.conditions, "NamespaceCollectionSucceeded") is not None


def _namespace_view(member: MemberCluster) -> NamespaceView:
    namespaces = member.status.namespaces
    return _collecting(member), None if namespaces is None else frozenset(namespaces)


def _judge_member(member: MemberCluster, limits: EligibilityLimits) -> _Eligibility:
    agent = next((agent for agent in member.status.agent_status if agent.type == MEMBER_AGENT), None)
    leaving = member.metadata.deletion_timestamp is not None
    if agent is None:
        return LEAVING if leaving else NOT_REPORTING, _NEVER, _NEVER, _NEVER
    heartbeat, health_until, joined = agent.last_received_heartbeat, _NEVER, False
    heartbeat_until = _NEVER if heartbeat is None else microseconds(heartbeat) + limits.heartbeat // _MICROSECOND
    healthy = find_condition(agent.conditions, "Healthy")
    if healthy is not None and healthy.status == TRUE:
        health_until = _ALWAYS
    elif healthy is not None and healthy.last_transition_time is not None:
        health_until = microseconds(healthy.last_transition_time) + limits.health // _MICROSECOND
    condition = find_condition(agent.conditions, "Joined")
    joined = condition is not None and condition.status == TRUE
    failed = LEAVING if leaving else NOT_JOINED if not joined else HEALTH_UNKNOWN if healthy is None else 0
    return failed, heartbeat_until, health_until, _NEVER if failed else min(heartbeat_until, health_until)
