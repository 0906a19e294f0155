"""Label and property selectors as masks over the fleet.

Source: docs/specifications/scheduling.md 6 and 7.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from scorer.api.placement.placement import ClusterSelectorTerm, PropertySelectorRequirement
from scorer.api.values.label_selector import LabelSelector, LabelSelectorRequirement, holds_for, requirement_error
from scorer.api.values.quantity import Quantity, parse_quantity
from scorer.columns import ABSENT, OPERATORS, BoolColumn, relates
from scorer.fleet import Fleet
from scorer.properties import property_name_error


class InvalidPolicyError(ValueError):
    """A stored policy that cannot be evaluated. The message names the field and the value (DV-5)."""


@dataclass(frozen=True, slots=True)
class PropertyRequirement:
    """One comparison with a property, parsed and checked."""

    name: str
    operator: str
    wanted: Quantity

    def matches(self, fleet: Fleet) -> BoolColumn:
        """Return a mask of the clusters whose reading meets the requirement. A missing reading never matches."""
        return fleet.quantity(self.name).compare(self.operator, self.wanted)

    def matches_row(self, fleet: Fleet, row: int) -> bool:
        """Return whether one cluster matches. The scalar form of `matches`."""
        return relates(fleet.quantity(self.name).readings[row], self.operator, self.wanted)


@dataclass(frozen=True, slots=True)
class ClusterTerm:
    """A condition on clusters, parsed and checked. The label and the property part must both hold."""

    labels: tuple[LabelSelectorRequirement, ...]
    properties: tuple[PropertyRequirement, ...]

    @property
    def subjects(self) -> tuple[str, ...]:
        """The labels and properties of its requirements, one entry per requirement."""
        labels = (requirement.key for requirement in self.labels)
        return (*labels, *(requirement.name for requirement in self.properties))

    def matches(self, fleet: Fleet) -> BoolColumn | None:
        """Return a mask of the clusters that the term matches. None: unlimited, all clusters."""
        mask = match_labels(fleet, self.labels)
        for requirement in self.properties:
            matches = requirement.matches(fleet)
            mask = matches if mask is None else mask & matches
        return mask


def read_labels(selector: LabelSelector | None, path: str) -> tuple[LabelSelectorRequirement, ...]:
    """Return the requirements of a label selector. An absent or empty one has none.

    Raises:
        InvalidPolicyError: An expression cannot be evaluated.
    """
    requirements = selector.requirements() if selector else ()
    for requirement in requirements:
        if error := requirement_error(requirement):
            raise InvalidPolicyError(f"{path}.labelSelector: {error}")
    return requirements


def read_term(term: ClusterSelectorTerm, path: str) -> ClusterTerm:
    """Parse a required term. Its sorter is ignored.

    Raises:
        InvalidPolicyError: The term cannot be evaluated.
    """
    expressions = term.property_selector.match_expressions if term.property_selector else ()
    properties = tuple(
        _read_property(expression, f"{path}.propertySelector.matchExpressions[{index}]")
        for index, expression in enumerate(expressions)
    )
    return ClusterTerm(read_labels(term.label_selector, path), properties)


def _read_property(expression: PropertySelectorRequirement, path: str) -> PropertyRequirement:
    if error := property_name_error(expression.name):
        raise InvalidPolicyError(f"{path}.name: {expression.name[:64]!r} {error}")
    if expression.operator not in OPERATORS:
        raise InvalidPolicyError(f"{path}.operator: {expression.operator[:64]!r} is not one of Gt, Ge, Lt, Le, Eq, Ne")
    if len(expression.values) != 1:
        raise InvalidPolicyError(f"{path}.values: {len(expression.values)} values, exactly one is needed")
    try:
        return PropertyRequirement(expression.name, expression.operator, parse_quantity(expression.values[0]))
    except ValueError as reason:
        raise InvalidPolicyError(f"{path}.values[0]: {reason}") from reason


def match_labels(fleet: Fleet, requirements: Iterable[LabelSelectorRequirement]) -> BoolColumn | None:
    """Return a mask of the clusters that satisfy all *requirements*. None: unlimited, all clusters."""
    mask = None
    for requirement in requirements:
        matches = match_label(fleet, requirement)
        mask = matches if mask is None else mask & matches
    return mask


def match_label(fleet: Fleet, requirement: LabelSelectorRequirement) -> BoolColumn:
    """Return a mask of the clusters that satisfy a label expression."""
    column = fleet.label(requirement.key)
    match requirement.operator:
        case "Exists":
            mask: BoolColumn = column.codes != ABSENT
        case "DoesNotExist":
            mask = column.codes == ABSENT
        case operator:
            codes = [code for value in requirement.values if (code := column.index.get(value)) is not None]
            mask = column.among(codes)
            mask = mask if operator == "In" else ~mask
    return mask


def label_matches_row(fleet: Fleet, requirement: LabelSelectorRequirement, row: int) -> bool:
    """Return whether one label expression holds for one cluster. The scalar form of `match_label`."""
    return holds_for(requirement, fleet.label(requirement.key).value(row))
