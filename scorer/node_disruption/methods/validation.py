"""Validation: whether an earlier command is still valid in the present cluster.

Source: nodepool-disruption.md 7; Karpenter v1.15.0 ``pkg/controllers/disruption/validation.go``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from scorer.node_disruption.candidates.candidate import Candidate
from scorer.node_disruption.methods.command import Command, Method
from scorer.node_disruption.methods.consolidation import price_of, unschedulable_refusal
from scorer.node_disruption.methods.context import Survey
from scorer.node_disruption.methods.emptiness import emptiable
from scorer.node_disruption.scheduling.relocation import Relocation


class ValidationFailureReason(StrEnum):
    """Machine-readable cause of a failed validation."""

    BUDGET = "budget"
    SCHEDULING = "scheduling"
    CHURN = "churn"


@dataclass(frozen=True, slots=True)
class ValidationFailure:
    """A command is no longer valid.

    Args:
        word: Machine-readable cause.
        message: Human-readable reason with the deciding values.
    """

    word: ValidationFailureReason
    message: str


def revalidated(command: Command, survey: Survey) -> Command | ValidationFailure:
    """Return the still valid part of *command* in the present cluster. Drift is not validated.

    Emptiness keeps the nodes that are still empty. A consolidation is either valid as a whole, with updated moves, or
    not at all.
    """
    if command.method is Method.EMPTINESS:
        return _still_empty(command, survey)
    if command.method in (Method.MULTI_NODE, Method.SINGLE_NODE):
        return _still_cheaper(command, survey)
    return command


def _still_empty(command: Command, survey: Survey) -> Command | ValidationFailure:
    by_name = {candidate.name: candidate for candidate in emptiable(survey)}
    still = [by_name[name] for name in command.nodes if name in by_name]
    if not still:
        return ValidationFailure(ValidationFailureReason.CHURN, f"none of {_named(command.nodes)} can go any more")
    taking = survey.allowances.remaining_for(command.reason)
    fine = [candidate for candidate in still if taking.consume(candidate.node.pool) is None]
    if not fine:
        refusal = taking.consume(still[0].node.pool)
        return ValidationFailure(ValidationFailureReason.BUDGET, refusal.message if refusal else "")
    return replace(command, nodes=tuple(candidate.name for candidate in fine), savings=price_of(fine))


def _still_cheaper(command: Command, survey: Survey) -> Command | ValidationFailure:
    by_name = {candidate.name: candidate for candidate in survey.underutilized()}
    gone = [name for name in command.nodes if name not in by_name]
    if gone:
        return ValidationFailure(ValidationFailureReason.CHURN, f"{_named(gone)} cannot go any more")
    candidates = [by_name[name] for name in command.nodes]
    if refusal := survey.no_ready_pool:
        return ValidationFailure(ValidationFailureReason.SCHEDULING, refusal.message)
    return (
        _over_budget(command, candidates, survey)
        or _otherwise(command, relocation := _relocation(candidates, survey))
        or replace(command, moves=_moves(command, relocation))
    )


def _over_budget(command: Command, candidates: Sequence[Candidate], survey: Survey) -> ValidationFailure | None:
    taking = survey.allowances.remaining_for(command.reason)
    refusals = (taking.consume(candidate.node.pool) for candidate in candidates)
    refusal = next((each for each in refusals if each is not None), None)
    return ValidationFailure(ValidationFailureReason.BUDGET, refusal.message) if refusal else None


def _relocation(candidates: Sequence[Candidate], survey: Survey) -> Relocation:
    relocation = survey.relocations.relocate(candidates, consolidating=True)
    assert isinstance(relocation, Relocation)  # no price is too high
    return relocation


def _otherwise(command: Command, relocation: Relocation) -> ValidationFailure | None:
    """Return how placement differs from that of the original command, or None."""
    if relocation.left:
        return ValidationFailure(ValidationFailureReason.SCHEDULING, unschedulable_refusal(relocation).message)
    before, now = len(command.replacements), len(relocation.new_nodes)
    if before != now:
        return ValidationFailure(ValidationFailureReason.SCHEDULING, f"it would need {now} new nodes now, not {before}")
    for replacement, possible in zip(command.replacements, relocation.new_nodes, strict=True):
        removed = {instance_type.name for instance_type in replacement.types} - {
            instance_type.name for instance_type in possible.types
        }
        if removed:
            types = ", ".join(sorted(removed))
            return ValidationFailure(
                ValidationFailureReason.SCHEDULING, f"the new node cannot be of the planned types any more: {types}"
            )
    return None


def _moves(command: Command, relocation: Relocation) -> dict[str, str]:
    """Return the present moves, with the original names of new nodes."""
    names = {now.name: before.name for before, now in zip(command.replacements, relocation.new_nodes, strict=True)}
    return {key: names.get(name, name) for key, name in sorted(relocation.moves.items())}


def _named(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - 5} more" if len(nodes) > 5 else ""
    return f"{'node' if len(nodes) == 1 else 'nodes'} {', '.join(nodes[:5])}{more}"
