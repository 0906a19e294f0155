"""Whether a node still is what its pool asks for: the requirements of the pool against the labels of the claim.

The other kinds of drift are found elsewhere: a changed template by its hash, a changed node class by its provider.

Source: nodepool-disruption.md 3.3 and 2.4; Karpenter ``pkg/scheduling/requirement.go`` and ``requirements.go``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scorer.api.node_pool import Requirement
from scorer.node_disruption.requirements import merged, present_labels, quote


@dataclass(frozen=True, slots=True)
class Drift:
    """Why a claim has drifted from the requirements of its pool.

    Args:
        key: The label, by its present name.
        requirement: All requirements of the pool on *key* taken together, in words that follow "must be".
        value: The claim's value; None when it does not have the label.
    """

    key: str
    requirement: str
    value: str | None

    def __str__(self) -> str:
        has = "the claim does not have it" if self.value is None else f"the claim has {quote(self.value)}"
        return f"label {self.key} must be {self.requirement}; {has}"


def requirements_drift(requirements: Sequence[Requirement], labels: Mapping[str, str]) -> Drift | None:
    """Return why a claim with *labels* is not what *requirements* ask for; None when it is.

    Of several keys that drifted, the first by name is returned. ``minValues`` plays no part. A requirement that cannot
    be understood (an unknown operator, a bound that is not an integer) is ignored, so that a mistake in a pool does not
    replace its nodes.
    """
    owned = present_labels(labels)
    for key, wanted in sorted(merged(requirements).items()):
        value = owned.get(key)
        if not (wanted.may_be_absent if value is None else wanted.allows(value)):
            return Drift(key, str(wanted), value)
    return None
