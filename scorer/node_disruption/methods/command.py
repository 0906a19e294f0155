"""Commands: what a pass decides to disrupt, and what replaces it.

Source: nodepool-disruption.md 5.1, 6.4, 7 and 12.
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
"""How long a command of emptiness or consolidation waits before it is validated."""


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


@dataclass(frozen=True, slots=True)
class DisruptionScore:
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
    scores: Mapping[str, DisruptionScore] = field(default_factory=dict)

    @property
    def decided(self) -> Decided:
        """What it does to its nodes."""
        return Decided.REPLACE if self.replacements else Decided.DELETE


def over_limits(command: Command, cluster: ClusterSnapshot) -> Refusal | None:
    """Return why the replacements of a command cannot be created now, if so.

    A plan subtracts the nodes that it removes. A NodeClaim is only created while usage, with these nodes, is within the
    limits of the pool.
    """
    beyond = beyond_limits(cluster).intersection(node.pool for node in command.replacements)
    if not beyond:
        return None
    return Refusal(DisruptionBlockReason.POOL_AT_ITS_LIMIT, f"NodePool {min(beyond)} has more than its limits")


@dataclass(frozen=True, slots=True)
class MethodOutcome:
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
