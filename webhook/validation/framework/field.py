"""Field errors and field warnings, the findings of all admission rules.

A rule yields `FieldError` and `FieldWarning` and never raises, so that one answer lists every error. Messages are
plain text that starts with the offending value, if any. The phrase of the cause ("Invalid value: ") is prepended when
the answer is written.

Source: docs/specifications/serving.md 1.6; Kubernetes apimachinery ``pkg/util/validation/field``.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import pydantic

from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import printable, quote

SPEC: Final = FieldPath.of("spec")
LONGEST_WARNING: Final = 119
"""Maximum number of characters of a warning, including its path (placement-api.md 11)."""


class Cause(StrEnum):
    """Kinds of field errors, spelled as in ``details.causes[].reason``."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    DUPLICATE = "FieldValueDuplicate"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TYPE_INVALID = "FieldValueTypeInvalid"
    NOT_FOUND = "FieldValueNotFound"

    @property
    def phrase(self) -> str:
        """The phrase that every message of this cause starts with."""
        return _PHRASES[self]


_PHRASES: Final = {
    Cause.REQUIRED: "Required value",
    Cause.INVALID: "Invalid value",
    Cause.NOT_SUPPORTED: "Unsupported value",
    Cause.DUPLICATE: "Duplicate value",
    Cause.FORBIDDEN: "Forbidden",
    Cause.TOO_LONG: "Too long",
    Cause.TOO_MANY: "Too many",
    Cause.TYPE_INVALID: "Invalid value",
    Cause.NOT_FOUND: "Not found",
}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One reason to refuse an object.

    Args:
        field: The invalid field, as the user wrote it.
        cause: Kind of error.
        message: Plain text, without the phrase of the cause. Values are formatted by `quote`.
        rule: Id of the rule in the specifications, such as ``P-25``.
        parts: The fields that the verdict depends on. Empty: only *field*. An update that changes none of them may
            keep an old error (X-21), and a verdict that depends on a broken part is dropped.
    """

    field: FieldPath
    cause: Cause
    message: str
    rule: str = ""
    parts: tuple[FieldPath, ...] = ()

    def text(self) -> str:
        """Return the message with the phrase of the cause, safe to print on a terminal."""
        return printable(f"{self.cause.phrase}: {self.message}" if self.message else self.cause.phrase)

    def __str__(self) -> str:
        return f"{printable(str(self.field))}: {self.text()}"


@dataclass(frozen=True, slots=True)
class FieldWarning:
    """An allowed value that the user probably did not intend."""

    field: FieldPath
    message: str
    rule: str = ""

    def __str__(self) -> str:
        return printable(f"{self.field}: {self.message}")


def invalid(field: FieldPath, value: object, why: str, rule: str = "", parts: tuple[FieldPath, ...] = ()) -> FieldError:
    """Return the error of a value with invalid syntax or out of range."""
    return FieldError(field, Cause.INVALID, f"{quote(value)}: {why}", rule, parts)


def not_supported(field: FieldPath, value: object, supported: Iterable[str], rule: str = "") -> FieldError:
    """Return the error of a value that is not one of *supported*."""
    words = ", ".join(quote(word) for word in supported)
    return FieldError(field, Cause.NOT_SUPPORTED, f"{quote(value)}: supported values: {words}", rule)


def duplicate(field: FieldPath, value: object, why: str = "", rule: str = "") -> FieldError:
    """Return the error of a value that may appear only once."""
    return FieldError(field, Cause.DUPLICATE, f"{quote(value)}: {why}" if why else quote(value), rule)


def too_many(field: FieldPath, count: int, limit: int, rule: str = "") -> FieldError:
    """Return the error of a list with more than *limit* items."""
    return FieldError(field, Cause.TOO_MANY, f"{count}: must have at most {_items(limit)}", rule)


def too_long(field: FieldPath, value: str, limit: int, rule: str = "") -> FieldError:
    """Return the error for a text with more than *limit* characters."""
    return FieldError(field, Cause.TOO_LONG, f"{quote(value)}: may not be more than {limit} characters", rule)


def shape_errors(error: pydantic.ValidationError) -> list[FieldError]:
    """Convert the errors of the model parser to field errors, sorted by path.

    A list that is too short only because of its broken items is not reported.
    """
    details = error.errors(include_url=False)
    locations = [detail["loc"] for detail in details]
    return sorted(
        (_shape_error(detail) for detail in details if not _follows_from_items(detail, locations)), key=path_order
    )


def path_order(finding: FieldError | FieldWarning) -> tuple[Any, ...]:
    """Sort key: by path, with list positions as numbers, then by message."""
    parts = tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in finding.field.parts)
    return parts, finding.message


def path_of(location: Iterable[int | str]) -> FieldPath:
    """Return the path of a parser's location, without the marker that the parser adds for an invalid map key."""
    return FieldPath(tuple(part for part in location if part != "[key]"))


def _follows_from_items(detail: Any, locations: list[tuple[int | str, ...]]) -> bool:
    if detail["type"] != "too_short":
        return False
    location = detail["loc"]
    return any(len(other) > len(location) and other[: len(location)] == location for other in locations)


_WANTED_TYPES: Final = {
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dict_type": "an object",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "string_type": "a string",
    "string_sub_type": "a string",
    "string_unicode": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_or_string_type": "an integer or a string",
}
_BOUNDS: Final = {
    "greater_than_equal": ("ge", "at least"),
    "less_than_equal": ("le", "at most"),
    "greater_than": ("gt", "greater than"),
    "less_than": ("lt", "less than"),
}


def _shape_error(detail: Any) -> FieldError:
    field, kind, value, context = path_of(detail["loc"]), detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "missing":
        return FieldError(field, Cause.REQUIRED, "")
    if expected := _WANTED_TYPES.get(kind):
        return FieldError(field, Cause.TYPE_INVALID, f"{quote(value)}: must be {expected}")
    if kind in {"literal_error", "enum"}:
        if not isinstance(value, str):
            return FieldError(field, Cause.TYPE_INVALID, f"{quote(value)}: must be a string")
        return not_supported(field, value, _words(context.get("expected", "")))
    if kind == "too_long":
        return too_many(field, len(value), context["max_length"])
    if kind == "too_short":
        return FieldError(field, Cause.REQUIRED, f"must have at least {_items(context['min_length'])}")
    if kind == "string_too_long":
        return too_long(field, value, context["max_length"])
    if kind == "string_too_short":
        return FieldError(field, Cause.REQUIRED, f"must have at least {context['min_length']} characters")
    if bound := _BOUNDS.get(kind):
        return invalid(field, value, f"must be {bound[1]} {context[bound[0]]}")
    if kind == "string_pattern_mismatch":
        return invalid(field, value, f"must match {context['pattern']}")
    return invalid(field, value, _plain_words(detail["msg"]))


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"


def _words(expected: str) -> list[str]:
    """Split the parser's list of allowed values, such as ``'A', 'B' or 'C'``."""
    return re.findall(r"'([^']*)'", expected)


def _plain_words(message: str) -> str:
    text = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return text[:1].lower() + text[1:]
