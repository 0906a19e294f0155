"""Readers of raw documents, and copies with a change: objects of a hub or a member, decoded and unchecked.

Users and other controllers write them, so any field may hold any JSON value. The readers here are lenient: a value of
the wrong type counts as absent, and the result is the empty value in the reader's docstring. None of them raises. Three
other places report wrong types on purpose: `scorer.extender.reading` to the caller of the extender,
`scorer.rollout.works.availability` where a status decides whether an object is available, and
`webhook.validation.framework.reading` to the author of an object under review.

Documents are shared, with the cache among others, and read-only: every function here that changes something returns a
new document and copies only the maps on the path to the change.

`manifests_of`, which reads the manifests of a Work (placement-api.md 3.6), is the exception: it raises.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from scorer.api.names import IS_LATEST_SNAPSHOT
from scorer.api.unstructured.json_object import JsonObject


def dict_at(document: object, *members: str) -> JsonObject:
    """Return the object at a path, or an empty one."""
    for member in members:
        if not isinstance(document, dict):
            return {}
        document = document.get(member)
    return document if isinstance(document, dict) else {}


def dicts_at(document: object, *members: str) -> list[JsonObject]:
    """Return the items of the list at a path that are objects."""
    for member in members:
        if not isinstance(document, dict):
            return []
        document = document.get(member)
    return [item for item in document if isinstance(item, dict)] if isinstance(document, list) else []


def list_at(document: object, *members: str) -> list[Any]:
    """Return the list at a path, or an empty one. Its items may be any values."""
    for member in members:
        if not isinstance(document, dict):
            return []
        document = document.get(member)
    return document if isinstance(document, list) else []


def texts_at(document: object, *members: str) -> list[str]:
    """Return the items of the list at a path that are strings."""
    return [item for item in list_at(document, *members) if isinstance(item, str)]


def text_at(document: object, *members: str) -> str:
    """Return the string at a path, or an empty one."""
    for member in members:
        if not isinstance(document, dict):
            return ""
        document = document.get(member)
    return document if isinstance(document, str) else ""


def metadata_of(document: Mapping[str, Any]) -> JsonObject:
    """Return ``metadata``, empty when absent."""
    if "metadata" in document and isinstance(metadata := document["metadata"], dict):
        return metadata
    return {}


def spec_of(document: Mapping[str, Any]) -> JsonObject:
    """Return ``spec``, empty when absent."""
    if "spec" in document and isinstance(spec := document["spec"], dict):
        return spec
    return {}


def status_of(document: Mapping[str, Any]) -> JsonObject:
    """Return ``status``, empty when absent."""
    if "status" in document and isinstance(status := document["status"], dict):
        return status
    return {}


def name_of(document: Mapping[str, Any]) -> str:
    """Return ``metadata.name``, empty when absent."""
    metadata = document.get("metadata")
    return name if isinstance(metadata, dict) and isinstance(name := metadata.get("name"), str) else ""


def namespace_of(document: Mapping[str, Any]) -> str:
    """Return ``metadata.namespace``, empty for cluster-scoped objects."""
    metadata = document.get("metadata")
    return namespace if isinstance(metadata, dict) and isinstance(namespace := metadata.get("namespace"), str) else ""


def uid_of(document: Mapping[str, Any]) -> str:
    """Return ``metadata.uid``, empty when absent."""
    metadata = document.get("metadata")
    return uid if isinstance(metadata, dict) and isinstance(uid := metadata.get("uid"), str) else ""


def generation_of(document: Mapping[str, Any]) -> int:
    """Return ``metadata.generation``, 0 when absent."""
    metadata = document.get("metadata")
    return number if isinstance(metadata, dict) and type(number := metadata.get("generation")) is int else 0


def label(document: Mapping[str, Any], key: str) -> str:
    """Return a label, empty when absent."""
    try:
        value = document["metadata"]["labels"].get(key) if "labels" in document["metadata"] else ""
    except (KeyError, TypeError, AttributeError):
        return ""
    return value if isinstance(value, str) else ""


def labels_of(document: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels whose value is a string."""
    return _texts(metadata_of(document).get("labels"))


def annotation(document: Mapping[str, Any], key: str) -> str:
    """Return an annotation, empty when absent."""
    try:
        value = document["metadata"]["annotations"].get(key) if "annotations" in document["metadata"] else ""
    except (KeyError, TypeError, AttributeError):
        return ""
    return value if isinstance(value, str) else ""


def annotations_of(document: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the annotations whose value is a string."""
    return _texts(metadata_of(document).get("annotations"))


def finalizers_of(document: Mapping[str, Any]) -> list[str]:
    """Return the finalizers that are strings."""
    return texts_at(document, "metadata", "finalizers")


SELECTED_OBJECTS: Final = "spec.resourceSelectors"
"""Placements are indexed by this field as if it were a label: see `indexed_values`."""
PLACED_CONTENT: Final = "spec.selectedResources"
"""Resource snapshots are indexed by this field as if it were a label: see `indexed_values`."""


def selection_key(group: str, kind: str, name: str = "") -> str:
    """Return the indexed value of one resource selector. Without a name, it selects by labels or all of the kind."""
    return f"{group}/{kind}/{name}"


def placed_in(namespace: str) -> str:
    """Return the indexed value of a Namespace and everything in it."""
    return f"namespace/{namespace}"


def placed_of(group: str, kind: str) -> str:
    """Return the indexed value of the objects of a kind."""
    return f"kind/{group}/{kind}"


def indexed_values(document: Mapping[str, Any], label: str) -> Sequence[str]:
    """Return the indexed values of an object under a label, `SELECTED_OBJECTS` or `PLACED_CONTENT`."""
    if label == PLACED_CONTENT:
        return tuple(dict.fromkeys(_placed_values(document)))
    if label != SELECTED_OBJECTS:
        value = labels_of(document).get(label)
        return () if value is None else (value,)
    terms = dicts_at(document, "spec", "resourceSelectors")
    keys = (selection_key(text_at(term, "group"), text_at(term, "kind"), text_at(term, "name")) for term in terms)
    return tuple(dict.fromkeys(keys))


def _placed_values(snapshot: Mapping[str, Any]) -> Iterator[str]:
    for content in dicts_at(snapshot, "spec", "selectedResources"):
        group, _, _ = text_at(content, "apiVersion").rpartition("/")
        kind = text_at(content, "kind")
        yield placed_of(group, kind)
        if namespace := namespace_of(content) or (name_of(content) if (group, kind) == ("", "Namespace") else ""):
            yield placed_in(namespace)


def is_deleting(document: Mapping[str, Any]) -> bool:
    """Return whether the object is being deleted: any non-empty ``deletionTimestamp`` counts."""
    metadata = document.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("deletionTimestamp"))


def is_labelled_latest(snapshot: Mapping[str, Any]) -> bool:
    """Return whether a snapshot of any kind carries the label of the latest one."""
    return label(snapshot, IS_LATEST_SNAPSHOT) == "true"


def index_of(document: Mapping[str, Any], key: str) -> int:
    """Return the index in label *key*, or -1."""
    text = label(document, key)
    return int(text) if text.isascii() and text.isdigit() else -1


def conditions_of(document: Mapping[str, Any]) -> Sequence[JsonObject]:
    """Return the items of ``status.conditions`` that are objects."""
    conditions = status_of(document).get("conditions")
    if not isinstance(conditions, list):
        return ()
    for condition in conditions:
        if not isinstance(condition, dict):
            return [condition for condition in conditions if isinstance(condition, dict)]
    return conditions


def current_condition(document: Mapping[str, Any], kind: str) -> JsonObject | None:
    """Return the condition of type *kind* if it is about the present generation."""
    conditions = status_of(document).get("conditions")
    return find_current(conditions if isinstance(conditions, list) else (), kind, generation_of(document))


def has_current_status(document: Mapping[str, Any], kind: str, status: str) -> bool:
    """Return whether the condition of type *kind* has *status* and is about the present generation."""
    return (current_condition(document, kind) or {}).get("status") == status


def find_current(conditions: Iterable[object], kind: str, generation: int) -> JsonObject | None:
    """Return the condition of type *kind* if it is about *generation*. Items that are not objects are ignored."""
    for condition in conditions:
        if isinstance(condition, dict) and condition.get("type") == kind:
            return condition if (condition.get("observedGeneration") or 0) == generation else None
    return None


def _texts(members: object) -> Mapping[str, str]:
    """Return the members of a map whose values are strings. Fast path: if all of them are, the map is not copied."""
    if not isinstance(members, dict):
        return {}
    for value in members.values():
        if not isinstance(value, str):
            return {key: text for key, text in members.items() if isinstance(text, str)}
    return members


def with_metadata(
    document: JsonObject,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str | None] | None = None,
) -> JsonObject:
    """Return a copy with *labels* and *annotations* set. An annotation of None is removed."""
    metadata = dict(metadata_of(document))
    if labels:
        metadata["labels"] = {**dict_at(metadata, "labels"), **labels}
    if annotations:
        new_annotations = {**dict_at(metadata, "annotations"), **annotations}
        metadata["annotations"] = {key: text for key, text in new_annotations.items() if text is not None}
    return {**document, "metadata": metadata}


def with_spec(document: JsonObject, **fields: Any) -> JsonObject:
    """Return a copy with *fields* of ``spec`` set. A field of None is removed."""
    spec = {**spec_of(document), **fields}
    return {**document, "spec": {key: value for key, value in spec.items() if value is not None}}


def with_finalizer(document: JsonObject, finalizer: str) -> JsonObject | None:
    """Return the object with *finalizer*, or None if it has it already."""
    finalizers = list_at(document, "metadata", "finalizers")
    if finalizer in finalizers:
        return None
    return {**document, "metadata": {**metadata_of(document), "finalizers": [*finalizers, finalizer]}}


def without_finalizer(document: JsonObject, finalizer: str) -> JsonObject | None:
    """Return the object without *finalizer*, or None if it does not have it."""
    finalizers = list_at(document, "metadata", "finalizers")
    if finalizer not in finalizers:
        return None
    remaining = [name for name in finalizers if name != finalizer]
    return {**document, "metadata": {**metadata_of(document), "finalizers": remaining}}


def owner_reference(owner: Mapping[str, Any]) -> JsonObject:
    """Return the controller reference to *owner*."""
    return {
        "apiVersion": owner.get("apiVersion", ""),
        "kind": owner.get("kind", ""),
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def manifests_of(work: Mapping[str, Any]) -> list[Any]:
    """Return the manifests of a raw Work, empty when it has none.

    Strict, unlike the other readers of this module: the agent removes from the member what the Work no longer holds, so
    a damaged Work must not be read as an empty one.

    Raises:
        TypeError: A field on the path to the manifests has the wrong type.
    """
    manifests: Any = work
    for member, kind in (("spec", dict), ("workload", dict), ("manifests", list)):
        manifests = manifests.get(member)
        if manifests is None:
            return []
        if not isinstance(manifests, kind):
            raise TypeError(f"Work {name_of(work)}: {member} is {manifests!r:.64}, expected {kind.__name__}")
    documents: list[Any] = manifests
    return documents
