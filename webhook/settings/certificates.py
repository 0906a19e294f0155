"""The certificate that the HTTPS listener shows."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from webhook.settings.environment import Contradiction, Settings
from webhook.settings.values import Seconds, Words


class CertificateSettings(Settings):
    """The names in the certificate, and how often files are checked."""

    dns_names: Words = Field(
        default=("localhost",),
        description="DNS names of the server, in the certificate that `up` makes and for the server's check of itself.",
    )
    ip_addresses: Words = Field(
        default=("127.0.0.1", "::1"), description="IP addresses of the server, for the same two purposes."
    )
    certificate_check_seconds: Seconds = Field(
        default=10,
        gt=0,
        description="How often to check whether files of certificates and authorities have changed.",
    )


class CertificateFileSettings(Settings):
    """A certificate that comes from files."""

    tls_cert: Path | None = Field(
        default=None,
        description="Certificate of the HTTPS listener in PEM, the leaf first; read again when the file changes.",
    )
    tls_key: Path | None = Field(default=None, description="Private key of that certificate in PEM.")
    tls_ca: Path | None = Field(
        default=None,
        description="Authority of that certificate in PEM, for the server's check of itself; unset: the last one in "
        "its file.",
    )

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield what contradicts what."""
        yield from super().contradictions()
        if (self.tls_cert is None) != (self.tls_key is None):
            yield Contradiction(frozenset({"tls_cert", "tls_key"}), "tls_cert and tls_key: one needs the other")
