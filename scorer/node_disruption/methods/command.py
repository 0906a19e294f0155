"""Commands: the nodes that a pass disrupts, and their replacements.

Source: docs/specifications/nodepool-disruption.md 5.1, 6.4, 7 and 12.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from scorer.api.node_pool import DisruptionReason
from scorer.node_disruption.candidates.refusals import DisruptionBlockReason, Held, Refusal
from scorer.node_disruption.cluster.snapshot import ClusterSnapshot
from scorer.node_disruption.instance_types.new_node import NewNode, beyond_limits

VALIDATION_DELAY: Final = timedelta(seconds=15)
"""Delay between a command of emptiness or consolidation and its validation."""


class Method(StrEnum):
    """Disruption methods, by precedence."""

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
"""Disruption reason of each method, as named by budgets."""


class Decided(StrEnum):
    """Action of a command on its nodes."""

    DELETE = "delete"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class DisruptionScore:
    """Share of a pool's cost that a move saves, relative to the share of the pool that it disrupts.

    Args:
        savings: Savings per hour, the share of this pool.
        disruption: Reschedule costs of this pool's nodes to be removed.
        pool_cost: Prices of all nodes of the pool, per hour.
        pool_disruption: Reschedule costs of all its nodes.
    """

    savings: float
    disruption: float
    pool_cost: float
    pool_disruption: float

    @property
    def value(self) -> float:
        """Saved share of the cost divided by the disrupted share of the pool. 0 without savings, cost or disruption."""
        if self.savings <= 0 or min(self.disruption, self.pool_cost, self.pool_disruption) <= 0:
            return 0.0
        return (self.savings / self.pool_cost) / (self.disruption / self.pool_disruption)


@dataclass(frozen=True, slots=True)
class Command:
    """Nodes that are disrupted together, and their replacements, which are created first.

    Args:
        method: Method that selected the nodes.
        reason: Reason as named by budgets.
        nodes: Names, in the order of the method.
        replacements: New nodes, each with its cheapest types first.
        savings: Savings per hour if each replacement becomes its cheapest option, 0 if prices are unknown.
        moves: Target node, old or new, by the key of each placed pod.
        validate_after: Delay before the command is validated and executed.
        scores: Scores of balanced pools, by name.
    """

    method: Method
    reason: DisruptionReason
    nodes: tuple[str, ...]
    replacements: tuple[NewNode, ...] = ()
    savings: float = 0.0
    moves: Mapping[str, str] = field(default_factory=dict)
    validate_after: timedelta = timedelta()
    scores: Mapping[str, DisruptionScore] = field(default_factory=dict)

    @property
    def decided(self) -> Decided:
        """Action on its nodes."""
        return Decided.REPLACE if self.replacements else Decided.DELETE


def over_limits(command: Command, cluster: ClusterSnapshot) -> Refusal | None:
    """Return why the replacements of a command cannot be created now, or None.

    A plan subtracts the nodes to be removed from the usage of their pool. These nodes still exist when the NodeClaims
    are created, so a pool that exceeds a limit with them cannot create any.
    """
    pools_beyond = beyond_limits(cluster).intersection(node.pool for node in command.replacements)
    if not pools_beyond:
        return None
    return Refusal(DisruptionBlockReason.POOL_AT_ITS_LIMIT, f"NodePool {min(pools_beyond)} would exceed its limits")


@dataclass(frozen=True, slots=True)
class MethodOutcome:
    """Result of one method.

    Args:
        commands: Commands to execute. A pass executes only those of the first method with a result.
        held: Nodes that the method would disrupt, and what holds them.
        unseen: Pools that it did not reach within its limit.
        changes: Times at which the result may change, in addition to those in *held*.
    """

    commands: tuple[Command, ...] = ()
    held: tuple[Held, ...] = ()
    unseen: frozenset[str] = frozenset()
    changes: tuple[datetime, ...] = ()
