"""The registry of admission: per kind, the registered writes, the defaults and the rules.

Webhook configurations, the documentation of rules and the answers to reviews are all made from this table. The rules
of a kind are imported when the kind is needed, because a command needs few of them. A server imports all at startup.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from scorer.api import kinds
from scorer.api.family import FAMILIES
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.node_class import NODE_CLASSES
from webhook.admission.admitted import Admitted
from webhook.validation.guard_rails.writes import REPLICA_SET

_MODULES: Final[Mapping[str, tuple[Kind, ...]]] = {
    "placements": tuple(family.placement for family in FAMILIES),
    "staged_updates": (
        *(family.strategy for family in FAMILIES),
        *(family.run for family in FAMILIES),
        *(family.approval_request for family in FAMILIES),
    ),
    "overrides": (
        *(family.override for family in FAMILIES),
        kinds.ENVELOPE,
        kinds.NAMESPACED_ENVELOPE,
        kinds.DISRUPTION_BUDGET,
        kinds.EVICTION,
    ),
    "members": (kinds.MEMBER_CLUSTER,),
    "nodes": (kinds.NODE_POOL, *NODE_CLASSES),
    "machine_written": (
        *(family.binding for family in FAMILIES),
        *(family.policy_snapshot for family in FAMILIES),
        *(family.resource_snapshot for family in FAMILIES),
        kinds.OVERRIDE_SNAPSHOT,
        kinds.NAMESPACED_OVERRIDE_SNAPSHOT,
        kinds.WORK,
        kinds.INTERNAL_MEMBER_CLUSTER,
        kinds.APPLIED_WORK,
        kinds.PLACEMENT_STATUS,
    ),
    "built_in": (
        kinds.VOLUME_CLAIM,
        kinds.POD,
        REPLICA_SET,
        kinds.POD_DISRUPTION_BUDGET,
        kinds.CUSTOM_RESOURCE_DEFINITION,
        kinds.NAMESPACE,
    ),
    "upgrades": (
        kinds.UPGRADE_STRATEGY,
        kinds.UPGRADE_RUN,
        kinds.UPGRADE_GATE,
        kinds.UPGRADE_PROFILE,
        kinds.MAINTENANCE_WINDOW,
        kinds.VERSION_CATALOG,
        kinds.UPGRADE_REQUEST,
    ),
}
"""Modules below `webhook.admission.entries`, with the kinds of their entries."""


class _Registry(Mapping[tuple[str, str], Admitted]):
    def __init__(self) -> None:
        self._modules = {kind.group_kind: module for module, members in _MODULES.items() for kind in members}
        self._entries: dict[tuple[str, str], Admitted] = {}

    def __getitem__(self, key: tuple[str, str]) -> Admitted:
        if key not in self._entries:
            module = import_module(f"webhook.admission.entries.{self._modules[key]}")
            self._entries |= {entry.kind.group_kind: entry for entry in module.ENTRIES}
        return self._entries[key]

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


REGISTRY: Final[Mapping[tuple[str, str], Admitted]] = _Registry()
"""All kinds with rules, by group and kind."""


def load_all() -> None:
    """Import the rules of all kinds, so that no review waits for an import."""
    tuple(REGISTRY.values())


def find(group: str, version: str, kind: str) -> Admitted | None:
    """Return the entry for a kind, or None if it has no rules in this version."""
    entry = REGISTRY.get((group, kind))
    return entry if entry is not None and version in entry.kind.versions else None


def has_rules(document: JsonObject) -> bool:
    """Return whether admission has rules for the kind of an object, in its version."""
    group, _, version = str(document.get("apiVersion", "")).rpartition("/")
    return find(group, version, str(document.get("kind", ""))) is not None
