"""Which kinds and namespaces a placement may select at all.

Source: rollout.md 2.3 and 2.4; KubeFleet pkg/utils/apiresources.go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scorer.api.documents import name_of, namespace_of
from scorer.api.family import FAMILIES
from scorer.api.kinds import NAMESPACE, group_kind, split_api_version
from scorer.api.names import PLACEMENT_GROUP, is_reserved_namespace
from scorer.rollout.kind_rules import KindRule, parse_kind_rules
from scorer.rollout.never_placed import is_fleet_group, why_never_placed

HOME = "harbormaster-system"
"""The namespace in which harbormaster runs unless the operator configures another."""

ENVELOPE_KINDS = frozenset(family.envelope.kind for family in FAMILIES)

_BLOCKED_GROUPS = frozenset({"events.k8s.io", "coordination.k8s.io", "metrics.k8s.io"})
_BLOCKED_KINDS = frozenset(
    {
        ("", "Pod"),
        ("", "Node"),
        ("", "Event"),
        ("networking.fleet.azure.com", "ServiceImport"),
        ("networking.fleet.azure.com", "TrafficManagerProfile"),
        ("networking.fleet.azure.com", "TrafficManagerBackend"),
    }
)


@dataclass(frozen=True, slots=True)
class SelectionSettings:
    """What the hub's operator decided about selection.

    Args:
        allowed: When not empty, only these kinds are selected, and the default block list does not count.
        blocked: Kinds never selected, besides the default ones. Not together with *allowed*.
        reserved_namespaces: Never selected, besides ``default``, ``kube-*`` and ``fleet-*``.
        workloads_enabled: The hub runs workloads itself: PersistentVolumeClaims are then not placed.
        home: The namespace in which harbormaster runs on the hub: never selected, nor anything in it.
    """

    allowed: tuple[KindRule, ...] = ()
    blocked: tuple[KindRule, ...] = ()
    reserved_namespaces: frozenset[str] = frozenset()
    workloads_enabled: bool = False
    home: str = HOME

    @classmethod
    def of(
        cls,
        *,
        allowed: str = "",
        blocked: str = "",
        reserved_namespaces: str = "",
        workloads_enabled: bool = False,
        home: str = HOME,
    ) -> "SelectionSettings":
        """Read the options; names of namespaces are separated by ``,`` or ``;``.

        Raises:
            ValueError: A token cannot be read, or both lists are given.
        """
        if allowed.strip() and blocked.strip():
            raise ValueError("allowed and blocked kinds exclude each other")
        names = (name.strip() for name in reserved_namespaces.replace(";", ",").split(","))
        reserved = frozenset(filter(None, names))
        return cls(parse_kind_rules(allowed), parse_kind_rules(blocked), reserved, workloads_enabled, home)

    def is_selectable(self, group: str, version: str, kind: str) -> bool:
        """Say whether objects of the kind are ever selected."""
        if is_fleet_group(group) and (group != PLACEMENT_GROUP or kind not in ENVELOPE_KINDS):
            return False
        if self.allowed:
            return _any(self.allowed, group, version, kind)
        if group in _BLOCKED_GROUPS or (group, kind) in _BLOCKED_KINDS:
            return False
        return not _any(self.blocked, group, version, kind)

    def is_reserved(self, namespace: str) -> bool:
        """Say whether the namespace is never selected."""
        return is_reserved_namespace(namespace) or namespace in self.reserved_namespaces or namespace == self.home

    def why_never_placed(self, document: Mapping[str, Any]) -> str:
        """Say why an object is never placed, whatever selects it, as the end of a sentence; empty when it may be.

        An envelope may be placed; `why_never_wrapped` judges the objects in it.
        """
        group, kind = group_kind(document)
        if group == PLACEMENT_GROUP and kind in ENVELOPE_KINDS:
            return ""
        return why_never_placed(group, kind, name_of(document), namespace_of(document), homes=(self.home,))

    def why_never_wrapped(self, document: Mapping[str, Any]) -> str:
        """Say why an object in an envelope is not placed: an envelope must not bring what no selector may take."""
        if why := self.why_never_placed(document):
            return why
        group, version = split_api_version(str(document.get("apiVersion") or ""))
        kind, name = str(document.get("kind") or ""), name_of(document)
        if not self.is_selectable(group, version, kind):
            return "is of a kind that is never placed"
        if (group, kind) == NAMESPACE.group_kind and self.is_reserved(name):
            return "is a reserved namespace"
        return ""


def _any(rules: Iterable[KindRule], group: str, version: str, kind: str) -> bool:
    return any(rule.covers(group, version, kind) for rule in rules)


DEFAULT_SETTINGS = SelectionSettings()
