"""Admission of NodePools: every layer of the reference in one answer.

The reference refuses some mistakes by schema and CEL, turns others into a condition later, and notices a
broken schedule only when a budget is asked. All of them are refused here, so that a pool that can never work,
or that silently freezes all disruption, is never stored (nodepool-disruption.md 2.1).

Source: nodepool-disruption.md 1, 2, 4.6, 8 and 16; Karpenter ``pkg/apis/v1/nodepool_validation.go``.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from scorer.api.duration import parse_budget_duration, parse_sum
from scorer.api.field_path import FieldPath
from scorer.api.label_selector import label_value_error, qualified_name_error
from scorer.api.meta import JsonObject, without_nulls
from scorer.api.node_pool import (
    CAPACITY_TYPE,
    HOSTNAME,
    KARPENTER_DOMAIN,
    LONGEST_KEY,
    NODE_POOL_LABEL,
    Budget,
    DisruptionReason,
    NodeClassReference,
    NodePool,
    NodePoolSpec,
    NodeTaint,
    Requirement,
    RequirementOperator,
    TaintEffect,
    parse_duration_or_never,
)
from scorer.api.quantity import parse_quantity
from scorer.disruption.budgets import UNLIMITED, allowed_disruptions
from scorer.disruption.cron import matches_crd_pattern, parse_schedule
from webhook.admission.context import Context
from webhook.validation.field import Cause, FieldError, FieldWarning, duplicate, invalid, not_supported, quote
from webhook.validation.reading import Finding, read_object, same_json, value_at

SPEC: Final = FieldPath.of("spec")
CAPACITY_TYPES: Final = ("on-demand", "spot", "reserved")

_BOUNDS: Final = frozenset(
    {RequirementOperator.GT, RequirementOperator.LT, RequirementOperator.GTE, RequirementOperator.LTE}
)
_OPERATORS: Final = tuple(word.value for word in RequirementOperator)
_EFFECTS: Final = tuple(word.value for word in TaintEffect)
_REASONS: Final = tuple(word.value for word in DisruptionReason)
_LARGEST: Final = 2**63 - 1
_NAMED_BUDGETS: Final = 5
_MOST_FINDINGS: Final = 1000
"""Far more than an answer shows; a list of a million mistakes is not read to its end."""


def validate(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Judge a NodePool as a whole.

    An update that leaves ``spec`` alone, or comes after the deletion has begun, is allowed whatever is stored:
    finalizers and status must keep working. If the unchanged spec is invalid by today's rules, a warning says so.
    """
    del context
    if old is not None and value_at(document, FieldPath.of("metadata", "deletionTimestamp")) is not None:
        return
    if old is not None and same_json(without_nulls(old.get("spec")), without_nulls(document.get("spec"))):
        mistake = next((found for found in _findings(document, None) if isinstance(found, FieldError)), None)
        if mistake is not None:
            yield FieldWarning(SPEC, f"is unchanged, but would be refused today: {mistake}")
        return
    yield from islice(_findings(document, old), _MOST_FINDINGS)


def _findings(document: JsonObject, old: JsonObject | None) -> Iterator[Finding]:
    reading = read_object(NodePool, document)
    yield from reading.errors
    yield from validate_old_places(document)
    if reading.view is not None and len(reading.errors) < _MOST_FINDINGS:
        spec = reading.view.spec
        yield from reading.trusted(validate_spec(spec, SPEC))
        if old is not None:
            yield from reading.trusted(validate_update(spec, old, SPEC))


def validate_spec(spec: NodePoolSpec, at: FieldPath) -> Iterator[Finding]:
    """Apply every rule about the object alone."""
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
    """A pool stays static or dynamic, and keeps the group and kind of its node class (nodepool-disruption.md 2.7)."""
    replicas = at / "replicas"
    was_static, is_static = value_at(old, replicas) is not None, spec.replicas is not None
    if was_static is not is_static:
        change = "removed from a static pool" if was_static else "added to a dynamic pool"
        yield FieldError(replicas, Cause.FORBIDDEN, f"cannot be {change}")
    reference = at / "template" / "spec" / "nodeClassRef"
    now = spec.template.spec.node_class_ref
    for member, value in (("group", now.group), ("kind", now.kind)):
        before = value_at(old, reference / member)
        if isinstance(before, str) and before != value:
            yield invalid(reference / member, value, f"field is immutable, it was {quote(before)}")


def validate_old_places(document: JsonObject) -> Iterator[FieldWarning]:
    """Warn about two fields that have gone elsewhere; other unknown fields are dropped without a word."""
    expire_after, kubelet = SPEC / "disruption" / "expireAfter", SPEC / "template" / "spec" / "kubelet"
    if value_at(document, expire_after) is not None:
        yield FieldWarning(expire_after, "is not read; what counts is spec.template.spec.expireAfter")
    if value_at(document, kubelet) is not None:
        yield FieldWarning(kubelet, "is no longer part of a NodePool and is dropped; it belongs to the node class")


def validate_labels(labels: dict[str, str], at: FieldPath) -> Iterator[FieldError]:
    """Check keys and values of the labels that every node of the pool gets."""
    for key, value in sorted(labels.items()):
        if error := restricted_key_error(key) or qualified_name_error(key):
            yield invalid(at / key, key, error)
        if error := label_value_error(value):
            yield invalid(at / key, value, error)


def restricted_key_error(key: str) -> str:
    """Return why a pool may not use a label key, empty when it may.

    As in the reference the test of the domain is one of bare suffixes: ``mykarpenter.sh/x`` and the bare key
    ``karpenter.sh`` are refused as well (nodepool-disruption.md 2.4).
    """
    if key in {NODE_POOL_LABEL, HOSTNAME}:
        return "is set by the system and cannot be used"
    if key != CAPACITY_TYPE and key.partition("/")[0].endswith(KARPENTER_DOMAIN):
        return f"label domain {KARPENTER_DOMAIN} is restricted"
    return ""


def validate_node_class(reference: NodeClassReference, at: FieldPath) -> Iterator[FieldError]:
    """All three parts must be there; the group has no version."""
    for member, value in (("group", reference.group), ("kind", reference.kind), ("name", reference.name)):
        if not value:
            yield FieldError(at / member, Cause.REQUIRED, "may not be empty")
    if "/" in reference.group:
        yield invalid(at / "group", reference.group, "must be a group without a version, so without '/'")


def validate_requirement(requirement: Requirement, at: FieldPath) -> Iterator[Finding]:
    """Check key, operator, values and ``minValues`` of one requirement (nodepool-disruption.md 2.3)."""
    key, values = requirement.key, requirement.values
    if len(key) > LONGEST_KEY:
        yield FieldError(at / "key", Cause.TOO_LONG, f"may not be more than {LONGEST_KEY} characters")
    elif error := restricted_key_error(key) or qualified_name_error(key):
        yield invalid(at / "key", key, error)
    if requirement.operator not in _OPERATORS:
        yield not_supported(at / "operator", requirement.operator, _OPERATORS)
    if requirement.operator in _BOUNDS and len(values) == 1:
        if not _is_bound(values[0]):
            yield invalid(at / "values" / 0, values[0], "must be a whole number from 0 to 9223372036854775807")
        elif error := label_value_error(values[0]):
            yield invalid(at / "values" / 0, values[0], error)
    else:
        if requirement.operator in _BOUNDS:
            message = f"{quote(list(values))}: {requirement.operator} needs exactly one value"
            yield FieldError(at / "values", Cause.INVALID, message)
        for index, value in enumerate(values):
            if error := label_value_error(value):
                yield invalid(at / "values" / index, value, error)
    if requirement.operator == RequirementOperator.IN:
        yield from _validate_listed(requirement, at)


def _validate_listed(requirement: Requirement, at: FieldPath) -> Iterator[Finding]:
    """Check what only ``In`` is asked: that there are values, enough of them, and known ones."""
    values, wanted = requirement.values, requirement.min_values
    if not values:
        yield FieldError(at / "values", Cause.REQUIRED, "operator In needs at least one value")
        return
    if wanted is not None and len(values) < wanted:
        yield invalid(at / "minValues", wanted, f"only {len(values)} values are listed")
    if requirement.key != CAPACITY_TYPE:
        return
    unknown = [value for value in values if value not in CAPACITY_TYPES]
    known = len(values) - len(unknown)
    if not known:
        yield not_supported(at / "values", unknown[0], CAPACITY_TYPES)
    elif wanted is not None and known < wanted <= len(values):
        yield invalid(at / "minValues", wanted, f"only {known} of the values are known capacity types")
    elif unknown:
        words = ", ".join(CAPACITY_TYPES)
        yield FieldWarning(at / "values", f"{quote(unknown[0])} is no known capacity type ({words}) and has no effect")


def _is_bound(value: str) -> bool:
    digits = value.lstrip("0") or "0"
    return value.isascii() and value.isdigit() and len(digits) <= 19 and int(digits) <= _LARGEST


def validate_taints(taints: Iterable[tuple[FieldPath, NodeTaint]]) -> Iterator[FieldError]:
    """Check each taint, and that no key appears twice with one effect over both lists together."""
    first: dict[tuple[str, str], FieldPath] = {}
    for at, taint in taints:
        if not taint.key:
            yield FieldError(at / "key", Cause.REQUIRED, "may not be empty")
        elif error := qualified_name_error(taint.key):
            yield invalid(at / "key", taint.key, error)
        if taint.effect not in _EFFECTS:
            yield not_supported(at / "effect", taint.effect, _EFFECTS)
        if taint.value == "":
            yield invalid(at / "value", "", "must not be empty; leave it out instead")
        elif taint.value is not None and (error := qualified_name_error(taint.value)):
            yield invalid(at / "value", taint.value, error)
        earlier = first.setdefault((taint.key, taint.effect), at)
        if earlier != at:
            yield duplicate(at, f"{taint.key}:{taint.effect}", f"key and effect are those of {earlier}")


def _validate_duration(text: str, at: FieldPath, *, never: bool) -> Iterator[FieldError]:
    try:
        if never:
            parse_duration_or_never(text)
        else:
            parse_sum(text)
    except ValueError:
        also = ", or Never" if never else ""
        yield invalid(at, text, f"must be whole hours, minutes and seconds such as 1h30m5s, at most 2562047h{also}")


def validate_budgets(budgets: Sequence[Budget], at: FieldPath) -> Iterator[Finding]:
    """Check each budget, and when all can be understood, what they mean together."""
    understood = True
    for index, budget in enumerate(budgets):
        for found in validate_budget(budget, at / index):
            understood = understood and isinstance(found, FieldWarning)
            yield found
    if understood:
        yield from lint_budgets(budgets, at)


def validate_budget(budget: Budget, at: FieldPath) -> Iterator[Finding]:
    """Check one budget; what the engine could not evaluate is refused."""
    try:
        allowed_disruptions(budget, 0)
    except ValueError:
        yield invalid(at / "nodes", budget.nodes, f"must be a number up to {UNLIMITED} or a percentage up to 100%")
    yield from validate_reasons(budget.reasons, at / "reasons")
    if budget.schedule is not None:
        yield from validate_schedule(budget.schedule, at / "schedule")
    if budget.duration is not None:
        try:
            parse_budget_duration(budget.duration)
        except ValueError:
            wanted = "must be hours and minutes such as 8h or 1h30m, at most 2562047h"
            yield invalid(at / "duration", budget.duration, wanted)
    if budget.schedule is None and budget.duration is not None:
        yield FieldError(at / "schedule", Cause.REQUIRED, "must be set together with duration")
    if budget.duration is None and budget.schedule is not None:
        yield FieldError(at / "duration", Cause.REQUIRED, "must be set together with schedule")


def validate_reasons(reasons: Sequence[str] | None, at: FieldPath) -> Iterator[Finding]:
    """Check the reasons of a budget: known ones, each once; an empty list is allowed and probably not meant."""
    if reasons is None:
        return
    if not reasons:
        yield FieldWarning(at, "is empty, so the budget is about no reason at all; leave it out to mean every reason")
    seen: set[str] = set()
    for index, reason in enumerate(reasons):
        if reason not in _REASONS:
            yield not_supported(at / index, reason, _REASONS)
        if reason in seen:
            yield duplicate(at / index, reason)
        seen.add(reason)


def validate_schedule(text: str, at: FieldPath) -> Iterator[Finding]:
    """Check the dialect: the CRD's pattern and the parser must both take it (nodepool-disruption.md 8.1)."""
    try:
        schedule = parse_schedule(text)
    except ValueError as error:
        yield invalid(at, text, str(error))
        return
    if not matches_crd_pattern(text):
        yield invalid(at, text, "must be five fields between plain blanks, or begin with a macro other than @every")
    elif schedule.never_fires:
        yield FieldWarning(at, f"{quote(text)} never fires, so the budget is always in force")


def lint_budgets(budgets: Sequence[Budget], at: FieldPath) -> Iterator[FieldWarning]:
    """Warn about budgets, all of them valid, that do not do what they seem to (nodepool-disruption.md 4.6: w1, w2)."""
    live = [(index, budget) for index, budget in enumerate(budgets) if budget.reasons != ()]
    for index, budget in live:
        if not _is_constant_zero(budget):
            continue
        moot = [other for other, covered in live if other != index and _covers(budget, covered)]
        if moot:
            names = ", ".join(f"budgets[{other}]" for other in moot[:_NAMED_BUDGETS])
            more = f" and {len(moot) - _NAMED_BUDGETS} more" if len(moot) > _NAMED_BUDGETS else ""
            never = f"without a schedule it always allows nothing, so that {names}{more} never matter"
            yield FieldWarning(at / index, never, "w1")
            break
    if live and all(_opens(budget) for _, budget in live):
        yield FieldWarning(at, "every budget has a schedule; outside the windows disruption is not limited", "w2")


def _is_constant_zero(budget: Budget) -> bool:
    number = budget.nodes.removesuffix("%")
    return budget.schedule is None and budget.duration is None and number != "" and not number.strip("0")


def _covers(budget: Budget, other: Budget) -> bool:
    """Say whether *budget* is about every reason that *other* is about."""
    return budget.reasons is None or (other.reasons is not None and set(other.reasons) <= set(budget.reasons))


def _opens(budget: Budget) -> bool:
    """Say whether a budget has times when it is not in force."""
    return budget.schedule is not None and not parse_schedule(budget.schedule).never_fires


def validate_limits(spec: NodePoolSpec, at: FieldPath) -> Iterator[FieldError]:
    """Limits are quantities; their sign is not looked at."""
    for resource, amount in sorted(spec.limits.items()):
        if isinstance(amount, str):
            try:
                parse_quantity(amount)
            except ValueError:
                yield invalid(at / "limits" / resource, amount, "must be a quantity such as 100, 1500m or 64Gi")


def validate_static_pool(spec: NodePoolSpec, at: FieldPath) -> Iterator[FieldError]:
    """A pool with ``replicas`` is not chosen by weight, and limited by nodes only."""
    if spec.replicas is None:
        return
    if spec.weight is not None:
        yield FieldError(at / "weight", Cause.FORBIDDEN, "a static pool (replicas is set) has no weight")
    for resource in sorted(spec.limits.keys() - {"nodes"}):
        yield FieldError(at / "limits" / resource, Cause.FORBIDDEN, "a static pool (replicas is set) limits only nodes")
