"""The header that carries a bearer token, and what a token says of itself."""

import hashlib
from base64 import urlsafe_b64decode
from datetime import datetime

import orjson


def bearer_token(header: str) -> str:
    """Return the token in the value of an ``Authorization`` header; empty when there is none that could be one."""
    scheme, _, rest = header.partition(" ")
    token = rest.strip()
    return token if scheme.lower() == "bearer" and token.isprintable() and " " not in token else ""


def fingerprint(token: str) -> bytes:
    """Name a token without keeping it."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def may_be_good(token: str, audience: str, now: datetime) -> bool:
    """Say whether a token is a JWT that names *audience* and has not expired, by what it says itself.

    That proves nothing, since any client can write such a token; it only sorts out those that do not even say so.
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
