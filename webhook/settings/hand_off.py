"""The upgrader outside that is told of upgrades by HTTP, and the secret by which both sides know one another."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, field_validator

from webhook.settings.environment import Contradiction, Settings
from webhook.settings.values import check_url


@dataclass(frozen=True, slots=True)
class HandOffOptions:
    """Where operations are handed off to.

    Args:
        url: Of the upgrader; empty: it watches the requests on the hub.
        secret_file: File of the secrets; None: nothing is signed.
        ca: File of the authorities of the upgrader; None: those of the system.
    """

    url: str = ""
    secret_file: Path | None = None
    ca: Path | None = None


class HandOffSecretSettings(Settings):
    """The secret."""

    handoff_secret_file: Path | None = Field(
        default=None,
        description="File of secrets, one a line, that sign what is said to and by the upgrader of `handoff_url`: the "
        "first signs, each is accepted; unset: nobody can report by `/v1/upgrade/operations`.",
    )


class HandOffReportSettings(HandOffSecretSettings):
    """Which reports are accepted."""

    handoff_unbound_reports: bool = Field(
        default=False,
        description="Whether reports to `/v1/upgrade/operations` may lack `operationID`, for upgraders that do not "
        "send it yet; a client that has seen such a report can send it again for another operation.",
    )


class HandOffSettings(HandOffSecretSettings):
    """The upgrader."""

    handoff_url: str = Field(
        default="",
        max_length=2048,
        description="URL to which operations of the back end `handoff` are posted, signed; empty: upgraders watch the "
        "ClusterUpgradeRequests.",
    )
    handoff_ca: Path | None = Field(
        default=None,
        description="Certificate authorities of that upgrader in PEM, read at every call; unset: those of the system.",
    )

    @field_validator("handoff_url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        return check_url(url, "https://upgrader.example.com/operations")

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield what contradicts what."""
        yield from super().contradictions()
        if self.handoff_url and self.handoff_secret_file is None:
            yield Contradiction(
                frozenset({"handoff_url", "handoff_secret_file"}),
                "handoff_url: needs handoff_secret_file, by which the upgrader knows us",
            )

    def hand_off(self) -> HandOffOptions:
        """Return where operations are handed off to, ready for use."""
        return HandOffOptions(self.handoff_url, self.handoff_secret_file, self.handoff_ca)
