"""The upkeep of member clusters, for display: what they run, when they may be upgraded, and what upgrades them.

Source: upgrade-runs.md 3.1, 3.4 and 11.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Final, Literal, NotRequired

from typing_extensions import TypedDict

from scorer.api.kinds import MEMBER_CLUSTER, UPGRADE_RUN
from scorer.api.meta import JsonObject, format_time
from scorer.api.unstructured.documents import annotation, dicts_at, name_of, text_at
from scorer.api.upgrade.fields import UpgradeState, UpgradeType
from scorer.api.upgrade.maintenance_window import WindowTarget
from scorer.api.values.answer import Instant, ShapeOf, one_of
from scorer.rollout.views.timeline import TimelineSpan
from scorer.upgrade.back_ends.inventories import OBSERVED, parse_observed
from scorer.upgrade.members.member import UPGRADE_HOLD
from scorer.upgrade.members.windows import targets_of
from scorer.upgrade.state.record import OVER
from scorer.windows.maintenance import window_state
from webhook.kube.cache.informer import Cache
from webhook.kube.listers.maintenance_windows import MaintenanceWindows

_SHOWN: Final = frozenset({UpgradeState.RUNNING, UpgradeState.PENDING, UpgradeState.FAILED})
_PLANNED: Final = _SHOWN | {UpgradeState.NOT_STARTED}
"""Of a single member, it is said as well which run is going to reach it."""


class MemberWindow(TypedDict):
    """One of the maintenance windows of a cluster."""

    name: str
    """Of the ClusterMaintenanceWindow."""
    target: NotRequired[Annotated[str, ShapeOf(WindowTarget)]]
    """Which upgrades it is for; absent: the window is not there, or cannot be read."""
    open: NotRequired[bool]
    until: NotRequired[Instant]
    """When it closes or opens; absent: never."""
    missing: NotRequired[Literal[True]]
    """The cluster names it, and there is none of that name."""
    unreadable: NotRequired[Literal[True]]
    """It cannot be read, and counts as closed."""


class MemberUpgrade(TypedDict):
    """What an upgrade run that is not over says of a cluster."""

    run: str
    """Name of the ClusterUpgradeRun."""
    state: Annotated[str, one_of("Running", "Pending", "Failed", "NotStarted")]
    """`NotStarted` only of a single cluster: the run is going to reach it."""
    message: str
    """What it waits for, or what is wrong."""
    fromVersion: NotRequired[str]
    """What it ran before; absent: its upgrade has not begun."""
    toVersion: NotRequired[str]
    """What it is upgraded to; absent: as before, or only node images change."""
    expected: NotRequired[TimelineSpan]
    """When its upgrade is expected; only of a single cluster, absent: not known."""


class ClusterUpkeep(TypedDict):
    """What a cluster runs, when it may be upgraded, and what upgrades it."""

    version: NotRequired[str]
    """Of its control plane, as its upgrader has reported."""
    onHold: NotRequired[Literal[True]]
    """Nothing upgrades it: annotation `harbormaster.dev/upgrade-hold`."""
    windowOpen: NotRequired[bool]
    """Whether one of its maintenance windows is open; absent: it has none."""
    windowUntil: NotRequired[Instant]
    """When that changes."""
    upgrade: NotRequired[MemberUpgrade]
    windows: NotRequired[list[MemberWindow]]
    """All of them; only of a single cluster."""


class Upkeep:
    """Knows the upkeep of the members of a hub.

    Args:
        cache: The hub's objects.
        windows: The maintenance windows of the members.
        now: The clock.
    """

    def __init__(self, cache: Cache, windows: MaintenanceWindows, now: Callable[[], datetime]) -> None:
        self._cache = cache
        self._windows = windows
        self._now = now
        self._versions: dict[str, tuple[str, str]] = {}
        """By member: the note of what it runs, and the version in it."""

    def every(self) -> dict[str, ClusterUpkeep]:
        """Return the upkeep of the members of which there is something to be said."""
        upgrades = dict(self._upgrades())
        members = {name_of(member): member for member in self._cache.list(MEMBER_CLUSTER)}
        for name in self._versions.keys() - members.keys():
            del self._versions[name]
        upkeeps = ((name, self._of(name, document, upgrades.get(name))) for name, document in members.items())
        return {name: document for name, document in upkeeps if document}

    def one(self, name: str) -> ClusterUpkeep | None:
        """Return the upkeep of one member in full, with each of its windows; None: there is nothing to be said."""
        member = self._cache.get(MEMBER_CLUSTER, name)
        if member is None:
            return None
        upgrade = next((cluster_upgrade for of, cluster_upgrade in self._upgrades(planned=True) if of == name), None)
        upkeep = self._of(name, member, upgrade)
        if windows := list(self._windows_of(member)):
            upkeep["windows"] = windows
        return upkeep or None

    def _windows_of(self, member: JsonObject) -> Iterator[MemberWindow]:
        now, definitions = self._now(), self._windows.of_upgrades(member, frozenset(WindowTarget))
        for name in definitions.names:
            definition = self._windows.definitions[name]
            if definition.window is None or definition.target is None:
                yield {"name": name, "unreadable": True}
                continue
            state = window_state((definition.window,), now)
            window: MemberWindow = {"name": name, "target": definition.target.value, "open": state.is_open}
            if state.until is not None:
                window["until"] = format_time(state.until)
            yield window
        for name in definitions.missing:
            yield {"name": name, "missing": True}

    def _of(self, name: str, member: JsonObject, upgrade: MemberUpgrade | None) -> ClusterUpkeep:
        upkeep: ClusterUpkeep = {}
        if version := self._version(name, annotation(member, OBSERVED)):
            upkeep["version"] = version
        if annotation(member, UPGRADE_HOLD) == "true":
            upkeep["onHold"] = True
        if (windows_state := self._windows.of_upgrade(member, targets_of(UpgradeType.FULL), self._now())) is not None:
            upkeep["windowOpen"] = windows_state.is_open
            if windows_state.until is not None:
                upkeep["windowUntil"] = format_time(windows_state.until)
        if upgrade is not None:
            upkeep["upgrade"] = upgrade
        return upkeep

    def _version(self, name: str, note: str) -> str:
        entry = self._versions.get(name)
        if entry is None or entry[0] != note:
            entry = self._versions[name] = note, _read(note)
        return entry[1]

    def _upgrades(self, *, planned: bool = False) -> Iterator[tuple[str, MemberUpgrade]]:
        """Yield the members that runs are concerned with now, with what they say of each, and perhaps plan for it."""
        for run in self._cache.list(UPGRADE_RUN):
            if text_at(run, "status", "state") in OVER:
                continue
            members = dicts_at(run, "status", "plan", "members") if planned else ()
            plan = {text_at(member, "name"): member for member in members}
            for entry in _entries(run):
                if entry.get("state") in (_PLANNED if planned else _SHOWN):
                    name = text_at(entry, "name")
                    yield name, _upgrade(run, entry, plan.get(name, {}))


def _upgrade(run: JsonObject, entry: JsonObject, planned: JsonObject) -> MemberUpgrade:
    words = text_at(entry, "message") or text_at(entry, "reason")
    upgrade: MemberUpgrade = {"run": name_of(run), "state": entry["state"], "message": words}
    if version := text_at(entry, "fromVersion"):
        upgrade["fromVersion"] = version
    if version := text_at(entry, "toVersion"):
        upgrade["toVersion"] = version
    start, end = text_at(planned, "start"), text_at(planned, "end")
    if start and end:
        upgrade["expected"] = {"from": start, "to": end}
    return upgrade


def _entries(run: Mapping[str, object]) -> Iterator[JsonObject]:
    for stage in dicts_at(run, "status", "stages"):
        for group in dicts_at(stage, "groups"):
            yield from dicts_at(group, "members")


def _read(note: str) -> str:
    try:
        return parse_observed(note).version if note else ""
    except ValueError:
        return ""
