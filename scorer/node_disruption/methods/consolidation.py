"""Consolidation: nodes are removed when their pods fit elsewhere at a lower price.

Single-node and multi-node consolidation share this module.

Source: docs/specifications/nodepool-disruption.md 6.3; Karpenter v1.15.0
``pkg/controllers/disruption/consolidation.go``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from typing import Final

from scorer.api.node_pool import CAPACITY_TYPE
from scorer.api.values.quoting import format_count
from scorer.node_disruption.candidates.candidate import Candidate
from scorer.node_disruption.candidates.refusals import DisruptionBlockReason, Refusal
from scorer.node_disruption.cluster.requirements import Allowed, intersect, one_of
from scorer.node_disruption.instance_types.catalog import ON_DEMAND, SPOT, InstanceType
from scorer.node_disruption.instance_types.new_node import NewNode, values_of
from scorer.node_disruption.methods.command import REASONS, VALIDATION_DELAY, Command, Method
from scorer.node_disruption.methods.context import Survey
from scorer.node_disruption.scheduling.relocation import Hopeless, Relocation

MOST_TYPES: Final = 600
"""Maximum number of instance types of a new node. The cheapest are kept."""
SPOT_TYPES: Final = 15
"""Minimum number of cheaper spot types for replacing a single spot node with another spot node.

The replacement requests that many types, or more if minValues requires it. With fewer, the new node might not be among
the cheapest, and would be replaced in turn.
"""
_NAMED: Final = 5
"""Maximum number of pods that a message names."""


def consolidate(survey: Survey, candidates: Sequence[Candidate], method: Method) -> Command | Refusal:
    """Return the joint removal of *candidates*, without a replacement or with a cheaper one, or the obstacle."""
    price = price_of(candidates)
    relocation = survey.relocations.relocate(candidates, is_consolidation=True, max_price=price)
    if isinstance(relocation, Hopeless):
        subject, pronoun = ("1 pod fits", "it") if relocation.pods == 1 else (f"{relocation.pods} pods fit", "them")
        message = f"{subject} on no other node, and no type with room for {pronoun} costs less than {price:g} per hour"
        return Refusal(DisruptionBlockReason.NOT_CHEAPER, message)
    if relocation.left:
        return unschedulable_refusal(relocation)
    if not relocation.new_nodes:
        return command_of(method, candidates, relocation)
    if len(relocation.new_nodes) > 1:
        return Refusal(
            DisruptionBlockReason.SEVERAL_NODES,
            f"it cannot be removed without creating {len(relocation.new_nodes)} nodes",
        )
    cheaper = _replacement(survey, candidates, relocation.new_nodes[0])
    if isinstance(cheaper, Refusal):
        return cheaper
    return command_of(method, candidates, relocation, (cheaper,))


def command_of(
    method: Method, candidates: Sequence[Candidate], relocation: Relocation, replacements: Sequence[NewNode] = ()
) -> Command:
    """Return the command that removes *candidates*."""
    is_consolidation = method in (Method.MULTI_NODE, Method.SINGLE_NODE)
    return Command(
        method=method,
        reason=REASONS[method],
        nodes=tuple(candidate.name for candidate in candidates),
        replacements=tuple(map(by_price, replacements)),
        savings=savings(candidates, replacements),
        moves=dict(sorted(relocation.moves.items())),
        validate_after=VALIDATION_DELAY if is_consolidation else timedelta(),
    )


def savings(candidates: Sequence[Candidate], replacements: Sequence[NewNode]) -> float:
    """Return the savings per hour if each replacement becomes its cheapest option. Unknown prices count as 0."""
    replacement_cost = (
        min(
            (price for instance_type in node.types if (price := instance_type.cheapest(node.requirements)) < math.inf),
            default=0.0,
        )
        for node in replacements
    )
    return price_of(candidates) - sum(replacement_cost)


def price_of(candidates: Sequence[Candidate]) -> float:
    """Return the total price of *candidates* per hour. Unknown prices count as 0."""
    return sum(candidate.price or 0.0 for candidate in candidates)


def by_price(node: NewNode) -> NewNode:
    """Return a new node with its types sorted by price, then by name."""
    return replace(
        node,
        types=tuple(
            sorted(
                node.types, key=lambda instance_type: (instance_type.cheapest(node.requirements), instance_type.name)
            )
        ),
    )


def cheaper_than(node: NewNode, price: float) -> NewNode | Refusal:
    """Return a new node with only the types that certainly cost less than *price*, or why too few types do."""
    types = tuple(
        instance_type for instance_type in node.types if instance_type.worst_launch_price(node.requirements) < price
    )
    if not types:
        return Refusal(DisruptionBlockReason.NOT_CHEAPER, f"no replacement costs less than {price:g} per hour")
    if refusal := _too_few_values(types, node):
        return Refusal(
            DisruptionBlockReason.MIN_VALUES, f"of the types that cost less than {price:g} per hour, {refusal}"
        )
    return replace(node, types=types)


def unschedulable_refusal(relocation: Relocation) -> Refusal:
    """Return the refusal for pods that do not fit anywhere, naming the first of them."""
    left = relocation.left
    pods_text = "; ".join(f"{key}: {left[key]}" for key in islice(left, _NAMED))
    more = f"; and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return Refusal(DisruptionBlockReason.PODS_DO_NOT_FIT, f"not all pods could be scheduled: {pods_text}{more}")


def _replacement(survey: Survey, candidates: Sequence[Candidate], node: NewNode) -> NewNode | Refusal:
    node = by_price(node)
    node = replace(node, types=node.types[:MOST_TYPES])
    if refusal := _too_few_values(node.types, node):
        return Refusal(DisruptionBlockReason.MIN_VALUES, f"of the {MOST_TYPES} cheapest types, {refusal}")
    price = price_of(candidates)
    may_be_spot = _may_be(node, SPOT)
    if may_be_spot and all(candidate.node.capacity_type == SPOT for candidate in candidates):
        return _spot_for_spot(survey, candidates, node, price)
    cheaper = cheaper_than(node, price)
    if may_be_spot and isinstance(cheaper, NewNode) and _may_be(cheaper, SPOT) and _may_be(node, ON_DEMAND):
        return _pinned_to_spot(cheaper)
    return cheaper


def _spot_for_spot(survey: Survey, candidates: Sequence[Candidate], node: NewNode, price: float) -> NewNode | Refusal:
    if not survey.settings.spot_to_spot:
        return Refusal(
            DisruptionBlockReason.SPOT_TO_SPOT,
            "spot-to-spot consolidation is disabled",
        )
    cheaper = cheaper_than(_pinned_to_spot(node), price)
    if isinstance(cheaper, Refusal) or len(candidates) > 1:
        return cheaper
    if len(cheaper.types) < SPOT_TYPES:
        message = f"spot-to-spot consolidation requires {SPOT_TYPES} cheaper instance types, found {len(cheaper.types)}"
        return Refusal(DisruptionBlockReason.FEW_SPOT_TYPES, message)
    return replace(cheaper, types=cheaper.types[: max(SPOT_TYPES, _needed_types(cheaper))])


def _may_be(node: NewNode, capacity_type: str) -> bool:
    """Return whether a new node may have a capacity type: it is allowed, and some type has such an offering.

    Karpenter checks only the requirements (DK-2 in differences.md).
    """
    requirements = {**node.requirements, CAPACITY_TYPE: _only(node.requirements, capacity_type)}
    return any(True for instance_type in node.types for _ in instance_type.matching_offerings(requirements))


def _only(requirements: Mapping[str, Allowed], capacity_type: str) -> Allowed:
    return intersect(requirements, {CAPACITY_TYPE: one_of(capacity_type)})[CAPACITY_TYPE]


def _pinned_to_spot(node: NewNode) -> NewNode:
    requirements = intersect(node.requirements, {CAPACITY_TYPE: one_of(SPOT)})
    types = (
        instance_type
        for instance_type in node.types
        if any(True for _ in instance_type.matching_offerings(requirements))
    )
    return by_price(replace(node, types=tuple(types), requirements=requirements))


def _too_few_values(types: Sequence[InstanceType], node: NewNode) -> str:
    """Return a message about a key with fewer values among *types* than minValues, or an empty string."""
    for key, least in sorted(node.min_values.items()):
        number = len(_values(types, key, node))
        if number < least:
            return f"the eligible types have {format_count(number, 'value')} of {key}, fewer than minValues {least}"
    return ""


def _needed_types(node: NewNode) -> int:
    """Return how many of the types, counted from the first, have all the values that minValues requires."""
    if not node.min_values:
        return 0
    numbers = range(1, len(node.types) + 1)
    return next((number for number in numbers if not _too_few_values(node.types[:number], node)), len(node.types))


def _values(types: Sequence[InstanceType], key: str, node: NewNode) -> set[str]:
    requirement = node.requirements.get(key)
    return {
        value
        for instance_type in types
        for value in values_of(instance_type, key)
        if requirement is None or requirement.allows(value)
    }
