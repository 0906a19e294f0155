"""The policy ``Balanced``: the share of a pool's cost that a move saves must be at least half the share it disrupts.

Source: docs/specifications/nodepool-disruption.md 6.4; Karpenter v1.15.0 ``pkg/controllers/disruption/balanced.go``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from scorer.api.node_pool import ConsolidationPolicy
from scorer.node_disruption.candidates.candidate import Candidate, occupancy_cost
from scorer.node_disruption.candidates.refusals import DisruptionBlockReason, Refusal
from scorer.node_disruption.methods.command import Command, DisruptionScore
from scorer.node_disruption.methods.consolidation import price_of

LEAST_SCORE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals over all nodes of a pool.

    Args:
        cost: Prices of all its NodeClaims, per hour.
        disruption: Reschedule costs of its candidates, plus the `occupancy_cost` of its other nodes.
    """

    cost: float = 0.0
    disruption: float = 0.0


def pool_totals(nodes: Iterable[Candidate]) -> dict[str, Totals]:
    """Return the totals of each pool over *nodes*, candidates or not. A node without a NodeClaim costs nothing."""
    totals: dict[str, Totals] = {}
    for node in nodes:
        previous = totals.get(node.node.pool, Totals())
        price = node.price or 0.0 if node.node.claim else 0.0
        disruption = occupancy_cost(node.pods) if node.blockers else node.cost
        totals[node.node.pool] = Totals(previous.cost + price, previous.disruption + disruption)
    return totals


def can_pass(candidate: Candidate, totals: Mapping[str, Totals]) -> Refusal | None:
    """Return why no move of *candidate* can be approved, not even its deletion without a replacement, or None."""
    if not _is_balanced(candidate) or totals[candidate.node.pool].cost <= 0:
        return None
    score = _score(candidate.price or 0.0, candidate.cost, totals[candidate.node.pool])
    return None if score.value >= LEAST_SCORE else _too_low(candidate.node.pool, score)


def approved(command: Command, candidates: Sequence[Candidate], totals: Mapping[str, Totals]) -> Command | Refusal:
    """Return *command* with its scores, or why a balanced pool does not approve it."""
    scores = move_scores(command.savings, candidates, totals)
    for pool, score in scores.items():
        if score.value < LEAST_SCORE:
            return _too_low(pool, score)
    return replace(command, scores=scores)


def move_scores(
    savings: float, candidates: Sequence[Candidate], totals: Mapping[str, Totals]
) -> dict[str, DisruptionScore]:
    """Return the score of a move by balanced pool, with the savings divided in proportion to prices.

    Args:
        savings: Savings of the move, per hour.
        candidates: Nodes to be removed.
        totals: Totals of the pools.
    """
    price, score = price_of(candidates), dict[str, DisruptionScore]()
    for pool in sorted({candidate.node.pool for candidate in candidates if _is_balanced(candidate)}):
        own = [candidate for candidate in candidates if candidate.node.pool == pool]
        share = 1.0 if len(own) == len(candidates) or price <= 0 else price_of(own) / price
        score[pool] = _score(savings * share, sum(candidate.cost for candidate in own), totals[pool])
    return score


def _score(savings: float, disruption: float, totals: Totals) -> DisruptionScore:
    return DisruptionScore(savings, disruption, totals.cost, totals.disruption)


def _too_low(pool: str, score: DisruptionScore) -> Refusal:
    savings_text = f"the move would save {score.savings:g} of {score.pool_cost:g} per hour"
    cost_text = f"at a reschedule cost of {score.disruption:g} of {score.pool_disruption:g}"
    message = (
        f"NodePool {pool} is Balanced: {savings_text} {cost_text}, a score of {score.value:.3g} below {LEAST_SCORE:g}"
    )
    return Refusal(DisruptionBlockReason.SCORE, message)


def _is_balanced(candidate: Candidate) -> bool:
    assert candidate.pool is not None
    return candidate.pool.model.spec.disruption.consolidation_policy is ConsolidationPolicy.BALANCED
