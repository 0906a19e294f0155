"""The status of a Work, made from the results of its manifests.

Source: docs/specifications/rollout.md 11, 13 and 14; KubeFleet pkg/controllers/workapplier/status.go.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from scorer.api.conditions import FALSE, TRUE, ConditionStatus, make_condition, merge_conditions
from scorer.api.meta import JsonObject, format_time, parse_time
from scorer.api.unstructured.documents import conditions_of, dicts_at, generation_of
from scorer.api.values.quoting import format_share
from scorer.rollout.apply_strategy import reports_diff
from scorer.rollout.object_size import OBJECT_SIZE_LIMIT, stored_size
from scorer.rollout.works.availability import Availability, AvailabilityReason

DETAIL_LIMIT = 100
"""Maximum number of entries in one object's list of drifts or differences (rollout.md 14)."""

OBSERVED_AGAIN_AFTER = timedelta(minutes=5)
"""Maximum age of an observation time while the observation is unchanged.

The reference writes the time of each pass (rollout.md 14). But then each pass would write the Work, the write would
enqueue it again, the next pass would write again, and every client that watches Works would get an event each time. So
the time is renewed with every change of the observation, and otherwise at this interval.
"""


class ManifestReason(StrEnum):
    """The outcome of one manifest in one pass, spelled as the reason of its Applied or DiffReported condition.

    DiffReported has FAILED_TO_REPORT_DIFF for every outcome without a comparison. Its message names the outcome.
    """

    APPLIED = "Applied"
    APPLIED_WITH_FAILED_DRIFT_DETECTION = "AppliedWithFailedDriftDetection"
    PREPARING_TO_PROCESS = "PreparingToProcess"
    DECODING_ERRED = "DecodingErred"
    FOUND_GENERATE_NAME = "FoundGenerateName"
    DUPLICATED = "Duplicated"
    NOT_OURS = "AppliedWorkOfAnother"
    REFUSED = "RefusedByAgent"
    FAILED_TO_FIND = "FailedToFindObjInMemberCluster"
    FAILED_TO_TAKE_OVER = "FailedToTakeOver"
    NOT_TAKEN_OVER = "NotTakenOver"
    FOUND_DRIFTS = "FoundDrifts"
    FOUND_DRIFTS_DEGRADED = "FoundDriftsInDegradedMode"
    ANOTHER_WRITER = "AnotherWriter"
    JOB_RUN_UNKNOWN = "JobRunUnknown"
    APPLY_FAILED = "ManifestApplyFailed"
    FOUND_DIFF = "FoundDiff"
    FOUND_DIFF_DEGRADED = "FoundDiffInDegradedMode"
    NO_DIFF_FOUND = "NoDiffFound"
    FAILED_TO_REPORT_DIFF = "FailedToReportDiff"


_APPLIED = frozenset({ManifestReason.APPLIED, ManifestReason.APPLIED_WITH_FAILED_DRIFT_DETECTION})
_DIFF_REPORTED = frozenset(
    {ManifestReason.FOUND_DIFF, ManifestReason.FOUND_DIFF_DEGRADED, ManifestReason.NO_DIFF_FOUND}
)


@dataclass(frozen=True, slots=True)
class ManifestResult:
    """The outcome of one manifest of a Work.

    Args:
        ordinal: Position in ``spec.workload.manifests``.
        group, version, kind, resource, namespace, name: The object. ``resource`` is the plural. Empty if unknown.
        reason: The outcome, which determines `applied` and `diff_reported`.
        message: Human-readable message.
        availability: Availability of the applied object. None while it is not applied, and in ReportDiff.
        observed_generation: Generation of the live object. None if it does not exist.
        drifts: ``{path, valueInMember, valueInHub}`` per drift of an object that we own.
        diffs: The same per difference of an object that we do not own, or in ReportDiff.
        observed_status: The live object's status, if it has to be reported back.
    """

    ordinal: int
    group: str
    version: str
    kind: str
    resource: str
    namespace: str
    name: str
    reason: ManifestReason
    message: str
    availability: Availability | None = None
    observed_generation: int | None = None
    drifts: tuple[JsonObject, ...] = ()
    diffs: tuple[JsonObject, ...] = ()
    observed_status: JsonObject | None = None

    @property
    def applied(self) -> bool:
        """Whether the manifest was applied, even if drift detection failed afterwards."""
        return self.reason in _APPLIED

    @property
    def diff_reported(self) -> bool:
        """Whether the agent made a comparison and knows its result. Degraded mode counts."""
        return self.reason in _DIFF_REPORTED

    def identifier(self) -> JsonObject:
        """Return ``identifier`` of the manifest's entry in the Work's status."""
        fields = ("group", "version", "kind", "resource", "namespace", "name")
        texts = {field: text for field in fields if (text := getattr(self, field))}
        return {"ordinal": self.ordinal, **texts}


def work_status(work: JsonObject, results: Sequence[ManifestResult], now: datetime) -> JsonObject:
    """Return the complete ``status`` of *work* after a pass with *results*, trimmed if the object became too large.

    Args:
        work: The Work as stored. Transition times and first observations are copied from its current status.
        results: One per manifest, in order.
        now: Time of the pass.
    """
    report_diff = reports_diff(work)
    entries = dicts_at(work, "status", "manifestConditions")
    previous = dict(zip(_identities(entry.get("identifier") or {} for entry in entries), entries, strict=True))
    old_entries = [previous.get(identity) for identity in _identities(result.identifier() for result in results)]
    conditions = work_conditions(
        results,
        report_diff=report_diff,
        generation=generation_of(work),
        old=conditions_of(work),
        now=now,
    )
    full = {
        "conditions": conditions,
        "manifestConditions": [
            manifest_status(result, old, report_diff=report_diff, now=now)
            for result, old in zip(results, old_entries, strict=True)
        ],
    }
    size = stored_size({**work, "status": full})
    return full if size <= OBJECT_SIZE_LIMIT else _trim(work, full, old_entries, size, now)


def work_conditions(
    results: Iterable[ManifestResult],
    *,
    report_diff: bool,
    generation: int,
    old: Iterable[Mapping[str, Any]],
    now: datetime,
) -> list[JsonObject]:
    """Summarize *results* in the conditions of the Work.

    A Work without manifests is applied and available. Available is only set once everything is applied.

    Args:
        results: One per manifest.
        report_diff: Apply strategy ReportDiff: DiffReported replaces the other two conditions.
        generation: The generation of the Work.
        old: The conditions stored now, for their transition times.
        now: Transition time of conditions that change.
    """
    manifests = list(results)
    conditions: list[JsonObject] = []

    def add(kind: str, good: int, reasons: tuple[str, str], words: str) -> bool:
        complete = good == len(manifests)
        message = f"{format_share(good, len(manifests), 'manifest')} {words}"
        status, reason = (TRUE, reasons[0]) if complete else (FALSE, reasons[1])
        conditions.append(make_condition(kind, status, reason, message, generation=generation, now=now))
        return complete

    if report_diff:
        reported_count = sum(manifest.diff_reported for manifest in manifests)
        reasons = ("AllManifestsDiffReported", "SomeManifestsHaveNotReportedDiff")
        add("DiffReported", reported_count, reasons, "compared")
        return merge_conditions(old, conditions)
    applied_count = sum(manifest.applied for manifest in manifests)
    if add("Applied", applied_count, ("AllManifestsApplied", "SomeManifestsAreNotApplied"), "applied"):
        answers = [manifest.availability for manifest in manifests]
        available = sum(answer is not None and answer.status == TRUE for answer in answers)
        untracked_count = sum(
            answer is not None and answer.reason is AvailabilityReason.NOT_TRACKABLE for answer in answers
        )
        words = f"available, {untracked_count} of them cannot be tracked" if untracked_count else "available"
        good = "WorkNotTrackable" if untracked_count else "AllManifestsAvailable"
        add("Available", available, (good, "SomeManifestsAreNotAvailable"), words)
    return merge_conditions(old, conditions)


def manifest_status(
    result: ManifestResult, old: Mapping[str, Any] | None, *, report_diff: bool, now: datetime
) -> JsonObject:
    """Return the entry of one manifest in ``status.manifestConditions``.

    Args:
        result: The outcome of the manifest.
        old: Current entry of the manifest, which provides transition times and the times of the first drift and
            difference.
        report_diff: Apply strategy ReportDiff.
        now: Time of the pass.
    """
    previous = old or {}
    generation = result.observed_generation or 0
    if report_diff:
        kinds = [("DiffReported", *_comparison(result))]
    else:
        kinds = [("Applied", TRUE if result.applied else FALSE, str(result.reason), result.message)]
        if result.applied and (answer := result.availability) is not None:
            kinds.append(("Available", answer.status, str(answer.reason), answer.message))
    conditions = [
        make_condition(kind, status, reason, message, generation=generation, now=now)
        for kind, status, reason, message in kinds
    ]
    entry: JsonObject = {
        "identifier": result.identifier(),
        "conditions": merge_conditions(previous.get("conditions") or (), conditions),
    }
    if result.drifts:
        first = (previous.get("driftDetails") or {}).get("firstDriftedObservedTime") or format_time(now)
        details = {
            "observedInMemberClusterGeneration": generation,
            "firstDriftedObservedTime": first,
            "observedDrifts": [dict(detail) for detail in result.drifts[:DETAIL_LIMIT]],
        }
        entry["driftDetails"] = _with_observation_time(details, previous.get("driftDetails"), now)
    if result.diffs:
        first = (previous.get("diffDetails") or {}).get("firstDiffedObservedTime") or format_time(now)
        details = {
            "firstDiffedObservedTime": first,
            "observedDiffs": [dict(detail) for detail in result.diffs[:DETAIL_LIMIT]],
        }
        if result.observed_generation is not None:
            details["observedInMemberClusterGeneration"] = generation
        entry["diffDetails"] = _with_observation_time(details, previous.get("diffDetails"), now)
    if result.observed_status is not None:
        observation = {"observedStatus": result.observed_status}
        entry["backReportedStatus"] = _with_observation_time(observation, previous.get("backReportedStatus"), now)
    return entry


def _comparison(result: ManifestResult) -> tuple[ConditionStatus, str, str]:
    """Return status, reason and message of DiffReported. Every failure has the same reason, and names its cause."""
    if result.diff_reported:
        return TRUE, str(result.reason), result.message
    failed = ManifestReason.FAILED_TO_REPORT_DIFF
    message = result.message if result.reason is failed else f"{result.reason}: {result.message}"
    return FALSE, str(failed), message


def _with_observation_time(details: JsonObject, old: Mapping[str, Any] | None, now: datetime) -> JsonObject:
    """Return *details* with its observation time: the one of *old* while nothing else has changed and it is recent."""
    old_time = (old or {}).get("observationTime")
    if old is not None and old_time is not None and {**details, "observationTime": old_time} == old:
        try:
            if timedelta(0) <= now - parse_time(old_time) < OBSERVED_AGAIN_AFTER:
                return {**details, "observationTime": old_time}
        except ValueError:  # another client wrote it
            pass
    return {"observationTime": format_time(now), **details}


def _identities(identifiers: Iterable[Mapping[str, Any]]) -> list[tuple[object, ...]]:
    """Return keys that match manifests across generations: by object if known, else by position.

    The same object may be listed several times, and only the first is applied. The key counts the occurrences.
    """
    identities: list[tuple[object, ...]] = []
    times: Counter[tuple[object, ...]] = Counter()
    for identifier in identifiers:
        names = {key: value for key, value in identifier.items() if key != "ordinal"}
        identity = tuple(sorted((names or {"ordinal": identifier.get("ordinal")}).items()))
        times[identity] += 1
        identities.append((*identity, times[identity]))
    return identities


def _trim(
    work: JsonObject, full: JsonObject, old_entries: Sequence[Mapping[str, Any] | None], size: int, now: datetime
) -> JsonObject:
    entries = []
    for entry, old in zip(full["manifestConditions"], old_entries, strict=True):
        previous = old or {}
        short = {key: value for key, value in entry.items() if key != "backReportedStatus"}
        for details, field in (("driftDetails", "observedDrifts"), ("diffDetails", "observedDiffs")):
            if details in short:
                detail_fields = {name: value for name, value in short[details].items() if name != "observationTime"}
                summary = {**detail_fields, field: [_summary(detail_fields[field])]}
                short[details] = _with_observation_time(summary, previous.get(details), now)
        entries.append(short)
    message = (
        f"details are omitted: with them, the object would have {size} bytes, more than the limit of "
        f"{OBJECT_SIZE_LIMIT}"
    )
    condition = make_condition("StatusTrimmed", TRUE, "Oversized", message, generation=generation_of(work), now=now)
    conditions = [*full["conditions"], *merge_conditions(conditions_of(work), [condition])]
    return {"conditions": conditions, "manifestConditions": entries}


def _summary(details: Sequence[Mapping[str, Any]]) -> JsonObject:
    path = str(details[0]["path"])
    if len(details) > 1:
        path += f" and {len(details) - 1} more"
    return {"path": path, "valueInMember": "(omitted)", "valueInHub": "(omitted)"}
