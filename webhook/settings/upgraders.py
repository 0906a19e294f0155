"""Back ends that upgrade member clusters, and the hand-off of upgrades to an external upgrader by HTTP."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from pydantic import Field, field_validator

from webhook.settings.environment import Contradiction, Settings
from webhook.settings.values import SecondsWithin, Words, check_url


@dataclass(frozen=True, slots=True)
class HandOffOptions:
    """The external upgrader that operations are handed off to.

    Args:
        url: URL of the upgrader. Empty: the upgrader watches the requests on the hub.
        secret_file: File with the secrets that sign requests. None: disabled.
        ca: CA file of the upgrader. None means that the authorities of the system apply.
    """

    url: str = ""
    secret_file: Path | None = None
    ca: Path | None = None


ENTRY_POINTS: Final = "harbormaster.upgraders"
"""Entry point group of back ends in installed packages."""
CLUSTER_API: Final = "cluster-api"
HAND_OFF: Final = "handoff"
SIMULATED: Final = "simulated"


@dataclass(frozen=True, slots=True)
class UpgraderOptions:
    """Back ends of the loop.

    Args:
        names: Names of the enabled back ends.
        default: Back end of members that name none.
        poll: Poll interval of operations in progress.
        call: Timeout of one call.
        hand_off: The external upgrader of the hand-off back end.
    """

    names: tuple[str, ...] = (HAND_OFF,)
    default: str = HAND_OFF
    poll: timedelta = timedelta(seconds=15)
    call: timedelta = timedelta(seconds=10)
    hand_off: HandOffOptions = field(default_factory=HandOffOptions)


class UpgraderSettings(Settings):
    """The back ends of upgrade runs, and the upgrader that operations are handed off to."""

    upgraders: Words = Field(
        default=(HAND_OFF,),
        description="Back ends that upgrade members, by the names of their entry points in the group "
        f"`{ENTRY_POINTS}`.",
    )
    default_upgrader: str = Field(
        default=HAND_OFF,
        description="Back end of members without the annotation `harbormaster.dev/upgrader`. One of `upgraders`.",
    )
    upgrader_poll_seconds: SecondsWithin = Field(
        default=15, ge=1, le=600, description="Poll interval for upgrades in flight."
    )
    upgrader_call_seconds: SecondsWithin = Field(
        default=10, ge=1, le=60, description="Timeout of one call to a back end."
    )
    handoff_secret_file: Path | None = Field(
        default=None,
        description=(
            "File with the secrets, one per line, that sign messages to and from the upgrader at "
            "`HARBORMASTER_HANDOFF_URL`. Messages are signed with the first secret. Signatures with any of them are "
            "accepted. Unset: reports to `/v1/upgrade/operations` are refused."
        ),
    )
    handoff_unbound_reports: bool = Field(
        default=False,
        description="Accept reports to `/v1/upgrade/operations` without `operationID`, for upgraders that do not "
        "send it yet. A client that has intercepted such a report can replay it for another operation.",
    )
    handoff_url: str = Field(
        default="",
        max_length=2048,
        description=(
            "The back end `handoff` posts signed operations to this URL. Empty: upgraders watch "
            "ClusterUpgradeRequests instead."
        ),
    )
    handoff_ca: Path | None = Field(
        default=None,
        description=(
            "Certificate authorities of the upgrader at `HARBORMASTER_HANDOFF_URL` in PEM, read for every call. "
            "Unset: those of the system."
        ),
    )

    @field_validator("upgraders")
    @classmethod
    def _check_upgraders(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        upgraders = sorted(entry_point.name for entry_point in entry_points(group=ENTRY_POINTS))
        for word in words:
            if word not in upgraders:
                raise ValueError(f"{word[:64]!r}: must be one of the installed upgraders: {', '.join(upgraders)}")
        return words

    @field_validator("handoff_url")
    @classmethod
    def _check_handoff_url(cls, url: str) -> str:
        return check_url(url, "https://upgrader.example.com/operations")

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield an upgrader URL without a signing secret, and a default back end that is not listed."""
        yield from super().contradictions()
        if self.handoff_url and self.handoff_secret_file is None:
            yield Contradiction(
                frozenset({"handoff_url", "handoff_secret_file"}),
                "handoff_url: must not be set without handoff_secret_file, which signs the operations",
            )
        if self.default_upgrader not in self.upgraders:
            yield Contradiction(
                frozenset({"upgraders", "default_upgrader"}),
                f"default_upgrader: {self.default_upgrader[:64]!r}: must be one of upgraders",
            )

    def hand_off(self) -> HandOffOptions:
        """Return URL, signing secrets and authorities of the external upgrader. The URL is empty without one."""
        return HandOffOptions(self.handoff_url, self.handoff_secret_file, self.handoff_ca)

    def upgrader_options(self) -> UpgraderOptions:
        """Return the back ends, the default one, and the interval and timeout of their calls."""
        return UpgraderOptions(
            tuple(dict.fromkeys(self.upgraders)),
            self.default_upgrader,
            timedelta(seconds=self.upgrader_poll_seconds),
            timedelta(seconds=self.upgrader_call_seconds),
            self.hand_off(),
        )
