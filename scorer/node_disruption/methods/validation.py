"""Validation: whether an earlier command is still valid in the present cluster.

Source: docs/specifications/nodepool-disruption.md 7; Karpenter v1.15.0 ``pkg/controllers/disruption/validation.go``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from scorer.api.values.quoting import format_count
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


def revalidate(command: Command, survey: Survey) -> Command | ValidationFailure:
    """Return the still valid part of *command* in the present cluster. Drift is not validated.

    Emptiness keeps the nodes that are still empty. A consolidation is either valid as a whole, with updated moves, or
    not at all.
    """
    if command.method is Method.EMPTINESS:
        return _validate_emptiness(command, survey)
    if command.method in (Method.MULTI_NODE, Method.SINGLE_NODE):
        return _validate_consolidation(command, survey)
    return command


def _validate_emptiness(command: Command, survey: Survey) -> Command | ValidationFailure:
    by_name = {candidate.name: candidate for candidate in emptiable(survey)}
    present = [by_name[name] for name in command.nodes if name in by_name]
    if not present:
        return ValidationFailure(
            ValidationFailureReason.CHURN, f"{_nodes_text(command.nodes)} can no longer be disrupted"
        )
    allowance = survey.allowances.remaining_for(command.reason)
    valid_candidates = [candidate for candidate in present if allowance.consume(candidate.node.pool) is None]
    if not valid_candidates:
        refusal = allowance.consume(present[0].node.pool)
        return ValidationFailure(ValidationFailureReason.BUDGET, refusal.message if refusal else "")
    return replace(
        command, nodes=tuple(candidate.name for candidate in valid_candidates), savings=price_of(valid_candidates)
    )


def _validate_consolidation(command: Command, survey: Survey) -> Command | ValidationFailure:
    by_name = {candidate.name: candidate for candidate in survey.underutilized()}
    missing = [name for name in command.nodes if name not in by_name]
    if missing:
        return ValidationFailure(ValidationFailureReason.CHURN, f"{_nodes_text(missing)} can no longer be disrupted")
    candidates = [by_name[name] for name in command.nodes]
    if refusal := survey.no_ready_pool:
        return ValidationFailure(ValidationFailureReason.SCHEDULING, refusal.message)
    return (
        _over_budget(command, candidates, survey)
        or _otherwise(command, relocation := _relocation(candidates, survey))
        or replace(command, moves=_moves(command, relocation))
    )


def _over_budget(command: Command, candidates: Sequence[Candidate], survey: Survey) -> ValidationFailure | None:
    allowance = survey.allowances.remaining_for(command.reason)
    refusals = (allowance.consume(candidate.node.pool) for candidate in candidates)
    refusal = next((refusal for refusal in refusals if refusal is not None), None)
    return ValidationFailure(ValidationFailureReason.BUDGET, refusal.message) if refusal else None


def _relocation(candidates: Sequence[Candidate], survey: Survey) -> Relocation:
    relocation = survey.relocations.relocate(candidates, is_consolidation=True)
    assert isinstance(relocation, Relocation)  # without max_price, the result is never Hopeless
    return relocation


def _otherwise(command: Command, relocation: Relocation) -> ValidationFailure | None:
    """Return how placement differs from that of the original command, or None."""
    if relocation.left:
        return ValidationFailure(ValidationFailureReason.SCHEDULING, unschedulable_refusal(relocation).message)
    old_count, new_count = len(command.replacements), len(relocation.new_nodes)
    if old_count != new_count:
        return ValidationFailure(
            ValidationFailureReason.SCHEDULING,
            f"the pods would need {format_count(new_count, 'new node')} now, not {old_count}",
        )
    for replacement, possible in zip(command.replacements, relocation.new_nodes, strict=True):
        missing_types = {instance_type.name for instance_type in replacement.types} - {
            instance_type.name for instance_type in possible.types
        }
        if missing_types:
            types = ", ".join(sorted(missing_types))
            return ValidationFailure(
                ValidationFailureReason.SCHEDULING,
                f"these planned instance types are no longer possible for the new node: {types}",
            )
    return None


def _moves(command: Command, relocation: Relocation) -> dict[str, str]:
    """Return the present moves, with the original names of new nodes."""
    names = {
        new_node.name: old_node.name
        for old_node, new_node in zip(command.replacements, relocation.new_nodes, strict=True)
    }
    return {key: names.get(name, name) for key, name in sorted(relocation.moves.items())}


def _nodes_text(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - 5} more" if len(nodes) > 5 else ""
    return f"{'node' if len(nodes) == 1 else 'nodes'} {', '.join(nodes[:5])}{more}"
