"""The interface to a back end that upgrades clusters: operations, inventories and observations; no calls.

The calls are on the other side, with the controller that carries out the actions of a run.

Source: upgrade-runs.md 13.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from scorer.api.upgrade.fields import NodeImageVersion, UpgradeError, UpgradeType


@dataclass(frozen=True, slots=True)
class Pool:
    """What a node pool runs.

    Args:
        name: Of the pool.
        version: The Kubernetes version of its nodes; empty: nobody knows.
        family: The family of its node image.
        image: The version of its node image.
        nodes: How many nodes it has.
    """

    name: str
    version: str = ""
    family: str = ""
    image: str = ""
    nodes: int = 0


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a cluster runs, and whether an upgrade could begin.

    Args:
        version: Of the control plane; empty: nobody knows.
        pools: Its node pools.
        ready: False: it is stopped or unreachable.
        busy: Which other operation is running on it; empty: none.
        observed_at: When it was looked at; None: now.
        chained: Whether this very cluster can go up several minor versions in one upgrade.
    """

    version: str = ""
    pools: tuple[Pool, ...] = ()
    ready: bool = True
    busy: str = ""
    observed_at: datetime | None = None
    chained: bool = False


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a back end can do.

    Args:
        types: Which upgrades.
        chained_upgrades: Whether it can go up several minor versions in one upgrade.
        cancel: Whether it can call an upgrade off.
        node_image: Whether it can change node images.
    """

    types: frozenset[UpgradeType] = frozenset(UpgradeType)
    chained_upgrades: bool = False
    cancel: bool = False
    node_image: bool = True

    def supports(self, upgrade: UpgradeType) -> bool:
        """Say whether it can carry out such an upgrade."""
        return upgrade in self.types and (self.node_image or upgrade is not UpgradeType.NODE_IMAGE_ONLY)


@dataclass(frozen=True, slots=True)
class Target:
    """What a cluster is to run.

    Args:
        type: Which parts change.
        kubernetes_version: Empty: the versions stay.
        images: The node image of each family; the pools of other families keep theirs.
    """

    type: UpgradeType
    kubernetes_version: str = ""
    images: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """One attempt to upgrade one cluster.

    Args:
        id: ``<run uid>/<member>/<attempt>``; a repeated one is the same operation.
        run: Name of the run.
        member: The cluster.
        upgrader: The back end.
        attempt: Counts from 1.
        target: What the cluster is to run.
        deadline: When the run gives up; None: never.
        given_up: The run has done so already, and only asks whether it has come to an end.
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
    """How far an operation has got; UNKNOWN: the back end has never seen it."""

    UNKNOWN = "Unknown"
    ACCEPTED = "Accepted"
    IN_PROGRESS = "InProgress"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


_IN_FLIGHT = frozenset({OperationState.ACCEPTED, OperationState.IN_PROGRESS})


@dataclass(frozen=True, slots=True)
class Observation:
    """What a back end says about an operation.

    Args:
        state: How far it is.
        error: Why it has failed.
        finished_at: When it ended; None: the back end does not say.
        inventory: What the cluster runs since; None: it was not looked at.
        unclaimed: The operation is handed off, and nobody has taken it yet.
        remark: What people should know of it: the reason of an event and its message; None: nothing.
        asked: The node images that the back end was asked for; None: it does not say.
        trouble: What has gone wrong with the back end though it has answered, which counts as a call that failed.
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
        """Return the same with something that people should know."""
        return replace(self, remark=(reason, message))

    @property
    def in_flight(self) -> bool:
        """Say whether the operation may still change the cluster."""
        return self.state in _IN_FLIGHT


class Started(StrEnum):
    """A back end has taken an operation; ALREADY_RUNNING: it had done so before."""

    ACCEPTED = "Accepted"
    ALREADY_RUNNING = "AlreadyRunning"


class CancelResult(StrEnum):
    """What has become of the wish to call an operation off."""

    CANCELLED = "Cancelled"
    TOO_LATE = "TooLate"
    NOT_SUPPORTED = "NotSupported"


@dataclass(frozen=True, slots=True)
class Issue:
    """Something that would be in the way of an upgrade, found before it begins.

    Args:
        code: What, for programs.
        message: What, for people.
    """

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """A back end does not take an operation.

    Args:
        code: Why, for programs.
        message: Why, for people.
        retryable: Whether it may take it later.
    """

    code: str = ""
    message: str = ""
    retryable: bool = False


StartResult: TypeAlias = Started | Rejected
"""What becomes of the call that starts an operation."""
