"""Is a text the address of a server? One check for all that users name servers by; what it may be differs by place."""

from collections.abc import Collection
from typing import Final
from urllib.parse import SplitResult, urlsplit

_BEYOND_THE_HOST: Final = frozenset("@?#")


def check_address(
    text: str, expected: str, *, schemes: Collection[str] = ("https", "http"), bare: bool = True
) -> SplitResult:
    """Return the parts of a URL that names a server.

    Args:
        text: As the user wrote it.
        expected: What is said about a text that cannot be used.
        schemes: Those that can be.
        bare: Host and port are all of it, but for a slash at the end; else there may be a user, a path and a query.

    Raises:
        ValueError: It cannot be used; the message says why, without repeating the text.
    """
    parts = urlsplit(text)
    port = parts.port
    beyond = parts.path.strip("/") or _BEYOND_THE_HOST & set(text) or port == 0
    if parts.scheme not in schemes or not parts.hostname or not text.isprintable() or " " in text or (bare and beyond):
        raise ValueError(expected)
    return parts
