"""The record of a run, its ``status``, during a pass.

A pass works on a copy, which becomes the new status as a whole. Stages, clusters and tasks are raw maps: a run over a
thousand clusters is evaluated in every pass, and parsing it into models would take longer than the pass.

Source: docs/specifications/staged-updates.md 2 and 8.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from scorer.api.conditions import ConditionStatus, make_condition
from scorer.api.meta import JsonObject, format_time, parse_time
from scorer.api.placement.staged_update import UpdateStrategySpec
from scorer.api.unstructured.documents import dict_at, dicts_at, generation_of, list_at, status_of, text_at
from scorer.staged_update.outcome import RunFailedError, RunFailureCause

INITIALIZED: Final = "Initialized"
PROGRESSING: Final = "Progressing"
SUCCEEDED: Final = "Succeeded"
STARTED: Final = "Started"
REQUEST_CREATED: Final = "ApprovalRequestCreated"
REQUEST_APPROVED: Final = "ApprovalRequestApproved"
WAIT_ELAPSED: Final = "WaitTimeElapsed"

_LONGEST_MESSAGE: Final = 1024


class StagedUpdateRecord:
    """The status of a run.

    Args:
        run: The run as stored.
        now: Transition time of changed conditions.
    """

    def __init__(self, run: JsonObject, now: datetime) -> None:
        self.now = now
        self.generation = generation_of(run)
        self.status: JsonObject = _copy(status_of(run))
        for owner in self._owners():
            self._refresh(owner)

    def _owners(self) -> list[JsonObject]:
        """Return every part of the status that has conditions."""
        stages = [*self.stages, *([self.deletion] if self.deletion else [])]
        clusters = [entry for stage in stages for entry in clusters_of(stage)]
        return [self.status, *stages, *clusters, *(task for stage in stages for task in tasks_of(stage))]

    def _refresh(self, owner: JsonObject) -> None:
        """Set the observed generation of all conditions, so that a change of the state never makes them stale.

        A transition time in the future was written by a wrong clock, and is reset to now. Otherwise a wait would be
        extended by the error of that clock.
        """
        for condition in dicts_at(owner, "conditions"):
            condition["observedGeneration"] = self.generation
            if _is_ahead(condition, self.now):
                condition["lastTransitionTime"] = format_time(self.now)

    @property
    def stages(self) -> list[JsonObject]:
        """The update stages, in order."""
        return dicts_at(self.status, "stagesStatus")

    @property
    def deletion(self) -> JsonObject:
        """The deletion stage, empty before initialization."""
        return dict_at(self.status, "deletionStageStatus")

    def strategy(self) -> UpdateStrategySpec:
        """Return the run's copy of its strategy.

        Raises:
            RunFailedError: The copy is missing or invalid.
        """
        try:
            return UpdateStrategySpec.read(dict_at(self.status, "stagedUpdateStrategySnapshot"))
        except ValidationError as error:
            message = "status.stagedUpdateStrategySnapshot was changed by another client"
            raise RunFailedError(RunFailureCause.RECORD_CONTRADICTS_ITSELF, message) from error

    def set_condition(
        self, owner: JsonObject, kind: str, status: ConditionStatus, reason: str, message: str = ""
    ) -> None:
        """Set a condition. The transition time changes only with the status."""
        new_condition = make_condition(
            kind, status, reason, message[:_LONGEST_MESSAGE], generation=self.generation, now=self.now
        )
        conditions = list_at(owner, "conditions")
        owner["conditions"] = conditions
        for at, old in enumerate(conditions):
            if isinstance(old, dict) and old.get("type") == kind:
                if old.get("status") == status and old.get("lastTransitionTime"):
                    new_condition["lastTransitionTime"] = old["lastTransitionTime"]
                conditions[at] = new_condition
                return
        conditions.append(new_condition)

    def drop(self, owner: JsonObject, kind: str) -> None:
        """Remove a condition."""
        conditions = [condition for condition in dicts_at(owner, "conditions") if condition.get("type") != kind]
        owner.pop("conditions", None)
        if conditions:
            owner["conditions"] = conditions


def _is_ahead(condition: JsonObject, now: datetime) -> bool:
    try:
        return parse_time(text_at(condition, "lastTransitionTime")) > now
    except ValueError:
        return False


def _copy(value: Any) -> Any:
    """Return a deep copy of JSON."""
    if isinstance(value, dict):
        return {key: _copy(item) if isinstance(item, (dict, list)) else item for key, item in value.items()}
    return [_copy(item) if isinstance(item, (dict, list)) else item for item in value]


def clusters_of(stage: JsonObject) -> list[JsonObject]:
    """Return the clusters of a stage, in order."""
    return dicts_at(stage, "clusters")


def tasks_of(stage: JsonObject) -> list[JsonObject]:
    """Return the tasks of a stage, those before it first."""
    return [*dicts_at(stage, "beforeStageTaskStatus"), *dicts_at(stage, "afterStageTaskStatus")]


def condition(owner: object, kind: str) -> JsonObject:
    """Return a condition, or an empty mapping."""
    return next((item for item in dicts_at(owner, "conditions") if item.get("type") == kind), {})


def status(owner: object, kind: str) -> str:
    """Return the status of a condition, or an empty string."""
    return text_at(condition(owner, kind), "status")


def reason(owner: object, kind: str) -> str:
    """Return the reason of a condition, or an empty string."""
    return text_at(condition(owner, kind), "reason")


def since(owner: object, kind: str) -> datetime | None:
    """Return the transition time of a condition. None: unknown."""
    try:
        return parse_time(text_at(condition(owner, kind), "lastTransitionTime"))
    except ValueError:
        return None


def cluster_name(entry: JsonObject) -> str:
    """Return the name of a stage's cluster."""
    return text_at(entry, "clusterName")


def stage_name(stage: JsonObject) -> str:
    """Return the name of a stage."""
    return text_at(stage, "stageName")


def cluster_names(stage: JsonObject) -> Sequence[str]:
    """Return the names of a stage's clusters, in order."""
    return [cluster_name(entry) for entry in clusters_of(stage)]


def is_final(run_status: object) -> bool:
    """Return whether a run with this status has ended: it succeeded, was aborted, or could not be initialized."""
    return status(run_status, SUCCEEDED) != "" or status(run_status, INITIALIZED) == "False"
