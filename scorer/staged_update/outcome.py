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
"""Polling interval of clusters in flight, in addition to their events (staged-updates.md 11)."""
APPROVAL_RECHECK: Final = timedelta(seconds=60)
"""Polling interval of an approval, in addition to its events."""


@dataclass(frozen=True, slots=True)
class Update:
    """Update the content of a cluster.

    Args:
        cluster: Name.
        binding: The current binding.
        wanted: The desired binding, the same object if only the condition is missing.
        message: Message of its condition RolloutStarted, which becomes True.
    """

    cluster: str
    binding: JsonObject
    wanted: JsonObject
    message: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove the placement from a cluster by deleting its binding."""

    cluster: str
    binding: JsonObject


@dataclass(frozen=True, slots=True)
class CreateApprovalRequest:
    """Create an approval request."""

    request: JsonObject


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete an approval request that was approved before the run requested the approval."""

    request: JsonObject


@dataclass(frozen=True, slots=True)
class Accept:
    """Store the status of an approval request that accepts the approval.

    Args:
        request: The current request.
        status: Complete new status.
    """

    request: JsonObject
    status: JsonObject


Action = Update | Remove | CreateApprovalRequest | Discard | Accept


@dataclass(frozen=True, slots=True)
class StagedUpdateStep:
    """Result of one pass over a run. The fields are executed in this order. A crash may occur between any two writes.

    Args:
        annotations: Annotations to set on the run.
        snapshots: Resource snapshots to write, one after another.
        actions: Independent actions.
        rollback: A run to create, which rolls back the changes of this failed one.
        status: New status of the run, stored only after everything above. None if unchanged.
        again: Delay before the next pass. None means that an event requeues the run.
        waits_for: Human-readable cause of an uninitialized run's waiting. Empty if it does not wait.
        events: Events to emit.
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
    """Causes that end a run for good. The values are a stable interface."""

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
    """The run has failed for good.

    Args:
        cause: Machine-readable cause.
        message: Human-readable message with the object or field and its value.
    """

    def __init__(self, cause: RunFailureCause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class NotYetError(Exception):
    """The run is valid, but an input will only arrive soon. The message names the input."""
