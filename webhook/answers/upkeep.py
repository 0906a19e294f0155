"""The upkeep of member clusters, for display: versions, maintenance windows, and upgrades.

Source: docs/specifications/upgrade-runs.md 3.1, 3.4 and 11.
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
from scorer.upgrade.back_ends.inventories import OBSERVED, parse_inventory_annotation
from scorer.upgrade.members.member import UPGRADE_HOLD
from scorer.upgrade.members.windows import targets_of
from scorer.upgrade.state.record import OVER
from scorer.windows.maintenance import window_state
from scorer.windows.overview import WindowOverview, window_overviews
from webhook.kube.cache.informer import Cache
from webhook.kube.listers.maintenance_windows import MaintenanceWindows

_SHOWN: Final = frozenset({UpgradeState.RUNNING, UpgradeState.PENDING, UpgradeState.FAILED})
_PLANNED: Final = _SHOWN | {UpgradeState.NOT_STARTED}
"""States of a member in the view of a single cluster, which includes planned upgrades."""


class MemberWindow(TypedDict):
    """One of the maintenance windows of a cluster."""

    name: str
    """Name of the ClusterMaintenanceWindow."""
    target: NotRequired[Annotated[str, ShapeOf(WindowTarget)]]
    """The changes that it applies to. Absent: the window is missing, or cannot be read."""
    open: NotRequired[bool]
    until: NotRequired[Instant]
    """When it closes or opens. Absent: never, or the window is missing or cannot be read."""
    missing: NotRequired[Literal[True]]
    """The cluster names a window that does not exist."""
    unreadable: NotRequired[Literal[True]]
    """It cannot be read, and counts as closed."""


class MemberUpgrade(TypedDict):
    """State of a cluster in an unfinished upgrade run."""

    run: str
    """Name of the ClusterUpgradeRun."""
    state: Annotated[str, one_of("Running", "Pending", "Failed", "NotStarted")]
    """`NotStarted` only in the response for a single cluster: the run has not reached it yet."""
    message: str
    """Pending condition or problem."""
    fromVersion: NotRequired[str]
    """Version before the upgrade. Absent: the upgrade has not started."""
    toVersion: NotRequired[str]
    """Target version. Absent: unchanged, or only node images change."""
    expected: NotRequired[TimelineSpan]
    """Expected period of its upgrade. Only in the response for a single cluster. Absent there: unknown."""


class ClusterUpkeep(TypedDict):
    """Versions, maintenance windows and upgrades of a cluster."""

    version: NotRequired[str]
    """Version of its control plane, as reported by its upgrader."""
    onHold: NotRequired[Literal[True]]
    """Excluded from upgrades by annotation `harbormaster.dev/upgrade-hold`."""
    windowOpen: NotRequired[bool]
    """Whether one of the windows for upgrades of its Kubernetes version is open. Absent: it has none."""
    windowUntil: NotRequired[Instant]
    """Time when `windowOpen` changes."""
    upgrade: NotRequired[MemberUpgrade]
    windows: NotRequired[list[MemberWindow]]
    """All its windows. Only in the response for a single cluster."""


class Upkeep:
    """Determines the upkeep of the members of a hub.

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
        """By member: the annotation with its version, and the parsed version."""

    def every(self) -> dict[str, ClusterUpkeep]:
        """Return the upkeep of the members by name. Members without any known fact have no entry."""
        upgrades = dict(self._upgrades())
        members = {name_of(member): member for member in self._cache.list(MEMBER_CLUSTER)}
        for name in self._versions.keys() - members.keys():
            del self._versions[name]
        upkeeps = ((name, self._of(name, document, upgrades.get(name))) for name, document in members.items())
        return {name: document for name, document in upkeeps if document}

    def one(self, name: str) -> ClusterUpkeep | None:
        """Return the full upkeep of one member, with its windows and planned upgrade.

        None: unknown, the member has no known fact or does not exist.
        """
        member = self._cache.get(MEMBER_CLUSTER, name)
        if member is None:
            return None
        upgrade = next((cluster_upgrade for of, cluster_upgrade in self._upgrades(planned=True) if of == name), None)
        upkeep = self._of(name, member, upgrade)
        if windows := list(self._windows_of(member)):
            upkeep["windows"] = windows
        return upkeep or None

    def windows(self) -> list[WindowOverview]:
        """Return all maintenance windows, in the order of their next change."""
        return window_overviews(self._cache.list(MEMBER_CLUSTER), self._windows.definitions, self._now())

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
        """Yield the members in unfinished runs, with their state, and optionally with their planned upgrade."""
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
        return parse_inventory_annotation(note).version if note else ""
    except ValueError:
        return ""
