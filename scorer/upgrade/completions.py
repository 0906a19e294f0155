"""What back ends report about the members in upgrade.

A report is final only if the cluster says so too: after a success it is looked at once more.

Source: upgrade-runs.md 6.6, 8.1, 10.3 and 13.1.
"""

from datetime import datetime

from scorer.api.upgrade.fields import NodeImageSelection, UpgradeType
from scorer.api.upgrade.run import MemberStatus
from scorer.upgrade.back_end import Inventory, Observation, OperationState, Rejected
from scorer.upgrade.evaluation import Evaluation
from scorer.upgrade.images import ImageTargets, behind, selection_of
from scorer.upgrade.member_states import complete_member, fail_member, let_wait, stop_member
from scorer.upgrade.members import Member
from scorer.upgrade.operations import operation_of
from scorer.upgrade.record import GroupWork
from scorer.upgrade.step import StartUpgrade
from scorer.upgrade.timeouts import deadline_of
from scorer.upgrade.versions import is_version, parse_version


def take_reports(ev: Evaluation) -> None:
    """Follow what the back ends say about every member in upgrade."""
    for group, index, entry in list(ev.record.running()):
        if (rejected := ev.facts.rejections.get(entry.operation_id)) is not None:
            _refused(ev, group, index, rejected)
        elif (found := ev.facts.observations.get(entry.operation_id)) is not None:
            _follow(ev, group, index, found)


def _refused(ev: Evaluation, group: GroupWork, index: int, rejected: Rejected) -> None:
    """Let a member fail for good, or wait, or stop if the run halts; the attempt is made again as the same one."""
    if not rejected.retryable:
        message = rejected.message or rejected.code or "its upgrader refuses the upgrade"
        fail_member(ev, group, index, "UpgradeRejected", message)
        return
    if ev.record.is_halted:
        stop_member(group, index)
    else:
        let_wait(ev, group, index, "ClusterBusy", rejected.message or "its upgrader has refused it for now")
    group.put_member(index, operation_id="", completion_time=ev.now)


def _follow(ev: Evaluation, group: GroupWork, index: int, found: Observation) -> None:
    ended = min(found.finished_at, ev.now) if found.finished_at is not None else None
    match found.state:
        case OperationState.SUCCEEDED:
            _succeeded(ev, group, index, found, ended)
        case OperationState.FAILED:
            code = found.error.code if found.error is not None else ""
            message = found.error.message if found.error is not None else ""
            fail_member(ev, group, index, code or "UpgradeFailed", message or "its upgrade has failed", ended=ended)
        case OperationState.CANCELLED:
            fail_member(ev, group, index, "UpgradeFailed", "its upgrade was called off", ended=ended)


def start_lost(ev: Evaluation) -> None:
    """Ask again for the start of every operation that never reached its back end, and has not been given up since."""
    for _, _, entry in ev.record.running():
        found = ev.facts.observations.get(entry.operation_id)
        if found is not None and found.state is OperationState.UNKNOWN:
            _start_again(ev, entry)


def _start_again(ev: Evaluation, entry: MemberStatus) -> None:
    """Ask for the start of an operation; it stays the same one, so it was decided on when it was first asked for."""
    member = ev.facts.members.get(entry.name)
    if member is None:
        return
    operation = operation_of(ev.run, entry, member, _image_targets(ev), deadline_of(ev, entry))
    ev.actions.append(StartUpgrade(operation))


def _succeeded(ev: Evaluation, group: GroupWork, index: int, found: Observation, ended: datetime | None) -> None:
    entry = group.members[index]
    member = ev.facts.members.get(entry.name)
    inventory = found.inventory or (member.inventory if member is not None else None)
    if member is None or inventory is None or _is_stale(inventory, found):
        return  # it is looked at again, until its time is over
    if missing := _missing(ev, entry, member, inventory):
        fail_member(ev, group, index, "VerificationFailed", missing, ended=ended)
    else:
        complete_member(ev, group, index, ended)


def _is_stale(inventory: Inventory, found: Observation) -> bool:
    """Say whether a cluster was looked at before its upgrade ended."""
    return (
        inventory.observed_at is not None
        and found.finished_at is not None
        and inventory.observed_at < found.finished_at
    )


def _missing(ev: Evaluation, entry: MemberStatus, member: Member, inventory: Inventory) -> str:
    """Return what a cluster that is said to be upgraded does not run; empty: it runs all of it."""
    wanted = entry.to_version
    if wanted and (not is_version(inventory.version) or parse_version(inventory.version) < parse_version(wanted)):
        return f"its control plane runs {inventory.version or 'an unknown version'} instead of {wanted}"
    if wanted and ev.type is UpgradeType.FULL:
        for pool in inventory.pools:
            if is_version(pool.version) and parse_version(pool.version) < parse_version(wanted):
                return f"its pool {pool.name} runs {pool.version} instead of {wanted}"
    if selection_of(ev.spec.upgrade) is NodeImageSelection.LATEST:
        return ""  # something later may have been published since the upgrade began
    for pool in behind(inventory, _image_targets(ev).of(member)):
        return f"its pool {pool.name} runs image {pool.image or '(unknown)'}"
    return ""


def _image_targets(ev: Evaluation) -> ImageTargets:
    return ImageTargets(ev.spec.upgrade, ev.record.status.resolved.node_images, ev.facts.catalog)
