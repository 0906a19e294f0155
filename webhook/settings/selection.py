"""What placements may select, of all that is on the hub."""

from collections.abc import Iterator

from pydantic import Field, field_validator

from scorer.rollout.kind_rules import parse_kind_rules
from scorer.rollout.selectable_kinds import SelectionSettings
from webhook.settings.environment import Contradiction, Settings
from webhook.settings.installation import NamespaceSettings
from webhook.settings.values import Words


class AllowedKindSettings(Settings):
    """The only kinds that placements and agents may use."""

    allowed_kinds: str = Field(
        default="",
        description="Kinds that placements may select or wrap, and an agent applies, and no others: `GROUP`, "
        "`GROUP/VERSION` or `GROUP/VERSION/Kind1,Kind2`, separated by `;`; empty: all that are not blocked.",
    )

    @field_validator("allowed_kinds")
    @classmethod
    def _check_allowed(cls, text: str) -> str:
        parse_kind_rules(text)
        return text


class SkippedNamespaceSettings(Settings):
    """Namespaces that placements never select."""

    skipped_namespaces: Words = Field(
        default=(),
        description="Namespaces that are never placed, besides `default`, `kube-*`, `fleet-*` and the one of "
        "harbormaster itself.",
    )


class PlaceableSettings(NamespaceSettings, AllowedKindSettings, SkippedNamespaceSettings):
    """Everything that limits what placements may select."""

    blocked_kinds: str = Field(
        default="",
        description="Kinds that placements may not select or wrap, besides those that are always blocked; written like "
        "`HARBORMASTER_ALLOWED_KINDS`, with which it cannot be combined: `v1/Secret;example.com`.",
    )
    workloads_enabled: bool = Field(
        default=False, description="The hub runs workloads itself, so that claims of volumes are not placed."
    )

    @field_validator("blocked_kinds")
    @classmethod
    def _check_blocked(cls, text: str) -> str:
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
