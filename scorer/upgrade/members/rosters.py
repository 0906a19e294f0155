"""The members of groups, with what an evaluation asks of all of them at once.

A run may have a thousand members, of which an evaluation changes a few. So what it asks of all of them, as how many are
in which state and what they wait for, is counted along with every change. And who asks about one instant after another,
as a plan does, keeps the rosters: an evaluation then begins with what the last one has counted.

Source: upgrade-runs.md 7.2 and 8.
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
    """Until when a member waits, and since when; many have that in common.

    Attributes:
        opens: When its window opens; None: no window is closed, or nobody knows.
        since: When it has begun to wait.
    """

    opens: datetime | None
    since: datetime | None


class Roster:
    """The members of a group while a run is worked on.

    Args:
        stored: As the run has them.

    Attributes:
        entries: As they are now.
        counts: How many are in which state.
        at_work: The positions of those in upgrade.
        given_up: The positions of those whose operations may still go on although the run has given them up.
        waits: How those wait that do, and how many like that.
        held_up: The positions of those of them that wait for something else than a window, or first of all for that.
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
        """Say whether the roster has these very members, as they are."""
        return self._stored is stored

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the names of the members; they stay as they are."""
        return frozenset(entry.name for entry in self.entries)

    def with_operation(self) -> Iterator[MemberStatus]:
        """Yield the members with operations that may still be changing their clusters."""
        return (self.entries[index] for index in sorted(self.at_work | self.given_up))

    def update(self, index: int, changed: MemberStatus) -> None:
        """Change a member."""
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
        """Return the members as they are now, as the run is to have them."""
        if self._stored is None:
            self._stored = tuple(self.entries)
        return self._stored

    def line_up(self, members: Mapping[str, Member]) -> LineUp:
        """Return the order in which the members have their turns."""
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
    """The rosters of a run, as its last evaluation has left them.

    A roster counts only for the very members that it is of. So it makes no difference which rosters an evaluation is
    given, but for its time: if the run was stored by somebody else or read again meanwhile, its members are counted
    anew. One evaluation at a time works on them.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Roster] = {}

    def of(self, stage: str, group: GroupStatus) -> Roster:
        """Return the roster of a group."""
        cached = self._known.get((stage, group.name))
        if cached is None or not cached.is_of(group.members):
            cached = self._known[stage, group.name] = Roster(group.members)
        return cached
