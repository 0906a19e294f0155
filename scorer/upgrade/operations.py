"""The operations of a run: which of them its back ends have to be asked about, and what one of them is to do.

Source: upgrade-runs.md 10.3 and 10.4.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import ClusterUpgradeRun, MemberStatus, UpgradeRunStatus
from scorer.upgrade.back_end import Observation, Operation, Target
from scorer.upgrade.images import ImageTargets
from scorer.upgrade.members import Member
from scorer.upgrade.record import OVER


def to_observe(status: UpgradeRunStatus) -> Iterator[str]:
    """Yield the ids of the operations of a run that may still be changing a cluster.

    Besides those of members in upgrade, these are attempts that were given up: until the back end reports their end,
    another one cannot begin.
    """
    return (member.operation_id for member in with_operation(status))


def occupied(status: UpgradeRunStatus, observations: Mapping[str, Observation]) -> Iterator[str]:
    """Yield the members that no other run may upgrade now: those in upgrade, and those not let go of yet.

    Args:
        status: Of the run.
        observations: What its back ends say about its operations, by id.
    """
    for member in with_operation(status):
        found = observations.get(member.operation_id)
        if member.state is UpgradeState.RUNNING or (found is not None and found.in_flight):
            yield member.name


def operation_of(
    run: ClusterUpgradeRun, entry: MemberStatus, member: Member | None, images: ImageTargets, deadline: datetime | None
) -> Operation:
    """Return the operation of an attempt that has begun, once more.

    Args:
        run: The run.
        entry: What it says of the member.
        member: The member; None: it has left.
        images: The image targets of the run.
        deadline: When the run gives up; None: never.
    """
    target = Target(run.spec.upgrade.type, entry.to_version, {} if member is None else images.of(member))
    return Operation(entry.operation_id, run.metadata.name, entry.name, entry.upgrader, entry.attempt, target, deadline)


def with_operation(status: UpgradeRunStatus) -> Iterator[MemberStatus]:
    """Yield the members of a run with operations that may still be changing their clusters, as `to_observe` does."""
    for stage in status.stages:
        if stage.state in OVER or stage.start_time is None:
            continue
        for group in stage.groups:
            for member in group.members:
                if member.operation_id and member.state not in OVER:
                    yield member
