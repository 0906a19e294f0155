"""Multi-node consolidation: as many nodes as possible go together, with one replacement at most.

The nodes are put in order, and the longest beginning of that order is sought that can go. The reference stops the
search after a minute, with the best it has found; here it stops after a number of simulations, so that the answer does
not depend on how fast a machine is.

Source: nodepool-disruption.md 6.3 and 7; Karpenter v1.15.0 ``pkg/controllers/disruption/multinodeconsolidation.go``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from scorer.api.node_pool import DisruptionReason
from scorer.node_disruption.candidates.candidate import Candidate, sorted_by_savings
from scorer.node_disruption.candidates.refusals import Held, Refusal
from scorer.node_disruption.cluster.requirements import labelled
from scorer.node_disruption.instance_types.catalog import InstanceType
from scorer.node_disruption.instance_types.new_node import NewNode
from scorer.node_disruption.methods.balanced import Totals, approved
from scorer.node_disruption.methods.command import Command, Method, MethodOutcome
from scorer.node_disruption.methods.consolidation import by_price, cheaper_than, consolidate, savings
from scorer.node_disruption.methods.context import Survey

MOST_NODES: Final = 100
"""How far the search goes; as in the reference, its last prefix may have one node more."""

_REASON = DisruptionReason.UNDERUTILIZED


def plan_multi_node(survey: Survey, totals: Mapping[str, Totals]) -> MethodOutcome:
    """Let as many nodes go together as possible, two at least.

    When none can, nodes that budgets hold back are not told: single-node consolidation looks at each of them again.
    """
    taking, held, chosen = survey.allowances.remaining_for(_REASON), list[Held](), list[Candidate]()
    for each in sorted_by_savings(survey.underutilized()):
        refusal = taking.consume(each.node.pool)
        if refusal is None:
            chosen.append(each)
        else:
            held.append(Held.of(each.name, _REASON, refusal))
    if command := _longest(survey, chosen, totals):
        return MethodOutcome((command,), tuple(held))
    return MethodOutcome(changes=tuple(sorted({each.until for each in held if each.until is not None})))


def same_type_guard(node: NewNode, candidates: Sequence[Candidate]) -> NewNode | Refusal:
    """Return a replacement without the types that keeping one of *candidates* would do as well as.

    If the replacement may become one of the types that go, the node of that type could stay instead: only types that
    are cheaper than the cheapest of those are kept.
    """
    kept = {each.name for each in node.types}
    prices = [
        _price_today(each.instance_type, each.node.labels)
        for each in candidates
        if each.instance_type and each.instance_type.name in kept
    ]
    return cheaper_than(node, min(prices)) if prices else node


def _price_today(kind: InstanceType, labels: Mapping[str, str]) -> float:
    """Return the lowest price at which a node with *labels* is offered, whether or not it can be had at present."""
    everything = replace(kind, offerings=tuple(replace(each, available=True) for each in kind.offerings))
    found = everything.cheapest(labelled(labels))
    return found if found < math.inf else 0.0


def _longest(survey: Survey, candidates: Sequence[Candidate], totals: Mapping[str, Totals]) -> Command | None:
    """Search for the longest prefix of *candidates* that can go, by halves."""
    best: Command | None = None
    low, high = 1, min(len(candidates) - 1, MOST_NODES)
    tries = survey.settings.multi_node_simulations
    while low <= high and tries > 0:
        middle, tries = (low + high) // 2, tries - 1
        found = _together(survey, candidates[: middle + 1], totals)
        if isinstance(found, Command):
            best, low = found, middle + 1
        else:
            high = middle - 1
    return best


def _together(survey: Survey, candidates: Sequence[Candidate], totals: Mapping[str, Totals]) -> Command | Refusal:
    command = consolidate(survey, candidates, Method.MULTI_NODE)
    if isinstance(command, Command) and command.replacements:
        guarded = same_type_guard(command.replacements[0], candidates)
        if isinstance(guarded, Refusal):
            return guarded
        replacements = (by_price(guarded),)
        command = replace(command, replacements=replacements, savings=savings(candidates, replacements))
    return approved(command, candidates, totals) if isinstance(command, Command) else command
