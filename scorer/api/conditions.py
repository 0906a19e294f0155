"""Conditions: the status of one generation of an object.

A condition is *current* if its ``observedGeneration`` equals the object's present generation. One that is not current
counts as absent (rollout.md, "Words used here").
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from scorer.api.meta import ALWAYS_WRITTEN, ApiModel, Int64, JsonObject, Time, format_time

LONGEST_MESSAGE: Final = 1024
"""Maximum length of an error message, in characters. It may quote any text of a user from the object."""


ConditionStatus = Literal["True", "False", "Unknown"]
TRUE: ConditionStatus = "True"
FALSE: ConditionStatus = "False"
UNKNOWN: ConditionStatus = "Unknown"

_TYPE = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
_REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
MOST_MESSAGE_CHARACTERS: Final = 32768
"""Maximum length of ``message`` on an API server."""
_LONGEST_REASON: Final = 1024


class Condition(ApiModel):
    """One entry of ``status.conditions``."""

    type: str = Field(max_length=316, json_schema_extra={"pattern": _TYPE})
    """Type of the condition, one word such as ``Applied``, unique in its list."""
    status: ConditionStatus
    """Whether it holds: True, False, or Unknown."""
    reason: str = Field(
        default="",
        json_schema_extra={**ALWAYS_WRITTEN, "minLength": 1, "maxLength": _LONGEST_REASON, "pattern": _REASON},
    )
    """Reason as one word in CamelCase, for programs."""
    message: str = Field(default="", json_schema_extra={**ALWAYS_WRITTEN, "maxLength": MOST_MESSAGE_CHARACTERS})
    """Human-readable message. May be empty."""
    observed_generation: Int64 = Field(default=0, json_schema_extra={"minimum": 0})
    """Generation of the object (``metadata.generation``) that the condition is about. A condition of an older
    generation does not count. Absent: 0."""
    last_transition_time: Time | None = Field(default=None, json_schema_extra=ALWAYS_WRITTEN)
    """Time when the status last changed from one value to another, as an RFC 3339 instant."""


Conditions = Annotated[
    tuple[Condition, ...],
    Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]
"""Conditions merged by type. A plain tuple if the API merges the list as a whole (placement-api.md 2.7)."""


def is_reason(text: str) -> bool:
    """Return whether an API server accepts *text* as the reason of a condition."""
    return len(text) <= _LONGEST_REASON and re.fullmatch(_REASON, text, re.ASCII) is not None


def find_condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the condition of type *kind*, if there is one."""
    return next((condition for condition in conditions if condition.type == kind), None)


def current_condition(conditions: Iterable[Condition], kind: str, generation: int) -> Condition | None:
    """Return the condition of type *kind* if it is about *generation*."""
    condition = find_condition(conditions, kind)
    return condition if condition and condition.observed_generation == generation else None


def is_true(conditions: Iterable[Condition], kind: str, generation: int) -> bool:
    """Return whether the condition of type *kind* is True and current."""
    condition = current_condition(conditions, kind, generation)
    return condition is not None and condition.status == TRUE


def is_false(conditions: Iterable[Condition], kind: str, generation: int) -> bool:
    """Return whether the condition of type *kind* is False and current."""
    condition = current_condition(conditions, kind, generation)
    return condition is not None and condition.status == FALSE


def make_condition(
    kind: str, status: ConditionStatus, reason: str, message: str, *, generation: int, now: datetime
) -> JsonObject:
    """Return a condition in its stored form."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": format_time(now),
    }


def merge_conditions(
    old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]], *, restart_on_generation: bool = False
) -> list[JsonObject]:
    """Return *new*, each with the ``lastTransitionTime`` of its predecessor if the status is unchanged.

    Args:
        old: The conditions stored now. Those that *new* does not contain are dropped.
        new: The conditions to store, in order.
        restart_on_generation: Also restart the time when ``observedGeneration`` changes (rollout.md 5.3).
    """
    old_by_type = {condition.get("type"): condition for condition in old}
    merged = []
    for condition in new:
        previous = old_by_type.get(condition["type"])
        unchanged = (
            previous is not None
            and previous.get("status") == condition["status"]
            and not (
                restart_on_generation and previous.get("observedGeneration") != condition.get("observedGeneration")
            )
            and previous.get("lastTransitionTime")
        )
        merged.append(
            {**condition, "lastTransitionTime": previous["lastTransitionTime"]}
            if previous and unchanged
            else dict(condition)
        )
    return merged
