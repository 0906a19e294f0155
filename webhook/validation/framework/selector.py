"""Rules on selectors: label selectors, property requirements and sorters, and the syntax of property names.

Source: docs/specifications/placement-api.md 2.1, 2.2, 2.6, 7.2 and the rules P-27 to P-36.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

from scorer.api.names import AGENT_VERSION, AZURE_LABELS
from scorer.api.placement.placement import LONGEST_PROPERTY_NAME, PropertySelectorRequirement, PropertySorter
from scorer.api.values.field_path import FieldPath
from scorer.api.values.label_selector import LabelSelector, LabelSelectorRequirement
from scorer.api.values.name_grammar import cache_verdicts, dns_subdomain_error, label_value_error, qualified_name_error
from scorer.api.values.quantity import Quantity, read_quantity
from scorer.api.values.quoting import LONGEST_QUOTE, quote
from webhook.validation.framework.field import Cause, FieldError, FieldWarning, invalid, not_supported, too_many
from webhook.validation.framework.reading import Finding

OPERATORS: Final = ("Gt", "Ge", "Lt", "Le", "Eq", "Ne")
LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
SORT_ORDERS: Final = ("Ascending", "Descending")

NOT_NUMERIC: Final = frozenset(
    {
        "k8s.io/k8s-version",
        "k8s.io/cluster-entrypoint",
        "k8s.io/cluster-certificate-authority-data",
        AGENT_VERSION,
        *AZURE_LABELS,
    }
)
OLD_NODE_COUNT: Final = "kubernetes.azure.com/node-count"


def validate_label_selector(selector: LabelSelector, at: FieldPath, rule: str) -> Iterator[FieldError]:
    """Keys are qualified names, values are label values, and operators have the values they need.

    Source: docs/specifications/placement-api.md 2.6.
    """
    for key, value in selector.match_labels.items():
        if error := qualified_name_error(key):
            yield invalid(at / "matchLabels", key, error, rule)
        if error := label_value_error(value):
            yield invalid(at / "matchLabels" / key, value, error, rule)
    if selector.match_expressions:
        path = at / "matchExpressions"
        for i, requirement in enumerate(selector.match_expressions):
            yield from validate_label_requirement(requirement, path / i, rule)


def validate_label_requirement(requirement: LabelSelectorRequirement, at: FieldPath, rule: str) -> Iterator[FieldError]:
    """One match expression: In and NotIn require values, Exists and DoesNotExist take none."""
    if error := qualified_name_error(requirement.key):
        yield invalid(at / "key", requirement.key, error, rule)
    operator, values = requirement.operator, requirement.values
    if operator not in LABEL_OPERATORS:
        yield not_supported(at / "operator", operator, LABEL_OPERATORS, rule)
    elif operator in {"In", "NotIn"} and not values:
        yield FieldError(at / "values", Cause.REQUIRED, f"must not be empty when operator is {operator}", rule, (at,))
    elif operator in {"Exists", "DoesNotExist"} and values:
        yield FieldError(at / "values", Cause.FORBIDDEN, f"must be empty when operator is {operator}", rule, (at,))
    for i, value in enumerate(values):
        if error := label_value_error(value):
            yield invalid(at / "values" / i, value, error, rule)


def validate_requirements(requirements: Sequence[PropertySelectorRequirement], at: FieldPath) -> Iterator[Finding]:
    """Each requirement is well formed, and the requirements on one property do not contradict each other.

    Source: docs/specifications/placement-api.md P-31 to P-35.
    """
    sound: dict[str, list[tuple[str, Quantity]]] = {}
    for i, requirement in enumerate(requirements):
        yield from validate_requirement(requirement, at / i)
        quantity = read_quantity(requirement.values[0]) if len(requirement.values) == 1 else None
        if quantity is not None and requirement.operator in OPERATORS:
            sound.setdefault(requirement.name, []).append((requirement.operator, quantity))
    for name, bounds in sound.items():
        if len(bounds) > 1 and (clash := contradiction(bounds)):
            yield FieldError(at, Cause.INVALID, f"{quote(name)}: {clash}", "P-35")


def validate_requirement(requirement: PropertySelectorRequirement, at: FieldPath) -> Iterator[Finding]:
    """A requirement has a property name, a known operator (P-32), and exactly one value (P-33), a quantity (P-34)."""
    yield from validate_property_name(requirement.name, at, "P-31")
    if requirement.operator not in OPERATORS:
        yield not_supported(at / "operator", requirement.operator, OPERATORS, "P-32")
    values = requirement.values
    if not values:
        yield FieldError(at / "values", Cause.REQUIRED, "must have exactly one value", "P-33")
    elif len(values) > 1:
        yield too_many(at / "values", len(values), 1, "P-33")
    elif (quantity := read_quantity(values[0])) is None:
        yield invalid(at / "values" / 0, values[0], "must be a quantity such as 4, 500m or 16Gi", "P-34")
    elif quantity.nano < 0:
        message = f"{quote(values[0])}: the comparison is always or never true, because no property is negative"
        yield FieldWarning(at / "values" / 0, message, "X-10")


def validate_property_name(name: str, at: FieldPath, rule: str) -> Iterator[Finding]:
    """The name has the syntax of properties. A name that the user probably did not intend causes a warning.

    Source: docs/specifications/placement-api.md 2.2, X-09, X-19.
    """
    if error := property_name_error(name):
        yield invalid(at / "name", name, error, rule)
    elif name in NOT_NUMERIC:
        yield FieldWarning(at / "name", f"{name} is not a number and cannot be compared", "X-09")
    elif name == OLD_NODE_COUNT:
        yield FieldWarning(at / "name", f"{name} is a deprecated name of kubernetes-fleet.io/node-count", "X-19")


def validate_sorter(sorter: PropertySorter, at: FieldPath) -> Iterator[Finding]:
    """A sorter has a property name and one of the two sort orders.

    Source: docs/specifications/placement-api.md P-36.
    """
    yield from validate_property_name(sorter.name, at, "P-36")
    if sorter.sort_order not in SORT_ORDERS:
        yield not_supported(at / "sortOrder", sorter.sort_order, SORT_ORDERS, "P-36")


def contradiction(bounds: Sequence[tuple[str, Quantity]]) -> str:
    """Return which two requirements on one property exclude each other, empty without such a pair.

    Only pairs are compared: ``Ge 5``, ``Le 5`` and ``Ne 5`` together pass, although no value meets all three.

    Source: docs/specifications/placement-api.md 7.2.
    """
    equal = [quantity for operator, quantity in bounds if operator == "Eq"]
    if wrong := next((other for other in equal if other != equal[0]), None):
        return f"cannot equal both {_text(equal[0])} and {_text(wrong)}"
    if wrong := next((quantity for operator, quantity in bounds if operator == "Ne" and quantity in equal), None):
        return f"cannot equal {_text(wrong)} and differ from it"
    lower = max((_edge(bound) for bound in bounds if bound[0] in {"Gt", "Ge"}), key=_reach, default=None)
    upper = min((_edge(bound) for bound in bounds if bound[0] in {"Lt", "Le"}), key=_room, default=None)
    if lower and upper and (lower[0] > upper[0] or (lower[0] == upper[0] and (lower[1] or upper[1]))):
        return f"cannot be {_words(lower, 'above', 'at least')} and {_words(upper, 'below', 'at most')}"
    if equal and lower and (equal[0].number < lower[0] or (equal[0].number == lower[0] and lower[1])):
        return f"cannot equal {_text(equal[0])} and be {_words(lower, 'above', 'at least')}"
    if equal and upper and (equal[0].number > upper[0] or (equal[0].number == upper[0] and upper[1])):
        return f"cannot equal {_text(equal[0])} and be {_words(upper, 'below', 'at most')}"
    return ""


def _edge(bound: tuple[str, Quantity]) -> tuple[Fraction, bool, str]:
    """Return number, strictness and text of a bound."""
    return bound[1].number, bound[0] in {"Gt", "Lt"}, _text(bound[1])


def _text(quantity: Quantity) -> str:
    return quantity.text[:LONGEST_QUOTE]


def _reach(edge: tuple[Fraction, bool, str]) -> tuple[Fraction, bool]:
    return edge[0], edge[1]


def _room(edge: tuple[Fraction, bool, str]) -> tuple[Fraction, bool]:
    return edge[0], not edge[1]


def _words(edge: tuple[Fraction, bool, str], strict: str, loose: str) -> str:
    return f"{strict if edge[1] else loose} {edge[2]}"


RESOURCE_PREFIX: Final = "resources.kubernetes-fleet.io/"
CAPACITY_TYPES: Final = ("total", "allocatable", "available")


@cache_verdicts
def property_name_error(name: str) -> str:
    """Return why *name* is not the name of a property, empty if it is one.

    Resource properties are split only at the first dash.

    Source: docs/specifications/placement-api.md 2.2.
    """
    if len(name) > LONGEST_PROPERTY_NAME:
        return f"must have at most {LONGEST_PROPERTY_NAME} characters"
    if name.startswith(RESOURCE_PREFIX):
        capacity, dash, resource = name[len(RESOURCE_PREFIX) :].partition("-")
        if not dash or not resource or capacity not in CAPACITY_TYPES:
            return (
                f"{RESOURCE_PREFIX} must be followed by one of {', '.join(CAPACITY_TYPES)}, a dash and a resource name"
            )
        return qualified_name_error(name)
    first, *others = name.split("/")
    if not others:
        return qualified_name_error(first)
    if dns_subdomain_error(first) and (error := qualified_name_error(first)):
        return f"first segment {error}"
    return next((error for segment in others if (error := qualified_name_error(segment))), "")
