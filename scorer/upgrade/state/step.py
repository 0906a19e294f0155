"""What an evaluation of a run comes to.

Source: upgrade-runs.md 7.5, 10.3 and 13.1.
"""

from dataclasses import dataclass
from datetime import datetime

from scorer.api.event import Event
from scorer.api.upgrade.gate import UpgradeGateSpec, UpgradeGateStatus
from scorer.api.upgrade.run import UpgradeRunStatus
from scorer.upgrade.back_ends.interface import Operation


@dataclass(frozen=True, slots=True)
class StartUpgrade:
    """Ask a back end to begin an operation, or to begin it again if it does not know it."""

    operation: Operation


@dataclass(frozen=True, slots=True)
class CancelUpgrade:
    """Ask a back end to call an operation off; nothing depends on whether it does.

    Args:
        id: Of the operation.
        member: The cluster.
        upgrader: The back end.
    """

    id: str
    member: str
    upgrader: str


@dataclass(frozen=True, slots=True)
class WriteGate:
    """Make a gate object say this; it is created if it is not there.

    Args:
        name: Of the object.
        spec: Its spec, which never changes.
        status: What its status has to say; conditions that it does not name stay.
    """

    name: str
    spec: UpgradeGateSpec
    status: UpgradeGateStatus


Action = StartUpgrade | CancelUpgrade | WriteGate


@dataclass(frozen=True, slots=True)
class UpgradeStep:
    """What an evaluation comes to. The status is stored first, then the actions are carried out, in any order.

    So every operation is on record before a back end is asked to begin it: after a crash in between, the back end
    says that it does not know the operation, and the next evaluation asks it again.

    Args:
        status: Of the run.
        changed: Whether the status differs from the stored one.
        actions: What to do; starts are in the order in which members have their turn.
        events: To tell people.
        again: The exact instant of the next evaluation if nothing happens before; None: after an event.
        in_flight: Whether a back end has to be asked about operations from time to time, also those of a run that is
            over; not about those of members that have left.
    """

    status: UpgradeRunStatus
    changed: bool = False
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    again: datetime | None = None
    in_flight: bool = False
