"""Defaults of ClusterResourcePlacement and ResourcePlacement.

These are the defaults that no schema can express, because they add whole blocks, and the defaults inside
``policy`` and ``strategy``, so that objects that reach us without an API server get complete blocks too.
``selectionScope``, ``statusReportingScope`` and the like (F-05, F-07) are left to the schema.

Source: docs/specifications/placement-api.md 6, X-18, X-20; KubeFleet pkg/utils/defaulter/clusterresourceplacement.go.
    Unlike there, ResourcePlacements get them too, and an update never adds a policy in place of a stored one.
"""

from collections.abc import Callable
from typing import Any, Final

from scorer.api.meta import JsonObject, json_equal
from scorer.api.placement.placement import (
    DEFAULT_MAX_SURGE,
    DEFAULT_MAX_UNAVAILABLE,
    DEFAULT_REVISION_HISTORY_LIMIT,
    DEFAULT_UNAVAILABLE_PERIOD_SECONDS,
)
from scorer.api.values.field_path import FieldPath
from webhook.defaulting.defaulted import (
    DefaultedObject,
    UnreadableDocumentError,
    filled,
    for_each,
    object_at,
    replaced,
    within,
    without,
)
from webhook.validation.framework.field import FieldWarning
from webhook.validation.framework.rule import CRD, OURS, UPDATE, Rule, Severity, enforces, pick
from webhook.validation.framework.rule import default as fills_in
from webhook.validation.placement.rules import MOST_ITEMS
from webhook.validation.placement.rules import RULES as PLACEMENT_RULES

_ROLLING_UPDATE: Final = {
    "maxSurge": DEFAULT_MAX_SURGE,
    "maxUnavailable": DEFAULT_MAX_UNAVAILABLE,
    "unavailablePeriodSeconds": DEFAULT_UNAVAILABLE_PERIOD_SECONDS,
}
_APPLY: Final = {
    "comparisonOption": "PartialComparison",
    "type": "ClientSideApply",
    "whenToApply": "Always",
    "whenToTakeOver": "Always",
}
_SPREAD: Final = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
_PREFERRED: Final = ("affinity", "clusterAffinity", "preferredDuringSchedulingIgnoredDuringExecution")

_DEFAULTER: Final = "KubeFleet pkg/utils/defaulter/clusterresourceplacement.go"
_BOTH: Final = f"{CRD}, {_DEFAULTER}"
_APPLY_AT: Final = "spec.strategy.applyStrategy"
_ROLLING_AT: Final = "spec.strategy.rollingUpdate"

RULES: Final = (
    fills_in("F-01", "policy is PickAll, on an update only if the stored object has none.", _DEFAULTER),
    fills_in("F-02", "placementType is PickAll.", CRD, "spec.policy.placementType"),
    fills_in(
        "F-03",
        "A spread constraint has maxSkew 1 and DoNotSchedule.",
        _BOTH,
        "spec.policy.topologySpreadConstraints.*.maxSkew",
        "spec.policy.topologySpreadConstraints.*.whenUnsatisfiable",
    ),
    fills_in("F-04", "The operator of a toleration is Equal.", _BOTH, "spec.policy.tolerations.*.operator"),
    fills_in("F-06", f"revisionHistoryLimit is {DEFAULT_REVISION_HISTORY_LIMIT}.", _BOTH, "spec.revisionHistoryLimit"),
    fills_in("F-08", "The strategy is RollingUpdate.", _BOTH, "spec.strategy.type"),
    fills_in(
        "F-09",
        f"rollingUpdate has maxUnavailable {DEFAULT_MAX_UNAVAILABLE}, maxSurge {DEFAULT_MAX_SURGE} and"
        f" unavailablePeriodSeconds {DEFAULT_UNAVAILABLE_PERIOD_SECONDS}.",
        _BOTH,
        f"{_ROLLING_AT}.maxUnavailable",
        f"{_ROLLING_AT}.maxSurge",
        f"{_ROLLING_AT}.unavailablePeriodSeconds",
    ),
    fills_in(
        "F-10",
        "applyStrategy has ClientSideApply, PartialComparison, whenToApply Always and whenToTakeOver Always.",
        _BOTH,
        *(
            f"{spec}.{word}"
            for spec in (_APPLY_AT, "spec.applyStrategy")
            for word in ("type", "comparisonOption", "whenToApply", "whenToTakeOver")
        ),
    ),
    fills_in("F-11", "With ServerSideApply, serverSideApplyConfig has force false.", _DEFAULTER),
    fills_in(
        "F-12",
        "deleteStrategy has propagationPolicy Delete, and reportBackStrategy has type Disabled.",
        CRD,
        "spec.strategy.deleteStrategy.propagationPolicy",
        "spec.strategy.reportBackStrategy.type",
    ),
    Rule(
        "X-20",
        (Severity.MUTATE,),
        "An update to External, or from ServerSideApply to another type, drops the unchanged block of the old type.",
        OURS,
        operations=UPDATE,
    ),
    *pick(PLACEMENT_RULES, "X-18"),
)


@enforces(*RULES)
def default(document: JsonObject, old: JsonObject | None) -> DefaultedObject:
    """Return *document* with the defaults of a placement.

    Args:
        document: The object as received. An object that is too malformed for defaulting is returned unchanged.
        old: The stored object on an update.
    """
    try:
        spec = object_at(document, "spec")
        if spec is None:
            return DefaultedObject(document)
        stored_spec = object_at(old, "spec") if old is not None else None
        sorters = _Sorters()
        new = _default_spec(spec, stored_spec, sorters)
    except UnreadableDocumentError:
        return DefaultedObject(document)
    return DefaultedObject(replaced(document, "spec", new), tuple(sorters.warnings))


def _default_spec(spec: JsonObject, stored: JsonObject | None, sorters: "_Sorters") -> JsonObject:
    """Fill in F-01 and F-06, and the blocks below."""
    # Not in place of a stored policy: a user who removes it must be refused (U-01), not get "all clusters".
    if stored is None or stored.get("policy") is None:
        spec = filled(spec, {"policy": {"placementType": "PickAll"}})
    spec = within(spec, "policy", lambda policy: _default_policy(policy, sorters))
    spec = filled(spec, {"strategy": {}})
    old_strategy = object_at(stored, "strategy") if stored is not None else None
    if old_strategy is not None:
        before = old_strategy
        # Before the defaults, which would add the blocks of the new type.
        spec = within(spec, "strategy", lambda strategy: _drop_leftovers(strategy, before))
    spec = within(spec, "strategy", _default_strategy)
    return filled(spec, {"revisionHistoryLimit": DEFAULT_REVISION_HISTORY_LIMIT})


def _default_policy(policy: JsonObject, sorters: "_Sorters") -> JsonObject:
    """Fill in F-02 to F-04 and rename the old sorter (X-18)."""
    policy = filled(policy, {"placementType": "PickAll"})
    policy = for_each(policy, "topologySpreadConstraints", lambda constraint: filled(constraint, _SPREAD), MOST_ITEMS)
    policy = for_each(policy, "tolerations", lambda toleration: filled(toleration, {"operator": "Equal"}), MOST_ITEMS)
    affinity, cluster_affinity, preferred = _PREFERRED
    return within(
        policy,
        affinity,
        lambda outer: within(
            outer, cluster_affinity, lambda inner: for_each(inner, preferred, sorters.rename, MOST_ITEMS)
        ),
    )


class _Sorters:
    """Renames ``metricSorter`` to ``propertySorter`` in preferences and warns once (X-18).

    Next to a different ``propertySorter`` it is left unchanged, and the validating webhook refuses the object.
    """

    def __init__(self) -> None:
        self.warnings: list[FieldWarning] = []

    def rename(self, preferred: JsonObject) -> JsonObject:
        """Return a weighted preference with the new name."""
        return within(preferred, "preference", self._rename)

    def _rename(self, preference: JsonObject) -> JsonObject:
        old, new = preference.get("metricSorter"), preference.get("propertySorter")
        if old is None or not (new is None or json_equal(old, new)):
            return preference
        if not self.warnings:
            at = FieldPath.of("spec", "policy", *_PREFERRED)
            self.warnings.append(FieldWarning(at, "metricSorter is now propertySorter", "X-18"))
        return without(preference if new is not None else {**preference, "propertySorter": old}, "metricSorter")


def _drop_leftovers(strategy: JsonObject, old: JsonObject) -> JsonObject:
    """Drop blocks that only defaulting added, when the type that they belong to changes (X-20).

    Without this, P-46 or P-50 would refuse a one-line patch of the type.
    """
    if strategy.get("type") == "External" and _type(old, "RollingUpdate") == "RollingUpdate":
        strategy = _without_unchanged(strategy, old, "rollingUpdate", _ROLLING_UPDATE)
    before = object_at(old, "applyStrategy")
    if before is None or before.get("type") != "ServerSideApply":
        return strategy
    return within(strategy, "applyStrategy", _leave_server_side_apply(before))


def _leave_server_side_apply(before: JsonObject) -> Callable[[JsonObject], JsonObject]:
    def leave(apply: JsonObject) -> JsonObject:
        if _type(apply, "ClientSideApply") == "ServerSideApply":
            return apply
        return _without_unchanged(apply, before, "serverSideApplyConfig", {"force": False})

    return leave


def _without_unchanged(block: JsonObject, old: JsonObject, key: str, defaults: JsonObject) -> JsonObject:
    new, before = object_at(block, key), object_at(old, key)
    if new is None or before is None or not json_equal(filled(new, defaults), filled(before, defaults)):
        return block
    return without(block, key)


def _default_strategy(strategy: JsonObject) -> JsonObject:
    """Fill in F-08 to F-12."""
    strategy = filled(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        strategy = filled(strategy, {"rollingUpdate": {}})
        strategy = within(strategy, "rollingUpdate", lambda block: filled(block, _ROLLING_UPDATE))
    strategy = within(filled(strategy, {"applyStrategy": {}}), "applyStrategy", _default_apply)
    strategy = within(strategy, "deleteStrategy", lambda block: filled(block, {"propagationPolicy": "Delete"}))
    return within(strategy, "reportBackStrategy", lambda block: filled(block, {"type": "Disabled"}))


def _default_apply(apply: JsonObject) -> JsonObject:
    """Fill in F-10 and F-11."""
    apply = filled(apply, _APPLY)
    if apply["type"] == "ServerSideApply":
        apply = filled(apply, {"serverSideApplyConfig": {"force": False}})
    return apply


def _type(block: JsonObject, absent: str) -> Any:
    block_type = block.get("type")
    return absent if block_type is None else block_type
