"""Members that are closed by their maintenance windows according to the cache, and when they open.

Rollouts and staged updates query every member on every pass. Results that do not depend on the time are therefore
cached until an object changes. Whether windows are open is cached until they next open or close.

Source: docs/specifications/upgrade-runs.md 11.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from scorer.api.kinds import MAINTENANCE_WINDOW, MEMBER_CLUSTER
from scorer.api.meta import JsonObject
from scorer.api.names import UPGRADE_WINDOWS
from scorer.api.unstructured.documents import annotation, labels_of, name_of, spec_of
from scorer.api.upgrade.maintenance_window import WindowTarget
from scorer.windows.maintenance import WindowState, window_state
from scorer.windows.member_windows import (
    OF_UPDATES,
    ClosedWindow,
    MemberWindows,
    WindowDefinition,
    closed_window,
    named_windows,
    windows_of,
)
from webhook.kube.cache.changes import Broadcaster, ObjectDelta
from webhook.kube.cache.informer import Cache

_LOOKED_AGAIN: Final = timedelta(hours=1)
"""Time to live of the result that no window opens or closes within the search horizon."""


class MaintenanceWindows:
    """Maintenance windows of the members of a hub.

    Args:
        cache: The hub's objects. Watches the windows from now on. A hub that does not serve that kind has none.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._definitions: dict[str, WindowDefinition] = {}
        self._selecting: list[WindowDefinition] = []
        self._of: dict[str, tuple[JsonObject, MemberWindows]] = {}
        """The windows of members that may have some, until the member or any window changes."""
        self._of_upgrades: dict[tuple[str, frozenset[WindowTarget]], tuple[JsonObject, MemberWindows]] = {}
        self._standings: dict[tuple[str, ...], tuple[datetime, WindowState]] = {}
        """Cached state of several windows together, by their names, with the time when it was computed."""
        self._changed = Broadcaster[frozenset[str]]()
        self._ends = (
            cache.subscribe(MAINTENANCE_WINDOW, self._take),
            cache.subscribe(MEMBER_CLUSTER, self._take_member, changes_only=True),
        )

    def subscribe(self, handler: Callable[[frozenset[str]], None]) -> Callable[[], None]:
        """Call *handler* with the names of the members whose windows change. Return a function that unsubscribes."""
        return self._changed.subscribe(handler)

    def end(self) -> None:
        """Unsubscribe from the cache."""
        for end in self._ends:
            end()

    def closed(self, member: str, now: datetime) -> ClosedWindow | None:
        """Return why the windows of a member forbid its disruption at *now*, or None if they do not.

        A member that does not exist has no windows.
        """
        document = self._cache.get(MEMBER_CLUSTER, member)
        if document is None or not (self._selecting or annotation(document, UPGRADE_WINDOWS)):
            return None
        windows = self._windows_of(document)
        return closed_window(windows, self._definitions, self._standing(windows.names, now))

    @property
    def definitions(self) -> Mapping[str, WindowDefinition]:
        """All windows, by name. The mapping is replaced when any of them changes."""
        return self._definitions

    def of_upgrades(self, member: JsonObject, targets: frozenset[WindowTarget]) -> MemberWindows:
        """Return the windows of a MemberCluster that apply to an upgrade. The value keeps its identity until a change.

        Args:
            member: The MemberCluster.
            targets: Targets of the windows to consider.
        """
        key = name_of(member), targets
        entry = self._of_upgrades.get(key)
        if entry is None or entry[0] is not member:
            windows = windows_of(member, self._definitions, targets, self._selecting)
            entry = self._of_upgrades[key] = member, windows
        return entry[1]

    def of_upgrade(self, member: JsonObject, targets: frozenset[WindowTarget], now: datetime) -> WindowState | None:
        """Return the state of the windows of a MemberCluster for an upgrade at *now*, or None without such windows.

        Args:
            member: The MemberCluster.
            targets: Targets of the windows to consider.
            now: The present instant.
        """
        names = self.of_upgrades(member, targets).names
        return self._standing(names, now) if names else None

    def _windows_of(self, member: JsonObject) -> MemberWindows:
        entry = self._of.get(name_of(member))
        if entry is None or entry[0] is not member:
            windows = windows_of(member, self._definitions, OF_UPDATES, self._selecting)
            entry = self._of[name_of(member)] = member, windows
        return entry[1]

    def _standing(self, names: tuple[str, ...], now: datetime) -> WindowState:
        entry = self._standings.get(names)
        if entry is None or not entry[0] <= now < (entry[1].until or entry[0] + _LOOKED_AGAIN):
            readable = [window for name in names if (window := self._definitions[name].window) is not None]
            entry = self._standings[names] = now, window_state(readable, now)
        return entry[1]

    def _take(self, change: ObjectDelta) -> None:
        """Record a window that was added, deleted or has a changed spec, and notify subscribers of its members."""
        if not change.touches(spec_of):
            return
        name = name_of(change.document)
        definitions = dict(self._definitions)  # copied: readers of the previous mapping must not see changes
        before = definitions.pop(name, None)
        after = None if change.new is None else WindowDefinition.of(change.new)
        if after is not None:
            definitions[name] = after
        self._definitions = definitions
        self._selecting = [definition for definition in self._definitions.values() if definition.selector is not None]
        self._of.clear()
        self._of_upgrades.clear()
        self._standings.clear()
        self._changed.publish(frozenset(self._concerned(name, before, after)))

    def _concerned(self, name: str, *states: WindowDefinition | None) -> Iterator[str]:
        """Yield the members that name a window, or that any state of the window selects."""
        for member in self._cache.of_kind(MEMBER_CLUSTER).objects.values():
            labels = labels_of(member)
            if name in named_windows(member) or any(state is not None and state.selects(labels) for state in states):
                yield name_of(member)

    def _take_member(self, change: ObjectDelta) -> None:
        """Forget a deleted member, and notify subscribers of a member whose windows may have changed.

        Such a member names other windows, or has new labels while any window selects members by label.
        """
        name = name_of(change.document)
        if change.new is None:
            self._of.pop(name, None)
            for key in [window for window in self._of_upgrades if window[0] == name]:
                del self._of_upgrades[key]
        elif change.alters(_window_names) or (self._selecting and change.alters(labels_of)):
            self._changed.publish(frozenset({name}))


def _window_names(member: JsonObject) -> str:
    return annotation(member, UPGRADE_WINDOWS)
