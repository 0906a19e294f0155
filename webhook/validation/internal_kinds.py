"""Rules on the kinds that only controllers and agents write: snapshots, bindings, Works, InternalMemberClusters.

Source: docs/specifications/placement-api.md 7.10 and 10.4.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from scorer.api.cluster.member_cluster import InternalMemberCluster
from scorer.api.cluster.member_state import MemberState
from scorer.api.meta import ApiObject, JsonObject, json_equal
from scorer.api.placement.binding import BindingState, ClusterResourceBinding
from scorer.api.placement.override import ClusterResourceOverrideSnapshot, ResourceOverrideSnapshot
from scorer.api.placement.placement import ClusterSelectorTerm, PlacementPolicy
from scorer.api.placement.snapshots import ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot
from scorer.api.placement.status import ClusterResourcePlacementStatus
from scorer.api.placement.work import AppliedWork, Work
from scorer.api.values.field_path import FieldPath
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import SPEC, Cause, FieldError, invalid, not_supported, too_many
from webhook.validation.framework.metadata import METADATA_RULES, validate_metadata
from webhook.validation.framework.reading import Finding, read_object
from webhook.validation.framework.rule import CRD, OURS, UPDATE, Rule, deny, enforces, pick, schema, shape_rules
from webhook.validation.framework.selector import OPERATORS, SORT_ORDERS
from webhook.validation.placement.policy import validate_toleration
from webhook.validation.placement.rules import RULES as PLACEMENT_RULES

Validate: TypeAlias = Callable[[JsonObject, JsonObject | None, Context], Iterator[Finding]]
Object = TypeVar("Object", bound=ApiObject)

_BODIES: Final = ("spec", "sourceStatus", "lastUpdatedTime")
_UNCHANGED: Final = deny("X-95", "The spec of a snapshot is immutable.", OURS, on=UPDATE)
_TYPED: Final = "Every contained object must have an apiVersion and a kind."
POLICY_SNAPSHOT_RULES: Final = (
    schema(
        "N-01",
        "policyHash must be set, and the policy must be within the limits of the schema.",
        f"{CRD}, CEL",
        *_BODIES,
    ),
    *pick(PLACEMENT_RULES, "P-32", "P-33", "P-36", "P-39", "P-40", "P-43"),
    _UNCHANGED,
)
MEMBER_RULES: Final = (
    schema("N-02", "state must be set, and heartbeatPeriodSeconds must be 1 to 600.", CRD, *_BODIES),
    schema("X-94", "state must be Join or Leave.", OURS),
)
BINDING_RULES: Final = (
    schema("N-03", "State, snapshot names, target cluster and decision must be set.", CRD, *_BODIES),
    schema("X-96", "state must be Scheduled, Bound or Unscheduled, and the target cluster is immutable.", OURS),
)
WORK_RULES: Final = (
    schema("N-04", "The apply and report strategies must have known values. " + _TYPED, CRD, *_BODIES),
)
APPLIED_WORK_RULES: Final = (schema("N-05", "workName and workNamespace must be set.", CRD, *_BODIES),)
RESOURCE_SNAPSHOT_RULES: Final = (
    schema("N-06", "selectedResources must be set. " + _TYPED, CRD, *_BODIES),
    _UNCHANGED,
)
STATUS_RULES: Final = (schema("N-07", "sourceStatus and lastUpdatedTime must be set.", CRD, *_BODIES),)
OVERRIDE_SNAPSHOT_RULES: Final = (
    schema(
        "N-08", "overrideSpec and overrideHash must be set, and the placement is immutable.", f"{CRD}, CEL", *_BODIES
    ),
    _UNCHANGED,
)


def _rule_set(
    rules: tuple[Rule, ...], model: type[Object], *checks: Callable[[Object, Object | None], Iterator[FieldError]]
) -> Validate:
    """Return the validation of a kind: its shape, its metadata, and *checks* of the new and the stored object.

    The first of *rules* is the rule about the shape.
    """
    shape = shape_rules((*METADATA_RULES, rules[0]))

    @enforces(*METADATA_RULES, *rules)
    def validate(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
        del context
        reading = read_object(model, document, shape)
        yield from reading.errors
        if reading.view is None:
            return
        new, before = reading.view, read_object(model, old).view if old is not None else None
        yield from reading.trusted(_judge(new, before))

    def _judge(new: Object, old: Object | None) -> Iterator[FieldError]:
        yield from validate_metadata(new.metadata, old.metadata if old else None)
        for check in checks:
            yield from check(new, old)

    return validate


def validate_unchanged_spec(new: ApiObject, old: ApiObject | None) -> Iterator[FieldError]:
    """The spec of a snapshot never changes (X-95). The reference documents this, but does not check it."""
    if old is not None and not json_equal(_spec(new), _spec(old)):
        yield FieldError(SPEC, Cause.FORBIDDEN, "a snapshot cannot be changed", "X-95")


def _spec(view: ApiObject) -> Any:
    return view.model_dump(mode="json", include={"spec"})


def validate_snapshot_policy(
    new: ClusterSchedulingPolicySnapshot, old: ClusterSchedulingPolicySnapshot | None
) -> Iterator[FieldError]:
    """Only the schema applies to the policy, not the rules on fields of a placement type (N-01)."""
    del old
    policy = new.spec.policy
    if policy is None:
        return
    at = SPEC / "policy"
    for i, toleration in enumerate(policy.tolerations):
        schema_rules = {"P-39", "P-40", "P-43"}
        errors = validate_toleration(toleration, at / "tolerations" / i)
        yield from (error for error in errors if error.rule in schema_rules)
    for path, term in _terms(policy, at):
        yield from _validate_words(term, path)


def _terms(policy: PlacementPolicy, at: FieldPath) -> Iterator[tuple[FieldPath, ClusterSelectorTerm]]:
    affinity = policy.affinity.cluster_affinity if policy.affinity is not None else None
    if affinity is None:
        return
    path = at / "affinity" / "clusterAffinity"
    if affinity.required is not None:
        required = path / "requiredDuringSchedulingIgnoredDuringExecution" / "clusterSelectorTerms"
        yield from ((required / i, term) for i, term in enumerate(affinity.required.cluster_selector_terms))
    preferred = path / "preferredDuringSchedulingIgnoredDuringExecution"
    yield from ((preferred / i / "preference", item.preference) for i, item in enumerate(affinity.preferred))


def _validate_words(term: ClusterSelectorTerm, at: FieldPath) -> Iterator[FieldError]:
    selector = term.property_selector
    for i, requirement in enumerate(selector.match_expressions if selector is not None else ()):
        path = at / "propertySelector" / "matchExpressions" / i
        if requirement.operator not in OPERATORS:
            yield not_supported(path / "operator", requirement.operator, OPERATORS, "P-32")
        if len(requirement.values) > 1:
            yield too_many(path / "values", len(requirement.values), 1, "P-33")
    for name, sorter in (("propertySorter", term.property_sorter), ("metricSorter", term.metric_sorter)):
        if sorter is not None and sorter.sort_order not in SORT_ORDERS:
            yield not_supported(at / name / "sortOrder", sorter.sort_order, SORT_ORDERS, "P-36")


def validate_embedded_objects(
    new: ClusterResourceSnapshot, old: ClusterResourceSnapshot | None
) -> Iterator[FieldError]:
    """Every object of a snapshot has an apiVersion and a kind (N-06)."""
    del old
    for i, resource in enumerate(new.spec.selected_resources):
        yield from _validate_type(resource, SPEC / "selectedResources" / i, "N-06")


def validate_manifests(new: Work, old: Work | None) -> Iterator[FieldError]:
    """Every manifest has an apiVersion and a kind (N-04, the API server's rule on embedded objects)."""
    del old
    for i, manifest in enumerate(new.spec.workload.manifests):
        yield from _validate_type(manifest, SPEC / "workload" / "manifests" / i, "N-04")


def _validate_type(resource: Mapping[str, Any], at: FieldPath, rule: str) -> Iterator[FieldError]:
    for field in ("apiVersion", "kind"):
        if not isinstance(resource.get(field), str) or not resource[field]:
            yield FieldError(at / field, Cause.REQUIRED, "must be set for every object", rule)


def validate_member_state(new: InternalMemberCluster, old: InternalMemberCluster | None) -> Iterator[FieldError]:
    """The state is Join or Leave (X-94)."""
    del old
    if new.spec.state not in set(MemberState):
        yield not_supported(SPEC / "state", new.spec.state, MemberState, "X-94")


def validate_binding(new: ClusterResourceBinding, old: ClusterResourceBinding | None) -> Iterator[FieldError]:
    """The state is Scheduled, Bound or Unscheduled, and the cluster never changes (X-96)."""
    if new.spec.state not in set(BindingState):
        yield not_supported(SPEC / "state", new.spec.state, BindingState, "X-96")
    if old is not None and new.spec.target_cluster != old.spec.target_cluster:
        yield invalid(SPEC / "targetCluster", new.spec.target_cluster, "cannot be changed", "X-96")


validate_policy_snapshot = _rule_set(
    POLICY_SNAPSHOT_RULES, ClusterSchedulingPolicySnapshot, validate_snapshot_policy, validate_unchanged_spec
)
validate_resource_snapshot = _rule_set(
    RESOURCE_SNAPSHOT_RULES, ClusterResourceSnapshot, validate_embedded_objects, validate_unchanged_spec
)
validate_cluster_override_snapshot = _rule_set(
    OVERRIDE_SNAPSHOT_RULES, ClusterResourceOverrideSnapshot, validate_unchanged_spec
)
validate_resource_override_snapshot = _rule_set(
    OVERRIDE_SNAPSHOT_RULES, ResourceOverrideSnapshot, validate_unchanged_spec
)
validate_resource_binding = _rule_set(BINDING_RULES, ClusterResourceBinding, validate_binding)
validate_internal_member_cluster = _rule_set(MEMBER_RULES, InternalMemberCluster, validate_member_state)
validate_work = _rule_set(WORK_RULES, Work, validate_manifests)
validate_applied_work = _rule_set(APPLIED_WORK_RULES, AppliedWork)
validate_placement_status = _rule_set(STATUS_RULES, ClusterResourcePlacementStatus)
