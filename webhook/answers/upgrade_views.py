"""Upgrade runs for display: progress, pending conditions and timeline of each.

The types are those of ``GET /v1/runs``, which also lists staged updates.

Runs remain after they finish, and may have a thousand members, so list items are cached until the run changes. Openings
of windows are computed in a thread: a thousand members may have as many sets of windows.
"""

import asyncio
import shlex
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Final

from scorer.api.kinds import MEMBER_CLUSTER, UPGRADE_RUN
from scorer.api.meta import JsonObject, format_instant
from scorer.api.unstructured.documents import name_of
from scorer.api.upgrade.fields import UpgradeState, UpgradeType
from scorer.api.upgrade.run import ClusterUpgradeRun
from scorer.rollout.views.timeline import BarState, Timeline, TimeSpan
from scorer.upgrade.members.windows import targets_of
from scorer.upgrade.state.record import OVER
from scorer.upgrade.views.situation import UpgradeSituation, UpgradeWait, UpgradeWaitKind, situation_of
from scorer.upgrade.views.timeline import MOST_WINDOWS, upgrade_timeline
from scorer.windows.maintenance import openings
from scorer.windows.member_windows import WindowDefinition
from webhook.answers.run_answers import UpdateRun, UpdateRunDetail, UpdateRunWait
from webhook.kube.cache.informer import Cache
from webhook.kube.listers.maintenance_windows import MaintenanceWindows
from webhook.kube.listers.upgrades import readable_runs

AT_LEAST: Final = timedelta(days=1)
"""Minimum look-ahead of displayed windows, for a run with a nearer or unknown end."""
AT_MOST: Final = timedelta(days=90)

_STATES: Final[Mapping[UpgradeState, str]] = {
    UpgradeState.NOT_STARTED: "not started",
    UpgradeState.RUNNING: "running",
    UpgradeState.PENDING: "waiting",
    UpgradeState.STOPPING: "stopping",
    UpgradeState.STOPPED: "stopped",
    UpgradeState.FAILED: "failed",
    UpgradeState.COMPLETED: "succeeded",
    UpgradeState.SKIPPED: "skipped",
}
_KINDS: Final[Mapping[UpgradeWaitKind, str]] = {
    UpgradeWaitKind.INITIALIZATION: "State",
    UpgradeWaitKind.START: "State",
    UpgradeWaitKind.GATE: "Approval",
    UpgradeWaitKind.TIMED_WAIT: "TimedWait",
    UpgradeWaitKind.MEMBERS: "Held",
}
_TROUBLED: Final = frozenset({UpgradeState.FAILED, UpgradeState.NOT_STARTED, UpgradeState.STOPPED})
_WORDS: Final[Mapping[UpgradeType, str]] = {
    UpgradeType.FULL: "Kubernetes",
    UpgradeType.CONTROL_PLANE_ONLY: "control planes to",
    UpgradeType.NODE_IMAGE_ONLY: "node images",
}


def upgrade_ref(name: str) -> str:
    """Return the reference of an upgrade run: ``cuprun/kubernetes-1-31``."""
    (prefix,) = UPGRADE_RUN.short_names
    return f"{prefix}/{name}"


class UpgradeViews:
    """Builds the views of the upgrade runs in a cache.

    Args:
        cache: The hub's objects.
        windows: The maintenance windows of the members.
        now: The clock.
    """

    def __init__(self, cache: Cache, windows: MaintenanceWindows, now: Callable[[], datetime]) -> None:
        self._cache = cache
        self._now = now
        self._windows = windows
        self._view_cache: dict[str, tuple[JsonObject, UpdateRun | None]] = {}
        """By name: the run and its list item. None: unknown, the run cannot be read."""
        self._shown: tuple[JsonObject, ClusterUpgradeRun | None] = {}, None
        """The last displayed run and its parsed form, because viewers of a run poll it."""
        self._open = _Open(now(), now(), {})
        self._searching = asyncio.Lock()

    def views(self) -> list[UpdateRun]:
        """Return the list items of all readable runs. See `catch_up`."""
        documents = self._cache.list(UPGRADE_RUN)
        self._view_cache = {name_of(document): (document, self._view(document)) for document in documents}
        return [view for _, view in self._view_cache.values() if view is not None]

    async def catch_up(self) -> None:
        """Parse changed runs one by one, so that `views` does not block the event loop."""
        for document in self._cache.list(UPGRADE_RUN):
            if not self._has_seen(document):
                self._view_cache[name_of(document)] = document, self._view(document)
                await asyncio.sleep(0)

    def _has_seen(self, document: JsonObject) -> bool:
        entry = self._view_cache.get(name_of(document))
        return entry is not None and entry[0] is document

    def _view(self, document: JsonObject) -> UpdateRun | None:
        if self._has_seen(document):
            return self._view_cache[name_of(document)][1]
        run = next(readable_runs((document,)), None)
        return None if run is None else _view(run, upgrade_timeline(run, {}))

    async def detail(self, name: str) -> UpdateRunDetail | None:
        """Return one run with its timeline, or None if it does not exist or cannot be read."""
        document = self._cache.get(UPGRADE_RUN, name)
        if document is None:
            return None
        if self._shown[0] is not document:
            self._shown = document, next(readable_runs((document,)), None)
        if (run := self._shown[1]) is None:
            return None
        timeline = upgrade_timeline(run, await self._openings(run))
        conditions = [
            condition.model_dump(mode="json", by_alias=True, exclude_none=True) for condition in run.status.conditions
        ]
        return {**_view(run, timeline), "conditions": conditions, "timeline": timeline.document()}

    async def _openings(self, run: ClusterUpgradeRun) -> dict[str, tuple[TimeSpan, ...]]:
        """Return the future upgrade periods of the members of a run. Members without a restriction are omitted."""
        if run.status.state in OVER:
            return {}
        now, plan = self._now().replace(second=0, microsecond=0), run.status.plan
        eta = plan.eta_p90 or plan.eta if plan is not None else None
        end, targets = min(max(eta or now, now + AT_LEAST), now + AT_MOST), targets_of(run.spec.upgrade.type)
        windows: dict[str, tuple[str, ...]] = {}
        for name in _members(run):
            document = self._cache.get(MEMBER_CLUSTER, name)
            if document is not None and (names := self._windows.of_upgrades(document, targets).names):
                windows[name] = names
        definitions = self._windows.definitions
        async with self._searching:  # a concurrent second caller uses the result of the first
            if not self._open.is_for(now, end, definitions):
                self._open = _Open(now, end, definitions)
            openings = self._open
            if missing := set(windows.values()) - openings.spans.keys():
                await asyncio.to_thread(openings.search, missing)
        return {name: openings.spans[names] for name, names in windows.items()}


class _Open:
    """Openings of windows between two instants.

    Args:
        begin: The first instant.
        end: The last instant.
        definitions: All windows, by name.
    """

    def __init__(self, begin: datetime, end: datetime, definitions: Mapping[str, WindowDefinition]) -> None:
        self._begin = begin
        self._end = end
        self._definitions = definitions
        self.spans: dict[tuple[str, ...], tuple[TimeSpan, ...]] = {}
        """Openings by names of windows: the periods with at least one of them open."""

    def is_for(self, begin: datetime, end: datetime, definitions: Mapping[str, WindowDefinition]) -> bool:
        """Return whether the openings are for these arguments."""
        return (begin, end) == (self._begin, self._end) and definitions is self._definitions

    def search(self, names_of_windows: Collection[tuple[str, ...]]) -> None:
        """Compute the openings of these windows. Takes long if there are many."""
        for names in names_of_windows:
            windows = (definition.window for name in names if (definition := self._definitions.get(name)) is not None)
            spans = openings([window for window in windows if window is not None], self._begin, self._end, MOST_WINDOWS)
            self.spans[names] = tuple(TimeSpan(*span) for span in spans)


def _members(run: ClusterUpgradeRun) -> list[str]:
    return [entry.name for stage in run.status.stages for group in stage.groups for entry in group.members]


def _view(run: ClusterUpgradeRun, timeline: Timeline) -> UpdateRun:
    situation, status = situation_of(run), run.status
    plan = status.plan if status.state not in OVER else None
    return {
        "ref": upgrade_ref(run.metadata.name),
        "kind": UPGRADE_RUN.kind,
        "namespace": "",
        "name": run.metadata.name,
        "placement": "",
        "strategy": run.spec.strategy_ref.name if run.spec.strategy_ref is not None else "",
        "resourceSnapshotIndex": "",
        "rollbackOf": "",
        "rejected": "",
        "upgrade": _upgrade(run),
        "expectedEnd": format_instant(plan.eta) if plan is not None else None,
        "state": _STATES[status.state],
        "stage": situation.stage,
        "why": situation.message if status.state in _TROUBLED else "",
        "waits": [
            _wait(run, situation, wait) for wait in sorted(situation.waits, key=lambda wait: not wait.needs_person)
        ],
        "clusters": sum(len(band.bars) for band in timeline.bands),
        "updated": timeline.count(BarState.UPDATED),
        "createdAt": format_instant(run.metadata.creation_timestamp),
        "startedAt": format_instant(timeline.started),
        "endedAt": format_instant(timeline.ended),
    }


def _upgrade(run: ClusterUpgradeRun) -> str:
    """Return a short description of a run: its type and version."""
    upgrade = run.spec.upgrade
    version = run.status.resolved.kubernetes_version or upgrade.kubernetes_version or ""
    return f"{_WORDS[upgrade.type]} {version}".rstrip()


def _wait(run: ClusterUpgradeRun, situation: UpgradeSituation, wait: UpgradeWait) -> UpdateRunWait:
    words: list[str] = []
    if wait.kind is UpgradeWaitKind.GATE and wait.needs_person:
        words = ["approve", wait.gate]
    elif wait.kind is UpgradeWaitKind.START:
        words = ["upgrade", "start", run.metadata.name]
    return {
        "kind": _KINDS[wait.kind],
        "message": wait.message,
        "stage": wait.stage or situation.stage,
        "cluster": wait.members[0] if len(wait.members) == 1 else "",
        "request": wait.gate,
        "since": format_instant(wait.since),
        "until": format_instant(wait.until),
        "command": shlex.join(["harbormaster", *words]) if words else "",
    }
