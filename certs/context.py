"""The TLS context of a listener, whose certificate can be replaced while it serves.

Loading a new pair into a context in use is dangerous: when the key does not belong to the certificate,
the context stays broken. So every pair gets a context of its own, and the listener's context hands each
new connection to the one that is current. Connections already made go on untouched.

Clients may show a certificate of their own once there are authorities to check it against; until then none is asked
for. What counts is what the TLS library says of it: a certificate that it does not accept ends the handshake, so that
nobody with a bad one is ever taken for somebody with none. That holds for every client, kube-apiserver too: where it
has been given a client certificate for its webhooks, that has to be of an authority named here.

A verified certificate is not good for ever: it ends, and authorities are replaced, while connections stay open. So its
validity is asked for with every request, and when an authority is taken away the clients have to connect again. Where
others are added, everything stays good that was.

Source: serving.md 3.4, 4.2 and 4.4.
"""

import os
import re
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Self, TypeAlias, cast

from certs.authority import Leaf

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2: forward secrecy, and encryption that is authenticated as a whole; 1.3 has no others."""

_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----([^-]*)-----END CERTIFICATE-----")
_Names: TypeAlias = tuple[tuple[tuple[str, str], ...], ...]


class CertificateError(Exception):
    """A certificate and key that cannot be served; the message says why."""


class StaleClientError(Exception):
    """A client certificate that was good when the connection was made; the message says what has become of it."""


@dataclass(slots=True)
class _ClientAuthorities:
    """Whose client certificates are accepted; *current* ends when one of them is not any more."""

    pem: bytes = b""
    current: bool = True

    @property
    def certificates(self) -> frozenset[bytes]:
        """Each of them, however the text is laid out."""
        return frozenset(b"".join(body.split()) for body in _CERTIFICATE.findall(self.pem))


class _Context(ssl.SSLContext):
    """A context that knows whom it trusts."""

    authorities: _ClientAuthorities


class ServerContext:
    """A listener's TLS context: TLS 1.2 (AEAD suites) or later, ALPN ``http/1.1``, certificate replaceable by `swap`.

    Client certificates are accepted, and not required, once `trust` has named authorities.

    Raises:
        CertificateError: The first pair cannot be served.
    """

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        self._authorities = _ClientAuthorities()
        self._earlier = [self._authorities]
        """Those by which open connections may have been let in, and which are all accepted still."""
        self._current = _context(leaf, self._authorities)
        self._listener = _context(leaf, self._authorities)
        # Called on every handshake, also when the client sends no server name.
        self._listener.sni_callback = self._use_current

    @property
    def listener(self) -> ssl.SSLContext:
        """What to listen with; stays the same for ever."""
        return self._listener

    @property
    def client_authorities(self) -> bytes:
        """Whose client certificates are accepted, in PEM; empty: nobody's."""
        return self._authorities.pem

    def swap(self, leaf: Leaf) -> None:
        """Serve *leaf* from the next handshake on.

        Raises:
            CertificateError: It cannot be served; the pair in use stays in use.
        """
        self._current = _context(leaf, self._authorities)
        self._leaf = leaf

    def trust(self, pem: bytes) -> None:
        """Accept client certificates of these authorities, and of no others, from now on.

        Args:
            pem: One certificate or more.

        Raises:
            CertificateError: There is none in it; those in use stay in use.
        """
        authorities = _ClientAuthorities(pem)
        self._current = _context(self._leaf, authorities)
        for earlier in self._earlier:
            earlier.current = earlier.certificates <= authorities.certificates
        self._earlier = [*(earlier for earlier in self._earlier if earlier.current), authorities]
        self._authorities = authorities
        # Whether to ask is taken from the context that a connection begins with, whom to trust from the one it gets.
        self._listener.verify_mode = ssl.CERT_OPTIONAL

    def _use_current(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a client certificate names, as far as Kubernetes looks at it."""

    common_name: str
    organizations: frozenset[str]

    @classmethod
    def of_client(cls, connection: ssl.SSLObject, now: datetime) -> Self | None:
        """Return whom the client's verified certificate names; None: it has shown none.

        Args:
            connection: To a listener of a `ServerContext`; the handshake is done.
            now: Aware.

        Raises:
            StaleClientError: It counts no more.
        """
        certificate = connection.getpeercert()
        if not certificate:
            return None
        context = connection.context
        if not isinstance(context, _Context) or not context.authorities.current:
            raise StaleClientError("the authorities of client certificates have changed; connect again")
        if connection.session_reused:  # verified in an earlier connection, against nobody knows which authorities
            raise StaleClientError("a client certificate counts in a session of its own only; connect again")
        if ssl.cert_time_to_seconds(str(certificate["notAfter"])) < now.timestamp():
            raise StaleClientError("the client certificate has expired")
        attributes = [attribute for names in cast(_Names, certificate.get("subject", ())) for attribute in names]
        common_names = [value for name, value in attributes if name == "commonName"]
        organizations = frozenset(value for name, value in attributes if name == "organizationName")
        return cls(common_names[-1] if common_names else "", organizations)


def _context(leaf: Leaf, authorities: _ClientAuthorities) -> _Context:
    context = _Context(ssl.PROTOCOL_TLS_SERVER)
    context.authorities = authorities
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.options |= ssl.OP_NO_TICKET  # of TLS 1.2; those of 1.3:
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    try:
        with _secret_file(leaf.chain_pem + leaf.key_pem) as path:
            context.load_cert_chain(path)
    except ssl.SSLError as error:
        raise CertificateError(f"certificate and key cannot be served: {_reason(error)}") from error
    if authorities.pem:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # what is named as trusted need not be a root
        try:
            context.load_verify_locations(cadata=authorities.pem.decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError) as error:
            reason = _reason(error) if isinstance(error, ssl.SSLError) else "no text"
            raise CertificateError(f"authorities of client certificates: no certificate in PEM ({reason})") from error
    return context


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")


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
