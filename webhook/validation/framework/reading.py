"""Read an object through its model, even if parts of it are broken.

A broken part must not hide errors elsewhere. Each value that the model refuses is reported, and dropped if its field is
optional, otherwise replaced by the smallest valid value. The object is then read again, so that the rules between
fields still check its other parts. Findings about a replaced part, or about a field that contains one, are dropped. A
list that is too long is cut before the object is read: that is one error, and the items beyond the limit cost nothing.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Generic, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

import orjson
import pydantic
from pydantic.fields import FieldInfo

from scorer.api.meta import ApiModel, JsonObject, without_nulls
from scorer.api.values.field_path import FieldPath
from webhook.validation.framework.field import Cause, FieldError, FieldWarning, path_of, shape_errors, too_many

Finding: TypeAlias = FieldError | FieldWarning
Model = TypeVar("Model", bound=ApiModel)

DEEPEST: Final = 100
"""Maximum nesting depth: far more than any real object has, and little enough for recursive functions."""
_MOST_ROUNDS: Final = 4
"""Maximum number of rounds of reading and repair. A repair may reveal errors that the broken part has hidden."""
_MOST_MISTAKES: Final = 200
"""Maximum number of errors of an object that is repaired. No answer shows more."""
_MOST_VALUES: Final = 250
"""Number of JSON values to read of an object that has more errors than that. Some of its errors are then reported."""


@dataclass(frozen=True, slots=True)
class PartialObject(Generic[Model]):
    """The readable parts of an object.

    Args:
        view: The object with its broken parts replaced. None: unknown, because the object cannot be repaired.
        errors: The errors of the model.
        broken: The paths of the replaced parts.
    """

    view: Model | None
    errors: tuple[FieldError, ...] = ()
    broken: tuple[FieldPath, ...] = field(default=())

    def trusted(self, findings: Iterable[Finding]) -> Iterable[Finding]:
        """Return *findings* without those about broken parts and about fields that contain them."""
        return self._trusted(findings) if self.broken else findings

    def _trusted(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        broken = {bad.parts for bad in self.broken}
        around = {parts[:length] for parts in broken for length in range(len(parts) + 1)}
        for finding in findings:
            parts = (finding.parts if isinstance(finding, FieldError) else ()) or (finding.field,)
            # A field that must be absent is a mistake even if it has a broken part.
            forbidden = isinstance(finding, FieldError) and finding.cause is Cause.FORBIDDEN
            if not any(_is_within(part, broken) or (not forbidden and part.parts in around) for part in parts):
                yield finding


_NO_RULES: Final[Mapping[str, str]] = {}


def read_object(
    model: type[Model], document: Mapping[str, Any], rules: Mapping[str, str] = _NO_RULES
) -> PartialObject[Model]:
    """Read *document* as *model*.

    ``status`` and ``managedFields`` are ignored, because they are not part of the user's desired state.

    Args:
        model: The model of the kind.
        document: The object.
        rules: Ids of the rules that the model enforces, by path. A list position or map key is ``*``. An error gets
            the id of the longest path here that leads to it.
    """
    errors: list[FieldError] = []
    limits = _limits_of(model)
    document = wish(document)
    document = document if limits is None else _shortened(document, limits, FieldPath(), errors, rules)
    broken = [error.field for error in errors]
    try:
        return PartialObject(model.read(document), tuple(errors), tuple(broken))
    except pydantic.ValidationError as error:
        return _read_around(model, document, error, rules, errors, broken)
    except (OverflowError, TypeError) as error:  # integers beyond any float, keys that are not strings
        return PartialObject(None, (FieldError(FieldPath(), Cause.INVALID, f"must be JSON: {error}"),), (FieldPath(),))


def wish(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the user's desired state: *document* without ``status`` and ``managedFields``."""
    if "status" in document:
        document = {key: value for key, value in document.items() if key != "status"}
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and "managedFields" in metadata:
        remaining = {key: value for key, value in metadata.items() if key != "managedFields"}
        document = {**document, "metadata": remaining}
    return document


def _read_around(
    model: type[Model],
    document: Mapping[str, Any],
    error: pydantic.ValidationError,
    rules: Mapping[str, str],
    errors: list[FieldError],
    broken: list[FieldPath],
) -> PartialObject[Model]:
    """Read *document* despite *error*, and append further findings to *errors* and *broken*.

    If the document has more than `_MOST_MISTAKES` errors, only its start is read, and the result has no view.
    """
    if error.error_count() > _MOST_MISTAKES:
        try:
            model.read(_beginning(document, [_MOST_VALUES]))
        except pydantic.ValidationError as found:
            errors.extend(_new_errors(found, broken, rules))
        return PartialObject(None, tuple(errors), tuple(broken))
    patched: Any = _own_copy(document)
    for _ in range(_MOST_ROUNDS):
        try:
            return PartialObject(model.read(patched), tuple(errors), tuple(broken))
        except pydantic.ValidationError as found:
            error = found
        errors.extend(_new_errors(error, broken, rules))
        details = error.errors(include_url=False)
        broken.extend(path_of(detail["loc"]) for detail in details)
        repaired = [_repair(model, patched, detail) for detail in details]
        if not all(repaired):
            break
    return PartialObject(None, tuple(errors), tuple(broken))


@dataclass(frozen=True, slots=True)
class _Limits:
    """Length limits of the lists and maps in a part of a model.

    Args:
        most: The maximum number of items of a list, or of members of a map.
        members: The limits in an object's members, by name.
        items: The limits in every item of a list, or in every value of a map.
    """

    most: float
    members: Mapping[str, "_Limits"]
    items: "_Limits | None"


@lru_cache(maxsize=256)
def _limits_of(model: type[ApiModel]) -> _Limits | None:
    members = {
        alias: limits for alias, info in _by_alias(model).items() if (limits := _limits(_annotated(info))) is not None
    }
    return _Limits(math.inf, members, None) if members else None


def _limits(annotation: Any) -> _Limits | None:
    bare = _bare(annotation)
    if isinstance(bare, type) and issubclass(bare, ApiModel):
        return _limits_of(bare)
    origin, arguments = get_origin(bare), get_args(bare)
    if origin not in {tuple, list, dict, Mapping}:
        return None
    items = _limits(arguments[1] if origin in {dict, Mapping} else arguments[0])
    most = min(_bounds(annotation, "max_length"), default=math.inf)
    return _Limits(most, {}, items) if most < math.inf or items is not None else None


def _shortened(value: Any, limits: _Limits, at: FieldPath, errors: list[FieldError], rules: Mapping[str, str]) -> Any:
    """Return *value* with lists and maps cut to the length that the model allows. Errors are appended to *errors*."""
    if not isinstance(value, dict | list):
        return value
    if len(value) > limits.most:
        most = int(limits.most)
        errors.append(too_many(at, len(value), most, _rule_of(at, rules)))
        return value[:most] if isinstance(value, list) else dict(islice(value.items(), most))
    if isinstance(value, list):
        if limits.items is None:
            return value
        items = [_shortened(item, limits.items, at / index, errors, rules) for index, item in enumerate(value)]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    below = limits.members if limits.items is None else dict.fromkeys(value, limits.items)
    parts = {
        name: _shortened(value[name], inner, at / name, errors, rules) for name, inner in below.items() if name in value
    }
    return {**value, **parts} if any(part is not value[name] for name, part in parts.items()) else value


def _new_errors(
    error: pydantic.ValidationError, broken: Sequence[FieldPath], rules: Mapping[str, str]
) -> Iterator[FieldError]:
    broken_parts = {bad.parts for bad in broken}
    for found in shape_errors(error):
        if _is_within(found.field, broken_parts):
            continue
        yield replace(found, rule=_rule_of(found.field, rules)) if rules else found


def _is_within(path: FieldPath, broken: Set[tuple[str | int, ...]]) -> bool:
    """Return whether *path* is a broken part or inside one. Looks up prefixes: there may be thousands of parts."""
    return any(path.parts[:length] in broken for length in range(len(path.parts) + 1))


def _rule_of(path: FieldPath, rules: Mapping[str, str]) -> str:
    words = ["*" if isinstance(part, int) else part for part in path.parts]
    for length in range(len(words), 0, -1):
        if rule := rules.get(".".join(words[:length])):
            return rule
    return ""


def _own_copy(document: Mapping[str, Any]) -> Any:
    """Return a deep copy to repair: the document itself is shared with the other steps of the review."""
    try:
        text = orjson.dumps(document)
    except orjson.JSONEncodeError:
        return without_nulls(document)
    copy = orjson.loads(text)
    return without_nulls(copy) if b"null" in text else copy  # a search in the text is much faster than a walk


def _beginning(value: Any, budget: list[int]) -> Any:
    budget[0] -= 1
    if isinstance(value, dict):
        return {key: _beginning(item, budget) for key, item in value.items() if budget[0] > 0}
    if isinstance(value, list):
        remaining = []
        for item in value:
            if budget[0] <= 0:
                break
            remaining.append(_beginning(item, budget))
        return remaining
    return value


def _repair(model: type[ApiModel], document: Any, detail: Any) -> bool:
    """Replace or remove the value of one parser error, or shorten a long list. Return whether that was possible."""
    location = [part for part in detail["loc"] if part != "[key]"]
    if not location:
        return False
    holder, last = document, location[-1]
    annotation: Any = model
    for part in location[:-1]:
        annotation = _below(annotation, part)[0]
        try:
            holder = holder[part]
        except (KeyError, IndexError, TypeError):
            return True  # a repair of a field above has replaced it
    field_type, optional = _below(annotation, last)
    if field_type is None:
        return False
    try:
        if detail["type"] == "too_long" and isinstance(holder[last], list):
            holder[last] = holder[last][: detail["ctx"]["max_length"]]
        elif "[key]" in detail["loc"] or optional:
            holder.pop(last, None)
        else:
            holder[last] = _smallest(field_type)
    except (KeyError, IndexError, TypeError):
        return True
    return True


def _below(annotation: Any, part: str | int) -> tuple[Any, bool]:
    """Return the type of a member or item, and whether it is optional. (None, False): unknown."""
    annotation = _bare(annotation)
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        info = _by_alias(annotation).get(str(part))
        return (_annotated(info), not info.is_required()) if info else (None, False)
    arguments = get_args(annotation)
    if get_origin(annotation) in {tuple, list} and isinstance(part, int):
        return arguments[0], False
    if get_origin(annotation) in {dict, Mapping} and len(arguments) == 2:
        return arguments[1], False
    return None, False


@lru_cache(maxsize=256)
def _by_alias(model: type[ApiModel]) -> dict[str, FieldInfo]:
    return {info.alias or name: info for name, info in model.model_fields.items()}


def _annotated(info: FieldInfo) -> Any:
    return Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation


def _bare(annotation: Any) -> Any:
    """Strip Annotated and the None of an optional type."""
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation = get_args(annotation)[0]
        elif origin in {Union, UnionType}:
            annotation = next((part for part in get_args(annotation) if part is not NoneType), NoneType)
        else:
            return annotation


def _smallest(annotation: Any) -> Any:
    """Return the smallest JSON value that is valid for a type of the models."""
    bound = _least(annotation)
    bare = _bare(annotation)
    origin = get_origin(bare)
    if origin is Literal:
        return get_args(bare)[0]
    if origin in {tuple, list}:
        return [_smallest(get_args(bare)[0]) for _ in range(bound)]
    if isinstance(bare, type) and issubclass(bare, ApiModel):
        required = {alias: info for alias, info in _by_alias(bare).items() if info.is_required()}
        return {alias: _smallest(_annotated(info)) for alias, info in required.items()}
    if isinstance(bare, type) and issubclass(bare, StrEnum):
        return next(iter(bare)).value
    plain: dict[Any, Any] = {bool: False, int: bound, float: 0.0, str: "x" * bound, date: "1970-01-01"}
    return plain.get(bare, {})


def _least(annotation: Any) -> int:
    """Return the lower bound of a number or a length, 0 without one."""
    return max((0, *_bounds(annotation, "ge"), *_bounds(annotation, "min_length")))


def _bounds(annotation: Any, name: str) -> Iterator[int]:
    """Yield the integers that the metadata of a type has under *name*."""
    metadata = list(get_args(annotation)[1:]) if get_origin(annotation) is Annotated else []
    while metadata:
        item = metadata.pop()
        if isinstance(item, FieldInfo):
            metadata.extend(item.metadata)
        value = getattr(item, name, None)
        if isinstance(value, int):
            yield value


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether *value* nests deeper than *levels*. Not recursive, because its input may be of any depth."""
    level = [value]
    for _ in range(levels):
        level = [
            item
            for container in level
            for item in (container.values() if type(container) is dict else container)
            if type(item) is dict or type(item) is list
        ]
        if not level:
            return False
    return True


def has_more_values(value: Any, most: int) -> bool:
    """Return whether *value*, an object or a list, contains more than *most* JSON values. Stops counting above that."""
    pending, count = [value], 0
    while pending:
        container = pending.pop()
        count += len(container)
        if count > most:
            return True
        items = container.values() if type(container) is dict else container
        pending += [item for item in items if item and (type(item) is dict or type(item) is list)]
    return False


def value_at(document: JsonObject, path: FieldPath) -> object:
    """Return the value at *path*, or None if it does not exist."""
    value: Any = document
    for part in path.parts:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value
