"""Work: objects on their way to one member cluster; AppliedWork: those of them that the agent has applied there.

Source: placement-api.md 3.6.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from scorer.api.conditions import Condition
from scorer.api.documents import name_of
from scorer.api.meta import ALWAYS_WRITTEN, AnyObject, ApiModel, ApiObject, EmbeddedObject, Int64, Time
from scorer.api.placement import ApplyStrategy, PatchDetail, ReportBackStrategy


class Workload(ApiModel):
    """The objects to apply; status refers to them by their position."""

    manifests: tuple[EmbeddedObject, ...] = ()


class WorkSpec(ApiModel):
    """``spec`` of a Work."""

    workload: Workload = Field(default_factory=Workload)
    apply_strategy: ApplyStrategy | None = None
    report_back_strategy: ReportBackStrategy | None = None


class ManifestIdentifier(ApiModel):
    """Names a manifest by its position in the Work, and by its identity if that is readable."""

    ordinal: int
    group: str = ""
    version: str = ""
    kind: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""


class DriftDetails(ApiModel):
    """How another client changed a placed object on the member."""

    observation_time: Time
    observed_in_member_cluster_generation: Int64
    first_drifted_observed_time: Time
    observed_drifts: tuple[PatchDetail, ...] = ()


class DiffDetails(ApiModel):
    """How an object on the member that harbormaster does not own differs from the hub's."""

    observation_time: Time
    observed_in_member_cluster_generation: Int64 | None = None
    first_diffed_observed_time: Time
    observed_diffs: tuple[PatchDetail, ...] = ()


class BackReportedStatus(ApiModel):
    """The status of an object on the member, reported back to the hub."""

    observed_status: AnyObject | None = None
    observation_time: Time


class ManifestCondition(ApiModel):
    """The state of one manifest on the member."""

    identifier: ManifestIdentifier
    conditions: tuple[Condition, ...]
    drift_details: DriftDetails | None = None
    diff_details: DiffDetails | None = None
    back_reported_status: BackReportedStatus | None = None


class WorkStatus(ApiModel):
    """``status`` of a Work, written by the member's agent."""

    conditions: tuple[Condition, ...] = Field(default=(), json_schema_extra=ALWAYS_WRITTEN)
    manifest_conditions: tuple[ManifestCondition, ...] = ()


class Work(ApiObject):
    """Objects for one member cluster; lives in that member's namespace on the hub."""

    spec: WorkSpec = Field(default_factory=WorkSpec)
    status: WorkStatus = Field(default_factory=WorkStatus)


class AppliedResource(ManifestIdentifier):
    """An applied object with its UID on the member."""

    uid: str = ""


class AppliedWorkSpec(ApiModel):
    """``spec`` of an AppliedWork: the Work it stands for."""

    work_name: str
    work_namespace: str


class AppliedWorkStatus(ApiModel):
    """``status`` of an AppliedWork."""

    applied_resources: tuple[AppliedResource, ...] = ()


class AppliedWork(ApiObject):
    """On the member, the owner of everything that one Work applied."""

    spec: AppliedWorkSpec
    status: AppliedWorkStatus = Field(default_factory=AppliedWorkStatus)


def manifests_of(work: Mapping[str, Any]) -> list[Any]:
    """Return the manifests of a raw Work, empty when it has none.

    Strict where the readers of `scorer.api.documents` are tolerant: the agent removes from the member what the Work no
    longer holds, so a damaged Work must not read as an empty one.

    Raises:
        TypeError: A field on the path to the manifests has the wrong type.
    """
    found: Any = work
    for member, kind in (("spec", dict), ("workload", dict), ("manifests", list)):
        found = found.get(member)
        if found is None:
            return []
        if not isinstance(found, kind):
            raise TypeError(f"Work {name_of(work)}: {member} is {found!r:.64}, expected {kind.__name__}")
    held: list[Any] = found
    return held
