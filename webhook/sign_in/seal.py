"""Sealing of the data that a browser keeps for us: confidential, tamper-proof, and bound to one purpose.

AES-256 in GCM, with keys derived from secrets that all replicas share. They are not derived from the client secret: an
attacker who learns the client secret cannot issue an ID token, and must not be able to create a session. Our own secret
can also be rotated without signing users out, because its file holds several secrets: the first one seals, and any of
them opens.
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
    """The text was not sealed by us, for this purpose, with a valid secret."""


class Seal:
    """Seals for one purpose.

    Args:
        purpose: Separates keys: a seal of one purpose does not open for another.
        bound: Additional authenticated data: must be equal on opening, but is not part of the text.
        secrets_now: Returns the valid secrets, at least one.
    """

    def __init__(self, purpose: bytes, bound: bytes, secrets_now: Callable[[], tuple[str, ...]]) -> None:
        self._purpose = purpose
        self._bound = bound
        self._secrets_now = secrets_now

    def close(self, content: bytes) -> str:
        """Return *content* sealed, in characters that are valid in a cookie."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        ciphertext = _cipher(self._purpose, self._secrets_now()[0]).encrypt(nonce, content, self._bound)
        return urlsafe_b64encode(nonce + ciphertext).decode().rstrip("=")

    def open(self, text: str) -> bytes:
        """Return the sealed content.

        Raises:
            BrokenSealError: The seal is invalid.
        """
        try:
            raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        except ValueError as error:
            raise BrokenSealError from error
        for secret in self._secrets_now():
            try:
                return _cipher(self._purpose, secret).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], self._bound)
            except (InvalidTag, ValueError):  # ValueError: the text is too short for any sealed content
                continue
        raise BrokenSealError


@lru_cache(maxsize=64)
def _cipher(purpose: bytes, secret: str) -> AESGCM:
    return AESGCM(HKDF(SHA256(), _KEY_BYTES, salt=None, info=purpose).derive(secret.encode()))
