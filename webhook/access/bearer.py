"""The header with a bearer token, and the unverified claims of a token."""

import hashlib
from base64 import urlsafe_b64decode
from datetime import datetime

import orjson


def bearer_token(header: str) -> str:
    """Return the token in the value of an ``Authorization`` header.

    Empty if the scheme is not Bearer, or if the token has a space or a non-printable character.
    """
    scheme, _, rest = header.partition(" ")
    token = rest.strip()
    return token if scheme.lower() == "bearer" and token.isprintable() and " " not in token else ""


def fingerprint(token: str) -> bytes:
    """Return a hash that identifies a token without storing it."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def may_be_good(token: str, audience: str, now: datetime) -> bool:
    """Return whether the unverified claims of a JWT name *audience* and an expiry after *now*.

    This proves nothing, because any client can write such a token. It only filters out tokens that cannot be valid.
    """
    parts = token.split(".")
    if len(parts) != 3 or not audience:
        return False
    try:
        claims = orjson.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return False
    if not isinstance(claims, dict):
        return False
    named, expires = claims.get("aud"), claims.get("exp")
    return (
        audience in (named if isinstance(named, list) else [named])
        and isinstance(expires, int | float)
        and expires > now.timestamp()
    )
