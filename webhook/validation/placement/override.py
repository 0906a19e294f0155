"""Rules on ClusterResourceOverride and ResourceOverride.

Source: docs/specifications/placement-api.md 7.7 and 10.3; KubeFleet pkg/utils/validator/clusterresourceoverride.go,
resourceoverride.go.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

from scorer.api.family import CLUSTER, NAMESPACED, Family
from scorer.api.meta import JsonObject
from scorer.api.names import PLACEMENT_GROUP
from scorer.api.placement.override import (
    ClusterResourceOverride,
    JsonPatchOverride,
    OverridePlacementRef,
    OverridePolicy,
    OverrideRule,
    OverrideType,
    PlacementScope,
    ResourceOverride,
    ResourceSelector,
)
from scorer.api.placement.placement import ClusterSelectorTerm, ResourceSelectorTerm
from scorer.api.unstructured.documents import dicts_at, name_of, namespace_of
from scorer.api.values.field_path import FieldPath
from scorer.api.values.name_grammar import qualified_name_error
from scorer.api.values.quoting import quote
from scorer.rollout.selection.exclusions import ENVELOPE_KINDS
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import SPEC, Cause, FieldError, FieldWarning, duplicate, invalid
from webhook.validation.framework.metadata import USER_RULES, validate_metadata, warn_about_reserved_keys
from webhook.validation.framework.reading import Finding, read_object
from webhook.validation.framework.rule import (
    CEL,
    CRD,
    CREATE,
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
from webhook.validation.framework.selector import validate_label_selector

OVERRIDE_RULES: Final = SPEC / "policy" / "overrideRules"
MOST_OVERRIDES: Final = 100

_VALIDATOR: Final = "KubeFleet pkg/utils/validator/{clusterresourceoverride,resourceoverride}.go"
_PATCHES: Final = "spec.policy.overrideRules.*.jsonPatchOverrides"

RULES: Final = (
    *USER_RULES,
    deny("O-01", "The placement must not be changed, added or removed.", CEL, on=UPDATE),
    schema("O-03", "The placement must have a name and a known scope.", CRD, "spec.placement"),
    schema("O-04", "There must be 1 to 20 selectors.", CRD, "spec.clusterResourceSelectors", "spec.resourceSelectors"),
    schema(
        "O-06",
        "A selector must have group, version and kind, and select by name.",
        f"{CRD}, {_VALIDATOR}",
        "spec.clusterResourceSelectors.*",
        "spec.resourceSelectors.*",
    ),
    deny("O-07", "No object may be selected twice.", _VALIDATOR),
    deny("O-08", "No other override of the kind in the namespace may select the same object.", _VALIDATOR),
    deny(
        "O-09", "There must be at most 100 overrides of the kind in the namespace.", "KubeFleet pkg/webhook", on=CREATE
    ),
    schema("O-10", "There must be 1 to 20 override rules.", CRD, "spec.policy"),
    schema(
        "O-11",
        "A rule must select clusters with at most 10 terms, each by label only.",
        f"{CRD}, {_VALIDATOR}",
        "spec.policy.overrideRules.*.clusterSelector",
    ),
    deny("O-12", "A term that selects clusters must have a labelSelector.", _VALIDATOR),
    deny("O-13", "A labelSelector must be well formed.", _VALIDATOR),
    schema("O-14", "overrideType must be JSONPatch or Delete.", CRD, "spec.policy.overrideRules.*.overrideType"),
    deny("O-15", "Delete must not have patches.", _VALIDATOR),
    schema("O-16", "JSONPatch must have 1 to 20 patches.", f"{CRD}, {_VALIDATOR}", _PATCHES),
    schema("O-17", "The op of a patch must be add, remove or replace.", CRD, f"{_PATCHES}.*.op"),
    deny(
        "O-18",
        "A patch must not change apiVersion, kind, status, or metadata other than labels and annotations.",
        _VALIDATOR,
        f"{_PATCHES}.*.path",
    ),
    deny("O-19", "A patch that removes must not have a value.", _VALIDATOR),
    deny(
        "X-60",
        "An override must not select an envelope: envelopes are unpacked before overrides apply.",
        f"{OURS}; KubeFleet issue 770",
    ),
    deny("X-61", "Group, version, kind and name identify an object, not selectionScope (see O-07, O-08).", OURS),
    warn(
        "X-62", "An override should name a placement, and that placement should exist.", f"{OURS}; KubeFleet issue 846"
    ),
    deny(
        "X-64",
        "In a path, 0 or 1 must follow ~, a list index must have no sign and no leading zeros, and - may only append.",
        f"{OURS}; RFC 6901, RFC 6902",
    ),
    deny("X-65", "A label variable in a value must be closed and name a label key.", OURS),
    warn("X-66", "A patch that adds or replaces should have a value."),
    warn("X-68", "A rule should have a clusterSelector. Without one, it applies to no cluster."),
)
CLUSTER_RULES: Final = (
    *RULES,
    deny("O-02", "The placement must be cluster-scoped.", CEL),
    deny("O-05", "A selector must not have a labelSelector.", _VALIDATOR),
    Rule(
        "X-63",
        (Severity.WARN, Severity.DENY),
        "A patch should not change permissions on members. Refused in strict mode.",
        f"{OURS}; KubeFleet PR 863",
    ),
)
NAMESPACED_RULES: Final = (*RULES, deny("X-67", "Version, kind and name of a selector must not be empty.", OURS))
SHAPE_RULES: Final = shape_rules(RULES)
"""The rules that the model enforces, by path."""

Selector: TypeAlias = ResourceSelectorTerm | ResourceSelector
_SelectorKey: TypeAlias = tuple[str, str, str, str]
"""Group, version, kind and name: what the loop compares (rollout.md 6.2)."""

_LABEL_VARIABLE: Final = "${MEMBER-CLUSTER-LABEL-KEY-"
_VALID_ESCAPES: Final = re.compile(r"(?:[^~]|~[01])*", re.ASCII)
_WRONG_POSITION: Final = re.compile(r"[+-][0-9]+|0[0-9]+", re.ASCII)
_MAPS: Final = frozenset(
    {"labels", "annotations", "matchLabels", "nodeSelector", "data", "binaryData", "stringData", "properties"}
)
"""Fields whose keys may look like list positions."""
_PROTECTED: Final = frozenset({"kind", "apiVersion", "status"})
_RBAC: Final = "rbac.authorization.k8s.io"
_RBAC_PATHS: Final = frozenset({"subjects", "roleRef", "rules", "aggregationRule"})
_SELECTORS: Final = {CLUSTER: "clusterResourceSelectors", NAMESPACED: "resourceSelectors"}


@enforces(*CLUSTER_RULES)
def validate_cluster_override(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors and warnings of a ClusterResourceOverride."""
    reading = read_object(ClusterResourceOverride, document, SHAPE_RULES)
    yield from reading.errors
    if reading.view is not None:
        before = read_object(ClusterResourceOverride, old).view if old is not None else None
        yield from reading.trusted(_judge_cluster(reading.view, before, context))


@enforces(*NAMESPACED_RULES)
def validate_resource_override(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors and warnings of a ResourceOverride."""
    reading = read_object(ResourceOverride, document, SHAPE_RULES)
    yield from reading.errors
    if reading.view is not None:
        before = read_object(ResourceOverride, old).view if old is not None else None
        yield from reading.trusted(_judge_namespaced(reading.view, before, context))


def _judge_cluster(
    new: ClusterResourceOverride, old: ClusterResourceOverride | None, context: Context
) -> Iterator[Finding]:
    at = SPEC / "clusterResourceSelectors"
    selectors = new.spec.cluster_resource_selectors
    yield from _judge_common(new, old, context)
    yield from validate_cluster_scope(new.spec.placement)
    yield from validate_names_only(selectors, at)
    yield from validate_selected(selectors, at)
    yield from validate_policy(new.spec.policy)
    yield from validate_rbac(selectors, new.spec.policy, context)
    yield from validate_others(CLUSTER, new, selectors, at, context, creates=old is None)


def _judge_namespaced(new: ResourceOverride, old: ResourceOverride | None, context: Context) -> Iterator[Finding]:
    at = SPEC / "resourceSelectors"
    selectors = new.spec.resource_selectors
    yield from _judge_common(new, old, context)
    yield from validate_filled_selectors(selectors, at)
    yield from validate_selected(selectors, at)
    yield from validate_policy(new.spec.policy)
    yield from validate_others(NAMESPACED, new, selectors, at, context, creates=old is None)


def _judge_common(
    new: ClusterResourceOverride | ResourceOverride,
    old: ClusterResourceOverride | ResourceOverride | None,
    context: Context,
) -> Iterator[Finding]:
    yield from validate_metadata(new.metadata, old.metadata if old else None)
    yield from warn_about_reserved_keys(new.metadata, old.metadata if old else None, context)
    if old is not None:
        yield from validate_fixed_placement(new.spec.placement, old.spec.placement)
    if new.spec.placement is None:
        yield FieldWarning(SPEC / "placement", "without it, the override applies to every placement", "X-62")


def validate_fixed_placement(
    new: OverridePlacementRef | None, old: OverridePlacementRef | None
) -> Iterator[FieldError]:
    """The placement of an override cannot be changed, added or removed (O-01)."""
    if new != old:
        yield FieldError(SPEC / "placement", Cause.FORBIDDEN, "cannot be changed", "O-01")


def validate_cluster_scope(placement: OverridePlacementRef | None) -> Iterator[FieldError]:
    """A ClusterResourceOverride is for a ClusterResourcePlacement (O-02)."""
    if placement is not None and placement.scope is PlacementScope.NAMESPACED:
        at = SPEC / "placement" / "scope"
        yield invalid(at, placement.scope, "a ClusterResourceOverride needs a cluster-scoped placement", "O-02")


def validate_names_only(selectors: Sequence[ResourceSelectorTerm], at: FieldPath) -> Iterator[FieldError]:
    """Overrides select objects by name, never by label (O-05, O-06)."""
    for i, selector in enumerate(selectors):
        if selector.label_selector is not None:
            yield FieldError(
                at / i / "labelSelector", Cause.FORBIDDEN, "must not be set: overrides select by name", "O-05"
            )
        if not selector.name:
            yield FieldError(at / i / "name", Cause.REQUIRED, "must be set: overrides select by name", "O-06")


def validate_filled_selectors(selectors: Sequence[ResourceSelector], at: FieldPath) -> Iterator[FieldError]:
    """Version, kind and name are not empty (X-67). The schema only requires the fields."""
    for i, selector in enumerate(selectors):
        for name, value in (("version", selector.version), ("kind", selector.kind), ("name", selector.name)):
            if not value:
                yield FieldError(at / i / name, Cause.REQUIRED, "must not be empty", "X-67")


def validate_selected(selectors: Sequence[Selector], at: FieldPath) -> Iterator[FieldError]:
    """Each object is selected once, under any scope (O-07, X-61), and is not an envelope (X-60)."""
    visited: set[_SelectorKey] = set()
    for i, selector in enumerate(selectors):
        if selector.group == PLACEMENT_GROUP and selector.kind in ENVELOPE_KINDS:
            message = "envelopes are unpacked before overrides apply. Select the objects inside"
            yield FieldError(at / i / "kind", Cause.FORBIDDEN, message, "X-60")
        key = _object(selector)
        if key in visited:
            yield duplicate(at / i, f"{selector.kind} {selector.name}", rule="O-07")
        visited.add(key)


def validate_others(
    family: Family,
    new: ClusterResourceOverride | ResourceOverride,
    selectors: Sequence[Selector],
    at: FieldPath,
    context: Context,
    *,
    creates: bool,
) -> Iterator[FieldError]:
    """No other override of the kind selects the same object (O-08, X-61), and there are at most 100 (O-09).

    As in the loop, a selector matches an object in one version only, so selectors of different versions do not
    conflict. Overrides of other namespaces do not count. Two overrides that are created concurrently may both be
    accepted, because neither is in the cache yet when the other is reviewed.
    """
    metadata = new.metadata
    others = [
        other
        for other in context.existing(family.override)
        if namespace_of(other) == metadata.namespace and name_of(other) != metadata.name
    ]
    if creates and len(others) >= MOST_OVERRIDES:
        message = f"at most {MOST_OVERRIDES} overrides of this kind are allowed, {len(others)} exist already"
        yield FieldError(FieldPath.of("metadata", "name"), Cause.FORBIDDEN, message, "O-09")
    owners = {key: name_of(other) for other in others for key in _objects_of(other, _SELECTORS[family])}
    for i, selector in enumerate(selectors):
        if owner := owners.get(_object(selector)):
            subject = f"{selector.kind} {selector.name}"
            yield duplicate(at / i, subject, f"already overridden by {quote(owner)}", "O-08")


def validate_policy(policy: OverridePolicy) -> Iterator[Finding]:
    """Yield the findings about the override rules (O-11 to O-19, X-64 to X-66, X-68)."""
    for i, rule in enumerate(policy.override_rules):
        at = OVERRIDE_RULES / i
        yield from validate_clusters(rule, at / "clusterSelector")
        yield from validate_override_type(rule, at)
        for j, patch in enumerate(rule.json_patch_overrides):
            yield from validate_patch(patch, at / "jsonPatchOverrides" / j)


def validate_clusters(rule: OverrideRule, at: FieldPath) -> Iterator[Finding]:
    """A rule selects clusters by label (O-11 to O-13). Without a selector, it selects none (X-68)."""
    if rule.cluster_selector is None:
        yield FieldWarning(at, "without it, the rule applies to no cluster", "X-68")
        return
    for i, term in enumerate(rule.cluster_selector.cluster_selector_terms):
        path = at / "clusterSelectorTerms" / i
        for name in _other_conditions(term):
            yield FieldError(
                path / name, Cause.FORBIDDEN, "must not be set: overrides select clusters by label", "O-11"
            )
        if term.label_selector is None:
            yield FieldError(
                path / "labelSelector", Cause.REQUIRED, "must be set: overrides select clusters by label", "O-12"
            )
        else:
            yield from validate_label_selector(term.label_selector, path / "labelSelector", "O-13")


def validate_override_type(rule: OverrideRule, here: FieldPath) -> Iterator[FieldError]:
    """JSONPatch requires patches (O-16), Delete takes none (O-15)."""
    at, kind = here / "jsonPatchOverrides", here / "overrideType"
    if rule.override_type is OverrideType.DELETE and rule.json_patch_overrides:
        yield FieldError(at, Cause.FORBIDDEN, "must not be set when overrideType is Delete", "O-15", (at, kind))
    if rule.override_type is OverrideType.JSON_PATCH and not rule.json_patch_overrides:
        yield FieldError(at, Cause.REQUIRED, "must not be empty when overrideType is JSONPatch", "O-16", (at, kind))


def validate_patch(patch: JsonPatchOverride, at: FieldPath) -> Iterator[Finding]:
    """One operation: the field it may change (O-18), the syntax of its path (X-64), its value (O-19, X-65, X-66)."""
    yield from validate_patch_path(patch.path, at / "path")
    yield from validate_positions(patch, at / "path")
    has_value = "value" in patch.model_fields_set
    if patch.op == "remove" and has_value:
        yield FieldError(at / "value", Cause.FORBIDDEN, "must not be set when op is remove", "O-19")
    if patch.op != "remove" and not has_value:
        yield FieldWarning(at / "value", f"{patch.op} without a value sets null or fails", "X-66")
    yield from _validate_variables(patch.value, at / "value")


def validate_patch_path(path: str, at: FieldPath) -> Iterator[FieldError]:
    """A path is a JSON Pointer below a field that may differ between clusters.

    Identity, type and status must not be overridden. Of metadata, only labels and annotations may be. Only the first
    segments are checked, case-sensitively (O-18). ``~`` is followed by 0 or 1 (X-64).
    """
    head, *segments = path.split("/")
    if head or not segments or not all(segment.strip() for segment in segments):
        yield invalid(at, path, "must start with / and have no empty segment", "O-18")
    elif segments[0] in _PROTECTED:
        yield FieldError(at, Cause.FORBIDDEN, f"/{segments[0]} cannot be overridden", "O-18")
    elif segments[0] == "metadata" and (len(segments) < 2 or segments[1] not in {"labels", "annotations"}):
        yield FieldError(at, Cause.FORBIDDEN, "only labels and annotations of metadata can be overridden", "O-18")
    if not _VALID_ESCAPES.fullmatch(path):
        yield invalid(at, path, "~ must be followed by 0 or 1", "X-64")


def validate_positions(patch: JsonPatchOverride, at: FieldPath) -> Iterator[FieldError]:
    """List positions are those of RFC 6901 and 6902 (X-64). A patch with others fails on every cluster (DR-11).

    Below labels, annotations and data, a segment is a key. No other field of Kubernetes has a name like an invalid
    position. If a custom resource has such a key nevertheless, a patch can replace the map that contains it.
    """
    segments = patch.path.split("/")[1:]
    for from_last, (parent, segment) in enumerate(pairwise(segments), 2 - len(segments)):
        if parent in _MAPS:
            continue
        if _WRONG_POSITION.fullmatch(segment):
            why = f"{quote(segment)}: a list position must be a number without sign and leading zeros"
            yield invalid(at, patch.path, why, "X-64")
        elif segment == "-" and (from_last < 0 or patch.op != "add"):
            yield invalid(at, patch.path, "- must be the last segment, and op must be add", "X-64")


def validate_rbac(
    selectors: Sequence[ResourceSelectorTerm], policy: OverridePolicy, context: Context
) -> Iterator[Finding]:
    """Patches of RBAC objects may escalate privileges on members (X-63): a warning, in strict mode an error."""
    if not any(selector.group == _RBAC for selector in selectors):
        return
    for i, rule in enumerate(policy.override_rules):
        for j, patch in enumerate(rule.json_patch_overrides):
            if patch.path.split("/")[1:2] and patch.path.split("/")[1] in _RBAC_PATHS:
                at = OVERRIDE_RULES / i / "jsonPatchOverrides" / j / "path"
                message = f"{quote(patch.path)} changes permissions on member clusters"
                if context.settings.strict_overrides:
                    yield FieldError(at, Cause.FORBIDDEN, message, "X-63")
                else:
                    yield FieldWarning(at, message, "X-63")


def _validate_variables(value: Any, at: FieldPath) -> Iterator[FieldError]:
    """A label variable is closed and names a label key (X-65). Otherwise, the override fails on every cluster."""
    for text in _strings(value):
        for rest in text.split(_LABEL_VARIABLE)[1:]:
            key, brace, _ = rest.partition("}")
            if not brace:
                yield invalid(at, _LABEL_VARIABLE + key, "must have a closing brace", "X-65")
            elif error := qualified_name_error(key):
                yield invalid(at, _LABEL_VARIABLE + key + brace, f"label key {error}", "X-65")


def _strings(value: Any) -> Iterator[str]:
    pending = [value]
    while pending:
        match pending.pop():
            case str() as text:
                yield text
            case dict() as members:
                pending.extend(members.keys())
                pending.extend(members.values())
            case list() as items:
                pending.extend(items)


def _other_conditions(term: ClusterSelectorTerm) -> list[str]:
    conditions = {
        "propertySelector": term.property_selector,
        "propertySorter": term.property_sorter,
        "metricSorter": term.metric_sorter,
    }
    return [name for name, value in conditions.items() if value is not None]


def _object(selector: Selector) -> _SelectorKey:
    return selector.group, selector.version, selector.kind, selector.name


def _objects_of(override: JsonObject, field: str) -> Iterator[_SelectorKey]:
    """Yield the objects that a stored override selects. Absent fields are empty."""
    for selector in dicts_at(override, "spec", field):
        group, version, kind, name = (str(selector.get(key, "")) for key in ("group", "version", "kind", "name"))
        yield group, version, kind, name
