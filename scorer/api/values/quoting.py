"""Users' values in our messages: short, and without characters that control a terminal."""

import re
from typing import Final

from scorer.api.unstructured.json_object import dump_json

LONGEST_QUOTE: Final = 64
"""Maximum number of characters of a value that a message repeats."""

LONGEST_NAME: Final = 256
"""Maximum number of characters of a name that a message repeats. No valid name is longer."""

LONGEST_LINE: Final = 4096
"""Maximum number of characters of one line of a message, and of one value in a report."""

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Replace what could control a terminal or break a header: control characters, bidi controls, lone surrogates."""
    return text if text.isascii() and text.isprintable() else _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def shortened(text: str, most: int = LONGEST_LINE) -> str:
    """Return *text* truncated to *most* characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 member`` and ``2 members``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_share(count: int, total: int, noun: str) -> str:
    """Return a part of a total as a subject with its verb, such as ``1 of 3 nodes is`` and ``0 of 3 nodes are``."""
    return f"{count} of {format_count(total, noun)} {'is' if 1 in (count, total) else 'are'}"


def quote(value: object) -> str:
    """Write *value* as JSON for a message: printable, and truncated to 64 characters without its quotes."""
    if isinstance(value, str) and len(value) > LONGEST_QUOTE:
        value = value[: LONGEST_QUOTE - 3] + "..."
    try:
        text = dump_json(value).decode()
    except (TypeError, OverflowError, RecursionError):
        text = f"a value of type {type(value).__name__}"
    if len(text) > LONGEST_QUOTE + 2:
        text = text[: LONGEST_QUOTE - 3] + "..."
    return printable(text)
