"""Triggers of auto-upgrade profiles: when a run is created, and which earlier runs are stopped or deleted.

Source: docs/specifications/upgrade-runs.md 12.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.names import OURS
from scorer.api.unstructured.documents import with_metadata
from scorer.api.upgrade.fields import UpgradeError, UpgradeState, UpgradeType
from scorer.api.upgrade.profile import (
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
"""Label of a ClusterUpgradeRun: the profile that created it."""

_UNFINISHED: Final = frozenset(
    {UpgradeState.NOT_STARTED, UpgradeState.RUNNING, UpgradeState.PENDING, UpgradeState.STOPPING}
)
_ENDED: Final = frozenset({UpgradeState.COMPLETED, UpgradeState.SKIPPED, UpgradeState.FAILED})
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ProfileDecision:
    """Desired changes of a profile.

    Args:
        status: New status of the profile.
        create: Run to create. None: unset. An existing run of the same name is not changed.
        stop: Names of runs to stop.
        delete: Names of runs to delete: old ones, and those replaced before their start.
    """

    status: UpgradeProfileStatus
    create: JsonObject | None = None
    stop: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()


def trigger(
    profile: ClusterUpgradeProfile, catalog: ReleaseCatalog, runs: Sequence[ClusterUpgradeRun], now: datetime
) -> ProfileDecision:
    """Return the changes that a profile needs now.

    Args:
        profile: The profile as stored.
        catalog: Published versions.
        runs: Existing runs that it created.
        now: Current time.
    """
    status = profile.status.model_copy(update={"observed_generation": profile.metadata.generation})
    old = tuple(run.metadata.name for run in _too_many(profile, runs))
    if profile.spec.disabled:
        return ProfileDecision(status.model_copy(update={"next_candidate": ""}), delete=old)
    try:
        target = target_of(profile.spec, catalog)
    except NoTargetError as error:
        problem = UpgradeError(code=error.code.value, message=str(error))
        return ProfileDecision(_failed_status(status, problem, now), delete=old)
    if target.type is UpgradeType.NODE_IMAGE_ONLY and not target.images:
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
    """Create the run for a new target, or queue it behind earlier runs."""
    name = run_name(profile.metadata.name, profile.spec.channel, target)
    going_on = [other for other in runs if other.status.state in _UNFINISHED and other.metadata.name != name]
    queued_status = status.model_copy(update={"next_candidate": name})
    match profile.spec.concurrency_policy:
        case ConcurrencyPolicy.QUEUE if going_on:
            return ProfileDecision(queued_status, delete=old)
        case ConcurrencyPolicy.REPLACE if going_on:
            started_runs = [run for run in going_on if run.status.start_time is not None]
            unstarted = tuple(run.metadata.name for run in going_on if run.status.start_time is None)
            return ProfileDecision(
                queued_status, stop=tuple(run.metadata.name for run in started_runs), delete=(*old, *unstarted)
            )
    versions = (target.kubernetes_version,) if target.kubernetes_version else tuple(target.images.values())
    triggered_status = status.model_copy(
        update={
            "last_triggered_at": now,
            "last_trigger_status": TriggerStatus.SUCCEEDED,
            "last_trigger_error": None,
            "last_trigger_upgrade_versions": versions,
            "last_trigger_message": f"created run {name}",
            "current_run": name,
            "next_candidate": "",
        }
    )
    return ProfileDecision(
        triggered_status, create=generated_run(profile, target, start=profile.spec.auto_start), delete=old
    )


def generated_run(profile: ClusterUpgradeProfile, target: ProfileTarget, *, start: bool) -> JsonObject:
    """Return the run of a profile for a target, labeled with the profile."""
    return with_metadata(run_of(profile, target, start=start), labels={PROFILE_LABEL: profile.metadata.name})


def name_conflict_status(profile: ClusterUpgradeProfile, name: str, other: str, now: datetime) -> UpgradeProfileStatus:
    """Return the status of a profile whose run has the same name as a run of another profile.

    An existing run of that name normally counts as created (upgrade-runs.md 12). But a run of another profile has other
    members, so the members of this profile would silently never be upgraded.

    Args:
        profile: The profile as stored.
        name: Name of the run.
        other: The profile that created it.
        now: Current time.
    """
    status = profile.status.model_copy(update={"observed_generation": profile.metadata.generation})
    message = f"run {name} already exists, created by profile {other}: delete it, or rename one of the profiles"
    return _failed_status(status, UpgradeError(code=TargetErrorCode.RUN_NAME_TAKEN, message=message), now)


def _failed_status(status: UpgradeProfileStatus, error: UpgradeError, now: datetime) -> UpgradeProfileStatus:
    if status.last_trigger_status is TriggerStatus.FAILED and status.last_trigger_error == error:
        return status
    return status.model_copy(
        update={
            "last_triggered_at": now,
            "last_trigger_status": TriggerStatus.FAILED,
            "last_trigger_error": error,
            "last_trigger_message": error.message,
            "next_candidate": "",
        }
    )


def _without_error(status: UpgradeProfileStatus) -> UpgradeProfileStatus:
    """Return the status of a profile whose run exists, with any later error cleared."""
    if status.last_trigger_status is not TriggerStatus.FAILED:
        return status.model_copy(update={"next_candidate": ""})
    return status.model_copy(
        update={
            "last_trigger_status": TriggerStatus.SUCCEEDED,
            "last_trigger_error": None,
            "last_trigger_message": f"created run {status.current_run}",
            "next_candidate": "",
        }
    )


def _too_many(profile: ClusterUpgradeProfile, runs: Iterable[ClusterUpgradeRun]) -> list[ClusterUpgradeRun]:
    """Return the finished runs beyond the history limit, oldest first.

    A run with an abandoned operation that may be in progress is kept, because it is the only record of that operation.
    """
    ended_runs = sorted(
        (run for run in runs if run.status.state in _ENDED and not any(with_operation(run.status))),
        key=lambda run: (run.status.completion_time or _LONG_AGO, run.metadata.name),
    )
    limit = profile.spec.run_history_limit
    return [
        run for run in ended_runs[: max(0, len(ended_runs) - limit)] if run.metadata.name != profile.status.current_run
    ]
