"""Placements: which kinds and namespaces they may select, and how changes reach the members."""

from collections.abc import Iterator

from pydantic import Field, field_validator

from scorer.rollout.selection.exclusions import SelectionSettings, parse_kind_rules
from webhook.settings.environment import Contradiction, Settings
from webhook.settings.installation import InstallationSettings
from webhook.settings.values import Seconds, SecondsWithin, Words


class PlaceableSettings(InstallationSettings):
    """Limits on what placements may select, and on the kinds that agents apply."""

    allowed_kinds: str = Field(
        default="",
        description="Kinds that placements may select or wrap, and an agent applies, and no others: `GROUP`, "
        "`GROUP/VERSION` or `GROUP/VERSION/Kind1,Kind2`, separated by `;`; empty: all that are not blocked.",
    )
    blocked_kinds: str = Field(
        default="",
        description="Kinds that placements may not select or wrap, besides those that are always blocked; written like "
        "`HARBORMASTER_ALLOWED_KINDS`, with which it cannot be combined: `v1/Secret;example.com`.",
    )
    workloads_enabled: bool = Field(
        default=False, description="The hub runs workloads itself, so that claims of volumes are not placed."
    )
    skipped_namespaces: Words = Field(
        default=(),
        description="Namespaces that are never placed, besides `default`, `kube-*`, `fleet-*` and the one of "
        "harbormaster itself.",
    )

    @field_validator("allowed_kinds", "blocked_kinds")
    @classmethod
    def _check_kind_rules(cls, text: str) -> str:
        parse_kind_rules(text)
        return text

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield what contradicts what."""
        yield from super().contradictions()
        if self.allowed_kinds.strip() and self.blocked_kinds.strip():
            yield Contradiction(
                frozenset({"allowed_kinds", "blocked_kinds"}), "allowed_kinds and blocked_kinds: exclude each other"
            )

    def selection(self) -> SelectionSettings:
        """Return what may be selected, ready for use."""
        return SelectionSettings.of(
            allowed=self.allowed_kinds,
            blocked=self.blocked_kinds,
            reserved_namespaces=",".join(self.skipped_namespaces),
            workloads_enabled=self.workloads_enabled,
            home=self.namespace,
        )


class RolloutSettings(Settings):
    """Rollouts: what counts against their budgets, and how often placed content may change."""

    rollout_stalled_seconds: SecondsWithin = Field(
        default=600,
        ge=10,
        le=604_800,
        description="How long a rollout may stand still, beyond its `unavailablePeriodSeconds`, until its placement "
        "says that it is stalled.",
    )
    removal_needs_budget: bool = Field(
        default=True,
        description="Count a removal against `maxUnavailable` even if the binding has failed or no cluster is wanted "
        "any more; `false`: such removals have no limit.",
    )
    resource_snapshot_interval_seconds: Seconds = Field(
        default=30, le=300, description="Shortest time between two snapshots of what a placement selects."
    )
    resource_collection_seconds: Seconds = Field(
        default=15,
        le=60,
        description="How long changes of what a placement selects are collected into one snapshot, from the first one "
        "on.",
    )
