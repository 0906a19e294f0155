"""Settings that affect answers about a hub, for servers and for commands that compute answers themselves.

A command loads this module instead of the settings of all programs.
"""

from webhook.settings.admission import GuardRailSettings, ReviewSettings, RuleSettings
from webhook.settings.gate import GateSettings
from webhook.settings.installation import InstallationSettings
from webhook.settings.placement import RolloutSettings
from webhook.settings.upgraders import UpgraderSettings


class DisruptionSettings(ReviewSettings, GateSettings, RolloutSettings):
    """Both gates, and the enforcement of budgets in admission."""


class AnswerSettings(DisruptionSettings, UpgraderSettings):
    """A command that answers from the hub of a kubeconfig, with the settings of its `harbormaster serve`."""

    reads = (
        InstallationSettings,
        RuleSettings,
        GuardRailSettings,
        GateSettings,
        "skipped_namespaces",
        "removal_needs_budget",
        "default_upgrader",
    )
