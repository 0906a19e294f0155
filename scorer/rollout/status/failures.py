"""Conditions that report a controller's failure on an object: one per controller, removed once the controller succeeds.

Other controllers that write the status of such an object need not know of these conditions (`with_current_failures`).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from scorer.api.conditions import LONGEST_MESSAGE, TRUE, make_condition, merge_conditions
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import conditions_of, generation_of, status_of

_PREFIX: Final = "harbormaster.dev/"
_SUFFIX: Final = "Failed"


def failure_type(controller: str) -> str:
    """Return the type of the condition of a controller: ``harbormaster.dev/BackReportFailed``."""
    return _PREFIX + "".join(word.capitalize() for word in controller.split("_")) + _SUFFIX


def failure_of(document: Mapping[str, Any]) -> str:
    """Return the message of the failure that an object reports, or an empty string.

    The failure may be older than the last change of the object: the controller removes it only when it succeeds.
    """
    failures = (
        condition
        for condition in conditions_of(document)
        if _is_of_failure(condition) and condition.get("status") == TRUE
    )
    first = min(failures, key=lambda condition: str(condition["type"]), default=None)
    return "" if first is None else str(first.get("message") or first.get("reason") or first["type"])


def with_current_failures(status: JsonObject, document: JsonObject) -> JsonObject:
    """Return a new status of an object with the failures that the object reports now, and no others."""
    new, now = status.get("conditions") or (), conditions_of(document)
    failures = [condition for condition in now if _is_of_failure(condition)]
    if not failures and not any(map(_is_of_failure, new)):
        return status
    return {**status, "conditions": [*(entry for entry in new if not _is_of_failure(entry)), *failures]}


def _is_of_failure(condition: Mapping[str, Any]) -> bool:
    kind = str(condition.get("type"))
    return kind.startswith(_PREFIX) and kind.endswith(_SUFFIX)


def failing_status(
    document: JsonObject, controller: str, reason: str, message: str, now: datetime
) -> JsonObject | None:
    """Return the complete status of an object with a controller's failure, or None if it reports that already."""
    kind, generation = failure_type(controller), generation_of(document)
    old = conditions_of(document)
    previous = next((condition for condition in old if condition.get("type") == kind), None)
    condition = make_condition(kind, TRUE, reason, message[:LONGEST_MESSAGE], generation=generation, now=now)
    (condition,) = merge_conditions(old, [condition])
    if condition == previous:
        return None
    other_conditions = [condition for condition in old if condition.get("type") != kind]
    return {**status_of(document), "conditions": [*other_conditions, condition]}


def passed_status(document: JsonObject, controller: str) -> JsonObject | None:
    """Return the complete status of an object without a controller's failure, or None if unchanged."""
    kind, old = failure_type(controller), conditions_of(document)
    other_conditions = [condition for condition in old if condition.get("type") != kind]
    return None if len(other_conditions) == len(old) else {**status_of(document), "conditions": other_conditions}
