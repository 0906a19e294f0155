"""Authorities that sign accepted client certificates, read from a file or another source.

The server reads the source again every few seconds, as it does with its own certificate.

Source: docs/specifications/serving.md 3.4.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cryptography import x509

from certs.context import CertificateError


class ClientAuthorities(Protocol):
    """Provides the authorities that sign client certificates."""

    @property
    def check_seconds(self) -> float:
        """Pause in seconds before the next `read`."""
        ...

    async def read(self) -> bytes:
        """Return their certificates in PEM.

        Raises:
            CertificateError: None are available. The message gives the reason.
        """
        ...


@dataclass(frozen=True, slots=True)
class AuthorityFile:
    """Authorities in a file, which may be replaced at any time.

    Args:
        path: PEM, one or more certificates.
        check_seconds: Poll interval of the file.

    Raises:
        CertificateError: The file cannot be read or holds no certificate.
    """

    path: Path
    check_seconds: float

    def __post_init__(self) -> None:
        self._read()  # a wrong path stops the server at its start instead of going unnoticed until the first client

    async def read(self) -> bytes:
        """Return the content of the file. Raises `CertificateError`."""
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
