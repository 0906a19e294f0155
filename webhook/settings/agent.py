"""What an agent does in its member."""

from typing import Annotated

from pydantic import Field

from webhook.settings.installation import NamespaceSettings
from webhook.settings.selection import AllowedKindSettings
from webhook.settings.values import COMMAS, NamespacePattern


class MemberLimitSettings(NamespaceSettings, AllowedKindSettings):
    """What an agent leaves alone."""

    blocked_namespaces: Annotated[tuple[NamespacePattern, ...], COMMAS] = Field(
        default=("kube-*",),
        max_length=100,
        description="Namespaces in which an agent does nothing, besides its own and `fleet-member-*`; `*` at the end "
        "stands for any rest.",
    )
