"""Certificates for clients: who they are, and in which groups, signed by an authority of the tests."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.authority import Authority

HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class ClientCertificate:
    """A client certificate and its key, in files."""

    certificate: Path
    key: Path

    def show(self, context: ssl.SSLContext) -> ssl.SSLContext:
        """Have *context* show it, and return the context."""
        context.load_cert_chain(self.certificate, self.key)
        return context


def issue_client_certificate(
    authority: Authority,
    folder: Path,
    common_name: str,
    organizations: Sequence[str] = (),
    *,
    begin: datetime | None = None,
    life: timedelta = HOUR,
    purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
) -> ClientCertificate:
    """Sign a certificate for a client and write it to files named after it.

    Args:
        authority: Signs it.
        folder: For the two files; made when missing.
        common_name: The user, as Kubernetes reads it.
        organizations: Their groups.
        begin: Start of the validity; None: an hour ago.
        life: From now, or from *begin* when it is given.
        purpose: Extended key usage.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    if common_name:
        names.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(names))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin or now - HOUR)
        .not_valid_after((begin or now) + life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .sign(authority._key, hashes.SHA256())
    )
    folder.mkdir(parents=True, exist_ok=True)
    stem = (common_name or "nobody").replace(":", "-").replace("/", "-")
    files = ClientCertificate(folder / f"{stem}.client.crt", folder / f"{stem}.client.key")
    files.key.touch(mode=0o600)
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    files.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
    return files
