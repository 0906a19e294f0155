"""The kinds of values that settings have: their units, their bounds, and how they are spelled in the environment."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import SplitResult, urlsplit

from pydantic import BeforeValidator, Field

MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Unit:
    """Says, in the annotation of a field, what its number counts."""

    name: str


def split_list(text: str) -> tuple[str, ...]:
    """Read what is separated by commas; an empty text is an empty list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _split_text(value: Any) -> Any:
    return split_list(value) if isinstance(value, str) else value


def _decode_text(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError(f"must be JSON: {error}") from error


def _has_usable_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:  # no number, or too large a one
        return False


def check_url(url: str, example: str) -> str:
    """Return the URL of an external service unchanged. Empty: disabled.

    Args:
        url: With a scheme, a host, perhaps a port, and no user and no fragment.
        example: Of such a URL, for the message.

    Raises:
        ValueError: It is no such URL.
    """
    if url:
        parts = urlsplit(url)
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.fragment
            or parts.username
            or not _has_usable_port(parts)
            or any(character.isspace() or not character.isprintable() for character in url)
        ):
            raise ValueError(f"must be a URL such as {example}")
    return url


def format_value(value: Any) -> str:
    """Write a value, as decoded from JSON, the way it is spelled in the environment; None is an empty text."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return str(value).removesuffix(".0")
        case [{}, *_]:
            return json.dumps(value)
        case [*parts]:
            return ",".join(parts)
        case _:
            return str(value)


COMMAS: Final = BeforeValidator(_split_text)
"""In the annotation of a list: its text is separated by commas."""
JSON: Final = BeforeValidator(_decode_text)
"""In an annotation: the text is JSON."""

Port = Annotated[int, Field(ge=0, le=65535)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
NamespacePattern = Annotated[str, Field(pattern=r"^[a-z0-9][-a-z0-9]*\*?$", max_length=63)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False), Unit("seconds")]
SecondsWithin = Annotated[float, Field(allow_inf_nan=False), Unit("seconds")]
"""Seconds within bounds that the field itself sets."""
Rate = Annotated[float, Field(ge=0.001, allow_inf_nan=False), Unit("per second")]
Bytes = Annotated[int, Field(gt=0), Unit("bytes")]
Words = Annotated[tuple[str, ...], COMMAS]
