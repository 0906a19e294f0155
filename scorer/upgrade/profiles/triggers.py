"""When an auto-upgrade profile makes a run, and what becomes of the runs that it has made before.

Source: upgrade-runs.md 12.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.names import OURS
from scorer.api.unstructured.documents import with_metadata
from scorer.api.upgrade.fields import UpgradeError, UpgradeState
from scorer.api.upgrade.profile import (
    Channel,
    ClusterUpgradeProfile,
    ConcurrencyPolicy,
    TriggerStatus,
    UpgradeProfileStatus,
)
from scorer.api.upgrade.run import ClusterUpgradeRun
from scorer.upgrade.profiles.target import NoTargetError, ProfileTarget, TargetErrorCode, run_name, run_of, target_of
from scorer.upgrade.state.operations import with_operation
from scorer.upgrade.versions.catalog import ReleaseCatalog

PROFILE_LABEL: Final = OURS + "upgrade-profile"
"""On a ClusterUpgradeRun: the profile that has made it."""

_UNFINISHED: Final = frozenset(
    {UpgradeState.NOT_STARTED, UpgradeState.RUNNING, UpgradeState.PENDING, UpgradeState.STOPPING}
)
_ENDED: Final = frozenset({UpgradeState.COMPLETED, UpgradeState.SKIPPED, UpgradeState.FAILED})
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ProfileDecision:
    """What a profile wants now.

    Args:
        status: Of the profile.
        create: A run to make; None: none. One of its name that exists is left as it is.
        stop: Runs to stop, by name.
        delete: Runs to delete, by name: old ones, and those that are replaced before they have started.
    """

    status: UpgradeProfileStatus
    create: JsonObject | None = None
    stop: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()


def trigger(
    profile: ClusterUpgradeProfile, catalog: ReleaseCatalog, runs: Sequence[ClusterUpgradeRun], now: datetime
) -> ProfileDecision:
    """Say what a profile wants now.

    Args:
        profile: As it is stored.
        catalog: What is published.
        runs: Those that it has made and that are still there.
        now: The moment.
    """
    status = profile.status.model_copy(update={"observed_generation": profile.metadata.generation})
    old = tuple(run.metadata.name for run in _too_many(profile, runs))
    if profile.spec.disabled:
        return ProfileDecision(status.model_copy(update={"next_candidate": ""}), delete=old)
    try:
        target = target_of(profile.spec, catalog)
    except NoTargetError as error:
        problem = UpgradeError(code=error.code.value, message=str(error))
        return ProfileDecision(_failed(status, problem, now), delete=old)
    if profile.spec.channel is Channel.NODE_IMAGE and not target.images:
        return ProfileDecision(status.model_copy(update={"next_candidate": ""}), delete=old)
    name = run_name(profile.metadata.name, profile.spec.channel, target)
    if name == status.current_run:
        return ProfileDecision(_without_error(status), delete=old)
    return _begin(profile, target, runs, status, old, now)


def _begin(
    profile: ClusterUpgradeProfile,
    target: ProfileTarget,
    runs: Iterable[ClusterUpgradeRun],
    status: UpgradeProfileStatus,
    old: tuple[str, ...],
    now: datetime,
) -> ProfileDecision:
    """Make the run for a new target, or say what it waits for."""
    name = run_name(profile.metadata.name, profile.spec.channel, target)
    going_on = [each for each in runs if each.status.state in _UNFINISHED and each.metadata.name != name]
    waiting = status.model_copy(update={"next_candidate": name})
    match profile.spec.concurrency_policy:
        case ConcurrencyPolicy.QUEUE if going_on:
            return ProfileDecision(waiting, delete=old)
        case ConcurrencyPolicy.REPLACE if going_on:
            started = [run for run in going_on if run.status.start_time is not None]
            never = tuple(run.metadata.name for run in going_on if run.status.start_time is None)
            return ProfileDecision(waiting, stop=tuple(run.metadata.name for run in started), delete=(*old, *never))
    versions = (target.kubernetes_version,) if target.kubernetes_version else tuple(target.images.values())
    triggered = status.model_copy(
        update={
            "last_triggered_at": now,
            "last_trigger_status": TriggerStatus.SUCCEEDED,
            "last_trigger_error": None,
            "last_trigger_upgrade_versions": versions,
            "last_trigger_message": f"made run {name}",
            "current_run": name,
            "next_candidate": "",
        }
    )
    return ProfileDecision(triggered, create=generated_run(profile, target, start=profile.spec.auto_start), delete=old)


def generated_run(profile: ClusterUpgradeProfile, target: ProfileTarget, *, start: bool) -> JsonObject:
    """Return the run of a profile for a target, with the label that tells where it comes from."""
    return with_metadata(run_of(profile, target, start=start), labels={PROFILE_LABEL: profile.metadata.name})


def name_conflict_status(profile: ClusterUpgradeProfile, name: str, other: str, now: datetime) -> UpgradeProfileStatus:
    """Return the status of a profile whose run cannot be made, as another profile has one of the same name.

    A run of that name counts as made otherwise (upgrade-runs.md 12). But one of another profile has other members, so
    that those of this one would never be upgraded, and nobody would know.

    Args:
        profile: As it is stored.
        name: Of the run.
        other: The profile that has made it.
        now: The moment.
    """
    status = profile.status.model_copy(update={"observed_generation": profile.metadata.generation})
    message = f"run {name} is there already, and profile {other} has made it: delete it, or rename one of the profiles"
    return _failed(status, UpgradeError(code=TargetErrorCode.RUN_NAME_TAKEN, message=message), now)


def _failed(status: UpgradeProfileStatus, found: UpgradeError, now: datetime) -> UpgradeProfileStatus:
    if status.last_trigger_status is TriggerStatus.FAILED and status.last_trigger_error == found:
        return status
    return status.model_copy(
        update={
            "last_triggered_at": now,
            "last_trigger_status": TriggerStatus.FAILED,
            "last_trigger_error": found,
            "last_trigger_message": found.message,
            "next_candidate": "",
        }
    )


def _without_error(status: UpgradeProfileStatus) -> UpgradeProfileStatus:
    """Return the status of a profile whose run is made: what was wrong since is over."""
    if status.last_trigger_status is not TriggerStatus.FAILED:
        return status.model_copy(update={"next_candidate": ""})
    return status.model_copy(
        update={
            "last_trigger_status": TriggerStatus.SUCCEEDED,
            "last_trigger_error": None,
            "last_trigger_message": f"made run {status.current_run}",
            "next_candidate": "",
        }
    )


def _too_many(profile: ClusterUpgradeProfile, runs: Iterable[ClusterUpgradeRun]) -> list[ClusterUpgradeRun]:
    """Return the runs that have ended and are more than the history may have, the oldest first.

    One that has given up an upgrade whose end is not reported yet stays: without it, nobody would know of that.
    """
    ended = sorted(
        (each for each in runs if each.status.state in _ENDED and not any(with_operation(each.status))),
        key=lambda each: (each.status.completion_time or _LONG_AGO, each.metadata.name),
    )
    limit = profile.spec.run_history_limit
    return [run for run in ended[: max(0, len(ended) - limit)] if run.metadata.name != profile.status.current_run]
