"""The TLS context of a listener, whose certificate can be replaced while it serves.

Loading a new pair into a context in use is dangerous: when the key does not belong to the certificate,
the context stays broken. So every pair gets a context of its own, and the listener's context hands each
new connection to the one that is current. Connections already made go on untouched.

Source: serving.md 4.2 and 4.4.
"""

import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from certs.authority import Leaf


class CertificateError(Exception):
    """A certificate and key that cannot be served; the message says why."""


class ServerContext:
    """A listener's TLS context: TLS 1.2 or later, ALPN ``http/1.1``, certificate replaceable by `swap`.

    Raises:
        CertificateError: The first pair cannot be served.
    """

    def __init__(self, leaf: Leaf) -> None:
        self._current = _context(leaf)
        self._listener = _context(leaf)
        # Called on every handshake, also when the client sends no server name.
        self._listener.sni_callback = self._use_current

    @property
    def listener(self) -> ssl.SSLContext:
        """What to listen with; stays the same for ever."""
        return self._listener

    def swap(self, leaf: Leaf) -> None:
        """Serve *leaf* from the next handshake on.

        Raises:
            CertificateError: It cannot be served; the pair in use stays in use.
        """
        self._current = _context(leaf)

    def _use_current(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current


def _context(leaf: Leaf) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    try:
        with _secret_file(leaf.chain_pem + leaf.key_pem) as path:
            context.load_cert_chain(path)
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).lower().replace("_", " ")
        raise CertificateError(f"certificate and key cannot be served: {reason}") from error
    return context


@contextmanager
def _secret_file(content: bytes) -> Iterator[Path]:
    """Lend *content* as a file, which is the only form the TLS library loads; in memory where the system can."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("leaf", os.MFD_CLOEXEC)
        try:
            _write_all(descriptor, content)
            yield Path(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
    else:
        with tempfile.TemporaryDirectory(prefix="harbormaster-") as folder:  # mode 0700
            path = Path(folder, "leaf.pem")
            path.touch(mode=0o600)
            path.write_bytes(content)
            yield path


def _write_all(descriptor: int, content: bytes) -> None:
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(content)
