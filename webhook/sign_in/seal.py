"""Seals what a browser keeps for us: it can neither read nor change it, and what has one purpose opens for no other.

AES-256 in GCM, with keys that are derived from secrets which all replicas have in common. They are not derived from the
client secret: whoever has learned that cannot make an ID token, and must not be able to make a session either. A secret
of our own can also be replaced without signing anybody out, as its file holds several: the first seals, all open.
"""

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32


class BrokenSealError(Exception):
    """It was not sealed by us, for this purpose, with a secret that still counts."""


class Seal:
    """Seals for one purpose.

    Args:
        purpose: Tells keys apart: what one seals, no other opens.
        bound: What has to be the same where it is opened, without being in it.
        secrets_now: Returns the secrets that count now; at least one.
    """

    def __init__(self, purpose: bytes, bound: bytes, secrets_now: Callable[[], tuple[str, ...]]) -> None:
        self._purpose = purpose
        self._bound = bound
        self._secrets_now = secrets_now

    def close(self, content: bytes) -> str:
        """Return *content* sealed, in letters that may stand in a cookie."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        ciphertext = _cipher(self._purpose, self._secrets_now()[0]).encrypt(nonce, content, self._bound)
        return urlsafe_b64encode(nonce + ciphertext).decode().rstrip("=")

    def open(self, text: str) -> bytes:
        """Return what was sealed.

        Raises:
            BrokenSealError: Nothing that counts was.
        """
        try:
            raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        except ValueError as error:
            raise BrokenSealError from error
        for secret in self._secrets_now():
            try:
                return _cipher(self._purpose, secret).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], self._bound)
            except (InvalidTag, ValueError):  # the second: too short to be sealed at all
                continue
        raise BrokenSealError


@lru_cache(maxsize=64)
def _cipher(purpose: bytes, secret: str) -> AESGCM:
    return AESGCM(HKDF(SHA256(), _KEY_BYTES, salt=None, info=purpose).derive(secret.encode()))
