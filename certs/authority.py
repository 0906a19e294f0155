"""The certificate authority of one installation and the leaves it signs.

Nothing here reads a clock or a file. Apart from random keys and serial numbers, results depend only on the arguments.

Source: docs/specifications/serving.md 4.2 and 4.3.
"""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final, Self, TypeAlias

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.lifetimes import AUTHORITY_LIFE, LEAF_LIFE

CLOCK_SKEW: Final = timedelta(hours=1)
"""Maximum backdating of authorities, for clients with a slow clock. At most a tenth of their life."""

SERIAL_BITS: Final = 127
"""A positive number of at most 16 octets. RFC 5280 allows 20."""

UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""Exceptions on a malformed certificate or key. Many are raised only when a field is accessed."""

SHORTEST_RSA_BITS: Final = 2048
CURVES: Final = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
"""Keys that every client accepts. kube-apiserver cannot read other curves, and OpenSSL refuses shorter RSA keys."""

AuthorityKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class Leaf:
    """A server certificate with its key.

    Args:
        chain_pem: The certificate, followed by the chain to its authority.
        key_pem: Private key.
        not_before: Start of its validity.
        not_after: End of its validity.
        signed: Time of signing. Later than *not_before* if the certificate is backdated.
    """

    chain_pem: bytes
    key_pem: bytes = field(repr=False)
    not_before: datetime
    not_after: datetime
    signed: datetime

    @property
    def life(self) -> timedelta:
        """Its lifetime, counted from the time of signing."""
        return self.not_after - self.signed

    @property
    def issuer(self) -> str:
        """The issuer's common name, or its whole name if that has no common name."""
        return _common_name(x509.load_pem_x509_certificate(self.chain_pem).issuer)


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority with its key, from `new` or `load`."""

    certificate: x509.Certificate
    _key: AuthorityKey = field(repr=False)

    @classmethod
    def new(cls, now: datetime, generation: int = 1, life: timedelta = AUTHORITY_LIFE) -> Self:
        """Create a self-signed P-256 authority. It is valid from slightly before *now*, for clients with a slow clock.

        Args:
            now: Time of day, with time zone.
            generation: Counts rollovers. Part of the name, which differs between any two authorities.
            life: Lifetime.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        name = _name(f"harbormaster-ca-{generation}-{identifier.digest.hex()[:8]}")
        since = now - min(CLOCK_SKEW, life / 10)
        certificate = (
            _builder(name, name, key.public_key(), since, now + life)
            .add_extension(x509.BasicConstraints(ca=True, path_length=1), critical=True)
            .add_extension(_key_usage(certificates=True), critical=True)
            .add_extension(identifier, critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, certificate_pem: bytes, key_pem: bytes) -> Self:
        """Read a stored authority, either ours or the operator's: P-256, P-384, P-521, or RSA of at least 2048 bits.

        Raises:
            ValueError: The certificate and the key are not a usable authority. The message gives the reason.
        """
        try:
            certificate = x509.load_pem_x509_certificate(certificate_pem)
        except UNREADABLE as error:
            raise ValueError("tls.crt has no certificate in PEM") from error
        try:
            key = load_pem_private_key(key_pem, password=None)
        except UNREADABLE as error:  # TypeError: it is encrypted
            raise ValueError("tls.key has no private key in PEM that can be read without a password") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise ValueError(f"tls.key is of type {type(key).__name__}, must be EC or RSA")  # noqa: TRY004 - a value
        candidate = cls(certificate, key)
        try:
            reason = candidate._unfit()
        except UNREADABLE as error:
            raise ValueError(f"tls.crt cannot be read: {error}") from error
        if reason:
            raise ValueError(reason)
        return candidate

    @property
    def pem(self) -> bytes:
        """The certificate for clients to trust."""
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key, not encrypted."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def name(self) -> str:
        """The subject, formatted by `name_of`."""
        return name_of(self.certificate)

    @property
    def not_before(self) -> datetime:
        """Start of the validity."""
        return self.certificate.not_valid_before_utc

    @property
    def not_after(self) -> datetime:
        """End of the validity."""
        return self.certificate.not_valid_after_utc

    def issue(
        self,
        dns_names: Iterable[str],
        ips: Iterable[str],
        now: datetime,
        *,
        life: timedelta = LEAF_LIFE,
        above: Sequence[x509.Certificate] = (),
    ) -> Leaf:
        """Sign a server certificate with a new key. It never expires after the authority.

        Its validity starts with the authority's. A later start would not protect any client. If the server's clock is
        fast, clients would refuse a certificate that is not valid yet.

        Args:
            dns_names: Subject alternative names. Internationalized names in their ASCII form.
            ips: IP addresses that clients may connect to.
            now: Time of day, with time zone.
            life: Lifetime.
            above: Certificates to serve after the leaf, such as a cross certificate for clients that trust an earlier
                authority.

        Raises:
            ValueError: A name or address is not valid in a certificate, none is given, or the authority has expired.
        """
        names: list[x509.GeneralName] = [*map(_dns_name, dns_names), *(x509.IPAddress(ip_address(ip)) for ip in ips)]
        if not names:
            raise ValueError("a server certificate must have at least one DNS name or IP address")
        if now >= self.not_after:
            raise ValueError(f"the authority {self.name} expired at {self.not_after:%Y-%m-%dT%H:%M:%SZ}")
        key = ec.generate_private_key(ec.SECP256R1())
        signer = self._identifier
        certificate = (
            _builder(
                _name("harbormaster"),
                self.certificate.subject,
                key.public_key(),
                self.not_before,
                min(now + life, self.not_after),
            )
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(_key_usage(certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Leaf(
            chain_pem=b"".join(one.public_bytes(Encoding.PEM) for one in (certificate, *above)),
            key_pem=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            not_before=certificate.not_valid_before_utc,
            not_after=certificate.not_valid_after_utc,
            signed=now,
        )

    def vouch_for(self, successor: "Authority") -> x509.Certificate | None:
        """Sign the name and the key of another authority, so that clients that trust only this one accept its leaves.

        The cross certificate allows leaves only, no further authorities, and expires with this authority.

        Returns:
            The cross certificate. None means that this authority must not sign another authority (``pathlen:0``).
        """
        if self._path_length == 0:
            return None
        key = successor.certificate.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey)
        return (
            x509.CertificateBuilder()
            .subject_name(successor.certificate.subject)
            .issuer_name(self.certificate.subject)
            .public_key(key)
            .serial_number(secrets.randbits(SERIAL_BITS) or 1)
            .not_valid_before(successor.not_before)
            .not_valid_after(max(self.not_after, successor.not_before + timedelta(seconds=1)))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(certificates=True), critical=True)
            .add_extension(successor._identifier, critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._identifier), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )

    @property
    def _identifier(self) -> x509.SubjectKeyIdentifier:
        try:
            return self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        except x509.ExtensionNotFound:  # the operator's authority may lack the extension
            return x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())

    def _unfit(self) -> str:
        """Return why clients would reject this certificate and key as an authority. Empty: they accept it."""
        if not is_readable(self.certificate):
            return "tls.crt is damaged: its names or its validity cannot be read"
        if isinstance(self._key, rsa.RSAPrivateKey) and self._key.key_size < SHORTEST_RSA_BITS:
            return f"tls.key has {self._key.key_size} bits, an RSA key must have at least {SHORTEST_RSA_BITS}"
        if isinstance(self._key, ec.EllipticCurvePrivateKey) and not isinstance(self._key.curve, CURVES):
            return f"tls.key is on the curve {self._key.curve.name}, must be on P-256, P-384 or P-521"
        if _public(self._key.public_key()) != _public(self.certificate.public_key()):
            return "tls.key does not match tls.crt"
        if self._path_length == _NO_AUTHORITY:
            return "tls.crt is not a certificate authority: its basic constraints lack CA:TRUE"
        try:
            usage = self.certificate.extensions.get_extension_for_class(x509.KeyUsage).value
        except x509.ExtensionNotFound:
            return ""
        return "" if usage.key_cert_sign else "tls.crt is not a certificate authority: its key usage lacks keyCertSign"

    @property
    def _path_length(self) -> int | None:
        """The maximum number of authorities below it, or `_NO_AUTHORITY`. None: unlimited."""
        try:
            basic = self.certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        except x509.ExtensionNotFound:
            return _NO_AUTHORITY
        return basic.path_length if basic.ca else _NO_AUTHORITY


_NO_AUTHORITY: Final = -1


def is_readable(certificate: x509.Certificate) -> bool:
    """Return whether the names and the validity of a certificate, which are parsed on access, can be read."""
    try:
        _ = certificate.subject, certificate.issuer, certificate.not_valid_before_utc, certificate.not_valid_after_utc
    except UNREADABLE:
        return False
    return True


def name_of(certificate: x509.Certificate) -> str:
    """Return the common name of a certificate, or its whole subject if that has no common name."""
    return _common_name(certificate.subject)


def _common_name(name: x509.Name) -> str:
    names = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else name.rfc4514_string()


def _public(key: object) -> bytes:
    assert hasattr(key, "public_bytes")
    public_key: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return public_key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, not_before: datetime, not_after: datetime
) -> x509.CertificateBuilder:
    # X.509 counts whole seconds. Both instants are truncated, so that a leaf never outlives its authority by a
    # fraction.
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(secrets.randbits(SERIAL_BITS) or 1)
        .not_valid_before(not_before.replace(microsecond=0))
        .not_valid_after(not_after.replace(microsecond=0))
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _dns_name(name: str) -> x509.DNSName:
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise ValueError(f"DNS name {name!r} is not ASCII") from error


def _key_usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=certificates,
        crl_sign=certificates,
        encipher_only=False,
        decipher_only=False,
    )
