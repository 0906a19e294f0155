"""The certificate authority of one installation and the leaves it signs.

Nothing here reads a clock or touches a file; apart from random keys and serial numbers, results depend on the
arguments alone.

Source: serving.md 4.2.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE: Final = timedelta(days=365)
LEAF_LIFE: Final = timedelta(days=7)
CLOCK_SKEW: Final = timedelta(hours=1)
"""How far back ``notBefore`` is dated, for clients whose clocks are slow."""

SERIAL_BITS: Final = 127
"""A positive number of at most 16 octets; RFC 5280 allows 20."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A server certificate with its key, as PEM."""

    chain_pem: bytes
    key_pem: bytes = field(repr=False)
    not_before: datetime
    not_after: datetime


@dataclass(frozen=True, slots=True)
class Authority:
    """A self-signed P-256 authority; create one with `new`."""

    certificate: x509.Certificate
    _key: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def new(cls, now: datetime, generation: int = 1) -> Self:
        """Create an authority that is valid for a year from *now*.

        Args:
            now: Aware.
            generation: Counts rollovers; part of the name, which a digest of the key makes unique.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        name = _name(f"harbormaster-ca-{generation}-{identifier.digest.hex()[:8]}")
        certificate = (
            _builder(name, name, key.public_key(), now, now + AUTHORITY_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=1), critical=True)
            .add_extension(_key_usage(certificates=True), critical=True)
            .add_extension(identifier, critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @property
    def pem(self) -> bytes:
        """The certificate for clients to trust."""
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def name(self) -> str:
        """The common name."""
        return str(self.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)

    @property
    def not_before(self) -> datetime:
        """Start of the validity."""
        return self.certificate.not_valid_before_utc

    @property
    def not_after(self) -> datetime:
        """End of the validity."""
        return self.certificate.not_valid_after_utc

    def issue(self, dns_names: Iterable[str], ips: Iterable[str], now: datetime) -> Leaf:
        """Sign a server certificate with a new key, valid for 7 days but never longer than the authority.

        Args:
            dns_names: Subject alternative names; internationalized names in their ASCII form.
            ips: IP addresses that clients may connect to.
            now: Aware.

        Raises:
            ValueError: A name or address is not valid in a certificate, none is given, or the authority has expired.
        """
        names: list[x509.GeneralName] = [*map(_dns_name, dns_names), *(x509.IPAddress(ip_address(ip)) for ip in ips)]
        if not names:
            raise ValueError("a server certificate needs at least one DNS name or IP address")
        if now >= self.not_after:
            raise ValueError(f"the authority {self.name} expired at {self.not_after:%Y-%m-%dT%H:%M:%SZ}")
        key = ec.generate_private_key(ec.SECP256R1())
        signer = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        certificate = (
            _builder(
                _name("harbormaster"),
                self.certificate.subject,
                key.public_key(),
                now,
                min(now + LEAF_LIFE, self.not_after),
            )
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(_key_usage(certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Leaf(
            chain_pem=certificate.public_bytes(Encoding.PEM),
            key_pem=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            not_before=certificate.not_valid_before_utc,
            not_after=certificate.not_valid_after_utc,
        )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, not_after: datetime
) -> x509.CertificateBuilder:
    # X.509 counts whole seconds; both instants are cut, so that a leaf never outlives its authority by a fraction.
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(secrets.randbits(SERIAL_BITS) or 1)
        .not_valid_before(now.replace(microsecond=0) - CLOCK_SKEW)
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
