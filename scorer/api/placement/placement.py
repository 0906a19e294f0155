"""ClusterResourcePlacement and ResourcePlacement: what to place, where, and how to roll it out.

Source: docs/specifications/placement-api.md 3.1 and 3.2; KubeFleet ``apis/placement``.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from scorer.api.meta import ApiModel, ApiObject, Int32, Name, shared_default
from scorer.api.placement.apply_strategy import ApplyStrategy
from scorer.api.placement.status import PlacementStatus
from scorer.api.values.int_or_percent import LARGEST, PERCENTS, IntOrString
from scorer.api.values.label_selector import LabelKey, LabelSelector, LabelValue
from scorer.api.values.quantity import LONGEST_QUANTITY

LONGEST_PERIOD_SECONDS: Final = 2**31 - 1
DEFAULT_MAX_UNAVAILABLE: Final = "25%"
DEFAULT_MAX_SURGE: Final = "25%"
DEFAULT_UNAVAILABLE_PERIOD_SECONDS: Final = 60
DEFAULT_REVISION_HISTORY_LIMIT: Final = 10
LONGEST_PROPERTY_NAME: Final = 512
PropertyName = Annotated[str, Field(json_schema_extra={"maxLength": LONGEST_PROPERTY_NAME})]
ClusterName = Annotated[str, Field(max_length=255)]


class PlacementType(StrEnum):
    """Rule for the number of clusters of a placement."""

    PICK_ALL = "PickAll"
    PICK_N = "PickN"
    PICK_FIXED = "PickFixed"


class SelectionScope(StrEnum):
    """Scope of a selector term for a Namespace."""

    NAMESPACE_ONLY = "NamespaceOnly"
    NAMESPACE_WITH_RESOURCES = "NamespaceWithResources"
    NAMESPACE_WITH_RESOURCE_SELECTORS = "NamespaceWithResourceSelectors"


class ResourceSelectorTerm(ApiModel):
    """Objects of one kind, by name, by label, or all of them."""

    group: Name
    """API group of the objects, empty for the core group."""
    version: Name
    """API version of the objects, such as ``v1``."""
    kind: Name
    """Kind of the objects, such as ``Namespace``."""
    name: Name = ""
    """Name of the one object to select. Not together with ``labelSelector``. Absent: all objects of the kind that
    ``labelSelector`` matches."""
    label_selector: LabelSelector | None = None
    """Labels of the objects to select. Not together with ``name``. Absent: no condition on labels, so without a name
    every object of the kind."""
    selection_scope: SelectionScope = SelectionScope.NAMESPACE_WITH_RESOURCES
    """Content of a selected Namespace to include, ignored for other kinds. NamespaceOnly: nothing.
    NamespaceWithResources: everything in it. NamespaceWithResourceSelectors: the objects in it that the other
    selectors pick."""


class PropertySelectorRequirement(ApiModel):
    """Comparison of the observed value of a property with a required value."""

    name: PropertyName
    """Property of the member cluster, such as ``kubernetes-fleet.io/node-count``. A cluster that does not report it
    fails the comparison."""
    operator: str = Field(json_schema_extra={"enum": ["Gt", "Ge", "Lt", "Le", "Eq", "Ne"]})
    """Comparison of the observed value with the required one: greater (Gt), greater or equal (Ge), less (Lt), less or
    equal (Le), equal (Eq), not equal (Ne)."""
    values: tuple[Annotated[str, Field(json_schema_extra={"maxLength": LONGEST_QUANTITY})], ...] = Field(
        json_schema_extra={"maxItems": 1}
    )
    """The required value as a Kubernetes quantity, such as ``8`` or ``16Gi``. Exactly one."""


class PropertySelector(ApiModel):
    """Comparisons of properties. All of them must hold."""

    match_expressions: tuple[PropertySelectorRequirement, ...]
    """Comparisons that must all hold. An empty list holds for every cluster."""


class PropertySorter(ApiModel):
    """Orders the fleet by a property."""

    name: PropertyName
    """Property of the member cluster to order by, such as ``resources.kubernetes-fleet.io/available-cpu``."""
    sort_order: str = Field(json_schema_extra={"enum": ["Ascending", "Descending"]})
    """Preferred end of the order. Descending: clusters with higher values. Ascending: clusters with lower values."""


class ClusterSelectorTerm(ApiModel):
    """A condition on a member cluster. Both selectors must match if set. An empty term matches every cluster."""

    label_selector: LabelSelector | None = None
    """Labels that the MemberCluster must have. Absent: no condition on labels."""
    property_selector: PropertySelector | None = None
    """Comparisons with the cluster's reported properties. Only in required terms. Absent: no condition on properties.
    """
    property_sorter: PropertySorter | None = None
    """Distributes the weight according to the rank of a cluster by a property. Only in preferred terms. Absent: every
    matching cluster gets the full weight."""
    metric_sorter: PropertySorter | None = Field(
        default=None,
    )
    """Deprecated, the former name of ``propertySorter``. Absent: ``propertySorter`` applies."""


class ClusterSelector(ApiModel):
    """Alternative terms. An empty list means no restriction."""

    cluster_selector_terms: tuple[ClusterSelectorTerm, ...] = Field(max_length=10)
    """Alternative terms. A cluster must match at least one. An empty list does not restrict."""


class PreferredClusterSelector(ApiModel):
    """A weighted preference. A negative weight makes matching clusters less preferred."""

    weight: Int32 = Field(ge=-100, le=100)
    """Points that the best matching cluster gets. Negative points make matching clusters less preferred."""
    preference: ClusterSelectorTerm
    """Which clusters get the points."""


class ClusterAffinity(ApiModel):
    """Clusters that qualify, and preferences among them."""

    required: ClusterSelector | None = Field(default=None, alias="requiredDuringSchedulingIgnoredDuringExecution")
    """Clusters that may be picked. Not evaluated again for picked clusters. Absent: all that are otherwise
    eligible."""
    preferred: tuple[PreferredClusterSelector, ...] = Field(
        default=(), alias="preferredDuringSchedulingIgnoredDuringExecution", max_length=100
    )
    """Eligible clusters that PickN prefers. Their points are added up. Absent: no preference."""


class Affinity(ApiModel):
    """``spec.policy.affinity``."""

    cluster_affinity: ClusterAffinity | None = None
    """Required and preferred member clusters. Absent: no requirement and no preference."""


class WhenUnsatisfiable(StrEnum):
    """Effect of a spread constraint that cannot be met."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class TopologySpreadConstraint(ApiModel):
    """Limit on the uneven spread of the placement over the values of a label."""

    max_skew: Int32 = Field(default=1, ge=1)
    """Maximum allowed difference between the numbers of picked clusters under any two values of the label."""
    topology_key: LabelKey
    """Label of the MemberCluster whose values are the domains to spread over, such as a region."""
    when_unsatisfiable: WhenUnsatisfiable = WhenUnsatisfiable.DO_NOT_SCHEDULE
    """Handling of a cluster that would exceed the skew. DoNotSchedule: the cluster is not picked. ScheduleAnyway: it is
    picked last."""


class Toleration(ApiModel):
    """Allows a placement on clusters with a matching taint.

    Operator and effect are free text here and an enum in the CRD: an invalid word that bypassed admission
    tolerates nothing, but leaves the policy readable (scheduling.md 9).
    """

    key: LabelKey = ""
    """Key of the taints to tolerate. Absent or empty: every key, which requires operator Exists."""
    operator: str = Field(default="Equal", json_schema_extra={"enum": ["Equal", "Exists"]})
    """Equal: key and value must be those of the taint. Exists: the key alone must match, and there must be no value."""
    value: LabelValue = ""
    """Value of the taint to tolerate, for operator Equal. Absent: the empty value."""
    effect: str = Field(default="", json_schema_extra={"enum": ["NoSchedule"]})
    """Effect of the taints to tolerate. Absent: every effect."""


class PlacementPolicy(ApiModel):
    """``spec.policy``: how many member clusters to pick, and which.

    Only shape is checked here: types, bounds, enum values. Rules that relate fields live in
    ``webhook.validation.placement.placement``, so that one admission response can report every error.

    Source: seed 003; KubeFleet apis/placement/v1, PlacementPolicy.
    """

    placement_type: PlacementType = PlacementType.PICK_ALL
    """Method of picking clusters. Cannot be changed. PickAll: every eligible cluster. PickN: the best ones, as many as
    ``numberOfClusters``. PickFixed: those of ``clusterNames``."""
    cluster_names: tuple[ClusterName, ...] = Field(default=(), max_length=100)
    """Names of the member clusters to place on; PickFixed only. Absent: none."""
    number_of_clusters: Int32 | None = Field(default=None, ge=0)
    """Number of member clusters to pick. Required by PickN, absent for the other types."""
    affinity: Affinity | None = None
    """Eligible and preferred clusters, not with PickFixed. Absent: all, equally."""
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = Field(default=(), max_length=100)
    """Constraints on the spread over the values of labels. All must be met. Only with PickN. Absent: none."""
    tolerations: tuple[Toleration, ...] = Field(default=(), max_length=100)
    """Taints of member clusters that this placement tolerates. Not with PickFixed. They can only be extended.
    Absent: no taint is tolerated."""


class StrategyType(StrEnum):
    """Control of the rollout: the limits of RollingUpdate, or a staged update run."""

    ROLLING_UPDATE = "RollingUpdate"
    EXTERNAL = "External"


class RollingUpdate(ApiModel):
    """The limits of a rolling update."""

    max_unavailable: IntOrString = Field(
        default=DEFAULT_MAX_UNAVAILABLE,
        json_schema_extra={"minimum": 0, "maximum": LARGEST, "pattern": PERCENTS},
    )
    """Maximum number of requested clusters without an available placement during a rollout, as a count or a
    percentage of the requested number, rounded up."""
    max_surge: IntOrString = Field(
        default=DEFAULT_MAX_SURGE, json_schema_extra={"minimum": 0, "maximum": LARGEST, "pattern": PERCENTS}
    )
    """Maximum number of clusters above the requested number that may hold the placement during a rollout, as a count
    or a percentage of the requested number, rounded up."""
    unavailable_period_seconds: int = Field(default=DEFAULT_UNAVAILABLE_PERIOD_SECONDS, ge=0, le=LONGEST_PERIOD_SECONDS)
    """Time in seconds that a cluster counts as unavailable after a change if the availability of the placed objects
    cannot be tracked."""


class DeleteStrategy(ApiModel):
    """Handling of placed objects when the placement is deleted."""

    propagation_policy: Literal["Delete", "Abandon"] = "Delete"
    """Delete: placed objects are deleted with the placement. Abandon: they remain on the members."""


class ReportBackStrategy(ApiModel):
    """Whether, and where to, the status of placed objects is copied back."""

    type: Literal["Disabled", "Mirror"] = "Disabled"
    """Disabled: no status is copied. Mirror: the status of placed objects is copied to ``destination``."""
    destination: Literal["OriginalResource", "WorkAPI"] | None = None
    """Destination of the status for Mirror, required there. OriginalResource: the object on the hub. WorkAPI: the Work.
    Absent: nowhere."""


class RolloutStrategy(ApiModel):
    """``spec.strategy``."""

    type: StrategyType = StrategyType.ROLLING_UPDATE
    """Controller of the rollout. RollingUpdate: the placement itself, within the limits of ``rollingUpdate``. External:
    staged update runs. External cannot be changed later."""
    rolling_update: RollingUpdate | None = None
    """Limits of a rolling update. Absent: the default of each limit."""
    apply_strategy: ApplyStrategy | None = None
    """Method of applying objects on the members, and the reaction to drift. Absent: the default of each field."""
    delete_strategy: DeleteStrategy | None = None
    """Handling of placed objects when the placement is deleted. Absent: they are deleted."""
    report_back_strategy: ReportBackStrategy | None = None
    """Whether the status of placed objects is copied back to the hub. Absent: it is not."""


class PlacementSpec(ApiModel):
    """``spec`` of both placement kinds."""

    resource_selectors: tuple[ResourceSelectorTerm, ...] = Field(min_length=1, max_length=100)
    """Objects to place: those that match at least one of the selectors."""
    policy: PlacementPolicy | None = None
    """Number and choice of member clusters. It cannot be removed. Absent: all of them (PickAll)."""
    strategy: RolloutStrategy | None = None
    """Method of rolling out and applying changes. Absent: a rolling update with the default limits."""
    revision_history_limit: Int32 = Field(default=DEFAULT_REVISION_HISTORY_LIMIT, ge=1, le=1000)
    """Number of versions of the policy and of the selected objects to keep, including the current one. With 1, no
    rollback is possible."""
    status_reporting_scope: Literal["ClusterScopeOnly", "NamespaceAccessible"] = "ClusterScopeOnly"
    """NamespaceAccessible also copies the status into the one selected namespace, as a ClusterResourcePlacementStatus.
    Cannot be changed. No effect on a ResourcePlacement."""


class ClusterResourcePlacement(ApiObject):
    """Places cluster-scoped objects, and namespaces with their content."""

    spec: PlacementSpec
    """Objects to place, member clusters, and rollout of changes."""
    status: PlacementStatus = Field(default_factory=shared_default(PlacementStatus))
    """Selected objects, picked clusters, and rollout state, written by harbormaster."""


class ResourcePlacement(ClusterResourcePlacement):
    """Places objects of its own namespace."""
