"""Signatures of bodies with a shared secret.

Source: docs/specifications/upgrade-runs.md 13.4.
"""

import hmac
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

SIGNATURE: Final = "X-Harbormaster-Signature"
OPERATION: Final = "X-Harbormaster-Operation"
_SCHEME: Final = "sha256="


def sign(secret: str, body: bytes) -> str:
    """Return the value of the header `SIGNATURE` for a body."""
    return _SCHEME + hmac.new(secret.encode(), body, sha256).hexdigest()


def is_signature(text: str) -> bool:
    """Return whether the value of the header `SIGNATURE` is well-formed."""
    return re.fullmatch(_SCHEME + "[0-9a-f]{64}", text, re.ASCII) is not None


def is_signed(secrets: Sequence[str], body: bytes, text: str) -> bool:
    """Return whether *text* is the signature of *body* with one of *secrets*. The time does not reveal which one."""
    candidate = text.encode("utf-8", "surrogateescape")
    matches = False
    for secret in secrets:  # all secrets, without a break: the time must not reveal which one matches
        matches |= hmac.compare_digest(sign(secret, body).encode(), candidate)
    return matches
