"""Outcome of a pass: the step to execute, or the failure that ends the run or delays it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final

from scorer.api.event import Event
from scorer.api.meta import JsonObject
from scorer.rollout.writes import Write

RECHECK: Final = timedelta(seconds=15)
"""How often clusters in flight are looked at, besides whenever they report (staged-updates.md 11)."""
APPROVAL_RECHECK: Final = timedelta(seconds=60)
"""How often an approval is looked at, besides whenever it is written."""


@dataclass(frozen=True, slots=True)
class Update:
    """Give a cluster the wanted content.

    Args:
        cluster: Its name.
        binding: As it is now.
        wanted: As it shall be; the same object when only the condition is missing.
        message: Of its condition RolloutStarted, which becomes True.
    """

    cluster: str
    binding: JsonObject
    wanted: JsonObject
    message: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Take the placement off a cluster: delete its binding, as it is now."""

    cluster: str
    binding: JsonObject


@dataclass(frozen=True, slots=True)
class CreateApprovalRequest:
    """Create an approval request."""

    request: JsonObject


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete an approval request that nobody had asked for."""

    request: JsonObject


@dataclass(frozen=True, slots=True)
class Accept:
    """Store the status of an approval request: the approval counts from now on.

    Args:
        request: As it is now.
        status: The whole of it.
    """

    request: JsonObject
    status: JsonObject


Action = Update | Remove | CreateApprovalRequest | Discard | Accept


@dataclass(frozen=True, slots=True)
class StagedUpdateStep:
    """What one pass of a run comes to. Carried out in this order; a process may end between any two writes.

    Args:
        annotations: To put on the run.
        snapshots: Resource snapshots to write, one after the other.
        actions: Independent of one another.
        rollback: A run to create: it takes back what this one, which has failed, has changed.
        status: Of the run: stored once everything above is done, and only then. None: as it is.
        again: When to look again; None: after an event.
        waits_for: What a run that has not been initialised waits for, for people; empty: for nothing.
        events: To tell people.
    """

    annotations: Mapping[str, str] = field(default_factory=dict)
    snapshots: tuple[Write, ...] = ()
    actions: tuple[Action, ...] = ()
    rollback: JsonObject | None = None
    status: JsonObject | None = None
    again: timedelta | None = None
    waits_for: str = ""
    events: tuple[Event, ...] = ()


class RunFailureCause(StrEnum):
    """What ends a run for good. The values are stable: programs compare them."""

    PLACEMENT_NOT_FOUND = "placement-not-found"
    PLACEMENT_NOT_EXTERNAL = "placement-not-external"
    POLICY_SNAPSHOT_INVALID = "policy-snapshot-invalid"
    POLICY_NOT_SCHEDULED = "policy-not-scheduled"
    POLICY_CHANGED = "policy-changed"
    NO_BINDINGS = "no-bindings"
    BINDING_COUNT_MISMATCH = "binding-count-mismatch"
    APPLY_STRATEGY_CHANGED = "apply-strategy-changed"
    STRATEGY_NOT_FOUND = "strategy-not-found"
    STRATEGY_INVALID = "strategy-invalid"
    BEFORE_STAGE_TASKS_INVALID = "before-stage-tasks-invalid"
    AFTER_STAGE_TASKS_INVALID = "after-stage-tasks-invalid"
    LABEL_SELECTOR_INVALID = "label-selector-invalid"
    CLUSTER_IN_TWO_STAGES = "cluster-in-two-stages"
    SORTING_LABEL_INVALID = "sorting-label-invalid"
    CLUSTERS_IN_NO_STAGE = "clusters-in-no-stage"
    STAGES_CHANGED = "stages-changed"
    TOO_MANY_CLUSTERS = "too-many-clusters"
    RESOURCE_INDEX_INVALID = "resource-index-invalid"
    RESOURCE_SNAPSHOT_NOT_FOUND = "resource-snapshot-not-found"
    SELECTION_INVALID = "selection-invalid"
    FAILURE_POLICY_INVALID = "failure-policy-invalid"
    RECORD_CONTRADICTS_ITSELF = "record-contradicts-itself"
    PREEMPTED = "preempted"
    BINDING_GONE = "binding-gone"
    NOT_DELETING = "not-deleting"
    APPROVAL_REQUEST_TAKEN = "approval-request-taken"
    CLUSTERS_FAILED = "clusters-failed"


class RunFailedError(Exception):
    """The run is over.

    Args:
        cause: For programs.
        message: For people: which object or field, and its value.
    """

    def __init__(self, cause: RunFailureCause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class NotYetError(Exception):
    """Nothing is wrong with the run: what it needs is about to come; the message says what."""
