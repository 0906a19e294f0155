"""Settings by group, in the order in which they are shown."""

from dataclasses import dataclass
from typing import Final

from webhook.settings import (
    access,
    admission,
    agent,
    analysis,
    certificates,
    command_line,
    extender,
    gate,
    installation,
    listener,
    loop,
    notifications,
    observability,
    placement,
    sign_in,
    upgraders,
)
from webhook.settings.environment import Settings


@dataclass(frozen=True, slots=True)
class SettingsGroup:
    """Settings that are shown together.

    Args:
        title: Its heading.
        about: What holds for all of it.
        area: The class whose own fields they are.
    """

    title: str
    about: str
    area: type[Settings]

    def names(self) -> tuple[str, ...]:
        """Return the names of its settings."""
        return self.area.own_names()


GROUPS: Final = (
    SettingsGroup(
        "Installation",
        "Admission exempts the loop from the rules about users, so `serve`, `webhook-configuration` and `rbac` have to "
        "agree on who the loop is.",
        installation.InstallationSettings,
    ),
    SettingsGroup(
        "Listeners",
        "Every process has a plain listener; `serve` and `up` listen for HTTPS as well.",
        listener.ListenerSettings,
    ),
    SettingsGroup(
        "Certificates",
        "`serve` needs a certificate from files, or a Secret for an authority of its own; `up` makes one itself "
        "whenever it starts.",
        certificates.CertificateSettings,
    ),
    SettingsGroup(
        "Access",
        "Who may call. Under `up`, which knows no roles, the holders of client certificates may ask everything of "
        "`/v1`.",
        access.AccessSettings,
    ),
    SettingsGroup(
        "Sign-in",
        "Where people sign in to the page of `serve`, besides with a token. What a user is called is decided as by the "
        "`--oidc-` flags of kube-apiserver: give both the same, and a person is the same user to both.",
        sign_in.SignInSettings,
    ),
    SettingsGroup(
        "Limits",
        "Besides these, admission reads at most 300,000 JSON values of a review, and judges of an object, without its "
        "status, at most 10,000: 20,000 of upgrade strategies, runs and version catalogues, 50,000 of what holds "
        "manifests.",
        listener.LimitSettings,
    ),
    SettingsGroup(
        "Admission",
        "`harbormaster rules` lists the rules with their ids. Any client that reaches the port may ask, so no live "
        "warning names a cluster that the review did not name itself.",
        admission.RuleSettings,
    ),
    SettingsGroup(
        "Guard rails",
        "Run `harbormaster webhook-configuration` again after a change: guard rails have hooks of their own.",
        admission.GuardRailSettings,
    ),
    SettingsGroup("Scheduler extender", "How the extender answers kube-scheduler.", extender.ExtenderSettings),
    SettingsGroup(
        "Gate",
        "When nodes and member clusters may be disrupted.",
        gate.GateSettings,
    ),
    SettingsGroup(
        "Node disruption",
        "What `reconcile` does about the nodes of the hub, and `agent` about those of its member, where there are "
        "NodePools. `rbac` gives each the rights that its mode takes.",
        gate.NodeDisruptionSettings,
    ),
    SettingsGroup(
        "Selection",
        "What placements may select of all that is on the hub.",
        placement.PlaceableSettings,
    ),
    SettingsGroup(
        "Rollout",
        "`up` takes a snapshot one second after a change.",
        placement.RolloutSettings,
    ),
    SettingsGroup(
        "Removals",
        "The mode of an effect is `Off`, `Warn` (an Event tells of the removal) or `Confirm` (the content remains "
        "until the removal is confirmed). The annotation `harbormaster.dev/removal-confirmation` on a placement "
        "overrides all.",
        placement.RemovalSettings,
    ),
    SettingsGroup(
        "Analysis",
        "What may approve a stage of a staged update run by itself, where the annotation `harbormaster.dev/analysis` "
        "asks for it. `rbac reconcile` gives the loop the right to look at the kinds.",
        analysis.AnalysisSettings,
    ),
    SettingsGroup(
        "Upgrades of members",
        "Who carries out what upgrade runs decide. Under `up`, members are simulated, and so are their upgrades.",
        upgraders.UpgraderSettings,
    ),
    SettingsGroup(
        "Reconcile loop",
        "How the controllers work.",
        loop.ControllerSettings,
    ),
    SettingsGroup(
        "History",
        "What has happened is kept in ConfigMaps in the namespace of the installation, by the loop and every server.",
        observability.HistorySettings,
    ),
    SettingsGroup(
        "Notifications",
        "What is posted to a receiver of yours when something needs a person. The loop and every server send what they "
        "have seen themselves, so give all of them the same.",
        notifications.NotificationSettings,
    ),
    SettingsGroup(
        "Agent",
        "What an agent leaves alone in its member, and its token for the hub, where `join` has made one.",
        agent.MemberAgentSettings,
    ),
    SettingsGroup(
        "Observability",
        "What a process tells about itself, besides its metrics and probes.",
        observability.ObservabilitySettings,
    ),
    SettingsGroup(
        "Hub",
        "Which hub is meant where `--kubeconfig` does not say so.",
        command_line.HubSettings,
    ),
    SettingsGroup(
        "Data folder", "Where `up` keeps everything, and where commands look for it.", command_line.DataSettings
    ),
    SettingsGroup(
        "Command line",
        "What commands look at besides their options. The variables without our prefix are conventions that other "
        "programs follow as well; so are `TZ`, for the times that are shown, and `HTTPS_PROXY` and `NO_PROXY`, for "
        "connections to API servers.",
        command_line.TerminalSettings,
    ),
)
