"""Staged update runs for display: progress, pending conditions and timeline of each.

The types are those of ``GET /v1/runs``, and the page shows only those.
"""

import shlex
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from scorer.api.family import FAMILIES, family_in, placement_ref
from scorer.api.kinds import MAINTENANCE_WINDOW, UPGRADE_RUN, Kind
from scorer.api.meta import JsonObject, format_instant
from scorer.api.names import ROLLBACK_OF
from scorer.api.unstructured.documents import annotation, conditions_of, name_of, namespace_of, spec_of, text_at
from scorer.rollout.views.timeline import BarState, Timeline
from scorer.staged_update.orders import approval_command, index_used, rejected
from scorer.staged_update.phase import OVER, RunPhase, RunSituation, RunWait, RunWaitKind, situation_of
from scorer.staged_update.views.timeline import run_timeline
from webhook.answers.run_answers import UpdateRun, UpdateRunDetail, UpdateRunList, UpdateRunWait
from webhook.answers.upgrade_views import UpgradeViews
from webhook.answers.upkeep import Upkeep
from webhook.kube.cache.informer import Cache
from webhook.kube.listers.maintenance_windows import MaintenanceWindows
from webhook.kube.ports import Key, key_of

MOST_HELD: Final = 10
"""Maximum number of named clusters that must not be disrupted now. The timeline has all of them."""

_TROUBLED: Final = frozenset({RunPhase.FAILED, RunPhase.ABORTED, RunPhase.STUCK, RunPhase.INITIALIZING})
"""Phases whose message explains a problem or a missing input."""

_OVER: Final = frozenset(str(phase).lower() for phase in OVER)


def run_ref(name: str, namespace: str = "") -> str:
    """Return the reference of a run: ``csur/web-3``, ``sur/shop/web-3``."""
    (prefix,) = family_in(namespace).run.short_names
    return f"{prefix}/{namespace}/{name}" if namespace else f"{prefix}/{name}"


def unknown_run(name: str, namespace: str = "") -> str:
    """Return the message about a run that does not exist or that the caller may not read."""
    return f"there is no update run {run_ref(name, namespace)[:320]}"


class HubRuns:
    """Builds the views of staged updates and upgrade runs from a cache.

    Args:
        cache: The hub's objects. The required kinds are added to its watches.
        now: The clock.
    """

    def __init__(self, cache: Cache, now: Callable[[], datetime]) -> None:
        self._cache = cache
        self._now = now
        self._over: dict[Kind, dict[Key, tuple[JsonObject, UpdateRun]]] = {}
        """Cached list items of finished runs, by kind: they only grow in number, and are listed on every change of the
        hub."""
        for family in FAMILIES:
            cache.of_kind(family.run)
        cache.watch_if_allowed((UPGRADE_RUN, MAINTENANCE_WINDOW))
        windows = MaintenanceWindows(cache)
        self._upgrades = UpgradeViews(cache, windows, now)
        self.upkeep = Upkeep(cache, windows, now)
        cache.watch_if_allowed(
            family.approval_request for family in FAMILIES
        )  # without that right, analyses are omitted

    def runs(self, kinds: Container[Kind]) -> UpdateRunList:
        """Return the runs of these kinds, the latest first."""
        now = self._now()
        runs: list[UpdateRun] = [
            view for family in FAMILIES if family.run in kinds for view in self._views(family.run, now)
        ]
        runs += self._upgrades.views() if UPGRADE_RUN in kinds else ()
        runs.sort(key=lambda view: (view["createdAt"] or "", view["name"]), reverse=True)
        return {"items": runs}

    def _views(self, kind: Kind, now: datetime) -> Iterator[UpdateRun]:
        """Yield the list items of the runs of a kind."""
        known_runs, over = self._over.get(kind, {}), dict[Key, tuple[JsonObject, UpdateRun]]()
        requests = self._requests(kind)
        for run in self._cache.list(kind):
            key = key_of(run)
            seen_run, view = known_runs.get(key, (None, None))
            if view is None or seen_run is not run:
                view = run_view(run, now, requests.get(key, ()))
            if view["state"] in _OVER:
                over[key] = run, view
            yield view
        self._over[kind] = over

    async def catch_up(self, kinds: Container[Kind]) -> None:
        """Parse changed upgrade runs, if requested, in small steps, so that `runs` does not block the event loop."""
        if UPGRADE_RUN in kinds:
            await self._upgrades.catch_up()

    async def upgrade(self, name: str) -> UpdateRunDetail | None:
        """Return one upgrade run with its timeline, or None if it does not exist or cannot be read."""
        return await self._upgrades.detail(name)

    def run(self, name: str, namespace: str = "") -> UpdateRunDetail | None:
        """Return one staged update run with its timeline, or None if it does not exist."""
        kind = family_in(namespace).run
        document = self._cache.get(kind, name, namespace)
        if document is None:
            return None
        return run_detail(document, self._now(), self._requests(kind).get(key_of(document), ()))

    def _requests(self, kind: Kind) -> Mapping[Key, Sequence[JsonObject]]:
        """Return the approval requests of the runs of a kind, which report the progress of analyses."""
        requests_of = defaultdict[Key, list[JsonObject]](list)
        for family in FAMILIES:
            if family.run == kind:
                for request in self._cache.list(family.approval_request):
                    requests_of[Key(text_at(request, "spec", "parentStageRollout"), namespace_of(request))].append(
                        request
                    )
        return requests_of


def run_view(run: JsonObject, now: datetime, requests: Iterable[JsonObject] = ()) -> UpdateRun:
    """Return one run with its placement, progress and pending conditions, those of its approval requests included."""
    return _view(run, run_timeline(run), now, requests)


def run_detail(run: JsonObject, now: datetime, requests: Iterable[JsonObject] = ()) -> UpdateRunDetail:
    """Return one run with its timeline."""
    timeline = run_timeline(run)
    return {
        **_view(run, timeline, now, requests),
        "conditions": list(conditions_of(run)),
        "timeline": timeline.document(),
    }


def _view(run: JsonObject, timeline: Timeline, now: datetime, requests: Iterable[JsonObject]) -> UpdateRun:
    name, namespace, situation = name_of(run), namespace_of(run), situation_of(run, requests, now)
    return {
        "ref": run_ref(name, namespace),
        "kind": family_in(namespace).run.kind,
        "namespace": namespace,
        "name": name,
        "placement": str(placement_ref(text_at(run, "spec", "placementName"), namespace)),
        "strategy": text_at(run, "spec", "stagedRolloutStrategyName"),
        "resourceSnapshotIndex": index_used(run) or text_at(spec_of(run), "resourceSnapshotIndex"),
        "rollbackOf": annotation(run, ROLLBACK_OF),
        "rejected": rejected(run),
        "state": str(situation.phase).lower(),
        "stage": situation.stage,
        "why": situation.message if situation.phase in _TROUBLED else "",
        "waits": [_wait(run, situation, wait) for wait in _shown_waits(situation.waits)],
        "clusters": sum(len(band.bars) for band in timeline.bands),
        "updated": timeline.count(BarState.UPDATED),
        "createdAt": text_at(run, "metadata", "creationTimestamp") or None,
        "startedAt": format_instant(timeline.started),
        "endedAt": format_instant(timeline.ended),
    }


def _shown_waits(waits: Sequence[RunWait]) -> list[RunWait]:
    """Return the pending conditions of a run, those for users first, with at most `MOST_HELD` held clusters.

    Clusters in flight are only in the timeline.
    """
    other_waits = [wait for wait in waits if wait.kind not in (RunWaitKind.CLUSTER, RunWaitKind.HELD)]
    held_clusters = islice((wait for wait in waits if wait.kind is RunWaitKind.HELD), MOST_HELD)
    return sorted((*other_waits, *held_clusters), key=lambda wait: not wait.needs_person)


def _wait(run: JsonObject, situation: RunSituation, wait: RunWait) -> UpdateRunWait:
    words = approval_command(run, situation, wait)
    return {
        "kind": str(wait.kind),
        "message": wait.message,
        "stage": wait.stage,
        "cluster": wait.cluster,
        "request": wait.request,
        "since": format_instant(wait.since),
        "until": format_instant(wait.until),
        "command": shlex.join(["harbormaster", *words]) if words else "",
    }
