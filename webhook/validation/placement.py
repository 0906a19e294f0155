"""Rules on ClusterResourcePlacement and ResourcePlacement that relate fields to each other.

The model checks the shape (types, bounds, enum values). Both kinds have the same spec; a rule that applies to only one
of them says so.

Over 500 lines because all rules of one kind are together, one function each, in the order of the specification.

Source: placement-api.md 5, 7.1 to 7.3 and 10.1; KubeFleet pkg/utils/validator/placement.go and the CEL rules of
    its CRDs.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from scorer.api.documents import dict_at, dicts_at, text_at
from scorer.api.field_path import FieldPath
from scorer.api.int_or_percent import LARGEST, count_or_percent, percent
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION
from scorer.api.meta import JsonObject, ObjectMeta
from scorer.api.names import FLEET, IGNORE_RESOURCE_OVERRIDES
from scorer.api.placement import (
    ClusterAffinity,
    ClusterResourcePlacement,
    ClusterSelectorTerm,
    PlacementPolicy,
    PlacementSpec,
    PlacementType,
    PropertySorter,
    ReportBackStrategy,
    ResourcePlacement,
    ResourceSelectorTerm,
    RollingUpdate,
    RolloutStrategy,
    SelectionScope,
    StrategyType,
    Toleration,
    TopologySpreadConstraint,
)
from scorer.api.quoting import quote
from scorer.plugins.cluster_affinity import MOST_REQUIREMENTS, requirement_count, too_many_requirements
from webhook.validation import reserved
from webhook.validation.context import Context
from webhook.validation.field import Cause, FieldError, FieldWarning, duplicate, invalid, not_supported, too_long
from webhook.validation.grammar import dns_subdomain_error, label_value_error, qualified_name_error
from webhook.validation.metadata import (
    METADATA,
    USER_RULES,
    validate_metadata,
    validate_name_length,
    warn_about_reserved_keys,
)
from webhook.validation.plain_placement import has_prefix, is_plain, is_plain_update
from webhook.validation.reading import Finding, read_object, wish
from webhook.validation.rule import (
    CEL,
    CRD,
    DELETE,
    OURS,
    UPDATE,
    Rule,
    Severity,
    deny,
    enforces,
    schema,
    shape_rules,
    warn,
)
from webhook.validation.selector import (
    validate_label_selector,
    validate_requirements,
    validate_sorter,
)

NAMESPACE_FIELD: Final = FieldPath.of("metadata", "namespace")
SPEC: Final = FieldPath.of("spec")
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
"""The most items that the schema allows in any list of a placement."""
# Paths made once, because every review needs them, whether it finds a mistake or not.
_SELECTOR: Final = tuple(SELECTORS / i for i in range(MOST_ITEMS))
_REQUIRED_TERM: Final = tuple(REQUIRED_TERMS / i for i in range(MOST_ITEMS))
_PREFERRED_TERM: Final = tuple(PREFERRED / i / "preference" for i in range(MOST_ITEMS))
_TOLERATION: Final = tuple(TOLERATIONS / i for i in range(MOST_ITEMS))

_AFFINITY: Final = "spec.policy.affinity.clusterAffinity"
_REQUIRED: Final = f"{_AFFINITY}.requiredDuringSchedulingIgnoredDuringExecution"
_REQUIREMENT: Final = f"{_REQUIRED}.clusterSelectorTerms.*.propertySelector.matchExpressions.*"
_PREFERRED: Final = f"{_AFFINITY}.preferredDuringSchedulingIgnoredDuringExecution"
_PREFERENCE: Final = f"{_PREFERRED}.*.preference"
_VALIDATOR: Final = "KubeFleet pkg/utils/validator/placement.go"
_BOTH: Final = f"{CEL}, pkg/utils/validator/placement.go"

RULES: Final = (
    *USER_RULES,
    deny("P-01", "The name has at most 63 characters.", _VALIDATOR),
    schema("P-02", "There are 1 to 100 resource selectors.", CRD, "spec.resourceSelectors"),
    schema(
        "P-03", "A selector gives group, version and kind; the core group is empty.", CRD, "spec.resourceSelectors.*"
    ),
    deny("P-04", "A selector has a name or a labelSelector, not both.", _BOTH),
    deny(
        "P-05", "The labelSelector of a selector is well formed.", _VALIDATOR, "spec.resourceSelectors.*.labelSelector"
    ),
    deny("P-06", "The hub serves what is selected, in that version.", _VALIDATOR),
    warn("P-09", "A kind that cannot be looked up passes; it may not exist.", f"{OURS}, where KubeFleet refuses"),
    schema("P-10", "selectionScope has one of its three values.", CRD, "spec.resourceSelectors.*.selectionScope"),
    deny("P-11", "At most one Namespace selector has NamespaceWithResourceSelectors.", CEL),
    deny("P-12", "A selector with NamespaceWithResourceSelectors takes one namespace by name.", CEL),
    deny("P-13", "There is no other Namespace selector besides one with NamespaceWithResourceSelectors.", CEL),
    schema(
        "P-14", "statusReportingScope is ClusterScopeOnly or NamespaceAccessible.", CRD, "spec.statusReportingScope"
    ),
    schema("P-16", "revisionHistoryLimit is 1 to 1000.", CRD, "spec.revisionHistoryLimit"),
    schema("P-17", "placementType is PickAll, PickN or PickFixed.", CRD, "spec.policy.placementType"),
    schema("P-18", "There are at most 100 clusterNames.", CRD, "spec.policy.clusterNames"),
    schema("P-19", "numberOfClusters is an integer of at least 0.", CRD, "spec.policy.numberOfClusters"),
    deny("P-20", "PickFixed takes no affinity, numberOfClusters, topologySpreadConstraints or tolerations.", _BOTH),
    deny(
        "P-21",
        "A cluster name is a DNS subdomain of at most 63 characters.",
        _VALIDATOR,
        "spec.policy.clusterNames.*",
    ),
    deny("P-22", "No cluster is named twice.", _VALIDATOR),
    deny("P-23", "PickAll takes no clusterNames, numberOfClusters or topologySpreadConstraints.", _BOTH),
    deny("P-24", "PickAll takes no preferences: it has nothing to choose.", _VALIDATOR),
    deny("P-25", "PickN says how many clusters to pick, and takes no clusterNames.", _BOTH),
    schema("P-26", "The required affinity has a list of at most 10 terms.", CRD, _REQUIRED),
    deny(
        "P-27",
        "The labelSelector of a cluster term is well formed.",
        _VALIDATOR,
        f"{_REQUIRED}.clusterSelectorTerms.*.labelSelector",
        f"{_PREFERENCE}.labelSelector",
    ),
    deny("P-28", "A required term does not sort.", _VALIDATOR),
    deny("P-29", "A preferred term does not compare properties.", _VALIDATOR),
    schema("P-30", "A preference has a weight of -100 to 100 and a term.", CRD, _PREFERRED),
    deny("P-31", "A property name is well formed.", _VALIDATOR, f"{_REQUIREMENT}.name"),
    schema("P-32", "A property is compared by Gt, Ge, Lt, Le, Eq or Ne.", _VALIDATOR, f"{_REQUIREMENT}.operator"),
    schema("P-33", "A property is compared with exactly one value.", f"{CRD}, {_VALIDATOR}", f"{_REQUIREMENT}.values"),
    deny("P-34", "The value that a property is compared with is a quantity.", _VALIDATOR),
    deny("P-35", "The comparisons of one property in one term do not exclude each other.", _VALIDATOR),
    schema(
        "P-36",
        "A sorter has a well-formed property name and is Ascending or Descending.",
        f"{CRD}, {_VALIDATOR}",
        f"{_PREFERENCE}.propertySorter",
        f"{_PREFERENCE}.metricSorter",
    ),
    schema(
        "P-37",
        "A spread constraint has a topologyKey, a maxSkew of at least 1 and a known whenUnsatisfiable.",
        CRD,
        "spec.policy.topologySpreadConstraints",
    ),
    schema("P-38", "There are at most 100 tolerations.", CRD, "spec.policy.tolerations"),
    deny("P-39", "A toleration with Exists has no value.", _BOTH),
    deny("P-40", "A toleration without a key has Exists.", _BOTH),
    deny("P-41", "The key of a toleration is a qualified name.", _VALIDATOR),
    deny("P-42", "The value of a toleration is a label value.", _VALIDATOR),
    schema(
        "P-43",
        "A toleration's operator is Equal or Exists, and its effect is NoSchedule if it has one.",
        CRD,
        "spec.policy.tolerations.*",
    ),
    deny("P-44", "No two tolerations are the same.", _VALIDATOR),
    schema("P-45", "The strategy is RollingUpdate or External.", CRD, "spec.strategy.type"),
    deny("P-46", "An External strategy takes no rollingUpdate.", _VALIDATOR),
    schema(
        "P-47",
        "unavailablePeriodSeconds is an integer from 0 to 2147483647.",
        CRD,
        "spec.strategy.rollingUpdate.unavailablePeriodSeconds",
    ),
    schema(
        "P-48",
        "maxUnavailable and maxSurge are integers from 0 to 2147483647 or percentages of 0% to 100%.",
        f"{CRD}, {_VALIDATOR}",
        "spec.strategy.rollingUpdate",
    ),
    schema("P-49", "applyStrategy has known values.", CRD, "spec.strategy.applyStrategy"),
    deny("P-50", "serverSideApplyConfig goes with ServerSideApply only.", _VALIDATOR),
    schema(
        "P-51", "The propagationPolicy of deleteStrategy is Delete or Abandon.", CRD, "spec.strategy.deleteStrategy"
    ),
    schema(
        "P-52",
        "reportBackStrategy has known values, and Mirror has a destination.",
        f"{CRD}, CEL",
        "spec.strategy.reportBackStrategy",
    ),
    deny("U-01", "A stored policy is not removed.", CEL, on=UPDATE),
    deny("U-02", "The placement type does not change; an absent policy means PickAll.", _BOTH, on=UPDATE),
    deny("U-03", "Tolerations are added, not changed or removed.", _VALIDATOR, on=UPDATE),
    deny("U-04", "An External strategy stays External.", f"{CEL}; {OURS} where the whole block is removed", on=UPDATE),
    reserved.KIND_RULE,
    deny("X-04", "No object is selected twice by name.", OURS),
    warn("X-06", "A placement picks at least one cluster; picking none removes the placed objects everywhere."),
    warn("X-09", "A property in a comparison or sorter is a number."),
    warn("X-10", "A property is not compared with a negative number, which is always or never true."),
    deny("X-11", "The topologyKey of a spread constraint is a valid label key.", OURS),
    deny("X-12", "No two spread constraints have the same topologyKey and whenUnsatisfiable.", OURS),
    warn("X-13", "Terms and preferences have an effect: none is empty or has weight 0."),
    Rule(
        "X-14",
        (Severity.DENY, Severity.WARN),
        "maxUnavailable and maxSurge are not both zero; a single zero gives a warning.",
        f"{OURS}; seed 004",
    ),
    warn("X-15", "unavailablePeriodSeconds is at most an hour."),
    warn("X-16", "Only a placement on one cluster mirrors to the original resource."),
    Rule(
        "X-18",
        (Severity.MUTATE, Severity.WARN, Severity.DENY),
        "A preference sorts by propertySorter; metricSorter is renamed, or refused with a different propertySorter.",
        f"{OURS}; seed 000",
    ),
    deny("X-28", f"A policy has at most {MOST_REQUIREMENTS} requirements on labels and properties.", OURS),
    warn("X-19", "The node count goes by its present name.", f"{OURS}; seed 000"),
    deny("X-69", f"The annotation {IGNORE_RESOURCE_OVERRIDES} is true or false, on a cluster-scoped placement.", OURS),
)
CLUSTER_RULES: Final = (
    *RULES,
    deny("P-07", "Selected kinds are cluster-scoped, unless a term has NamespaceWithResourceSelectors.", _VALIDATOR),
    deny("P-15", "NamespaceAccessible goes with exactly one Namespace selector.", CEL),
    deny("U-05", "statusReportingScope does not change.", CEL, on=UPDATE),
    reserved.NAMESPACE_RULE,
    warn("X-03", "A selector of namespaces or definitions has a name or labels; else it skips the reserved ones."),
)
NAMESPACED_RULES: Final = (
    *RULES,
    deny("P-08", "Selected kinds are namespaced.", _VALIDATOR),
    reserved.NAMESPACE_RULE,
    warn("X-17", "statusReportingScope is not set: it has no effect."),
)
DELETION_RULES: Final = (
    warn("D-03", "Says what the deletion of a placement does to the placed objects: see X-23.", on=DELETE),
    warn("X-23", "Says on how many clusters a deletion removes or abandons the placed objects.", on=DELETE),
)
SHAPE_RULES: Final = shape_rules(RULES)
"""The rules that the model enforces, by path."""

_PRESENT: Final[Mapping[str, str]] = {
    "affinity": "affinity",
    "cluster_names": "clusterNames",
    "number_of_clusters": "numberOfClusters",
    "topology_spread_constraints": "topologySpreadConstraints",
    "tolerations": "tolerations",
}
_NOT_WITH: Final[Mapping[PlacementType, tuple[str, tuple[str, ...]]]] = {
    PlacementType.PICK_FIXED: (
        "P-20",
        ("affinity", "number_of_clusters", "topology_spread_constraints", "tolerations"),
    ),
    PlacementType.PICK_ALL: ("P-23", ("cluster_names", "number_of_clusters", "topology_spread_constraints")),
    PlacementType.PICK_N: ("P-25", ("cluster_names",)),
}


@enforces(*CLUSTER_RULES)
def validate_cluster_placement(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield everything that is wrong or suspicious about a ClusterResourcePlacement."""
    return _validate(document, old, context, namespaced=False)


@enforces(*NAMESPACED_RULES)
def validate_resource_placement(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield everything that is wrong or suspicious about a ResourcePlacement."""
    return _validate(document, old, context, namespaced=True)


def _validate(document: JsonObject, old: JsonObject | None, context: Context, *, namespaced: bool) -> Iterator[Finding]:
    wanted, stored = wish(document), None if old is None else wish(old)
    plainly = _judge_plainly(wanted, stored, context, namespaced=namespaced)
    if plainly is not None:
        yield from plainly
        return
    model = ResourcePlacement if namespaced else ClusterResourcePlacement
    reading = read_object(model, wanted, SHAPE_RULES)
    yield from reading.errors
    if reading.view is None:
        return
    new, before = reading.view, read_object(model, stored).view if stored is not None else None
    yield from reading.trusted(_judge(new, before, context, namespaced=namespaced))


def _judge_plainly(
    new: Mapping[str, Any], stored: Mapping[str, Any] | None, context: Context, *, namespaced: bool
) -> Iterator[Finding] | None:
    """Judge the resource selectors of a placement all else of which is plainly in order; None: it may not be."""
    if not is_plain(new) or IGNORE_RESOURCE_OVERRIDES in dict_at(new, "metadata", "annotations"):
        return None
    if not context.is_ours and has_prefix(new, FLEET):
        return None
    if namespaced and reserved.is_of_the_fleet(new["metadata"].get("namespace", ""), context):
        return None
    if stored is not None and not (is_plain(stored) and is_plain_update(new["spec"], stored["spec"])):
        return None
    try:
        terms = PlacementSpec.read({"resourceSelectors": new["spec"]["resourceSelectors"]}).resource_selectors
    except ValidationError:
        return None
    return validate_resource_selectors(terms, context, namespaced=namespaced)


def _judge(
    new: ClusterResourcePlacement, old: ClusterResourcePlacement | None, context: Context, *, namespaced: bool
) -> Iterator[Finding]:
    yield from validate_metadata(new.metadata, old.metadata if old else None)
    yield from validate_name_length(new.metadata.name, "P-01")
    yield from warn_about_reserved_keys(new.metadata, old.metadata if old else None, context)
    yield from validate_ignored_overrides(new.metadata, namespaced=namespaced)
    if namespaced and reserved.is_of_the_fleet(new.metadata.namespace, context):
        message = f"namespace {quote(new.metadata.namespace)} is of the fleet itself, nothing in it is placed"
        yield FieldError(NAMESPACE_FIELD, Cause.FORBIDDEN, message, "X-01")
    yield from validate_spec(new.spec, context, namespaced=namespaced)
    if old is not None:
        yield from validate_update(new.spec, old.spec, namespaced=namespaced)


def validate_ignored_overrides(metadata: ObjectMeta, *, namespaced: bool) -> Iterator[FieldError]:
    """A misspelt value of the annotation would leave the overrides in force without a sign of it (X-69)."""
    given = metadata.annotations.get(IGNORE_RESOURCE_OVERRIDES)
    at = METADATA / "annotations" / IGNORE_RESOURCE_OVERRIDES
    if given is None:
        return
    if namespaced:
        yield FieldError(at, Cause.FORBIDDEN, "only a ClusterResourcePlacement can ignore ResourceOverrides", "X-69")
    elif given not in {"true", "false"}:
        yield invalid(at, given, 'must be "true" or "false"', "X-69")


def validate_spec(spec: PlacementSpec, context: Context, *, namespaced: bool) -> Iterator[Finding]:
    """Yield what is wrong with a placement's spec alone; *namespaced*: it is a ResourcePlacement."""
    yield from validate_resource_selectors(spec.resource_selectors, context, namespaced=namespaced)
    yield from validate_reporting_scope(spec, namespaced=namespaced)
    if spec.policy is not None:
        yield from validate_policy(spec.policy)
    if spec.strategy is not None:
        yield from validate_strategy(spec.strategy, spec.policy)


def validate_resource_selectors(
    terms: Sequence[ResourceSelectorTerm], context: Context, *, namespaced: bool
) -> Iterator[Finding]:
    """Yield what is wrong with the resource selectors (P-04 to P-13, X-01 to X-04)."""
    with_selectors = [
        i
        for i, term in enumerate(terms)
        if term.selection_scope is SelectionScope.NAMESPACE_WITH_RESOURCE_SELECTORS and _is_namespace(term)
    ]
    for at, term in zip(_SELECTOR, terms, strict=False):
        if term.label_selector is not None:
            yield from validate_name_or_labels(term, at)
            yield from validate_label_selector(term.label_selector, at / "labelSelector", "P-05")
        if reserved.is_never_placed(term.group, term.kind, context):
            yield FieldError(at / "kind", Cause.FORBIDDEN, f"{quote(term.kind)} is never placed", "X-02")
        elif not _is_namespace(term) and (why := reserved.why_fleets_own(term.group, term.kind, term.name)):
            yield FieldError(at / "name", Cause.FORBIDDEN, f"{quote(term.name)} {why}, never placed", "X-02")
        else:
            yield from validate_kind_scope(term, at, context, namespaced=namespaced, lifted=bool(with_selectors))
        if not namespaced and _is_namespace(term):
            yield from validate_namespace_name(term, at, context)
        if (term.group, term.kind) == CUSTOM_RESOURCE_DEFINITION.group_kind and not term.name:
            yield from warn_about_definitions(term, at)
    yield from validate_namespace_with_selectors(terms, with_selectors)
    yield from validate_distinct_terms(terms)


def validate_name_or_labels(term: ResourceSelectorTerm, at: FieldPath) -> Iterator[FieldError]:
    """A term selects by name or by label, not both; an empty ``labelSelector`` counts (P-04)."""
    if term.name and term.label_selector is not None:
        yield FieldError(at / "labelSelector", Cause.FORBIDDEN, "name and labelSelector exclude each other", "P-04")


def validate_kind_scope(
    term: ResourceSelectorTerm, at: FieldPath, context: Context, *, namespaced: bool, lifted: bool
) -> Iterator[Finding]:
    """The hub serves the kind (P-06), with the scope that this kind of placement takes (P-07, P-08).

    If discovery is not available, a kind outside the built-in table passes with a warning (P-09), where the reference
    refuses it.

    Args:
        term: The selector.
        at: Its path.
        context: Knows the kinds.
        namespaced: The placement is a ResourcePlacement.
        lifted: Another term selects a Namespace with the objects that the other terms select in it.
    """
    known = context.kinds.find_served(term.group, term.version, term.kind)
    if known is None:
        if context.kinds.complete:
            where = quote(f"{term.group}/{term.version}" if term.group else term.version)
            parts = (at / "group", at / "version", at / "kind")
            yield invalid(at / "kind", term.kind, f"the hub has no such kind in {where}", "P-06", parts)
        else:
            yield FieldWarning(at / "kind", f"cannot tell whether the hub has {quote(term.kind)}", "P-09")
    elif namespaced and not known.namespaced:
        why = f"{quote(term.kind)}: is cluster-scoped; a ResourcePlacement takes namespaced kinds only"
        yield FieldError(at / "kind", Cause.INVALID, why, "P-08")
    elif not namespaced and known.namespaced and not lifted:
        why = f"{quote(term.kind)}: is namespaced; a ClusterResourcePlacement takes cluster-scoped kinds"
        yield FieldError(at / "kind", Cause.INVALID, why, "P-07")


def validate_namespace_name(term: ResourceSelectorTerm, at: FieldPath, context: Context) -> Iterator[Finding]:
    """Reserved namespaces are never placed: naming one is a mistake (X-01), selecting all skips them (X-03).

    The reference admits both and then fails forever.
    """
    if reserved.is_never_placed_namespace(term.name, context):
        yield FieldError(
            at / "name", Cause.FORBIDDEN, f"namespace {quote(term.name)} is reserved, never placed", "X-01"
        )
    elif (
        not term.name
        and term.label_selector is None
        and term.selection_scope is SelectionScope.NAMESPACE_WITH_RESOURCES
    ):
        yield FieldWarning(at, "selects every namespace; reserved ones are skipped", "X-03")


def warn_about_definitions(term: ResourceSelectorTerm, at: FieldPath) -> Iterator[FieldWarning]:
    """A selector of all definitions skips those of the fleet (X-03)."""
    if term.label_selector is None or not (term.label_selector.match_labels or term.label_selector.match_expressions):
        yield FieldWarning(at, "selects every definition; those of the fleet are skipped", "X-03")


def validate_namespace_with_selectors(
    terms: Sequence[ResourceSelectorTerm], positions: Sequence[int]
) -> Iterator[FieldError]:
    """``NamespaceWithResourceSelectors`` names the only Namespace term (P-11 to P-13)."""
    for i in positions:
        at = SELECTORS / i
        message = "NamespaceWithResourceSelectors must select one namespace by name"
        if not terms[i].name:
            yield FieldError(at / "name", Cause.REQUIRED, message, "P-12", (at,))
        if terms[i].label_selector is not None:
            yield FieldError(at / "labelSelector", Cause.FORBIDDEN, message, "P-12", (at,))
    for i in positions[1:]:
        message = "only one term may have NamespaceWithResourceSelectors"
        yield FieldError(SELECTORS / i / "selectionScope", Cause.FORBIDDEN, message, "P-11")
    if positions:
        for i, term in enumerate(terms):
            if i not in positions and _is_namespace(term):
                message = "no other Namespace beside a term with NamespaceWithResourceSelectors"
                yield FieldError(SELECTORS / i, Cause.FORBIDDEN, message, "P-13")


def validate_distinct_terms(terms: Sequence[ResourceSelectorTerm]) -> Iterator[FieldError]:
    """No object is listed twice; the rollout would fail with a duplicate resource (X-04)."""
    seen: set[tuple[str, str, str, str]] = set()
    for i, term in enumerate(terms):
        if term.label_selector is not None:
            continue
        key = (term.group, term.version, term.kind, term.name)
        if key in seen:
            what = f"{term.kind} {term.name}" if term.name else f"every {term.kind}"
            yield duplicate(SELECTORS / i, what, rule="X-04")
        seen.add(key)


def validate_reporting_scope(spec: PlacementSpec, *, namespaced: bool) -> Iterator[Finding]:
    """``NamespaceAccessible`` needs exactly one Namespace term (P-15); a ResourcePlacement has no use for it (X-17)."""
    if spec.status_reporting_scope != "NamespaceAccessible":
        return
    at = SPEC / "statusReportingScope"
    if namespaced:
        yield FieldWarning(at, "has no effect on a ResourcePlacement", "X-17")
        return
    count = sum(term.kind == "Namespace" for term in spec.resource_selectors)
    if count != 1:
        message = f'"NamespaceAccessible": needs exactly one Namespace among resourceSelectors, found {count}'
        yield FieldError(at, Cause.INVALID, message, "P-15", (at, SELECTORS))


def validate_policy(policy: PlacementPolicy) -> Iterator[Finding]:
    """Yield what is wrong with a policy alone (P-20 to P-44, X-06, X-11 to X-13, X-18)."""
    fixed = policy.placement_type is PlacementType.PICK_FIXED
    yield from validate_policy_matrix(policy)
    yield from validate_number_of_clusters(policy)
    if fixed:
        yield from validate_cluster_names(policy.cluster_names)
    if policy.affinity is not None and policy.affinity.cluster_affinity is not None and not fixed:
        yield from validate_affinity(policy.affinity.cluster_affinity, policy.placement_type)
    if policy.topology_spread_constraints:
        yield from validate_spread(policy.topology_spread_constraints)
    if policy.tolerations and not fixed:
        yield from validate_tolerations(policy.tolerations)


def validate_policy_matrix(policy: PlacementPolicy) -> Iterator[FieldError]:
    """Each placement type takes its own fields only; a field counts even if it is empty (P-20, P-23, P-25).

    Source: placement-api.md 5 and 2.8.
    """
    rule, fields = _NOT_WITH[policy.placement_type]
    for name in fields:
        if name in policy.model_fields_set:
            message = f"{policy.placement_type} does not take it"
            at = POLICY / _PRESENT[name]
            yield FieldError(at, Cause.FORBIDDEN, message, rule, (at, TYPE))


def validate_number_of_clusters(policy: PlacementPolicy) -> Iterator[Finding]:
    """PickN must say how many clusters to pick (P-25); picking none removes everything (X-06).

    Seed 003 has a PickN example without the field; we side with the reference.
    """
    if policy.placement_type is PlacementType.PICK_N and policy.number_of_clusters is None:
        at, message = POLICY / "numberOfClusters", "PickN must say how many clusters to pick"
        yield FieldError(at, Cause.REQUIRED, message, "P-25", (at, TYPE))
    elif policy.placement_type is PlacementType.PICK_N and policy.number_of_clusters == 0:
        yield FieldWarning(POLICY / "numberOfClusters", "0 removes the placed objects from every cluster", "X-06")
    elif policy.placement_type is PlacementType.PICK_FIXED and not policy.cluster_names:
        yield FieldWarning(
            POLICY / "clusterNames", "an empty list removes the placed objects from every cluster", "X-06"
        )


def validate_cluster_names(cluster_names: Sequence[str]) -> Iterator[FieldError]:
    """Names of member clusters, each once (P-21, P-22)."""
    at = POLICY / "clusterNames"
    seen: set[str] = set()
    for i, name in enumerate(cluster_names):
        if len(name) > 63:
            yield too_long(at / i, name, 63, "P-21")
        elif error := dns_subdomain_error(name):
            yield invalid(at / i, name, error, "P-21")
        if name in seen:
            yield duplicate(at / i, name, rule="P-22")
        seen.add(name)


def validate_affinity(affinity: ClusterAffinity, placement_type: PlacementType) -> Iterator[Finding]:
    """Yield what is wrong with the terms that choose clusters (P-24, P-27 to P-36, X-13, X-18, X-28)."""
    if (count := requirement_count(affinity)) > MOST_REQUIREMENTS:  # too many to check, and the scheduler refuses them
        yield FieldError(CLUSTER_AFFINITY, Cause.TOO_MANY, too_many_requirements(count), "X-28")
        return
    if affinity.required is not None:
        terms = affinity.required.cluster_selector_terms
        if not terms:
            yield FieldWarning(REQUIRED_TERMS, "without terms nothing is required", "X-13")
        for at, term in zip(_REQUIRED_TERM, terms, strict=False):
            yield from validate_required_term(term, at)
            if len(terms) > 1 and not _selects(term):
                yield FieldWarning(at, "an empty term matches every cluster: the other terms have no effect", "X-13")
    if affinity.preferred and placement_type is PlacementType.PICK_ALL:
        message = "PickAll takes every cluster, preferences would be ignored"
        yield FieldError(PREFERRED, Cause.FORBIDDEN, message, "P-24", (PREFERRED, TYPE))
    for at, preferred in zip(_PREFERRED_TERM, affinity.preferred, strict=False):
        yield from validate_preferred_term(preferred.preference, at)
        if preferred.weight == 0 or not _selects(preferred.preference):
            yield FieldWarning(at, "has no effect: weight 0 or an empty preference", "X-13")


def validate_required_term(term: ClusterSelectorTerm, at: FieldPath) -> Iterator[Finding]:
    """A requirement selects by labels and properties; it does not sort (P-27, P-28)."""
    if term.label_selector is not None:
        yield from validate_label_selector(term.label_selector, at / "labelSelector", "P-27")
    if term.property_selector is not None:
        here = at / "propertySelector" / "matchExpressions"
        yield from validate_requirements(term.property_selector.match_expressions, here)
    for name in _sorters(term):
        message = "only preferred terms sort"
        yield FieldError(at / name, Cause.FORBIDDEN, message, "P-28")


def validate_preferred_term(term: ClusterSelectorTerm, at: FieldPath) -> Iterator[Finding]:
    """A preference selects by labels and sorts by a property, under one of its two names (P-27, P-29, P-36, X-18)."""
    if term.label_selector is not None:
        yield from validate_label_selector(term.label_selector, at / "labelSelector", "P-27")
    if term.property_selector is not None:
        message = "only required terms compare properties"
        yield FieldError(at / "propertySelector", Cause.FORBIDDEN, message, "P-29")
    sorters = _sorters(term)
    for name, sorter in sorters.items():
        yield from validate_sorter(sorter, at / name)
    if len({(sorter.name, sorter.sort_order) for sorter in sorters.values()}) > 1:
        message = "is the old name of propertySorter and has another value; set only one of them"
        yield FieldError(at / "metricSorter", Cause.FORBIDDEN, message, "X-18", (at,))


def validate_spread(constraints: Sequence[TopologySpreadConstraint]) -> Iterator[FieldError]:
    """Constraints have valid label keys (X-11), and no two are the same (X-12)."""
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(constraints):
        if error := qualified_name_error(constraint.topology_key):
            yield invalid(SPREAD / i / "topologyKey", constraint.topology_key, error, "X-11")
        key = (constraint.topology_key, constraint.when_unsatisfiable)
        if key in seen:
            yield duplicate(SPREAD / i, f"{key[0]}, {key[1]}", rule="X-12")
        seen.add(key)


def validate_tolerations(tolerations: Sequence[Toleration]) -> Iterator[FieldError]:
    """Tolerations are valid, and no two are the same (P-39 to P-44)."""
    seen: set[tuple[str, str, str, str]] = set()
    for at, toleration in zip(_TOLERATION, tolerations, strict=False):
        yield from validate_toleration(toleration, at)
        key = _tuple(toleration)
        if key in seen:
            what = " ".join(part for part in key if part)
            yield duplicate(at, what, rule="P-44")
        seen.add(key)


def validate_toleration(toleration: Toleration, at: FieldPath) -> Iterator[FieldError]:
    """One toleration: Exists has no value, Equal has a key and a label value (P-39 to P-43)."""
    if toleration.operator not in {"Equal", "Exists"}:
        yield not_supported(at / "operator", toleration.operator, ("Equal", "Exists"), "P-43")
    if "effect" in toleration.model_fields_set and toleration.effect != "NoSchedule":
        yield not_supported(at / "effect", toleration.effect, ("NoSchedule",), "P-43")
    if toleration.operator == "Exists" and toleration.value:
        parts = (at / "operator", at / "value")
        yield invalid(at / "value", toleration.value, "must be empty when the operator is Exists", "P-39", parts)
    if not toleration.key and toleration.operator != "Exists":
        parts = (at / "operator", at / "key")
        yield invalid(at / "operator", toleration.operator, "without a key it must be Exists", "P-40", parts)
    if toleration.key and (error := qualified_name_error(toleration.key)):
        yield invalid(at / "key", toleration.key, error, "P-41")
    if toleration.operator == "Equal" and (error := label_value_error(toleration.value)):
        yield invalid(at / "value", toleration.value, error, "P-42")


def validate_strategy(strategy: RolloutStrategy, policy: PlacementPolicy | None) -> Iterator[Finding]:
    """Yield what is wrong with the rollout strategy (P-46 to P-52, X-14 to X-16)."""
    if strategy.rolling_update is not None:
        if strategy.type is StrategyType.EXTERNAL:
            message = "External rollouts do not take it"
            yield FieldError(ROLLING_UPDATE, Cause.FORBIDDEN, message, "P-46", (ROLLING_UPDATE, STRATEGY / "type"))
        yield from validate_rolling_update(strategy.rolling_update, ROLLING_UPDATE)
    apply = strategy.apply_strategy
    if apply is not None and apply.server_side_apply_config is not None and apply.type != "ServerSideApply":
        here = STRATEGY / "applyStrategy"
        message = "only with type ServerSideApply"
        parts = (here / "serverSideApplyConfig", here / "type")
        yield FieldError(here / "serverSideApplyConfig", Cause.FORBIDDEN, message, "P-50", parts)
    if strategy.report_back_strategy is not None:
        yield from validate_report_back(strategy.report_back_strategy, policy, STRATEGY / "reportBackStrategy")


def validate_rolling_update(rolling_update: RollingUpdate, at: FieldPath) -> Iterator[Finding]:
    """Limits are integers or percentages (P-48), not both zero (X-14); the pause is in seconds (X-15).

    The reference forbids two zeros only in its documentation; such a rollout never makes progress.
    """
    limits = {"maxUnavailable": rolling_update.max_unavailable, "maxSurge": rolling_update.max_surge}
    zeros = []
    for name, value in limits.items():
        share = percent(value)
        if not count_or_percent(value):
            why = f"must be an integer from 0 to {LARGEST} or a percentage of 0% to 100%"
            yield invalid(at / name, value, why, "P-48")
        elif value == 0 or share == 0:
            zeros.append(name)
    if len(zeros) == 2:
        parts = tuple(at / name for name in limits)
        message = f"{quote(limits)}: with both zero nothing could ever be updated"
        yield FieldError(at, Cause.INVALID, message, "X-14", parts)
    elif zeros:
        yield FieldWarning(at / zeros[0], f"{quote(limits[zeros[0]])} can block the rollout", "X-14")
    if (period := rolling_update.unavailable_period_seconds) > 3600:
        message = f"{quote(period)} is more than an hour; the unit is seconds"
        yield FieldWarning(at / "unavailablePeriodSeconds", message, "X-15")


def validate_report_back(
    report: ReportBackStrategy, policy: PlacementPolicy | None, at: FieldPath
) -> Iterator[Finding]:
    """Mirror needs a destination (P-52); one original cannot mirror several clusters (X-16)."""
    if report.type != "Mirror":
        return
    if report.destination is None:
        parts = (at / "destination", at / "type")
        yield FieldError(at / "destination", Cause.REQUIRED, "Mirror must say where to", "P-52", parts)
    elif report.destination == "OriginalResource" and not _picks_one_cluster(policy):
        yield FieldWarning(at, "OriginalResource works for one cluster only, the policy can pick more", "X-16")


def validate_update(new: PlacementSpec, old: PlacementSpec, *, namespaced: bool) -> Iterator[FieldError]:
    """Yield what an update must not change (U-01 to U-05)."""
    if old.policy is not None and new.policy is None:
        yield FieldError(POLICY, Cause.FORBIDDEN, "cannot be removed", "U-01")
    else:
        new_type, old_type = _type(new.policy), _type(old.policy)
        if new_type is not old_type:
            yield invalid(POLICY / "placementType", new_type, f"is fixed, it was {old_type}", "U-02")
        yield from validate_kept_tolerations(new.policy, old.policy)
    yield from validate_external_stays(new.strategy, old.strategy)
    if not namespaced and new.status_reporting_scope != old.status_reporting_scope:
        at = SPEC / "statusReportingScope"
        yield invalid(at, new.status_reporting_scope, f"is fixed, it was {old.status_reporting_scope}", "U-05")


def validate_kept_tolerations(new: PlacementPolicy | None, old: PlacementPolicy | None) -> Iterator[FieldError]:
    """Tolerations may be added, not changed or removed; their order does not matter (U-03)."""
    if old is None or not old.tolerations:
        return
    kept = {_tuple(toleration) for toleration in new.tolerations} if new is not None else set()
    for toleration in old.tolerations:
        if (key := _tuple(toleration)) not in kept:
            what = quote(" ".join(part for part in key if part))
            message = f"tolerations may only be added; missing: {what}"
            yield FieldError(POLICY / "tolerations", Cause.FORBIDDEN, message, "U-03")


def validate_external_stays(new: RolloutStrategy | None, old: RolloutStrategy | None) -> Iterator[FieldError]:
    """An External rollout stays External, even if the whole block is removed (U-04)."""
    if old is None or old.type is not StrategyType.EXTERNAL:
        return
    if new is None or new.type is not StrategyType.EXTERNAL:
        yield FieldError(STRATEGY / "type", Cause.FORBIDDEN, "is fixed once it is External", "U-04")


def _is_namespace(term: ResourceSelectorTerm) -> bool:
    return term.kind == "Namespace" and term.group == "" and term.version == "v1"


def _sorters(term: ClusterSelectorTerm) -> dict[str, PropertySorter]:
    """Return the sorters of a term by the field that holds them."""
    if term.property_sorter is None and term.metric_sorter is None:
        return {}
    named = {"propertySorter": term.property_sorter, "metricSorter": term.metric_sorter}
    return {name: sorter for name, sorter in named.items() if sorter is not None}


def _selects(term: ClusterSelectorTerm) -> bool:
    """Say whether a term has any condition or sorter."""
    labels, properties = term.label_selector, term.property_selector
    return bool(
        (labels is not None and (labels.match_labels or labels.match_expressions))
        or (properties is not None and properties.match_expressions)
        or _sorters(term)
    )


def _tuple(toleration: Toleration) -> tuple[str, str, str, str]:
    return toleration.key, toleration.operator, toleration.value, toleration.effect


def _type(policy: PlacementPolicy | None) -> PlacementType:
    return PlacementType.PICK_ALL if policy is None else policy.placement_type


def _picks_one_cluster(policy: PlacementPolicy | None) -> bool:
    if policy is None:
        return False
    match policy.placement_type:
        case PlacementType.PICK_FIXED:
            return len(policy.cluster_names) == 1
        case PlacementType.PICK_N:
            return policy.number_of_clusters == 1
        case _:
            return False


@enforces(*DELETION_RULES)
def warn_about_deletion(old: JsonObject) -> Iterator[FieldWarning]:
    """Deleting a placement removes the placed objects, unless its delete strategy abandons them (D-03, X-23).

    Of the status only the names are read: agents report the rest, and could keep the warning away by what they report.
    """
    try:
        stored = ClusterResourcePlacement.read(wish(old))
    except ValueError:
        return
    clusters = {text_at(entry, "clusterName") for entry in dicts_at(old, "status", "placementStatuses")} - {""}
    if not clusters:
        return
    delete = stored.spec.strategy.delete_strategy if stored.spec.strategy is not None else None
    abandons = delete is not None and delete.propagation_policy == "Abandon"
    where = "1 cluster" if len(clusters) == 1 else f"{len(clusters)} clusters"
    verb = "abandons the placed objects on" if abandons else "removes the placed objects from"
    yield FieldWarning(SPEC / "strategy" / "deleteStrategy", f"deleting {verb} {where}", "X-23")
