"""The columns of ``kubectl get`` for our kinds, used by their definitions and our own tables.

Separate from `scorer.api.crd.definitions`, which loads every model: printing a table needs none of them.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from scorer.api import kinds
from scorer.api.kinds import Kind


class Column(NamedTuple):
    """A column of ``kubectl get``. A wide one is only shown with ``-o wide``."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False


def _condition(name: str, condition: str, *, wide: bool = False) -> Column:
    return Column(name, f'.status.conditions[?(@.type=="{condition}")].status', wide=wide)


def _condition_generation(name: str, condition: str, *, wide: bool = False) -> Column:
    return Column(name, f'.status.conditions[?(@.type=="{condition}")].observedGeneration', "integer", wide)


AGE = Column("Age", ".metadata.creationTimestamp", "date")
_GENERATION = Column("Gen", ".metadata.generation", "integer")
_USAGE = ".status.resourceUsage."


def _placement_columns(prefix: str) -> tuple[Column, ...]:
    return (
        _GENERATION,
        Column("Type", ".spec.policy.placementType", wide=True),
        _condition("Scheduled", prefix + "Scheduled"),
        _condition_generation("Scheduled-Gen", prefix + "Scheduled"),
        _condition("Work-Synchronized", prefix + "WorkSynchronized", wide=True),
        _condition_generation("Work-Synchronized-Gen", prefix + "WorkSynchronized", wide=True),
        _condition("Available", prefix + "Available"),
        _condition_generation("Available-Gen", prefix + "Available"),
        AGE,
    )


_SNAPSHOT_COLUMNS = (_GENERATION, AGE)
_BINDING_COLUMNS = (
    _condition("WorkSynchronized", "WorkSynchronized"),
    _condition("ResourcesApplied", "Applied"),
    _condition("ResourceAvailable", "Available", wide=True),
    AGE,
)
_RUN_COLUMNS = (
    Column("Placement", ".spec.placementName"),
    Column("Resource-Snapshot-Index", ".status.resourceSnapshotIndexUsed"),
    Column("Policy-Snapshot-Index", ".status.policySnapshotIndexUsed"),
    _condition("Initialized", "Initialized"),
    _condition("Progressing", "Progressing"),
    _condition("Succeeded", "Succeeded"),
    AGE,
    Column("Strategy", ".spec.stagedRolloutStrategyName", wide=True),
)
_APPROVAL_COLUMNS = (
    Column("Update-Run", ".spec.parentStageRollout"),
    Column("Stage", ".spec.targetStage"),
    _condition("Approved", "Approved"),
    _condition("ApprovalAccepted", "ApprovalAccepted"),
    AGE,
)

PRINTER_COLUMNS: Final[Mapping[Kind, tuple[Column, ...]]] = {
    kinds.PLACEMENT: _placement_columns("ClusterResourcePlacement"),
    kinds.RESOURCE_PLACEMENT: _placement_columns("ResourcePlacement"),
    kinds.PLACEMENT_STATUS: (
        Column("Resource-Index", ".sourceStatus.observedResourceIndex"),
        Column("Last-Updated", ".lastUpdatedTime"),
        AGE,
    ),
    kinds.POLICY_SNAPSHOT: _SNAPSHOT_COLUMNS,
    kinds.NAMESPACED_POLICY_SNAPSHOT: _SNAPSHOT_COLUMNS,
    kinds.RESOURCE_SNAPSHOT: _SNAPSHOT_COLUMNS,
    kinds.NAMESPACED_RESOURCE_SNAPSHOT: _SNAPSHOT_COLUMNS,
    kinds.BINDING: _BINDING_COLUMNS,
    kinds.NAMESPACED_BINDING: _BINDING_COLUMNS,
    kinds.STAGED_RUN: _RUN_COLUMNS,
    kinds.NAMESPACED_STAGED_RUN: _RUN_COLUMNS,
    kinds.APPROVAL_REQUEST: _APPROVAL_COLUMNS,
    kinds.NAMESPACED_APPROVAL_REQUEST: _APPROVAL_COLUMNS,
    kinds.EVICTION: (_condition("Valid", "Valid"), _condition("Executed", "Executed"), AGE),
    kinds.MEMBER_CLUSTER: (
        _condition("Joined", "Joined"),
        AGE,
        Column("Member-Agent-Last-Seen", '.status.agentStatus[?(@.type=="MemberAgent")].lastReceivedHeartbeat', "date"),
        Column("Node-Count", r".status.properties.kubernetes-fleet\.io/node-count.value"),
        Column("Available-CPU", _USAGE + "available.cpu"),
        Column("Available-Memory", _USAGE + "available.memory"),
        Column("Allocatable-CPU", _USAGE + "allocatable.cpu", wide=True),
        Column("Allocatable-Memory", _USAGE + "allocatable.memory", wide=True),
        _condition("Content-Applied", "ContentApplied"),
    ),
    kinds.INTERNAL_MEMBER_CLUSTER: (AGE,),
    kinds.NODE_POOL: (
        Column("NodeClass", ".spec.template.spec.nodeClassRef.name"),
        Column("Nodes", ".status.nodes", "integer"),
        _condition("Ready", "Ready"),
        AGE,
        Column("Weight", ".spec.weight", "integer", wide=True),
        Column("CPU", ".status.resources.cpu", wide=True),
        Column("Memory", ".status.resources.memory", wide=True),
    ),
    kinds.UPGRADE_STRATEGY: (_condition("Valid", "Valid"), AGE),
    kinds.UPGRADE_RUN: (
        Column("Type", ".spec.upgrade.type"),
        Column("Version", ".spec.upgrade.kubernetesVersion"),
        Column("State", ".status.state"),
        Column("Members", ".status.counts.total", "integer"),
        Column("Completed", ".status.counts.completed", "integer"),
        Column("Failed", ".status.failureCount", "integer"),
        AGE,
        Column("Strategy", ".spec.strategyRef.name", wide=True),
        Column("Running", ".status.counts.running", "integer", wide=True),
        Column("Pending", ".status.counts.pending", "integer", wide=True),
        Column("Next-Wakeup", ".status.nextWakeup", wide=True),
        Column("ETA", ".status.plan.eta", wide=True),
    ),
    kinds.UPGRADE_GATE: (
        Column("Run", ".spec.runName"),
        Column("Stage", ".spec.stage"),
        Column("Group", ".spec.group"),
        Column("Timing", ".spec.timing"),
        Column("Type", ".spec.type"),
        Column("State", ".status.state"),
        AGE,
        Column("Starts", ".spec.absoluteStartTime", wide=True),
        _condition("Approved", "Approved", wide=True),
        Column("Display-Name", ".spec.displayName", wide=True),
    ),
    kinds.UPGRADE_PROFILE: (
        Column("Channel", ".spec.channel"),
        Column("Disabled", ".spec.disabled", "boolean"),
        Column("Last-Trigger", ".status.lastTriggerStatus"),
        Column("Triggered", ".status.lastTriggeredAt", "date"),
        Column("Current-Run", ".status.currentRun"),
        AGE,
        Column("Strategy", ".spec.strategyRef.name", wide=True),
        Column("Next-Candidate", ".status.nextCandidate", wide=True),
    ),
    kinds.MAINTENANCE_WINDOW: (
        Column("Target", ".spec.target"),
        Column("Start", ".spec.startTime"),
        Column("Hours", ".spec.durationHours", "integer"),
        Column("Offset", ".spec.utcOffset"),
        AGE,
    ),
    kinds.UPGRADE_REQUEST: (
        Column("Member", ".spec.memberName"),
        Column("Type", ".spec.upgradeType"),
        Column("Version", ".spec.kubernetesVersion"),
        Column("Phase", ".status.phase"),
        Column("Progress", ".status.progressPercent", "integer"),
        AGE,
        Column("Run", ".spec.runName", wide=True),
        Column("Heartbeat", ".status.heartbeatTime", "date", wide=True),
        Column("Deadline", ".spec.deadline", wide=True),
    ),
}
"""Columns of ``kubectl get``. A kind that is not listed has name and age."""
