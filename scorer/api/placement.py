"""ClusterResourcePlacement and ResourcePlacement: what to place, where, and how to roll it out.

Source: placement-api.md 3.1 and 3.2; KubeFleet ``apis/placement``.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from scorer.api.conditions import Condition, Conditions
from scorer.api.int_or_percent import LARGEST, IntOrString
from scorer.api.label_selector import LabelKey, LabelSelector, LabelValue
from scorer.api.meta import ApiModel, ApiObject, Int32, Int64, Name, Time
from scorer.api.quantity import LONGEST_QUANTITY

_PERCENT = "^(100|[0-9]{1,2})%$"
LONGEST_PERIOD_SECONDS: Final = 2**31 - 1
LONGEST_PROPERTY_NAME: Final = 512
PropertyName = Annotated[str, Field(json_schema_extra={"maxLength": LONGEST_PROPERTY_NAME})]
ClusterName = Annotated[str, Field(max_length=255)]


class PlacementType(StrEnum):
    """How many clusters a placement takes."""

    PICK_ALL = "PickAll"
    PICK_N = "PickN"
    PICK_FIXED = "PickFixed"


class SelectionScope(StrEnum):
    """What a selector term for a Namespace includes."""

    NAMESPACE_ONLY = "NamespaceOnly"
    NAMESPACE_WITH_RESOURCES = "NamespaceWithResources"
    NAMESPACE_WITH_RESOURCE_SELECTORS = "NamespaceWithResourceSelectors"


class ResourceSelectorTerm(ApiModel):
    """Objects of one kind, by name, by label, or all of them."""

    group: Name
    version: Name
    kind: Name
    name: Name = ""
    label_selector: LabelSelector | None = None
    selection_scope: SelectionScope = SelectionScope.NAMESPACE_WITH_RESOURCES


class PropertySelectorRequirement(ApiModel):
    """One comparison of a property's observed amount with a wanted one."""

    name: PropertyName
    operator: str = Field(json_schema_extra={"enum": ["Gt", "Ge", "Lt", "Le", "Eq", "Ne"]})
    values: tuple[Annotated[str, Field(json_schema_extra={"maxLength": LONGEST_QUANTITY})], ...] = Field(
        json_schema_extra={"maxItems": 1}
    )


class PropertySelector(ApiModel):
    """Comparisons of properties; all of them must hold."""

    match_expressions: tuple[PropertySelectorRequirement, ...]


class PropertySorter(ApiModel):
    """Orders the fleet by a property."""

    name: PropertyName
    sort_order: str = Field(json_schema_extra={"enum": ["Ascending", "Descending"]})


class ClusterSelectorTerm(ApiModel):
    """A condition on a member cluster. Both selectors must match if set; an empty term matches every cluster."""

    label_selector: LabelSelector | None = None
    property_selector: PropertySelector | None = None
    property_sorter: PropertySorter | None = None
    metric_sorter: PropertySorter | None = Field(default=None, description="Deprecated: use propertySorter.")


class ClusterSelector(ApiModel):
    """Terms, at least one of which must hold; an empty list means no restriction."""

    cluster_selector_terms: tuple[ClusterSelectorTerm, ...] = Field(max_length=10)


class PreferredClusterSelector(ApiModel):
    """A weighted preference; a negative weight makes matching clusters less preferred."""

    weight: Int32 = Field(ge=-100, le=100)
    preference: ClusterSelectorTerm


class ClusterAffinity(ApiModel):
    """Which clusters qualify, and which of those are preferred."""

    required: ClusterSelector | None = Field(default=None, alias="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredClusterSelector, ...] = Field(
        default=(), alias="preferredDuringSchedulingIgnoredDuringExecution", max_length=100
    )


class Affinity(ApiModel):
    """``spec.policy.affinity``."""

    cluster_affinity: ClusterAffinity | None = None


class WhenUnsatisfiable(StrEnum):
    """What a spread constraint does when it cannot be met."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class TopologySpreadConstraint(ApiModel):
    """How unevenly the placement may be spread over the values of a label."""

    max_skew: Int32 = Field(default=1, ge=1)
    topology_key: LabelKey
    when_unsatisfiable: WhenUnsatisfiable = WhenUnsatisfiable.DO_NOT_SCHEDULE


class Toleration(ApiModel):
    """Allows a placement on clusters with a matching taint.

    Operator and effect are free text here and an enum in the CRD: an invalid word that bypassed admission
    tolerates nothing, but leaves the policy readable (scheduling.md 9).
    """

    key: LabelKey = ""
    operator: str = Field(default="Equal", json_schema_extra={"enum": ["Equal", "Exists"]})
    value: LabelValue = ""
    effect: str = Field(default="", json_schema_extra={"enum": ["NoSchedule"]})


class PlacementPolicy(ApiModel):
    """``spec.policy``: how many member clusters to pick, and which.

    Only shape is checked here: types, bounds, enum values. Rules that relate
    fields live in ``webhook.validation.placement``, so that one admission
    answer can list every mistake at once.

    Source: seed 003; KubeFleet apis/placement/v1, PlacementPolicy.
    """

    placement_type: PlacementType = PlacementType.PICK_ALL
    cluster_names: tuple[ClusterName, ...] = Field(default=(), max_length=100)
    number_of_clusters: Int32 | None = Field(default=None, ge=0)
    affinity: Affinity | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = Field(default=(), max_length=100)
    tolerations: tuple[Toleration, ...] = Field(default=(), max_length=100)


class StrategyType(StrEnum):
    """What controls the rollout: the limits of RollingUpdate, or a staged update run."""

    ROLLING_UPDATE = "RollingUpdate"
    EXTERNAL = "External"


class RollingUpdate(ApiModel):
    """The limits of a rolling update."""

    max_unavailable: IntOrString = Field(
        default="25%", json_schema_extra={"minimum": 0, "maximum": LARGEST, "pattern": _PERCENT}
    )
    max_surge: IntOrString = Field(
        default="25%", json_schema_extra={"minimum": 0, "maximum": LARGEST, "pattern": _PERCENT}
    )
    unavailable_period_seconds: int = Field(default=60, ge=0, le=LONGEST_PERIOD_SECONDS)


class ServerSideApplyConfig(ApiModel):
    """Options of server-side apply."""

    force: bool = False


class ApplyStrategy(ApiModel):
    """How objects are applied to a member cluster, and what happens on drift and to objects with another owner."""

    type: Literal["ClientSideApply", "ServerSideApply", "ReportDiff"] = "ClientSideApply"
    comparison_option: Literal["PartialComparison", "FullComparison"] = "PartialComparison"
    when_to_apply: Literal["Always", "IfNotDrifted"] = "Always"
    when_to_take_over: Literal["Always", "IfNoDiff", "Never"] = "Always"
    allow_co_ownership: bool = False
    server_side_apply_config: ServerSideApplyConfig | None = None


class DeleteStrategy(ApiModel):
    """What happens to placed objects when the placement is deleted."""

    propagation_policy: Literal["Delete", "Abandon"] = "Delete"


class ReportBackStrategy(ApiModel):
    """Whether, and where to, the status of placed objects is copied back."""

    type: Literal["Disabled", "Mirror"] = "Disabled"
    destination: Literal["OriginalResource", "WorkAPI"] | None = None


class RolloutStrategy(ApiModel):
    """``spec.strategy``."""

    type: StrategyType = StrategyType.ROLLING_UPDATE
    rolling_update: RollingUpdate | None = None
    apply_strategy: ApplyStrategy | None = None
    delete_strategy: DeleteStrategy | None = None
    report_back_strategy: ReportBackStrategy | None = None


class PlacementSpec(ApiModel):
    """``spec`` of both placement kinds."""

    resource_selectors: tuple[ResourceSelectorTerm, ...] = Field(min_length=1, max_length=100)
    policy: PlacementPolicy | None = None
    strategy: RolloutStrategy | None = None
    revision_history_limit: Int32 = Field(default=10, ge=1, le=1000)
    status_reporting_scope: Literal["ClusterScopeOnly", "NamespaceAccessible"] = "ClusterScopeOnly"


class EnvelopeIdentifier(ApiModel):
    """The envelope that an object was wrapped in."""

    name: str
    namespace: str = ""
    type: Literal["ConfigMap", "ClusterResourceEnvelope", "ResourceEnvelope"] = "ConfigMap"


class ResourceIdentifier(ApiModel):
    """Names one placed object."""

    group: str = ""
    version: str
    kind: str
    name: str
    namespace: str = ""
    envelope: EnvelopeIdentifier | None = None


class FailedResourcePlacement(ResourceIdentifier):
    """An object that could not be applied, or is not available."""

    condition: Condition


class PatchDetail(ApiModel):
    """One field that differs between hub and member."""

    path: str
    value_in_member: str = ""
    value_in_hub: str = ""


class DriftedResourcePlacement(ResourceIdentifier):
    """A placed object that another client changed on the member."""

    observation_time: Time
    target_cluster_observed_generation: Int64
    first_drifted_observed_time: Time
    observed_drifts: tuple[PatchDetail, ...] = ()


class DiffedResourcePlacement(ResourceIdentifier):
    """An object on the member that harbormaster does not own and that differs from the hub's."""

    observation_time: Time
    target_cluster_observed_generation: Int64 | None = None
    first_diffed_observed_time: Time
    observed_diffs: tuple[PatchDetail, ...] = ()


class NamespacedName(ApiModel):
    """A reference to a namespaced object."""

    name: str
    namespace: str


class PerClusterPlacementStatus(ApiModel):
    """The progress of the placement on one cluster; an entry without a name stands for a cluster that was not found."""

    cluster_name: str = ""
    observed_resource_index: str = ""
    applicable_resource_overrides: tuple[NamespacedName, ...] = ()
    applicable_cluster_resource_overrides: tuple[str, ...] = ()
    failed_placements: tuple[FailedResourcePlacement, ...] = Field(default=(), max_length=100)
    drifted_placements: tuple[DriftedResourcePlacement, ...] = Field(default=(), max_length=100)
    diffed_placements: tuple[DiffedResourcePlacement, ...] = Field(default=(), max_length=100)
    conditions: tuple[Condition, ...] = ()


class PlacementStatus(ApiModel):
    """``status`` of both placement kinds."""

    selected_resources: tuple[ResourceIdentifier, ...] = ()
    observed_resource_index: str = ""
    placement_statuses: tuple[PerClusterPlacementStatus, ...] = ()
    conditions: Conditions = ()


_NO_STATUS: Final = PlacementStatus()


class ClusterResourcePlacement(ApiObject):
    """Places cluster-scoped objects, and namespaces with their content."""

    spec: PlacementSpec
    status: PlacementStatus = Field(default_factory=lambda: _NO_STATUS)


class ResourcePlacement(ClusterResourcePlacement):
    """Places objects of its own namespace."""
