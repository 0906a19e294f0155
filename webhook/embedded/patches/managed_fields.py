"""Managed fields: field ownership of an object by manager, and server-side apply.

An object gets ``managedFields`` with its first server-side apply. Its existing fields then belong to
``before-first-apply``, as on an API server for objects that are older than the feature. From then on, writes through
the API are recorded. Writes of this hub's controllers bypass the API and take no field from any manager.

Source: Kubernetes, "Server-Side Apply"; apimachinery ``util/managedfields``; structured-merge-diff ``merge/update.go``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeAlias

from scorer.api.meta import JsonObject, format_time
from webhook.embedded.patches.field_sets import (
    FieldPath,
    FieldSet,
    FieldShape,
    compared,
    fields_of,
    format_fields,
    merged,
    parse_fields,
    shown,
    with_named,
    without,
)
from webhook.embedded.patches.merge_patches import InvalidPatchError

_APPLY, _UPDATE = "Apply", "Update"
_EARLIER: Final = "before-first-apply"
_ANCIENT: Final = "ancient-changes"
_MOST_UPDATES: Final = 10
"""Maximum number of managers with operation ``Update``, as on an API server."""
_IDENTITY: Final = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata",),
        *(("f:metadata", f"f:{member}") for member in ("name", "namespace", "uid", "resourceVersion", "generation")),
        *(("f:metadata", f"f:{member}") for member in ("creationTimestamp", "selfLink")),
    }
)
"""Fields without an owner."""


@dataclass(frozen=True, slots=True)
class Manager:
    """Owner of fields: a client, with the operation that it used.

    Args:
        name: Name of the manager.
        operation: ``Apply`` or ``Update``.
        api_version: ``apiVersion`` of its last request.
        time: Time of its last change, as on the wire.
    """

    name: str
    operation: str
    api_version: str
    time: str = ""

    @property
    def identity(self) -> tuple[str, ...]:
        """Key that all requests of one manager share."""
        version = "" if self.operation == _APPLY else self.api_version
        return self.operation, self.name, version

    def __str__(self) -> str:
        """Return the manager in the notation of an API server's conflict."""
        suffix = f" using {self.api_version}" if self.operation == _UPDATE else ""
        return f'"{self.name}"{suffix}{f" at {self.time}" if suffix and self.time else ""}'


Owners: TypeAlias = dict[Manager, FieldSet]


class FieldConflictError(Exception):
    """The apply would change fields that other managers own. ``conflicts`` has each manager and field."""

    def __init__(self, conflicts: Mapping[Manager, Iterable[FieldPath]]) -> None:
        self.conflicts = [(manager, shown(path)) for manager, paths in conflicts.items() for path in sorted(paths)]
        self.conflicts.sort(key=lambda conflict: (str(conflict[0]), conflict[1]))
        if len(self.conflicts) == 1:
            (manager, path), *_ = self.conflicts
            super().__init__(f"Apply failed with 1 conflict: conflict with {manager}: {path}")
            return
        lines = []
        for manager in dict.fromkeys(manager for manager, _ in self.conflicts):
            lines += [
                f"conflicts with {manager}:",
                *(f"- {path}" for owner, path in self.conflicts if owner == manager),
            ]
        super().__init__(f"Apply failed with {len(self.conflicts)} conflicts: " + "\n".join(lines))


def is_owned(document: JsonObject) -> bool:
    """Return whether an object has ``managedFields``, which its first server-side apply adds."""
    return bool(document["metadata"].get("managedFields"))


def applied(
    shape: FieldShape, live: JsonObject | None, config: JsonObject, manager: Manager, now: datetime, *, force: bool
) -> JsonObject:
    """Return the object after *manager* has applied *config*.

    Args:
        shape: Shape of the whole object.
        live: The object in the version of *config*. None: unset, it will be created.
        config: The apply configuration.
        manager: The manager. Its ``time`` is ignored.
        now: The time of the request.
        force: Take over fields of other managers instead of refusing.

    Raises:
        FieldConflictError: The apply would change fields that other managers own, and *force* is false.
        InvalidPatchError: An item of a list has no key or the key of another item, or the object has too many fields.
    """
    before, config = _bare(shape, live) if live is not None else {}, _bare(shape, config)
    owners = _owners(live)
    if live is not None and not owners:
        earlier = Manager(_EARLIER, _UPDATE, manager.api_version, time=format_time(now))
        owners[earlier] = frozenset(compared(shape, {}, before).added)
    config_fields = fields_of(shape, config)
    last = next((fields for owner, fields in owners.items() if owner.identity == manager.identity), None)
    after = merged(shape, before, config)
    if last:
        others = (fields for owner, fields in owners.items() if owner.identity != manager.identity)
        kept_fields = frozenset().union(config_fields, *others)
        after = without(shape, after, with_named(shape, last) - with_named(shape, kept_fields))
    other_owners = _remaining_owners(shape, owners, before, after, manager, force=force)
    return _owned(after, other_owners, manager, config_fields, now)


def updated(shape: FieldShape, live: JsonObject, document: JsonObject, manager: Manager, now: datetime) -> JsonObject:
    """Return *document*, the replacement of *live* by *manager*, with the owners of its fields.

    The ``managedFields`` of *document* take precedence if they name owners. ``[{}]`` resets all of them.
    """
    entries = document["metadata"].get("managedFields")
    if entries == [{}]:
        return _with(document, [])
    owners = _owners(document) or _owners(live)
    before, after = _bare(shape, live), _bare(shape, document)
    try:
        difference = compared(shape, before, after)
        other_owners = _remaining_owners(shape, owners, before, after, manager, force=True)
    except InvalidPatchError:  # the object is valid by its own rules, but its owners cannot be determined
        return _with(document, live["metadata"].get("managedFields"))
    own_fields = next(
        (fields for owner, fields in other_owners.items() if owner.identity == manager.identity), frozenset()
    )
    own_fields |= difference.added | difference.changed
    return _owned(document, other_owners, manager, own_fields, now)


def _remaining_owners(
    shape: FieldShape, owners: Owners, before: JsonObject, after: JsonObject, manager: Manager, *, force: bool
) -> Owners:
    """Return the fields that all owners keep after the change.

    Raises:
        FieldConflictError: The change takes fields from others, unless *force*.
    """
    difference = compared(shape, before, after)
    written_fields = difference.added | difference.changed
    others = {owner: fields for owner, fields in owners.items() if owner.identity != manager.identity}
    conflicts = {owner: fields & written_fields for owner, fields in others.items() if fields & written_fields}
    if conflicts and not force:
        raise FieldConflictError(conflicts)
    return {owner: fields - conflicts.get(owner, set()) - difference.removed for owner, fields in owners.items()}


def _owned(after: JsonObject, owners: Owners, manager: Manager, fields: FieldSet, now: datetime) -> JsonObject:
    """Return *after* with the owners of its fields. The time of *manager* changes only with its set of fields."""
    previous = next((owner for owner in owners if owner.identity == manager.identity), None)
    fields -= _IDENTITY
    is_same = previous is not None and owners[previous] == fields
    me = replace(manager, time=previous.time if previous and is_same else format_time(now))
    capped = _capped({**{owner: fields for owner, fields in owners.items() if owner != previous}, me: fields})
    entries = [_entry(owner, fields - _IDENTITY) for owner, fields in capped.items() if fields - _IDENTITY]
    entries.sort(key=lambda entry: (entry["operation"], entry["time"], entry["manager"], entry["apiVersion"]))
    return _with(after, entries)


def _capped(owners: Owners) -> Owners:
    """Return *owners* with the oldest ``Update`` managers merged into one, so that their number is bounded."""
    updates = [owner for owner in owners if owner.operation == _UPDATE]
    updates.sort(key=lambda owner: (owner.name != _ANCIENT, owner.time, owner.name))
    if len(updates) <= _MOST_UPDATES:
        return owners
    old = updates[: len(updates) - _MOST_UPDATES + 1]
    recent = {owner: fields for owner, fields in owners.items() if owner not in old}
    return recent | {replace(old[-1], name=_ANCIENT): frozenset().union(*(owners[owner] for owner in old))}


def _entry(owner: Manager, fields: FieldSet) -> JsonObject:
    entry = {"manager": owner.name, "operation": owner.operation, "apiVersion": owner.api_version, "time": owner.time}
    return entry | {"fieldsType": "FieldsV1", "fieldsV1": format_fields(fields)}


def _owners(document: JsonObject | None) -> Owners:
    """Parse ``managedFields``. A malformed entry is ignored."""
    entries: Any = document["metadata"].get("managedFields") if document else None
    owners: Owners = {}
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("operation") in (_APPLY, _UPDATE):
            words = [str(entry.get(member) or "") for member in ("manager", "operation", "apiVersion", "time")]
            if fields := parse_fields(entry.get("fieldsV1")):
                owners[Manager(*words)] = fields
    return owners


def _bare(shape: FieldShape, document: JsonObject) -> JsonObject:
    """Return the ownable part of an object: without the owners themselves, and without a status subresource."""
    metadata = {member: value for member, value in document["metadata"].items() if member != "managedFields"}
    apart = ("status",) if shape.kind.has_status else ()
    return {**{member: value for member, value in document.items() if member not in apart}, "metadata": metadata}


def _with(document: JsonObject, entries: object) -> JsonObject:
    return {**document, "metadata": {**document["metadata"], "managedFields": entries}}
