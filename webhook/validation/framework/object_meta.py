"""ObjectMeta as an API server validates it for every kind, for the embedded store.

Admission rules check names and labels too. This module checks everything, because controllers and simulated members
write to the store without admission.
"""

from collections.abc import Iterator
from typing import Any, Final

from scorer.api.kinds import Kind, api_version
from scorer.api.meta import JsonObject
from scorer.api.values.field_path import FieldPath
from scorer.api.values.name_grammar import dns_label_error, label_value_error, name_error, qualified_name_error
from scorer.api.values.quoting import quote
from webhook.validation.framework.field import Cause, FieldError, duplicate, invalid

METADATA: Final = FieldPath.of("metadata")
LONGEST_ANNOTATIONS: Final = 256 * 1024


def validate_type(kind: Kind, document: JsonObject) -> Iterator[FieldError]:
    """``kind`` must match the kind, and ``apiVersion`` must be its group with any of its versions."""
    if document.get("kind") != kind.kind:
        yield invalid(FieldPath.of("kind"), document.get("kind"), f"must be {kind.kind}")
    if document.get("apiVersion") != kind.api_version:
        versions = [api_version(kind.group, version) for version in kind.versions]
        if document.get("apiVersion") not in versions:
            yield invalid(FieldPath.of("apiVersion"), document.get("apiVersion"), f"must be {' or '.join(versions)}")


def validate_place(kind: Kind, metadata: JsonObject) -> Iterator[FieldError]:
    """Name and namespace must be set as the kind requires, and be well formed."""
    for member in ("name", "generateName", "namespace"):
        if not isinstance(metadata.get(member, ""), str):
            yield _wrong_type(METADATA / member, metadata[member], "a string")
            return
    yield from _validate_name(kind, metadata)
    namespace = metadata.get("namespace", "")
    if kind.namespaced and not namespace:
        yield FieldError(METADATA / "namespace", Cause.REQUIRED, f"must be set: {kind.kind} is namespaced")
    elif kind.namespaced and (error := dns_label_error(namespace)):
        yield invalid(METADATA / "namespace", namespace, error)
    elif not kind.namespaced and namespace:
        yield invalid(METADATA / "namespace", namespace, f"must not be set: {kind.kind} is cluster-scoped")


def _validate_name(kind: Kind, metadata: JsonObject) -> Iterator[FieldError]:
    name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
    if not name and not prefix:
        yield FieldError(METADATA / "name", Cause.REQUIRED, "name or generateName must be set")
    elif name and (error := name_error(kind, name)):
        yield invalid(METADATA / "name", name, error)
    elif not name and (error := name_error(kind, prefix + "x")):
        yield invalid(METADATA / "generateName", prefix, error)


def validate_members(metadata: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """Labels, annotations, finalizers and owner references have the right type and syntax.

    Args:
        metadata: Without nulls.
        old: The stored metadata, empty for a new object. Unchanged members are not checked again.
    """
    for member, rules in _RULES.items():
        if member in metadata and metadata[member] != old.get(member):
            yield from rules(METADATA / member, metadata[member])


def validate_version(kind: Kind, resource_version: object) -> Iterator[FieldError]:
    """An update of a custom object requires a resourceVersion. An update of a built-in object does not.

    Kubernetes also requires a resourceVersion for some built-in kinds.

    Source: Kubernetes, staging/src/k8s.io/apiserver/pkg/registry/rest/update.go, AllowUnconditionalUpdate.
    """
    if not resource_version and not kind.built_in:
        yield FieldError(METADATA / "resourceVersion", Cause.REQUIRED, "must be specified for an update")


def validate_update(metadata: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """An update cannot mark an object for deletion, and cannot add a finalizer to an object that is being deleted.

    Args:
        metadata: Without nulls. An absent member keeps its stored value, and so does ``creationTimestamp`` in any case.
        old: The stored metadata.
    """
    for member in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if member in metadata and metadata[member] != old.get(member):
            yield invalid(METADATA / member, metadata[member], "field is immutable")
    finalizers = metadata.get("finalizers", [])
    if "deletionTimestamp" in old and isinstance(finalizers, list):
        added = [word for word in finalizers if word not in old.get("finalizers", [])]
        if added:
            words = ", ".join(quote(word) for word in added)
            reason = f"no new finalizers can be added while the object is being deleted, found {words}"
            yield FieldError(METADATA / "finalizers", Cause.FORBIDDEN, reason)


def _validate_labels(at: FieldPath, labels: object) -> Iterator[FieldError]:
    if not isinstance(labels, dict):
        yield _wrong_type(at, labels, "an object")
        return
    for key, value in labels.items():
        if error := qualified_name_error(key):
            yield invalid(at, key, error)
        if not isinstance(value, str):
            yield _wrong_type(at / key, value, "a string")
        elif error := label_value_error(value):
            yield invalid(at / key, value, error)


def _validate_annotations(at: FieldPath, annotations: object) -> Iterator[FieldError]:
    if not isinstance(annotations, dict):
        yield _wrong_type(at, annotations, "an object")
        return
    size = 0
    for key, value in annotations.items():
        if error := qualified_name_error(key.lower()):
            yield invalid(at, key, error)
        if isinstance(value, str):
            size += len(key.encode(errors="replace")) + len(value.encode(errors="replace"))
        else:
            yield _wrong_type(at / key, value, "a string")
    if size > LONGEST_ANNOTATIONS:
        yield FieldError(at, Cause.TOO_LONG, f"may not be more than {LONGEST_ANNOTATIONS} bytes, is {size}")


def _validate_finalizers(at: FieldPath, finalizers: object) -> Iterator[FieldError]:
    if not isinstance(finalizers, list):
        yield _wrong_type(at, finalizers, "a list")
        return
    for position, word in enumerate(finalizers):
        if not isinstance(word, str):
            yield _wrong_type(at / position, word, "a string")
        elif error := qualified_name_error(word):
            yield invalid(at / position, word, error)


def _validate_owners(at: FieldPath, owners: object) -> Iterator[FieldError]:
    if not isinstance(owners, list):
        yield _wrong_type(at, owners, "a list")
        return
    controllers = 0
    for position, owner in enumerate(owners):
        if not isinstance(owner, dict):
            yield _wrong_type(at / position, owner, "an object")
            continue
        for member in ("apiVersion", "kind", "name", "uid"):
            value = owner.get(member)
            if not isinstance(value, str):
                yield _wrong_type(at / position / member, value, "a string")
            elif not value:
                yield FieldError(at / position / member, Cause.REQUIRED, "must not be empty")
        controllers += owner.get("controller") is True
        if owner.get("controller") is True and controllers == 2:
            yield duplicate(at / position / "controller", value=True, why="only one owner can be the controller")


_RULES: Final = {
    "labels": _validate_labels,
    "annotations": _validate_annotations,
    "finalizers": _validate_finalizers,
    "ownerReferences": _validate_owners,
}


def _wrong_type(at: FieldPath, value: Any, expected: str) -> FieldError:
    if value is None:
        return FieldError(at, Cause.REQUIRED, f"must be {expected}")
    return FieldError(at, Cause.TYPE_INVALID, f"{quote(value)}: must be {expected}")
