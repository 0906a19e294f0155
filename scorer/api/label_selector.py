"""Label selectors as Kubernetes defines them, and the grammar of label keys and values.

Source: placement-api.md 2.1 and 2.6.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Annotated, Final

from pydantic import ConfigDict, Field

from scorer.api.meta import ApiModel

_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", re.ASCII)
_LONGEST_REMEMBERED: Final = 320


def remembered(grammar: Callable[[str], str]) -> Callable[[str], str]:
    """Cache the verdicts of a grammar: the same keys and values appear in every policy of a fleet.

    Only short texts are cached, so that a client cannot fill the memory with long ones.
    """
    known = lru_cache(maxsize=8192)(grammar)

    @wraps(grammar)
    def ask(text: str) -> str:
        return known(text) if len(text) <= _LONGEST_REMEMBERED else grammar(text)

    return ask


LONGEST_LABEL_KEY: Final = 317
LONGEST_LABEL_VALUE: Final = 63
LabelKey = Annotated[str, Field(json_schema_extra={"maxLength": LONGEST_LABEL_KEY})]
LabelValue = Annotated[str, Field(json_schema_extra={"maxLength": LONGEST_LABEL_VALUE})]
"""Key and value in a selector; admission checks first their length, then their grammar."""


class LabelSelectorRequirement(ApiModel):
    """One expression over one label key. Admission checks the operator."""

    key: LabelKey
    """Key of the label, with its prefix if it has one."""
    operator: LabelValue
    """How the label is compared. In and NotIn compare its value with ``values``; Exists and DoesNotExist ask whether
    the object has the label at all. An object without the label satisfies NotIn."""
    values: tuple[LabelValue, ...] = ()
    """Values for In and NotIn, which need at least one; Exists and DoesNotExist take none. Absent: no values."""


class LabelSelector(ApiModel):
    """All of ``matchLabels`` and ``matchExpressions`` must hold; the empty selector matches everything."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    match_labels: dict[str, LabelValue] = Field(default_factory=dict)
    """Labels that an object must have with exactly these values. Absent: no such demand."""
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    """Expressions over labels that must all hold besides ``matchLabels``. Absent: no such demand."""

    def requirements(self) -> tuple[LabelSelectorRequirement, ...]:
        """Return both halves as expressions, ``matchLabels`` first, by key."""
        equal = (
            LabelSelectorRequirement(key=key, operator="In", values=(value,))
            for key, value in sorted(self.match_labels.items())
        )
        return (*equal, *self.match_expressions)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether an object with *labels* is selected.

        Raises:
            ValueError: An expression cannot be evaluated; see `requirement_error`.
        """
        return all(_holds(requirement, labels) for requirement in self.requirements())


def _holds(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    if error := requirement_error(requirement):
        raise ValueError(error)
    return holds_for(requirement, labels.get(requirement.key))


def holds_for(requirement: LabelSelectorRequirement, value: str | None) -> bool:
    """Say whether a valid expression holds for *value*, that of its label; None: the object has no such label."""
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case _:
            return value is None


def requirement_error(requirement: LabelSelectorRequirement) -> str:
    """Return what is wrong with an expression, empty when it can be evaluated."""
    if error := qualified_name_error(requirement.key):
        return f"key {requirement.key[:64]!r}: {error}"
    match requirement.operator:
        case "In" | "NotIn":
            if not requirement.values:
                return f"operator {requirement.operator} needs at least one value"
        case "Exists" | "DoesNotExist":
            if requirement.values:
                return f"operator {requirement.operator} takes no values"
        case other:
            return f"operator {other[:64]!r} is none of In, NotIn, Exists, DoesNotExist"
    for value in requirement.values:
        if error := label_value_error(value):
            return f"value {value[:64]!r}: {error}"
    return ""


def selector_error(selector: LabelSelector) -> str:
    """Return what is wrong with *selector*, empty when it can be evaluated."""
    return next(filter(None, map(requirement_error, selector.requirements())), "")


@remembered
def label_value_error(value: str) -> str:
    """Return why *value* is not a label value, empty when it is one."""
    if len(value) > 63:
        return "must be at most 63 characters"
    if value and not _NAME.fullmatch(value):
        return "must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit"
    return ""


@remembered
def qualified_name_error(name: str) -> str:
    """Return why *name* is not a qualified name (``[prefix/]name``), empty when it is one."""
    prefix, slash, last = name.rpartition("/")
    if "/" in prefix:
        return "must have at most one '/'"
    if slash and (error := dns_subdomain_error(prefix)):
        return f"prefix {error}"
    if not last or len(last) > 63:
        return "name part must have 1 to 63 characters"
    if not _NAME.fullmatch(last):
        return "name part must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit"
    return ""


@remembered
def dns_subdomain_error(name: str) -> str:
    """Return why *name* is not a DNS subdomain, empty when it is one."""
    if not 0 < len(name) <= 253:
        return "must have 1 to 253 characters"
    if not all(_LABEL.fullmatch(label) for label in name.split(".")):
        return "must consist of lower-case letters, digits, '-' and '.', and start and end with a letter or digit"
    return ""


def dns_label_error(name: str) -> str:
    """Return why *name* is not a DNS label, empty when it is one."""
    if not 0 < len(name) <= 63:
        return "must have 1 to 63 characters"
    if not _LABEL.fullmatch(name):
        return "must consist of lower-case letters, digits and '-', and start and end with a letter or digit"
    return ""
