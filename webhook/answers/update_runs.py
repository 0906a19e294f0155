"""Staged update runs for display: progress, pending conditions and timeline of each.

The types are those of ``GET /v1/runs``, and the page shows only those.
"""

import shlex
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Final

from scorer.api.family import FAMILIES, Family, PlacementRef, family_in, placement_ref
from scorer.api.kinds import MAINTENANCE_WINDOW, UPGRADE_RUN, Kind
from scorer.api.meta import JsonObject, format_instant
from scorer.api.names import ROLLBACK_OF
from scorer.api.unstructured.documents import annotation, conditions_of, name_of, namespace_of, spec_of, text_at
from scorer.rollout.snapshots.groups import retained_indices
from scorer.rollout.views.timeline import BarState, Timeline
from scorer.staged_update.orders import RunOrderRefusedError, approval_command, index_used, rejected
from scorer.staged_update.phase import OVER, RunPhase, RunSituation, RunWait, RunWaitKind, situation_of
from scorer.staged_update.undo import PlacementRuns, UndoRecord, undo_target
from scorer.staged_update.views.timeline import run_timeline
from webhook.answers.run_answers import UpdateRun, UpdateRunDetail, UpdateRunList, UpdateRunWait
from webhook.answers.upgrade_views import UpgradeViews
from webhook.answers.upkeep import Upkeep
from webhook.kube.cache.informer import Cache
from webhook.kube.listers.maintenance_windows import MaintenanceWindows
from webhook.kube.listers.placements import children
from webhook.kube.ports import Key, key_of

MOST_HELD: Final = 10
"""Maximum number of named clusters that must not be disrupted now. The timeline has all of them."""

_TROUBLED: Final = frozenset({RunPhase.FAILED, RunPhase.ABORTED, RunPhase.STUCK, RunPhase.INITIALIZING})
"""Phases whose message explains a problem or a missing input."""

_OVER: Final = frozenset(str(phase).lower() for phase in OVER)
_PHASES: Final = {str(phase).lower(): phase for phase in RunPhase}


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
        self._over: dict[Kind, dict[Key, tuple[UndoRecord, UpdateRun]]] = {}
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
        """Return the runs of these kinds, the latest first.

        Args:
            kinds: Kinds that the caller may list. The verdict on an undo depends on resource snapshots only if *kinds*
                has the kind of the placement.
        """
        now = self._now()
        runs: list[UpdateRun] = [
            view for family in FAMILIES if family.run in kinds for view in self._views(family, now, kinds)
        ]
        runs += self._upgrades.views() if UPGRADE_RUN in kinds else ()
        runs.sort(key=lambda view: (view["createdAt"] or "", view["name"]), reverse=True)
        return {"items": runs}

    def _views(self, family: Family, now: datetime, kinds: Container[Kind]) -> list[UpdateRun]:
        """Return the list items of the runs of a family."""
        known_runs, listed = self._over.get(family.run, {}), list[tuple[UndoRecord, UpdateRun]]()
        requests = self._requests(family.run)
        for run in self._cache.list(family.run):
            record, view = known_runs.get(key_of(run), (None, None))
            if record is None or view is None or record.run is not run:
                record, view = UndoRecord.of(run), run_view(run, now, requests.get(key_of(run), ()))
            listed.append((record, view))
        shows_snapshots = family.placement in kinds and self._cache.holds_whole(family.resource_snapshot)
        views = with_undo(listed, partial(self._retained, family) if shows_snapshots else _unknown)
        self._over[family.run] = {
            key_of(record.run): (record, view)
            for (record, _), view in zip(listed, views, strict=True)
            if view["state"] in _OVER
        }
        return views

    def _retained(self, family: Family, ref: PlacementRef) -> set[int]:
        """Return the indexes of the resource snapshots of a placement."""
        return retained_indices(children(self._cache, family.resource_snapshot, ref))

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


def with_undo(
    listed: Sequence[tuple[UndoRecord, UpdateRun]],
    retained: Callable[[PlacementRef], Collection[int] | None],
) -> list[UpdateRun]:
    """Return the list items of all runs of a family, with whether and to what each can be undone.

    Args:
        listed: The runs with their list items. An unchanged item is returned as it is.
        retained: Returns the indexes of the resource snapshots of a placement, None if unknown.
    """
    of_placement = defaultdict[str, list[UndoRecord]](list)
    for record, view in listed:
        of_placement[view["placement"]].append(record)
    placements = {
        ref: (PlacementRuns(records), retained(_placement(records[0].run))) for ref, records in of_placement.items()
    }
    return [_with_undo(record, view, *placements[view["placement"]]) for record, view in listed]


def _unknown(_: PlacementRef) -> None:
    """Report the resource snapshots of every placement as unknown."""


def _placement(run: JsonObject) -> PlacementRef:
    return placement_ref(text_at(run, "spec", "placementName"), namespace_of(run))


def _with_undo(
    record: UndoRecord, view: UpdateRun, placement_runs: PlacementRuns, indices: Collection[int] | None
) -> UpdateRun:
    refused = index = ""
    try:
        index = undo_target(record, _PHASES[view["state"]], placement_runs, indices)
    except RunOrderRefusedError as error:
        refused = str(error)
    if (index, refused) == (view.get("undoTo"), view.get("undoRefused")):
        return view
    return {**view, "canUndo": not refused, "undoTo": index, "undoRefused": refused}


def _view(run: JsonObject, timeline: Timeline, now: datetime, requests: Iterable[JsonObject]) -> UpdateRun:
    name, namespace, situation = name_of(run), namespace_of(run), situation_of(run, requests, now)
    return {
        "ref": run_ref(name, namespace),
        "kind": family_in(namespace).run.kind,
        "namespace": namespace,
        "name": name,
        "placement": str(_placement(run)),
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
