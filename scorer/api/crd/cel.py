"""The rules that the API server checks itself: ``x-kubernetes-validations`` of our CRDs, by kind and field.

They are a second line of defense while the webhook is down. The same rules, with better messages, are in
``webhook.validation``. A rule that compares with the old object is attached to the parent of its field, because the API
server skips such a rule if either object lacks the field. Fields with a schema default are always present.

Source: docs/specifications/placement-api.md 7 (rules marked CEL) and 14; of the upgrade kinds:
`scorer.api.crd.upgrade_cel`.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from scorer.api import kinds
from scorer.api.crd.node_pool_cel import NODE_POOL_RULES as NODE_POOL_RULES
from scorer.api.crd.node_pool_cel import CelRule
from scorer.api.crd.upgrade_cel import (
    CATALOG_RULES,
    GATE_RULES,
    PROFILE_RULES,
    REQUEST_RULES,
    RUN_RULES,
    STRATEGY_RULES,
    WINDOW_RULES,
)
from scorer.api.kinds import Kind
from scorer.api.values.int_or_percent import LARGEST

RulesByField: TypeAlias = Mapping[str, tuple[CelRule, ...]]
"""Rules by dotted path. ``[]`` stands for the items of a list, and the empty path for the whole object."""


def _short_name(rule_id: str) -> CelRule:
    return CelRule("self.metadata.name.size() <= 63", "the name must not be longer than 63 characters", (rule_id,))


_NAMESPACE = "x.group == '' && x.version == 'v1' && x.kind == 'Namespace'"
_SPANNING = f"{_NAMESPACE} && has(x.selectionScope) && x.selectionScope == 'NamespaceWithResourceSelectors'"

_TOLERATION = (
    CelRule(
        "self.operator != 'Exists' || !has(self.value) || self.value == ''",
        "must be empty when operator is Exists",
        ("P-39",),
        "value",
    ),
    CelRule(
        "self.operator == 'Exists' || (has(self.key) && self.key != '')",
        "must be Exists when key is empty",
        ("P-40",),
        "operator",
    ),
)


def _not_with(placement_type: str, rule_id: str, *fields: str) -> Iterator[CelRule]:
    """Yield one rule per field that a placement type does not take, so that each error is reported at its field."""
    for field in fields:
        yield CelRule(
            f"self.placementType != '{placement_type}' || !has(self.{field})",
            f"must not be set when placementType is {placement_type}",
            (rule_id,),
            field,
            "FieldValueForbidden",
        )


_PLACEMENT: RulesByField = {
    "spec": (
        CelRule(
            "!has(oldSelf.policy) || has(self.policy)", "cannot be removed", ("U-01",), "policy", "FieldValueForbidden"
        ),
        CelRule(
            "(has(self.policy) ? self.policy.placementType : 'PickAll')"
            " == (has(oldSelf.policy) ? oldSelf.policy.placementType : 'PickAll')",
            "field is immutable",
            ("U-02",),
            "policy.placementType",
        ),
        CelRule(
            "!has(oldSelf.strategy) || oldSelf.strategy.type != 'External'"
            " || (has(self.strategy) && self.strategy.type == 'External')",
            "must not change from External",
            ("U-04",),
            "strategy.type",
            "FieldValueForbidden",
        ),
    ),
    "spec.resourceSelectors": (
        CelRule(
            f"self.filter(x, {_SPANNING}).size() <= 1",
            "only one Namespace selector may have selectionScope NamespaceWithResourceSelectors",
            ("P-11",),
        ),
        CelRule(
            f"self.all(x, !({_SPANNING}) || (has(x.name) && x.name != '' && !has(x.labelSelector)))",
            "a Namespace selector with selectionScope NamespaceWithResourceSelectors must select by name",
            ("P-12",),
        ),
        CelRule(
            f"!self.exists(x, {_SPANNING}) || self.filter(x, {_NAMESPACE}).size() == 1",
            "must not have other Namespace selectors besides one with selectionScope NamespaceWithResourceSelectors",
            ("P-13",),
        ),
    ),
    "spec.resourceSelectors[]": (
        CelRule(
            "!has(self.labelSelector) || !has(self.name) || self.name == ''",
            "name and labelSelector are mutually exclusive",
            ("P-04",),
            "labelSelector",
            "FieldValueForbidden",
        ),
    ),
    "spec.policy": (
        *_not_with("PickFixed", "P-20", "affinity", "numberOfClusters", "topologySpreadConstraints", "tolerations"),
        *_not_with("PickAll", "P-23", "clusterNames", "numberOfClusters", "topologySpreadConstraints"),
        *_not_with("PickN", "P-25", "clusterNames"),
        CelRule(
            "self.placementType != 'PickN' || has(self.numberOfClusters)",
            "must be set when placementType is PickN",
            ("P-25",),
            "numberOfClusters",
            "FieldValueRequired",
        ),
    ),
    "spec.policy.tolerations[]": _TOLERATION,
    "spec.strategy.reportBackStrategy": (
        CelRule(
            "self.type != 'Mirror' || has(self.destination)",
            "must be set when type is Mirror",
            ("P-52",),
            "destination",
            "FieldValueRequired",
        ),
    ),
}

_CLUSTER_PLACEMENT: RulesByField = {
    **_PLACEMENT,
    "spec": (
        *_PLACEMENT["spec"],
        CelRule(
            "self.statusReportingScope != 'NamespaceAccessible'"
            " || self.resourceSelectors.filter(x, x.kind == 'Namespace').size() == 1",
            "NamespaceAccessible requires exactly one Namespace among resourceSelectors",
            ("P-15",),
            "statusReportingScope",
        ),
        CelRule(
            "self.statusReportingScope == oldSelf.statusReportingScope",
            "field is immutable",
            ("U-05",),
            "statusReportingScope",
        ),
    ),
}

_APPROVAL_TAKES_NO_TIME = CelRule(
    "self.type != 'Approval' || !has(self.waitTime)",
    "must not be set when type is Approval",
    ("S-07",),
    "waitTime",
    "FieldValueForbidden",
)

_STAGED_STRATEGY: RulesByField = {
    "spec.stages[].maxConcurrency": (
        CelRule(
            "type(self) == string || self >= 1",
            f"must be an integer from 1 to {LARGEST} or a percentage of 1% to 100%",
            ("S-03",),
        ),
    ),
    "spec.stages[].afterStageTasks[]": (
        _APPROVAL_TAKES_NO_TIME,
        CelRule(
            "self.type != 'TimedWait' || has(self.waitTime)",
            "must be set when type is TimedWait",
            ("S-08",),
            "waitTime",
            "FieldValueRequired",
        ),
    ),
    "spec.stages[].beforeStageTasks[]": (
        _APPROVAL_TAKES_NO_TIME,
        CelRule("self.type != 'TimedWait'", "must be Approval in beforeStageTasks", ("S-09",), "type"),
    ),
}

_STAGED_RUN: RulesByField = {
    "": (_short_name("R-01"),),
    "spec": (
        CelRule("self.placementName == oldSelf.placementName", "cannot be changed", ("R-05",), "placementName"),
        CelRule(
            "(has(self.resourceSnapshotIndex) ? self.resourceSnapshotIndex : '')"
            " == (has(oldSelf.resourceSnapshotIndex) ? oldSelf.resourceSnapshotIndex : '')",
            "cannot be changed",
            ("R-06", "X-44"),
            "resourceSnapshotIndex",
        ),
        CelRule(
            "self.stagedRolloutStrategyName == oldSelf.stagedRolloutStrategyName",
            "cannot be changed",
            ("R-07",),
            "stagedRolloutStrategyName",
        ),
        CelRule(
            "!(oldSelf.state == 'Initialize' && self.state == 'Stop')"
            " && !(oldSelf.state in ['Run', 'Stop'] && self.state == 'Initialize')",
            "state may change only from Initialize to Run, from Run to Stop and from Stop to Run",
            ("R-08",),
            "state",
        ),
    ),
}

_APPROVAL_REQUEST: RulesByField = {
    "spec": (CelRule("self == oldSelf", "cannot be changed", ("Q-02",), reason="FieldValueForbidden"),)
}

_PLACEMENT_FIXED = CelRule(
    "has(self.placement) == has(oldSelf.placement) && (!has(self.placement) || self.placement == oldSelf.placement)",
    "cannot be changed",
    ("O-01",),
    "placement",
    "FieldValueForbidden",
)
_CLUSTER_OVERRIDE_SPEC = (
    _PLACEMENT_FIXED,
    CelRule(
        "!has(self.placement) || self.placement.scope != 'Namespaced'",
        "must be Cluster in a ClusterResourceOverride",
        ("O-02",),
        "placement.scope",
    ),
)

_EVICTION: RulesByField = {
    "spec": (
        CelRule("self.placementName == oldSelf.placementName", "cannot be changed", ("V-02",), "placementName"),
        CelRule("self.clusterName == oldSelf.clusterName", "cannot be changed", ("V-02",), "clusterName"),
    )
}

_NOT_NEGATIVE = (
    CelRule(
        "type(self) == string || self >= 0",
        f"must be an integer from 0 to {LARGEST} or a percentage of 0% to 100%",
        ("B-02",),
    ),
)

_DISRUPTION_BUDGET: RulesByField = {
    "spec": (
        CelRule(
            "!(has(self.maxUnavailable) && has(self.minAvailable))",
            "maxUnavailable and minAvailable are mutually exclusive",
            ("B-01",),
            reason="FieldValueForbidden",
        ),
    ),
    "spec.maxUnavailable": _NOT_NEGATIVE,
    "spec.minAvailable": _NOT_NEGATIVE,
}

_POLICY_SNAPSHOT: RulesByField = {"spec.policy.tolerations[]": _TOLERATION}

CEL_RULES: Final[Mapping[Kind, RulesByField]] = {
    kinds.PLACEMENT: _CLUSTER_PLACEMENT,
    kinds.RESOURCE_PLACEMENT: _PLACEMENT,
    kinds.POLICY_SNAPSHOT: _POLICY_SNAPSHOT,
    kinds.NAMESPACED_POLICY_SNAPSHOT: _POLICY_SNAPSHOT,
    kinds.STAGED_STRATEGY: _STAGED_STRATEGY,
    kinds.NAMESPACED_STAGED_STRATEGY: _STAGED_STRATEGY,
    kinds.STAGED_RUN: _STAGED_RUN,
    kinds.NAMESPACED_STAGED_RUN: _STAGED_RUN,
    kinds.APPROVAL_REQUEST: _APPROVAL_REQUEST,
    kinds.NAMESPACED_APPROVAL_REQUEST: _APPROVAL_REQUEST,
    kinds.OVERRIDE: {"spec": _CLUSTER_OVERRIDE_SPEC},
    kinds.NAMESPACED_OVERRIDE: {"spec": (_PLACEMENT_FIXED,)},
    kinds.OVERRIDE_SNAPSHOT: {"spec.overrideSpec": _CLUSTER_OVERRIDE_SPEC},
    kinds.NAMESPACED_OVERRIDE_SNAPSHOT: {"spec.overrideSpec": (_PLACEMENT_FIXED,)},
    kinds.EVICTION: _EVICTION,
    kinds.DISRUPTION_BUDGET: _DISRUPTION_BUDGET,
    kinds.MEMBER_CLUSTER: {"": (_short_name("M-01"),)},
    kinds.NODE_POOL: NODE_POOL_RULES,
    kinds.UPGRADE_STRATEGY: STRATEGY_RULES,
    kinds.UPGRADE_RUN: RUN_RULES,
    kinds.UPGRADE_GATE: GATE_RULES,
    kinds.UPGRADE_PROFILE: PROFILE_RULES,
    kinds.MAINTENANCE_WINDOW: WINDOW_RULES,
    kinds.VERSION_CATALOG: CATALOG_RULES,
    kinds.UPGRADE_REQUEST: REQUEST_RULES,
}
