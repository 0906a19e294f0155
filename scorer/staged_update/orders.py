"""User commands for a run: start, stop and resume it, approve and reject its stages.

A command that is impossible is refused with a reason. One that has been executed already changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from scorer.api.conditions import TRUE, make_condition
from scorer.api.family import family_in
from scorer.api.meta import JsonObject
from scorer.api.names import REJECTED
from scorer.api.placement.staged_update import APPROVED_BY_USER, RunState
from scorer.api.unstructured.documents import (
    conditions_of,
    generation_of,
    has_current_status,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    text_at,
)
from scorer.staged_update.approval.requests import ACCEPTED, APPROVED
from scorer.staged_update.phase import RunPhase, RunSituation, RunWait, RunWaitKind, stages_of
from scorer.staged_update.record import REQUEST_APPROVED, stage_name, status, tasks_of

_LONGEST_MESSAGE: Final = 32768


class RunOrderRefusedError(Exception):
    """A run cannot execute a command. The message has the reason."""


@dataclass(frozen=True, slots=True)
class RunOrder:
    """A run as ordered by a user.

    Args:
        name: Name of the run.
        namespace: Namespace, empty for a ClusterStagedUpdateRun.
        placement: Placement to roll out, empty for an existing run.
        strategy: Strategy with the stages, empty for an existing run.
        index: Resource snapshot, empty for the current selection.
        state: Run, or Initialize to compute only the plan.
    """

    name: str
    namespace: str = ""
    placement: str = ""
    strategy: str = ""
    index: str = ""
    state: RunState = RunState.RUN

    def document(self) -> JsonObject:
        """Return the new run."""
        kind, metadata = family_in(self.namespace).run, {"name": self.name}
        if self.namespace:
            metadata["namespace"] = self.namespace
        spec = {
            "placementName": self.placement,
            "stagedRolloutStrategyName": self.strategy,
            "state": str(self.state),
        }
        if self.index:
            spec["resourceSnapshotIndex"] = self.index
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def order_start(run: JsonObject, situation: RunSituation, order: RunOrder) -> RunState | None:
    """Return the state that starts an existing run, or None if it has it already.

    Raises:
        RunOrderRefusedError: The run has ended, differs from the ordered one, or would go back to Initialize.
    """
    for field, text in (
        ("placementName", order.placement),
        ("stagedRolloutStrategyName", order.strategy),
        ("resourceSnapshotIndex", order.index),
    ):
        own = text_at(spec_of(run), field)
        if text and text != own:
            subject = f"spec.{field} is {own[:255]!r}, not {text[:255]!r}"
            raise RunOrderRefusedError(f"run {order.name} already exists, and its {subject}. Choose another name")
    _check_not_over(run, situation, "choose another name")
    state = text_at(spec_of(run), "state") or RunState.INITIALIZE
    if order.state is RunState.INITIALIZE and state != RunState.INITIALIZE:
        raise RunOrderRefusedError(f"run {order.name} has been started and cannot be initialized again")
    return None if state == order.state else order.state


def order_stop(run: JsonObject, situation: RunSituation) -> RunState | None:
    """Return the state that stops a run, or None if it has it already.

    Raises:
        RunOrderRefusedError: The run has ended, or has not been started.
    """
    _check_not_over(run, situation, "nothing to stop")
    state = text_at(spec_of(run), "state") or RunState.INITIALIZE
    if state == RunState.INITIALIZE:
        raise RunOrderRefusedError(f"run {name_of(run)} has not been started: nothing to stop")
    return None if state == RunState.STOP else RunState.STOP


def order_resume(run: JsonObject, situation: RunSituation) -> RunState | None:
    """Return the state that resumes a stopped run, or None if it has it already.

    Raises:
        RunOrderRefusedError: The run has ended, or has not been started.
    """
    _check_not_over(run, situation, "nothing to resume")
    state = text_at(spec_of(run), "state") or RunState.INITIALIZE
    if state == RunState.INITIALIZE:
        raise RunOrderRefusedError(f"run {name_of(run)} has not been started, so it is not stopped: start it")
    return None if state == RunState.RUN else RunState.RUN


def _check_not_over(run: JsonObject, situation: RunSituation, advice: str) -> None:
    if situation.is_over:
        raise RunOrderRefusedError(f"run {name_of(run)} is finished ({situation.phase}): {advice}")


def state_patch(state: RunState) -> JsonObject:
    """Return the merge patch that sets the state of a run. Run removes an earlier rejection."""
    patch: JsonObject = {"spec": {"state": str(state)}}
    return patch | ({"metadata": {"annotations": {REJECTED: None}}} if state is RunState.RUN else {})


def rejection_patch(request: str, reason: str) -> JsonObject:
    """Return the merge patch of a run that rejects an approval request and stops the run.

    Raises:
        RunOrderRefusedError: No reason is given.
    """
    if not reason.strip():
        raise RunOrderRefusedError("the reason must not be empty")
    annotations = {REJECTED: f"{request}: {reason.strip()}"}
    return {"metadata": {"annotations": annotations}, "spec": {"state": str(RunState.STOP)}}


def open_approval(run: JsonObject, situation: RunSituation, *, stage: str = "", request: str = "") -> RunWait:
    """Return the approval that a run waits for.

    Args:
        run: The run.
        situation: Situation of the run.
        stage: Restricts the search to a stage, unless empty.
        request: Restricts the search to a request name, unless empty.

    Raises:
        RunOrderRefusedError: The run waits for no approval, or for several.
    """
    approvals = [wait for wait in situation.waits if wait.kind is RunWaitKind.APPROVAL]
    waits = [wait for wait in approvals if stage in ("", wait.stage) and request in ("", wait.request)]
    if len(waits) > 1:
        request_names = ", ".join(wait.request for wait in waits)
        raise RunOrderRefusedError(f"run {name_of(run)} waits for several approvals: {request_names}. Name one of them")
    if waits:
        return waits[0]
    raise RunOrderRefusedError(_no_approval_reason(run, situation, approvals, stage))


def _no_approval_reason(run: JsonObject, situation: RunSituation, waits: list[RunWait], stage: str) -> str:
    name = name_of(run)
    names = [stage_name(entry) for entry in stages_of(run)]
    if stage and names and stage not in names:
        return f"run {name} has no stage {stage[:63]!r}. Its stages: {', '.join(names)}"
    if waits:
        return f"run {name} waits for another approval: {', '.join(wait.request for wait in waits)}"
    if any(wait.kind is RunWaitKind.STATE for wait in situation.waits):
        return f"run {name} is not waiting for an approval, but for {situation.waits[0].message}"
    word = "is finished" if situation.is_over else "is not waiting for an approval"
    detail = f"{situation.phase}: {situation.message}" if situation.message else situation.phase
    return f"run {name} {word} ({detail})"


def approved_request(run: JsonObject, requests: Iterable[JsonObject], *, stage: str = "", request: str = "") -> str:
    """Return the name of the matching request that is already approved, or an empty string.

    Empty without a stage and a request, because the match would be ambiguous.
    """
    if not stage and not request:
        return ""
    for entry in stages_of(run):
        for task in tasks_of(entry):
            name = text_at(task, "approvalRequestName")
            matches = name and stage in ("", stage_name(entry)) and request in ("", name)
            if matches and status(task, REQUEST_APPROVED) == TRUE:
                return name
    return next((request for entry in requests if request and name_of(entry) == request and is_approved(entry)), "")


def is_approved(request: JsonObject) -> bool:
    """Return whether a request has a valid approval."""
    return any(has_current_status(request, kind, TRUE) for kind in (APPROVED, ACCEPTED))


def approved_conditions(request: JsonObject, message: str, now: datetime) -> list[JsonObject]:
    """Return the conditions of a request with its approval.

    Args:
        request: The request as stored.
        message: Author of the approval, and the reason for it.
        now: Current time.
    """
    text = message[:_LONGEST_MESSAGE]
    condition = make_condition(APPROVED, TRUE, APPROVED_BY_USER, text, generation=generation_of(request), now=now)
    return [*(condition for condition in conditions_of(request) if condition.get("type") != APPROVED), condition]


def approval_command(run: JsonObject, situation: RunSituation, wait: RunWait) -> list[str]:
    """Return the words of the harbormaster command that ends a wait. Empty if it needs no user."""
    if not wait.needs_person:
        return []
    name, namespace = name_of(run), namespace_of(run)
    if wait.kind is RunWaitKind.APPROVAL:
        words = ["approve", name, "--stage", wait.stage]
    else:
        words = ["run", "start" if situation.phase is RunPhase.INITIALIZED else "resume", name]
    return [*words, *(["-n", namespace] if namespace else [])]


def parent_run(request: JsonObject) -> str:
    """Return the name of the run that created an approval request, or an empty string."""
    return text_at(request, "spec", "parentStageRollout")


def rejected(run: JsonObject) -> str:
    """Return the reason for the rejection of a run, empty if it was not rejected or has been resumed."""
    if text_at(spec_of(run), "state") != RunState.STOP:
        return ""
    return text_at(run, "metadata", "annotations", REJECTED)


def index_used(run: JsonObject) -> str:
    """Return the resource snapshot index that a run rolls out, empty before initialization."""
    return text_at(status_of(run), "resourceSnapshotIndexUsed")
