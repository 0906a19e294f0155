"""Drift of a claim from the requirements of its pool.

Source: docs/specifications/nodepool-disruption.md 3.3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scorer.api.node_pool import Requirement
from scorer.node_disruption.cluster.requirements import Allowed, merged, present_labels, quote


@dataclass(frozen=True, slots=True)
class Drift:
    """Drift of a claim from the requirements of its pool.

    Args:
        key: The current name of the label.
        requirement: Merged requirements of the pool on *key*, phrased to follow "must be".
        value: Value of the claim's label, or None if it is missing.
    """

    key: str
    requirement: str
    value: str | None

    def __str__(self) -> str:
        actual_text = "the claim does not have it" if self.value is None else f"the claim has {quote(self.value)}"
        return f"label {self.key} must be {self.requirement}; {actual_text}"


def requirements_drift(requirements: Sequence[Requirement], labels: Mapping[str, str]) -> Drift | None:
    """Return how a claim with *labels* violates *requirements*, or None.

    If several keys have drifted, the first by name is returned. ``minValues`` is ignored. So is an invalid requirement,
    such as one with an unknown operator or a bound that is not an integer, because an error in a pool must not replace
    its nodes.
    """
    return drift_from(sorted(merged(requirements).items()), labels)


def drift_from(requirements: Sequence[tuple[str, Allowed]], labels: Mapping[str, str]) -> Drift | None:
    """Return the same as `requirements_drift` for merged *requirements*, sorted by key."""
    present = present_labels(labels)
    for key, requirement in requirements:
        value = present.get(key)
        if not (requirement.may_be_absent if value is None else requirement.allows(value)):
            return Drift(key, str(requirement), value)
    return None
