"""Evaluation of a stage's analysis: whether it approves the stage, and the progress to show until then.

The condition ``Analyzed`` of the approval request is True while its check is met. Its transition time records since
when, so that a new leader continues the count. A sample that misses the threshold, a failed query, or a changed check
restarts the count. Periods of different checks must not be added.

Source: docs/specifications/staged-updates.md 6.2.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from scorer.api.conditions import FALSE, TRUE, UNKNOWN, ConditionStatus, make_condition, merge_conditions
from scorer.api.meta import JsonObject, format_time, parse_time
from scorer.api.names import ANALYSIS, REJECTED, TASK_TYPE
from scorer.api.placement.staged_update import RunState
from scorer.api.unstructured.documents import (
    annotation,
    conditions_of,
    current_condition,
    dict_at,
    dicts_at,
    generation_of,
    label,
    list_at,
    name_of,
    namespace_of,
    status_of,
    text_at,
)
from scorer.api.values.duration import format_duration
from scorer.api.values.quoting import printable
from scorer.staged_update.approval.analysis import AnalysisError, Check, ObjectCheck, QueryCheck, digest, read_analysis
from scorer.staged_update.approval.requests import APPROVED, TaskPlace
from scorer.staged_update.record import (
    PROGRESSING,
    REQUEST_APPROVED,
    REQUEST_CREATED,
    is_final,
    reason,
    stage_name,
    status,
)

ANALYZED: Final = "Analyzed"
"""Condition of an approval request with the state of its check. True while the check is met."""
PASSED: Final = "AnalysisPassed"
"""Reason of an approval by a check."""
OLDEST: Final = timedelta(minutes=5)
"""Maximum age of a sample, and maximum time in the future. Prometheus has the same lookback."""
SLOWEST_RETRY: Final = timedelta(minutes=5)
_FOR_PERSONS: Final = (
    "Rejected",
    "AnalysisInvalid",
    "EndpointUnknown",
    "EndpointNotAllowed",
    "KindNotAllowed",
    "NamespaceMissing",
)
"""Reasons that require user action."""
_MARK: Final = re.compile(r" \[[0-9a-f]{8}\]$", re.ASCII)
_LONGEST_WORDS: Final = 64
_LONGEST_ERROR: Final = 200


@dataclass(frozen=True, slots=True)
class Number:
    """The sample that a query returned."""

    value: float


@dataclass(frozen=True, slots=True)
class Reached:
    """Status of a condition of an object, empty without the condition."""

    status: str


@dataclass(frozen=True, slots=True)
class NotSeen:
    """The check could not be evaluated.

    Args:
        reason: Machine-readable word.
        message: Human-readable reason.
        failed: Whether the query failed, so it is retried with backoff.
    """

    reason: str
    message: str
    failed: bool = False


Observation = Number | Reached | NotSeen


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one evaluation.

    Args:
        status: Complete new status of the approval request. None if unchanged.
        approves: Whether it approves the request.
        again: Delay before the next evaluation. None if the check is paused or approves the request.
    """

    status: JsonObject | None
    approves: bool = False
    again: timedelta | None = None


def read_answer(answer: object, now: datetime) -> Observation:
    """Return the number in the response of a query endpoint, or `NotSeen` without exactly one finite, recent sample.

    Source: Prometheus, HTTP API, instant queries.
    """
    if text_at(answer, "status") == "error":
        message = text_at(answer, "error") or text_at(answer, "errorType") or "no reason given"
        return NotSeen("QueryFailed", f"the query failed: {printable(message[:_LONGEST_ERROR])}", failed=True)
    data = dict_at(answer, "data")
    kind, result = text_at(data, "resultType"), list_at(data, "result")
    if text_at(answer, "status") != "success" or kind not in ("scalar", "vector"):
        subject = f"a result of type {printable(kind[:_LONGEST_WORDS])}" if kind else "something else"
        return NotSeen("AnswerUnreadable", f"the result must be a scalar or a vector, not {subject}", failed=True)
    if kind == "scalar":
        return _read_sample(result, now)
    if len(result) != 1:
        message = f"the query must return one series, not {len(result)}" if result else "the query returned no series"
        return NotSeen("SeveralSeries" if result else "NoData", f"{message}")
    return _read_sample(list_at(result[0], "value"), now)


def _read_sample(sample: list[Any], now: datetime) -> Observation:
    """Parse ``[time, "number"]``."""
    try:
        timestamp, text = sample
        time, value = float(timestamp), float(text if isinstance(text, str) else math.nan)
    except (TypeError, ValueError, OverflowError):
        return NotSeen("AnswerUnreadable", "the response has no sample with a time and a number", failed=True)
    if not math.isfinite(value):
        return NotSeen("NotANumber", f"the query returned {value}, which is not a finite number")
    age = now.timestamp() - time
    if not abs(age) <= OLDEST.total_seconds():
        skew = "in the future: check the clocks of the endpoint and the loop" if age < 0 else "old"
        return NotSeen("Stale", f"the sample is more than 5 minutes {skew}")
    return Number(value)


def read_object(document: JsonObject | None, check: ObjectCheck) -> Observation:
    """Return the status of a condition of an object, or `NotSeen` without the object or for another generation."""
    if document is None:
        return NotSeen("NotFound", f"{_object_name(check)} does not exist")
    condition: Mapping[str, Any] = next(
        (condition for condition in conditions_of(document) if condition.get("type") == check.condition), {}
    )
    generations = [condition.get("observedGeneration") for condition in (status_of(document), condition)]
    if any(isinstance(generation, int) and generation != generation_of(document) for generation in generations):
        return NotSeen("Outdated", f"{check.condition} of {_object_name(check)} is for an earlier generation")
    return Reached(printable(text_at(condition, "status")[:_LONGEST_WORDS]))


def judge(request: JsonObject, check: Check, observation: Observation, now: datetime, failures: int = 0) -> CheckResult:
    """Return the effect of a check on its approval request.

    Args:
        request: The approval request.
        check: Check of its stage.
        observation: Result of the latest poll.
        now: Current time.
        failures: Number of consecutive failed polls before this one.
    """
    if isinstance(observation, NotSeen):
        retry_after = _retry(check.every, failures) if observation.failed else check.every
        return _look(
            request,
            _status_with(request, UNKNOWN, observation.reason, observation.message, check, now),
            requeue_after=retry_after,
        )
    words = _words(check, observation)
    if not is_met(check, observation):
        return _look(request, _status_with(request, FALSE, "NotMet", words, check, now), requeue_after=check.every)
    since = _success_time(request, check) or now
    remaining_time = _hold(check) - (now - since)
    if remaining_time <= timedelta():
        suffix = f" for {format_duration(_hold(check))}" if _hold(check) else ""
        new_status = _status_with(request, TRUE, "Met", f"{words}{suffix}", check, now)
        approval = _condition(request, APPROVED, TRUE, PASSED, f"{words}{suffix}", now)
        return CheckResult(_status(request, (new_status, approval)), approves=True)
    message = f"{_aim(check)} since {format_time(since)}. The stage is approved at {format_time(since + _hold(check))}"
    return _look(
        request, _status_with(request, TRUE, "Met", message, check, now), requeue_after=min(remaining_time, check.every)
    )


def awaits_request(run: JsonObject, request: JsonObject) -> bool:
    """Return whether a run waits for this approval request after a stage.

    The run's record and the immutable ``spec`` of the request must agree. A run that is stopped or has ended does not
    wait.
    """
    run_key = (text_at(request, "spec", "parentStageRollout"), namespace_of(request))
    if run_key != (name_of(run), namespace_of(run)) or label(request, TASK_TYPE) != TaskPlace.AFTER:
        return False
    if is_final(status_of(run)) or text_at(run, "spec", "state") == RunState.STOP:
        return False
    target = text_at(request, "spec", "targetStage")
    stage = next(
        (
            stage_status
            for stage_status in dicts_at(status_of(run), "stagesStatus")
            if stage_name(stage_status) == target
        ),
        {},
    )
    return reason(stage, PROGRESSING) == "StageUpdatingWaiting" and any(
        text_at(task, "approvalRequestName") == name_of(request)
        and status(task, REQUEST_CREATED) == TRUE
        and status(task, REQUEST_APPROVED) != TRUE
        for task in dicts_at(stage, "afterStageTaskStatus")
    )


def is_check_pending(run: JsonObject, request: JsonObject) -> bool:
    """Return whether a check that may approve a request still awaits its first evaluation."""
    text = annotation(run, ANALYSIS)
    if not text or current_condition(request, ANALYZED) is not None or not awaits_request(run, request):
        return False
    try:
        return text_at(request, "spec", "targetStage") in read_analysis(text, namespace_of(run))
    except AnalysisError:  # the first evaluation reports that only a user can approve
        return True


def is_rejected(run: JsonObject, request: JsonObject) -> bool:
    """Return whether a user has rejected a request. Only a user can approve a rejected request."""
    return annotation(run, REJECTED).partition(":")[0].strip() == name_of(request)


def pause(request: JsonObject, reason: str, message: str, now: datetime) -> CheckResult:
    """Return a result that pauses the check. The time for which the check has been met starts over."""
    return _look(request, _condition(request, ANALYZED, UNKNOWN, reason, message, now))


def progress_of(request: JsonObject) -> str:
    """Return the message about a request's check, or an empty string."""
    return _MARK.sub("", text_at(current_condition(request, ANALYZED), "message"))


def has_automatic_approval(request: JsonObject) -> bool:
    """Return whether a request may be approved without user action."""
    return text_at(current_condition(request, ANALYZED), "reason") not in ("", *_FOR_PERSONS)


def _retry(every: timedelta, failures: int) -> timedelta:
    return min(every * (1 << min(failures, 10)), max(every, SLOWEST_RETRY))


def _hold(check: Check) -> timedelta:
    return check.hold if isinstance(check, QueryCheck) else timedelta()


def is_met(check: Check, observation: Observation) -> bool:
    """Return whether an observation meets a check."""
    if isinstance(check, QueryCheck):
        return isinstance(observation, Number) and check.is_met_by(observation.value)
    return isinstance(observation, Reached) and observation.status == check.status


def _aim(check: Check) -> str:
    if isinstance(check, ObjectCheck):
        return f"{check.condition} of {_object_name(check)} is {check.status}"
    verb = str(check.comparison) if check.comparison != "equals" else "equal to"
    return f"the result of {check.endpoint} is {verb} {check.limit:.6g}"


def _words(check: Check, value: Number | Reached) -> str:
    """Return a text with the observed and the required value."""
    if isinstance(check, ObjectCheck):
        state = value.status if isinstance(value, Reached) else ""
        return f"{check.condition} of {_object_name(check)} is {state or 'absent'}, must be {check.status}"
    state = f"{value.value:.6g}" if isinstance(value, Number) else "nothing"
    return f"{check.endpoint} returned {state}, must be {check.comparison} {check.limit:.6g}"


def _object_name(check: ObjectCheck) -> str:
    return f"{check.kind} {check.namespace}/{check.name}" if check.namespace else f"{check.kind} {check.name}"


def _mark(check: Check) -> str:
    return f" [{digest(check)}]"


def _success_time(request: JsonObject, check: Check) -> datetime | None:
    """Return the time since which this check has been met, according to the request, or None if it is not met."""
    condition = current_condition(request, ANALYZED) or {}
    if condition.get("status") != TRUE or not text_at(condition, "message").endswith(_mark(check)):
        return None
    try:
        return parse_time(text_at(condition, "lastTransitionTime"))
    except ValueError:
        return None


def _status_with(
    request: JsonObject, status: ConditionStatus, reason: str, message: str, check: Check, now: datetime
) -> JsonObject:
    condition = _condition(request, ANALYZED, status, reason, message + _mark(check), now)
    if status == TRUE and _success_time(request, check) is None:  # a different check was met before: restart the count
        condition["lastTransitionTime"] = format_time(now)
    return condition


def _condition(
    request: JsonObject, kind: str, status: ConditionStatus, reason: str, message: str, now: datetime
) -> JsonObject:
    """Return a condition of the request. The transition time changes only with the status."""
    condition = make_condition(kind, status, reason, message, generation=generation_of(request), now=now)
    return merge_conditions(filter(None, [current_condition(request, kind)]), [condition])[0]


def _status(request: JsonObject, new_conditions: Iterable[JsonObject]) -> JsonObject | None:
    """Return the status of a request with these conditions, or None if it has them already."""
    conditions = list(new_conditions)
    kinds = {condition["type"] for condition in conditions}
    old_status = status_of(request)
    other_conditions = [condition for condition in conditions_of(request) if condition.get("type") not in kinds]
    old_conditions = [condition for condition in conditions_of(request) if condition.get("type") in kinds]
    if sorted(old_conditions, key=_kind) == sorted(conditions, key=_kind):
        return None
    return {**old_status, "conditions": [*other_conditions, *conditions]}


def _kind(condition: JsonObject) -> str:
    return text_at(condition, "type")


def _look(request: JsonObject, status: JsonObject, requeue_after: timedelta | None = None) -> CheckResult:
    return CheckResult(_status(request, [status]), again=requeue_after)
