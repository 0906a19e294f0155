"""When the maintenance windows of members let an upgrade begin, and whose turn is first for that reason.

Members that have the same windows are looked up once in an evaluation.

Source: upgrade-runs.md 7.1 and 11.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from scorer.api.upgrade.fields import UpgradeType
from scorer.api.upgrade.maintenance_window import WindowTarget
from scorer.upgrade.members import Member
from scorer.windows.maintenance import Standing, standing
from scorer.windows.member_windows import ClosedWindow, Definition, MemberWindows, closed_window

SOON: Final = timedelta(hours=4)

OPEN_TIER: Final = 1
SOON_TIER: Final = 2
FREE_TIER: Final = 3
CLOSED_TIER: Final = 4


def targets_of(upgrade: UpgradeType) -> frozenset[WindowTarget]:
    """Return the targets of the windows that apply to an upgrade."""
    own = WindowTarget.NODE_IMAGE if upgrade is UpgradeType.NODE_IMAGE_ONLY else WindowTarget.KUBERNETES_VERSION
    return frozenset({WindowTarget.ALL, own})


def tier_of(windows: Standing | None, now: datetime) -> int:
    """Return the tier of a member.

    Args:
        windows: Those that apply to it; None: it has none.
        now: The instant.
    """
    if windows is None:
        return FREE_TIER
    if windows.is_open:
        return OPEN_TIER
    return SOON_TIER if windows.until is not None and windows.until - now <= SOON else CLOSED_TIER


class Tiers:
    """The windows of members at one instant."""

    __slots__ = ("_closed", "_definitions", "_known", "_now", "_respected", "_tiers")

    def __init__(self, definitions: Mapping[str, Definition], now: datetime, *, respected: bool) -> None:
        self._definitions = definitions
        self._now = now
        self._respected = respected
        self._known: dict[tuple[str, ...], Standing] = {}
        self._tiers: dict[tuple[str, ...], int] = {}
        self._closed: dict[tuple[str, ...], ClosedWindow | None] = {}

    def tier(self, member: Member) -> int:
        """Return the tier of a member."""
        names = member.windows.names
        if names not in self._tiers:
            self._tiers[names] = tier_of(self._standing(names), self._now)
        return self._tiers[names]

    def closed(self, member: Member) -> ClosedWindow | None:
        """Say why a member's upgrade may not begin now; None: its windows do not prevent it.

        A window that is named and not there is ignored; one that cannot be read counts as closed.
        """
        names = member.windows.names
        if names not in self._closed:
            found = self._standing(names)
            self._closed[names] = (
                None if found is None else closed_window(MemberWindows(names), self._definitions, found)
            )
        return self._closed[names]

    def _standing(self, names: tuple[str, ...]) -> Standing | None:
        if not names or not self._respected:
            return None
        if names not in self._known:
            readable = (self._definitions[name].window for name in names)
            self._known[names] = standing([each for each in readable if each is not None], self._now)
        return self._known[names]
