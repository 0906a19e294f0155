"""The certificate of the HTTPS listener."""

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from pydantic import Field, field_validator

from certs.lifetimes import AUTHORITY_LIFE, LEAF_LIFE
from scorer.api.values.name_grammar import dns_subdomain_error
from webhook.settings.environment import MOST_SHOWN, Contradiction, Settings
from webhook.settings.values import Name, Seconds, SecondsWithin, Words

SHORTEST_LIFE_SECONDS: Final = 5
LONGEST_LIFE_SECONDS: Final = 20 * 365 * 86400


class CertificateSettings(Settings):
    """The certificate, from files or by an authority that all replicas share, and the webhook configurations.

    The authority is stored in a Secret, and in the ``caBundle`` of the webhook configurations.
    """

    certificate_secret: str = Field(
        default="",
        description=(
            "Secret with the certificate authority, in the namespace of the installation. `serve` creates the Secret "
            "if it is missing, rotates the authority, and writes its certificate to the `caBundle` of the webhook "
            "configurations. Empty: `serve` reads its serving certificate from `HARBORMASTER_TLS_CERT` and "
            "`HARBORMASTER_TLS_KEY`."
        ),
    )
    webhook_configuration: Name = Field(
        default="harbormaster",
        description="Name of both webhook configurations, which contain the paths of the hooks and their `caBundle`.",
    )
    team_answers: bool = Field(
        default=False,
        description=(
            "Serve plans, explanations, renderings and history of one namespace as the aggregated API "
            "`answers.harbormaster.dev`, for teams without rights outside their namespace. While its APIService is "
            "unavailable, the hub deletes no namespace."
        ),
    )
    webhooks_expected: bool = Field(
        default=False,
        description=(
            "Expect both webhook configurations to exist: `serve` then reports a missing configuration even if it was "
            "deleted before `serve` started."
        ),
    )
    repair_webhooks: bool = Field(
        default=False,
        description=(
            "Restore `failurePolicy: Fail` on webhooks that another client has set to `Ignore`. Requires "
            "`HARBORMASTER_CERTIFICATE_SECRET`: only then do the roles of `harbormaster rbac serve` include the right "
            "to patch the webhook configurations."
        ),
    )
    authority_life_seconds: SecondsWithin = Field(
        default=AUTHORITY_LIFE.total_seconds(),
        ge=SHORTEST_LIFE_SECONDS,
        le=LONGEST_LIFE_SECONDS,
        description=(
            "Lifetime of a certificate authority. The next authority is created after two thirds of that time. A "
            "change to this setting applies to the next authority."
        ),
    )
    leaf_life_seconds: SecondsWithin = Field(
        default=LEAF_LIFE.total_seconds(),
        ge=SHORTEST_LIFE_SECONDS,
        le=LONGEST_LIFE_SECONDS,
        description="Lifetime of a server certificate. The next certificate is issued after two thirds of that time.",
    )
    tls_cert: Path | None = Field(
        default=None,
        description="Certificate of the HTTPS listener in PEM, leaf first. Reloaded when the file changes.",
    )
    tls_key: Path | None = Field(default=None, description="Private key of that certificate in PEM.")
    tls_ca: Path | None = Field(
        default=None,
        description="Authority of the certificate in `HARBORMASTER_TLS_CERT`, in PEM. The server checks its own "
        "listener against it. Unset: the last certificate in that file.",
    )
    dns_names: Words = Field(
        default=("localhost",),
        description="DNS names of the server, for the certificates that `up` issues, and `serve` with "
        "`HARBORMASTER_CERTIFICATE_SECRET`, and for the server's check of its own listener.",
    )
    ip_addresses: Words = Field(
        default=("127.0.0.1", "::1"), description="IP addresses of the server, used like `HARBORMASTER_DNS_NAMES`."
    )
    certificate_check_seconds: Seconds = Field(
        default=10,
        gt=0,
        description="Poll interval for changes to certificate files.",
    )

    @field_validator("dns_names")
    @classmethod
    def _check_dns_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if dns_subdomain_error(name.removeprefix("*.").lower()):
                raise ValueError(f"{name[:MOST_SHOWN]!r} must be a DNS name")
        return names

    @field_validator("ip_addresses")
    @classmethod
    def _check_ip_addresses(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        for address in addresses:
            try:
                ip_address(address)
            except ValueError as error:
                raise ValueError(f"{address[:MOST_SHOWN]!r} must be an IP address") from error
        return addresses

    @field_validator("certificate_secret")
    @classmethod
    def _check_secret(cls, name: str) -> str:
        if name and (error := dns_subdomain_error(name)):
            raise ValueError(f"must be the name of a Secret: {error}")
        return name

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield a certificate from both a Secret and files, and a certificate file without its key or vice versa."""
        yield from super().contradictions()
        if self.certificate_secret and self.tls_cert is not None:
            yield Contradiction(
                frozenset({"certificate_secret", "tls_cert"}),
                "certificate_secret: must not be set when tls_cert is set",
            )
        if (self.tls_cert is None) != (self.tls_key is None):
            yield Contradiction(frozenset({"tls_cert", "tls_key"}), "tls_cert and tls_key: must be set together")
