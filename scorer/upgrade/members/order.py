"""The order in which the members of a group are upgraded.

Windows open and close as time goes by, and everything else about the order stays as it is as long as nobody edits
members. So those that share their windows stand in one line, which is made once, and at each instant only the lines are
put in order.

Source: upgrade-runs.md 7.2.
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
"""States of members that may have their turn."""

UpgradeSlot: TypeAlias = tuple[int, datetime]
"""What puts members in order at an instant: their tier, and then when their window closes where that counts."""


class _Place(NamedTuple):
    """What puts members in order at any time.

    Attributes:
        order: The number that the member has for that.
        name: Its name.
        position: Its position in the group.
    """

    order: int
    name: str
    position: int


class LineUp:
    """The members of a group that have not had their turn yet, in order.

    Those that have had it leave their line for good: if one of them is to have another turn, a new one has to be made.

    Args:
        entries: What the run records of the members of the group.
        members: Every member, by name; those that have left have no turn.
    """

    __slots__ = ("_known", "_lines", "_names")

    def __init__(self, entries: Sequence[MemberStatus], members: Mapping[str, Member]) -> None:
        self._names = [entry.name for entry in entries]
        self._known = [members.get(name) for name in self._names]
        lines: dict[tuple[str, ...], list[_Place]] = {}
        for index, member in enumerate(self._known):
            if member is not None:
                lines.setdefault(member.windows.names, []).append(_Place(member.order, member.name, index))
        self._lines = [sorted(line, reverse=True) for line in lines.values()]

    def is_of(self, members: Mapping[str, Member]) -> bool:
        """Say whether the order is that of these members, too: it does not depend on what they run."""
        current_members = list(map(members.get, self._names))
        for index in compress(count(), map(is_not, current_members, self._known)):
            if _stands(current_members[index]) != _stands(self._known[index]):
                return False
        self._known = current_members
        return True

    def candidates(
        self, entries: Sequence[MemberStatus], turn_of: Callable[[str], UpgradeSlot]
    ) -> Iterator[tuple[UpgradeSlot, int]]:
        """Yield the positions of the members that may have their turn, the first one first, with what decides on it.

        Args:
            entries: What the run records of them now.
            turn_of: Tells what decides now, by the name of the member; that is the same for all with its windows.
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
    """Let those go that have had their turn, up to the first that has not; say whether there is one."""
    while line and entries[line[-1].position].state not in CANDIDATES:
        line.pop()
    return bool(line)


def _stands(member: Member | None) -> tuple[tuple[str, ...], int] | None:
    """Return what determines where a member stands."""
    return None if member is None else (member.windows.names, member.order)
