"""ClusterAffinity: required terms filter, preferred terms score.

Source: docs/specifications/scheduling.md 6 to 8; KubeFleet pkg/scheduler/framework/plugins/clusteraffinity.
"""

from dataclasses import dataclass
from math import isinf
from typing import Literal

import numpy as np

from scorer.api.meta import format_time
from scorer.api.placement.placement import ClusterAffinity as ClusterAffinityModel
from scorer.api.placement.placement import PreferredClusterSelector, PropertySorter
from scorer.api.values.label_selector import LabelSelector, LabelSelectorRequirement
from scorer.api.values.quoting import format_count
from scorer.columns import BoolColumn, IntColumn, QuantityColumn, RowColumn, round_half_away
from scorer.fleet import Fleet
from scorer.framework.cycle import Cycle
from scorer.framework.status import Category, FilterRejection
from scorer.properties import property_name_error
from scorer.selectors import ClusterTerm, InvalidPolicyError, label_matches_row, match_labels, read_labels, read_term

MOST_REQUIREMENTS = 500
"""Maximum number of requirements on labels and properties in one policy. Evaluating one may visit every cluster."""
ASCENDING: Literal["Ascending"] = "Ascending"
DESCENDING: Literal["Descending"] = "Descending"


@dataclass(frozen=True, slots=True)
class Sorter:
    """Orders the fleet by a property. Parsed and checked."""

    name: str
    order: str


@dataclass(frozen=True, slots=True)
class PreferredTerm:
    """A weighted preference, parsed and checked. *index* is its position in the policy."""

    index: int
    weight: int
    labels: tuple[LabelSelectorRequirement, ...]
    sorter: Sorter | None

    def points(self, fleet: Fleet, rows: RowColumn) -> IntColumn:
        """Return the points of the clusters in *rows* for this term."""
        if self.sorter is None:
            points = np.full(rows.size, self.weight, dtype=np.int64)
        else:
            points = weigh(fleet.quantity(self.sorter.name), rows, self.sorter.order, self.weight)
        gate = match_labels(fleet, self.labels)
        return points if gate is None else np.where(gate[rows], points, 0)


@dataclass(frozen=True, slots=True)
class ClusterAffinityPlugin:
    """The affinity part of one policy."""

    required: tuple[ClusterTerm, ...] = ()
    preferred: tuple[PreferredTerm, ...] = ()

    name = "ClusterAffinity"

    def filter(self, cycle: Cycle) -> BoolColumn | None:
        """Return the clusters that any required term matches, or None for all of them, as without terms."""
        mask: BoolColumn | None = None
        for term in self.required:
            term_mask = term.matches(cycle.fleet)
            if term_mask is None:
                return None
            mask = term_mask if mask is None else mask | term_mask
        return mask

    def categories(self, cycle: Cycle, rejections: BoolColumn) -> dict[Category, int]:  # noqa: ARG002 - one category only
        """Count all as affinity mismatches."""
        return {Category.AFFINITY_MISMATCH: int(np.count_nonzero(rejections))}

    def reject(self, cycle: Cycle, row: int) -> FilterRejection:
        """Return a rejection that names a failed check of each term, for up to three terms."""
        failures = [failures_of(term, cycle.fleet, row) for term in self.required]
        text = " or ".join(str(failure[0]) for failure in failures[:3])
        more = f" (and {format_count(len(failures) - 3, 'more term')})" if len(failures) > 3 else ""
        single = (
            failure[0].wanted
            for term, failure in zip(self.required, failures, strict=True)
            if len(failure) == 1 and term.subjects.count(failure[0].subject) == 1
        )
        return FilterRejection(self.name, Category.AFFINITY_MISMATCH, text + more, next(single, ""))

    def score(self, cycle: Cycle, rows: RowColumn) -> IntColumn | None:
        """Return the sum of the points of all preferred terms, or None without such terms."""
        total: IntColumn | None = None
        for term in self.preferred:
            points = term.points(cycle.fleet, rows)
            total = points if total is None else total + points
        return total


def read_affinity(affinity: ClusterAffinityModel | None, *, with_preferences: bool, path: str) -> ClusterAffinityPlugin:
    """Parse the affinity of a policy.

    Args:
        affinity: The affinity as written.
        with_preferences: Whether the placement type uses preferred terms (only PickN does).
        path: Path of *affinity*, for messages.

    Raises:
        InvalidPolicyError: A part that the placement type uses cannot be evaluated.
    """
    if affinity is None:
        return ClusterAffinityPlugin()
    if (count := requirement_count(affinity)) > MOST_REQUIREMENTS:
        raise InvalidPolicyError(f"{path}: {too_many_requirements(count)}")
    terms = affinity.required.cluster_selector_terms if affinity.required else ()
    at = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms"
    required = tuple(read_term(term, f"{at}[{index}]") for index, term in enumerate(terms))
    if not with_preferences:
        return ClusterAffinityPlugin(required)
    at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    preferred = [_read_preferred(term, index, f"{at}[{index}]") for index, term in enumerate(affinity.preferred)]
    return ClusterAffinityPlugin(required, tuple(term for term in preferred if term.weight))


def requirement_count(affinity: ClusterAffinityModel) -> int:
    """Return how many requirements on labels and properties all terms have together."""
    terms = [*(affinity.required.cluster_selector_terms if affinity.required else ())]
    terms += [term.preference for term in affinity.preferred]
    properties = sum(len(term.property_selector.match_expressions) for term in terms if term.property_selector)
    return properties + sum(label_requirement_count(term.label_selector) for term in terms)


def label_requirement_count(selector: LabelSelector | None) -> int:
    """Return how many requirements a label selector has."""
    return len(selector.match_labels) + len(selector.match_expressions) if selector else 0


def too_many_requirements(count: int) -> str:
    """Return the message about too many requirements."""
    return f"must have at most {MOST_REQUIREMENTS} requirements on labels and properties, has {count}"


def _read_preferred(term: PreferredClusterSelector, index: int, path: str) -> PreferredTerm:
    preference = term.preference
    old, new = preference.metric_sorter, preference.property_sorter
    if old and new and old != new:
        raise InvalidPolicyError(f"{path}.preference: metricSorter is an alias of propertySorter, and the two differ")
    sorter = _read_sorter(new or old, f"{path}.preference.propertySorter")
    return PreferredTerm(index, term.weight, read_labels(preference.label_selector, f"{path}.preference"), sorter)


def _read_sorter(sorter: PropertySorter | None, path: str) -> Sorter | None:
    if sorter is None:
        return None
    if error := property_name_error(sorter.name):
        raise InvalidPolicyError(f"{path}.name: {sorter.name[:64]!r} {error}")
    if sorter.sort_order not in (ASCENDING, DESCENDING):
        raise InvalidPolicyError(f"{path}.sortOrder: {sorter.sort_order[:64]!r} is neither Ascending nor Descending")
    return Sorter(sorter.name, sorter.sort_order)


def weigh(column: QuantityColumn, rows: RowColumn, order: str, weight: int) -> IntColumn:
    """Distribute a weight by the position of each cluster in the observed range.

    The best value earns the whole weight, the worst earns nothing, the others a linear share. If all values are equal,
    all clusters get 0.

    Example: weight 10 and values 0, 1 and 4 in order Descending give 0, 2.5 and 10 points, rounded to 0, 3 and 10.

    Args:
        column: The readings of the whole fleet. The range spans every cluster, including rejected ones.
        rows: The clusters to score.
        order: Descending when more is better, Ascending when less is.
        weight: The points of the best value, -100 to 100.

    Returns:
        Points in the shape of *rows*, halves rounded away from zero. 0 where the property is not readable.

    Source:
        Seeds 000 and 003, sorter formulas; KubeFleet pkg/scheduler/framework/plugins/clusteraffinity,
        interpolateWeightFor.
    """
    bounds = observed_range(column)
    if bounds is None:
        return np.zeros(rows.size, dtype=np.int64)
    low, high = bounds
    share = column.doubles(rows, high if order == ASCENDING else low)  # a copy: the code below writes to it
    share -= low
    share /= high - low
    if order == ASCENDING:
        np.subtract(1, share, out=share)
    share *= weight
    return round_half_away(share)


def observed_range(column: QuantityColumn) -> tuple[float, float] | None:
    """Return the smallest and largest reading as doubles, None if they are equal or no reading exists.

    Also None when no double holds their distance, because shares of it cannot be computed.
    """
    if column.extremes is None:
        return None
    low, high = (float(column.double[row]) for row in column.extremes)
    return None if low == high or isinf(high - low) else (low, high)


@dataclass(frozen=True, slots=True)
class FailedRequirement:
    """One check that a cluster fails: the label or property, its value, and the value that would pass."""

    subject: str
    observed: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.observed}, wanted {self.wanted}"


def failures_of(term: ClusterTerm, fleet: Fleet, row: int) -> list[FailedRequirement]:
    """Return all checks of *term* that the cluster in *row* fails."""
    failures = [
        _label_failure(requirement, fleet.label(requirement.key).value(row))
        for requirement in term.labels
        if not label_matches_row(fleet, requirement, row)
    ]
    for requirement in term.properties:
        if requirement.matches_row(fleet, row):
            continue
        reading = fleet.quantity(requirement.name).readings[row]
        expired = fleet.expired_score(requirement.name, row)
        if expired is not None and expired.valid_until is not None:
            actual = f"{requirement.name} {expired.value} expired at {format_time(expired.valid_until)}"
        elif reading is None:
            actual = f"{requirement.name} not reported"
        elif reading.quantity is None:
            actual = f"{requirement.name} unreadable ({reading.text[:32]!r})"
        else:
            actual = f"{requirement.name} {reading.text}"
        expected = f"{requirement.name} {SYMBOLS[requirement.operator]} {requirement.wanted}"
        failures.append(FailedRequirement(requirement.name, actual, expected))
    return failures


SYMBOLS = {"Gt": ">", "Ge": "≥", "Lt": "<", "Le": "≤", "Eq": "=", "Ne": "≠"}


def _label_failure(requirement: LabelSelectorRequirement, value: str | None) -> FailedRequirement:
    actual_text = f"{requirement.key}={value}" if value is not None else f"no label {requirement.key}"
    match requirement.operator:
        case "In":
            expected = f"{requirement.key}={' or '.join(requirement.values)}"
        case "NotIn":
            expected = f"{requirement.key} other than {', '.join(requirement.values)}"
        case "Exists":
            expected = f"label {requirement.key}"
        case _:
            expected = f"no label {requirement.key}"
    return FailedRequirement(requirement.key, actual_text, expected)
