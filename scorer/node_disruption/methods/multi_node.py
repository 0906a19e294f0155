"""Multi-node consolidation: as many nodes as possible are removed together, with at most one replacement.

The nodes are sorted, and a binary search finds the longest prefix that can be removed. The reference stops the search
after a minute and uses the best result so far. Here the limit is a number of simulations, so that the result does not
depend on the speed of the machine.

Source: docs/specifications/nodepool-disruption.md 6.3 and 7; Karpenter v1.15.0
``pkg/controllers/disruption/multinodeconsolidation.go``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from scorer.api.node_pool import DisruptionReason
from scorer.node_disruption.candidates.candidate import Candidate, sorted_by_savings
from scorer.node_disruption.candidates.refusals import Held, Refusal
from scorer.node_disruption.cluster.requirements import requirements_of_labels
from scorer.node_disruption.instance_types.catalog import InstanceType
from scorer.node_disruption.instance_types.new_node import NewNode
from scorer.node_disruption.methods.balanced import Totals, approved
from scorer.node_disruption.methods.command import Command, Method, MethodOutcome
from scorer.node_disruption.methods.consolidation import by_price, cheaper_than, consolidate, savings
from scorer.node_disruption.methods.context import Survey

MOST_NODES: Final = 100
"""Bound of the search. As in the reference, the last prefix may have one node more."""

_REASON = DisruptionReason.UNDERUTILIZED


def plan_multi_node(survey: Survey, totals: Mapping[str, Totals]) -> MethodOutcome:
    """Return the removal of as many nodes as possible together, at least two.

    If none can be removed, nodes held by budgets are not reported, because single-node consolidation checks each of
    them again.
    """
    allowance, holds, selected = survey.allowances.remaining_for(_REASON), list[Held](), list[Candidate]()
    for candidate in sorted_by_savings(survey.underutilized()):
        refusal = allowance.consume(candidate.node.pool)
        if refusal is None:
            selected.append(candidate)
        else:
            holds.append(Held.of(candidate.name, _REASON, refusal))
    if command := _longest(survey, selected, totals):
        return MethodOutcome((command,), tuple(holds))
    return MethodOutcome(
        changes=tuple(sorted({blocked_node.until for blocked_node in holds if blocked_node.until is not None}))
    )


def same_type_guard(node: NewNode, candidates: Sequence[Candidate]) -> NewNode | Refusal:
    """Return a replacement without the types that would not be cheaper than keeping one of *candidates*, or a refusal.

    If the replacement may have the type of a candidate, that candidate could be kept instead. Therefore only types that
    are cheaper than the cheapest such candidate remain.
    """
    names = {instance_type.name for instance_type in node.types}
    prices = [
        _price_today(candidate.instance_type, candidate.node.labels)
        for candidate in candidates
        if candidate.instance_type and candidate.instance_type.name in names
    ]
    return cheaper_than(node, min(prices)) if prices else node


def _price_today(kind: InstanceType, labels: Mapping[str, str]) -> float:
    """Return the lowest price of a node with *labels*, even if the offering is currently unavailable."""
    all_available = replace(kind, offerings=tuple(replace(offering, available=True) for offering in kind.offerings))
    offering = all_available.cheapest(requirements_of_labels(labels))
    return offering if offering < math.inf else 0.0


def _longest(survey: Survey, candidates: Sequence[Candidate], totals: Mapping[str, Totals]) -> Command | None:
    """Return the command for the longest prefix of *candidates* that can be removed, by binary search, or None."""
    best: Command | None = None
    low, high = 1, min(len(candidates) - 1, MOST_NODES)
    tries = survey.settings.multi_node_simulations
    while low <= high and tries > 0:
        middle, tries = (low + high) // 2, tries - 1
        command = _together(survey, candidates[: middle + 1], totals)
        if isinstance(command, Command):
            best, low = command, middle + 1
        else:
            high = middle - 1
    return best


def _together(survey: Survey, candidates: Sequence[Candidate], totals: Mapping[str, Totals]) -> Command | Refusal:
    command = consolidate(survey, candidates, Method.MULTI_NODE)
    if isinstance(command, Command) and command.replacements:
        new_node = same_type_guard(command.replacements[0], candidates)
        if isinstance(new_node, Refusal):
            return new_node
        replacements = (by_price(new_node),)
        command = replace(command, replacements=replacements, savings=savings(candidates, replacements))
    return approved(command, candidates, totals) if isinstance(command, Command) else command
