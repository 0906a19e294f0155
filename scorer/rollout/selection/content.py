"""The part of a hub object that is placed: the object without the fields that belong to the hub alone.

Source: docs/specifications/rollout.md 2.6 and 2.7; KubeFleet pkg/controllers/placement/resource_selector.go.
"""

from scorer.api.kinds import split_api_version
from scorer.api.meta import JsonObject
from scorer.api.names import ALLOW_DELETION
from scorer.api.unstructured.documents import metadata_of, name_of, namespace_of
from scorer.rollout.ownership.fields import without_filled_fields

_HUB_METADATA = frozenset(
    {"resourceVersion", "generation", "uid", "selfLink", "managedFields", "ownerReferences", "finalizers"}
    | {"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"}
)
_HUB_ANNOTATIONS = frozenset({"kubectl.kubernetes.io/last-applied-configuration", ALLOW_DELETION})
"""Annotations that only clients of the hub read."""


def stored_content(document: JsonObject) -> JsonObject:
    """Return the object as it is kept in a snapshot.

    A finalizer holds the hub's object for a controller of the hub. On a member no controller would remove it.
    """
    content = {key: value for key, value in without_filled_fields(document).items() if key != "status"}
    meta = {key: value for key, value in metadata_of(content).items() if key not in _HUB_METADATA}
    if "annotations" in meta:
        annotations = {
            key: value for key, value in (meta.pop("annotations") or {}).items() if key not in _HUB_ANNOTATIONS
        }
        if annotations:
            meta["annotations"] = annotations
    return {**content, "metadata": meta}


def resource_identifier(document: JsonObject) -> JsonObject:
    """Return the object's entry for ``status.selectedResources``. Empty fields are omitted, except for ``version``."""
    group, version = split_api_version(str(document.get("apiVersion")))
    fields = {
        "group": group,
        "version": version,
        "kind": document.get("kind", ""),
        "name": name_of(document),
        "namespace": namespace_of(document),
    }
    return {key: value for key, value in fields.items() if value or key == "version"}
