"""The gate of an upgrade run that an argument names: by its own name, or by that of its run."""

from scorer.api.unstructured.documents import text_at
from scorer.api.unstructured.json_object import format_time
from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import ClusterUpgradeRun, GateReport
from scorer.api.upgrade.strategy import GateType
from scorer.upgrade.simulation.hub import Approve, gates_of
from webhook.cli.errors import UserError
from webhook.cli.hub.client import Client, HubRefusedError
from webhook.cli.staged_updates.run_client import Runs
from webhook.cli.upgrades.run_client import UpgradeRuns

_Gate = tuple[Approve, GateReport]
"""Path of a gate, and its state."""


async def resolve_gate(client: Client, name: str, stage: str) -> tuple[str, str] | None:
    """Return the named gate and its run, or None if the name belongs to neither a gate nor an upgrade run.

    Args:
        client: Client of the hub.
        name: Name of a gate, or of a run that waits for one approval.
        stage: Stage of the gate. If empty, any pending stage.

    Raises:
        UserError: The name is also that of a staged update, the stage does not fit, several approvals are pending, or
            no gate is open.
    """
    runs = UpgradeRuns(client)
    if (gate := await runs.gate(name)) is not None:
        of = text_at(gate, "spec", "stage")
        if stage not in ("", of):
            raise UserError(f"gate {name} belongs to stage {of}, not to {stage}")
        return name, text_at(gate, "spec", "runName")
    view = await runs.seen(name)
    if view is None:
        return None
    if await _is_staged_update(client, name):
        raise UserError(f"{name} is both an upgrade run and a staged update: name the gate or the approval request")
    return open_gate(view.read, stage), name


async def _is_staged_update(client: Client, name: str) -> bool:
    try:
        return await Runs(client, "").find(name) is not None
    except (HubRefusedError, UserError):  # forbidden, or not served by this hub
        return False


def open_gate(run: ClusterUpgradeRun, stage: str) -> str:
    """Return the name of the only pending approval gate of a run.

    If no gate is pending, return the only approved one of the named stage.

    Raises:
        UserError: The stage does not exist, several approvals are pending, or there is no gate to return.
    """
    name, stages = run.metadata.name, [stage.name for stage in run.status.stages]
    if stage and stage not in stages:
        raise UserError(f"run {name} has no stage {stage[:63]!r}. Its stages: {', '.join(stages)}")
    gates = [(place, gate) for place, gate in gates_of(run.status) if stage in ("", place.stage)]
    pending_gates = [gate for gate in gates if gate[1].state is UpgradeState.PENDING]
    approvals = [gate for gate in pending_gates if gate[1].type is GateType.APPROVAL]
    if len(approvals) == 1:
        return approvals[0][1].gate
    if approvals:
        messages = [f"run {name} waits for {len(approvals)} approvals. Name one of these gates:"]
        raise UserError([*messages, *(f"  {_gate_line(approval)}" for approval in approvals)])
    if pending_gates:
        messages = [f"run {name} is not waiting for an approval but for timed gates. To open a gate early, name it:"]
        raise UserError([*messages, *(f"  {_gate_line(gate)}" for gate in pending_gates)])
    completed_gates = [
        gate for _, gate in gates if gate.type is GateType.APPROVAL and gate.state is UpgradeState.COMPLETED
    ]
    if stage and len(completed_gates) == 1:
        return completed_gates[0].gate
    location = f" at stage {stage}" if stage else ""
    raise UserError(f"run {name} is not waiting for an approval{location}: it is {run.status.state.value}")


def _gate_line(entry: _Gate) -> str:
    place, gate = entry
    location = f"group {place.group}" if place.group else f"stage {place.stage}"
    title = f' "{gate.display_name}"' if gate.display_name else ""
    until = f", opens {format_time(gate.absolute_start_time)}" if gate.absolute_start_time is not None else ""
    return f"{gate.gate}{title} {place.timing.value.lower()} {location}{until}"
