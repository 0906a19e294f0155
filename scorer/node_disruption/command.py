"""What a pass of the planner decides: which nodes go and what comes in their place, and why other nodes stay.

Source: nodepool-disruption.md 5.1, 6.4, 7 and 12.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from scorer.api.node_pool import DisruptionReason
from scorer.node_disruption.new_node import NewNode

VALIDATION_DELAY: Final = timedelta(seconds=15)
"""How long a command of emptiness or consolidation waits before it is validated."""
EXPIRED: Final = "Expired"
"""Why a node goes that has reached its age; no budget can name it (nodepool-disruption.md 4.3)."""


class Method(StrEnum):
    """Ways to find nodes that should go, in the order in which they are tried."""

    EMPTINESS = "Emptiness"
    STATIC_DRIFT = "StaticDrift"
    DRIFT = "Drift"
    MULTI_NODE = "MultiNodeConsolidation"
    SINGLE_NODE = "SingleNodeConsolidation"


REASONS: Final[Mapping[Method, DisruptionReason]] = {
    Method.EMPTINESS: DisruptionReason.EMPTY,
    Method.STATIC_DRIFT: DisruptionReason.DRIFTED,
    Method.DRIFT: DisruptionReason.DRIFTED,
    Method.MULTI_NODE: DisruptionReason.UNDERUTILIZED,
    Method.SINGLE_NODE: DisruptionReason.UNDERUTILIZED,
}
"""What budgets call what each method does."""


class Decided(StrEnum):
    """What a command does to its nodes."""

    DELETE = "delete"
    REPLACE = "replace"


class Event(StrEnum):
    """The events under which it is told that a node stays."""

    BLOCKED = "DisruptionBlocked"
    UNCONSOLIDATABLE = "Unconsolidatable"
    REJECTED = "ConsolidationRejected"


class Cause(StrEnum):
    """Why a node stays, in one word, beside those of `scorer.node_budgets.blockers.BlockReason`."""

    NOMINATED = "Nominated"
    POOL_UNKNOWN = "NodePoolUnknown"
    NO_INSTANCE_TYPES = "NoInstanceTypes"
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
        Cause.DISABLED,
        Cause.NOT_YET,
        Cause.ONLY_WHEN_EMPTY,
        Cause.NO_CATALOG,
        Cause.TYPE_UNKNOWN,
        Cause.NO_ZONE,
        Cause.NO_CAPACITY_TYPE,
        Cause.PODS_DO_NOT_FIT,
        Cause.SEVERAL_NODES,
        Cause.NOT_CHEAPER,
        Cause.MIN_VALUES,
        Cause.SPOT_TO_SPOT,
        Cause.FEW_SPOT_TYPES,
        Cause.NOT_REACHED,
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
        reason: Why it stays, in one word: a `Cause` or a `scorer.node_budgets.blockers.BlockReason`.
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
    def event(self) -> Event:
        """Under which event it is told."""
        if self.reason == Cause.SCORE:
            return Event.REJECTED
        return Event.UNCONSOLIDATABLE if self.reason in _UNCONSOLIDATABLE else Event.BLOCKED


@dataclass(frozen=True, slots=True)
class Score:
    """How much of the cost of a pool a move saves, against how much of the pool it disturbs.

    Args:
        savings: Per hour, the share of this pool.
        disruption: Reschedule costs of the nodes that go, of this pool.
        pool_cost: Prices of all nodes of the pool, per hour.
        pool_disruption: Reschedule costs of all its nodes.
    """

    savings: float
    disruption: float
    pool_cost: float
    pool_disruption: float

    @property
    def value(self) -> float:
        """The share of the cost that is saved for each share of the pool that is disturbed; 0: nothing is saved."""
        if self.savings <= 0 or min(self.disruption, self.pool_cost, self.pool_disruption) <= 0:
            return 0.0
        return (self.savings / self.pool_cost) / (self.disruption / self.pool_disruption)


@dataclass(frozen=True, slots=True)
class Command:
    """Nodes that go together, and what is made before they go.

    Args:
        method: That found them.
        reason: What budgets call it.
        nodes: Their names; in the order in which they were found.
        replacements: New nodes, the types of each with the cheapest first.
        savings: Per hour, if each replacement becomes the cheapest that it can be; 0 where no prices are known.
        moves: Name of the node, old or new, by the key of each pod that was found a place.
        validate_after: After how long it must be validated before it is carried out.
        scores: Of balanced pools, by their name.
    """

    method: Method
    reason: DisruptionReason
    nodes: tuple[str, ...]
    replacements: tuple[NewNode, ...] = ()
    savings: float = 0.0
    moves: Mapping[str, str] = field(default_factory=dict)
    validate_after: timedelta = timedelta()
    scores: Mapping[str, Score] = field(default_factory=dict)

    @property
    def decided(self) -> Decided:
        """What it does to its nodes."""
        return Decided.REPLACE if self.replacements else Decided.DELETE


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one method found.

    Args:
        commands: To be carried out; of one pass, only those of the first method that has some.
        held: Nodes that the method would have, and why they stay.
        unseen: Pools that it did not come to before its limit.
        changes: When the passing of time may make it find something, beside what *held* says.
    """

    commands: tuple[Command, ...] = ()
    held: tuple[Held, ...] = ()
    unseen: frozenset[str] = frozenset()
    changes: tuple[datetime, ...] = ()
