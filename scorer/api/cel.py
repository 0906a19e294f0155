"""The rules that the API server checks by itself: ``x-kubernetes-validations`` of our CRDs, by kind and field.

They are a second line of defence for the time when the webhook is down; the same rules, with better messages,
are in ``webhook.validation``. A rule that compares with the old object stands on the parent of the field it is
about, because it does not run where either side lacks the field. Fields with a schema default are always there.

Source: placement-api.md 7 (rules marked CEL) and 14.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from scorer.api import kinds
from scorer.api.kinds import Kind
from scorer.api.node_pool import CEL_RULES as NODE_POOL_RULES
from scorer.api.node_pool import CelRule

RulesByField: TypeAlias = Mapping[str, tuple[CelRule, ...]]
"""Rules by dotted path; ``[]`` stands for the items of a list, the empty path for the whole object."""

_SHORT_NAME = CelRule("self.metadata.name.size() <= 63", "the name must not be longer than 63 characters")

_NAMESPACE = "x.group == '' && x.version == 'v1' && x.kind == 'Namespace'"
_SPANNING = f"{_NAMESPACE} && has(x.selectionScope) && x.selectionScope == 'NamespaceWithResourceSelectors'"

_TOLERATION = (
    CelRule("self.operator != 'Exists' || !has(self.value) || self.value == ''", "operator Exists takes no value"),
    CelRule(
        "self.operator == 'Exists' || (has(self.key) && self.key != '')", "a key is needed unless operator is Exists"
    ),
)
"""P-39, P-40."""

_PLACEMENT: RulesByField = {
    "spec": (
        CelRule("!has(oldSelf.policy) || has(self.policy)", "the policy cannot be removed"),  # U-01
        CelRule(  # U-02
            "(has(self.policy) ? self.policy.placementType : 'PickAll')"
            " == (has(oldSelf.policy) ? oldSelf.policy.placementType : 'PickAll')",
            "the placement type is immutable",
        ),
        CelRule(  # U-04
            "!has(oldSelf.strategy) || oldSelf.strategy.type != 'External'"
            " || (has(self.strategy) && self.strategy.type == 'External')",
            "a strategy of type External stays External",
        ),
    ),
    "spec.resourceSelectors": (
        CelRule(  # P-11
            f"self.filter(x, {_SPANNING}).size() <= 1",
            "only one Namespace selector may have selectionScope NamespaceWithResourceSelectors",
        ),
        CelRule(  # P-12
            f"self.all(x, !({_SPANNING}) || (has(x.name) && x.name != '' && !has(x.labelSelector)))",
            "a Namespace selector with selectionScope NamespaceWithResourceSelectors must select by name",
        ),
        CelRule(  # P-13
            f"!self.exists(x, {_SPANNING}) || self.filter(x, {_NAMESPACE}).size() == 1",
            "selectionScope NamespaceWithResourceSelectors excludes other Namespace selectors",
        ),
    ),
    "spec.resourceSelectors[]": (
        CelRule(  # P-04
            "!has(self.labelSelector) || !has(self.name) || self.name == ''",
            "name and labelSelector are mutually exclusive",
        ),
    ),
    "spec.policy": (
        CelRule(  # P-20
            "self.placementType != 'PickFixed' || !(has(self.affinity) || has(self.numberOfClusters)"
            " || has(self.topologySpreadConstraints) || has(self.tolerations))",
            "PickFixed takes no affinity, numberOfClusters, topologySpreadConstraints or tolerations",
        ),
        CelRule(  # P-23
            "self.placementType != 'PickAll' || !(has(self.clusterNames) || has(self.numberOfClusters)"
            " || has(self.topologySpreadConstraints))",
            "PickAll takes no clusterNames, numberOfClusters or topologySpreadConstraints",
        ),
        CelRule(  # P-25
            "self.placementType != 'PickN' || (has(self.numberOfClusters) && !has(self.clusterNames))",
            "PickN needs numberOfClusters and takes no clusterNames",
        ),
    ),
    "spec.policy.tolerations[]": _TOLERATION,
    "spec.strategy.reportBackStrategy": (
        CelRule("self.type != 'Mirror' || has(self.destination)", "type Mirror needs a destination"),  # P-52
    ),
}

_CLUSTER_PLACEMENT: RulesByField = {
    **_PLACEMENT,
    "spec": (
        *_PLACEMENT["spec"],
        CelRule(  # P-15
            "self.statusReportingScope != 'NamespaceAccessible'"
            " || self.resourceSelectors.filter(x, x.kind == 'Namespace').size() == 1",
            "statusReportingScope NamespaceAccessible needs exactly one Namespace selector",
        ),
        CelRule(
            "self.statusReportingScope == oldSelf.statusReportingScope", "statusReportingScope is immutable"
        ),  # U-05
    ),
}

_APPROVAL_TAKES_NO_TIME = CelRule(
    "self.type != 'Approval' || !has(self.waitTime)", "an Approval takes no waitTime"
)  # S-07

_STAGED_STRATEGY: RulesByField = {
    "spec.stages[].maxConcurrency": (
        CelRule("type(self) == string || self >= 1", "maxConcurrency must be at least 1, or 1% to 100%"),  # S-03
    ),
    "spec.stages[].afterStageTasks[]": (
        _APPROVAL_TAKES_NO_TIME,
        CelRule("self.type != 'TimedWait' || has(self.waitTime)", "a TimedWait needs a waitTime"),  # S-08
    ),
    "spec.stages[].beforeStageTasks[]": (
        _APPROVAL_TAKES_NO_TIME,
        CelRule("self.type != 'TimedWait'", "TimedWait is not allowed before a stage"),  # S-09
    ),
}

_STAGED_RUN: RulesByField = {
    "": (_SHORT_NAME,),
    "spec": (
        CelRule("self.placementName == oldSelf.placementName", "placementName is immutable"),
        CelRule(
            "(has(self.resourceSnapshotIndex) ? self.resourceSnapshotIndex : '')"
            " == (has(oldSelf.resourceSnapshotIndex) ? oldSelf.resourceSnapshotIndex : '')",
            "resourceSnapshotIndex is immutable",
        ),
        CelRule(
            "self.stagedRolloutStrategyName == oldSelf.stagedRolloutStrategyName",
            "stagedRolloutStrategyName is immutable",
        ),
        CelRule(
            "!(oldSelf.state == 'Initialize' && self.state == 'Stop')"
            " && !(oldSelf.state in ['Run', 'Stop'] && self.state == 'Initialize')",
            "state may change from Initialize to Run, from Run to Stop and from Stop to Run only",
        ),
    ),
}

_APPROVAL_REQUEST: RulesByField = {"spec": (CelRule("self == oldSelf", "the spec is immutable"),)}

_PLACEMENT_FIXED = CelRule(  # O-01
    "has(self.placement) == has(oldSelf.placement) && (!has(self.placement) || self.placement == oldSelf.placement)",
    "the placement is immutable",
)
_CLUSTER_OVERRIDE_SPEC = (
    _PLACEMENT_FIXED,
    CelRule(  # O-02
        "!has(self.placement) || self.placement.scope != 'Namespaced'",
        "a ClusterResourceOverride needs a cluster-scoped placement",
    ),
)

_EVICTION: RulesByField = {
    "spec": (  # V-02
        CelRule("self.placementName == oldSelf.placementName", "placementName is immutable"),
        CelRule("self.clusterName == oldSelf.clusterName", "clusterName is immutable"),
    )
}

_NOT_NEGATIVE = (CelRule("type(self) == string || self >= 0", "must be at least 0, or 0% to 100%"),)  # B-02

_DISRUPTION_BUDGET: RulesByField = {
    "spec": (  # B-01
        CelRule(
            "!(has(self.maxUnavailable) && has(self.minAvailable))",
            "only one of maxUnavailable and minAvailable may be set",
        ),
    ),
    "spec.maxUnavailable": _NOT_NEGATIVE,
    "spec.minAvailable": _NOT_NEGATIVE,
}

_POLICY_SNAPSHOT: RulesByField = {"spec.policy.tolerations[]": _TOLERATION}  # N-01

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
    kinds.OVERRIDE_SNAPSHOT: {"spec.overrideSpec": _CLUSTER_OVERRIDE_SPEC},  # N-08
    kinds.NAMESPACED_OVERRIDE_SNAPSHOT: {"spec.overrideSpec": (_PLACEMENT_FIXED,)},
    kinds.EVICTION: _EVICTION,
    kinds.DISRUPTION_BUDGET: _DISRUPTION_BUDGET,
    kinds.MEMBER_CLUSTER: {"": (_SHORT_NAME,)},  # M-01
    kinds.NODE_POOL: NODE_POOL_RULES,
}
