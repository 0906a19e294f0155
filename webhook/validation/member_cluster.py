"""Rules on MemberCluster.

Source: docs/specifications/placement-api.md 7.9 and 10.4; KubeFleet pkg/utils/validator/membercluster.go.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from scorer.api.cluster.member_cluster import Identity, MemberCluster, Taint
from scorer.api.cluster.scores import parse_score, score_names
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject, ObjectMeta, format_time
from scorer.api.names import MEMBER_NAME, SCORE_PREFIX, UPGRADE_WINDOWS, member_namespace
from scorer.api.unstructured.documents import is_deleting, name_of, namespace_of, text_at
from scorer.api.values.name_grammar import label_value_error, qualified_name_error
from scorer.api.values.quoting import quote
from scorer.upgrade.back_ends.inventories import OBSERVED, parse_inventory_annotation
from scorer.upgrade.members.member import (
    DURATION,
    GROUP_LABEL,
    LARGEST_ORDER,
    ORDER,
    parse_expected_duration,
    parse_order,
)
from scorer.windows.member_windows import MOST_NAMED, parse_windows
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import SPEC, Cause, FieldError, FieldWarning, duplicate, invalid, not_supported
from webhook.validation.framework.metadata import (
    METADATA,
    USER_RULES,
    validate_metadata,
    validate_name_length,
    warn_about_reserved_keys,
)
from webhook.validation.framework.reading import Finding, read_object
from webhook.validation.framework.rule import CEL, CRD, DELETE, OURS, deny, enforces, schema, shape_rules, warn
from webhook.validation.upgrade.shape import is_name

_NO_META: Final = ObjectMeta()
RBAC_GROUP: Final = "rbac.authorization.k8s.io"
_VALIDATOR: Final = "KubeFleet pkg/utils/validator/membercluster.go"

RULES: Final = (
    *USER_RULES,
    deny("M-01", "The name must have at most 63 characters.", CEL),
    schema("M-02", "The identity must have a kind and a name.", CRD, "spec.identity"),
    schema("M-03", "heartbeatPeriodSeconds must be 1 to 600.", CRD, "spec.heartbeatPeriodSeconds"),
    schema("M-04", "There must be at most 100 taints, each with a key and the effect NoSchedule.", CRD, "spec.taints"),
    deny("M-05", "The key of a taint must be a qualified name.", _VALIDATOR),
    deny("M-06", "The value of a taint must be a label value.", _VALIDATOR),
    deny("M-07", "No two taints may be the same.", _VALIDATOR),
    schema("M-08", "The validationMode of deleteOptions must be Strict or Skip.", CRD, "spec.deleteOptions"),
    deny("X-90", "The identity must be a valid subject of a role binding: a User, Group or ServiceAccount.", OURS),
    deny("X-91", "The label kubernetes-fleet.io/member-name, if set, must be the name of the member.", OURS),
    warn(
        "X-98",
        f"The annotation {UPGRADE_WINDOWS}, if set, should name at most {MOST_NAMED} windows, separated by commas.",
    ),
    warn("C-53", "The upgrade annotations and the group label of a member should be well formed."),
    warn("X-27", f"An annotation {SCORE_PREFIX}NAME should hold a readable score that has not expired."),
)
DELETION_RULES: Final = (
    deny(
        "M-09",
        "With networking agents, a member that still exports services must not leave unless validationMode is Skip.",
        "KubeFleet pkg/webhook/membercluster",
        on=DELETE,
    ),
)
SHAPE_RULES: Final = shape_rules(RULES)
"""The rules that the model enforces, by path."""
SUBJECT_KINDS: Final = ("User", "Group", "ServiceAccount")
INTERNAL_SERVICE_EXPORT: Final = Kind(
    "networking.fleet.azure.com", ("v1alpha1",), "InternalServiceExport", "internalserviceexports", namespaced=True
)


@enforces(*RULES)
def validate(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors and warnings of a member cluster."""
    reading = read_object(MemberCluster, document, SHAPE_RULES)
    yield from reading.errors
    if reading.view is not None:
        before = read_object(MemberCluster, old).view if old is not None else None
        yield from reading.trusted(_judge(reading.view, before, context))


def _judge(new: MemberCluster, old: MemberCluster | None, context: Context) -> Iterator[Finding]:
    yield from validate_metadata(new.metadata, old.metadata if old else None)
    yield from validate_name_length(new.metadata.name, "M-01")
    yield from warn_about_reserved_keys(new.metadata, old.metadata if old else None, context)
    yield from validate_own_name_label(new)
    yield from validate_identity(new.spec.identity)
    yield from validate_taints(new.spec.taints)
    yield from warn_about_upgrades(new.metadata, old.metadata if old else _NO_META)
    yield from warn_about_windows(new.metadata.annotations, old.metadata.annotations if old else {})
    yield from warn_about_scores(new.metadata.annotations, old.metadata.annotations if old else {}, context.now)


def validate_own_name_label(cluster: MemberCluster) -> Iterator[FieldError]:
    """The label with the member's name is correct (X-91). Otherwise, overrides would select the wrong member."""
    label = cluster.metadata.labels.get(MEMBER_NAME)
    if label is not None and cluster.metadata.name and label != cluster.metadata.name:
        yield invalid(METADATA / "labels" / MEMBER_NAME, label, "must be the name of the member cluster", "X-91")


def validate_identity(identity: Identity) -> Iterator[FieldError]:
    """The identity is a valid subject of a role binding (X-90). Otherwise, the member could never join."""
    at = SPEC / "identity"
    if not identity.name:
        yield FieldError(at / "name", Cause.REQUIRED, "must not be empty", "X-90")
    if identity.kind not in SUBJECT_KINDS:
        yield not_supported(at / "kind", identity.kind, SUBJECT_KINDS, "X-90")
    elif identity.kind == "ServiceAccount":
        if not identity.namespace:
            yield FieldError(at / "namespace", Cause.REQUIRED, "must be set when kind is ServiceAccount", "X-90")
        if identity.api_group:
            yield invalid(at / "apiGroup", identity.api_group, "must be empty when kind is ServiceAccount", "X-90")
    elif identity.api_group not in {"", RBAC_GROUP}:
        yield invalid(at / "apiGroup", identity.api_group, f"must be empty or {RBAC_GROUP}", "X-90")


def validate_taints(taints: Sequence[Taint]) -> Iterator[FieldError]:
    """Taints have valid label keys and values (M-05, M-06), and no two are the same (M-07)."""
    visited: set[tuple[str, str, str]] = set()
    for i, taint in enumerate(taints):
        at = SPEC / "taints" / i
        if error := qualified_name_error(taint.key):
            yield invalid(at / "key", taint.key, error, "M-05")
        if error := label_value_error(taint.value):
            yield invalid(at / "value", taint.value, error, "M-06")
        key = (taint.key, taint.value, taint.effect)
        if key in visited:
            subject = " ".join(part for part in key if part)
            yield duplicate(at, subject, rule="M-07")
        visited.add(key)


def warn_about_windows(now: Mapping[str, str], before: Mapping[str, str]) -> Iterator[FieldWarning]:
    """A changed list of maintenance windows is readable (X-98). An unreadable list is ignored."""
    text = now.get(UPGRADE_WINDOWS, "")
    if before.get(UPGRADE_WINDOWS) == text:
        return
    try:
        parse_windows(text)
    except ValueError as reason:
        at = METADATA / "annotations" / UPGRADE_WINDOWS
        yield FieldWarning(at, f"invalid and ignored: {reason}", "X-98")


def warn_about_upgrades(now: ObjectMeta, before: ObjectMeta) -> Iterator[FieldWarning]:
    """Changed annotations and labels about upgrades of a member are readable (C-53). Unreadable ones are ignored."""
    for key, parse in _ABOUT_UPGRADES.items():
        text = now.annotations.get(key, "")
        if not text or before.annotations.get(key) == text:
            continue
        try:
            parse(text)
        except ValueError as reason:
            yield FieldWarning(METADATA / "annotations" / key, f"invalid and ignored: {reason}", "C-53")
    group = now.labels.get(GROUP_LABEL, "")
    if group and before.labels.get(GROUP_LABEL) != group and not is_name(group):
        message = f"{quote(group)} is not a valid group name and is ignored"
        yield FieldWarning(METADATA / "labels" / GROUP_LABEL, message, "C-53")


def _read_order(text: str) -> None:
    if parse_order(text) is None:
        raise ValueError(f"{text[:64]!r} is not an integer from -{LARGEST_ORDER} to {LARGEST_ORDER}")


_ABOUT_UPGRADES: Final[Mapping[str, Callable[[str], object]]] = {
    ORDER: _read_order,
    DURATION: parse_expected_duration,
    OBSERVED: parse_inventory_annotation,
}


def warn_about_scores(now: Mapping[str, str], before: Mapping[str, str], instant: datetime) -> Iterator[FieldWarning]:
    """A changed external score is readable and has not expired (X-27).

    A warning, not a refusal, because an invalid or expired score must not prevent other changes to the member. The
    engine treats an invalid score as an unreadable property, and an expired one as absent.
    """
    for name in score_names(now):
        if before.get(name) == now[name]:
            continue
        at = METADATA / "annotations" / name
        try:
            score = parse_score(now[name])
        except ValueError as reason:
            yield FieldWarning(at, f"unreadable: {reason}", "X-27")
            continue
        if score.valid_until is not None and score.valid_until < instant:
            until = format_time(score.valid_until)
            yield FieldWarning(at, f"expired at {until}, so it is ignored", "X-27")


@enforces(*DELETION_RULES)
def refuse_deletion(old: JsonObject, context: Context) -> str:
    """Return why a member must not leave now, empty if it may.

    With networking agents, a member that still exports a service must not leave, unless its delete options skip the
    check (M-09).
    """
    if not context.settings.networking_agents or _skips_validation(old):
        return ""
    namespace = member_namespace(name_of(old))
    for export in context.existing(INTERNAL_SERVICE_EXPORT):
        if namespace_of(export) == namespace and not is_deleting(export):
            return (
                f"the cluster still exports services: InternalServiceExport {name_of(export)}. Delete its "
                "ServiceExport on the member first, or set spec.deleteOptions.validationMode to Skip"
            )
    return ""


def _skips_validation(cluster: JsonObject) -> bool:
    return text_at(cluster, "spec", "deleteOptions", "validationMode") == "Skip"
