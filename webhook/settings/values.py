"""Types of values in settings: their units, their bounds, and their form in the environment."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import SplitResult, urlsplit

from pydantic import BeforeValidator, Field

MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Unit:
    """Unit of a number, in the annotation of its field."""

    name: str


def split_list(text: str) -> tuple[str, ...]:
    """Return the items of a comma-separated text. An empty text is an empty list."""
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
    except ValueError:  # not a number, or too large
        return False


def check_url(url: str, example: str) -> str:
    """Return the URL of an external service unchanged. Empty: disabled.

    Args:
        url: URL with a scheme, a host and optionally a port, without user and fragment.
        example: Example of such a URL, for the message.

    Raises:
        ValueError: *url* is not such a URL. The message shows *example*.
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
    """Return a JSON value as written in the environment. None means an empty text."""
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
"""Marks a list, in its annotation, as comma-separated text."""
JSON: Final = BeforeValidator(_decode_text)
"""Marks a field, in its annotation, as JSON."""

Port = Annotated[int, Field(ge=0, le=65535)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
NamespacePattern = Annotated[str, Field(pattern=r"^[a-z0-9][-a-z0-9]*\*?$", max_length=63)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False), Unit("seconds")]
SecondsWithin = Annotated[float, Field(allow_inf_nan=False), Unit("seconds")]
"""Seconds within bounds that the field itself sets."""
Rate = Annotated[float, Field(ge=0.001, allow_inf_nan=False), Unit("per second")]
Bytes = Annotated[int, Field(gt=0), Unit("bytes")]
Words = Annotated[tuple[str, ...], COMMAS]
