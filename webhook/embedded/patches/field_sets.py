"""Sets of fields of an object, and their operations for server-side apply: merge, compare, remove.

A field is a path of elements in the notation of ``managedFields``: ``f:name`` for a field, ``k:{…}`` for a list item by
its keys, ``v:…`` for a plain value in a set. The published schema of an object defines how the object is divided into
fields (``x-kubernetes-list-type``, ``-list-map-keys``, ``-map-type``). Kubernetes' own kinds have no schema here, and
their lists are divided as by strategic merge patches.

Source: Kubernetes, "Server-Side Apply", Merge strategy; structured-merge-diff ``typed``.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject, json_equal
from scorer.api.unstructured.documents import dict_at, text_at, texts_at
from scorer.api.values.quoting import quote
from webhook.embedded.patches.merge_patches import InvalidPatchError, item_key
from webhook.kube.transport.serialization import encode

FieldPath: TypeAlias = tuple[str, ...]
FieldSet: TypeAlias = frozenset[FieldPath]

MOST_FIELDS: Final = 50_000
"""Maximum number of owned fields of one object. Even large definitions have fewer. Each owner stores their paths."""
_SECOND_KEYS: Final = {"port": "protocol", "containerPort": "protocol", "topologyKey": "whenUnsatisfiable"}
"""Second keys of lists of built-in kinds whose items an API server identifies by two keys."""
_USUAL_KEYS: Final = {"protocol": "TCP"}
"""Default values of second keys in items that lack them."""
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class FieldShape:
    """How the value at one path of an object is divided into fields.

    Args:
        kind: The kind of the object.
        schema: Structural schema of the value, which may be malformed in a definition. None: unset, because the kind is
            built in or the path is in ``metadata``. `item_key` then returns the merge keys of lists.
        path: The names of the fields that lead to the value.
        is_named: Whether the kind names the field. List items, keys of a map, and fields that the schema does not
            define are not named: such a field has an owner even if it contains other fields.
    """

    kind: Kind
    schema: Mapping[str, Any] | None
    path: tuple[str, ...] = ()
    is_named: bool = True

    def below(self, element: str) -> "FieldShape":
        """Return the shape of a field, or of an item of this list."""
        if not element.startswith("f:"):
            schema = None if self.schema is None else dict_at(self.schema, "items")
            return replace(self, schema=schema, is_named=False)
        name = element[2:]
        path = (*self.path, name)
        if self.schema is None or path == ("metadata",):
            return FieldShape(self.kind, None, path)
        properties = dict_at(self.schema, "properties")
        if name in properties:
            return FieldShape(self.kind, dict_at(properties, name), path)
        more = self.schema.get("additionalProperties")
        return FieldShape(self.kind, more if isinstance(more, dict) else {}, path, is_named=False)

    def is_whole(self, value: Any) -> bool:
        """Return whether a value has one owner: it is a plain value, or an atomic map or list."""
        if isinstance(value, dict):
            return self.schema is not None and self.schema.get("x-kubernetes-map-type") == "atomic"
        return not isinstance(value, list) or self._keys() is None

    def children(self, value: Any) -> dict[str, Any]:
        """Return the parts of a divided value. Raises `InvalidPatchError` for a missing or repeated key."""
        if isinstance(value, dict):
            return {f"f:{name}": child for name, child in value.items()}
        children: dict[str, Any] = {}
        for item in value:
            element = self._element(item)
            if element in children:
                raise InvalidPatchError(f"{'.'.join(self.path)}: {element[2:]} is given twice")
            children[element] = item
        return children

    def _keys(self) -> tuple[str, ...] | None:
        """Return the keys that identify an item of the list, empty for a set, or None for an atomic list."""
        if self.schema is None:
            key = item_key(self.kind, self.path)
            return None if key is None else tuple(filter(None, (key, _SECOND_KEYS.get(key))))
        keys = tuple(texts_at(self.schema, "x-kubernetes-list-map-keys"))
        return {"set": (), "map": keys or None}.get(text_at(self.schema, "x-kubernetes-list-type"))

    def _element(self, item: Any) -> str:
        keys = self._keys()
        if not keys:
            return "v:" + encode(item).decode()
        if not isinstance(item, dict) or not any(key in item for key in keys):
            raise InvalidPatchError(f"{'.'.join(self.path)}: {quote(item)} in it has no {' and '.join(keys)}")
        if self.schema is None:
            usual: Mapping[str, Any] = _USUAL_KEYS
        else:
            usual = {key: dict_at(self.schema, "items", "properties", key).get("default") for key in keys}
        key_values = {key: item.get(key, usual.get(key)) for key in keys}
        return "k:" + encode(key_values, sort=True).decode()


def fields_of(shape: FieldShape, value: Any, at: FieldPath = ()) -> FieldSet:
    """Return the fields that an apply of *value* owns. Raises `InvalidPatchError`, for example for too many fields."""
    paths = frozenset(islice(_fields(shape, value, at), MOST_FIELDS + 1))
    _check_number(len(paths))
    return paths


def _check_number(fields: int) -> None:
    if fields > MOST_FIELDS:
        raise InvalidPatchError(f"an object with more than {MOST_FIELDS} fields cannot be applied on this hub")


def _fields(shape: FieldShape, value: Any, at: FieldPath) -> Iterator[FieldPath]:
    if shape.is_whole(value):
        yield at
        return
    for element, child in shape.children(value).items():
        below, deeper = shape.below(element), (*at, element)
        yield from _fields(below, child, deeper)
        if not below.is_named or child == {}:
            yield deeper


def with_named(shape: FieldShape, fields: Iterable[FieldPath]) -> FieldSet:
    """Return *fields* and the named fields that contain them. A named field is removed with the last field in it."""
    all_paths = set(fields)
    for path in tuple(all_paths):
        shape_at = shape
        for end, element in enumerate(path[:-1], 1):
            shape_at = shape_at.below(element)
            if shape_at.is_named:
                all_paths.add(path[:end])
    return frozenset(all_paths)


def merged(shape: FieldShape, live: Any, config: Any) -> Any:
    """Return *live* merged with *config*. The arguments are not mutated. Raises as `FieldShape.children`."""
    if type(live) is not type(config) or shape.is_whole(config):
        return config
    live_children, ours = shape.children(live), shape.children(config)
    both = {element: merged(shape.below(element), live_children.get(element), child) for element, child in ours.items()}
    if isinstance(config, dict):
        return {**live, **{element[2:]: child for element, child in both.items()}}
    return [both.get(element, live_children.get(element)) for element in _in_order(list(live_children), list(ours))]


def _in_order(live_order: list[str], ours: list[str]) -> Iterator[str]:
    """Yield the items of two lists: our items in our order, and the others in their places."""
    ours_set, emitted = set(ours), set()
    while live_order or ours:
        is_next = live_order and (live_order[0] in emitted or live_order[0] not in ours_set)
        element = (live_order if is_next else ours).pop(0)
        if element not in emitted:
            emitted.add(element)
            yield element


def without(shape: FieldShape, value: Any, removed: FieldSet, at: FieldPath = ()) -> Any:
    """Return *value* without the fields in *removed* and their content. Raises as `FieldShape.children`."""
    if shape.is_whole(value):
        return value
    remaining = {
        element: without(shape.below(element), child, removed, (*at, element))
        for element, child in shape.children(value).items()
        if (*at, element) not in removed
    }
    return (
        {element[2:]: child for element, child in remaining.items()}
        if isinstance(value, dict)
        else list(remaining.values())
    )


class FieldSetComparison(NamedTuple):
    """Differences between two states of an object."""

    added: set[FieldPath]
    changed: set[FieldPath]
    removed: set[FieldPath]


@dataclass(frozen=True, slots=True)
class _Comparing:
    comparison: FieldSetComparison = field(default_factory=lambda: FieldSetComparison(set(), set(), set()))

    def visit(self, shape: FieldShape, old: Any, new: Any, at: FieldPath) -> None:
        sides = [side for side in (old, new) if side is not _ABSENT]
        if len({type(side) for side in sides}) > 1:  # a map or list becomes a plain value, or vice versa
            self.comparison.changed.add(at)
            self.comparison.removed.update(fields_of(shape, old, at) - {at})
            self.comparison.added.update(fields_of(shape, new, at) - {at})
            return
        if any(shape.is_whole(side) for side in sides) or not any(sides):
            if len(sides) < 2 or not json_equal(old, new):
                self._note(old, new, at)
            return
        before, after = ({} if side is _ABSENT else shape.children(side) for side in (old, new))
        for element in before | after:
            places = before.get(element, _ABSENT), after.get(element, _ABSENT)
            self.visit(shape.below(element), *places, (*at, element))
        if len(sides) < 2:
            self._note(old, new, at)

    def _note(self, old: Any, new: Any, at: FieldPath) -> None:
        differences = self.comparison
        (differences.added if old is _ABSENT else differences.removed if new is _ABSENT else differences.changed).add(
            at
        )
        _check_number(sum(map(len, differences)))


def compared(shape: FieldShape, old: JsonObject, new: JsonObject) -> FieldSetComparison:
    """Compare two states of an object. Raises `InvalidPatchError`, for example for too many differences."""
    comparing = _Comparing()
    comparing.visit(shape, old, new, ())
    return comparing.comparison


def parse_fields(tree: object) -> FieldSet:
    """Parse ``fieldsV1``. Malformed parts are skipped, and fields beyond `MOST_FIELDS` are dropped."""

    def walk(node: object, at: FieldPath) -> Iterator[FieldPath]:
        if at and (not node or (isinstance(node, dict) and "." in node)):
            yield at
        if isinstance(node, dict):
            for element, child in node.items():
                if element.startswith(("f:", "v:")) or _key(element):
                    yield from walk(child, (*at, element))

    return frozenset(islice(walk(tree, ()), MOST_FIELDS))


def format_fields(fields: Iterable[FieldPath]) -> JsonObject:
    """Return fields as ``fieldsV1``."""
    tree: JsonObject = {}
    paths = sorted(fields)
    for path in paths:
        node = tree
        for element in path:
            node = node.setdefault(element, {})
    for path in paths:
        node = tree
        for element in path:
            node = node[element]
        if node:
            node["."] = {}
    return tree


def shown(path: FieldPath) -> str:
    """Return a field in the notation of an API server's conflict: ``.spec.list[name="a"].value``."""
    return "".join(_element_text(element) for element in path)


def _element_text(element: str) -> str:
    if element.startswith("f:"):
        return f".{element[2:]}"
    keys = [f"{name}={orjson.dumps(value).decode()}" for name, value in _key(element).items()]
    return f"[{','.join(keys) if element.startswith('k:') else element[2:]}]"


def _key(element: str) -> JsonObject:
    """Return the keys of a list item, empty if *element* has none."""
    try:
        key_fields = orjson.loads(element[2:]) if element.startswith("k:") else {}
    except orjson.JSONDecodeError:
        return {}
    return key_fields if isinstance(key_fields, dict) else {}
