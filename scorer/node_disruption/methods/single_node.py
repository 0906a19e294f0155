"""Single-node consolidation: nodes are tried one by one, until one can be removed.

The reference times out after three minutes, and the next pass starts with the pools that were not reached. Here the
limit is a number of simulations, so that the result does not depend on the speed of the machine.

Source: docs/specifications/nodepool-disruption.md 6.2, 6.3 and 7; Karpenter v1.15.0
``pkg/controllers/disruption/singlenodeconsolidation.go``.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import zip_longest

from scorer.api.node_pool import DisruptionReason
from scorer.api.values.quoting import format_count
from scorer.node_disruption.candidates.candidate import Candidate, sorted_by_savings
from scorer.node_disruption.candidates.refusals import DisruptionBlockReason, Held, Refusal
from scorer.node_disruption.methods.balanced import Totals, approved, can_pass
from scorer.node_disruption.methods.command import Command, Method, MethodOutcome
from scorer.node_disruption.methods.consolidation import consolidate
from scorer.node_disruption.methods.context import Survey

_REASON = DisruptionReason.UNDERUTILIZED


def plan_single_node(survey: Survey, totals: Mapping[str, Totals]) -> MethodOutcome:
    """Return the removal of the first node whose pods fit elsewhere at a lower price, and what holds earlier ones."""
    holds, tries = list[Held](), survey.settings.single_node_simulations
    order = interleave_pools(survey.underutilized(), survey.unseen)
    unseen_pools = {candidate.node.pool for candidate in order}
    for index, candidate in enumerate(order):
        if not tries:
            holds += [Held.of(unreached.name, _REASON, _not_reached(survey)) for unreached in order[index:]]
            return MethodOutcome((), tuple(holds), frozenset(unseen_pools))
        unseen_pools.discard(candidate.node.pool)
        refusal = survey.allowances.remaining_for(_REASON).consume(candidate.node.pool) or can_pass(candidate, totals)
        if refusal is None:
            tries -= 1
            outcome = consolidate(survey, [candidate], Method.SINGLE_NODE)
            outcome = approved(outcome, [candidate], totals) if isinstance(outcome, Command) else outcome
            if isinstance(outcome, Command):
                return MethodOutcome((outcome,), tuple(holds), survey.unseen)
            refusal = outcome
        holds.append(Held.of(candidate.name, _REASON, refusal))
    return MethodOutcome((), tuple(holds))


def interleave_pools(candidates: Iterable[Candidate], first: Collection[str] = ()) -> list[Candidate]:
    """Return the first node of each pool, then the second of each, and so on.

    Within a pool, nodes are sorted by savings ratio. In each round, the pool whose first node has the highest ratio
    comes first. The reference takes pools at random.

    Args:
        candidates: Candidates of any pools.
        first: Pools that come first in each round.
    """
    by_pool: dict[str, list[Candidate]] = {}
    for candidate in sorted_by_savings(candidates):
        by_pool.setdefault(candidate.node.pool, []).append(candidate)
    pools = sorted(by_pool, key=lambda name: name not in first)
    rounds = zip_longest(*(by_pool[name] for name in pools))
    return [candidate for turn in rounds for candidate in turn if candidate is not None]


def _not_reached(survey: Survey) -> Refusal:
    number = survey.settings.single_node_simulations
    return Refusal(
        DisruptionBlockReason.NOT_REACHED,
        f"not evaluated: the limit of {format_count(number, 'node')} in one pass was reached",
    )
