"""The operations of a run: which of them its back ends have to be asked about, and what one of them is to do.

An operation that was given up may still be changing its cluster. Until its back end has reported the end, no other one
begins there: neither by a restart nor by another run, also when the run that gave it up is over. A back end that does
not answer has reported nothing; one that says that it does not know the operation has. The record of the run says which
operations those are, so that it makes no difference who has asked whom since, and when.

So a back end that is gone for good holds a member. What is said then names the run and the operation, and people have a
way out: to have the end reported, as in the status of a ClusterUpgradeRequest; to delete that request; or to delete the
run, of which nobody knows any operations afterwards.

Source: upgrade-runs.md 10.3 and 10.4.
"""

from collections.abc import Iterator
from datetime import datetime

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import ClusterUpgradeRun, MemberStatus, UpgradeRunStatus
from scorer.upgrade.back_ends.interface import Operation, Target
from scorer.upgrade.members.member import Member
from scorer.upgrade.members.rosters import Rosters
from scorer.upgrade.versions.images import ImageTargets


def to_observe(status: UpgradeRunStatus, rosters: Rosters | None = None) -> Iterator[str]:
    """Yield the ids of the operations of a run that may still be changing a cluster.

    Args:
        status: Of the run.
        rosters: What is known of its members already; None: nothing.
    """
    all_rosters = Rosters() if rosters is None else rosters
    for stage in status.stages:
        for group in stage.groups:
            yield from (member.operation_id for member in all_rosters.of(stage.name, group).with_operation())


def occupied(run: ClusterUpgradeRun) -> Iterator[tuple[str, str]]:
    """Yield the members that no other run may upgrade now, each with what people should know of that."""
    name = run.metadata.name
    for member in with_operation(run.status):
        yield member.name, still_open(name, member) if member.operation_open else f"run {name} is upgrading it"


def still_open(run: str, member: MemberStatus) -> str:
    """Return in words which upgrade of a member may still be at work."""
    return (
        f"run {run} has given up upgrade {member.operation_id}, and upgrader {member.upgrader} has not reported its"
        " end: it may still be at work"
    )


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
    """Yield the members of a run with operations that may still be changing their clusters, as `to_observe` does.

    Those are the members in upgrade, and those whose attempts were given up.
    """
    for stage in status.stages:
        for group in stage.groups:
            for member in group.members:
                if member.state is UpgradeState.RUNNING or member.operation_open:
                    yield member
