"""Whose client certificates a server accepts: authorities named in a file, or by whoever else knows them.

Asked again every few seconds, like the server's own certificate.

Source: serving.md 3.4.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cryptography import x509

from certs.context import CertificateError


class ClientAuthorities(Protocol):
    """Names the authorities of client certificates."""

    @property
    def check_seconds(self) -> float:
        """How long to wait before asking again."""
        ...

    async def read(self) -> bytes:
        """Return their certificates in PEM. Raises `CertificateError`: they cannot be had; the message says why."""
        ...


@dataclass(frozen=True, slots=True)
class AuthorityFile:
    """Authorities in a file, which may be replaced at any time.

    Args:
        path: PEM, one certificate or more.
        check_seconds: How often to read it.

    Raises:
        CertificateError: It cannot be used.
    """

    path: Path
    check_seconds: float

    def __post_init__(self) -> None:
        self._read()

    async def read(self) -> bytes:
        """Read the file."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> bytes:
        try:
            content = self.path.read_bytes()
            x509.load_pem_x509_certificates(content)
        except OSError as error:
            raise CertificateError(f"{self.path}: {error.strerror}") from error
        except ValueError as error:
            raise CertificateError(f"{self.path}: holds no certificate in PEM") from error
        return content
