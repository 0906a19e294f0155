"""The TLS context of a listener, whose certificate can be replaced while it serves.

Loading a new pair into a context in use is dangerous: if the key does not match the certificate, the context stays
broken. So every pair gets a new context, and the listener's context hands each new connection to the current one.
Open connections are not affected.

The server requests client certificates once it has authorities to verify them against. The TLS library verifies them
and ends the handshake of a client with a bad certificate, so such a client is never treated as a client without a
certificate. That applies to every client, kube-apiserver included: if kube-apiserver has a client certificate for its
webhooks, one of the authorities here must have signed it.

A verified certificate may become invalid: it expires, and authorities are replaced, while connections stay open. So
its validity is checked with every request, and when an authority is removed, clients have to connect again. Adding an
authority invalidates nothing.

A front proxy, such as the aggregation layer of kube-apiserver, has a certificate signed by other authorities, and may
name any user in its headers. Its certificate identifies no user, and the certificate of a user identifies no front
proxy. The TLS library verifies both against one set of authorities. So the signature of a front proxy's certificate is
verified again, against the authorities of the front proxy alone. The verified chain of a user's certificate must
contain an authority of users: the signature alone does not identify a certificate that an intermediate authority of the
front proxy has signed.

Source: docs/specifications/serving.md 3.4, 3.6, 4.2 and 4.4.
"""

import _ssl
import binascii
import os
import re
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Final, Self, TypeAlias, cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from certs.authority import Leaf

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2: forward secrecy and authenticated encryption (AEAD). TLS 1.3 has no other suites."""

_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----([^-]*)-----END CERTIFICATE-----")
_Names: TypeAlias = tuple[tuple[tuple[str, str], ...], ...]


class CertificateError(Exception):
    """A certificate and key that cannot be served. The message gives the reason."""


class StaleClientError(Exception):
    """A client certificate that was valid when the client connected but is no longer. The message gives the reason."""


@dataclass(slots=True)
class _ClientAuthorities:
    """A set of trusted authorities. *current* becomes False once one of them is no longer trusted.

    Args:
        users: The authorities of users, in PEM.
        proxies: The authorities of the front proxy, in PEM. One that is also in *users* counts only as an authority of
            users.
        current: Whether all of them are still trusted.
    """

    users: bytes = b""
    proxies: bytes = b""
    current: bool = True

    @property
    def pem(self) -> bytes:
        """All of them, for the TLS library."""
        return self.users + (b"\n" if self.users and self.proxies else b"") + self.proxies

    @property
    def certificates(self) -> frozenset[tuple[bool, bytes]]:
        """The certificates of users (False) and proxies (True), independently of the line breaks in the PEM text."""
        users, proxies = certificate_bodies(self.users), certificate_bodies(self.proxies)
        return frozenset({*((False, body) for body in users), *((True, body) for body in proxies - users)})


def certificate_bodies(pem: bytes) -> frozenset[bytes]:
    """Return the certificates in a PEM text as base64 without line breaks."""
    return frozenset(b"".join(body.split()) for body in _CERTIFICATE.findall(pem))


class _Context(ssl.SSLContext):
    """A context that knows which authorities it trusts."""

    authorities: _ClientAuthorities


class ServerContext:
    """A listener's TLS context: TLS 1.2 (AEAD suites) or later, ALPN ``http/1.1``, certificate replaceable by `swap`.

    Client certificates are optional, and accepted only after `trust` has been called.

    Raises:
        CertificateError: The first pair cannot be served.
    """

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        self._authorities = _ClientAuthorities()
        self._earlier = [self._authorities]
        """The current set and the earlier ones of open connections. All of their authorities are still trusted."""
        self._current = _context(leaf, self._authorities)
        self._listener = _context(leaf, self._authorities)
        # OpenSSL calls this in every handshake, even when the client sends no server name.
        self._listener.sni_callback = self._use_current

    @property
    def listener(self) -> ssl.SSLContext:
        """The context to listen with. It never changes."""
        return self._listener

    @property
    def client_authorities(self) -> bytes:
        """The authorities of accepted client certificates of users, in PEM. Empty: none."""
        return self._authorities.users

    @property
    def proxy_authorities(self) -> bytes:
        """The authorities of certificates of the front proxy, in PEM. Empty: none."""
        return self._authorities.proxies

    def swap(self, leaf: Leaf) -> None:
        """Serve *leaf* from the next handshake on.

        Raises:
            CertificateError: *leaf* cannot be served. The pair in use is kept.
        """
        self._current = _context(leaf, self._authorities)
        self._leaf = leaf

    def trust(self, pem: bytes) -> None:
        """From now on, accept a user's client certificate only if one of these authorities has signed it.

        Args:
            pem: One or more certificates.

        Raises:
            CertificateError: *pem* contains no certificate. The authorities in use are kept.
        """
        self._trust(_ClientAuthorities(pem, self._authorities.proxies))

    def trust_proxies(self, pem: bytes) -> None:
        """Accept a front proxy's certificate only if one of these authorities has signed it. See `trust`."""
        self._trust(_ClientAuthorities(self._authorities.users, pem))

    def _trust(self, authorities: _ClientAuthorities) -> None:
        # First, because only this can fail: a PEM that cannot be loaded must not invalidate open connections.
        self._current = _context(self._leaf, authorities)
        # Each connection keeps the set it was verified against. A set that lost an authority is no longer current,
        # which ends its connections at their next request. One that only gained authorities remains current. Example:
        # from {A} to {A, B} all connections continue. From {A, B} to {B} those verified against a set with A end.
        for earlier in self._earlier:
            earlier.current = earlier.certificates <= authorities.certificates
        self._earlier = [*(earlier for earlier in self._earlier if earlier.current), authorities]
        self._authorities = authorities
        # OpenSSL decides in the initial context of a handshake whether to request a certificate. The authorities to
        # verify it against are those of the context that `_use_current` switches to.
        self._listener.verify_mode = ssl.CERT_OPTIONAL

    def _use_current(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current


@dataclass(frozen=True, slots=True)
class CertificateSubject:
    """The user that a client certificate names: the parts of the subject that Kubernetes reads."""

    common_name: str
    organizations: frozenset[str]

    @classmethod
    def of_client(cls, connection: ssl.SSLObject, now: datetime) -> Self | None:
        """Return the subject of the client's verified certificate, or None if it does not identify a user.

        Args:
            connection: To a listener of a `ServerContext`, after the handshake.
            now: Time of day, with time zone.

        Raises:
            StaleClientError: The certificate is no longer valid.
        """
        return cls._of(connection, now, of_proxy=False)

    @classmethod
    def of_proxy(cls, connection: ssl.SSLObject, now: datetime) -> Self | None:
        """Return the subject of a front proxy's verified certificate, or None if it is not one. See `of_client`."""
        return cls._of(connection, now, of_proxy=True)

    @classmethod
    def _of(cls, connection: ssl.SSLObject, now: datetime, *, of_proxy: bool) -> Self | None:
        certificate = connection.getpeercert()
        if not certificate:
            return None
        context = connection.context
        if not isinstance(context, _Context) or not context.authorities.current:
            raise StaleClientError("the authorities of client certificates have changed: reconnect")
        if connection.session_reused:  # verified in an earlier connection, against unknown authorities
            raise StaleClientError("a client certificate is not accepted in a resumed session: reconnect")
        if ssl.cert_time_to_seconds(str(certificate["notAfter"])) < now.timestamp():
            raise StaleClientError("the client certificate has expired")
        authorities = context.authorities
        if authorities.proxies or of_proxy:
            is_of_proxy = _is_of_proxy(connection.getpeercert(True) or b"", authorities.users, authorities.proxies)
            if is_of_proxy is not of_proxy:
                return None
            if not of_proxy and not _is_of_user(_verified_chain(connection), authorities.users):
                return None
        attributes = [attribute for names in cast(_Names, certificate.get("subject", ())) for attribute in names]
        common_names = [value for name, value in attributes if name == "commonName"]
        organizations = frozenset(value for name, value in attributes if name == "organizationName")
        return cls(common_names[-1] if common_names else "", organizations)


@lru_cache(maxsize=1024)
def _is_of_proxy(certificate: bytes, users: bytes, proxies: bytes) -> bool:
    """Return whether an authority of the front proxy has signed a verified certificate.

    An authority with the same key as an authority of users counts as an authority of users, even if it is also listed
    for the front proxy. Otherwise, any user whose certificate has an allowed name could impersonate any other user. The
    authority must have signed the certificate directly: intermediate authorities are not supported.

    Args:
        certificate: In DER.
        users: Authorities of users, in PEM.
        proxies: Authorities of the front proxy, in PEM.
    """
    if not proxies:
        return False
    leaf = x509.load_der_x509_certificate(certificate)
    return any(_is_issued_by(leaf, authority) for authority in usable_proxy_authorities(users, proxies))


def usable_proxy_authorities(users: bytes, proxies: bytes) -> list[x509.Certificate]:
    """Return the authorities of the front proxy that do not have the key of an authority of users.

    Args:
        users: Authorities of users, in PEM.
        proxies: Authorities of the front proxy, in PEM.
    """
    keys = {_key_of(authority) for authority in _authorities_in(users)}
    return [authority for authority in _authorities_in(proxies) if _key_of(authority) not in keys]


@lru_cache(maxsize=1024)
def _is_of_user(chain: tuple[bytes, ...], users: bytes) -> bool:
    """Return whether a verified chain contains an authority of users, or a certificate with the key of one.

    Args:
        chain: Certificates in DER, that of the client first.
        users: Authorities of users, in PEM.
    """
    keys = {_key_of(authority) for authority in _authorities_in(users)}
    return any(_key_of(x509.load_der_x509_certificate(certificate)) in keys for certificate in chain)


def _verified_chain(connection: ssl.SSLObject) -> tuple[bytes, ...]:
    """Return the verified chain of the client in DER. Python has a public method for it since 3.13."""
    if get_verified_chain := getattr(connection, "get_verified_chain", None):
        return tuple(get_verified_chain())
    chain = getattr(connection, "_sslobj").get_verified_chain() or ()  # noqa: B009 - private
    return tuple(certificate.public_bytes(_ssl.ENCODING_DER) for certificate in chain)


def _authorities_in(pem: bytes) -> Iterator[x509.Certificate]:
    """Yield the readable certificates of a PEM text. The TLS library has verified against the same text."""
    for body in certificate_bodies(pem):
        with suppress(ValueError):
            yield x509.load_der_x509_certificate(binascii.a2b_base64(body))


def _key_of(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _is_issued_by(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _context(leaf: Leaf, authorities: _ClientAuthorities) -> _Context:
    context = _Context(ssl.PROTOCOL_TLS_SERVER)
    context.authorities = authorities
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    # No session tickets: a resumed session would carry a client certificate past a change of authorities.
    context.options |= ssl.OP_NO_TICKET  # TLS 1.2
    context.num_tickets = 0  # TLS 1.3
    context.set_alpn_protocols(["http/1.1"])
    try:
        with _secret_file(leaf.chain_pem + leaf.key_pem) as path:
            context.load_cert_chain(path)
    except ssl.SSLError as error:
        raise CertificateError(f"certificate and key cannot be served: {_reason(error)}") from error
    if authorities.pem:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a trusted authority may be an intermediate one
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
    """Provide *content* as a file, the only form that the TLS library loads. On Linux, it exists in memory only."""
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
