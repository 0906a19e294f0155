"""The status of a binding, made from its Works.

Source: docs/specifications/rollout.md 5.3 and 15; KubeFleet pkg/controllers/workgenerator. Unlike there, a condition
keeps its ``lastTransitionTime`` from pass to pass while status and generation are unchanged, so that the wait for
untrackable objects ends. All three lists are sorted.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import starmap
from typing import Any

from scorer.api.conditions import FALSE, LONGEST_MESSAGE, TRUE, ConditionStatus, make_condition, merge_conditions
from scorer.api.kinds import WORK
from scorer.api.meta import JsonObject
from scorer.api.names import OLDER_THAN_APPLIED, TOO_LARGE
from scorer.api.unstructured.documents import (
    annotation,
    conditions_of,
    current_condition,
    dicts_at,
    generation_of,
    is_deleting,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from scorer.rollout.apply_strategy import reports_diff
from scorer.rollout.bindings import (
    APPLIED,
    AVAILABLE,
    DIFF_REPORTED,
    NO_OVERRIDES,
    OVERRIDDEN,
    ROLLOUT_STARTED,
    WORK_SYNCHRONIZED,
    Overrides,
)
from scorer.rollout.envelopes import EnvelopeKey
from scorer.rollout.object_size import OBJECTS_TOO_LARGE, TOO_LARGE_REASON
from scorer.rollout.removal.marks import FINALIZERS_REMAIN, REMOVED
from scorer.rollout.works.hub_restore import NEXT_STEP
from scorer.rollout.works.plan import WorkCause, WorkPlan

LIST_LIMIT = 100
"""Maximum number of entries in each list of failed, drifted and differing objects."""

_WORKER_CONDITIONS = (OVERRIDDEN, WORK_SYNCHRONIZED, APPLIED, AVAILABLE, DIFF_REPORTED, OBJECTS_TOO_LARGE, REMOVED)

_OF_WHOLE_WORKS = frozenset({OLDER_THAN_APPLIED, "ForbiddenByMember", "AgentNotReporting"})
"""Reasons of a Work's Applied or DiffReported condition that are not about single objects."""


def binding_status(
    binding: JsonObject, works: Iterable[JsonObject], plan: WorkPlan, now: datetime, unheard: str = ""
) -> JsonObject:
    """Return the complete ``status`` of a binding after a pass of the work generator.

    The conditions are made in order, up to the first that is False. RolloutStarted is not changed: the rollout
    controller writes it. ObjectsTooLarge and Removed come last. They exist only while objects are too large, or cannot
    be removed. If the plan has the problem `WorkCause.NOT_YET`, the status is unchanged.

    Args:
        binding: The binding as stored.
        works: Works of the binding after the pass.
        plan: The plan of the pass.
        now: Transition time of conditions that change.
        unheard: Reason why the agent of the member does not report, empty if it does.
    """
    if plan.problem and plan.problem.cause is WorkCause.NOT_YET:
        return dict(status_of(binding))
    generation, all_works = generation_of(binding), list(works)
    works = [work for work in all_works if not is_deleting(work)]
    old = conditions_of(binding)
    lists: dict[str, list[JsonObject]] = {}

    def conditions() -> Iterator[JsonObject]:
        def say(kind: str, reason: str, message: str, *, good: bool = True) -> JsonObject:
            status: ConditionStatus = TRUE if good else FALSE
            return make_condition(kind, status, reason, message[:LONGEST_MESSAGE], generation=generation, now=now)

        problem = plan.problem
        if problem and problem.cause is WorkCause.OVERRIDDEN:
            yield say(OVERRIDDEN, "OverriddenFailed", problem.message, good=False)
            return
        if Overrides.of(spec_of(binding)) == NO_OVERRIDES:
            yield say(OVERRIDDEN, "NoOverrideSpecified", "no override applies")
        else:
            yield say(OVERRIDDEN, "OverriddenSucceeded", "all overrides are applied")
        if problem:
            yield say(WORK_SYNCHRONIZED, "SyncWorkFailed", problem.message, good=False)
            return
        yield say(WORK_SYNCHRONIZED, "AllWorkSynced", "all Works are up to date")
        sorted_works = sorted(works, key=name_of)
        compares = reports_diff(binding)
        silent = say(DIFF_REPORTED if compares else APPLIED, "AgentNotReporting", unheard, good=False)
        # With the time at which it became False: a later pass would write another time into the same entry.
        (silent,) = merge_conditions(old, [silent], restart_on_generation=True)
        if compares:
            yield _diff_reported_condition(sorted_works, plan, say, lists, silent if unheard else None)
            return
        applied_condition = _applied_condition(sorted_works, plan, say, lists, silent if unheard else None)
        yield applied_condition
        if applied_condition["status"] == TRUE:
            yield _available(sorted_works, say, lists)

    new_conditions = list(conditions())
    if too_large := ", ".join(filter(None, (annotation(work, TOO_LARGE) for work in works))):
        new_conditions.append(
            make_condition(
                OBJECTS_TOO_LARGE, TRUE, TOO_LARGE_REASON, too_large[:LONGEST_MESSAGE], generation=generation, now=now
            )
        )
    new_conditions += _not_removed(generation, all_works, now)
    other_conditions = [condition for condition in old if condition.get("type") not in _WORKER_CONDITIONS]
    other_conditions.sort(key=lambda condition: condition.get("type") != ROLLOUT_STARTED)
    merged = merge_conditions(old, new_conditions, restart_on_generation=True)
    return {"conditions": [*other_conditions, *merged], **{name: entries for name, entries in lists.items() if entries}}


def removal_status(binding: JsonObject, works: Iterable[JsonObject], now: datetime) -> JsonObject:
    """Return the status of a binding that is being deleted: its last status, with the obstacles to its removal.

    Args:
        binding: The binding as stored.
        works: Works of the binding, which are being deleted.
        now: Transition time of conditions that change.
    """
    old = conditions_of(binding)
    other_conditions = [condition for condition in old if condition.get("type") != REMOVED]
    obstacles = merge_conditions(old, _not_removed(generation_of(binding), works, now))
    return (
        {**status_of(binding), "conditions": [*other_conditions, *obstacles]}
        if other_conditions or obstacles
        else status_of(binding)
    )


def _not_removed(generation: int, works: Iterable[JsonObject], now: datetime) -> list[JsonObject]:
    """Return the condition Removed of a binding, if an agent has named an obstacle to a removal."""
    obstacles = [condition for work in works if (condition := current_condition(work, REMOVED))]
    if not obstacles:
        return []
    message = "; ".join(str(condition.get("message") or "") for condition in obstacles)[:LONGEST_MESSAGE]
    return [make_condition(REMOVED, FALSE, FINALIZERS_REMAIN, message, generation=generation, now=now)]


_Say = Callable[..., JsonObject]
_Answers = Sequence[Mapping[str, Any] | None]
_Whole = Sequence[tuple[JsonObject, Mapping[str, Any]]]


def _diff_reported_condition(
    works: Sequence[JsonObject],
    plan: WorkPlan,
    say: _Say,
    lists: dict[str, list[JsonObject]],
    silent: JsonObject | None,
) -> JsonObject:
    if plan.changed:
        return say(DIFF_REPORTED, "DiffReportInProgress", "Works have just changed", good=False)
    answers = [current_condition(work, DIFF_REPORTED) for work in works]
    if missing := _not_true(works, answers):
        whole = _whole_works(works, answers, silent)
        lists["failedPlacements"] = _cut(starmap(_whole_work, whole))
        message = f"differences not reported: {missing}"
        return say(DIFF_REPORTED, *_cause_text(whole, "NotAllWorkHaveDiffReported", message), good=False)
    lists["diffedPlacements"] = _diffed_manifests(works)
    return say(DIFF_REPORTED, "AllWorkHaveDiffReported", "all Works have reported their differences")


def _applied_condition(
    works: Sequence[JsonObject],
    plan: WorkPlan,
    say: _Say,
    lists: dict[str, list[JsonObject]],
    silent: JsonObject | None,
) -> JsonObject:
    if plan.changed:
        return say(APPLIED, "ApplyInProgress", "Works have just changed", good=False)
    answers = [current_condition(work, APPLIED) for work in works]
    missing = _not_true(works, answers)
    if not missing:
        return say(APPLIED, "AllWorkHaveBeenApplied", "all Works are applied")
    if _are_complete(answers):
        lists["failedPlacements"] = _failed_manifests(works)
        lists["diffedPlacements"] = _diffed_manifests(works)
        lists["driftedPlacements"] = _drifted_manifests(works)
    whole = _whole_works(works, answers, silent)
    lists["failedPlacements"] = _cut([*lists.get("failedPlacements", ()), *starmap(_whole_work, whole)])
    return say(APPLIED, *_cause_text(whole, "NotAllWorkHaveBeenApplied", f"not applied: {missing}"), good=False)


def _whole_works(works: Sequence[JsonObject], answers: _Answers, silent: JsonObject | None) -> _Whole:
    """Return the Works that fail as a whole, each with its condition."""
    causes = ((work, silent if answer is None else answer) for work, answer in zip(works, answers, strict=True))
    return [(work, cause) for work, cause in causes if cause and cause.get("reason") in _OF_WHOLE_WORKS]


def _cause_text(whole: _Whole, reason: str, message: str) -> tuple[str, str]:
    """Return reason and message of a False condition, with the cause if Works fail as a whole."""
    if stale_works := [name_of(work) for work, cause in whole if cause.get("reason") == OLDER_THAN_APPLIED]:
        restore_text = (
            f"hub restored: Works older than the applied content are held: {_names(stale_works)}. {NEXT_STEP}"
        )
        return OLDER_THAN_APPLIED, restore_text
    return reason, f"{message}: {whole[0][1].get('message')}" if whole else message


def _whole_work(work: JsonObject, condition: Mapping[str, Any]) -> JsonObject:
    """Return the entry of a Work that fails as a whole."""
    identifier = {"group": WORK.group, "version": WORK.versions[0], "kind": WORK.kind, "name": name_of(work)}
    return {**identifier, "namespace": namespace_of(work), "condition": dict(condition)}


def _available(works: Sequence[JsonObject], say: _Say, lists: dict[str, list[JsonObject]]) -> JsonObject:
    answers = [current_condition(work, AVAILABLE) for work in works]
    lists["driftedPlacements"] = _drifted_manifests(works)
    if missing := _not_true(works, answers):
        if _are_complete(answers):
            lists["failedPlacements"] = _failed_manifests(works)
        return say(AVAILABLE, "NotAllWorkAreAvailable", f"not available: {missing}", good=False)
    if any(answer and answer.get("reason") == "WorkNotTrackable" for answer in answers):
        message = "the availability of some objects cannot be tracked"
        return say(AVAILABLE, "NotAllWorkAreAvailabilityTrackable", message)
    return say(AVAILABLE, "AllWorkAreAvailable", "all Works are available")


def _are_complete(answers: _Answers) -> bool:
    return all(answer and answer.get("status") in (TRUE, FALSE) for answer in answers)


def _not_true(works: Sequence[JsonObject], answers: _Answers) -> str:
    """Return the names of up to three Works whose condition is not True, and the number of the others. Empty: none."""
    return _names(
        [
            name_of(work)
            for work, answer in zip(works, answers, strict=True)
            if not answer or answer.get("status") != TRUE
        ]
    )


def _names(names: Sequence[str]) -> str:
    if len(names) <= 3:
        return ", ".join(names)
    return f"{', '.join(names[:3])} and {len(names) - 3} more"


def _manifests(works: Iterable[JsonObject]) -> Iterator[tuple[JsonObject, JsonObject]]:
    """Yield each manifest's entry in the status of its Work, with the identifier that a placement uses for it."""
    for work in works:
        envelope = EnvelopeKey.of_work(work)
        for entry in dicts_at(work, "status", "manifestConditions"):
            agent_identifier = entry.get("identifier") or {}
            fields = ("group", "version", "kind", "name", "namespace")
            identifier = {
                key: agent_identifier.get(key) or ""
                for key in fields
                if agent_identifier.get(key) or key in ("version", "kind", "name")
            }
            if envelope:
                identifier["envelope"] = envelope.identifier()
            yield entry, identifier


def _failed_manifests(works: Iterable[JsonObject]) -> list[JsonObject]:
    placements = []
    for entry, identifier in _manifests(works):
        by_type = {condition.get("type"): condition for condition in entry.get("conditions") or ()}
        for kind in (APPLIED, AVAILABLE):
            if (condition := by_type.get(kind)) and condition.get("status") == FALSE:
                placements.append({**identifier, "condition": condition})
                break
    return _cut(placements)


def _drifted_manifests(works: Iterable[JsonObject]) -> list[JsonObject]:
    placements = []
    for entry, identifier in _manifests(works):
        if details := entry.get("driftDetails"):
            more = {key: details[key] for key in ("observationTime", "firstDriftedObservedTime") if key in details}
            more["targetClusterObservedGeneration"] = details.get("observedInMemberClusterGeneration", 0)
            more["observedDrifts"] = details.get("observedDrifts") or []
            placements.append({**identifier, **more})
    return _cut(placements)


def _diffed_manifests(works: Iterable[JsonObject]) -> list[JsonObject]:
    placements = []
    for entry, identifier in _manifests(works):
        if details := entry.get("diffDetails"):
            more = {key: details[key] for key in ("observationTime", "firstDiffedObservedTime") if key in details}
            if (generation := details.get("observedInMemberClusterGeneration")) is not None:
                more["targetClusterObservedGeneration"] = generation
            more["observedDiffs"] = details.get("observedDiffs") or []
            placements.append({**identifier, **more})
    return _cut(placements)


def _cut(entries: Iterable[JsonObject]) -> list[JsonObject]:
    return sorted(entries, key=_order)[:LIST_LIMIT]


def _order(entry: Mapping[str, Any]) -> tuple[str, ...]:
    envelope = entry.get("envelope") or {}
    parts = (entry.get(key) for key in ("group", "version", "kind", "namespace", "name"))
    return tuple(str(part or "") for part in (*parts, *(envelope.get(key) for key in ("type", "namespace", "name"))))
