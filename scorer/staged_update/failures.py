"""Why a run cannot go on: for good, or for now."""

from enum import StrEnum


class Cause(StrEnum):
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

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class NotYetError(Exception):
    """Nothing is wrong with the run: what it needs is about to come; the message says what."""
