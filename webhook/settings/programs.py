"""Programs: the areas that each consists of, and the settings that it reads of them."""

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field

from webhook.settings.access import CallerSettings, HookSettings, TokenSettings
from webhook.settings.admission import AllowedUserSettings, MemberNetworkSettings, ReviewSettings
from webhook.settings.agent import AgentSettings, HubTokenSettings
from webhook.settings.analysis import AnalysisKindSettings
from webhook.settings.certificates import (
    AuthorityPlaceSettings,
    AuthoritySettings,
    CertificateFileSettings,
    CertificateSettings,
    ExpectedHookSettings,
    WebhookConfigurationSettings,
)
from webhook.settings.command_line import CommandLineSettings, DataSettings, HubSettings
from webhook.settings.environment import Settings
from webhook.settings.extender import ExtenderSettings
from webhook.settings.gate import MemberGateSettings, NodeDisruptionModeSettings, NodeGateSettings
from webhook.settings.installation import InstallationSettings, NamespaceSettings
from webhook.settings.listener import LimitSettings, ListenerSettings, PlainListenerSettings, WorkerSettings
from webhook.settings.loop import ControllerSettings, HubLoopSettings, LeaseSettings
from webhook.settings.notifications import NotificationSettings
from webhook.settings.observability import HistorySettings, ProcessSettings, TracingSettings
from webhook.settings.secret_files import HookSecretSettings
from webhook.settings.sign_in import SignInSettings
from webhook.settings.upgraders import (
    HAND_OFF,
    SIMULATED,
    DefaultUpgraderSettings,
    HandOffReportSettings,
    HandOffSecretSettings,
    UpgraderNameSettings,
)
from webhook.settings.values import Seconds, SecondsWithin, Words


class DisruptionSettings(ReviewSettings, NodeGateSettings, MemberGateSettings):
    """Both gates, and whether admission enforces the budgets."""


class ServerSettings(
    ListenerSettings,
    CertificateSettings,
    HookSettings,
    CallerSettings,
    LimitSettings,
    ExtenderSettings,
    DisruptionSettings,
    DefaultUpgraderSettings,
    HandOffReportSettings,
    HistorySettings,
):
    """What a server needs to answer for any hub; commands that answer from a hub themselves read these too."""


class ServeSettings(
    ServerSettings,
    WorkerSettings,
    CertificateFileSettings,
    ExpectedHookSettings,
    TokenSettings,
    SignInSettings,
    HubLoopSettings,
    NotificationSettings,
    HubSettings,
    ProcessSettings,
    TracingSettings,
):
    """``harbormaster serve``, which may reconcile as well."""


class ReconcileSettings(
    PlainListenerSettings, HubLoopSettings, NotificationSettings, HubSettings, ProcessSettings, TracingSettings
):
    """``harbormaster reconcile``."""


def _described(name: str) -> str | None:
    return ServeSettings.model_fields[name].description


class UpSettings(ServerSettings, ControllerSettings, NotificationSettings, DataSettings, ProcessSettings):
    """``harbormaster up``: it stops at once, shows the page to this machine, and logs for people."""

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


class RbacSettings(
    InstallationSettings,
    AllowedUserSettings,
    LeaseSettings,
    MemberNetworkSettings,
    AuthorityPlaceSettings,
    AnalysisKindSettings,
    UpgraderNameSettings,
    HandOffSecretSettings,
    NodeDisruptionModeSettings,
):
    """``harbormaster rbac``: whom the roles are for, and what they allow."""


class CertsSettings(NamespaceSettings, AuthoritySettings):
    """``harbormaster certs``: where the certificate authority is, and how long the next one lasts."""


class JoinSettings(NamespaceSettings, HubTokenSettings):
    """``harbormaster join`` and ``leave``: where harbormaster is installed on the hub, and what a new member gets."""


class UnregisterSettings(WebhookConfigurationSettings, HubSettings):
    """``harbormaster unregister``: the name of the webhook configurations, and the hub."""


class RegistrationSettings(HookSecretSettings, ReviewSettings):
    """``harbormaster webhook-configuration``: which hooks there are, and below which path."""


class DoctorSettings(
    RegistrationSettings,
    LeaseSettings,
    AuthorityPlaceSettings,
    AnalysisKindSettings,
    UpgraderNameSettings,
    HandOffSecretSettings,
    NodeDisruptionModeSettings,
):
    """``harbormaster doctor``: how the processes are set up that no chart has installed."""


PROGRAMS: Final[Mapping[str, type[Settings]]] = {
    "serve": ServeSettings,
    "reconcile": ReconcileSettings,
    "agent": AgentSettings,
    "up": UpSettings,
    "rbac": RbacSettings,
    "certs": CertsSettings,
    "join": JoinSettings,
    "webhook-configuration": RegistrationSettings,
    "unregister": UnregisterSettings,
    "doctor": DoctorSettings,
    "cli": CommandLineSettings,
}
"""What each program reads; ``cli`` is every other command."""
