"""Observations: what back ends report about the members in upgrade.

A report is final only if the cluster says so too: after a success it is looked at once more.

Source: upgrade-runs.md 6.6, 8.1, 10.3 and 13.1.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

from scorer.api.upgrade.fields import NodeImageSelection, UpgradeType
from scorer.api.upgrade.run import MemberStatus
from scorer.upgrade.back_ends.interface import Inventory, Observation, OperationState, Rejected
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.evaluation.member_transitions import (
    complete_member,
    fail_member,
    mark_waiting,
    roll_back_start,
    stop_member,
)
from scorer.upgrade.evaluation.timeouts import deadline_of
from scorer.upgrade.members.member import Member, pause_message
from scorer.upgrade.state.operations import operation_of
from scorer.upgrade.state.record import GroupWork
from scorer.upgrade.state.step import StartUpgrade
from scorer.upgrade.versions.comparison import is_version, parse_version
from scorer.upgrade.versions.images import ImageTargets, outdated_pools, selection_of


def process_observations(ev: Evaluation) -> None:
    """Follow what the back ends say about every member in upgrade, and about what was given up."""
    for group, index, entry in list(ev.record.running()):
        if (rejected := ev.facts.rejections.get(entry.operation_id)) is not None:
            _refused(ev, group, index, rejected)
        elif (observation := ev.facts.observations.get(entry.operation_id)) is not None:
            _follow(ev, group, index, observation)
    release_abandoned(ev)


def release_abandoned(ev: Evaluation) -> None:
    """Let go of the members whose upgrades were given up and have come to an end since, also of a run that is over."""
    for group, index, entry in list(ev.record.abandoned_operations()):
        observation = ev.facts.observations.get(entry.operation_id)
        if observation is not None and not observation.in_flight:
            group.update_member(index, operation_open=False)


def _refused(ev: Evaluation, group: GroupWork, index: int, rejected: Rejected) -> None:
    """Let a member fail for good, or wait, or stop if the run halts; the attempt is made again as the same one."""
    if not rejected.retryable:
        message = rejected.message or rejected.code or "its upgrader refuses the upgrade"
        fail_member(ev, group, index, "UpgradeRejected", message)
        return
    if ev.record.is_halted:
        stop_member(group, index)
    else:
        mark_waiting(ev, group, index, "ClusterBusy", rejected.message or "its upgrader has refused it for now")
    group.update_member(index, operation_id="", completion_time=ev.now)


def _follow(ev: Evaluation, group: GroupWork, index: int, found: Observation) -> None:
    ended = _ended(ev, group.members[index], found)
    match found.state:
        case OperationState.SUCCEEDED:
            _succeeded(ev, group, index, found, ended)
        case OperationState.FAILED:
            code = found.error.code if found.error is not None else ""
            message = found.error.message if found.error is not None else ""
            fail_member(ev, group, index, code or "UpgradeFailed", message or "its upgrade has failed", ended=ended)
        case OperationState.CANCELLED:
            fail_member(ev, group, index, "UpgradeFailed", "its upgrade was called off", ended=ended)


def _ended(ev: Evaluation, entry: MemberStatus, found: Observation) -> datetime | None:
    """Return when an upgrade has ended, neither before its start nor later; None: the back end does not say."""
    if found.finished_at is None:
        return None
    return max(min(found.finished_at, ev.now), min(entry.start_time or ev.now, ev.now))


def roll_back_lost_starts(ev: Evaluation) -> bool:
    """Take back every start that has never reached its back end, and that would not be made now; say whether one was.

    Such a call is made again under the same id (10.3). But nothing starts in a run that halts, outside of a window or
    on a member on hold (6.5, 8.5, 18.4), and between the decision and the call that would begin it there may be hours:
    the leader that decided has ended, or the back end could not be reached. So the member waits for its next turn, or
    is stopped, and is the same attempt then.
    """
    rolled_back = False
    for group, index, entry in list(_lost(ev)):
        member = ev.facts.members.get(entry.name)
        if member is None:
            continue
        if ev.record.is_halted:
            stop_member(group, index)
        elif member.upgrades_paused:
            mark_waiting(ev, group, index, "MemberOnHold", pause_message(member))
        elif (closed := ev.tiers.closed(member)) is not None:
            mark_waiting(ev, group, index, "MaintenanceWindowClosed", closed.message, closed.opens)
        else:
            continue
        roll_back_start(group, index)
        rolled_back = True
    return rolled_back


def retry_lost_starts(ev: Evaluation) -> None:
    """Ask again for the start of every operation that never reached its back end, and has not been given up since.

    It stays the same operation, so it was decided on when it was first asked for.
    """
    for _, _, entry in _lost(ev):
        if (member := ev.facts.members.get(entry.name)) is not None:
            operation = operation_of(ev.run, entry, member, _image_targets(ev), deadline_of(ev, entry))
            ev.actions.append(StartUpgrade(operation))


def _lost(ev: Evaluation) -> Iterator[tuple[GroupWork, int, MemberStatus]]:
    """Yield the members in upgrade whose back ends say that they have never been asked."""
    for group, index, entry in ev.record.running():
        observation = ev.facts.observations.get(entry.operation_id)
        if observation is not None and observation.state is OperationState.UNKNOWN:
            yield group, index, entry


def _succeeded(ev: Evaluation, group: GroupWork, index: int, found: Observation, ended: datetime | None) -> None:
    entry = group.members[index]
    member = ev.facts.members.get(entry.name)
    inventory = found.inventory or (member.inventory if member is not None else None)
    if member is None or inventory is None or _is_stale(inventory, found):
        return  # it is looked at again, until its time is over
    if missing := _missing(ev, entry, member, inventory, found):
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


def _missing(ev: Evaluation, entry: MemberStatus, member: Member, inventory: Inventory, found: Observation) -> str:
    """Return what a cluster that is said to be upgraded does not run; empty: it runs all of it.

    A pool whose version nobody tells contradicts nothing: some back ends never tell any, and an upgrade that has
    succeeded must not fail for that alone. What a pool is known to run counts.
    """
    target = entry.to_version
    if target and (not is_version(inventory.version) or parse_version(inventory.version) < parse_version(target)):
        return f"its control plane runs {inventory.version or 'an unknown version'} instead of {target}"
    if target and ev.type is UpgradeType.FULL:
        for pool in inventory.pools:
            if is_version(pool.version) and parse_version(pool.version) < parse_version(target):
                return f"its pool {pool.name} runs {pool.version} instead of {target}"
    for pool in outdated_pools(inventory, _wanted_images(ev, entry, member, found)):
        return f"its pool {pool.name} runs image {pool.image or '(unknown)'}"
    return ""


def _wanted_images(ev: Evaluation, entry: MemberStatus, member: Member, found: Observation) -> Mapping[str, str]:
    """Return the image of each family that an upgrade was to bring.

    The newest ones are those that its back end was asked for: others may have been published since. Of a back end that
    does not say what that was, they are those that were published when the upgrade began, as far as the catalog says
    when that was. The run does not record them: there is no room for that beside each of a thousand members.
    """
    if selection_of(ev.spec.upgrade) is NodeImageSelection.LATEST and found.asked is not None:
        return {each.family: each.version for each in found.asked}
    return _image_targets(ev).of(member, entry.start_time)


def _image_targets(ev: Evaluation) -> ImageTargets:
    return ImageTargets(ev.spec.upgrade, ev.record.status.resolved.node_images, ev.facts.catalog)
