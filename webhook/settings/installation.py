"""Where harbormaster is installed on a hub, and who its reconcile loop is there."""

from typing import Final

from pydantic import Field, field_validator

from webhook.settings.environment import Settings
from webhook.settings.values import Name

SERVE_ACCOUNT: Final = "harbormaster-serve"
"""ServiceAccount of the server, unless the operator gives it another."""


class InstallationSettings(Settings):
    """The installation, and the identity of its loop."""

    namespace: Name = Field(
        default="harbormaster-system",
        description="Namespace of the installation, with its Leases and reservations.",
    )
    service_account: Name = Field(
        default="harbormaster-reconcile",
        description="ServiceAccount of the reconcile loop in that namespace. Rules about users exempt its writes.",
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
        """The user name by which the API server knows the loop."""
        return self.loop_user or f"system:serviceaccount:{self.namespace}:{self.service_account}"


class NamespaceSettings(InstallationSettings):
    """The namespace of the installation alone."""

    reads = ("namespace",)
