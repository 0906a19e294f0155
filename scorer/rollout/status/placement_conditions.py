"""The conditions of a placement: their types, the texts of each, and what they mean together."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from scorer.api.conditions import LONGEST_MESSAGE, TRUE, UNKNOWN, ConditionStatus, make_condition, merge_conditions
from scorer.api.family import family_in
from scorer.api.meta import JsonObject
from scorer.api.names import REMOVAL_PENDING_CONDITION, RESOURCES_SELECTED
from scorer.api.unstructured.documents import (
    conditions_of,
    current_condition,
    find_current,
    generation_of,
    is_deleting,
    namespace_of,
    spec_of,
)
from scorer.rollout.bindings import (
    APPLIED,
    AVAILABLE,
    DIFF_REPORTED,
    OVERRIDDEN,
    ROLLOUT_STARTED,
    WORK_SYNCHRONIZED,
    PendingReason,
)
from scorer.rollout.object_size import OBJECTS_TOO_LARGE
from scorer.rollout.status.progress import STALLED

JUDGED_AGAIN = "being evaluated again"
"""Shown for a placement that a user has changed, alongside the earlier decision, until there is a new one."""
SCHEDULED = "Scheduled"
STATUS_SYNCED = "StatusSynced"
OBJECTS_NOT_SELECTED = "ObjectsNotSelected"
"""Short type of the condition that counts matching objects that are not placed, because each cluster creates its own.
It exists only while it is True."""
NOT_SELECTED_REASON = "CreatedByControllers"
_MOST_CLUSTERS = 3
"""Maximum number of clusters that one message about objects names."""


class ConditionWords(NamedTuple):
    """Reasons of one condition type on a placement, its event, and the words for the clusters in its messages."""

    unknown: str
    no: str
    yes: str
    event: str
    good: str
    bad: str


CONDITION_WORDS: Mapping[str, ConditionWords] = MappingProxyType(
    {
        ROLLOUT_STARTED: ConditionWords(
            "RolloutStartedUnknown",
            "RolloutNotStartedYet",
            "RolloutStarted",
            "PlacementRolloutStarted",
            "the rollout has started",
            "the rollout has not started",
        ),
        OVERRIDDEN: ConditionWords(
            "OverriddenPending",
            "OverriddenFailed",
            "OverriddenSucceeded",
            "PlacementOverriddenSucceeded",
            "overrides are applied",
            "overrides are not applied",
        ),
        WORK_SYNCHRONIZED: ConditionWords(
            "WorkSynchronizedUnknown",
            "WorkNotSynchronizedYet",
            "WorkSynchronized",
            "PlacementWorkSynchronized",
            "Works are up to date",
            "Works are not up to date",
        ),
        APPLIED: ConditionWords(
            "ApplyPending",
            "ApplyFailed",
            "ApplySucceeded",
            "PlacementApplied",
            "everything is applied",
            "not everything is applied",
        ),
        AVAILABLE: ConditionWords(
            "ResourceAvailableUnknown",
            "ResourceNotAvailableYet",
            "ResourceAvailable",
            "PlacementAvailable",
            "everything is available",
            "not everything is available",
        ),
        DIFF_REPORTED: ConditionWords(
            "DiffReportingPending",
            "DiffReportingIncompleteOrFailed",
            "DiffReportingCompleted",
            "PlacementDiffReported",
            "differences are reported",
            "differences are not reported",
        ),
    }
)
APPLYING = (ROLLOUT_STARTED, OVERRIDDEN, WORK_SYNCHRONIZED, APPLIED, AVAILABLE)
COMPARING = (ROLLOUT_STARTED, OVERRIDDEN, WORK_SYNCHRONIZED, DIFF_REPORTED)


def condition_type(placement: JsonObject, word: str) -> str:
    """Return the full type of a condition on the placement: ``ClusterResourcePlacementApplied``."""
    return family_in(namespace_of(placement)).placement.kind + word


def expected_conditions(placement: JsonObject) -> tuple[str, ...]:
    """Return the short types of the conditions that follow Scheduled, in order."""
    strategy = spec_of(placement).get("strategy") or {}
    report_diff = (strategy.get("applyStrategy") or {}).get("type") == "ReportDiff"
    return COMPARING if report_diff else APPLYING


def is_complete(placement: JsonObject, status: Mapping[str, Any]) -> bool:
    """Return whether *status* reports the rollout of the placement's current generation as complete."""
    return all(
        (
            find_current(status.get("conditions") or (), condition_type(placement, word), generation_of(placement))
            or {}
        ).get("status")
        == TRUE
        for word in (SCHEDULED, *expected_conditions(placement))
    )


def is_stalled(placement: JsonObject, status: Mapping[str, Any]) -> bool:
    """Return whether a status reports the rollout of the placement's current generation as stalled."""
    kind, generation = condition_type(placement, STALLED), generation_of(placement)
    return find_current(status.get("conditions") or (), kind, generation) is not None


def too_large_message(placement: JsonObject) -> str:
    """Return the message of the status about objects that are too large. Empty without such objects."""
    condition = current_condition(placement, condition_type(placement, OBJECTS_TOO_LARGE))
    return str((condition or {}).get("message") or "")


def with_objects_not_selected(
    placement: JsonObject, status: JsonObject, origins: Iterable[str], now: datetime
) -> JsonObject:
    """Return *status* with the condition ObjectsNotSelected, last, if there are such objects.

    Args:
        placement: With its current status.
        status: The status to store.
        origins: Origin of each matching object that the controllers of a cluster create.
        now: Transition time of conditions that change.
    """
    kind = condition_type(placement, OBJECTS_NOT_SELECTED)
    conditions = [condition for condition in status.get("conditions") or () if condition.get("type") != kind]
    if counts := Counter(origins):
        details = ", ".join(f"{origin} ({count})" for origin, count in sorted(counts.items()))
        subject = "1 object is" if counts.total() == 1 else f"{counts.total()} objects are"
        message = f"{subject} not placed, because every cluster's own controllers create them: {details}"
        condition = placement_condition(placement, OBJECTS_NOT_SELECTED, TRUE, NOT_SELECTED_REASON, message, now)
        conditions += merge_conditions(conditions_of(placement), [condition])
    return {**status, "conditions": conditions}


def empty_message(placement: JsonObject) -> str:
    """Return the message of the status about a placement that selects nothing. Empty: it selects something."""
    return str((current_condition(placement, RESOURCES_SELECTED) or {}).get("message") or "")


def removal_pending_condition(placement: JsonObject) -> Mapping[str, Any] | None:
    """Return the condition about removals that wait for confirmation, None if none wait.

    A condition about an earlier generation is returned as well: an edit of the placement confirms nothing.
    """
    matches = (
        condition for condition in conditions_of(placement) if condition.get("type") == REMOVAL_PENDING_CONDITION
    )
    asked = (condition for condition in matches if condition.get("reason") != PendingReason.UPDATE_RUN)
    return next((condition for condition in asked if condition.get("status") == TRUE), None)


def is_removal_pending(placement: JsonObject) -> bool:
    """Return whether removals of a placement wait for confirmation."""
    return removal_pending_condition(placement) is not None


RestingState = Literal["available", "empty", "removal pending"]


def resting_state(placement: JsonObject) -> tuple[RestingState, str]:
    """Return the state of a placement that is available on all clusters that it picked, and the reason for it.

    Pending removals take precedence over an empty selection, because they usually are its last objects.
    """
    if pending := removal_pending_condition(placement):
        return "removal pending", str(pending.get("message") or "")[:LONGEST_MESSAGE]
    if empty := empty_message(placement):
        return "empty", empty
    return "available", too_large_message(placement)


def is_decision_pending(placement: JsonObject) -> bool:
    """Return whether a user has changed a placement, and there is no decision on the change yet."""
    if is_deleting(placement) or generation_of(placement) <= 1:
        return False
    scheduled = current_condition(placement, condition_type(placement, SCHEDULED)) or {}
    return scheduled.get("status") in (None, UNKNOWN)


def messages_of_clusters(bindings: Iterable[JsonObject], word: str) -> list[str]:
    """Return the messages of one condition of bindings: of the first few clusters, with the number of the others."""
    messages = sorted(
        f"on {spec_of(binding).get('targetCluster')}: {condition.get('message')}"
        for binding in bindings
        if (condition := current_condition(binding, word))
    )
    further_count = len(messages) - _MOST_CLUSTERS
    more = [f"and on {further_count} cluster{'s' * (further_count > 1)} more"] if further_count > 0 else []
    return [*messages[:_MOST_CLUSTERS], *more]


def placement_condition(
    placement: JsonObject, word: str, status: ConditionStatus, reason: str, message: str, now: datetime
) -> JsonObject:
    """Return a condition of a placement, on its current generation."""
    generation = generation_of(placement)
    return make_condition(condition_type(placement, word), status, reason, message, generation=generation, now=now)
