"""All maintenance windows of a hub with their next change and the number of their members, for users."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from scorer.api.meta import JsonObject, format_time
from scorer.api.upgrade.maintenance_window import WindowTarget
from scorer.api.values.answer import Count, Instant, ShapeOf
from scorer.windows.maintenance import window_state
from scorer.windows.member_windows import WindowDefinition, windows_of

_EVERY_TARGET = frozenset(WindowTarget)


class WindowOverview(TypedDict):
    """One ClusterMaintenanceWindow."""

    name: str
    target: NotRequired[Annotated[str, ShapeOf(WindowTarget)]]
    """The disruptions that wait for the window. Absent: the window cannot be read."""
    open: bool
    until: Instant | None
    """Time when the window next opens or closes. Null: it does not change, or cannot be read."""
    members: Count
    """Number of member clusters that the window applies to."""
    unreadable: NotRequired[Literal[True]]
    """Whether the window cannot be read. It then counts as closed."""


def window_overviews(
    members: Iterable[JsonObject], definitions: Mapping[str, WindowDefinition], now: datetime
) -> list[WindowOverview]:
    """Return all windows: those that change first, then those that never change, by name.

    Args:
        members: All MemberClusters.
        definitions: All windows, by name.
        now: The present instant.
    """
    if not definitions:
        return []
    selecting = [definition for definition in definitions.values() if definition.selector is not None]
    counts = Counter(
        name for member in members for name in windows_of(member, definitions, _EVERY_TARGET, selecting).names
    )
    overviews = [_overview(definition, counts[name], now) for name, definition in definitions.items()]
    return sorted(overviews, key=lambda window: (window["until"] is None, window["until"] or "", window["name"]))


def _overview(definition: WindowDefinition, members: int, now: datetime) -> WindowOverview:
    overview: WindowOverview = {"name": definition.name, "open": False, "until": None, "members": members}
    if definition.window is None or definition.target is None:
        overview["unreadable"] = True
        return overview
    state = window_state((definition.window,), now)
    overview["target"] = definition.target.value
    overview["open"] = state.is_open
    overview["until"] = None if state.until is None else format_time(state.until)
    return overview
