"""How changes reach the members."""

from pydantic import Field

from webhook.settings.environment import Settings
from webhook.settings.values import Seconds, SecondsWithin


class RemovalSettings(Settings):
    """What counts against the budget of a rollout."""

    removal_needs_budget: bool = Field(
        default=True,
        description="Count a removal against `maxUnavailable` even if the binding has failed or no cluster is wanted "
        "any more; `false`: such removals have no limit.",
    )


class RolloutSettings(RemovalSettings):
    """Rollouts."""

    rollout_stalled_seconds: SecondsWithin = Field(
        default=600,
        ge=10,
        le=604_800,
        description="How long a rollout may stand still, beyond its `unavailablePeriodSeconds`, until its placement "
        "says that it is stalled.",
    )


class ThrottleSettings(Settings):
    """How often placed content may change."""

    resource_snapshot_interval_seconds: Seconds = Field(
        default=30, le=300, description="Shortest time between two snapshots of what a placement selects."
    )
    resource_collection_seconds: Seconds = Field(
        default=15,
        le=60,
        description="How long changes of what a placement selects are collected into one snapshot, from the first one "
        "on.",
    )
