"""Placements: kinds and namespaces that they may select, the rollout of changes, and removals."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Literal

from pydantic import Field, field_validator

from scorer.rollout.confirmation.policy import (
    DEFAULT_EXEMPT,
    DEFAULT_KINDS,
    ConfirmationMode,
    RemovalPolicy,
    parse_kind_patterns,
)
from scorer.rollout.selection.exclusions import SelectionSettings, parse_kind_rules
from webhook.settings.environment import Contradiction, Settings
from webhook.settings.installation import InstallationSettings
from webhook.settings.values import Seconds, SecondsWithin, Words


class PlaceableSettings(InstallationSettings):
    """Limits on what placements may select, and on the kinds that agents apply."""

    allowed_kinds: str = Field(
        default="",
        description="Kinds that placements may select or wrap, and that an agent applies: `GROUP`, `GROUP/VERSION` or "
        "`GROUP/VERSION/Kind1,Kind2`, in the core group `v1` or `v1/Kind1,Kind2`, separated by `;`. Empty: all kinds "
        "that are not blocked.",
    )
    blocked_kinds: str = Field(
        default="",
        description=(
            "Kinds that placements may not select or wrap, in addition to those that are always blocked. Example: "
            "`v1/Secret;example.com`. Same syntax as `HARBORMASTER_ALLOWED_KINDS`, which must be empty if this is "
            "set."
        ),
    )
    workloads_enabled: bool = Field(
        default=False,
        description="`true` if the hub itself runs workloads. PersistentVolumeClaims are then not placed.",
    )
    skipped_namespaces: Words = Field(
        default=(),
        description=(
            "Namespaces that are never placed, in addition to `default`, `kube-*`, `fleet-*` and the namespace of "
            "the installation."
        ),
    )

    @field_validator("allowed_kinds", "blocked_kinds")
    @classmethod
    def _check_kind_rules(cls, text: str) -> str:
        parse_kind_rules(text)
        return text

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield lists of both allowed and blocked kinds."""
        yield from super().contradictions()
        if self.allowed_kinds.strip() and self.blocked_kinds.strip():
            yield Contradiction(
                frozenset({"allowed_kinds", "blocked_kinds"}),
                "allowed_kinds: must not be set when blocked_kinds is set",
            )

    def selection(self) -> SelectionSettings:
        """Return the kinds and namespaces that may be selected."""
        return SelectionSettings.of(
            allowed=self.allowed_kinds,
            blocked=self.blocked_kinds,
            reserved_namespaces=",".join(self.skipped_namespaces),
            workloads_enabled=self.workloads_enabled,
            home=self.namespace,
        )


class RemovalSettings(Settings):
    """Removals of content from members: which need confirmation, and how they are measured."""

    removal_confirmation: Literal["", "Off", "Warn", "Confirm"] = Field(
        default="",
        description=(
            "Confirmation mode for all removals: `Off` (they proceed immediately, as in KubeFleet), `Warn` or "
            "`Confirm`. Overrides the settings for single effects, such as `HARBORMASTER_REMOVAL_CONFIRMATION_DATA`. "
            "Empty: those settings apply."
        ),
    )
    removal_confirmation_data: ConfirmationMode = Field(
        default=ConfirmationMode.CONFIRM,
        description=(
            "Mode when objects of a kind that holds data leave a placement: Namespace, PersistentVolumeClaim, "
            "PersistentVolume, CustomResourceDefinition, StatefulSet, and those of "
            "`HARBORMASTER_REMOVAL_CONFIRMATION_KINDS`."
        ),
    )
    removal_confirmation_many_objects: ConfirmationMode = Field(
        default=ConfirmationMode.CONFIRM,
        description="Mode when a placement loses all its objects, more than 10 of them, or at least 3 that are more "
        "than half.",
    )
    removal_confirmation_objects: ConfirmationMode = Field(
        default=ConfirmationMode.WARN, description="Mode when any other object leaves a placement."
    )
    removal_confirmation_many_clusters: ConfirmationMode = Field(
        default=ConfirmationMode.CONFIRM,
        description=(
            "Mode when a placement loses all its clusters, more than 10 of them, or at least 3 that are more than "
            "half. Clusters with a replacement do not count as lost."
        ),
    )
    removal_confirmation_clusters: ConfirmationMode = Field(
        default=ConfirmationMode.OFF, description="Mode when a placement loses fewer clusters."
    )
    removal_confirmation_placement: ConfirmationMode = Field(
        default=ConfirmationMode.CONFIRM,
        description="Mode when a placement with content on two or more clusters is deleted.",
    )
    removal_confirmation_node_pool: ConfirmationMode = Field(
        default=ConfirmationMode.CONFIRM,
        description="Mode when a NodePool with nodes is deleted. Checked only by admission.",
    )
    removal_confirmation_window_seconds: SecondsWithin = Field(
        default=3600,
        ge=60,
        le=86_400,
        description="Period over which removals are counted together.",
    )
    removal_confirmation_kinds: Words = Field(
        default=DEFAULT_KINDS,
        description=(
            "Kinds that hold data or infrastructure: `Kind` (of the core group), `Kind.group`, `*.group`, "
            "`Kind.*.suffix` or `*.*.suffix`."
        ),
    )
    removal_confirmation_exempt: str = Field(
        default="=".join(DEFAULT_EXEMPT),
        description="Label of namespaces whose content is removed without confirmation, as `KEY=VALUE`. Empty: none.",
    )

    @field_validator("removal_confirmation_kinds")
    @classmethod
    def _check_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        parse_kind_patterns(patterns)
        return patterns

    @field_validator("removal_confirmation_exempt")
    @classmethod
    def _check_exempt(cls, text: str) -> str:
        if text and not all(text.partition("=")[::2]):
            raise ValueError(f"{text!r}: must be KEY=VALUE")
        return text

    def removal(self) -> RemovalPolicy:
        """Return the policy for the confirmation of removals."""
        key, _, value = self.removal_confirmation_exempt.partition("=")
        policy = RemovalPolicy(
            self.removal_confirmation_data,
            self.removal_confirmation_many_objects,
            self.removal_confirmation_objects,
            self.removal_confirmation_many_clusters,
            self.removal_confirmation_clusters,
            self.removal_confirmation_placement,
            self.removal_confirmation_node_pool,
            timedelta(seconds=self.removal_confirmation_window_seconds),
            parse_kind_patterns(self.removal_confirmation_kinds),
            (key, value) if key else None,
        )
        if not self.removal_confirmation:
            return policy
        return policy.with_every_mode(ConfirmationMode(self.removal_confirmation))


class RolloutSettings(RemovalSettings):
    """Rollouts: which removals need budget, and the minimum interval between changes of placed content."""

    rollout_stalled_seconds: SecondsWithin = Field(
        default=600,
        ge=10,
        le=604_800,
        description="Time without progress, beyond `unavailablePeriodSeconds`, after which a rollout is reported as "
        "stalled.",
    )
    removal_needs_budget: bool = Field(
        default=True,
        description="Count a removal against `maxUnavailable` even if the binding has failed or the placement no "
        "longer selects any cluster. `false`: such removals are unlimited.",
    )
    resource_snapshot_interval_seconds: Seconds = Field(
        default=30, le=300, description="Minimum interval between snapshots of the objects that a placement selects."
    )
    resource_collection_seconds: Seconds = Field(
        default=15,
        le=60,
        description=(
            "Debounce interval: changes of selected objects that follow the first change within this time are "
            "coalesced into one snapshot."
        ),
    )
