"""Admission of NodePools: all checks of the reference in one answer.

The reference refuses some errors by schema and CEL, reports others in a condition later, and detects an invalid
schedule only when it evaluates a budget. Here, admission refuses all of them. A pool that can never work, or that
silently blocks all disruption, is therefore never stored (nodepool-disruption.md 2.1).

Source: docs/specifications/nodepool-disruption.md 1, 2, 4.6, 8 and 16; Karpenter
``pkg/apis/v1/nodepool_validation.go``.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from pydantic import ValidationError

from scorer.api.meta import JsonObject, ObjectMeta, json_equal, parse_time, without_nulls
from scorer.api.node_pool import (
    CAPACITY_TYPE,
    HOSTNAME,
    KARPENTER_DOMAIN,
    LONGEST_KEY,
    NODE_POOL_LABEL,
    NodeClassReference,
    NodePool,
    NodePoolSpec,
    NodeTaint,
    Requirement,
    RequirementOperator,
    TaintEffect,
    parse_duration_or_never,
)
from scorer.api.values.duration import parse_sum
from scorer.api.values.field_path import FieldPath
from scorer.api.values.name_grammar import label_value_error, qualified_name_error
from scorer.api.values.quantity import parse_quantity
from scorer.api.values.quoting import quote
from webhook.validation import removal_annotations
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import (
    SPEC,
    Cause,
    FieldError,
    FieldWarning,
    duplicate,
    invalid,
    not_supported,
    too_long,
)
from webhook.validation.framework.metadata import METADATA_RULES, validate_metadata
from webhook.validation.framework.reading import Finding, read_object, value_at
from webhook.validation.framework.rule import (
    OURS,
    UPDATE,
    Rule,
    Severity,
    allow,
    deny,
    enforces,
    schema,
    shape_rules,
    warn,
)
from webhook.validation.node_pool_budgets import validate_budgets

_CRD: Final = "Karpenter CRD"
_CEL: Final = "Karpenter CRD (CEL)"
_RUNTIME: Final = "Karpenter pkg/apis/v1/nodepool_validation.go"
_SEED: Final = f"{OURS}; seed 002"
_NODE: Final = "spec.template.spec"
_BUDGET: Final = "spec.disruption.budgets.*"
BUDGETS: Final = FieldPath.of("spec", "disruption", "budgets")

RULES: Final = (
    *METADATA_RULES,
    *removal_annotations.RULES,
    schema(
        "K-01",
        "nodeClassRef must have a group without a version, a kind and a name, none of them empty.",
        f"{_CRD}, CEL",
        f"{_NODE}.nodeClassRef",
    ),
    deny("K-02", "Group and kind of nodeClassRef are immutable.", _CEL, on=UPDATE),
    schema("K-03", "requirements must be set and have at most 100 items.", _CRD, f"{_NODE}.requirements"),
    schema(
        "K-04",
        "The key of a requirement must be a qualified name of at most 316 characters.",
        f"{_CRD}, {_RUNTIME}",
        f"{_NODE}.requirements.*.key",
    ),
    deny("K-05", "Requirements and labels must not use a key that belongs to Karpenter or the node itself.", _CEL),
    schema("K-06", "The operator of a requirement must be a known operator.", _CRD, f"{_NODE}.requirements.*.operator"),
    deny("K-07", "A requirement with In must have a value.", _CEL),
    deny("K-08", "A requirement with Gt, Lt, Gte or Lte must have one whole number of at least 0.", _CEL),
    deny("K-09", "The values of a requirement must be label values.", _RUNTIME, f"{_NODE}.requirements.*.values"),
    schema(
        "K-10",
        "minValues must be 1 to 50, and In must list at least as many values.",
        f"{_CRD}, CEL",
        f"{_NODE}.requirements.*.minValues",
    ),
    Rule(
        "K-11",
        (Severity.DENY, Severity.WARN),
        "In must list a known capacity type, and at least minValues known ones. Unknown ones give a warning.",
        _RUNTIME,
    ),
    schema(
        "K-12",
        "The template must have at most 100 labels, with qualified names as keys and label values.",
        f"{_CRD}, {_RUNTIME}",
        "spec.template.metadata.labels",
    ),
    schema(
        "K-13",
        "A taint must have a key and a known effect. If set, value must not be empty, and timeAdded must be a time.",
        f"{_CRD}, {_RUNTIME}",
        f"{_NODE}.taints",
        f"{_NODE}.startupTaints",
    ),
    deny("K-14", "No two taints, including startupTaints, may have the same key and effect.", _RUNTIME),
    schema(
        "K-15",
        "Durations must be whole hours, minutes and seconds: 1h30m. expireAfter and consolidateAfter may be Never.",
        _CRD,
        f"{_NODE}.expireAfter",
        f"{_NODE}.terminationGracePeriod",
        "spec.disruption.consolidateAfter",
    ),
    schema(
        "K-16",
        "consolidationPolicy must be WhenEmpty or WhenEmptyOrUnderutilized.",
        _CRD,
        "spec.disruption.consolidationPolicy",
    ),
    schema("K-17", "There must be at most 50 budgets.", _CRD, "spec.disruption.budgets"),
    schema(
        "K-18",
        "The nodes of a budget must be a number up to 2147483647 or a percentage up to 100%, as a string.",
        f"{_CRD}; {OURS} on the largest number",
        f"{_BUDGET}.nodes",
    ),
    schema(
        "K-19", "A budget must have at most 50 reasons, all of them known and distinct.", _CRD, f"{_BUDGET}.reasons"
    ),
    schema(
        "K-20",
        "A schedule must have five fields or be a macro, in UTC and without a time zone.",
        f"{_CRD}; robfig/cron",
        f"{_BUDGET}.schedule",
    ),
    schema(
        "K-21", "The duration of a budget must be in hours and minutes, such as 1h30m.", _CRD, f"{_BUDGET}.duration"
    ),
    deny("K-22", "A budget must set both schedule and duration, or neither.", _CEL),
    schema("K-23", "Limits must be quantities.", _CRD, "spec.limits"),
    schema("K-24", "weight must be 1 to 100, and replicas at least 0.", _CRD, "spec.weight", "spec.replicas"),
    deny("K-25", "A pool with replicas must not set weight, and may limit nodes only.", _CEL),
    deny("K-26", "replicas must not be added or removed.", _CEL, on=UPDATE),
    warn(
        "K-30",
        "No budget should always be in force and allow 0 disruptions, which would make the others pointless.",
        _SEED,
    ),
    warn(
        "K-31",
        "At least one budget should always be in force. Otherwise disruption is unlimited outside the windows.",
        _SEED,
    ),
    warn("K-32", "A budget with a schedule should not always be in force: its window should close.", OURS),
    warn("K-33", "The duration of a budget should be longer than 0: otherwise its window never opens.", OURS),
    warn("K-34", "The reasons of a budget should not be an empty list, which matches no disruption.", OURS),
    Rule(
        "K-35",
        (Severity.WARN, Severity.MUTATE),
        "expireAfter belongs in the template. It is copied there from spec.disruption if the template has none.",
        _SEED,
    ),
    warn("K-36", "kubelet should not be in a NodePool: it belongs to the node class.", "Karpenter v1"),
    warn(
        "K-37",
        "An update that does not change the spec passes, with a warning if the spec would be refused today.",
        OURS,
        on=UPDATE,
    ),
    warn(
        "K-38", "A budget should be the lowest limit for its reasons at some time. Otherwise, it has no effect.", OURS
    ),
    warn("K-39", "Windows that allow 0 disruptions should not cover all of the time.", OURS),
    warn("K-40", "A budget should not name a time zone: schedules are in UTC.", OURS),
)
SHAPE_RULES: Final = shape_rules(RULES)
"""The rules that the model enforces, by path."""
NODE_CLASS_RULE: Final = allow(
    "K-47", "A node class is never refused: its provider validates it.", "Karpenter's providers", on=UPDATE
)

CAPACITY_TYPES: Final = ("on-demand", "spot", "reserved")

_BOUNDS: Final = frozenset(
    {RequirementOperator.GT, RequirementOperator.LT, RequirementOperator.GTE, RequirementOperator.LTE}
)
_OPERATORS: Final = tuple(word.value for word in RequirementOperator)
_EFFECTS: Final = tuple(word.value for word in TaintEffect)
_LARGEST: Final = 2**63 - 1
_INSTANT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)
_MOST_FINDINGS: Final = 1000
"""Maximum number of findings. Far more than an answer shows, but it bounds the search in a list of errors."""


@enforces(*RULES)
def validate(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors and warnings of a NodePool.

    A pool that is being deleted is not checked, so that its finalizers can be removed. On an update that does not
    change ``spec``, only changed metadata can cause an error. An unchanged spec that the current rules would refuse
    yields one warning.
    """
    if old is not None and value_at(document, FieldPath.of("metadata", "deletionTimestamp")) is not None:
        return
    yield from _validate_metadata(document, old)
    yield from removal_annotations.validate_removal_annotations(document, old, context)
    if old is not None and json_equal(without_nulls(old.get("spec")), without_nulls(document.get("spec"))):
        mistake = next((finding for finding in _findings(document, None) if isinstance(finding, FieldError)), None)
        if mistake is not None:
            yield FieldWarning(SPEC, f"is unchanged, but would be refused today: {mistake}", "K-37")
        return
    yield from islice(_findings(document, old), _MOST_FINDINGS)


@enforces(NODE_CLASS_RULE)
def accept_node_class(_document: JsonObject, _old: JsonObject | None, _context: Context) -> Iterator[Finding]:
    """Accept every node class, because its provider validates it (K-47). Only live checks apply to it."""
    return iter(())


def _validate_metadata(document: JsonObject, old: JsonObject | None) -> Iterator[FieldError]:
    try:
        new = ObjectMeta.read(document.get("metadata") or {})
        before = ObjectMeta.read(old.get("metadata") or {}) if old is not None else None
    except (ValidationError, TypeError, AttributeError):
        return  # reported where the object is read
    yield from validate_metadata(new, before)


def _findings(document: JsonObject, old: JsonObject | None) -> Iterator[Finding]:
    reading = read_object(NodePool, document, SHAPE_RULES)
    yield from reading.errors
    yield from validate_old_places(document)
    yield from warn_about_time_zones(document)
    if reading.view is not None and len(reading.errors) < _MOST_FINDINGS:
        spec = reading.view.spec
        yield from reading.trusted(validate_spec(spec, SPEC))
        if old is not None:
            yield from reading.trusted(validate_update(spec, old, SPEC))


def validate_spec(spec: NodePoolSpec, at: FieldPath) -> Iterator[Finding]:
    """Apply every rule that needs only the new spec."""
    template, disruption = at / "template", at / "disruption"
    node, place = spec.template.spec, template / "spec"
    yield from validate_labels(spec.template.metadata.labels, template / "metadata" / "labels")
    yield from validate_node_class(node.node_class_ref, place / "nodeClassRef")
    for index, requirement in enumerate(node.requirements):
        yield from validate_requirement(requirement, place / "requirements" / index)
    yield from validate_taints(
        [(place / "taints" / index, taint) for index, taint in enumerate(node.taints)]
        + [(place / "startupTaints" / index, taint) for index, taint in enumerate(node.startup_taints)]
    )
    yield from _validate_duration(node.expire_after, place / "expireAfter", never=True)
    if node.termination_grace_period is not None:
        yield from _validate_duration(node.termination_grace_period, place / "terminationGracePeriod", never=False)
    yield from _validate_duration(spec.disruption.consolidate_after, disruption / "consolidateAfter", never=True)
    yield from validate_budgets(spec.disruption.budgets, disruption / "budgets")
    yield from validate_limits(spec, at)
    yield from validate_static_pool(spec, at)


def validate_update(spec: NodePoolSpec, old: JsonObject, at: FieldPath) -> Iterator[FieldError]:
    """A pool remains static or dynamic, and keeps group and kind of its node class (nodepool-disruption.md 2.7)."""
    replicas = at / "replicas"
    was_static, is_static = value_at(old, replicas) is not None, spec.replicas is not None
    if was_static is not is_static:
        change = "removed from a static pool" if was_static else "added to a dynamic pool"
        yield FieldError(replicas, Cause.FORBIDDEN, f"cannot be {change}", "K-26")
    reference = at / "template" / "spec" / "nodeClassRef"
    now = spec.template.spec.node_class_ref
    for member, value in (("group", now.group), ("kind", now.kind)):
        before = value_at(old, reference / member)
        if isinstance(before, str) and before != value:
            yield invalid(reference / member, value, f"field is immutable, was {quote(before)}", "K-02")


def validate_old_places(document: JsonObject) -> Iterator[FieldWarning]:
    """Warn about two fields that have moved. Other unknown fields are pruned silently."""
    former, kubelet = SPEC / "disruption" / "expireAfter", SPEC / "template" / "spec" / "kubelet"
    place = SPEC / "template" / "spec" / "expireAfter"
    value, in_force = value_at(document, former), value_at(document, place)
    if value is not None and value != in_force:  # the mutating hook copies it, with a warning of its own
        remedy = f"Set {place} instead" if in_force is None else f"{place} is {quote(in_force)}"
        yield FieldWarning(former, f"{quote(value)} is ignored. {remedy}", "K-35")
    if value_at(document, kubelet) is not None:
        message = "is no longer a field of NodePool and is dropped. Set it in the node class"
        yield FieldWarning(kubelet, message, "K-36")


def warn_about_time_zones(document: JsonObject) -> Iterator[FieldWarning]:
    """Warn about ``timeZone``, which is a field of a CronJob but not of a budget."""
    budgets = value_at(document, BUDGETS)
    for index, budget in enumerate(budgets if isinstance(budgets, list) else ()):
        value = budget.get("timeZone") if isinstance(budget, dict) else None
        if value is not None:
            message = f"{quote(value)} is not a field of a budget and is dropped. Schedules are in UTC"
            yield FieldWarning(BUDGETS / index / "timeZone", message, "K-40")


def validate_labels(labels: dict[str, str], at: FieldPath) -> Iterator[FieldError]:
    """Check keys and values of the labels that every node of the pool gets."""
    for key, value in sorted(labels.items()):
        yield from _validate_key(key, at / key, "K-12")
        if error := label_value_error(value):
            yield invalid(at / key, value, error, "K-12")


def _validate_key(key: str, at: FieldPath, grammar: str) -> Iterator[FieldError]:
    """A label key is not restricted (K-05), and is well formed. *grammar* is the id of the rule on its syntax."""
    if error := restricted_key_error(key):
        yield invalid(at, key, error, "K-05")
    elif error := qualified_name_error(key):
        yield invalid(at, key, error, grammar)


def restricted_key_error(key: str) -> str:
    """Return why a pool must not use a label key, empty if it may.

    As in the reference, the domain is compared as a suffix of the text: ``mykarpenter.sh/x`` and the key
    ``karpenter.sh`` without a name are refused as well (nodepool-disruption.md 2.4).
    """
    if key in {NODE_POOL_LABEL, HOSTNAME}:
        return "is set by the system and cannot be used"
    if key != CAPACITY_TYPE and key.partition("/")[0].endswith(KARPENTER_DOMAIN):
        return f"label domain {KARPENTER_DOMAIN} is restricted"
    return ""


def validate_node_class(reference: NodeClassReference, at: FieldPath) -> Iterator[FieldError]:
    """Group, kind and name must be set, and the group must not include a version."""
    for member, value in (("group", reference.group), ("kind", reference.kind), ("name", reference.name)):
        if not value:
            yield FieldError(at / member, Cause.REQUIRED, "may not be empty", "K-01")
    if "/" in reference.group:
        yield invalid(at / "group", reference.group, "must be a group without a version, without '/'", "K-01")


def validate_requirement(requirement: Requirement, at: FieldPath) -> Iterator[Finding]:
    """Check key, operator, values and ``minValues`` of one requirement (nodepool-disruption.md 2.3)."""
    key, values = requirement.key, requirement.values
    if len(key) > LONGEST_KEY:
        yield too_long(at / "key", key, LONGEST_KEY, "K-04")
    else:
        yield from _validate_key(key, at / "key", "K-04")
    if requirement.operator not in _OPERATORS:
        yield not_supported(at / "operator", requirement.operator, _OPERATORS, "K-06")
    if requirement.operator in _BOUNDS and len(values) == 1:
        if not _is_bound(values[0]):
            yield invalid(at / "values" / 0, values[0], "must be a whole number from 0 to 9223372036854775807", "K-08")
        elif error := label_value_error(values[0]):
            yield invalid(at / "values" / 0, values[0], error, "K-09")
    else:
        if requirement.operator in _BOUNDS:
            message = f"{quote(list(values))}: must have exactly one value when operator is {requirement.operator}"
            yield FieldError(at / "values", Cause.INVALID, message, "K-08")
        for index, value in enumerate(values):
            if error := label_value_error(value):
                yield invalid(at / "values" / index, value, error, "K-09")
    if requirement.operator == RequirementOperator.IN:
        yield from _validate_listed(requirement, at)


def _validate_listed(requirement: Requirement, at: FieldPath) -> Iterator[Finding]:
    """Check the values of an ``In`` requirement: there are enough of them, and capacity types are known."""
    values, least_values = requirement.values, requirement.min_values
    if not values:
        yield FieldError(at / "values", Cause.REQUIRED, "must not be empty when operator is In", "K-07")
        return
    if least_values is not None and len(values) < least_values:
        yield invalid(at / "minValues", least_values, f"must not exceed the number of values ({len(values)})", "K-10")
    if requirement.key != CAPACITY_TYPE:
        return
    unknown = [value for value in values if value not in CAPACITY_TYPES]
    known_count = len(values) - len(unknown)
    if not known_count:
        yield not_supported(at / "values", unknown[0], CAPACITY_TYPES, "K-11")
    elif least_values is not None and known_count < least_values <= len(values):
        message = f"must not exceed the number of known capacity types in values ({known_count})"
        yield invalid(at / "minValues", least_values, message, "K-11")
    elif unknown:
        words = ", ".join(CAPACITY_TYPES)
        message = f"{quote(unknown[0])} is not a known capacity type ({words}) and has no effect"
        yield FieldWarning(at / "values", message, "K-11")


def _is_bound(value: str) -> bool:
    digits = value.lstrip("0") or "0"
    return value.isascii() and value.isdigit() and len(digits) <= 19 and int(digits) <= _LARGEST


def validate_taints(taints: Iterable[tuple[FieldPath, NodeTaint]]) -> Iterator[FieldError]:
    """Check each taint. No two taints, even of different lists, may have the same key and effect."""
    first: dict[tuple[str, str], FieldPath] = {}
    for at, taint in taints:
        if not taint.key:
            yield FieldError(at / "key", Cause.REQUIRED, "may not be empty", "K-13")
        elif error := qualified_name_error(taint.key):
            yield invalid(at / "key", taint.key, error, "K-13")
        if taint.effect not in _EFFECTS:
            yield not_supported(at / "effect", taint.effect, _EFFECTS, "K-13")
        if taint.value == "":
            yield invalid(at / "value", "", "must not be empty. Remove it instead", "K-13")
        elif taint.value is not None and (error := qualified_name_error(taint.value)):
            yield invalid(at / "value", taint.value, error, "K-13")
        if taint.time_added is not None and not _is_instant(taint.time_added):
            yield invalid(at / "timeAdded", taint.time_added, "must be an instant such as 2026-03-01T10:00:00Z", "K-13")
        earlier = first.setdefault((taint.key, taint.effect), at)
        if earlier != at:
            yield duplicate(
                at, f"{taint.key}:{taint.effect}", f"must not have the same key and effect as {earlier}", "K-14"
            )


def _is_instant(text: str) -> bool:
    """Return whether *text* is an RFC 3339 instant: `parse_time` alone also reads other forms of ISO 8601."""
    try:
        return _INSTANT.fullmatch(text) is not None and bool(parse_time(text))
    except ValueError:
        return False


def _validate_duration(text: str, at: FieldPath, *, never: bool) -> Iterator[FieldError]:
    try:
        if never:
            parse_duration_or_never(text)
        else:
            parse_sum(text)
    except ValueError:
        also = ", or Never" if never else ""
        reason = f"must be whole hours, minutes and seconds such as 1h30m5s, at most 2562047h{also}"
        yield invalid(at, text, reason, "K-15")


def validate_limits(spec: NodePoolSpec, at: FieldPath) -> Iterator[FieldError]:
    """Limits are quantities. Their sign is not checked."""
    for resource, amount in sorted(spec.limits.items()):
        if isinstance(amount, str):
            try:
                parse_quantity(amount)
            except ValueError:
                yield invalid(at / "limits" / resource, amount, "must be a quantity such as 100, 1500m or 64Gi", "K-23")


def validate_static_pool(spec: NodePoolSpec, at: FieldPath) -> Iterator[FieldError]:
    """A pool with ``replicas`` has no weight and limits only nodes."""
    if spec.replicas is None:
        return
    if spec.weight is not None:
        yield FieldError(at / "weight", Cause.FORBIDDEN, "must not be set when replicas is set", "K-25")
    for resource in sorted(spec.limits.keys() - {"nodes"}):
        message = "must only limit nodes when replicas is set"
        yield FieldError(at / "limits" / resource, Cause.FORBIDDEN, message, "K-25")
