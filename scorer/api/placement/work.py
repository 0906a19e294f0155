"""Work: objects on their way to one member cluster; AppliedWork: those of them that the agent has applied there.

Source: docs/specifications/placement-api.md 3.6.
"""

from pydantic import Field

from scorer.api.conditions import Condition
from scorer.api.meta import ALWAYS_WRITTEN, AnyObject, ApiModel, ApiObject, EmbeddedObject, Int64, Time, shared_default
from scorer.api.placement.apply_strategy import ApplyStrategy
from scorer.api.placement.placement import ReportBackStrategy
from scorer.api.placement.status import PatchDetail


class Workload(ApiModel):
    """The objects to apply. The status refers to them by position."""

    manifests: tuple[EmbeddedObject, ...] = ()
    """The whole objects. Absent: none."""


class WorkSpec(ApiModel):
    """``spec`` of a Work."""

    workload: Workload = Field(default_factory=shared_default(Workload))
    """The objects to apply. Absent: none."""
    apply_strategy: ApplyStrategy | None = None
    """Apply strategy. Absent: the default of each field."""
    report_back_strategy: ReportBackStrategy | None = None
    """Whether to report the status of the objects. Absent: it is not reported."""


class ManifestIdentifier(ApiModel):
    """Names a manifest by its position in the Work, and by its identity if that is readable."""

    ordinal: int
    """Position in the Work, counted from 0."""
    group: str = ""
    """API group, empty for the core group."""
    version: str = ""
    """API version, empty if the manifest is unreadable."""
    kind: str = ""
    """Kind, empty if the manifest is unreadable."""
    resource: str = ""
    """The kind's name in URLs, such as ``deployments``."""
    namespace: str = ""
    """Namespace, empty for a cluster-scoped object."""
    name: str = ""
    """Name, empty if the manifest is unreadable."""


class DriftDetails(ApiModel):
    """Changes that another client made to a placed object on the member."""

    observation_time: Time
    """Time when the drift was last seen."""
    observed_in_member_cluster_generation: Int64
    """Generation of the object on the member at that time."""
    first_drifted_observed_time: Time
    """Time when this object was first seen drifted."""
    observed_drifts: tuple[PatchDetail, ...] = ()
    """The fields that differ. Long lists are truncated."""


class DiffDetails(ApiModel):
    """Differences between an object on the member that harbormaster does not own and the object on the hub."""

    observation_time: Time
    """Time when the difference was last seen."""
    observed_in_member_cluster_generation: Int64 | None = None
    """Generation of the object on the member at that time. Absent if the object does not exist."""
    first_diffed_observed_time: Time
    """Time when a difference of this object was first seen."""
    observed_diffs: tuple[PatchDetail, ...] = ()
    """The fields that differ. Long lists are truncated."""


class BackReportedStatus(ApiModel):
    """The status of an object on the member, reported back to the hub."""

    observed_status: AnyObject | None = None
    """The status of the object on the member."""
    observation_time: Time
    """Time when it was observed."""


class ManifestCondition(ApiModel):
    """The state of one manifest on the member."""

    identifier: ManifestIdentifier
    """Which manifest."""
    conditions: tuple[Condition, ...]
    """Whether it is applied and available. DiffReported with apply type ReportDiff."""
    drift_details: DriftDetails | None = None
    """Changes to the object on the member. Absent: none."""
    diff_details: DiffDetails | None = None
    """Differences of the object from the hub's. Absent: none."""
    back_reported_status: BackReportedStatus | None = None
    """The status of the object. Absent if it is not reported back."""


class WorkStatus(ApiModel):
    """``status`` of a Work, written by the member's agent."""

    conditions: tuple[Condition, ...] = Field(default=(), json_schema_extra=ALWAYS_WRITTEN)
    """Whether all manifests are applied and available."""
    manifest_conditions: tuple[ManifestCondition, ...] = ()
    """The state of each manifest."""


class Work(ApiObject):
    """Objects for one member cluster. It is in that member's namespace on the hub."""

    spec: WorkSpec = Field(default_factory=shared_default(WorkSpec))
    """The objects to apply on the member, and how. Absent: none."""
    status: WorkStatus = Field(default_factory=shared_default(WorkStatus))
    """Report of the member's agent about them."""


class AppliedResource(ManifestIdentifier):
    """An applied object with its UID on the member."""

    uid: str = ""
    """UID of the object on the member."""


class AppliedWorkSpec(ApiModel):
    """``spec`` of an AppliedWork: the Work it represents."""

    work_name: str
    """Name of the Work on the hub."""
    work_namespace: str
    """Namespace of the Work on the hub."""


class AppliedWorkStatus(ApiModel):
    """``status`` of an AppliedWork."""

    applied_resources: tuple[AppliedResource, ...] = ()
    """The objects that exist on the member because of the Work."""


class AppliedWork(ApiObject):
    """On the member, the owner of everything that one Work applied."""

    spec: AppliedWorkSpec
    """The Work that it represents."""
    status: AppliedWorkStatus = Field(default_factory=shared_default(AppliedWorkStatus))
    """Objects of the Work on the member, written by the agent."""
