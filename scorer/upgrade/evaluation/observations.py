"""Observations: reports of back ends about the members in upgrade.

A success is final only after verification against a later inventory of the cluster.

Source: docs/specifications/upgrade-runs.md 6.6, 8.1, 10.3 and 13.1.
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
    """Process the report of each member in upgrade, and of each abandoned operation."""
    for group, index, entry in list(ev.record.running()):
        if (rejection := ev.facts.rejections.get(entry.operation_id)) is not None:
            _handle_rejection(ev, group, index, rejection)
        elif (observation := ev.facts.observations.get(entry.operation_id)) is not None:
            _follow(ev, group, index, observation)
    release_abandoned(ev)


def release_abandoned(ev: Evaluation) -> None:
    """Release the members whose abandoned operations have ended. Also called for finished runs."""
    for group, index, entry in list(ev.record.abandoned_operations()):
        if not ev.facts.may_be_in_flight(entry.operation_id):
            group.update_member(index, operation_open=False)


def _handle_rejection(ev: Evaluation, group: GroupWork, index: int, rejection: Rejected) -> None:
    """Fail a member, or let it wait, or stop it if the run halts. A retry reuses the attempt number."""
    if not rejection.retryable:
        message = rejection.message or rejection.code or "its upgrader refuses the upgrade"
        fail_member(ev, group, index, "UpgradeRejected", message)
        return
    if ev.record.is_halted:
        stop_member(group, index)
    else:
        mark_waiting(ev, group, index, "ClusterBusy", rejection.message or "its upgrader has refused it for now")
    group.update_member(index, operation_id="", completion_time=ev.now)


def _follow(ev: Evaluation, group: GroupWork, index: int, observation: Observation) -> None:
    end = _end_time(ev, group.members[index], observation)
    match observation.state:
        case OperationState.SUCCEEDED:
            _record_success(ev, group, index, observation, end)
        case OperationState.FAILED:
            code = observation.error.code if observation.error is not None else ""
            message = observation.error.message if observation.error is not None else ""
            fail_member(ev, group, index, code or "UpgradeFailed", message or "its upgrade has failed", end=end)
        case OperationState.CANCELLED:
            fail_member(ev, group, index, "UpgradeFailed", "its upgrade was cancelled", end=end)


def _end_time(ev: Evaluation, entry: MemberStatus, observation: Observation) -> datetime | None:
    """Return the end of an upgrade, clamped to its start and now. None: unknown."""
    if observation.finished_at is None:
        return None
    return max(min(observation.finished_at, ev.now), min(entry.start_time or ev.now, ev.now))


def roll_back_lost_starts(ev: Evaluation) -> bool:
    """Roll back starts that never reached their back end and would not be made now. Return whether any was rolled back.

    A lost call is normally retried with the same id (10.3). But a halted run, a closed window or a hold forbids starts
    (6.5, 8.5, 18.4), and hours may pass between the decision and the call, for example because the leader crashed or
    the back end was unreachable. The member then waits for its next turn, or is stopped. Its next start reuses the
    attempt number.
    """
    rolled_back = False
    for group, index, entry in list(_lost_members(ev)):
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
    """Retry the start of every operation that never reached its back end, unless it was given up.

    The operation keeps its id and the time of its decision.
    """
    for _, _, entry in _lost_members(ev):
        if (member := ev.facts.members.get(entry.name)) is not None:
            operation = operation_of(ev.run, entry, member, _image_targets(ev), deadline_of(ev, entry))
            ev.actions.append(StartUpgrade(operation))


def _lost_members(ev: Evaluation) -> Iterator[tuple[GroupWork, int, MemberStatus]]:
    """Yield the members in upgrade whose back ends have no record of the operation."""
    for group, index, entry in ev.record.running():
        observation = ev.facts.observations.get(entry.operation_id)
        if observation is not None and observation.state is OperationState.UNKNOWN:
            yield group, index, entry


def _record_success(
    ev: Evaluation, group: GroupWork, index: int, observation: Observation, end: datetime | None
) -> None:
    entry = group.members[index]
    member = ev.facts.members.get(entry.name)
    inventory = observation.inventory or (member.inventory if member is not None else None)
    if member is None or inventory is None or _is_stale(inventory, observation):
        return  # polled again until it times out
    if missing := _missing_text(ev, entry, member, inventory, observation):
        fail_member(ev, group, index, "VerificationFailed", missing, end=end)
    else:
        complete_member(ev, group, index, end)


def _is_stale(inventory: Inventory, observation: Observation) -> bool:
    """Return whether the inventory is older than the end of the upgrade."""
    return (
        inventory.observed_at is not None
        and observation.finished_at is not None
        and inventory.observed_at < observation.finished_at
    )


def _missing_text(
    ev: Evaluation, entry: MemberStatus, member: Member, inventory: Inventory, observation: Observation
) -> str:
    """Return how an upgraded cluster differs from its target, or an empty string.

    A pool of unknown version does not fail verification: some back ends never report pool versions. Known pool versions
    count.
    """
    target = entry.to_version
    if target and (not is_version(inventory.version) or parse_version(inventory.version) < parse_version(target)):
        return f"its control plane runs {inventory.version or 'an unknown version'} instead of {target}"
    if target and ev.type is UpgradeType.FULL:
        for pool in inventory.pools:
            if is_version(pool.version) and parse_version(pool.version) < parse_version(target):
                return f"its pool {pool.name} runs {pool.version} instead of {target}"
    for pool in outdated_pools(inventory, _wanted_images(ev, entry, member, observation)):
        return f"its pool {pool.name} runs image {pool.image or '(unknown)'}"
    return ""


def _wanted_images(ev: Evaluation, entry: MemberStatus, member: Member, observation: Observation) -> Mapping[str, str]:
    """Return the image per family that an upgrade was to install.

    For ``Latest``, these are the images that the back end was asked for, because newer ones may have been published
    since. If the back end does not report them, they are the images published before the start, as far as the catalog
    has dates. The run does not record them, because its status must fit a thousand members.
    """
    if selection_of(ev.spec.upgrade) is NodeImageSelection.LATEST and observation.asked is not None:
        return {image.family: image.version for image in observation.asked}
    return _image_targets(ev).of(member, entry.start_time)


def _image_targets(ev: Evaluation) -> ImageTargets:
    return ImageTargets(ev.spec.upgrade, ev.record.status.resolved.node_images, ev.facts.catalog)
