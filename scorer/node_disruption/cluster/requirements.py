"""Requirements of a pool or a pod on node labels, merged by key.

Source: docs/specifications/nodepool-disruption.md 3.3 and 2.4; Karpenter ``pkg/scheduling/requirement.go`` and
``requirements.go``.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from scorer.api.meta import dump_json
from scorer.api.node_pool import CAPACITY_TYPE, NODE_POOL_LABEL, Requirement, RequirementOperator

ALIASES: Final[Mapping[str, str]] = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}
"""Deprecated label keys and their replacements. Both are equivalent, in requirements and on nodes."""

ZONE: Final = "topology.kubernetes.io/zone"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"

WELL_KNOWN: Final = frozenset(
    (
        CAPACITY_TYPE,
        INSTANCE_TYPE,
        NODE_POOL_LABEL,
        ZONE,
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "node.kubernetes.io/windows-build",
        "topology.kubernetes.io/region",
    )
)
"""Keys that every new node has, with a value that depends on its instance (nodepool-disruption.md 2.4)."""

_OWN_DOMAIN: Final = "karpenter.sh"
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_LONGEST_INTEGER: Final = 400
"""Maximum length of a text that is parsed as an integer, in characters, because parsing takes quadratic time."""
_LARGEST: Final = 2**63 - 1
_SHOWN: Final = 5
"""Maximum number of values that a message names. A requirement may list hundreds."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """All requirements on one key.

    Args:
        values: Allowed values, or forbidden values with *others*.
        others: Whether all values that are not in *values* are allowed.
        low: Smallest allowed integer, if the value must be one.
        high: Largest allowed integer, if the value must be one.
    """

    values: frozenset[str] = frozenset()
    others: bool = True
    low: int | None = None
    high: int | None = None

    @property
    def may_be_absent(self) -> bool:
        """Whether the label may be missing."""
        return self.others == bool(self.values)

    @property
    def is_nothing(self) -> bool:
        """Whether no value is allowed, so that the label must be absent."""
        return not self.others and not self.values

    @property
    def only(self) -> str | None:
        """The only allowed value, or None if there is not exactly one."""
        return next(iter(self.values)) if not self.others and len(self.values) == 1 else None

    def allows(self, value: str) -> bool:
        """Return whether the label may have *value*."""
        return (value in self.values) is not self.others and self.is_within(value)

    def is_within(self, value: str) -> bool:
        """Return whether *value* is within the bounds. With bounds, it must be a 64-bit integer."""
        if self.low is None and self.high is None:
            return True
        number = parse_integer(value)
        if number is None:
            return False
        return (self.low is None or number >= self.low) and (self.high is None or number <= self.high)

    def __and__(self, other: "Allowed") -> "Allowed":
        low = max((bound for bound in (self.low, other.low) if bound is not None), default=None)
        high = min((bound for bound in (self.high, other.high) if bound is not None), default=None)
        if low is not None and high is not None and low > high:
            return NOTHING
        if self.others and other.others:
            merged = Allowed(self.values | other.values, True, low, high)
        elif self.others:
            merged = Allowed(other.values - self.values, False, low, high)
        elif other.others:
            merged = Allowed(self.values - other.values, False, low, high)
        else:
            merged = Allowed(self.values & other.values, False, low, high)
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


NOTHING: Final = Allowed(others=False)
"""The label must be absent."""
ANYTHING: Final = Allowed()
"""The label must be set, with any value."""


def one_of(*values: str) -> Allowed:
    """Return the requirement that the label has one of *values*."""
    return Allowed(frozenset(values), others=False)


def merged(requirements: Iterable[Requirement]) -> dict[str, Allowed]:
    """Merge requirements by the current name of their key.

    An invalid requirement, such as one with an unknown operator or a bound that is not an integer, is ignored.
    """
    requirements_by_key: dict[str, Allowed] = {}
    for requirement in requirements:
        allowance = read_allowed(requirement.operator, requirement.values)
        if allowance is not None:
            add(requirements_by_key, requirement.key, allowance)
    return requirements_by_key


def add(requirements_by_key: dict[str, Allowed], key: str, more: Allowed) -> None:
    """Merge a requirement on *key*, a deprecated or current name, into *requirements_by_key*."""
    key = ALIASES.get(key, key)
    requirements_by_key[key] = requirements_by_key[key] & more if key in requirements_by_key else more


def intersect(left: Mapping[str, Allowed], right: Mapping[str, Allowed]) -> dict[str, Allowed]:
    """Return the intersection of two sets of requirements."""
    intersection = dict(left)
    for key, more in right.items():
        add(intersection, key, more)
    return intersection


def requirements_of_labels(labels: Mapping[str, str]) -> dict[str, Allowed]:
    """Return the requirements that match exactly these labels, for the named keys."""
    return {key: one_of(value) for key, value in present_labels(labels).items()}


def compatible(
    required: Mapping[str, Allowed], available: Mapping[str, Allowed], undefined_keys: Collection[str] = WELL_KNOWN
) -> bool:
    """Return whether a node from *available* can have the *required* labels.

    For a key in both, at least one value must be common, unless both allow a missing label. A key only in *required*
    must be one of *undefined_keys*, the keys that every node has, or allow a missing label.
    """
    for key, want in required.items():
        offer = available.get(key)
        if offer is None:
            if not want.may_be_absent and key not in undefined_keys:
                return False
        elif (want & offer).is_nothing and not (want.may_be_absent and offer.may_be_absent):
            return False
    return True


def is_of_provider(key: str) -> bool:
    """Return whether a provider's instance types define this label."""
    domain, slash, _ = key.partition("/")
    return bool(slash) and "karpenter" in domain.split(".") and domain != _OWN_DOMAIN


def present_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return *labels* by their current keys. A label counts as absent if its deprecated and current values differ."""
    present: dict[str, str] = {}
    contradictory: set[str] = set()
    for name, value in labels.items():
        key = ALIASES.get(name, name)
        if present.setdefault(key, value) != value:
            contradictory.add(key)
    return {key: value for key, value in present.items() if key not in contradictory}


def read_allowed(operator: str, value_texts: Iterable[str]) -> Allowed | None:
    """Parse one requirement, or return None if it is invalid."""
    values = tuple(value_texts)
    match operator:
        case RequirementOperator.IN:
            return Allowed(frozenset(values), others=False)
        case RequirementOperator.NOT_IN:
            return Allowed(frozenset(values))
        case RequirementOperator.EXISTS:
            return ANYTHING
        case RequirementOperator.DOES_NOT_EXIST:
            return NOTHING
    bound = parse_integer(values[0]) if len(values) == 1 else None
    if bound is None:
        return None
    match operator:
        case RequirementOperator.GT:
            return Allowed(low=bound + 1)
        case RequirementOperator.GTE:
            return Allowed(low=bound)
        case RequirementOperator.LT:
            return Allowed(high=bound - 1)
        case RequirementOperator.LTE:
            return Allowed(high=bound)
    return None


def parse_integer(text: str) -> int | None:
    """Parse a decimal integer of at most 64 bits, with an optional sign and leading zeros. None if it is not one."""
    if len(text) > _LONGEST_INTEGER or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_LARGEST - 1 <= number <= _LARGEST else None


def quote(value: object) -> str:
    """Return *value* quoted for messages."""
    return dump_json(value).decode()


def _list(values: Iterable[str]) -> str:
    sorted_values = sorted(values)
    more = f" and {len(sorted_values) - _SHOWN} more" if len(sorted_values) > _SHOWN else ""
    return ", ".join(map(quote, sorted_values[:_SHOWN])) + more
