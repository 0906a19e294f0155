"""Actions on staged update runs: approve, reject, stop, resume, undo.

The decisions are those of `scorer.staged_update`, which the commands use as well.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from scorer.api.conditions import TRUE
from scorer.api.family import Family, family_in
from scorer.api.names import PARENT_PLACEMENT, RESOURCE_INDEX, TARGET_UPDATE_RUN
from scorer.api.placement.staged_update import DELETE_STAGE, RunState
from scorer.api.unstructured.documents import dicts_at, name_of, text_at, uid_of
from scorer.api.unstructured.json_object import JsonObject
from scorer.rollout.snapshots.groups import retained_indices
from scorer.staged_update.orders import (
    RunOrderRefusedError,
    approved_conditions,
    approved_request,
    is_approved,
    open_approval,
    order_resume,
    order_stop,
    rejection_patch,
    state_patch,
)
from scorer.staged_update.phase import RunSituation, RunWait, RunWaitKind, situation_of, stages_of
from scorer.staged_update.record import STARTED, SUCCEEDED, cluster_name, clusters_of, stage_name, status
from scorer.staged_update.undo import undo
from webhook.actions.patches import answer_patch, approval_message, versioned
from webhook.actions.planned import (
    ActionName,
    ActionOrder,
    ActionPlan,
    ActionReader,
    ActionRefusedError,
    HubWrite,
    fact,
    named,
    namespace_words,
)


async def plan_staged_update(order: ActionOrder, hub: ActionReader, user: str, now: datetime) -> ActionPlan:
    """Return the plan of an action on a run.

    Raises:
        ActionRefusedError: The state of the run does not allow the action.
    """
    family = family_in(order.namespace)
    run = await hub.get(family.run, order.name, order.namespace)
    requests = await hub.list_all(family.approval_request, order.namespace, f"{TARGET_UPDATE_RUN}={order.name}")
    situation = situation_of(run, requests, now)
    try:
        match order.action:
            case ActionName.APPROVE:
                return _approve(order, family, run, requests, situation, (user, now))
            case ActionName.REJECT:
                return _reject(order, family, run, situation)
            case ActionName.STOP:
                return _stop(order, family, run, situation)
            case ActionName.RESUME:
                return _resume(order, family, run, situation)
        return await _undo(order, family, run, situation, hub)
    except RunOrderRefusedError as error:
        raise ActionRefusedError(str(error)) from error


def _approve(
    order: ActionOrder,
    family: Family,
    run: JsonObject,
    requests: Sequence[JsonObject],
    situation: RunSituation,
    author: tuple[str, datetime],
) -> ActionPlan:
    command = ["approve", order.name, *_stage_words(order.stage), *namespace_words(order.namespace)]
    try:
        wait = open_approval(run, situation, stage=order.stage)
    except RunOrderRefusedError:
        if name := approved_request(run, requests, stage=order.stage):
            return ActionPlan(command, (), _facts(run, situation), None, f"{name} is already approved")
        raise
    request = next((item for item in requests if name_of(item) == wait.request), None)
    if request is None:
        raise ActionRefusedError(f"{wait.request} does not exist yet: try again in a moment")
    facts = _facts(run, situation) | _approval_facts(run, wait)
    if wait.answered or is_approved(request):
        return ActionPlan(command, (), facts, None, f"{wait.request} is already approved")
    user, now = author
    conditions = approved_conditions(request, approval_message(user, order.reason.strip()), now)
    body = answer_patch(request, conditions)
    write = HubWrite(family.approval_request, body, wait.request, order.namespace, "status")
    command = ["approve", order.name, "--stage", wait.stage]
    if order.reason.strip():
        command += ["--message", order.reason.strip()]
    return ActionPlan(
        [*command, *namespace_words(order.namespace)],
        (f"{_after(run, wait)}.", *_other_waits(situation, wait)),
        facts,
        write,
        f"{wait.request} approved: run {order.name} continues",
        [] if stage_name(_next_stage(run, wait)) == DELETE_STAGE else _next_clusters(run, wait),
    )


def _reject(order: ActionOrder, family: Family, run: JsonObject, situation: RunSituation) -> ActionPlan:
    wait = open_approval(run, situation, stage=order.stage)
    if wait.answered:
        raise ActionRefusedError(f"{wait.request} is already approved. Stop run {order.name} instead")
    reason = order.reason.strip()
    # A preview has no reason yet.
    patch = rejection_patch(wait.request, reason or "no reason yet")
    command = ["reject", order.name, "--stage", wait.stage, "--reason", reason or "REASON"]
    return ActionPlan(
        [*command, *namespace_words(order.namespace)],
        (f"Run {order.name} stops.", *_progress(run), "To request the approval again, resume the run."),
        _facts(run, situation) | _approval_facts(run, wait),
        HubWrite(family.run, versioned(run, patch), order.name, order.namespace),
        f"{wait.request} rejected: run {order.name} stops",
    )


def _stop(order: ActionOrder, family: Family, run: JsonObject, situation: RunSituation) -> ActionPlan:
    state = order_stop(run, situation)
    in_flight = [name for name, started, succeeded in _clusters(run) if started and not succeeded]
    finishes = [f"The update of {named(in_flight)} in flight will be finished."] if in_flight else []
    return ActionPlan(
        ["run", "stop", order.name, *namespace_words(order.namespace)],
        ("No further cluster is updated.", *finishes, *_progress(run), "The run can be resumed."),
        _facts(run, situation),
        _state_write(order, family, run, state),
        f"{order.name} {'already stopped' if state is None else 'stopping'}",
    )


def _resume(order: ActionOrder, family: Family, run: JsonObject, situation: RunSituation) -> ActionPlan:
    state = order_resume(run, situation)
    left = [name for name, _, succeeded in _clusters(run) if not succeeded]
    waits = [f"It still waits for {wait.message}." for wait in situation.waits if wait.kind is RunWaitKind.TIMED_WAIT]
    return ActionPlan(
        ["run", "resume", order.name, *namespace_words(order.namespace)],
        (f"Run {order.name} continues with {named(left)}, in its stages.", *waits),
        _facts(run, situation),
        _state_write(order, family, run, state),
        f"{order.name} {'already running' if state is None else 'resumed'}",
    )


async def _undo(
    order: ActionOrder, family: Family, run: JsonObject, situation: RunSituation, hub: ActionReader
) -> ActionPlan:
    placement = text_at(run, "spec", "placementName")
    selector = f"{PARENT_PLACEMENT}={placement},{RESOURCE_INDEX}"
    snapshots = await hub.list_all(family.resource_snapshot, order.namespace, selector)
    runs = await hub.list_all(family.run, order.namespace)
    document = undo(run, situation, runs, retained_indices(snapshots))
    index, name = text_at(document, "spec", "resourceSnapshotIndex"), name_of(document)
    changed = [
        cluster for cluster, started, _ in _clusters(run, stages=dicts_at(run, "status", "stagesStatus")) if started
    ]
    return ActionPlan(
        ["undo", order.name, *namespace_words(order.namespace)],
        (
            f"Creates run {name}, which rolls {named(changed)} of placement {placement} back to resource snapshot "
            f"{index}.",
            "It has the same stages, approvals and waits. Policies and overrides are not rolled back.",
        ),
        _facts(run, situation) | {"resource snapshot to roll back to": index, "new run": name},
        HubWrite(family.run, document, namespace=order.namespace),
        f"run {name} created: it rolls back {order.name} to resource snapshot {index}",
    )


def _state_write(order: ActionOrder, family: Family, run: JsonObject, state: RunState | None) -> HubWrite | None:
    if state is None:
        return None
    return HubWrite(family.run, versioned(run, state_patch(state)), order.name, order.namespace)


def _facts(run: JsonObject, situation: RunSituation) -> dict[str, str]:
    """Return the facts that every action on a run depends on. The uid distinguishes runs of one name."""
    return {"uid": uid_of(run), "phase": str(situation.phase), "stage": situation.stage}


def _approval_facts(run: JsonObject, wait: RunWait) -> dict[str, str]:
    return {"approval request": wait.request, "next clusters": fact(", ".join(_next_clusters(run, wait)))}


def _stage_words(stage: str) -> list[str]:
    return ["--stage", stage] if stage else []


def _next_stage(run: JsonObject, wait: RunWait) -> JsonObject:
    """Return the stage that an approval opens: its own if the approval precedes it, else the next, empty if none."""
    stages = stages_of(run)
    for number, stage in enumerate(stages):
        if stage_name(stage) == wait.stage:
            before = (text_at(task, "approvalRequestName") for task in dicts_at(stage, "beforeStageTaskStatus"))
            following = stages[number + 1] if number + 1 < len(stages) else {}
            return stage if wait.request in before else following
    return {}


def _next_clusters(run: JsonObject, wait: RunWait) -> list[str]:
    return [cluster_name(entry) for entry in clusters_of(_next_stage(run, wait))]


def _after(run: JsonObject, wait: RunWait) -> str:
    stage = _next_stage(run, wait)
    if not stage:
        return f"Stage {wait.stage} is the last one, so the run finishes"
    clusters = named(_next_clusters(run, wait))
    if stage_name(stage) == DELETE_STAGE:
        return f"The placement is then removed from {clusters}"
    return f"Stage {stage_name(stage)} then updates {clusters}"


def _other_waits(situation: RunSituation, approval: RunWait) -> Iterator[str]:
    for wait in situation.waits:
        if wait is not approval and wait.message:
            yield f"The run still waits for {wait.message}."


def _progress(run: JsonObject) -> Iterator[str]:
    clusters = list(_clusters(run))
    updated, left = [name for name, _, done in clusters if done], [name for name, _, done in clusters if not done]
    if updated:
        yield f"{named(updated)} already updated: {'they keep' if len(updated) > 1 else 'it keeps'} the new content."
    if left:
        yield f"{named(left)} not updated yet."


def _clusters(run: JsonObject, stages: Iterable[JsonObject] | None = None) -> Iterator[tuple[str, bool, bool]]:
    """Yield the name of each cluster of a run, and whether its update has started and succeeded."""
    for stage in stages_of(run) if stages is None else stages:
        for entry in clusters_of(stage):
            yield cluster_name(entry), status(entry, STARTED) == TRUE, status(entry, SUCCEEDED) == TRUE
