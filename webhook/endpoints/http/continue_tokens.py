"""Sealed continue tokens: the start of the next page, for one query and one state of the fleet.

The token is sealed, so a caller can use it neither with another query nor after the fleet has changed.

Replicas that observe the same state of the fleet accept each other's tokens if they share a private key: that of the
authority in their common Secret, or that of the mounted certificate. The key of the seal is derived from it and changes
with it. If each replica has its own key, only the replica that made a token accepts it. The others respond that it has
expired, and the caller starts again from the first page.

Source: docs/specifications/serving.md 3.2.
"""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Final, Self

_SEAL_BYTES: Final = 16
_PURPOSE: Final = b"harbormaster: tokens that continue a list"


class ContinueExpiredError(Exception):
    """The token belongs to another query or another state of the fleet, or is malformed."""


class Continuation:
    """Creates and parses tokens under one key.

    Args:
        key: Returns the current secret, the same on all servers that accept each other's tokens.
    """

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._key = key

    @classmethod
    def with_new_key(cls) -> Self:
        """Return a continuation that accepts only its own tokens."""
        key = secrets.token_bytes(32)
        return cls(lambda: key)

    def token(self, start: int, revision: str, query: bytes) -> str:
        """Return the token of the page that starts at *start*."""
        position = start.to_bytes(4)
        return urlsafe_b64encode(position + self._seal(position, revision, query)).decode()

    def start(self, token: str, revision: str, query: bytes) -> int:
        """Return the start of the page of *token*. The empty token is the first page.

        Raises:
            ContinueExpiredError: The token is not for this query and revision.
        """
        if not token:
            return 0
        try:
            raw = urlsafe_b64decode(token.encode("ascii"))
        except ValueError as error:
            raise ContinueExpiredError from error
        position, seal = raw[:4], raw[4:]
        if not hmac.compare_digest(seal, self._seal(position, revision, query)):
            raise ContinueExpiredError
        return int.from_bytes(position)

    def _seal(self, position: bytes, revision: str, query: bytes) -> bytes:
        text = b"\0".join((position, revision.encode(), query))
        return hmac.new(self._key(), text, hashlib.sha256).digest()[:_SEAL_BYTES]


def sealing_key(private_key: bytes) -> bytes:
    """Derive the key of the seal from a private key. The seal reveals nothing about the private key."""
    return hmac.new(private_key, _PURPOSE, hashlib.sha256).digest()
