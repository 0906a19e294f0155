"""Refusals: why a node is not disrupted."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

EXPIRED: Final = "Expired"
"""Why a node goes that has reached its age; no budget can name it (nodepool-disruption.md 4.3)."""


class DisruptionEventReason(StrEnum):
    """The events under which it is told that a node stays."""

    BLOCKED = "DisruptionBlocked"
    UNCONSOLIDATABLE = "Unconsolidatable"
    REJECTED = "ConsolidationRejected"


class DisruptionBlockReason(StrEnum):
    """Why a node stays, in one word, beside those of `scorer.node_budgets.blockers.BlockReason`."""

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
    """Why something is not done.

    Args:
        cause: In one word.
        message: For people, with the values that decided.
        until: When it ends by itself; None when it does not, or that is not known.
    """

    cause: str
    message: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """Why a node stays that could go.

    Args:
        node: Its name.
        wanted: Why it could go: a `DisruptionReason`, or `EXPIRED`.
        reason: Why it stays, in one word: a `DisruptionBlockReason` or a `scorer.node_budgets.blockers.BlockReason`.
        message: For people, with the values that decided.
        until: When that ends by itself; None when it does not, or that is not known.
    """

    node: str
    wanted: str
    reason: str
    message: str
    until: datetime | None = None

    @classmethod
    def of(cls, node: str, wanted: str, refusal: Refusal) -> "Held":
        """Return that *node* stays for what was refused."""
        return cls(node, wanted, refusal.cause, refusal.message, refusal.until)

    @property
    def event(self) -> DisruptionEventReason:
        """Under which event it is told."""
        if self.reason == DisruptionBlockReason.SCORE:
            return DisruptionEventReason.REJECTED
        return (
            DisruptionEventReason.UNCONSOLIDATABLE
            if self.reason in _UNCONSOLIDATABLE
            else DisruptionEventReason.BLOCKED
        )
