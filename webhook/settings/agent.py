"""Settings of an agent in its member.

They are not in `webhook.settings.programs`, so that an agent does not load the settings of all other programs. Every
member has an agent, and a loaded module takes memory as long as it runs.
"""

from typing import Annotated, Final

from pydantic import Field

from webhook.settings.environment import Settings
from webhook.settings.gate import NodeDisruptionSettings
from webhook.settings.listener import PLAIN_LISTENER, ListenerSettings
from webhook.settings.observability import ObservabilitySettings
from webhook.settings.placement import PlaceableSettings
from webhook.settings.values import COMMAS, NamespacePattern, SecondsWithin

LONGEST_TOKEN_SECONDS: Final = 30 * 86_400
"""Maximum validity of a token. The hub refuses an agent a longer one (`webhook.processes.account_policies`)."""


class MemberAgentSettings(Settings):
    """Limits of an agent in its member, and the validity of its credentials for the hub."""

    blocked_namespaces: Annotated[tuple[NamespacePattern, ...], COMMAS] = Field(
        default=("kube-*",),
        max_length=100,
        description=(
            "Namespaces that an agent does not change, in addition to its own and `fleet-member-*`. A trailing `*` "
            "matches any suffix."
        ),
    )
    hub_token_seconds: Annotated[SecondsWithin, Field(ge=600, le=LONGEST_TOKEN_SECONDS)] = Field(
        default=604_800,
        description="Lifetime of an agent's token for the hub. If the hub is unreachable for longer, the agent needs "
        "`harbormaster join` again. A hub may grant less.",
    )
    hub_token_renewal_seconds: Annotated[SecondsWithin, Field(ge=0.1, le=86_400)] = Field(
        default=3600,
        description=(
            "Maximum interval between renewals of an agent's token for the hub. The token is also renewed at startup "
            "and after a third of its lifetime."
        ),
    )


class AgentSettings(
    ListenerSettings, PlaceableSettings, MemberAgentSettings, NodeDisruptionSettings, ObservabilitySettings
):
    """``harbormaster agent``: its listener, its member, and node disruption there."""

    reads = (
        "namespace",
        *PLAIN_LISTENER,
        "expiration_mode",
        "template_do_not_disrupt",
        NodeDisruptionSettings,
        "allowed_kinds",
        MemberAgentSettings,
        "log_format",
        "log_level",
        "commit",
    )
