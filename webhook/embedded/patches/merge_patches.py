"""Merge patches: RFC 7396 for any object, and strategic merge patches for built-in kinds, as kubectl sends them.

Maps are merged as by a merge patch. Lists whose items have a merge key are merged item by item. A patch from kubectl
names the key itself (``$setElementOrder``). For a handwritten patch, the kind determines it. Any other list is one
value.

Source: RFC 7396, section 2; Kubernetes apimachinery ``pkg/util/strategicpatch``, StrategicMergePatch.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.values.quoting import quote
from webhook.member.apply.three_way_merge import Path, merge_key

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_GONE: Final = "$deleteFromPrimitiveList/"
_SETS: Final = frozenset({("metadata", "finalizers")})
_KEYS: Final[Mapping[Path, str]] = {
    ("metadata", "ownerReferences"): "uid",
    ("status", "conditions"): "type",
    ("imagePullSecrets",): "",  # of a ServiceAccount: an agent merges them, to keep those of other writers
}
"""Merge keys of an API server that differ from those of an agent that applies a Work."""


class InvalidPatchError(ValueError):
    """An invalid patch. The message names the field."""


class _Item(NamedTuple):
    """One item of a list and its identity: the value of its merge key, or the item itself."""

    name: object
    value: Any


class _ListPatch(NamedTuple):
    """The part of a patch for one list.

    Args:
        items: Items to add or change, or, with a directive, to remove.
        order: Names of all items that the patch's author knows. None means those of *items*.
        gone: Plain values to remove.
    """

    items: Sequence[Any] | None
    order: Sequence[Any] | None
    gone: Sequence[Any] | None


def strategic_merge(kind: Kind, target: JsonObject, patch: JsonObject) -> JsonObject:
    """Return *target* with *patch* applied. The arguments are not mutated.

    Args:
        kind: Kind of the object. It must be built in.
        target: The object.
        patch: The changes. A null removes a field.

    Raises:
        InvalidPatchError: A directive, or an item of a merged list, is malformed.
    """
    return _merged_map(kind, (), target, patch)


def _merged_map(kind: Kind, path: Path, target: Any, patch: Mapping[str, Any]) -> JsonObject:
    directive = patch.get(_DIRECTIVE, "merge")
    if directive not in ("merge", "replace", "delete"):
        raise InvalidPatchError(f"{_path_text(path, _DIRECTIVE)} {quote(directive)}: expected merge, replace or delete")
    if directive == "delete":
        return {}
    result = dict(target) if isinstance(target, Mapping) and directive == "merge" else {}
    if (retained_keys := _list(patch, _RETAIN_KEYS, path)) is not None:
        result = {name: value for name, value in result.items() if name in retained_keys}
    for name in dict.fromkeys(_members(patch)):
        at, value, old_value = (*path, name), patch.get(name), result.get(name)
        order, deletions = _list(patch, _ORDER + name, path), _list(patch, _GONE + name, path)
        if isinstance(value, Mapping):
            result[name] = _merged_map(kind, at, old_value, value)
        elif isinstance(value, list) or (name not in patch and isinstance(old_value, list)):
            result[name] = _merged_list(
                kind, at, old_value if isinstance(old_value, list) else [], _ListPatch(value, order, deletions)
            )
        elif value is not None:
            result[name] = value
        elif name in patch:
            result.pop(name, None)
    return result


def _members(patch: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the fields that a patch changes."""
    for name in patch:
        if name not in (_DIRECTIVE, _RETAIN_KEYS):
            yield name.removeprefix(_ORDER).removeprefix(_GONE)


def _merged_list(kind: Kind, path: Path, old_items: Sequence[Any], patch: _ListPatch) -> list[Any]:
    key, items = _key(kind, path, patch.order), list(patch.items or ())
    if not key and path not in _SETS and patch.order is None and patch.gone is None:
        return items
    before = [_Item(_name(value, key, path), value) for value in old_items]
    if key:
        result, ours = _merged_items(kind, path, key, before, items)
    else:
        ours = [_name(value, key, path) for value in items]
        deleted_names = {_name(value, key, path) for value in patch.gone or ()}
        result = [item for item in before if item.name not in deleted_names]
        names = {item.name for item in result}
        result += [_Item(name, name) for name in dict.fromkeys(ours) if name not in names]
    order = ours if patch.order is None else [_name(value, key, path) for value in patch.order]
    return [item.value for item in _in_order(result, order, [item.name for item in before])]


def item_key(kind: Kind, path: Path) -> str | None:
    """Return the merge key of a list of a kind, empty for a list of plain values, or None for an atomic list."""
    return "" if path in _SETS else _KEYS.get(path, merge_key(kind, path)) or None


def _key(kind: Kind, path: Path, order: Sequence[Any] | None) -> str:
    """Return the merge key of a list, empty for a list of plain values or an atomic list."""
    first = order[0] if order else None
    if isinstance(first, Mapping) and len(first) == 1:
        return str(next(iter(first)))
    return item_key(kind, path) or ""


def _merged_items(
    kind: Kind, path: Path, key: str, before: Sequence[_Item], items: Sequence[Any]
) -> tuple[list[_Item], list[object]]:
    """Return the unordered items of the list, and the names of those that the patch adds or changes.

    Raises:
        InvalidPatchError: An item of the patch has no value of the merge key.
    """
    result, ours, deleted_names = list(before), [], set()
    for value in items:
        directive = value.get(_DIRECTIVE, "merge") if isinstance(value, Mapping) else "merge"
        if directive == "replace":
            result = []
        elif directive == "delete":
            deleted_names.add(_name(value, key, path))
        else:
            ours.append(_Item(_name(value, key, path), value))
    result = [item for item in result if item.name not in deleted_names]
    places = {item.name: place for place, item in reversed(list(enumerate(result)))}
    for name, value in ours:
        if name in places:
            result[places[name]] = _Item(name, _merged_map(kind, path, result[places[name]].value, value))
        else:
            places[name] = len(result)
            result.append(_Item(name, _merged_map(kind, path, {}, value)))
    return result, [item.name for item in ours]


def _in_order(items: Sequence[_Item], order: Sequence[object], before: Sequence[object]) -> Iterator[_Item]:
    """Yield *items* in *order*. Other items keep their position before or after them."""
    ranks = {name: rank for rank, name in enumerate(order)}
    had = {name: rank for rank, name in enumerate(before)}
    ours = deque(sorted((item for item in items if item.name in ranks), key=lambda item: ranks[item.name]))
    others = deque(item for item in items if item.name not in ranks)
    while ours and others:
        first, second = had.get(others[0].name), had.get(ours[0].name)
        is_before = first is not None and second is not None and first < second
        yield (others if is_before else ours).popleft()
    yield from ours
    yield from others


def _name(value: Any, key: str, path: Path) -> object:
    """Return the identity of a list item. Raises `InvalidPatchError` if it has none."""
    name = value.get(key) if key and isinstance(value, Mapping) else None if key else value
    if not isinstance(name, str | int | float):
        expectation = f"an object with a {key}" if key else "a plain value"
        raise InvalidPatchError(f"{_path_text(path)}: {quote(value)} in it: expected {expectation}")
    return name


def _list(patch: Mapping[str, Any], name: str, path: Path) -> list[Any] | None:
    value = patch.get(name)
    if value is not None and not isinstance(value, list):
        raise InvalidPatchError(f"{_path_text(path, name)}: {quote(value)}: expected a list")
    return value


def _path_text(path: Path, name: str = "") -> str:
    return ".".join((*path, *((name,) if name else ())))


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a merge patch (RFC 7396) and return the result. The arguments are not mutated."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for member, value in patch.items():
        if value is None:
            result.pop(member, None)
        else:
            result[member] = merge_patch(result.get(member), value)
    return result
