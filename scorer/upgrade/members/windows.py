"""Maintenance windows of members: whether an upgrade may start, and the resulting tier.

Each distinct set of windows is evaluated once per evaluation.

Source: docs/specifications/upgrade-runs.md 7.1 and 11.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from scorer.api.upgrade.fields import UpgradeType
from scorer.api.upgrade.maintenance_window import WindowTarget
from scorer.upgrade.members.member import Member
from scorer.windows.maintenance import MaintenanceWindow, NextOpenings, WindowState, window_state
from scorer.windows.member_windows import ClosedWindow, MemberWindows, WindowDefinition, closed_window

SOON: Final = timedelta(hours=4)

OPEN_TIER: Final = 1
SOON_TIER: Final = 2
FREE_TIER: Final = 3
CLOSED_TIER: Final = 4


def targets_of(upgrade: UpgradeType) -> frozenset[WindowTarget]:
    """Return the targets of the windows that apply to an upgrade."""
    own = WindowTarget.NODE_IMAGE if upgrade is UpgradeType.NODE_IMAGE_ONLY else WindowTarget.KUBERNETES_VERSION
    return frozenset({WindowTarget.ALL, own})


def tier_of(windows: WindowState | None, now: datetime) -> int:
    """Return the tier of a member.

    Args:
        windows: State of its windows. None if it has no windows.
        now: Current time.
    """
    if windows is None:
        return FREE_TIER
    if windows.is_open:
        return OPEN_TIER
    return SOON_TIER if windows.until is not None and windows.until - now <= SOON else CLOSED_TIER


class WindowStates:
    """Cached window states. Each is valid until its next known opening or closing.

    A caller that evaluates many instants keeps this cache, so that each opening is computed once.
    """

    __slots__ = ("_cache", "_stretches")

    def __init__(self) -> None:
        self._cache: dict[tuple[int, ...], tuple[Sequence[MaintenanceWindow], datetime, WindowState]] = {}
        self._stretches = NextOpenings()

    def of(self, windows: Sequence[MaintenanceWindow], now: datetime) -> WindowState:
        """Return whether one of the windows is open, and until when."""
        key = tuple(map(id, windows))
        if (known_state := self._cache.get(key)) is not None:
            _, since, state = known_state
            if since == now or (state.until is not None and since <= now < state.until):
                return state
        state = window_state(windows, now, self._stretches)
        self._cache[key] = (windows, now, state)  # the windows are kept, so that no other one gets the same id
        return state


class Tiers:
    """The windows of members at one instant."""

    __slots__ = ("_closed", "_definitions", "_now", "_respected", "_standings", "_tiers")

    def __init__(
        self,
        definitions: Mapping[str, WindowDefinition],
        standings: WindowStates,
        now: datetime,
        *,
        are_respected: bool,
    ) -> None:
        self._definitions = definitions
        self._standings = standings
        self._now = now
        self._respected = are_respected
        self._tiers: dict[tuple[str, ...], int] = {}
        self._closed: dict[tuple[str, ...], ClosedWindow | None] = {}

    def tier(self, member: Member) -> int:
        """Return the tier of a member."""
        names = member.windows.names
        if names not in self._tiers:
            self._tiers[names] = tier_of(self._window_state(names), self._now)
        return self._tiers[names]

    def closed(self, member: Member) -> ClosedWindow | None:
        """Return why a member's windows forbid an upgrade now, or None if they allow it.

        A reference to a missing window is ignored. An unreadable window counts as closed.
        """
        names = member.windows.names
        if names not in self._closed:
            state = self._window_state(names)
            self._closed[names] = (
                None if state is None else closed_window(MemberWindows(names), self._definitions, state)
            )
        return self._closed[names]

    def changes(self, member: Member) -> datetime | None:
        """Return the next opening or closing of a member's windows. None: unknown, or no windows."""
        state = self._window_state(member.windows.names)
        return None if state is None else state.until

    def next_opening(self, member: Member) -> datetime | None:
        """Return the next opening of a member's windows after the current ones have closed. None: unknown."""
        closes = self.changes(member)
        return None if closes is None else window_state(self._windows(member.windows.names), closes).until

    def longest(self, member: Member) -> timedelta:
        """Return the length of a member's longest window."""
        windows = self._windows(member.windows.names)
        return timedelta(minutes=max((window.minutes for window in windows), default=0))

    def _windows(self, names: tuple[str, ...]) -> list[MaintenanceWindow]:
        """Return the readable windows among those of these names."""
        return [window for name in names if (window := self._definitions[name].window) is not None]

    def _window_state(self, names: tuple[str, ...]) -> WindowState | None:
        if not names or not self._respected:
            return None
        return self._standings.of(self._windows(names), self._now)
