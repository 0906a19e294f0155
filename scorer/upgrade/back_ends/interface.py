"""Interface to a back end that upgrades clusters: operations, inventories and observations.

No I/O: the controller that executes the actions of a run makes the calls.

Source: docs/specifications/upgrade-runs.md 13.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from scorer.api.upgrade.fields import NodeImageVersion, UpgradeError, UpgradeType


@dataclass(frozen=True, slots=True)
class Pool:
    """Versions of one node pool.

    Args:
        name: Name of the pool.
        version: Kubernetes version of its nodes, empty if unknown.
        family: Family of its node image.
        image: Version of its node image.
        nodes: Number of nodes.
    """

    name: str
    version: str = ""
    family: str = ""
    image: str = ""
    nodes: int = 0


@dataclass(frozen=True, slots=True)
class Inventory:
    """Versions that a cluster runs, and whether an upgrade could start.

    Args:
        version: Version of the control plane, empty if unknown.
        pools: Node pools.
        ready: False if the cluster is stopped or unreachable.
        busy: Description of another operation in progress, empty if idle.
        observed_at: Time of the observation, or None if it is current.
        chained: Whether this cluster can be upgraded across several minor versions in one upgrade.
    """

    version: str = ""
    pools: tuple[Pool, ...] = ()
    ready: bool = True
    busy: str = ""
    observed_at: datetime | None = None
    chained: bool = False


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities of a back end.

    Args:
        types: Supported upgrade types.
        chained_upgrades: Whether one upgrade can cross several minor versions.
        cancel: Whether it can cancel a running upgrade.
        node_image: Whether it can change node images.
    """

    types: frozenset[UpgradeType] = frozenset(UpgradeType)
    chained_upgrades: bool = False
    cancel: bool = False
    node_image: bool = True

    def supports(self, upgrade: UpgradeType) -> bool:
        """Return whether the back end supports upgrades of this type."""
        return upgrade in self.types and (self.node_image or upgrade is not UpgradeType.NODE_IMAGE_ONLY)


@dataclass(frozen=True, slots=True)
class Target:
    """Versions that a cluster is upgraded to.

    Args:
        type: Parts of the cluster that change.
        kubernetes_version: Target version, empty to keep the current versions.
        images: Node image per family. Pools of other families keep theirs.
    """

    type: UpgradeType
    kubernetes_version: str = ""
    images: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """One attempt to upgrade one cluster.

    Args:
        id: ``<run uid>/<member>/<attempt>``, the idempotency key: the same id is the same operation.
        run: Name of the run.
        member: The cluster.
        upgrader: The back end.
        attempt: Counts from 1.
        target: Versions that the cluster is upgraded to.
        deadline: Time at which the run gives up. None: unlimited.
        given_up: Whether the run has given up already, and only polls until the operation ends.
    """

    id: str
    run: str
    member: str
    upgrader: str
    attempt: int
    target: Target
    deadline: datetime | None = None
    given_up: bool = False


class OperationState(StrEnum):
    """Progress of an operation. UNKNOWN: the back end has no record of it."""

    UNKNOWN = "Unknown"
    ACCEPTED = "Accepted"
    IN_PROGRESS = "InProgress"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


_IN_FLIGHT = frozenset({OperationState.ACCEPTED, OperationState.IN_PROGRESS})


@dataclass(frozen=True, slots=True)
class Observation:
    """Report of a back end about an operation.

    Args:
        state: Progress of the operation.
        error: Cause of the failure.
        finished_at: End of the operation. None: unknown.
        inventory: Versions after the operation. None: unknown.
        unclaimed: Whether the operation is handed off, but no upgrader has accepted it yet.
        remark: Reason and message of an Event to emit. None: unset.
        asked: Node images that were requested from the back end. None: unknown.
        trouble: Failure that does not invalidate the observation, such as a notification that could not be sent. Counts
            as a failed call.
    """

    state: OperationState
    error: UpgradeError | None = None
    finished_at: datetime | None = None
    inventory: Inventory | None = None
    unclaimed: bool = False
    remark: tuple[str, str] | None = None
    asked: tuple[NodeImageVersion, ...] | None = None
    trouble: str = ""

    def with_remark(self, reason: str, message: str) -> "Observation":
        """Return a copy with a remark."""
        return replace(self, remark=(reason, message))

    @property
    def in_flight(self) -> bool:
        """Whether the operation may still change the cluster."""
        return self.state in _IN_FLIGHT


class Started(StrEnum):
    """A back end has accepted an operation. ALREADY_RUNNING: by an earlier call with the same id."""

    ACCEPTED = "Accepted"
    ALREADY_RUNNING = "AlreadyRunning"


class CancelResult(StrEnum):
    """Result of a request to cancel an operation."""

    CANCELLED = "Cancelled"
    TOO_LATE = "TooLate"
    NOT_SUPPORTED = "NotSupported"


@dataclass(frozen=True, slots=True)
class Issue:
    """A problem that would block an upgrade, found by preflight.

    Args:
        code: Machine-readable code.
        message: Human-readable message.
    """

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """A back end refuses an operation.

    Args:
        code: Machine-readable reason.
        message: Human-readable reason.
        retryable: Whether a later attempt may succeed.
    """

    code: str = ""
    message: str = ""
    retryable: bool = False


StartResult: TypeAlias = Started | Rejected
"""Result of the call that starts an operation."""
