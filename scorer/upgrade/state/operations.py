"""Operations of a run: which of them to poll, and how to rebuild one from the record.

An abandoned operation may still be changing its cluster. Until its back end has reported its end, no other operation
starts there, neither by a restart nor by another run, not even after the run has finished. A back end that cannot be
reached has not reported the end. A back end without a record of the operation has. The record of the run lists these
operations, so the result does not depend on who polled when.

A back end that is removed for good therefore blocks a member. The message names the run and the operation. There are
three ways to unblock it: report the end, for example in the status of a ClusterUpgradeRequest, delete that request, or
delete the run, which deletes the record of its operations.

Source: docs/specifications/upgrade-runs.md 10.3 and 10.4.
"""

from collections.abc import Iterator
from datetime import datetime

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import ClusterUpgradeRun, MemberStatus, UpgradeRunStatus
from scorer.upgrade.back_ends.interface import Operation, Target
from scorer.upgrade.members.member import Member
from scorer.upgrade.members.rosters import Rosters
from scorer.upgrade.versions.images import ImageTargets


def members_to_observe(status: UpgradeRunStatus, rosters: Rosters | None = None) -> Iterator[str]:
    """Yield the ids of the operations of a run that may still be changing a cluster.

    Args:
        status: Status of the run.
        rosters: Cached rosters of its members. None: unset.
    """
    all_rosters = Rosters() if rosters is None else rosters
    for stage in status.stages:
        for group in stage.groups:
            yield from (member.operation_id for member in all_rosters.of(stage.name, group).with_operation())


def occupied_members(run: ClusterUpgradeRun) -> Iterator[tuple[str, str]]:
    """Yield the members that no other run may upgrade now, each with a message."""
    name = run.metadata.name
    for member in with_operation(run.status):
        yield member.name, still_open(name, member) if member.operation_open else f"run {name} is upgrading it"


def still_open(run: str, member: MemberStatus) -> str:
    """Return a message about an abandoned upgrade of a member that may still be in progress."""
    return (
        f"run {run} has abandoned upgrade {member.operation_id}, and upgrader {member.upgrader} has not reported "
        "that the upgrade is complete: the upgrade may still be in progress"
    )


def operation_of(
    run: ClusterUpgradeRun, entry: MemberStatus, member: Member | None, images: ImageTargets, deadline: datetime | None
) -> Operation:
    """Return the operation of a running attempt, rebuilt from the record.

    Args:
        run: The run.
        entry: The member's entry in the run.
        member: The member, or None if it has left the fleet.
        images: Image targets of the run.
        deadline: Time at which the run gives up. None: unlimited.
    """
    target = Target(run.spec.upgrade.type, entry.to_version, {} if member is None else images.outdated_targets(member))
    return Operation(
        id=entry.operation_id,
        run=run.metadata.name,
        member=entry.name,
        upgrader=entry.upgrader,
        attempt=entry.attempt,
        target=target,
        deadline=deadline,
        given_up=entry.operation_open,
    )


def with_operation(status: UpgradeRunStatus) -> Iterator[MemberStatus]:
    """Yield the members of a run whose operations may still be changing their clusters, as `members_to_observe` does.

    Those are the members in upgrade, and those whose attempts were given up.
    """
    for stage in status.stages:
        for group in stage.groups:
            for member in group.members:
                if member.state is UpgradeState.RUNNING or member.operation_open:
                    yield member
