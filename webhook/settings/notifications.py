"""Notifications to an external receiver about Events that require user action."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, field_validator

from webhook.settings.environment import Contradiction, Settings
from webhook.settings.values import COMMAS, check_url

NEED_A_PERSON: Final = (
    "PlacementRolloutStalled",
    "RemovalPending",
    "ApprovalNeeded",
    "Warning/DisruptionBlocked",
    "DisruptionUnblocked",
    "MemberClusterSilent",
    "MemberClusterReporting",
    "CertificateNearEnd",
)
"""Reasons of Events about objects that make no progress without user action, or that make progress again."""

Reason = Annotated[str, Field(pattern=r"^((Normal|Warning)/)?[A-Z][A-Za-z0-9]{0,127}$", max_length=136)]


@dataclass(frozen=True, slots=True)
class NotificationOptions:
    """The receiver, and the Events that it is notified about.

    Args:
        url: URL of the receiver. Empty: disabled.
        secret_file: File with the secrets that sign notifications.
        ca: CA file of the receiver. None means that the authorities of the system apply.
        reasons: Reasons of Events. With the prefix ``Warning/`` or ``Normal/``, only for Events of that type.
        hub: Name of this hub in notifications.
    """

    url: str = ""
    secret_file: Path | None = None
    ca: Path | None = None
    reasons: frozenset[str] = frozenset(NEED_A_PERSON)
    hub: str = ""


class NotificationSettings(Settings):
    """The receiver."""

    notifications_url: str = Field(
        default="",
        max_length=2048,
        description="URL that receives signed notifications, such as a bridge to a chat or a pager. Empty: disabled.",
    )
    notifications_secret_file: Path | None = Field(
        default=None,
        description="File with the signing secrets, one per line, read for every notification. Notifications are "
        "signed with the first secret.",
    )
    notifications_ca: Path | None = Field(
        default=None,
        description="PEM file with the certificate authorities of the receiver, read for every notification. Unset: "
        "those of the system.",
    )
    notifications_reasons: Annotated[tuple[Reason, ...], COMMAS] = Field(
        default=NEED_A_PERSON,
        max_length=256,
        description="Reasons of Events to send. `Warning/REASON` or `Normal/REASON` selects only Events of that type.",
    )
    notifications_hub: str = Field(
        default="",
        max_length=253,
        description="Name of this hub in notifications, for receivers that serve several hubs.",
    )

    @field_validator("notifications_url")
    @classmethod
    def _check_notifications_url(cls, url: str) -> str:
        return check_url(url, "https://receiver.example.com/harbormaster")

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield a receiver without a signing secret, or without Events to send."""
        yield from super().contradictions()
        if self.notifications_url and self.notifications_secret_file is None:
            yield Contradiction(
                frozenset({"notifications_url", "notifications_secret_file"}),
                "notifications_url: must not be set without notifications_secret_file, which signs the notifications",
            )
        if self.notifications_url and not self.notifications_reasons:
            yield Contradiction(
                frozenset({"notifications_url", "notifications_reasons"}),
                "notifications_reasons: must not be empty when notifications_url is set",
            )

    def notifications(self) -> NotificationOptions:
        """Return the receiver of notifications and the reasons of Events to send."""
        return NotificationOptions(
            self.notifications_url,
            self.notifications_secret_file,
            self.notifications_ca,
            frozenset(self.notifications_reasons),
            self.notifications_hub,
        )
