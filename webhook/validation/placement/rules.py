"""The rules on ClusterResourcePlacement and ResourcePlacement, and the paths of their fields.

The rules are in the order of the specification.

Source: docs/specifications/placement-api.md 5, 7.1 to 7.3 and 10.1; KubeFleet pkg/utils/validator/placement.go and the
    CEL rules of its CRDs.
"""

from typing import Final

from scorer.api.names import IGNORE_RESOURCE_OVERRIDES
from scorer.api.values.field_path import FieldPath
from scorer.plugins.cluster_affinity import MOST_REQUIREMENTS
from webhook.validation import removal_annotations
from webhook.validation.framework.field import SPEC
from webhook.validation.framework.metadata import USER_RULES
from webhook.validation.framework.rule import (
    CEL,
    CRD,
    DELETE,
    OURS,
    UPDATE,
    Rule,
    Severity,
    deny,
    schema,
    shape_rules,
    warn,
)
from webhook.validation.placement import never_placed

NAMESPACE_FIELD: Final = FieldPath.of("metadata", "namespace")
POLICY: Final = SPEC / "policy"
STRATEGY: Final = SPEC / "strategy"
TYPE: Final = POLICY / "placementType"
SELECTORS: Final = SPEC / "resourceSelectors"
CLUSTER_AFFINITY: Final = POLICY / "affinity" / "clusterAffinity"
REQUIRED_TERMS: Final = CLUSTER_AFFINITY / "requiredDuringSchedulingIgnoredDuringExecution" / "clusterSelectorTerms"
PREFERRED: Final = CLUSTER_AFFINITY / "preferredDuringSchedulingIgnoredDuringExecution"
ROLLING_UPDATE: Final = STRATEGY / "rollingUpdate"
TOLERATIONS: Final = POLICY / "tolerations"
SPREAD: Final = POLICY / "topologySpreadConstraints"
MOST_ITEMS: Final = 100
"""Maximum number of items that the schema allows in any list of a placement."""
_AFFINITY: Final = "spec.policy.affinity.clusterAffinity"
_REQUIRED: Final = f"{_AFFINITY}.requiredDuringSchedulingIgnoredDuringExecution"
_REQUIREMENT: Final = f"{_REQUIRED}.clusterSelectorTerms.*.propertySelector.matchExpressions.*"
_PREFERRED: Final = f"{_AFFINITY}.preferredDuringSchedulingIgnoredDuringExecution"
_PREFERENCE: Final = f"{_PREFERRED}.*.preference"
_VALIDATOR: Final = "KubeFleet pkg/utils/validator/placement.go"
_BOTH: Final = f"{CEL}, pkg/utils/validator/placement.go"
RULES: Final = (
    *USER_RULES,
    deny("P-01", "The name must have at most 63 characters.", _VALIDATOR),
    schema("P-02", "There must be 1 to 100 resource selectors.", CRD, "spec.resourceSelectors"),
    schema(
        "P-03",
        "A selector must have group, version and kind. The core group is empty.",
        CRD,
        "spec.resourceSelectors.*",
    ),
    deny("P-04", "A selector must not have both a name and a labelSelector.", _BOTH),
    deny(
        "P-05",
        "The labelSelector of a selector must be well formed.",
        _VALIDATOR,
        "spec.resourceSelectors.*.labelSelector",
    ),
    deny("P-06", "The hub must serve the selected kind in that version.", _VALIDATOR),
    warn(
        "P-09",
        "A selector of a kind that cannot be discovered is admitted. The kind may not exist.",
        f"{OURS}, where KubeFleet refuses",
    ),
    schema("P-10", "selectionScope must have one of its three values.", CRD, "spec.resourceSelectors.*.selectionScope"),
    deny("P-11", "At most one Namespace selector may have NamespaceWithResourceSelectors.", CEL),
    deny("P-12", "A selector with NamespaceWithResourceSelectors must select one namespace by name.", CEL),
    deny("P-13", "A selector with NamespaceWithResourceSelectors must be the only Namespace selector.", CEL),
    schema(
        "P-14",
        "statusReportingScope must be ClusterScopeOnly or NamespaceAccessible.",
        CRD,
        "spec.statusReportingScope",
    ),
    schema("P-16", "revisionHistoryLimit must be 1 to 1000.", CRD, "spec.revisionHistoryLimit"),
    schema("P-17", "placementType must be PickAll, PickN or PickFixed.", CRD, "spec.policy.placementType"),
    schema("P-18", "There must be at most 100 clusterNames.", CRD, "spec.policy.clusterNames"),
    schema("P-19", "numberOfClusters must be an integer of at least 0.", CRD, "spec.policy.numberOfClusters"),
    deny(
        "P-20", "PickFixed must not have affinity, numberOfClusters, topologySpreadConstraints or tolerations.", _BOTH
    ),
    deny(
        "P-21",
        "A cluster name must be a DNS subdomain of at most 63 characters.",
        _VALIDATOR,
        "spec.policy.clusterNames.*",
    ),
    deny("P-22", "No cluster may be named twice.", _VALIDATOR),
    deny("P-23", "PickAll must not have clusterNames, numberOfClusters or topologySpreadConstraints.", _BOTH),
    deny("P-24", "PickAll must not have preferences: it picks every cluster.", _VALIDATOR),
    deny("P-25", "PickN must have numberOfClusters and must not have clusterNames.", _BOTH),
    schema("P-26", "The required affinity must have a list of at most 10 terms.", CRD, _REQUIRED),
    deny(
        "P-27",
        "The labelSelector of a cluster term must be well formed.",
        _VALIDATOR,
        f"{_REQUIRED}.clusterSelectorTerms.*.labelSelector",
        f"{_PREFERENCE}.labelSelector",
    ),
    deny("P-28", "A required term must not have a propertySorter.", _VALIDATOR),
    deny("P-29", "A preferred term must not compare properties.", _VALIDATOR),
    schema("P-30", "A preference must have a weight of -100 to 100 and a term.", CRD, _PREFERRED),
    deny("P-31", "A property name must be well formed.", _VALIDATOR, f"{_REQUIREMENT}.name"),
    schema(
        "P-32", "The operator of a property must be Gt, Ge, Lt, Le, Eq or Ne.", _VALIDATOR, f"{_REQUIREMENT}.operator"
    ),
    schema(
        "P-33", "A property must be compared with exactly one value.", f"{CRD}, {_VALIDATOR}", f"{_REQUIREMENT}.values"
    ),
    deny("P-34", "The value that a property is compared with must be a quantity.", _VALIDATOR),
    deny("P-35", "The comparisons of one property in one term must not contradict each other.", _VALIDATOR),
    schema(
        "P-36",
        "A sorter must have a well-formed property name and be Ascending or Descending.",
        f"{CRD}, {_VALIDATOR}",
        f"{_PREFERENCE}.propertySorter",
        f"{_PREFERENCE}.metricSorter",
    ),
    schema(
        "P-37",
        "A spread constraint must have a topologyKey, a maxSkew of at least 1 and a known whenUnsatisfiable.",
        CRD,
        "spec.policy.topologySpreadConstraints",
    ),
    schema("P-38", "There must be at most 100 tolerations.", CRD, "spec.policy.tolerations"),
    deny("P-39", "A toleration with operator Exists must not set a value.", _BOTH),
    deny("P-40", "A toleration without a key must have operator Exists.", _BOTH),
    deny("P-41", "The key of a toleration must be a qualified name.", _VALIDATOR),
    deny("P-42", "The value of a toleration must be a label value.", _VALIDATOR),
    schema(
        "P-43",
        "The operator of a toleration must be Equal or Exists, and its effect, if set, NoSchedule.",
        CRD,
        "spec.policy.tolerations.*",
    ),
    deny("P-44", "No two tolerations may be the same.", _VALIDATOR),
    schema("P-45", "The strategy must be RollingUpdate or External.", CRD, "spec.strategy.type"),
    deny("P-46", "An External strategy must not set rollingUpdate.", _VALIDATOR),
    schema(
        "P-47",
        "unavailablePeriodSeconds must be an integer from 0 to 2147483647.",
        CRD,
        "spec.strategy.rollingUpdate.unavailablePeriodSeconds",
    ),
    schema(
        "P-48",
        "maxUnavailable and maxSurge must be integers from 0 to 2147483647 or percentages from 0% to 100%.",
        f"{CRD}, {_VALIDATOR}",
        "spec.strategy.rollingUpdate",
    ),
    schema("P-49", "applyStrategy must have known values.", CRD, "spec.strategy.applyStrategy"),
    deny("P-50", "serverSideApplyConfig must not be set unless the type is ServerSideApply.", _VALIDATOR),
    schema(
        "P-51",
        "The propagationPolicy of deleteStrategy must be Delete or Abandon.",
        CRD,
        "spec.strategy.deleteStrategy",
    ),
    schema(
        "P-52",
        "reportBackStrategy must have known values, and Mirror requires a destination.",
        f"{CRD}, CEL",
        "spec.strategy.reportBackStrategy",
    ),
    deny("U-01", "A stored policy must not be removed.", CEL, on=UPDATE),
    deny("U-02", "The placement type is immutable. An absent policy means PickAll.", _BOTH, on=UPDATE),
    deny("U-03", "Tolerations may be added, but not changed or removed.", _VALIDATOR, on=UPDATE),
    deny(
        "U-04",
        "An External strategy must remain External.",
        f"{CEL}; {OURS} where the whole block is removed",
        on=UPDATE,
    ),
    never_placed.KIND_RULE,
    deny("X-04", "No object may be selected twice by name.", OURS),
    warn("X-06", "A placement should pick at least one cluster. Picking none removes the placed objects everywhere."),
    warn("X-09", "A property in a comparison or sorter should be a number."),
    warn("X-10", "A property should not be compared with a negative number, which is always or never true."),
    deny("X-11", "The topologyKey of a spread constraint must be a valid label key.", OURS),
    deny("X-12", "No two spread constraints may have the same topologyKey and whenUnsatisfiable.", OURS),
    warn("X-13", "Terms and preferences should have an effect: none should be empty or have weight 0."),
    Rule(
        "X-14",
        (Severity.DENY, Severity.WARN),
        "maxUnavailable and maxSurge must not both be zero. A single zero gives a warning.",
        f"{OURS}; seed 004",
    ),
    warn("X-15", "unavailablePeriodSeconds should be at most an hour."),
    warn("X-16", "Only a placement on one cluster should mirror to the original resource."),
    Rule(
        "X-18",
        (Severity.MUTATE, Severity.WARN, Severity.DENY),
        "A preference must use propertySorter. metricSorter is renamed, or refused beside a different propertySorter.",
        f"{OURS}; seed 000",
    ),
    deny("X-28", f"A policy must have at most {MOST_REQUIREMENTS} requirements on labels and properties.", OURS),
    warn("X-19", "The property for the node count should have its current name.", f"{OURS}; seed 000"),
    deny(
        "X-69",
        f"The annotation {IGNORE_RESOURCE_OVERRIDES} must be true or false, only on a ClusterResourcePlacement.",
        OURS,
    ),
    *removal_annotations.RULES,
)
CLUSTER_RULES: Final = (
    *RULES,
    deny(
        "P-07",
        "Selected kinds must be cluster-scoped, unless a selector has NamespaceWithResourceSelectors.",
        _VALIDATOR,
    ),
    deny("P-15", "NamespaceAccessible requires exactly one Namespace selector.", CEL),
    deny("U-05", "statusReportingScope is immutable.", CEL, on=UPDATE),
    never_placed.NAMESPACE_RULE,
    warn(
        "X-03",
        "A selector of namespaces or definitions should have a name or labels. Otherwise it skips the reserved ones.",
    ),
)
NAMESPACED_RULES: Final = (
    *RULES,
    deny("P-08", "Selected kinds must be namespaced.", _VALIDATOR),
    never_placed.NAMESPACE_RULE,
    warn("X-17", "statusReportingScope should not be set: it has no effect."),
)
DELETION_RULES: Final = (
    warn("D-03", "Warns about the effect of deleting a placement on its placed objects: see X-23.", on=DELETE),
    warn(
        "X-23",
        "Warns, with the number of clusters, that a deletion removes or abandons the placed objects.",
        on=DELETE,
    ),
)
SHAPE_RULES: Final = shape_rules(RULES)
"""The rules that the model enforces, by path."""
