"""Result of an evaluation of a run.

Source: docs/specifications/upgrade-runs.md 7.5, 10.3 and 13.1.
"""

from dataclasses import dataclass
from datetime import datetime

from scorer.api.event import Event
from scorer.api.upgrade.gate import UpgradeGateSpec, UpgradeGateStatus
from scorer.api.upgrade.run import UpgradeRunStatus
from scorer.upgrade.back_ends.interface import Operation


@dataclass(frozen=True, slots=True)
class StartUpgrade:
    """Start an operation on a back end.

    Idempotent: the request is repeated if the back end has no record of the operation.
    """

    operation: Operation


@dataclass(frozen=True, slots=True)
class CancelUpgrade:
    """Cancel an operation on a back end. Best effort: no later step depends on it.

    Args:
        id: Id of the operation.
        member: The cluster.
        upgrader: The back end.
    """

    id: str
    member: str
    upgrader: str


@dataclass(frozen=True, slots=True)
class WriteGate:
    """Create a gate object or update its status.

    Args:
        name: Name of the object.
        spec: Spec, which never changes.
        status: Status. Conditions that it does not contain are kept.
    """

    name: str
    spec: UpgradeGateSpec
    status: UpgradeGateStatus


Action = StartUpgrade | CancelUpgrade | WriteGate


@dataclass(frozen=True, slots=True)
class UpgradeStep:
    """Result of an evaluation. The status is stored first. Then the actions are executed, in any order.

    Every operation is thus recorded before its start is requested. After a crash in between, the back end has no record
    of the operation, and the next evaluation repeats the request.

    Args:
        status: Status of the run.
        changed: Whether the status differs from the stored one.
        actions: Actions to execute. Starts are in the order of turns.
        events: Events to emit.
        again: Exact instant of the next evaluation if no event arrives before. None: unset.
        in_flight: Whether operations must be polled: those of running members, and abandoned ones, which may outlast
            the run.
    """

    status: UpgradeRunStatus
    changed: bool = False
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    again: datetime | None = None
    in_flight: bool = False
