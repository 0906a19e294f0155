"""Rosters: the members of groups, with aggregates over all of them.

A run may have a thousand members, but an evaluation changes only a few. Aggregates, such as the number of members per
state and per cause of waiting, are therefore updated with each change. A caller that evaluates many instants, such as a
plan, keeps the rosters, so that each evaluation starts from the counts of the previous one.

Source: docs/specifications/upgrade-runs.md 7.2 and 8.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import Final, NamedTuple

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import GroupStatus, MemberStatus
from scorer.upgrade.members.member import Member
from scorer.upgrade.members.order import CANDIDATES, LineUp

_WINDOW_CLOSED: Final = "MaintenanceWindowClosed"


class _WindowWait(NamedTuple):
    """Start and expected end of a wait, often shared by many members.

    Attributes:
        opens: Next opening of the window. None: unknown, or no window is closed.
        since: Start of the wait.
    """

    opens: datetime | None
    since: datetime | None


class Roster:
    """The members of a group during an evaluation.

    Args:
        stored: The members as stored in the run.

    Attributes:
        entries: The members as changed so far.
        counts: Number of members per state.
        at_work: Positions of the members in upgrade.
        given_up: Positions of the members whose abandoned operations may still be in progress.
        waits: Number of members per distinct wait.
        held_up: Positions of the members that wait mainly for something other than a window.
    """

    def __init__(self, stored: tuple[MemberStatus, ...]) -> None:
        self.entries = list(stored)
        self.counts: Counter[UpgradeState] = Counter()
        self.at_work: set[int] = set()
        self.given_up: set[int] = set()
        self.waits: Counter[_WindowWait] = Counter()
        self.held_up: set[int] = set()
        self._stored: tuple[MemberStatus, ...] | None = stored
        self._line_up: LineUp | None = None
        for index, entry in enumerate(stored):
            self._count(index, entry)

    def is_of(self, stored: tuple[MemberStatus, ...]) -> bool:
        """Return whether the roster was built from this tuple. Compares identity, not values."""
        return self._stored is stored

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the members, which never change."""
        return frozenset(entry.name for entry in self.entries)

    def with_operation(self) -> Iterator[MemberStatus]:
        """Yield the members with operations that may still be changing their clusters."""
        return (self.entries[index] for index in sorted(self.at_work | self.given_up))

    def update(self, index: int, changed: MemberStatus) -> None:
        """Replace the status of a member."""
        previous = self.entries[index]
        if changed is previous:
            return
        self._uncount(index, previous)
        self._count(index, changed)
        if changed.state in CANDIDATES and previous.state not in CANDIDATES:
            self._line_up = None
        self.entries[index] = changed
        self._stored = None

    def result(self) -> tuple[MemberStatus, ...]:
        """Return the current members as a tuple for the status of the run."""
        if self._stored is None:
            self._stored = tuple(self.entries)
        return self._stored

    def line_up(self, members: Mapping[str, Member]) -> LineUp:
        """Return the upgrade order of the members."""
        if self._line_up is None or not self._line_up.is_of(members):
            self._line_up = LineUp(self.entries, members)
        return self._line_up

    def _count(self, index: int, entry: MemberStatus) -> None:
        self.counts[entry.state] += 1
        if entry.state is UpgradeState.RUNNING:
            self.at_work.add(index)
        elif entry.state is UpgradeState.PENDING:
            self.waits[_WindowWait(entry.next_window_open, entry.pending_since)] += 1
            if entry.reason != _WINDOW_CLOSED:
                self.held_up.add(index)
        if entry.operation_open:
            self.given_up.add(index)

    def _uncount(self, index: int, entry: MemberStatus) -> None:
        self.counts[entry.state] -= 1
        if entry.state is UpgradeState.RUNNING:
            self.at_work.discard(index)
        elif entry.state is UpgradeState.PENDING:
            self._forget(_WindowWait(entry.next_window_open, entry.pending_since))
            self.held_up.discard(index)
        self.given_up.discard(index)

    def _forget(self, wait: _WindowWait) -> None:
        self.waits[wait] -= 1
        if not self.waits[wait]:
            del self.waits[wait]


class Rosters:
    """The rosters of a run after its last evaluation.

    A roster is valid only for the tuple of members that it was built from. Stale rosters are therefore harmless: if the
    run was read again or written by another client, they are rebuilt. Not safe for concurrent evaluations.
    """

    __slots__ = ("_cache",)

    def __init__(self) -> None:
        self._cache: dict[tuple[str, str], Roster] = {}

    def of(self, stage: str, group: GroupStatus) -> Roster:
        """Return the roster of a group, building it if necessary."""
        roster = self._cache.get((stage, group.name))
        if roster is None or not roster.is_of(group.members):
            roster = self._cache[stage, group.name] = Roster(group.members)
        return roster
