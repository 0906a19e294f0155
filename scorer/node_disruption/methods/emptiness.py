"""Emptiness: nodes without reschedulable pods that have an eviction cost are deleted, all in one command.

Source: docs/specifications/nodepool-disruption.md 5.5 to 5.7 and 7; Karpenter v1.15.0
``pkg/controllers/disruption/emptiness.go``.
"""

from collections.abc import Iterable

from scorer.api.node_pool import DisruptionReason
from scorer.node_budgets.blockers import DisruptionClass
from scorer.node_disruption.candidates.candidate import Candidate, sorted_by_savings
from scorer.node_disruption.candidates.refusals import Held
from scorer.node_disruption.methods.command import VALIDATION_DELAY, Command, Method, MethodOutcome
from scorer.node_disruption.methods.context import Survey, blocked_nodes

_EMPTY = DisruptionReason.EMPTY


def plan_emptiness(survey: Survey) -> MethodOutcome:
    """Return the deletion of empty nodes whose consolidateAfter has passed, as many as budgets allow.

    Static pools are skipped.
    """
    holds = list[Held]()
    for node in _empty_ones(survey.nodes.values()):
        holds += blocked_nodes(node, _EMPTY, survey.not_empty(node), node.blockers_for(DisruptionClass.GRACEFUL))
    allowance, selected = survey.allowances.remaining_for(_EMPTY), list[Candidate]()
    for candidate in sorted_by_savings(emptiable(survey)):
        refusal = allowance.consume(candidate.node.pool)
        if refusal is None:
            selected.append(candidate)
        else:
            holds.append(Held.of(candidate.name, _EMPTY, refusal))
    return MethodOutcome((_command(selected),) if selected else (), tuple(holds))


def emptiable(survey: Survey) -> list[Candidate]:
    """Return the nodes that emptiness may delete regardless of budgets, by name."""
    return [
        candidate
        for candidate in _empty_ones(survey.eligible(DisruptionClass.GRACEFUL))
        if survey.not_empty(candidate) is None
    ]


def _empty_ones(candidates: Iterable[Candidate]) -> list[Candidate]:
    return [
        candidate
        for candidate in candidates
        if candidate.is_empty and candidate.pool is not None and candidate.pool.replicas is None
    ]


def _command(candidates: Iterable[Candidate]) -> Command:
    nodes = tuple(candidates)
    return Command(
        method=Method.EMPTINESS,
        reason=_EMPTY,
        nodes=tuple(node.name for node in nodes),
        savings=sum(node.price or 0.0 for node in nodes),
        validate_after=VALIDATION_DELAY,
    )
