"""Actions on upgrade runs and their gates: approve, reject, stop, resume.

The decisions are those of `scorer.upgrade.patches`, which the commands use as well.
"""

from datetime import datetime

import pydantic

from scorer.api.kinds import UPGRADE_GATE, UPGRADE_RUN
from scorer.api.meta import first_mistake
from scorer.api.unstructured.documents import text_at, uid_of
from scorer.api.unstructured.json_object import JsonObject
from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.gate import GateTiming
from scorer.api.upgrade.run import ClusterUpgradeRun, GroupStatus
from scorer.upgrade.patches import UpgradeOrderRefusedError, order_answer, order_start, order_stop
from scorer.upgrade.simulation.hub import Approve, gates_of
from webhook.actions.patches import answer_patch, approval_message, new_token, versioned
from webhook.actions.planned import (
    ActionName,
    ActionOrder,
    ActionPlan,
    ActionReader,
    ActionRefusedError,
    HubWrite,
    fact,
    named,
)


async def plan_upgrade(order: ActionOrder, hub: ActionReader, user: str, now: datetime) -> ActionPlan:
    """Return the plan of an action on an upgrade run or a gate.

    Raises:
        ActionRefusedError: The state of the run or the gate does not allow the action.
    """
    try:
        if order.kind is UPGRADE_GATE:
            gate = await hub.get(UPGRADE_GATE, order.name)
            run = await hub.get(UPGRADE_RUN, text_at(gate, "spec", "runName"))
            return _answer(order, gate, _read(run), user, now)
        document = await hub.get(UPGRADE_RUN, order.name)
        return _change(order, document, _read(document))
    except UpgradeOrderRefusedError as error:
        raise ActionRefusedError(str(error)) from error


def _answer(order: ActionOrder, gate: JsonObject, run: ClusterUpgradeRun, user: str, now: datetime) -> ActionPlan:
    approves, reason = order.action is ActionName.APPROVE, order.reason.strip()
    message = approval_message(user, reason) if approves else reason or "no reason yet"
    conditions = order_answer(gate, message, now, approve=approves)
    name, members = run.metadata.name, _next_members(run, order.name)
    facts = {
        "uid": uid_of(gate),
        "run uid": run.metadata.uid,  # the gate of a deleted run also counts for the next run of its name
        "state": text_at(gate, "status", "state"),
        "next members": fact(", ".join(members)),
    }
    if approves:
        command = ["approve", order.name, *(["--message", reason] if reason else [])]
        impact = [f"The upgrade of {named(members, 'member')} may then start." if members else "No member follows."]
        outcome = f"{order.name} approved: run {name} continues"
    else:
        command = ["reject", order.name, "--reason", reason or "REASON"]
        impact = [f"Run {name} stops.", *_progress(run), "To request the approval again, start the run again."]
        outcome = f"{order.name} rejected: run {name} stops"
    if conditions is None:
        return ActionPlan(command, (), facts, None, f"{order.name} is already approved")
    write = HubWrite(UPGRADE_GATE, answer_patch(gate, conditions), order.name, subresource="status")
    return ActionPlan(command, impact, facts, write, outcome)


def _change(order: ActionOrder, document: JsonObject, run: ClusterUpgradeRun) -> ActionPlan:
    facts = {"uid": uid_of(document), "state": run.status.state.value}
    if order.action is ActionName.STOP:
        patch = order_stop(run)
        running = _members(run, UpgradeState.RUNNING)
        finishes = [f"The upgrade of {named(running, 'member')} in progress will be finished."] if running else []
        impact = ["No further member is upgraded.", *finishes, *_progress(run), "The run can be started again."]
        command, words = ["upgrade", "stop", order.name], ("already stopped", "stopping")
    else:
        patch = order_start(run, new_token())
        left = [name for name, state in _states(run) if state not in (UpgradeState.COMPLETED, UpgradeState.SKIPPED)]
        impact = [f"Run {order.name} continues with {named(left, 'member')}. Members of a failed stage are retried."]
        command, words = ["upgrade", "start", order.name], ("already running", "start requested")
    write = None if patch is None else HubWrite(UPGRADE_RUN, versioned(document, patch), order.name)
    return ActionPlan(command, impact, facts, write, f"{order.name} {words[patch is not None]}")


def _read(document: JsonObject) -> ClusterUpgradeRun:
    try:
        return ClusterUpgradeRun.read(document)
    except pydantic.ValidationError as error:
        name = text_at(document, "metadata", "name")
        raise ActionRefusedError(f"run {name} cannot be read: {first_mistake(error)}") from error


def _states(run: ClusterUpgradeRun) -> list[tuple[str, UpgradeState]]:
    groups = (group for stage in run.status.stages for group in stage.groups)
    return [(entry.name, entry.state) for group in groups for entry in group.members]


def _members(run: ClusterUpgradeRun, state: UpgradeState) -> list[str]:
    return [name for name, member_state in _states(run) if member_state is state]


def _progress(run: ClusterUpgradeRun) -> list[str]:
    upgraded = _members(run, UpgradeState.COMPLETED)
    return [f"{named(upgraded, 'member')} already upgraded: unchanged."] if upgraded else []


def _next_members(run: ClusterUpgradeRun, gate: str) -> list[str]:
    """Return the members that a gate precedes: those of its group or stage, or of the following one."""
    place = next((place for place, report in gates_of(run.status) if report.gate == gate), None)
    if place is None:
        return []
    groups = _groups_after(run, place)
    return [entry.name for group in groups for entry in group.members if entry.state is not UpgradeState.SKIPPED]


def _groups_after(run: ClusterUpgradeRun, place: Approve) -> tuple[GroupStatus, ...]:
    stages = run.status.stages
    number = next(number for number, stage in enumerate(stages) if stage.name == place.stage)
    groups = stages[number].groups
    following = stages[number + 1].groups if number + 1 < len(stages) else ()
    if not place.group:
        return groups if place.timing is GateTiming.BEFORE else following
    at = next(position for position, group in enumerate(groups) if group.name == place.group)
    return groups[at : at + 1] if place.timing is GateTiming.BEFORE else groups[at + 1 : at + 2] or following
