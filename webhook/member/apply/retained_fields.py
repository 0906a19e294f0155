"""Fields that an apply keeps as they are on the member: its finalizers, and those that belong to the cluster.

An apply neither sets nor removes such a field. A write of the whole object repeats the member's values. A server-side
apply omits them, with three exceptions:

- A field that would be removed by its omission is first removed from our entry in ``managedFields``. Example: we have
  applied ``replicas: 8``, and the author of the Deployment now leaves the field to an autoscaler. As we alone own it,
  an apply without it would remove it, and the API server would default it to one replica.
- Finalizers that an earlier release set are repeated, so that ``managedFields`` lists them when the object is removed.
- A list or map that the API server replaces as a whole is sent with the member's values in it.

Source: docs/specifications/rollout.md 2.10 and 11.6.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import finalizers_of
from scorer.rollout.ownership.fields import (
    ITEMS,
    Path,
    member_fields,
    unmanaged_fields,
    with_member_fields,
    without_member_fields,
)
from webhook.member.objects.field_managers import field_sets, with_own_field_sets
from webhook.member.objects.finalizers import own_finalizers


def whole_object(manifest: JsonObject, live: JsonObject | None, *, outcome: JsonObject | None = None) -> JsonObject:
    """Return a manifest for a write of the whole object. If *live* exists, retained fields have its values.

    Args:
        manifest: The manifest.
        live: The object on the member. None if it does not exist yet.
        outcome: The object after the write, if it has other fields that belong to the member.
    """
    if live is None:
        return without_member_fields(manifest, {})
    return _with_finalizers(with_member_fields(manifest, live, outcome=outcome), finalizers_of(live))


def configuration(manifest: JsonObject, live: JsonObject | None) -> JsonObject:
    """Return a manifest as it is sent for server-side apply. *live* is None while the object does not exist."""
    if live is None:
        return without_member_fields(manifest, {})
    document, full_document = without_member_fields(manifest, live), with_member_fields(manifest, live)
    for path in member_fields(manifest, live):
        for fields in field_sets(live):
            document = _with_whole_value(document, manifest, full_document, fields, path)
    return _with_finalizers(document, own_finalizers(live))


def disowned(live: JsonObject, manifest: JsonObject, body: JsonObject) -> JsonObject | None:
    """Return *live* without our ownership of fields that we no longer send, or None if we own no such field.

    Args:
        live: The object on the member.
        manifest: The manifest.
        body: The configuration made from the manifest.
    """

    def change(fields: Mapping[str, Any]) -> Mapping[str, Any]:
        for path in unmanaged_fields(manifest, live):
            fields = _without(fields, manifest, body, path)
        return fields

    return with_own_field_sets(live, change)


def _with_finalizers(document: JsonObject, finalizers: Sequence[str]) -> JsonObject:
    if not finalizers:
        return document
    return {**document, "metadata": {**document["metadata"], "finalizers": list(finalizers)}}


def _with_whole_value(document: Any, manifest: Any, full_document: Any, fields: Mapping[str, Any], path: Path) -> Any:
    """Return *document* with the value of *full_document* where *fields* end above *path*.

    The API server replaces such a value as a whole. Example: ``args`` of a container is one value, and a pointer names
    its first item.
    """
    head, rest = path[0], path[1:]
    for key in _keys(fields, manifest, head) if rest else ():
        value, whole_value, below = _value(document, key), _value(full_document, key), fields[key]
        if value is None or whole_value is None:
            continue
        if below:
            whole_value = _with_whole_value(value, _value(manifest, key), whole_value, below, rest)
        document = _with_value(document, key, whole_value)
    return document


def _with_value(part: Any, key: str, value: Any) -> Any:
    if isinstance(part, Mapping):
        return {**part, key[2:]: value}
    return [value if _has_keys(item, key) else item for item in part]


def _without(fields: Mapping[str, Any], manifest: Any, body: Any, path: Path) -> Mapping[str, Any]:
    """Return a ``fieldsV1`` without the field at *path*, unless *body* has a value there.

    A value that the API server replaces as a whole is owned as a whole, so it is only dropped if nothing of it is sent.
    A list position in *path* refers to *manifest*: *body* may have fewer items.
    """
    head, rest = path[0], path[1:]
    remaining = dict(fields)
    for key in _keys(fields, manifest, head):
        value, below = _value(body, key), fields[key]
        if rest and below:
            if fields_left := _without(below, _value(manifest, key), value, rest):
                remaining[key] = fields_left
                continue
        elif value is not None:
            continue
        del remaining[key]
    return remaining


def _keys(fields: Mapping[str, Any], manifest: Any, head: str) -> Iterator[str]:
    """Yield the elements of a ``fieldsV1`` that a part of a path stands for."""
    if f"f:{head}" in fields:
        yield f"f:{head}"
    for key in fields:
        if key.startswith("k:") and (head == ITEMS or _is_item(key, manifest, head)):
            yield key


def _is_item(key: str, manifest: Any, position: str) -> bool:
    is_position = isinstance(manifest, list) and position.isdecimal() and int(position) < len(manifest)
    return is_position and _has_keys(manifest[int(position)], key)


def _value(part: Any, key: str) -> Any:
    """Return the part of a document for an element of a ``fieldsV1``, or None if it has none."""
    if key.startswith("f:"):
        return part.get(key[2:]) if isinstance(part, Mapping) else None
    return next((item for item in part if _has_keys(item, key)), None) if isinstance(part, list) else None


def _has_keys(item: Any, key: str) -> bool:
    """Return whether a list item has the keys of an element of a ``fieldsV1``. Keys may be left to their defaults."""
    keys = orjson.loads(key[2:])
    key_fields = {name: item[name] for name in keys if name in item} if isinstance(item, Mapping) else {}
    return bool(key_fields) and all(keys[name] == value for name, value in key_fields.items())
