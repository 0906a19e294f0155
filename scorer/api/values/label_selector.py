"""Label selectors as Kubernetes defines them. `scorer.api.values.name_grammar` has the grammar of keys and values.

Source: docs/specifications/placement-api.md 2.1 and 2.6.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Final

from pydantic import ConfigDict, Field

from scorer.api.meta import ApiModel
from scorer.api.values.name_grammar import dns_label_error as dns_label_error
from scorer.api.values.name_grammar import dns_subdomain_error as dns_subdomain_error
from scorer.api.values.name_grammar import label_value_error as label_value_error
from scorer.api.values.name_grammar import qualified_name_error as qualified_name_error

LONGEST_LABEL_KEY: Final = 317
LONGEST_LABEL_VALUE: Final = 63
LabelKey = Annotated[str, Field(json_schema_extra={"maxLength": LONGEST_LABEL_KEY})]
LabelValue = Annotated[str, Field(json_schema_extra={"maxLength": LONGEST_LABEL_VALUE})]
"""Key and value in a selector. Admission checks first their length, then their grammar."""


class LabelSelectorRequirement(ApiModel):
    """One expression over one label key. Admission checks the operator."""

    key: LabelKey
    """Key of the label, with its prefix if it has one."""
    operator: LabelValue
    """Comparison with the label. In and NotIn compare its value with ``values``. Exists and DoesNotExist check whether
    the object has the label at all. An object without the label satisfies NotIn."""
    values: tuple[LabelValue, ...] = ()
    """Values for In and NotIn, which need at least one. Exists and DoesNotExist have none. Absent: no values."""


class LabelSelector(ApiModel):
    """All of ``matchLabels`` and ``matchExpressions`` must hold. The empty selector matches everything."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    match_labels: dict[str, LabelValue] = Field(default_factory=dict)
    """Labels that an object must have with exactly these values. Absent: no such condition."""
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    """Expressions over labels that must all hold besides ``matchLabels``. Absent: no such condition."""

    def requirements(self) -> tuple[LabelSelectorRequirement, ...]:
        """Return both halves as expressions, ``matchLabels`` first, by key."""
        equal = (
            LabelSelectorRequirement(key=key, operator="In", values=(value,))
            for key, value in sorted(self.match_labels.items())
        )
        return (*equal, *self.match_expressions)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with *labels* is selected.

        Raises:
            ValueError: An expression cannot be evaluated. See `requirement_error`.
        """
        for requirement, error in self._checked:
            if error:
                raise ValueError(error)
            if not holds_for(requirement, labels.get(requirement.key)):
                return False
        return True

    @cached_property
    def _checked(self) -> tuple[tuple[LabelSelectorRequirement, str], ...]:
        """The requirements, each with its error or "". Cached, because one selector is matched with many objects."""
        return tuple((requirement, requirement_error(requirement)) for requirement in self.requirements())


def holds_for(requirement: LabelSelectorRequirement, value: str | None) -> bool:
    """Return whether a valid expression holds. *value* is that of its label, None if the label is missing."""
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
    """Return the error in an expression, or an empty string."""
    if error := qualified_name_error(requirement.key):
        return f"key {requirement.key[:64]!r}: {error}"
    match requirement.operator:
        case "In" | "NotIn":
            if not requirement.values:
                return f"operator {requirement.operator} must have at least one value"
        case "Exists" | "DoesNotExist":
            if requirement.values:
                return f"operator {requirement.operator} must not have values"
        case other:
            return f"operator {other[:64]!r} must be In, NotIn, Exists or DoesNotExist"
    for value in requirement.values:
        if error := label_value_error(value):
            return f"value {value[:64]!r}: {error}"
    return ""


def selector_error(selector: LabelSelector) -> str:
    """Return the error in *selector*, or an empty string."""
    return next(filter(None, map(requirement_error, selector.requirements())), "")
