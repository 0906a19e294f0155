"""Refusals: why a node is not disrupted."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

EXPIRED: Final = "Expired"
"""Reason for the disruption of an expired node. No budget can name it (nodepool-disruption.md 4.3)."""


class DisruptionEventReason(StrEnum):
    """Event reasons for a node that is not disrupted."""

    BLOCKED = "DisruptionBlocked"
    UNCONSOLIDATABLE = "Unconsolidatable"
    REJECTED = "ConsolidationRejected"


class DisruptionBlockReason(StrEnum):
    """Reasons why a node is not disrupted, in addition to those of `scorer.node_budgets.blockers.BlockReason`."""

    NOMINATED = "Nominated"
    POOL_UNKNOWN = "NodePoolUnknown"
    NO_INSTANCE_TYPES = "NoInstanceTypes"
    NO_READY_POOL = "NoReadyNodePool"
    BUDGET = "Budget"
    PODS_WITHOUT_PLACE = "PodsWithoutPlace"
    POOL_AT_ITS_LIMIT = "NodePoolAtItsLimit"
    SCALING_DOWN = "ScalingDown"
    DISABLED = "ConsolidationDisabled"
    NOT_YET = "ConsolidateAfter"
    ONLY_WHEN_EMPTY = "WhenEmpty"
    NO_CATALOG = "NoCatalog"
    TYPE_UNKNOWN = "InstanceTypeUnknown"
    NO_ZONE = "ZoneMissing"
    NO_CAPACITY_TYPE = "CapacityTypeMissing"
    PODS_DO_NOT_FIT = "PodsDoNotFit"
    SEVERAL_NODES = "SeveralNodesNeeded"
    NOT_CHEAPER = "NoCheaperReplacement"
    MIN_VALUES = "MinValues"
    SPOT_TO_SPOT = "SpotToSpotDisabled"
    FEW_SPOT_TYPES = "TooFewCheaperSpotTypes"
    SCORE = "ScoreTooLow"
    NOT_REACHED = "NotReached"


_UNCONSOLIDATABLE: Final = frozenset(
    (
        DisruptionBlockReason.DISABLED,
        DisruptionBlockReason.NOT_YET,
        DisruptionBlockReason.ONLY_WHEN_EMPTY,
        DisruptionBlockReason.NO_CATALOG,
        DisruptionBlockReason.TYPE_UNKNOWN,
        DisruptionBlockReason.NO_ZONE,
        DisruptionBlockReason.NO_CAPACITY_TYPE,
        DisruptionBlockReason.PODS_DO_NOT_FIT,
        DisruptionBlockReason.SEVERAL_NODES,
        DisruptionBlockReason.NOT_CHEAPER,
        DisruptionBlockReason.MIN_VALUES,
        DisruptionBlockReason.SPOT_TO_SPOT,
        DisruptionBlockReason.FEW_SPOT_TYPES,
        DisruptionBlockReason.NOT_REACHED,
    )
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Refusal of a disruption.

    Args:
        cause: Machine-readable reason.
        message: Human-readable reason with the deciding values.
        until: Time at which it ends without intervention, or None if that is unknown.
    """

    cause: str
    message: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A node that has a reason for disruption but is not disrupted.

    Args:
        node: Name of the node.
        wanted: Reason for its disruption: a `DisruptionReason`, or `EXPIRED`.
        reason: Cause of the refusal: a `DisruptionBlockReason` or a `scorer.node_budgets.blockers.BlockReason`.
        message: Human-readable reason with the deciding values.
        until: Time at which it ends without intervention, or None if that is unknown.
    """

    node: str
    wanted: str
    reason: str
    message: str
    until: datetime | None = None

    @classmethod
    def of(cls, node: str, reason: str, refusal: Refusal) -> "Held":
        """Return *refusal* as a held node."""
        return cls(node, reason, refusal.cause, refusal.message, refusal.until)

    @property
    def event(self) -> DisruptionEventReason:
        """Event reason under which it is reported."""
        if self.reason == DisruptionBlockReason.SCORE:
            return DisruptionEventReason.REJECTED
        return (
            DisruptionEventReason.UNCONSOLIDATABLE
            if self.reason in _UNCONSOLIDATABLE
            else DisruptionEventReason.BLOCKED
        )
