"""Status back-reporting: the status of an object on a member, copied to the hub's own object.

It is copied only if the placement picks exactly one cluster. Otherwise, members could report different statuses.

Source: docs/specifications/rollout.md 18; KubeFleet pkg/controllers/statusbackreporter.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scorer.api.conditions import TRUE
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_BINDING, member_namespace
from scorer.api.placement.binding import BindingState
from scorer.api.placement.placement import PlacementType
from scorer.api.unstructured.documents import (
    current_condition,
    dicts_at,
    is_deleting,
    label,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from scorer.rollout.bindings import APPLIED
from scorer.rollout.envelopes import EnvelopeKey

HUB_KEEPS: Final = frozenset(
    {
        NAMESPACE.group_kind,
        CUSTOM_RESOURCE_DEFINITION.group_kind,
        ("apiregistration.k8s.io", "APIService"),
    }
)
"""Kinds whose status the hub's own API server acts on.

The status describes the hub. Overwriting it with a member's status could lose data (``storedVersions`` of a
CustomResourceDefinition).
"""


@dataclass(frozen=True, slots=True)
class BackReport:
    """The status that an object on the hub should have.

    Args:
        group, version, kind, namespace, name: The object, as ``status.selectedResources`` of the placement names it.
        status: The status that the member reports, never empty.
    """

    group: str
    version: str
    kind: str
    namespace: str
    name: str
    status: JsonObject

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def reports_to_originals(placement: Mapping[str, Any]) -> bool:
    """Return whether a placement requests statuses on the hub's own objects. The Works carry them in any case."""
    strategy = (spec_of(placement).get("strategy") or {}).get("reportBackStrategy") or {}
    return strategy.get("type") == "Mirror" and strategy.get("destination") == "OriginalResource"


def report_back_error(placement: Mapping[str, Any]) -> str:
    """Return why a placement that `reports_to_originals` cannot be served, or an empty string."""
    policy = spec_of(placement).get("policy") or {}
    kind = policy.get("placementType") or PlacementType.PICK_ALL
    wish = "spec.strategy.reportBackStrategy requests the status on the original objects"
    if kind == PlacementType.PICK_FIXED and (count := len(policy.get("clusterNames") or ())) != 1:
        return f"{wish}: spec.policy.clusterNames must have one cluster, has {count}"
    if kind == PlacementType.PICK_N and (count := policy.get("numberOfClusters") or 0) != 1:
        return f"{wish}: spec.policy.numberOfClusters must be 1, is {count}"
    if kind not in (PlacementType.PICK_FIXED, PlacementType.PICK_N):
        return f"{wish}: the policy must pick one cluster, but its placementType is {kind}"
    return ""


def plan_back_reports(
    placement: JsonObject, bindings: Sequence[JsonObject], works: Iterable[JsonObject]
) -> list[BackReport]:
    """Return the statuses that objects on the hub should have now, sorted by group, kind, namespace and name.

    Empty unless exactly one binding is Bound and not being deleted. During a move, two clusters have the placement,
    and it is ambiguous which of them counts.

    Args:
        placement: One that `reports_to_originals` and has no `report_back_error`.
        bindings: All of its bindings.
        works: All Works made for it, of any cluster. Labels prove nothing, since an agent may write to the Works of its
            own member. A Work counts only in the namespace of the member that the binding targets.
    """
    holders = [
        binding
        for binding in bindings
        if spec_of(binding).get("state") == BindingState.BOUND and not is_deleting(binding)
    ]
    if len(holders) != 1:
        return []
    holder, space = name_of(holders[0]), member_namespace(str(spec_of(holders[0]).get("targetCluster") or ""))
    selected = {_identity(item): item for item in dicts_at(placement, "status", "selectedResources")}
    reports: dict[tuple[str, ...], BackReport] = {}
    for work in sorted(works, key=name_of):
        if namespace_of(work) != space or label(work, PARENT_BINDING) != holder:
            continue
        if is_deleting(work) or EnvelopeKey.of_work(work) is not None:
            continue
        if (current_condition(work, APPLIED) or {}).get("status") != TRUE:
            continue
        for identity, status in _statuses(work):
            item = selected.get(identity)
            if item is not None and identity[:2] not in HUB_KEEPS:
                group, kind, namespace, name = identity
                reports[identity] = BackReport(group, str(item.get("version") or ""), kind, namespace, name, status)
    return [reports[identity] for identity in sorted(reports)]


def _statuses(work: JsonObject) -> Iterator[tuple[tuple[str, str, str, str], JsonObject]]:
    for entry in dicts_at(work, "status", "manifestConditions"):
        status = (entry.get("backReportedStatus") or {}).get("observedStatus")
        if isinstance(status, dict) and status:
            yield _identity(entry.get("identifier") or {}), status


def _identity(item: Mapping[str, Any]) -> tuple[str, str, str, str]:
    group, kind, namespace, name = (str(item.get(key) or "") for key in ("group", "kind", "namespace", "name"))
    return group, kind, namespace, name


def with_reported_status(document: JsonObject, report: BackReport) -> JsonObject | None:
    """Return the hub's object with the reported status, or None if it has it already."""
    if status_of(document) == report.status:
        return None
    return {**document, "status": report.status}
