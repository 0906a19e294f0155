"""ClusterUpgradeProfile: creates upgrade runs automatically when the version catalog changes.

The meaning of an absent ``nodeImage`` depends on the channel, so the schema gives it no default.

Source: upgrade-runs.md 4.3 and 12.
"""

from enum import StrEnum
from typing import Final

from pydantic import Field

from scorer.api.conditions import Conditions
from scorer.api.label_selector import LabelSelector
from scorer.api.meta import ApiModel, ApiObject, Int32, Int64, Time
from scorer.api.upgrade.fields import StrategyReference, UpgradeError

DEFAULT_RUN_HISTORY: Final = 10

_MINOR_OR_EMPTY = r"^([0-9]+\.[0-9]+)?$"


class Channel(StrEnum):
    """Which versions a profile follows."""

    STABLE = "Stable"
    RAPID = "Rapid"
    NODE_IMAGE = "NodeImage"
    TARGET_KUBERNETES_VERSION = "TargetKubernetesVersion"


class ProfileImageSelection(StrEnum):
    """How a profile's runs choose node images."""

    LATEST = "Latest"
    CONSISTENT = "Consistent"


class ConcurrencyPolicy(StrEnum):
    """What a new trigger does while a run of the profile is unfinished."""

    QUEUE = "Queue"
    REPLACE = "Replace"
    ALLOW = "Allow"


class TriggerStatus(StrEnum):
    """How the last trigger ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class ProfileNodeImage(ApiModel):
    """Which node images members get; absent: Consistent in the NodeImage channel, else Latest."""

    selection: ProfileImageSelection | None = None


class UpgradeProfileSpec(ApiModel):
    """``spec`` of a profile."""

    channel: Channel
    strategy_ref: StrategyReference | None = Field(default=None, description="Absent: one member at a time.")
    member_selector: LabelSelector | None = Field(default=None, description="Absent: all members.")
    node_image: ProfileNodeImage | None = None
    target_kubernetes_version: str = Field(default="", json_schema_extra={"maxLength": 64, "pattern": _MINOR_OR_EMPTY})
    long_term_support: bool = False
    disabled: bool = Field(default=False, json_schema_extra={"default": False})
    auto_start: bool = True
    concurrency_policy: ConcurrencyPolicy = ConcurrencyPolicy.QUEUE
    run_history_limit: Int32 = Field(default=DEFAULT_RUN_HISTORY, ge=0)


class UpgradeProfileStatus(ApiModel):
    """``status`` of a profile: what the last change of the catalog led to."""

    observed_generation: Int64 = 0
    last_triggered_at: Time | None = None
    last_trigger_status: TriggerStatus | None = None
    last_trigger_error: UpgradeError | None = None
    last_trigger_upgrade_versions: tuple[str, ...] = ()
    last_trigger_message: str = ""
    current_run: str = ""
    next_candidate: str = ""
    conditions: Conditions = ()


class ClusterUpgradeProfile(ApiObject):
    """Upgrades members automatically as versions are published."""

    spec: UpgradeProfileSpec
    status: UpgradeProfileStatus = Field(default_factory=UpgradeProfileStatus)
