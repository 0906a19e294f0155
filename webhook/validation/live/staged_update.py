"""Live checks on staged update strategies and runs.

Most of these errors are final for a run: it fails to initialize, and the user must create a new run.

Source: docs/specifications/placement-api.md 10.2; docs/specifications/staged-updates.md 3 and 4.
"""

import re
from collections.abc import Iterator
from typing import Final

import numpy as np
from pydantic import ValidationError

from scorer.api.meta import JsonObject
from scorer.api.names import ANALYSIS, RESOURCE_INDEX
from scorer.api.placement.staged_update import UpdateStrategySpec
from scorer.api.unstructured.documents import annotation, dict_at, labels_of, name_of, namespace_of, spec_of, text_at
from scorer.api.values.field_path import FieldPath
from scorer.api.values.label_selector import selector_error
from scorer.api.values.quoting import format_count, format_share, quote
from scorer.columns import BoolColumn
from scorer.fleet import Fleet
from scorer.selectors import match_labels
from scorer.staged_update.approval.analysis import read_analysis, stage_problems
from webhook.validation.framework.context import Context, UnknownStateError
from webhook.validation.framework.field import SPEC, FieldWarning
from webhook.validation.framework.relations import (
    children,
    cluster_of,
    family_of,
    holds_cluster,
    is_same_object,
    is_unfinished,
)
from webhook.validation.live.check import LiveCheck, timed

STAGES: Final = SPEC / "stages"

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)


def warn_about_stages(document: JsonObject | None, _old: JsonObject | None, context: Context) -> Iterator[FieldWarning]:
    """Member clusters are in several stages or in none, or cannot be sorted (X-35).

    Checks the clusters of placements whose strategy type is External. If there are no such clusters, or they are
    unknown, all clusters are checked. These may be in no stage, because many strategies are for a part of the fleet.
    """
    if document is None:
        return
    try:
        spec = UpdateStrategySpec.read(dict_at(document, "spec"))
    except ValidationError as error:
        raise UnknownStateError("spec") from error
    fleet = context.hub.fleet
    if not spec.stages or not len(fleet):
        return
    waiting = _waiting_clusters(document, fleet, context)
    concerned = np.ones(len(fleet), dtype=np.bool_) if waiting is None else waiting
    times = np.zeros(len(fleet), dtype=np.int64)
    for i, stage in enumerate(spec.stages):
        context.check_time()
        if stage.label_selector is None:
            continue
        if selector_error(stage.label_selector):
            raise UnknownStateError("labelSelector")
        matched = match_labels(fleet, stage.label_selector.requirements())
        inside = concerned if matched is None else matched & concerned
        times += inside
        if stage.sorting_label_key is not None:
            unsorted = int(np.count_nonzero(inside & ~_has_integer(fleet, stage.sorting_label_key)))
            if unsorted:
                total = format_count(int(np.count_nonzero(inside)), "cluster")
                message = (
                    f"the label is missing or not an integer on {unsorted} of {total}: a run with one of them fails"
                )
                yield FieldWarning(STAGES / i / "sortingLabelKey", message, "X-35")
    every = int(np.count_nonzero(concerned))
    if several := int(np.count_nonzero(times > 1)):
        message = f"{format_share(several, every, 'cluster')} in more than one stage: a run with one of them fails"
        yield FieldWarning(STAGES, message, "X-35")
    if waiting is not None and (left_out := int(np.count_nonzero(waiting & (times == 0)))):
        message = f"{format_share(left_out, every, 'cluster')} in no stage: a run with one of them fails"
        yield FieldWarning(STAGES, message, "X-35")


def _waiting_clusters(document: JsonObject, fleet: Fleet, context: Context) -> BoolColumn | None:
    """Return the clusters of placements that runs roll out. None: unknown, or there are no such clusters."""
    family, namespace = family_of(document), namespace_of(document)
    try:
        waiting = [
            name_of(placement)
            for placement in timed(context.hub.list(family.placement, namespace), context)
            if text_at(placement, "spec", "strategy", "type") == "External"
        ]
        bindings = [binding for name in waiting for binding in children(family.binding, name, namespace, context)]
    except UnknownStateError:
        return None
    rows = fleet.rows(cluster_of(binding) for binding in timed(bindings, context) if holds_cluster(binding))
    return rows if rows.any() else None


def _has_integer(fleet: Fleet, key: str) -> BoolColumn:
    """Return the clusters whose label is an integer that fits 64 bits, as Go's ``Atoi`` reads it."""
    return fleet.label(key).holds(lambda text: _INTEGER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63)


def warn_about_use(document: JsonObject | None, old: JsonObject | None, context: Context) -> Iterator[FieldWarning]:
    """A strategy is changed while started runs use it, or deleted while unfinished runs use it (X-36).

    Started runs keep their own copy. A change needs no warning if no run has started: the runs will follow the change.
    """
    if old is None:
        return
    family, name, namespace = family_of(old), name_of(old), namespace_of(old)
    runs = [
        run
        for run in timed(context.hub.list(family.run, namespace), context)
        if namespace_of(run) == namespace
        and text_at(run, "spec", "stagedRolloutStrategyName") == name
        and is_unfinished(run)
    ]
    started = sum(bool(dict_at(run, "status", "stagedUpdateStrategySnapshot")) for run in runs)
    others = len(runs) - started
    if started:
        message = f"{format_count(started, 'unfinished run')} started with it and keep the stages from their start"
        yield FieldWarning(STAGES, message, "X-36")
    if others and document is None:
        message = f"without the strategy, {format_count(others, 'run')} will fail to initialize"
        yield FieldWarning(STAGES, message, "X-36")


def warn_about_references(
    document: JsonObject | None, old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """A new run refers to missing objects, or to a placement whose strategy is not External (X-41)."""
    if document is None or old is not None:
        return
    family, namespace = family_of(document), namespace_of(document)
    yield from _warn_about_strategy(document, context)
    name = text_at(document, "spec", "placementName")
    placement = context.hub.get(family.placement, name, namespace)
    at = SPEC / "placementName"
    if placement is None:
        yield FieldWarning(at, f"there is no {family.placement.kind} {quote(name)}: the run fails", "X-41")
        return
    if text_at(placement, "spec", "strategy", "type") != "External":
        yield FieldWarning(at, f"the strategy of {quote(name)} is not External: the run fails", "X-41")
    if index := text_at(document, "spec", "resourceSnapshotIndex"):
        snapshots = children(family.resource_snapshot, name, namespace, context)
        if all(labels_of(snapshot).get(RESOURCE_INDEX) != index for snapshot in snapshots):
            message = f"there is no resource snapshot {quote(index)} of {quote(name)}: the run fails"
            yield FieldWarning(SPEC / "resourceSnapshotIndex", message, "X-41")


def _warn_about_strategy(document: JsonObject, context: Context) -> Iterator[FieldWarning]:
    kind, name = family_of(document).strategy, text_at(document, "spec", "stagedRolloutStrategyName")
    try:
        strategy = context.hub.get(kind, name, namespace_of(document))
    except UnknownStateError:
        return
    if strategy is None:
        at = SPEC / "stagedRolloutStrategyName"
        yield FieldWarning(at, f"there is no {kind.kind} {quote(name)}: the run fails", "X-41")


def warn_about_analysis(
    document: JsonObject | None, old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """The analysis of a run names stages that its strategy lacks, or that do not wait for an approval (X-54)."""
    text = annotation(document, ANALYSIS) if document is not None else ""
    if document is None or not text or (old is not None and annotation(old, ANALYSIS) == text):
        return
    snapshot = dict_at(document, "status", "stagedUpdateStrategySnapshot")
    if not snapshot:
        name, namespace = text_at(document, "spec", "stagedRolloutStrategyName"), namespace_of(document)
        snapshot = spec_of(context.hub.get(family_of(document).strategy, name, namespace) or {})
    try:
        problems = stage_problems(read_analysis(text, namespace_of(document)), UpdateStrategySpec.read(snapshot).stages)
    except ValueError:  # a malformed analysis is refused elsewhere, and X-41 reports a missing strategy
        return
    for problem in problems:
        yield FieldWarning(FieldPath.of("metadata", "annotations", ANALYSIS), problem, "X-54")


def warn_about_other_runs(
    document: JsonObject | None, old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """A run is created, or updated in state Run, while another run of the placement is unfinished (X-43).

    Concurrent runs can abort each other. Only a warning, because the cache may not yet show that another run was
    created or has finished.
    """
    if document is None or (old is not None and text_at(document, "spec", "state") != "Run"):
        return
    family, namespace = family_of(document), namespace_of(document)
    name = text_at(document, "spec", "placementName")
    others = sorted(
        name_of(run)
        for run in timed(context.hub.list(family.run, namespace), context)
        if namespace_of(run) == namespace
        and text_at(run, "spec", "placementName") == name
        and is_unfinished(run)
        and not is_same_object(document, run)
    )
    if others:
        more = f" and {len(others) - 1} more of this placement are" if len(others) > 1 else " of this placement is"
        message = f"run {quote(others[0])}{more} not finished: concurrent runs can abort each other"
        yield FieldWarning(SPEC / "placementName", message, "X-43")


STRATEGY_CHECKS: Final[tuple[LiveCheck, ...]] = (warn_about_use, warn_about_stages)
STRATEGY_DELETION_CHECKS: Final[tuple[LiveCheck, ...]] = (warn_about_use,)
RUN_CHECKS: Final[tuple[LiveCheck, ...]] = (warn_about_references, warn_about_analysis, warn_about_other_runs)
