"""Fields that an earlier manifest had and the present one lacks: an apply removes them from the member.

An annotation of the object stores the manifest that was applied last: a field is dropped if that manifest has it and
the present one does not. A manifest of more than 256 KiB does not fit into the annotation. Our entry in
``managedFields`` is then used instead.

Example: Secret ``db`` has 300 KiB of certificates and ``data.password``. The hub drops the password and most of the
certificates. The next manifest fits into the annotation, but the last one is not stored there. Without the entry in
``managedFields``, the password would remain.

A client can reset ``managedFields``. The API server then assigns every field to ``before-first-apply`` with the next
server-side apply, and our fields cannot be distinguished from those of other managers. Such fields are kept and
reported.

Source: docs/specifications/rollout.md 11.6.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.names import FLEET, LAST_APPLIED, OURS
from scorer.api.unstructured.documents import annotations_of
from webhook.member.apply.retained_fields import whole_object
from webhook.member.apply.three_way_merge import last_applied, three_way_merge
from webhook.member.objects.field_managers import fields_of_others, fields_of_unknown, is_untracked, own_fields

_METADATA: Final = frozenset({"labels", "annotations"})
_NOT_OF_MANIFESTS: Final = frozenset({"apiVersion", "kind", "status"})
_SYSTEM_KEYS: Final = ("kubernetes.io/", "k8s.io/", FLEET, OURS)


def last_manifest(live: JsonObject) -> JsonObject:
    """Return the manifest that was applied last, or the fields of *live* that we have set. Empty: unknown."""
    if last := last_applied(live):
        return last
    fields = own_fields(live)
    return _comparable(_extracted(live, fields)) if fields else {}


def without_dropped(kind: Kind, manifest: JsonObject, live: JsonObject) -> JsonObject | None:
    """Return *live* without dropped fields that a server-side apply would keep, or None if it has no such field.

    A server-side apply removes fields that our last apply set and no other manager owns. The remaining ones are fields
    that ``before-first-apply`` owns as well, and those missing from our entry. A field of another manager is kept.
    """
    result = three_way_merge(kind, last_manifest(live), whole_object(manifest, live), live)
    pruned = _pruned(live, result, own_fields(live), fields_of_unknown(live), fields_of_others(live))
    return None if pruned == live else pruned


def unknown_fields(manifest: JsonObject, live: JsonObject) -> tuple[str, ...]:
    """Return the JSON pointers of fields that an earlier manifest may have had, or another client may have set.

    Empty while the object keeps the last manifest, or while ``managedFields`` distinguishes our fields.
    """
    if annotations_of(live).get(LAST_APPLIED) != "":
        return ()
    fields = None if is_untracked(live) else fields_of_unknown(live)
    if fields == {}:
        return ()
    known_fields = [own_fields(live), *fields_of_others(live)]
    paths = _unknown((), _comparable(manifest), _comparable(live), fields, known_fields)
    return tuple("/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in path) for path in paths)


def _comparable(document: JsonObject) -> JsonObject:
    """Return the part of an object that a manifest may hold."""
    body = {name: value for name, value in document.items() if name not in _NOT_OF_MANIFESTS and name != "metadata"}
    metadata = {
        name: {key: text for key, text in value.items() if not any(mark in key for mark in _SYSTEM_KEYS)}
        for name, value in document.get("metadata", {}).items()
        if name in _METADATA and isinstance(value, Mapping)
    }
    return {**body, "metadata": {name: value for name, value in metadata.items() if value}}


def _extracted(value: Any, fields: Mapping[str, Any]) -> Any:
    """Return the part of *value* that a ``fieldsV1`` has."""
    if not fields:
        return value
    if isinstance(value, Mapping):
        return {name: _extracted(value[name], fields[key]) for name in value if (key := f"f:{name}") in fields}
    if isinstance(value, list):
        items = [(item, next((key for key in fields if _is_key_of(key, item)), None)) for item in value]
        return [_extracted(item, fields[key]) for item, key in items if key is not None]
    return value


def _is_key_of(key: str, item: Any) -> bool:
    if not key.startswith("k:") or not isinstance(item, Mapping):
        return False
    return all(item.get(name) == value for name, value in orjson.loads(key[2:]).items())


def _pruned(
    live: Mapping[str, Any],
    merged: Mapping[str, Any],
    ours: Mapping[str, Any],
    unknown: Mapping[str, Any],
    others: Sequence[Mapping[str, Any]],
) -> JsonObject:
    remaining = {}
    for name, value in live.items():
        key = f"f:{name}"
        if name in merged:
            below = merged[name]
            if isinstance(value, Mapping) and isinstance(below, Mapping):
                others_below = [fields[key] for fields in others if key in fields]
                value = _pruned(value, below, ours.get(key) or {}, unknown.get(key) or {}, others_below)
            remaining[name] = value
        elif any(key in fields for fields in others) or (key in ours and key not in unknown):
            remaining[name] = value  # another client owns it, or the apply removes it
    return remaining


def _unknown(
    path: tuple[str, ...],
    manifest: Any,
    live: Any,
    fields: Mapping[str, Any] | None,
    known_fields: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[str, ...]]:
    """Yield the paths in *live* that neither the manifest nor a known manager has.

    Paths outside *fields* are not considered. If *fields* is None, all paths are.
    """
    for name in sorted(live):
        key = f"f:{name}"
        if fields is not None and key not in fields:
            continue
        known_below = [entry[key] for entry in known_fields if key in entry]
        below = None if fields is None else fields[key] or None
        if name not in manifest:
            if not known_below:
                yield (*path, name)
        elif isinstance(manifest[name], Mapping) and isinstance(live[name], Mapping):
            yield from _unknown((*path, name), manifest[name], live[name], below, known_below)
