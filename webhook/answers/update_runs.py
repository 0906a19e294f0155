"""Staged update runs for display: how far each is, what it waits for, and its timeline.

Shapes are those of ``GET /v1/runs``; the page shows nothing else.
"""

from collections.abc import Container

from scorer.api.documents import annotation, conditions_of, dict_at, name_of, namespace_of, spec_of, text_at
from scorer.api.family import FAMILIES, family_in, placement_ref
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.names import ROLLBACK_OF
from scorer.rollout.bands import BarState, Timeline, written
from scorer.staged_update.asks import asks_of, stage_at, state_word, trouble_of
from scorer.staged_update.timeline import run_timeline
from webhook.kube.cache import Cache


def run_ref(name: str, namespace: str = "") -> str:
    """Return how answers name a run: ``csur/web-3``, ``sur/shop/web-3``."""
    (prefix,) = family_in(namespace).run.short_names
    return f"{prefix}/{namespace}/{name}" if namespace else f"{prefix}/{name}"


def unknown_run(name: str, namespace: str = "") -> str:
    """Return the message about a run that does not exist or that the caller may not read."""
    return f"there is no update run {run_ref(name, namespace)[:320]}"


class HubRuns:
    """Answers from a cache.

    Args:
        cache: The hub's objects; it is made to watch what is needed.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        for family in FAMILIES:
            cache.shelf(family.run)

    def runs(self, kinds: Container[Kind]) -> JsonObject:
        """Return the runs of these kinds, the latest first."""
        found = [run for family in FAMILIES if family.run in kinds for run in self._cache.list(family.run)]
        found.sort(key=lambda run: (text_at(run, "metadata", "creationTimestamp"), name_of(run)), reverse=True)
        return {"items": [run_view(run) for run in found]}

    def run(self, name: str, namespace: str = "") -> JsonObject | None:
        """Return one run with its timeline, None when there is none of that name."""
        document = self._cache.get(family_in(namespace).run, name, namespace)
        return None if document is None else run_detail(document)


def run_view(run: JsonObject) -> JsonObject:
    """Return one run: of which placement, how far, and what it waits for."""
    return _view(run, run_timeline(run))


def run_detail(run: JsonObject) -> JsonObject:
    """Return one run with its timeline."""
    timeline = run_timeline(run)
    return {**_view(run, timeline), "conditions": list(conditions_of(run)), "timeline": timeline.document()}


def _view(run: JsonObject, timeline: Timeline) -> JsonObject:
    name, namespace = name_of(run), namespace_of(run)
    return {
        "ref": run_ref(name, namespace),
        "kind": family_in(namespace).run.kind,
        "namespace": namespace,
        "name": name,
        "placement": str(placement_ref(text_at(run, "spec", "placementName"), namespace)),
        "strategy": text_at(run, "spec", "stagedRolloutStrategyName"),
        "resourceSnapshotIndex": text_at(dict_at(run, "status"), "resourceSnapshotIndexUsed")
        or text_at(spec_of(run), "resourceSnapshotIndex"),
        "rollbackOf": annotation(run, ROLLBACK_OF),
        "state": state_word(run),
        "stage": stage_at(timeline),
        "why": trouble_of(run),
        "waits": [ask.document() for ask in asks_of(run, timeline)],
        "clusters": sum(len(band.bars) for band in timeline.bands),
        "updated": timeline.count(BarState.UPDATED),
        "createdAt": text_at(run, "metadata", "creationTimestamp") or None,
        "startedAt": written(timeline.started),
        "endedAt": written(timeline.ended),
    }
