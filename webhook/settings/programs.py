"""Programs: the areas of settings that each program has, and the settings that it reads from these areas."""

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from pydantic import Field

from webhook.settings.access import AccessSettings
from webhook.settings.admission import GuardRailSettings, ReviewSettings, RuleSettings
from webhook.settings.agent import AgentSettings
from webhook.settings.analysis import AnalysisSettings
from webhook.settings.answers import DisruptionSettings
from webhook.settings.certificates import CertificateSettings
from webhook.settings.command_line import CommandLineSettings, DataSettings, HubSettings
from webhook.settings.environment import Reads, Settings
from webhook.settings.extender import ExtenderSettings
from webhook.settings.gate import GateSettings, NodeDisruptionSettings
from webhook.settings.installation import InstallationSettings
from webhook.settings.listener import PLAIN_LISTENER, LimitSettings, ListenerSettings
from webhook.settings.loop import ControllerSettings, HubLoopSettings
from webhook.settings.notifications import NotificationSettings
from webhook.settings.observability import HistorySettings, ObservabilitySettings
from webhook.settings.placement import PlaceableSettings, RemovalSettings, RolloutSettings
from webhook.settings.sign_in import SignInSettings
from webhook.settings.upgraders import HAND_OFF, SIMULATED, UpgraderSettings
from webhook.settings.values import Seconds, SecondsWithin, Words

_SERVER: Final[Reads] = (
    InstallationSettings,
    "host",
    "https_port",
    "page_on_http",
    "page_actions",
    "keepalive_seconds",
    "drain_seconds",
    "drain_limit_seconds",
    "shutdown_seconds",
    *PLAIN_LISTENER,
    "dns_names",
    "ip_addresses",
    "certificate_check_seconds",
    "webhook_secret_file",
    "require_client_certificate",
    "admission_client_names",
    "plain_admission_paths",
    "client_ca",
    "requests_per_second",
    "request_burst",
    "failed_logins_per_second",
    "metrics_auth",
    "extender_allow_anonymous",
    LimitSettings,
    RuleSettings,
    GuardRailSettings,
    ExtenderSettings,
    GateSettings,
    "skipped_namespaces",
    "removal_needs_budget",
    RemovalSettings,
    "default_upgrader",
    "handoff_secret_file",
    "handoff_unbound_reports",
    HistorySettings,
)
"""Settings that both `serve` and `up` read."""
_RIGHTS: Final = (
    "certificate_secret",
    "webhook_configuration",
    "team_answers",
    "node_disruption_mode",
    "node_disruption_karpenter_lease",
    "analysis_kinds",
    "upgraders",
    "handoff_secret_file",
    "lease_name",
)
"""Settings that determine the rights of our accounts."""


class ServerSettings(
    ListenerSettings,
    CertificateSettings,
    AccessSettings,
    LimitSettings,
    ExtenderSettings,
    DisruptionSettings,
    UpgraderSettings,
    HistorySettings,
):
    """A server that answers for a hub."""

    reads = _SERVER


class ServeSettings(
    ServerSettings, SignInSettings, HubLoopSettings, NotificationSettings, HubSettings, ObservabilitySettings
):
    """``harbormaster serve``, which may reconcile as well."""


class ReconcileSettings(ListenerSettings, HubLoopSettings, NotificationSettings, HubSettings, ObservabilitySettings):
    """``harbormaster reconcile``: the loop, its hub, and a listener for probes and metrics."""

    reads = (
        "namespace",
        *PLAIN_LISTENER,
        GateSettings,
        NodeDisruptionSettings,
        PlaceableSettings,
        RolloutSettings,
        RemovalSettings,
        AnalysisSettings,
        "upgraders",
        "default_upgrader",
        "upgrader_poll_seconds",
        "upgrader_call_seconds",
        "handoff_secret_file",
        "handoff_url",
        "handoff_ca",
        ControllerSettings,
        HistorySettings,
        NotificationSettings,
        ObservabilitySettings,
        HubSettings,
    )


def _described(name: str) -> str | None:
    return ServeSettings.model_fields[name].description


class UpSettings(ServerSettings, ControllerSettings, NotificationSettings, DataSettings, ObservabilitySettings):
    """``harbormaster up``: it stops immediately, shows the page to this machine, and logs as text."""

    reads = (
        *_SERVER,
        PlaceableSettings,
        "rollout_stalled_seconds",
        AnalysisSettings,
        UpgraderSettings,
        "force_delete_seconds",
        "reconcile_workers",
        NotificationSettings,
        "log_format",
        "log_level",
        "commit",
        DataSettings,
    )

    page_on_http: bool = Field(default=True, description=_described("page_on_http"))
    drain_seconds: Seconds = Field(default=0, description=_described("drain_seconds"))
    drain_limit_seconds: Seconds = Field(default=0, description=_described("drain_limit_seconds"))
    shutdown_seconds: Seconds = Field(default=2, description=_described("shutdown_seconds"))
    log_format: Literal["json", "text"] = Field(default="text", description=_described("log_format"))
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="error", description=_described("log_level")
    )
    history_seconds: SecondsWithin = Field(default=1, ge=1, le=300, description=_described("history_seconds"))
    upgraders: Words = Field(default=(SIMULATED, HAND_OFF), description=_described("upgraders"))
    default_upgrader: str = Field(default=SIMULATED, description=_described("default_upgrader"))
    upgrader_poll_seconds: SecondsWithin = Field(
        default=1, ge=1, le=600, description=_described("upgrader_poll_seconds")
    )


class RbacSettings(ControllerSettings, RuleSettings, GuardRailSettings, CertificateSettings, NodeDisruptionSettings):
    """``harbormaster rbac``: the accounts that the roles are for, and the features that determine their rights."""

    reads = (InstallationSettings, *_RIGHTS, "networking_agents", "allowed_users")


class CertsSettings(InstallationSettings, CertificateSettings):
    """``harbormaster certs``: the Secret of the certificate authority, and the lifetime of the next one."""

    reads = (
        "namespace",
        "certificate_secret",
        "webhook_configuration",
        "team_answers",
        "authority_life_seconds",
        "leaf_life_seconds",
    )


class JoinSettings(InstallationSettings):
    """``harbormaster join`` and ``leave``: the namespace of harbormaster."""

    reads = ("namespace",)


class UnregisterSettings(CertificateSettings, HubSettings):
    """``harbormaster unregister``: the name of the webhook configurations, and the hub."""

    reads = ("webhook_configuration", HubSettings)


class DefinitionSettings(ReviewSettings):
    """``harbormaster crds``: the defaults in the definitions."""

    reads: ClassVar[Reads] = ("staged_runs_default_state",)


class RegistrationSettings(AccessSettings, ReviewSettings):
    """``harbormaster webhook-configuration``: the hooks to register, and their secret path."""

    reads: ClassVar[Reads] = (*ReviewSettings.reads, "webhook_secret_file")


class DoctorSettings(RegistrationSettings, ControllerSettings, CertificateSettings, NodeDisruptionSettings):
    """``harbormaster doctor``: the configuration of processes that no chart has installed."""

    reads = (*RegistrationSettings.reads, *_RIGHTS)


PROGRAMS: Final[Mapping[str, type[Settings]]] = {
    "serve": ServeSettings,
    "reconcile": ReconcileSettings,
    "agent": AgentSettings,
    "up": UpSettings,
    "rbac": RbacSettings,
    "certs": CertsSettings,
    "join": JoinSettings,
    "crds": DefinitionSettings,
    "webhook-configuration": RegistrationSettings,
    "unregister": UnregisterSettings,
    "doctor": DoctorSettings,
    "cli": CommandLineSettings,
}
"""Settings of each program. ``cli`` stands for all other commands."""
