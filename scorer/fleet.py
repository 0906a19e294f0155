"""The fleet: an immutable snapshot of all member clusters, as columns.

A column is built on first use, and carried over to the next snapshot with only the changed rows rewritten. A request
therefore scores against one snapshot without locks, while the cache already builds the next one.

A fleet must be used by only one thread, because reading it may add columns. A worker thread gets its own fleet from
``updated(())``. It shares the arrays, which are immutable, but not the dicts that contain them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np

from scorer.api.cluster.member_cluster import MemberCluster, Taint
from scorer.api.cluster.scores import ExternalScore, read_score
from scorer.api.conditions import find_condition
from scorer.api.names import SCORE_PREFIX
from scorer.columns import (
    UNLIMITED,
    BoolColumn,
    DictionaryColumn,
    IntColumn,
    PropertyReading,
    QuantityColumn,
    Rows,
    microseconds,
    row_of,
)
from scorer.eligibility import EligibilityColumns, EligibilityLimits
from scorer.properties import read_property

_REVISIONS = 2**64

MOST_COLUMNS = 256
"""Maximum number of label columns, and of property columns, in a snapshot. The oldest is dropped first.

Without a limit, a user could fill the memory with policies that name arbitrary label keys, and every report of a member
would rewrite all of these columns.
"""

_FOREVER = datetime.max.replace(tzinfo=UTC)

NamespaceView: TypeAlias = tuple[bool, frozenset[str] | None]
"""Whether the member collects namespaces, and the namespaces in its report. None if the report has no list."""


@dataclass(slots=True)
class _Columns:
    """The columns of one snapshot that have been used so far. Missing columns and None are built on first use."""

    labels: dict[str, DictionaryColumn[str]] = field(default_factory=dict)
    quantities: dict[str, QuantityColumn] = field(default_factory=dict)
    expiries: dict[str, IntColumn] = field(default_factory=dict)
    taints: DictionaryColumn[tuple[Taint, ...]] | None = None
    namespaces: DictionaryColumn[NamespaceView] | None = None
    eligibility: EligibilityColumns | None = None


class Fleet:
    """All member clusters at one moment, in byte order of their names.

    Args:
        members: Member clusters, sorted by name.
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
        """Build a fleet from *members*, which may be in any order. If several have the same name, the last one wins."""
        by_name = {member.metadata.name: member for member in members}
        return cls([by_name[name] for name in sorted(by_name)], limits)

    @property
    def revision(self) -> int:
        """Identifier of the members and their stored versions, below 2**64.

        Two processes with the same members at the same versions compute the same number, independently of the order of
        events.
        """
        if self._revision is None:
            self._revision = sum(map(_stamp, self.members)) % _REVISIONS
        return self._revision

    def __len__(self) -> int:
        return len(self.members)

    def row(self, name: str) -> int | None:
        """Return the row of a cluster, or None if it is not in the fleet."""
        return row_of(self.names, name)

    def member(self, name: str) -> MemberCluster | None:
        """Return a cluster, or None if it is not in the fleet."""
        row = self.row(name)
        return None if row is None else self.members[row]

    def rows(self, names: Iterable[str]) -> BoolColumn:
        """Return a mask of the clusters named in *names*. Unknown names are ignored."""
        mask = np.zeros(len(self), dtype=np.bool_)
        if known_rows := [row for name in names if (row := self.row(name)) is not None]:
            mask[known_rows] = True
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
        """Number of label and property columns in this snapshot."""
        return len(self._columns.labels) + len(self._columns.quantities)

    def quantity(self, name: str) -> QuantityColumn:
        """Return the values of a property. `property_name_error` must accept *name*."""
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
        """The columns that decide eligibility."""
        columns = self._columns
        if columns.eligibility is None:
            columns.eligibility = EligibilityColumns.of(self.members, self.limits)
        return columns.eligibility

    def at(self, now: datetime) -> "Fleet":
        """Return the fleet as of *now*, without expired external scores.

        The result is this fleet itself until a score expires. Later, it is a fleet that shares all other data.
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
            scored_rows = (row for row, member in enumerate(self.members) if _has_scores(member))
            self._scored = frozenset(scored_rows)
        instants = (until for row in self._scored if (until := _first_expiry(self.members[row])) is not None)
        self._fresh_until = min(instants, default=_FOREVER)

    def expired_score(self, name: str, row: int) -> ExternalScore | None:  # noqa: ARG002 - see `at`
        """Return the external score of the cluster in *row* if it has expired, else None."""
        return None

    def expiry(self, name: str) -> IntColumn:
        """Return the expiry of an external score, in microseconds since 1970, `UNLIMITED` if it has none."""
        expiries = self._columns.expiries
        if name not in expiries:
            _make_room(expiries)
            expiries[name] = np.array([_expiry(member, name) for member in self.members], dtype=np.int64)
        return expiries[name]

    def updated(self, changed_members: Iterable[MemberCluster], removals: Iterable[str] = ()) -> "Fleet":
        """Return the next snapshot: with *changed_members* replaced or added, without the members named in *removals*.

        If no cluster is added or removed, the columns in use are carried over and only the changed rows rewritten.
        """
        news = {member.metadata.name: member for member in changed_members}
        removed_names = {name for name in removals if name not in news and self.row(name) is not None}
        rows: dict[int, MemberCluster] = {}
        for name, member in news.items():
            if (row := self.row(name)) is None:
                removed_names.add("")  # a name that no cluster has: rows move, so columns are rebuilt
                break
            rows[row] = member
        if removed_names:
            members = {member.metadata.name: member for member in self.members} | news
            remaining = (member for name, member in members.items() if name not in removed_names)
            return Fleet.of(remaining, self.limits)
        fleet = Fleet.__new__(Fleet)  # skips the constructor, which would iterate over all members
        # Copies only: requests in progress still read this snapshot.
        fleet.members, fleet.names = self.members.replaced(rows), self.names
        fleet.limits, fleet._revision = self.limits, None
        if self._revision is not None:
            shift = sum(_stamp(member) - _stamp(self.members[row]) for row, member in rows.items())
            fleet._revision = (self._revision + shift) % _REVISIONS
        fleet._columns, fleet._view = self._carried_over(fleet.members, rows), None
        fleet._scored = fleet._fresh_until = None
        if self._scored is not None:
            fleet._scored = self._scored
            if any((row in self._scored) != _has_scores(member) for row, member in rows.items()):
                rows_with_scores = frozenset(row for row, member in rows.items() if _has_scores(member))
                fleet._scored = (self._scored - rows.keys()) | rows_with_scores
            if not fleet._scored:
                fleet._fresh_until = _FOREVER
        return fleet

    def _carried_over(self, now: Sequence[MemberCluster], rows: Mapping[int, MemberCluster]) -> _Columns:
        """Return the columns in use with *rows* rewritten. Unaffected columns are shared."""
        old, old_members = self._columns, self.members
        relabelled = [row for row, new in rows.items() if new.metadata.labels != old_members[row].metadata.labels]
        tainted = [row for row, new in rows.items() if new.spec.taints != old_members[row].spec.taints]
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
            {row: _namespace_view(new) for row, new in rows.items() if _collects(new) or _collects(old_members[row])}
        )
        if old.eligibility is not None:
            columns.eligibility = old.eligibility.updated(np.fromiter(rows, np.intp), list(rows.values()), self.limits)
        return columns


def _stamp(member: MemberCluster) -> int:
    """Return a 64-bit hash of one member at one version."""
    text = "\0".join((member.metadata.name, member.metadata.uid, member.metadata.resource_version))
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=8).digest())


def _make_room(columns: dict[str, Any]) -> None:
    if len(columns) >= MOST_COLUMNS:
        del columns[next(iter(columns))]


class _LaterFleet(Fleet):
    """A fleet at an instant after the expiry of some external scores. Everything else is shared with the fleet."""

    def __init__(self, fleet: Fleet, now: datetime) -> None:
        self.members, self.names = fleet.members, fleet.names
        self._revision, self.limits = fleet._revision, fleet.limits
        self._columns, self._fleet, self.now = fleet._columns, fleet, now
        self._scores: dict[str, QuantityColumn] = {}

    def at(self, now: datetime) -> Fleet:
        """Return the same fleet as of *now*: this one, or one for another instant."""
        return self if now == self.now else self._fleet.at(now)

    def quantity(self, name: str) -> QuantityColumn:
        """Return the values of a property. Expired external scores are absent."""
        column = super().quantity(name)
        if not name.startswith(SCORE_PREFIX):
            return column
        if name not in self._scores:
            _make_room(self._scores)
            self._scores[name] = column.without(self.expiry(name) < microseconds(self.now))
        return self._scores[name]

    def expired_score(self, name: str, row: int) -> ExternalScore | None:
        """Return the external score of the cluster in *row* if it has expired, else None."""
        score = read_score(self.members[row].metadata.annotations, name)
        return score if score and score.valid_until and score.valid_until < self.now else None

    def updated(self, changed_members: Iterable[MemberCluster], removals: Iterable[str] = ()) -> Fleet:
        """Return the next snapshot, which is not bound to an instant."""
        return self._fleet.updated(changed_members, removals)


@dataclass(frozen=True, slots=True)
class _Readings:
    """The readings of one property by row, read on access."""

    members: Sequence[MemberCluster]
    name: str

    def __getitem__(self, row: int) -> PropertyReading | None:
        return read_property(self.members[row], self.name)

    def __iter__(self) -> Iterator[PropertyReading | None]:
        return (read_property(member, self.name) for member in self.members)


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
    return UNLIMITED if score is None or score.valid_until is None else microseconds(score.valid_until)


def _collects(member: MemberCluster) -> bool:
    return member.status.namespaces is not None or collects_namespaces(member)


def collects_namespaces(member: MemberCluster) -> bool:
    """Return whether the agent of a member collects the namespaces of its cluster."""
    return find_condition(member.status.conditions, "NamespaceCollectionSucceeded") is not None


def _namespace_view(member: MemberCluster) -> NamespaceView:
    namespaces = member.status.namespaces
    return collects_namespaces(member), None if namespaces is None else frozenset(namespaces)
