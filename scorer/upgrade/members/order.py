"""The upgrade order of the members of a group.

Windows open and close with time, while every other sort key changes only when a user edits a member. Members with the
same windows therefore share one sorted line, which is built once. At each instant only the lines are sorted.

Source: docs/specifications/upgrade-runs.md 7.2.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import compress, count
from operator import is_not
from typing import Final, NamedTuple, TypeAlias

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import MemberStatus
from scorer.upgrade.members.member import Member

CANDIDATES: Final = frozenset({UpgradeState.NOT_STARTED, UpgradeState.PENDING})
"""States of members whose upgrade may still be started."""

UpgradeSlot: TypeAlias = tuple[int, datetime]
"""Time-dependent sort key of a member: its tier, then the closing time of its window if that has precedence."""


class _Place(NamedTuple):
    """Constant sort key of a member.

    Attributes:
        order: Value of its order annotation.
        name: Name.
        position: Position in the group.
    """

    order: int
    name: str
    position: int


class LineUp:
    """The members of a group that have not had their turn yet, sorted.

    Members are removed from their line for good after their turn. To give one of them another turn, build a new object.

    Args:
        entries: Status of the members of the group.
        members: All members of the fleet, by name. Entries of other members are ignored.
    """

    __slots__ = ("_current_members", "_lines", "_names")

    def __init__(self, entries: Sequence[MemberStatus], members: Mapping[str, Member]) -> None:
        self._names = [entry.name for entry in entries]
        self._current_members = [members.get(name) for name in self._names]
        lines: dict[tuple[str, ...], list[_Place]] = {}
        for index, member in enumerate(self._current_members):
            if member is not None:
                lines.setdefault(member.windows.names, []).append(_Place(member.order, member.name, index))
        self._lines = [sorted(line, reverse=True) for line in lines.values()]

    def is_of(self, members: Mapping[str, Member]) -> bool:
        """Return whether the order is also valid for these members. Their inventories do not matter."""
        current_members = list(map(members.get, self._names))
        for index in compress(count(), map(is_not, current_members, self._current_members)):
            if _stands(current_members[index]) != _stands(self._current_members[index]):
                return False
        self._current_members = current_members
        return True

    def candidates(
        self, entries: Sequence[MemberStatus], turn_of: Callable[[str], UpgradeSlot]
    ) -> Iterator[tuple[UpgradeSlot, int]]:
        """Yield the sort key and position of each member that may have its turn, in order.

        Args:
            entries: Current status of the members.
            turn_of: Returns the current sort key for a member's name. It is equal for all members with the same
                windows.
        """
        lines: dict[UpgradeSlot, list[list[_Place]]] = {}
        for line in self._lines:
            if _is_left(line, entries):
                lines.setdefault(turn_of(line[-1].name), []).append(line)
        for turn in sorted(lines):
            for place in heapq.merge(*map(reversed, lines[turn])):
                if entries[place.position].state in CANDIDATES:
                    yield turn, place.position


def _is_left(line: list[_Place], entries: Sequence[MemberStatus]) -> bool:
    """Pop the members that have had their turn from the end of a line. Return whether any member remains."""
    while line and entries[line[-1].position].state not in CANDIDATES:
        line.pop()
    return bool(line)


def _stands(member: Member | None) -> tuple[tuple[str, ...], int] | None:
    """Return the constant values that determine a member's position."""
    return None if member is None else (member.windows.names, member.order)
