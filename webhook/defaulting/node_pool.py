"""Defaults of a NodePool: the disruption block, every budget's ``nodes``, and the lifetime of nodes.

Source: docs/specifications/nodepool-disruption.md 2.8 and 16.
"""

from typing import Any, Final

from scorer.api.meta import JsonObject, without_nulls
from scorer.api.node_pool import (
    DEFAULT_BUDGET_NODES,
    DEFAULT_CONSOLIDATE_AFTER,
    DEFAULT_EXPIRE_AFTER,
    MOST_BUDGETS,
    ConsolidationPolicy,
    parse_duration_or_never,
)
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import quote
from webhook.defaulting.defaulted import DefaultedObject
from webhook.validation.framework.field import FieldWarning
from webhook.validation.framework.rule import Rule, Severity, enforces, pick
from webhook.validation.framework.rule import default as fills_in
from webhook.validation.node_pool import RULES as NODE_POOL_RULES

OLD_EXPIRE_AFTER: Final = FieldPath.of("spec", "disruption", "expireAfter")
EXPIRE_AFTER: Final = FieldPath.of("spec", "template", "spec", "expireAfter")


_DISRUPTION: Final = "spec.disruption"

RULES: Final = (
    fills_in(
        "F-20",
        "disruption: consolidationPolicy WhenEmptyOrUnderutilized, consolidateAfter 0s, one budget of 10%.",
        "Karpenter CRD",
        f"{_DISRUPTION}.consolidationPolicy",
        f"{_DISRUPTION}.consolidateAfter",
        f"{_DISRUPTION}.budgets",
    ),
    fills_in("F-21", "The field nodes of a budget is 10%.", "Karpenter CRD", f"{_DISRUPTION}.budgets.*.nodes"),
    fills_in("F-22", "expireAfter is 720h.", "Karpenter CRD", "spec.template.spec.expireAfter"),
    Rule("F-23", (Severity.MUTATE,), "A null without a default is removed.", "Kubernetes API server"),
    *pick(NODE_POOL_RULES, "K-35"),
)


@enforces(*RULES)
def default(document: JsonObject, old: JsonObject | None = None) -> DefaultedObject:
    """Add the missing defaults of a NodePool. A null counts as missing, and is removed if there is no default.

    These are F-20 to F-23. An object that is being deleted, that has too many budgets, or that has wrong JSON types
    where defaults belong is returned unchanged. ``disruption.expireAfter``, the field's former place, is copied to the
    template if that has none (K-35).
    """
    del old
    metadata = document.get("metadata")
    deleting = isinstance(metadata, dict) and metadata.get("deletionTimestamp") is not None
    if deleting or not isinstance(document.get("spec"), dict):
        return DefaultedObject(document)
    spec: JsonObject = without_nulls(document["spec"])
    template, disruption = spec.get("template", {}), spec.setdefault("disruption", {})
    if not (isinstance(template, dict) and isinstance(disruption, dict)):
        return DefaultedObject(document)
    node, budgets = template.get("spec"), disruption.setdefault("budgets", [{}])
    if not (isinstance(node, dict | None) and _is_list_of_objects(budgets)) or len(budgets) > MOST_BUDGETS:
        return DefaultedObject(document)
    disruption.setdefault("consolidationPolicy", ConsolidationPolicy.WHEN_EMPTY_OR_UNDERUTILIZED.value)
    disruption.setdefault("consolidateAfter", DEFAULT_CONSOLIDATE_AFTER)
    for budget in budgets:
        budget.setdefault("nodes", DEFAULT_BUDGET_NODES)
    warnings: tuple[FieldWarning, ...] = ()
    if node is not None and "expireAfter" not in node:
        node["expireAfter"], warnings = _lifetime(disruption.get("expireAfter"))
    return DefaultedObject(document if spec == document["spec"] else {**document, "spec": spec}, warnings)


def _lifetime(old_place: object) -> tuple[str, tuple[FieldWarning, ...]]:
    """Return the ``expireAfter`` for a template that has none: the value from its former place, or the default."""
    if old_place is None:
        return DEFAULT_EXPIRE_AFTER, ()
    if isinstance(old_place, str) and _is_duration(old_place):
        return old_place, (FieldWarning(OLD_EXPIRE_AFTER, f"{quote(old_place)} was copied to {EXPIRE_AFTER}", "K-35"),)
    message = f"{quote(old_place)} is not a duration and was ignored: {EXPIRE_AFTER} is {DEFAULT_EXPIRE_AFTER}"
    return DEFAULT_EXPIRE_AFTER, (FieldWarning(OLD_EXPIRE_AFTER, message, "K-35"),)


def _is_duration(text: str) -> bool:
    try:
        parse_duration_or_never(text)
    except ValueError:
        return False
    return True


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)
