"""CEL rules of NodePool, and the type of all CEL rules.

Source: docs/specifications/nodepool-disruption.md 2.3 to 2.7.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from scorer.api.node_pool import CAPACITY_TYPE, HOSTNAME, KARPENTER_DOMAIN, NODE_POOL_LABEL


class CelRule(NamedTuple):
    """One entry of ``x-kubernetes-validations``, with the ids of the admission rules that it implements.

    *field* is the invalid member below the field that the rule is attached to, *reason* the cause that admission gives.
    *says* is a CEL expression for a message that contains the values. *message* is the fallback of the API server.
    """

    rule: str
    message: str
    ids: tuple[str, ...] = ()
    field: str = ""
    reason: str = ""
    says: str = ""


def _not_empty() -> tuple[CelRule, ...]:
    return (CelRule("self != ''", "may not be empty", ("K-01",)),)


def _restricted_label_rules(key: str) -> tuple[CelRule, ...]:
    """Return the rules of a label key. *key* is the CEL expression for it."""
    before_slash = f"{key}.find('^([^/]+)')"
    return (
        CelRule(
            f"{key} in ['{CAPACITY_TYPE}', '{NODE_POOL_LABEL}'] || !{before_slash}.endsWith('{KARPENTER_DOMAIN}')",
            f'label domain "{KARPENTER_DOMAIN}" is restricted',
            ("K-05",),
        ),
        CelRule(f"{key} != '{NODE_POOL_LABEL}'", f'label "{NODE_POOL_LABEL}" is restricted', ("K-05",)),
        CelRule(f"{key} != '{HOSTNAME}'", f'label "{HOSTNAME}" is restricted', ("K-05",)),
    )


_TEMPLATE: Final = "spec.template.spec"
NODE_POOL_RULES: Final[Mapping[str, tuple[CelRule, ...]]] = {
    "spec": (
        CelRule(
            "has(self.replicas) == has(oldSelf.replicas)",
            "a pool cannot change between static (replicas set) and dynamic (replicas unset)",
            ("K-26",),
        ),
        CelRule(
            "!has(self.replicas) || !has(self.limits) || size(self.limits) == 0"
            " || (size(self.limits) == 1 && 'nodes' in self.limits)",
            "only 'limits.nodes' is supported on a static pool",
            ("K-25",),
        ),
        CelRule("!has(self.replicas) || !has(self.weight)", "'weight' is not supported on a static pool", ("K-25",)),
    ),
    "spec.disruption.budgets[]": tuple(
        CelRule(
            f"has(self.{field}) || !has(self.{other})",
            f"must be set together with {other}",
            ("K-22",),
            field,
            "FieldValueRequired",
        )
        for field, other in (("schedule", "duration"), ("duration", "schedule"))
    ),
    "spec.template.metadata.labels": tuple(
        CelRule(f"self.all(x, {rule.rule})", rule.message, rule.ids) for rule in _restricted_label_rules("x")
    ),
    _TEMPLATE: (
        CelRule("self.nodeClassRef.group == oldSelf.nodeClassRef.group", "nodeClassRef.group is immutable", ("K-02",)),
        CelRule("self.nodeClassRef.kind == oldSelf.nodeClassRef.kind", "nodeClassRef.kind is immutable", ("K-02",)),
    ),
    f"{_TEMPLATE}.nodeClassRef.group": _not_empty(),
    f"{_TEMPLATE}.nodeClassRef.kind": _not_empty(),
    f"{_TEMPLATE}.nodeClassRef.name": _not_empty(),
    f"{_TEMPLATE}.requirements": (
        CelRule(
            "self.all(x, x.operator == 'In' ? has(x.values) && x.values.size() != 0 : true)",
            "requirements with operator 'In' must have a value defined",
            ("K-07",),
        ),
        CelRule(
            "self.all(x, x.operator in ['Gt', 'Lt', 'Gte', 'Lte']"
            " ? (has(x.values) && x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
            "requirements with operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single non-negative integer value",
            ("K-08",),
        ),
        CelRule(
            "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
            "requirements with 'minValues' must have at least that many values specified in the 'values' field",
            ("K-10",),
        ),
    ),
    f"{_TEMPLATE}.requirements[].key": _restricted_label_rules("self"),
}
"""Checks of the API server besides the schema: ``x-kubernetes-validations`` by field, where ``[]`` means the items.

Source: docs/specifications/nodepool-disruption.md 2.3 to 2.7.
"""
