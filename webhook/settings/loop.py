"""What the operator decides about the reconcile loop."""

from dataclasses import dataclass, field
from datetime import timedelta

from scorer.member_gate.holds import MemberDisruption
from scorer.rollout.resource_snapshots import SnapshotSettings
from scorer.rollout.selectable_kinds import SelectionSettings


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Settings of all controllers.

    Args:
        snapshots: How often placed content may change.
        selection: Which kinds and namespaces placements may select.
        removal_needs_budget: False: what has failed, or is not wanted at all any more, is removed without limit.
        stalled_after: How long a rollout may stand still until its placement says that it is stalled.
        renewed_after: How long the numbers of a rollout stay the same until clusters that wait are told anew why.
        force_delete_after: So long a leaving member is waited for.
        workers: Keys of one controller that are reconciled at once.
        writes_at_once: Writes under way at once.
        gate_members: Disruptions of a member that wait for one another; none: nobody reserves or waits for anything.
        namespace: Where reservations are kept.
    """

    snapshots: SnapshotSettings = field(default_factory=SnapshotSettings)
    selection: SelectionSettings = field(default_factory=SelectionSettings)
    removal_needs_budget: bool = True
    stalled_after: timedelta = timedelta(minutes=10)
    renewed_after: timedelta = timedelta(seconds=5)
    force_delete_after: timedelta = timedelta(minutes=15)
    workers: int = 16
    writes_at_once: int = 32
    gate_members: tuple[MemberDisruption, ...] = ()
    namespace: str = "harbormaster-system"
