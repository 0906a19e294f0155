"""Reading and copying the metadata of documents that belong to somebody else.

Documents are shared and read-only: every function here that changes something returns a new
document and copies only the maps on the way to the change.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scorer.api.meta import JsonObject
from scorer.api.names import IS_LATEST_SNAPSHOT


def metadata(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``metadata``, empty when absent."""
    return document.get("metadata") or {}


def name_of(document: Mapping[str, Any]) -> str:
    """Return ``metadata.name``."""
    return str(metadata(document).get("name") or "")


def namespace_of(document: Mapping[str, Any]) -> str:
    """Return ``metadata.namespace``, empty for cluster-scoped objects."""
    return str(metadata(document).get("namespace") or "")


def generation_of(document: Mapping[str, Any]) -> int:
    """Return ``metadata.generation``, 0 when absent."""
    return int(metadata(document).get("generation") or 0)


def label(document: Mapping[str, Any], key: str) -> str:
    """Return a label, empty when absent."""
    return str((metadata(document).get("labels") or {}).get(key) or "")


def annotation(document: Mapping[str, Any], key: str) -> str:
    """Return an annotation, empty when absent."""
    return str((metadata(document).get("annotations") or {}).get(key) or "")


def is_deleting(document: Mapping[str, Any]) -> bool:
    """Say whether the object has a deletion mark."""
    return bool(metadata(document).get("deletionTimestamp"))


def is_labelled_latest(snapshot: Mapping[str, Any]) -> bool:
    """Say whether a snapshot, of whatever kind, carries the label of the latest one."""
    return label(snapshot, IS_LATEST_SNAPSHOT) == "true"


def index_of(document: Mapping[str, Any], key: str) -> int:
    """Return the index that label *key* holds, -1 when it holds none."""
    text = label(document, key)
    return int(text) if text.isascii() and text.isdigit() else -1


def spec_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``spec``, empty when absent."""
    return document.get("spec") or {}


def status_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``status``, empty when absent."""
    return document.get("status") or {}


def conditions_of(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return ``status.conditions``, empty when absent."""
    return status_of(document).get("conditions") or ()


def current_condition(document: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """Return the condition of type *kind* if it speaks about the present generation."""
    return find_current(conditions_of(document), kind, generation_of(document))


def find_current(conditions: Iterable[Mapping[str, Any]], kind: str, generation: int) -> Mapping[str, Any] | None:
    """Return the condition of type *kind* if it speaks about *generation*."""
    for condition in conditions:
        if condition.get("type") == kind:
            return condition if (condition.get("observedGeneration") or 0) == generation else None
    return None


def with_metadata(
    document: JsonObject,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str | None] | None = None,
) -> JsonObject:
    """Return a copy with *labels* and *annotations* set; an annotation of None is taken away."""
    meta = dict(metadata(document))
    if labels:
        meta["labels"] = {**(meta.get("labels") or {}), **labels}
    if annotations:
        merged = {**(meta.get("annotations") or {}), **annotations}
        meta["annotations"] = {key: text for key, text in merged.items() if text is not None}
    return {**document, "metadata": meta}


def with_spec(document: JsonObject, **fields: Any) -> JsonObject:
    """Return a copy with *fields* of ``spec`` set; a field of None is taken away."""
    merged = {**spec_of(document), **fields}
    return {**document, "spec": {key: value for key, value in merged.items() if value is not None}}


def with_finalizer(document: JsonObject, finalizer: str) -> JsonObject | None:
    """Return the object with *finalizer*, None when it has it already."""
    finalizers = document["metadata"].get("finalizers") or []
    if finalizer in finalizers:
        return None
    return {**document, "metadata": {**document["metadata"], "finalizers": [*finalizers, finalizer]}}


def without_finalizer(document: JsonObject, finalizer: str) -> JsonObject | None:
    """Return the object without *finalizer*, None when it does not have it."""
    finalizers = document["metadata"].get("finalizers") or []
    if finalizer not in finalizers:
        return None
    kept = [name for name in finalizers if name != finalizer]
    return {**document, "metadata": {**document["metadata"], "finalizers": kept}}


def owner_reference(owner: Mapping[str, Any]) -> JsonObject:
    """Return the reference by which *owner* controls an object."""
    return {
        "apiVersion": owner.get("apiVersion", ""),
        "kind": owner.get("kind", ""),
        "name": name_of(owner),
        "uid": metadata(owner).get("uid", ""),
        "controller": True,
        "blockOwnerDeletion": True,
    }
