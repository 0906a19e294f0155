"""Field managers of an object on the member, from ``metadata.managedFields``.

Server-side apply removes only fields that its manager applied before. Fields that the same manager wrote with ordinary
requests (client-side apply, taking over) would remain when the manifest drops them. The agent therefore first turns
them into applied fields, as ``kubectl apply --server-side`` does.

A manager that wrote only the status does not count as a manager of the object: every controller writes a status. The
reference counts such managers, too, and therefore never forces the apply of an object whose status a controller writes.

Source: docs/specifications/rollout.md 11.6; KubeFleet pkg/controllers/workapplier/apply.go; client-go util/csaupgrade.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from scorer.api.meta import JsonObject
from webhook.kube.ports import ConflictError
from webhook.member.store.ports import MANAGER

_UNKNOWN: Final = "before-first-apply"
"""Manager of all fields that an object had when it was first applied, if it had no ``managedFields`` then."""
_OURS: Final = frozenset({MANAGER, _UNKNOWN})
_LONGEST_NAME: Final = 128
_MOST_NAMED: Final = 3
_APPLY, _UPDATE = "Apply", "Update"


def has_no_other_managers(live: JsonObject) -> bool:
    """Return whether no other manager has fields of the object.

    Fields without a recorded manager do not count, and neither do writes of the status subresource.
    """
    return all(entry.get("manager") in _OURS for entry in _entries(live) if entry.get("subresource") != "status")


def is_applied(live: JsonObject) -> bool:
    """Return whether we have applied the object by server-side apply."""
    return any(_is(entry, _APPLY) for entry in _entries(live))


def field_sets(live: JsonObject) -> list[JsonObject]:
    """Return the fields of every manager, each as ``fieldsV1``."""
    return [entry.get("fieldsV1") or {} for entry in _entries(live)]


def with_own_field_sets(
    live: JsonObject, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> JsonObject | None:
    """Return the object with *change* applied to each ``fieldsV1`` of ours, or None if nothing changes.

    Args:
        live: The object on the member.
        change: Returns the new ``fieldsV1`` of a manager entry that we applied or wrote.
    """
    entries = _entries(live)
    changed = [
        {**entry, "fieldsV1": change(entry.get("fieldsV1") or {})} if _is_own(entry) else entry for entry in entries
    ]
    return None if changed == entries else {**live, "metadata": {**live["metadata"], "managedFields": changed}}


def own_fields(live: JsonObject) -> JsonObject:
    """Return the fields that we applied or wrote, as ``fieldsV1``."""
    fields: JsonObject = {}
    for entry in filter(_is_own, _entries(live)):
        fields = _union(fields, entry.get("fieldsV1") or {})
    return fields


def fields_of_unknown(live: JsonObject) -> JsonObject:
    """Return the fields whose manager is unknown, as ``fieldsV1``."""
    entries = [entry for entry in _entries(live) if entry.get("manager") == _UNKNOWN]
    return dict(entries[0].get("fieldsV1") or {}) if entries else {}


def fields_of_others(live: JsonObject) -> list[JsonObject]:
    """Return the fields of each other client, as ``fieldsV1``."""
    return [entry.get("fieldsV1") or {} for entry in _entries(live) if entry.get("manager") not in _OURS]


def is_untracked(live: JsonObject) -> bool:
    """Return whether no manager is recorded: a client has reset ``managedFields``."""
    return not _entries(live)


def as_applied(live: JsonObject) -> JsonObject | None:
    """Convert the fields that we wrote with ordinary requests into applied fields. None if there are no such fields."""
    entries = _entries(live)
    entries_of_updates = [entry for entry in entries if _is(entry, _UPDATE)]
    if not entries_of_updates:
        return None
    first = next((entry for entry in entries if _is(entry, _APPLY)), entries_of_updates[0])
    fields: Mapping[str, Any] = {}
    for entry in (first, *entries_of_updates):
        if entry.get("apiVersion") == first.get("apiVersion"):
            fields = _union(fields, entry.get("fieldsV1") or {})
    remaining = [entry for entry in entries if entry is not first and not _is(entry, _UPDATE)]
    applied_entry = {**first, "operation": _APPLY, "fieldsV1": fields}
    return {**live, "metadata": {**live["metadata"], "managedFields": [applied_entry, *remaining]}}


def is_field_conflict(error: ConflictError) -> bool:
    """Return whether server-side apply was refused because another manager has a field: a retry does not help.

    Source: structured-merge-diff conflicts in apimachinery util/managedfields/internal/conflict.go.
    """
    return str(error).startswith("Apply failed with ")


def other_managers(live: JsonObject, manifest: JsonObject) -> str:
    """Return the other managers of fields that *manifest* has, for a message: at most three, the latest writer first.

    A manager that only shares the object, such as a controller that annotates it, does not count.
    """
    entries = [entry for entry in _entries(live) if entry.get("manager") not in _OURS]
    rivals = [entry for entry in entries if _overlap(entry.get("fieldsV1"), manifest)]
    rivals.sort(key=lambda entry: str(entry.get("time") or ""), reverse=True)
    names = list(dict.fromkeys(str(entry.get("manager") or "")[:_LONGEST_NAME] for entry in rivals))[:_MOST_NAMED]
    return f"field manager {', '.join(names)}" if names else "an unknown client"


def _overlap(fields: Any, manifest: Any) -> bool:
    """Return whether *manifest* has one of the *fields* of a ``fieldsV1``. A list matches if it has any item."""
    if not isinstance(fields, Mapping) or not fields:
        return True
    if isinstance(manifest, list):
        return bool(manifest)
    return isinstance(manifest, Mapping) and any(
        name.startswith("f:") and name[2:] in manifest and _overlap(below, manifest[name[2:]])
        for name, below in fields.items()
    )


def _entries(live: JsonObject) -> list[Mapping[str, Any]]:
    return list(live["metadata"].get("managedFields") or ())


def _is_own(entry: Mapping[str, Any]) -> bool:
    return _is(entry, _APPLY) or _is(entry, _UPDATE)


def _is(entry: Mapping[str, Any], operation: str) -> bool:
    return (entry.get("manager"), entry.get("operation"), entry.get("subresource") or "") == (MANAGER, operation, "")


def _union(first: Mapping[str, Any], other: Mapping[str, Any]) -> JsonObject:
    shared = {name: _union(first[name], other[name]) for name in first.keys() & other.keys()}
    return {**first, **other, **shared}
