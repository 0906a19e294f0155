"""Whether a node still is what its pool asks for: the requirements of the pool against the labels of the claim.

The other kinds of drift are found elsewhere: a changed template by its hash, a changed node class by its provider.

Source: nodepool-disruption.md 3.3 and 2.4; Karpenter ``pkg/scheduling/requirement.go`` and ``requirements.go``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from scorer.api.meta import dump_json
from scorer.api.node_pool import Requirement, RequirementOperator

ALIASES: Final[Mapping[str, str]] = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}
"""Older names of label keys, and their present names; both mean the same, in requirements and on nodes."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_LONGEST_INTEGER: Final = 400
"""Characters; a longer text is not parsed, since parsing takes time that grows with the square of the length."""
_LARGEST: Final = 2**63 - 1
_SHOWN: Final = 5
"""How many values a message names; a requirement may list hundreds."""


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
        has = "the claim does not have it" if self.value is None else f"the claim has {_quote(self.value)}"
        return f"label {self.key} must be {self.requirement}; {has}"


@dataclass(frozen=True, slots=True)
class _Merged:
    """All requirements of a pool on one key.

    Args:
        values: The values allowed; with *others*, the values forbidden.
        others: Whether every value that is not among *values* is allowed.
        low: Smallest integer allowed, if the value must be one.
        high: Largest integer allowed, if the value must be one.
    """

    values: frozenset[str] = frozenset()
    others: bool = True
    low: int | None = None
    high: int | None = None

    @property
    def may_be_absent(self) -> bool:
        return self.others == bool(self.values)

    def allows(self, value: str) -> bool:
        return (value in self.values) is not self.others and self.is_within(value)

    def is_within(self, value: str) -> bool:
        """Say whether *value* is within the bounds; if there are bounds, it must be a 64-bit integer."""
        if self.low is None and self.high is None:
            return True
        number = _parse_integer(value)
        if number is None:
            return False
        return (self.low is None or number >= self.low) and (self.high is None or number <= self.high)

    def __and__(self, other: "_Merged") -> "_Merged":
        low = max((bound for bound in (self.low, other.low) if bound is not None), default=None)
        high = min((bound for bound in (self.high, other.high) if bound is not None), default=None)
        if low is not None and high is not None and low > high:
            return _NOTHING
        if self.others and other.others:
            merged = _Merged(self.values | other.values, True, low, high)
        elif self.others:
            merged = _Merged(other.values - self.values, False, low, high)
        elif other.others:
            merged = _Merged(self.values - other.values, False, low, high)
        else:
            merged = _Merged(self.values & other.values, False, low, high)
        return replace(merged, values=frozenset(filter(merged.is_within, merged.values)))

    def __str__(self) -> str:
        bounds = [
            f"at {word} {bound}" for word, bound in (("least", self.low), ("most", self.high)) if bound is not None
        ]
        if not self.others:
            return f"one of {_list(self.values)}" if self.values else "absent"
        words = [f"an integer of {' and '.join(bounds)}"] if bounds else []
        if self.values:
            words.append(f"none of {_list(self.values)}")
        return ", ".join(words) or "set"


_NOTHING: Final = _Merged(others=False)


def requirements_drift(requirements: Sequence[Requirement], labels: Mapping[str, str]) -> Drift | None:
    """Return why a claim with *labels* is not what *requirements* ask for; None when it is.

    Of several keys that drifted, the first by name is returned. ``minValues`` plays no part. A requirement that cannot
    be understood (an unknown operator, a bound that is not an integer) is ignored, so that a mistake in a pool does not
    replace its nodes.
    """
    merged: dict[str, _Merged] = {}
    for requirement in requirements:
        key = ALIASES.get(requirement.key, requirement.key)
        if (read := _read(requirement)) is not None:
            merged[key] = merged.get(key, _Merged()) & read
    owned = _owned(labels)
    for key, wanted in sorted(merged.items()):
        value = owned.get(key)
        if not (wanted.may_be_absent if value is None else wanted.allows(value)):
            return Drift(key, str(wanted), value)
    return None


def _owned(labels: Mapping[str, str]) -> dict[str, str]:
    """Return *labels* by their present names; a label whose two names disagree about its value counts as absent."""
    owned: dict[str, str] = {}
    torn: set[str] = set()
    for name, value in labels.items():
        key = ALIASES.get(name, name)
        if owned.setdefault(key, value) != value:
            torn.add(key)
    return {key: value for key, value in owned.items() if key not in torn}


def _read(requirement: Requirement) -> _Merged | None:
    values = frozenset(requirement.values)
    match requirement.operator:
        case RequirementOperator.IN:
            return _Merged(values, others=False)
        case RequirementOperator.NOT_IN:
            return _Merged(values)
        case RequirementOperator.EXISTS:
            return _Merged()
        case RequirementOperator.DOES_NOT_EXIST:
            return _NOTHING
    bound = _parse_integer(requirement.values[0]) if len(requirement.values) == 1 else None
    if bound is None:
        return None
    match requirement.operator:
        case RequirementOperator.GT:
            return _Merged(low=bound + 1)
        case RequirementOperator.GTE:
            return _Merged(low=bound)
        case RequirementOperator.LT:
            return _Merged(high=bound - 1)
        case RequirementOperator.LTE:
            return _Merged(high=bound)
    return None


def _parse_integer(text: str) -> int | None:
    """Read a decimal integer of at most 64 bits; leading zeros are allowed."""
    if len(text) > _LONGEST_INTEGER or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_LARGEST - 1 <= number <= _LARGEST else None


def _list(values: Iterable[str]) -> str:
    ordered = sorted(values)
    more = f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    return ", ".join(map(_quote, ordered[:_SHOWN])) + more


def _quote(value: str) -> str:
    return dump_json(value).decode()
