"""Admission rules, and their links to the functions that enforce them.

Every module lists its rules next to the functions that enforce them, and `enforces` links the list to the function that
the registry of kinds calls. `webhook.admission.catalogue` reads kinds and operations from the registry, so that they
are defined only once. Errors of the model parser get their ids from the list of the module, too (`shape_rules`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from scorer.api.kinds import Kind

CRD: Final = "KubeFleet CRD"
CEL: Final = "KubeFleet CRD (CEL)"
OURS: Final = "harbormaster"

CREATE: Final = frozenset({"CREATE"})
UPDATE: Final = frozenset({"UPDATE"})
DELETE: Final = frozenset({"DELETE"})


class Severity(StrEnum):
    """Effect of a rule on a write."""

    DENY = "deny"
    WARN = "warn"
    DEFAULT = "default"
    MUTATE = "mutate"
    ALLOW = "allow"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Args:
        id: Stable name, such as ``P-25``. The letter is the group.
        severity: Effects. More than one if the effect depends on the write.
        what: The requirement, in one sentence of plain text.
        source: Origin of the rule, such as a section of a specification or the reference.
        fields: The fields that it is about. A list position or map key is ``*``. An error of the model parser at such
            a field gets this id. For a rule that sets a default, the schema of such a field states the value.
        in_schema: Whether the schema of the CRD enforces it, too.
        operations: The operations it applies to. Empty: all operations of its function.
        only: The kinds it applies to. Empty: all kinds of its function.
    """

    id: str
    severity: tuple[Severity, ...]
    what: str
    source: str
    fields: tuple[str, ...] = ()
    in_schema: bool = False
    operations: frozenset[str] = frozenset()
    only: tuple[Kind, ...] = ()

    @property
    def group(self) -> str:
        """The part of the ID before the dash."""
        return self.id.partition("-")[0]


def deny(rule_id: str, what: str, source: str, *fields: str, on: frozenset[str] = frozenset()) -> Rule:
    """Return a rule that refuses a write, in the webhook only."""
    return Rule(rule_id, (Severity.DENY,), what, source, fields, operations=on)


def schema(rule_id: str, what: str, source: str, *fields: str, on: frozenset[str] = frozenset()) -> Rule:
    """Return a rule that refuses a write, in the webhook and by the schema of the CRD."""
    return Rule(rule_id, (Severity.DENY,), what, source, fields, in_schema=True, operations=on)


def warn(rule_id: str, what: str, source: str = OURS, *, on: frozenset[str] = frozenset()) -> Rule:
    """Return a rule that allows a write with a warning."""
    return Rule(rule_id, (Severity.WARN,), what, source, operations=on)


def default(rule_id: str, what: str, source: str, *fields: str) -> Rule:
    """Return a rule that sets a field that a write omits."""
    return Rule(rule_id, (Severity.DEFAULT,), what, source, fields)


def allow(rule_id: str, what: str, source: str = OURS, *, on: frozenset[str] = frozenset()) -> Rule:
    """Return a rule that allows a write."""
    return Rule(rule_id, (Severity.ALLOW,), what, source, operations=on)


Function = TypeVar("Function", bound=Callable[..., Any])


def enforces(*rules: Rule) -> Callable[[Function], Function]:
    """Declare which rules a function of the registry enforces."""

    def tie(function: Function) -> Function:
        vars(function)["rules"] = rules
        return function

    return tie


def rules_of(function: object) -> tuple[Rule, ...]:
    """Return the rules that a function enforces."""
    rules: tuple[Rule, ...] = getattr(function, "rules", ())
    return rules


def pick(rules: Iterable[Rule], *ids: str) -> tuple[Rule, ...]:
    """Return the *rules* with these *ids*.

    Raises:
        KeyError: No rule has one of the *ids*.
    """
    by_id = {rule.id: rule for rule in rules}
    return tuple(by_id[rule_id] for rule_id in ids)


def shape_rules(rules: Iterable[Rule]) -> Mapping[str, str]:
    """Return the ids of *rules* by field, for `webhook.validation.framework.reading`. The last rule of a field wins."""
    return {field: rule.id for rule in rules for field in rule.fields}
