"""ClusterUpgradeProfile: creates upgrade runs automatically when the version catalog changes.

The meaning of an absent ``nodeImage`` depends on the channel, so the schema gives it no default.

Source: docs/specifications/upgrade-runs.md 4.3 and 12.
"""

from enum import StrEnum
from typing import Final

from pydantic import Field

from scorer.api.conditions import Conditions
from scorer.api.meta import ApiModel, ApiObject, Int32, Int64, Time, shared_default
from scorer.api.upgrade.fields import StrategyReference, UpgradeError
from scorer.api.values.label_selector import LabelSelector

DEFAULT_RUN_HISTORY: Final = 10

_MINOR_OR_EMPTY = r"^([0-9]+\.[0-9]+)?$"


class Channel(StrEnum):
    """Versions that a profile follows."""

    STABLE = "Stable"
    RAPID = "Rapid"
    NODE_IMAGE = "NodeImage"
    SECURITY_PATCH = "SecurityPatch"
    TARGET_KUBERNETES_VERSION = "TargetKubernetesVersion"


class ProfileImageSelection(StrEnum):
    """Rule by which the runs of a profile choose node images."""

    LATEST = "Latest"
    CONSISTENT = "Consistent"


class ConcurrencyPolicy(StrEnum):
    """Effect of a new trigger while a run of the profile is unfinished."""

    QUEUE = "Queue"
    REPLACE = "Replace"
    ALLOW = "Allow"


class TriggerStatus(StrEnum):
    """Outcome of the last trigger."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class ProfileNodeImage(ApiModel):
    """Node image for the members. Absent: Consistent in channels NodeImage and SecurityPatch, else Latest."""

    selection: ProfileImageSelection | None = None
    """Latest: each member gets the newest image of its region. Consistent: all get the newest that is in every region.
    Absent: Consistent in channels NodeImage and SecurityPatch, else Latest."""


class UpgradeProfileSpec(ApiModel):
    """``spec`` of a profile."""

    channel: Channel
    """Versions to follow. Rapid: the newest minor version. Stable: the one before. TargetKubernetesVersion: patches of
    one minor version. NodeImage: node images only. SecurityPatch: only node images that are security patches, of Linux
    nodes."""
    strategy_ref: StrategyReference | None = Field(
        default=None,
    )
    """The strategy of the runs. Absent: one member at a time."""
    member_selector: LabelSelector | None = Field(
        default=None,
    )
    """Members that the runs upgrade, by label. Absent: all."""
    node_image: ProfileNodeImage | None = None
    """Selection of node images. Absent: Consistent in channels NodeImage and SecurityPatch, else Latest."""
    target_kubernetes_version: str = Field(default="", json_schema_extra={"maxLength": 64, "pattern": _MINOR_OR_EMPTY})
    """The minor version to keep, such as ``1.31``. Required by channel TargetKubernetesVersion, not allowed for others.
    Absent: none."""
    long_term_support: bool = False
    """Whether channel TargetKubernetesVersion may keep a minor version with only long-term support. Absent: false."""
    disabled: bool = Field(default=False, json_schema_extra={"default": False})
    """Whether the profile creates no more runs. Existing ones continue."""
    auto_start: bool = True
    """Whether runs start automatically. If false, they wait until a user starts them."""
    concurrency_policy: ConcurrencyPolicy = ConcurrencyPolicy.QUEUE
    """Effect of a new trigger while a run of the profile is unfinished. Queue: waits for its end. Replace: stops it
    first. Allow: creates another one alongside it."""
    run_history_limit: Int32 = Field(default=DEFAULT_RUN_HISTORY, ge=0)
    """Number of finished runs of the profile to keep. The oldest are deleted."""


class UpgradeProfileStatus(ApiModel):
    """``status`` of a profile: the effect of the last change to the catalog."""

    observed_generation: Int64 = 0
    """Generation of the profile (``metadata.generation``) that the status is about."""
    last_triggered_at: Time | None = None
    """Time when a change to the catalog last triggered a run, or an attempt to create one."""
    last_trigger_status: TriggerStatus | None = None
    """Result of that attempt."""
    last_trigger_error: UpgradeError | None = None
    """Reason for the failure. Absent after a success."""
    last_trigger_upgrade_versions: tuple[str, ...] = ()
    """The versions that the run upgrades to."""
    last_trigger_message: str = ""
    """Description of the last trigger, as a sentence."""
    current_run: str = ""
    """Name of the run that the profile has created last, or empty."""
    next_candidate: str = ""
    """Name of the run that the profile creates when its unfinished runs have ended, or empty."""
    conditions: Conditions = ()
    """Conditions of the profile, such as whether it is Valid."""


class ClusterUpgradeProfile(ApiObject):
    """Upgrades members automatically as versions are published."""

    spec: UpgradeProfileSpec
    """Versions to follow, members, and properties of the runs."""
    status: UpgradeProfileStatus = Field(default_factory=shared_default(UpgradeProfileStatus))
    """Effect of the last change to the catalog, written by harbormaster."""
