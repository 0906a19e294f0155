"""The installation of harbormaster on a hub, and the user of its reconcile loop."""

from typing import Final

from pydantic import Field, field_validator

from webhook.settings.environment import Settings
from webhook.settings.values import Name

SERVE_ACCOUNT: Final = "harbormaster-serve"
"""Default ServiceAccount of the server."""


class InstallationSettings(Settings):
    """The installation, and the user of its loop."""

    namespace: Name = Field(
        default="harbormaster-system",
        description="Namespace of the installation, with its Leases and reservations.",
    )
    service_account: Name = Field(
        default="harbormaster-reconcile",
        description="ServiceAccount of the reconcile loop in that namespace. Admission rules that depend on the user "
        "exempt it.",
    )
    loop_user: str = Field(
        default="",
        description="User name of the reconcile loop if it uses a client certificate: its CN. Empty: the "
        "ServiceAccount.",
    )

    @field_validator("loop_user")
    @classmethod
    def _check_loop_user(cls, name: str) -> str:
        if name and (not name.isprintable() or name.startswith("system:")):
            raise ValueError("must be the name of a user, without the prefix system:")
        return name

    @property
    def username_of_loop(self) -> str:
        """User name of the loop on the API server."""
        return self.loop_user or f"system:serviceaccount:{self.namespace}:{self.service_account}"


class NamespaceSettings(InstallationSettings):
    """Only the namespace of the installation."""

    reads = ("namespace",)
