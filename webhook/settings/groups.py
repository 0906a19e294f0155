"""Settings by group, in the order of the reference page."""

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
    """Settings in one section of the reference page.

    Args:
        title: Heading of the section.
        about: Introduction of the section.
        area: Class with the settings. Inherited fields do not count.
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
        "Admission exempts the loop from the rules about users, so `serve`, `webhook-configuration` and `rbac` must "
        "agree on the identity of the loop.",
        installation.InstallationSettings,
    ),
    SettingsGroup(
        "Listeners",
        "Every process has a plain listener. `serve` and `up` listen for HTTPS as well.",
        listener.ListenerSettings,
    ),
    SettingsGroup(
        "Certificates",
        "`serve` needs a certificate from files, or a Secret for its own certificate authority. `up` issues a "
        "certificate at every start.",
        certificates.CertificateSettings,
    ),
    SettingsGroup(
        "Access",
        "Authentication and limits of callers. Under `up`, which has no RBAC, holders of client certificates may use "
        "all of `/v1`.",
        access.AccessSettings,
    ),
    SettingsGroup(
        "Sign-in",
        "Sign-in to the page of `serve` with an OpenID Connect provider, besides tokens. User names and groups "
        "follow the rules of kube-apiserver's `--oidc-` flags. With the same values, both see the same user.",
        sign_in.SignInSettings,
    ),
    SettingsGroup(
        "Limits",
        "Fixed limits of admission: at most 300,000 JSON values in a review. An object without its status may "
        "have 10,000 values. Upgrade strategies, runs and version catalogs may have 20,000, and kinds that hold "
        "manifests 50,000.",
        listener.LimitSettings,
    ),
    SettingsGroup(
        "Admission",
        "`harbormaster rules` lists the rules with their ids. Any client that reaches the port may send reviews, so no "
        "live warning names a cluster that the review did not name itself.",
        admission.RuleSettings,
    ),
    SettingsGroup(
        "Guard rails",
        "After a change, run `harbormaster webhook-configuration` again: guard rails have separate hooks.",
        admission.GuardRailSettings,
    ),
    SettingsGroup("Scheduler extender", "Responses of the extender to kube-scheduler.", extender.ExtenderSettings),
    SettingsGroup(
        "Gate",
        "Conditions for the disruption of nodes and member clusters.",
        gate.GateSettings,
    ),
    SettingsGroup(
        "Node disruption",
        "Disruption of the nodes of NodePools, by `reconcile` on the hub and by `agent` on its member. `rbac` "
        "prints the rights that the mode requires.",
        gate.NodeDisruptionSettings,
    ),
    SettingsGroup(
        "Selection",
        "Objects of the hub that placements may select.",
        placement.PlaceableSettings,
    ),
    SettingsGroup(
        "Rollout",
        "`up` takes a snapshot one second after a change.",
        placement.RolloutSettings,
    ),
    SettingsGroup(
        "Removals",
        "The mode of an effect is `Off`, `Warn` (an Event reports the removal) or `Confirm` (the content remains "
        "until the removal is confirmed). The annotation `harbormaster.dev/removal-confirmation` on a placement "
        "overrides all.",
        placement.RemovalSettings,
    ),
    SettingsGroup(
        "Analysis",
        "Checks that may approve a stage of a staged update run automatically, if the annotation "
        "`harbormaster.dev/analysis` requests it. `rbac reconcile` grants the loop the right to read the kinds.",
        analysis.AnalysisSettings,
    ),
    SettingsGroup(
        "Upgrades of members",
        "Back ends that carry out upgrades. Under `up`, members are simulated, and so are their upgrades.",
        upgraders.UpgraderSettings,
    ),
    SettingsGroup(
        "Reconcile loop",
        "Leader election, shards and concurrency of the controllers.",
        loop.ControllerSettings,
    ),
    SettingsGroup(
        "History",
        "The loop and every server record the history in ConfigMaps in the namespace of the installation.",
        observability.HistorySettings,
    ),
    SettingsGroup(
        "Notifications",
        "Notifications that are posted to your receiver when action is required. The loop and every server send their "
        "own observations, so set the same values for all of them.",
        notifications.NotificationSettings,
    ),
    SettingsGroup(
        "Agent",
        "Namespaces that an agent ignores on its member, and the lifetime of its token for the hub, if `join` "
        "issued one.",
        agent.MemberAgentSettings,
    ),
    SettingsGroup(
        "Observability",
        "Log, traces and build of a process. For the listener of metrics and probes, see Listeners.",
        observability.ObservabilitySettings,
    ),
    SettingsGroup(
        "Hub",
        "Selection of the hub without `--kubeconfig`.",
        command_line.HubSettings,
    ),
    SettingsGroup(
        "Data folder", "Folder where `up` stores its state, and where commands find it.", command_line.DataSettings
    ),
    SettingsGroup(
        "Command line",
        "Environment of commands, besides their options. The variables without the prefix `HARBORMASTER_` are "
        "conventions of other programs, and so are `TZ`, for displayed times, and `HTTPS_PROXY` and `NO_PROXY`, for "
        "connections to API servers.",
        command_line.TerminalSettings,
    ),
)
