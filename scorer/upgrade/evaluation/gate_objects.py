"""Gate objects: their state, the acknowledgment of an approval, and the readiness of the members behind the gate.

Source: docs/specifications/upgrade-runs.md 3.5 and 8.6.
"""

from typing import Final

from scorer.api.conditions import TRUE, Condition, find_condition
from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.gate import GateState, UpgradeGateSpec, UpgradeGateStatus
from scorer.api.upgrade.run import GateReport
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.evaluation.gates import APPROVED, Position, positions
from scorer.upgrade.evaluation.readiness import Readinesses
from scorer.upgrade.state.step import WriteGate

ACCEPTED: Final = "ApprovalAccepted"


def write_gates(ev: Evaluation) -> None:
    """Write every gate object whose content differs from its report.

    A deleted object is recreated only while its gate is Pending.
    """
    ready = Readinesses(ev)
    for position in positions(ev):
        for index, gate in enumerate(position.gates.reports):
            if not gate.gate:
                continue
            readiness = ready.behind_gate(position) if gate.state is UpgradeState.PENDING else None
            current, state = ev.facts.gates.get(gate.gate), _object_state(gate)
            if current is None and state is not GateState.PENDING and gate.start_time != ev.now:
                continue
            desired = UpgradeGateStatus(state=state, conditions=_acknowledgement(current, gate), readiness=readiness)
            if current is None or _differs(current, desired):
                ev.actions.append(WriteGate(gate.gate, _spec(ev, position, index), desired))


def _object_state(gate: GateReport) -> GateState:
    match gate.state:
        case UpgradeState.COMPLETED:
            return GateState.COMPLETED
        case UpgradeState.SKIPPED:
            return GateState.SKIPPED
        case _:
            return GateState.PENDING


def _acknowledgement(stored: UpgradeGateStatus | None, gate: GateReport) -> tuple[Condition, ...]:
    """Return the condition that acknowledges an approval."""
    approval = None if stored is None else find_condition(stored.conditions, APPROVED)
    if gate.state is not UpgradeState.COMPLETED or approval is None or approval.status != TRUE:
        return ()
    acknowledgement = Condition(
        type=ACCEPTED,
        status=TRUE,
        reason="ApprovalAccepted",
        message="the run continues",
        last_transition_time=gate.completion_time,
    )
    return (acknowledgement,)


def _differs(stored: UpgradeGateStatus, desired: UpgradeGateStatus) -> bool:
    has_all = all(find_condition(stored.conditions, condition.type) is not None for condition in desired.conditions)
    return stored.state is not desired.state or not has_all or stored.readiness != desired.readiness


def _spec(ev: Evaluation, position: Position, index: int) -> UpgradeGateSpec:
    gate = position.gates.reports[index]
    return UpgradeGateSpec(
        run_name=ev.run.metadata.name,
        stage=position.stage,
        group=position.group or None,
        timing=position.timing,
        index=index,
        type=gate.type,
        display_name=gate.display_name,
        scheduled_start=position.configured[index].scheduled_start,
        absolute_start_time=gate.absolute_start_time,
    )
