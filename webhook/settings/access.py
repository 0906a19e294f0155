"""Access to a server: API servers that send reviews, and clients that ask questions."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from webhook.settings.environment import Contradiction
from webhook.settings.installation import InstallationSettings
from webhook.settings.values import Rate, Words


class AccessSettings(InstallationSettings):
    """Callers of a server: verification of API servers, limits of clients, the audience of tokens.

    `up` has no roles, and accepts no client certificates by default. With ``client_ca``, the holder of a certificate of
    that authority may call all of ``/v1``.
    """

    webhook_secret_file: Path | None = Field(
        default=None,
        description=(
            "File with secrets, one per line. The hub calls the hooks below `/hooks/SECRET`. Callers of the plain "
            "paths are untrusted: `HARBORMASTER_PLAIN_ADMISSION_PATHS` applies to their reviews."
        ),
    )
    require_client_certificate: bool = Field(
        default=False,
        description="Refuse reviews from callers without a client certificate for one of "
        "`HARBORMASTER_ADMISSION_CLIENT_NAMES`.",
    )
    admission_client_names: Words = Field(
        default=("kube-apiserver",),
        description="Accepted common names of the client certificates that API servers present to webhooks.",
    )
    plain_admission_paths: bool = Field(
        default=True,
        description="Evaluate reviews from untrusted callers, without revealing other objects of the hub. `false`: "
        "refuse such reviews.",
    )
    client_ca: Path | None = Field(
        default=None,
        description="Authorities of client certificates in PEM, reloaded when the file changes. Unset: those of "
        "the hub. `up` has none.",
    )
    requests_per_second: Rate = Field(
        default=50,
        description="Rate limit of requests to `/v1` per caller and replica. Does not apply to the extender.",
    )
    request_burst: int = Field(
        default=100,
        gt=0,
        description="Number of requests that one caller may send in a burst, beyond "
        "`HARBORMASTER_REQUESTS_PER_SECOND`.",
    )
    failed_logins_per_second: Rate = Field(
        default=5,
        description="Rate limit of invalid credentials per address. Previously accepted tokens are exempt.",
    )
    metrics_auth: bool = Field(
        default=False, description="Also serve `/metrics` over HTTPS, to callers that may `get` that path."
    )
    extender_allow_anonymous: bool = Field(
        default=False, description="Let schedulers call the extender without credentials."
    )
    token_audience: str = Field(
        default="",
        description="Required audience of tokens. Empty: `harbormaster.NAMESPACE.svc`.",
    )

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield a required client certificate without an accepted name."""
        yield from super().contradictions()
        if self.require_client_certificate and not self.admission_client_names:
            yield Contradiction(
                frozenset({"require_client_certificate", "admission_client_names"}),
                "require_client_certificate: must not be true when admission_client_names is empty",
            )

    @property
    def verifies_callers(self) -> bool:
        """Whether reviews of the API server can be distinguished from those of other callers."""
        return self.webhook_secret_file is not None or self.require_client_certificate or not self.plain_admission_paths

    @property
    def audience(self) -> str:
        """Required audience of tokens."""
        return self.token_audience or f"harbormaster.{self.namespace}.svc"
