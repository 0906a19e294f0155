"""Approval requests: which ones a stage needs, and which approvals count.

An approval is final once the run has set the condition that accepts it. An approval from before the run needed one does
not count: the request is deleted and created again.

Source: docs/specifications/staged-updates.md 6.2; docs/specifications/placement-api.md 13, item 9.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from scorer.api.conditions import TRUE, make_condition
from scorer.api.family import family_in
from scorer.api.meta import JsonObject
from scorer.api.names import IS_LATEST_APPROVAL, TARGET_UPDATE_RUN, TARGET_UPDATING_STAGE, TASK_TYPE
from scorer.api.unstructured.documents import (
    conditions_of,
    generation_of,
    has_current_status,
    is_deleting,
    name_of,
    namespace_of,
    status_of,
    text_at,
)
from scorer.staged_update.outcome import Accept, Action, CreateApprovalRequest, Discard, RunFailedError, RunFailureCause
from scorer.staged_update.record import REQUEST_APPROVED, REQUEST_CREATED, StagedUpdateRecord, status

APPROVED = "Approved"
ACCEPTED = "ApprovalAccepted"


class TaskPlace(StrEnum):
    """Position of a stage task. The values are those of the label ``taskType``."""

    BEFORE = "beforeStage"
    AFTER = "afterStage"


def request_name(run: str, stage: str, place: TaskPlace) -> str:
    """Return the name of the approval request of a stage."""
    return f"{run}-{'before' if place is TaskPlace.BEFORE else 'after'}-{stage}"


def make_request(run: JsonObject, stage: str, place: TaskPlace) -> JsonObject:
    """Return a new approval request."""
    kind, name = family_in(namespace_of(run)).approval_request, name_of(run)
    meta: JsonObject = {
        "name": request_name(name, stage, place),
        "labels": {
            TASK_TYPE: str(place),
            TARGET_UPDATE_RUN: name,
            TARGET_UPDATING_STAGE: stage,
            IS_LATEST_APPROVAL: "true",
        },
    }
    if namespace := namespace_of(run):
        meta["namespace"] = namespace
    spec = {"parentStageRollout": name, "targetStage": stage}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}


def advance_approval(
    record: StagedUpdateRecord,
    task: JsonObject,
    stage: str,
    place: TaskPlace,
    run: JsonObject,
    requests: Mapping[str, JsonObject],
) -> list[Action]:
    """Advance an approval task, and return the necessary actions.

    Raises:
        RunFailedError: The request of that name belongs to another run or stage.
    """
    if status(task, REQUEST_APPROVED) == TRUE:
        return []
    name = text_at(task, "approvalRequestName") or request_name(name_of(run), stage, place)
    request = requests.get(name)
    if request is None:
        _record_creation(record, task, name)
        return [CreateApprovalRequest(make_request(run, stage, place))]
    _check_owner(request, name_of(run), stage)
    if is_deleting(request):  # its deletion, or the removal of its finalizer, enqueues the run
        return []
    is_approved, is_accepted = has_current_status(request, APPROVED, TRUE), has_current_status(request, ACCEPTED, TRUE)
    if (is_approved or is_accepted) and status(task, REQUEST_CREATED) != TRUE:
        return [Discard(request)]
    _record_creation(record, task, name)
    if not (is_approved or is_accepted):
        return []
    record.set_condition(
        task, REQUEST_APPROVED, TRUE, "StageTaskApprovalRequestApproved", f"request {name} is approved"
    )
    return [] if is_accepted else [Accept(request, _accepted_status(request, record))]


def _record_creation(record: StagedUpdateRecord, task: JsonObject, name: str) -> None:
    if status(task, REQUEST_CREATED) != TRUE:
        record.set_condition(
            task, REQUEST_CREATED, TRUE, "StageTaskApprovalRequestCreated", f"request {name} is created"
        )


def _check_owner(request: JsonObject, run: str, stage: str) -> None:
    owner, target = text_at(request, "spec", "parentStageRollout"), text_at(request, "spec", "targetStage")
    if (owner, target) != (run, stage):
        message = f"approval request {name_of(request)} belongs to stage {target[:64]!r} of run {owner[:64]!r}"
        raise RunFailedError(RunFailureCause.APPROVAL_REQUEST_TAKEN, message)


def _accepted_status(request: JsonObject, record: StagedUpdateRecord) -> JsonObject:
    message = "the run continues. Revoking the approval has no effect"
    condition = make_condition(
        ACCEPTED,
        TRUE,
        "ApprovalRequestApprovalAccepted",
        message,
        generation=generation_of(request),
        now=record.now,
    )
    other_conditions = [condition for condition in conditions_of(request) if condition.get("type") != ACCEPTED]
    return {**status_of(request), "conditions": [*other_conditions, condition]}


def requests_of(run: JsonObject, requests: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the approval requests of a run, by their immutable ``spec``."""
    name, namespace = name_of(run), namespace_of(run)
    return [
        request
        for request in requests
        if namespace_of(request) == namespace and text_at(request, "spec", "parentStageRollout") == name
    ]
