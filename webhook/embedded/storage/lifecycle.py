"""States of an object across writes: created, replaced, deleting. Also the error for invalid metadata.

Every function returns a new document that shares parts with its arguments. The store sets ``resourceVersion`` and makes
the final copy. ``apiVersion`` becomes the preferred version of the kind, regardless of the written one: all versions of
a kind have one schema here, so only requests and responses differ by version.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final

import orjson

from scorer.api.kinds import NAMESPACE, Kind, group_kind
from scorer.api.meta import JsonObject, dump_json, format_time, json_equal, without_nulls
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import quote
from webhook.kube.ports import ConflictError, InvalidObjectError, key_of
from webhook.validation.framework.field import Cause, FieldError, invalid
from webhook.validation.framework.object_meta import (
    METADATA,
    validate_members,
    validate_place,
    validate_type,
    validate_update,
    validate_version,
)

FOREGROUND_FINALIZER: Final = "foregroundDeletion"
"""Keeps an owner that is deleted in the foreground until its blocking dependents are deleted."""
ORPHAN_FINALIZER: Final = "orphan"
"""If an object with this finalizer is deleted without a policy, its dependents are kept."""

_USER_MEMBERS: Final = ("generateName", "labels", "annotations", "finalizers", "ownerReferences")
_GENERATED: Final = 5
_LONGEST_PREFIX: Final = 63 - _GENERATED


class Propagation(StrEnum):
    """``propagationPolicy`` of a deletion: the fate of the dependents of the object."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


def checked_new(kind: Kind, document: JsonObject) -> JsonObject:
    """Check that *document* can be created, and return it as `_head` does. Its name may still be empty.

    Raises:
        InvalidMetadataError: *document* is invalid. The error has every reason.
    """
    document = _head(kind, document)
    metadata = document["metadata"]
    errors = [*validate_type(kind, document), *validate_place(kind, metadata), *validate_members(metadata, {})]
    if metadata.get("resourceVersion", ""):
        at = METADATA / "resourceVersion"
        errors.append(invalid(at, metadata["resourceVersion"], "must not be set on an object to be created"))
    if errors:
        raise InvalidMetadataError(kind, _name(metadata), tuple(errors))
    return document


def generated_name(prefix: str, suffix: Callable[[int], str]) -> str:
    """Return a name for ``generateName``. *suffix* returns a number of random characters."""
    return prefix[:_LONGEST_PREFIX] + suffix(_GENERATED)


def created(kind: Kind, document: JsonObject, *, name: str, uid: str, now: datetime) -> JsonObject:
    """Return the first state of an object that passed `checked_new`."""
    new_metadata = document["metadata"]
    metadata: JsonObject = {"name": name}
    if kind.namespaced:
        metadata["namespace"] = new_metadata["namespace"]
    metadata |= {"uid": uid, "generation": 1, "creationTimestamp": format_time(now)}
    metadata |= _user_members(new_metadata) | _owners_of_fields(new_metadata)
    first = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **_content(kind, document)}
    if kind.group_kind == NAMESPACE.group_kind:
        first["status"] = {"phase": "Active"}
    return first


def replaced(kind: Kind, current: JsonObject, document: JsonObject) -> JsonObject:
    """Return the state after an update, or *current* itself if nothing changes.

    Raises:
        ConflictError: *document* is not based on *current*.
        InvalidMetadataError: *document* is invalid. The error has every reason.
    """
    document = _head(kind, document)
    new_metadata, old = document["metadata"], current["metadata"]
    version = _version_given(new_metadata)
    check_preconditions(kind, current, new_metadata.get("uid", ""), version)
    errors = (
        *validate_type(kind, document),
        *validate_version(kind, version),
        *validate_members(new_metadata, old),
        *validate_update(new_metadata, old),
    )
    if errors:
        raise InvalidMetadataError(kind, old["name"], errors)
    content, old_content = _content(kind, document), _content(kind, current)
    same_content = json_equal(content, old_content)
    apart = (*_USER_MEMBERS, "managedFields")
    metadata = {member: value for member, value in old.items() if member not in apart} | _user_members(new_metadata)
    metadata |= _owners_of_fields({**old, **new_metadata})
    if same_content and json_equal(metadata, old):
        return current
    if not same_content:
        metadata["generation"] = old["generation"] + 1
    head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    status = {"status": current["status"]} if kind.has_status and "status" in current else {}
    return head | content | status


def metadata_replaced(kind: Kind, current: JsonObject, document: JsonObject) -> JsonObject:
    """Return the state after an update of only finalizers, labels and annotations, or *current* itself if none changes.

    Labels and annotations are merged: those that *document* does not name remain, and a null removes one.

    Raises:
        ConflictError: *document* is not based on *current*.
        InvalidMetadataError: *document* is invalid. The error has every reason.
    """
    new_metadata, metadata = document["metadata"], dict(current["metadata"])
    metadata["resourceVersion"] = new_metadata.get("resourceVersion", "")
    metadata["finalizers"] = new_metadata.get("finalizers") or []
    for member in ("labels", "annotations"):
        merged = {**metadata.get(member, {}), **(new_metadata.get(member) or {})}
        metadata[member] = {key: text for key, text in merged.items() if text is not None}
    return replaced(kind, current, {**current, "metadata": metadata})


def status_replaced(kind: Kind, current: JsonObject, document: JsonObject) -> JsonObject:
    """Return the state after a write to the status subresource, or *current* itself if nothing changes.

    Raises:
        ConflictError: *document* is not based on *current*.
        InvalidMetadataError: *document* is invalid. The error has every reason.
    """
    document = _head(kind, document)
    metadata = document["metadata"]
    version = _version_given(metadata)
    check_preconditions(kind, current, metadata.get("uid", ""), version)
    if errors := tuple(validate_version(kind, version)):
        raise InvalidMetadataError(kind, current["metadata"]["name"], errors)
    status = document.get("status")
    if json_equal(status, current.get("status")):
        return current
    changed = {member: value for member, value in current.items() if member != "status"}
    if status is not None:
        changed["status"] = orjson.loads(dump_json(status))
    return changed


def deleting(current: JsonObject, now: datetime) -> JsonObject:
    """Return the state of an object whose deletion waits: for finalizers or, for a namespace, for its content."""
    metadata = current["metadata"]
    marks = {"generation": metadata["generation"] + 1, "deletionTimestamp": format_time(now)}
    result = current | {"metadata": metadata | marks | {"deletionGracePeriodSeconds": 0}}
    if group_kind(current) == NAMESPACE.group_kind:
        result["status"] = {**current.get("status", {}), "phase": "Terminating"}
    return result


def propagation_of(current: JsonObject) -> Propagation:
    """Return the policy of a deletion that names none: that of the object's finalizers, else Background."""
    finalizers = current["metadata"].get("finalizers", ())
    if ORPHAN_FINALIZER in finalizers:
        return Propagation.ORPHAN
    return Propagation.FOREGROUND if FOREGROUND_FINALIZER in finalizers else Propagation.BACKGROUND


def held_for_dependents(current: JsonObject, *, held: bool) -> JsonObject:
    """Return the object with the finalizer of a foreground deletion if *held*, else without those of any policy.

    Without a change, *current* itself is returned.
    """
    old = current["metadata"].get("finalizers", [])
    others = [name for name in old if name not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER)]
    finalizers = [*others, FOREGROUND_FINALIZER] if held else others
    if finalizers == old:
        return current
    metadata = {member: value for member, value in current["metadata"].items() if member != "finalizers"}
    return current | {"metadata": metadata | ({"finalizers": finalizers} if finalizers else {})}


def waits_for_dependents(current: JsonObject) -> bool:
    """Return whether an object is being deleted in the foreground."""
    metadata = current["metadata"]
    return "deletionTimestamp" in metadata and FOREGROUND_FINALIZER in metadata.get("finalizers", ())


def without_owners(current: JsonObject, alive: Iterable[str]) -> JsonObject:
    """Return the state of an object that keeps only the owners whose uid is in *alive*."""
    uids = frozenset(alive)
    owners = [owner for owner in current["metadata"]["ownerReferences"] if owner["uid"] in uids]
    return current | {"metadata": current["metadata"] | {"ownerReferences": owners}}


def check_preconditions(kind: Kind, current: JsonObject, uid: object, resource_version: object) -> None:
    """Raise `ConflictError` unless *current* has the given uid and version. Empty ones are not checked."""
    metadata, subject = current["metadata"], f"{kind.kind} {key_of(current)}"
    if uid and uid != metadata["uid"]:
        raise ConflictError(f"{subject}: uid {quote(uid)} was expected, but this object has {quote(metadata['uid'])}")
    if resource_version and resource_version != metadata["resourceVersion"]:
        raise ConflictError(
            f"{subject}: resource version {quote(resource_version)} was expected, but the object is at"
            f" {quote(metadata['resourceVersion'])}: read it again and repeat the change"
        )


def _head(kind: Kind, document: JsonObject) -> JsonObject:
    """Return the object without null fields in itself and in its ``metadata``.

    Raises:
        InvalidMetadataError: ``metadata`` or ``status`` is not an object.
    """
    document = {member: value for member, value in document.items() if value is not None}
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        cause = Cause.REQUIRED if metadata is None else Cause.TYPE_INVALID
        raise InvalidMetadataError(kind, "", (FieldError(METADATA, cause, "must be an object"),))
    if "status" in document and kind.has_status and not isinstance(document["status"], dict):
        error = FieldError(
            FieldPath.of("status"), Cause.TYPE_INVALID, f"{quote(document['status'])}: must be an object"
        )
        raise InvalidMetadataError(kind, _name(metadata), (error,))
    return document | {"metadata": without_nulls(metadata)}


def _name(metadata: JsonObject) -> str:
    return str(metadata.get("name") or metadata.get("generateName") or "")


def _version_given(metadata: JsonObject) -> object:
    """Return the version that an update is based on, empty without one. ``"0"`` means none, as for an API server."""
    version: object = metadata.get("resourceVersion", "")
    return "" if version == "0" else version


def _user_members(metadata: JsonObject) -> JsonObject:
    return {member: metadata[member] for member in _USER_MEMBERS if metadata.get(member)}


def _owners_of_fields(metadata: JsonObject) -> JsonObject:
    """Return the owners of the fields, empty if an entry is malformed, as on an API server."""
    owners = metadata.get("managedFields")
    if not owners or not isinstance(owners, list):
        return {}
    is_complete = all(isinstance(owner, dict) and isinstance(owner.get("fieldsV1"), dict) for owner in owners)
    return {"managedFields": owners} if is_complete else {}


def _content(kind: Kind, document: JsonObject) -> JsonObject:
    """Return the fields that increment the generation: all but identity, metadata and a status subresource."""
    apart = ("apiVersion", "kind", "metadata", "status") if kind.has_status else ("apiVersion", "kind", "metadata")
    return {member: value for member, value in document.items() if member not in apart}


class InvalidMetadataError(InvalidObjectError):
    """The store refuses the object. ``errors`` has every reason."""

    def __init__(self, kind: Kind, name: str, errors: tuple[FieldError, ...]) -> None:
        super().__init__(f"{kind.kind} {quote(name)} is invalid: " + "; ".join(map(str, errors)))
        self.errors = errors
