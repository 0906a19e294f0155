"""Which kinds and namespaces a placement may select at all.

Source: rollout.md 2.3 and 2.4; KubeFleet pkg/utils/apiresources.go.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from scorer.api.names import CLUSTER_GROUP, PLACEMENT_GROUP, is_reserved_namespace

ENVELOPE_KINDS = frozenset({"ClusterResourceEnvelope", "ResourceEnvelope"})

_WORD = re.compile(r"[A-Za-z0-9.-]+", re.ASCII)
_VERSION = re.compile(r"v[0-9]+(?:(?:alpha|beta)[0-9]+)?", re.ASCII)
_BLOCKED_GROUPS = frozenset({CLUSTER_GROUP, "events.k8s.io", "coordination.k8s.io", "metrics.k8s.io"})
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
class KindRule:
    """One token of the option: a group, or some of its versions and kinds; an empty part means any."""

    group: str
    version: str = ""
    kinds: frozenset[str] = frozenset()

    def covers(self, group: str, version: str, kind: str) -> bool:
        """Say whether the rule names this kind."""
        return self.group == group and self.version in ("", version) and (not self.kinds or kind in self.kinds)


def parse_kind_rules(text: str) -> tuple[KindRule, ...]:
    """Read ``GROUP``, ``GROUP/VERSION``, ``GROUP/VERSION/Kind1,Kind2`` or ``v1/Kind1,Kind2``, separated by ``;``.

    Raises:
        ValueError: A token is none of these; the message shows it.
    """
    return tuple(_rule(token) for part in text.split(";") if (token := part.strip()))


def _rule(token: str) -> KindRule:
    parts = [part.strip() for part in token.split("/")]
    if len(parts) <= 2 and _VERSION.fullmatch(parts[0]):
        parts = ["", *parts]  # the core group is written without its empty name
    kinds = frozenset(kind.strip() for kind in parts[2].split(",")) if len(parts) == 3 else frozenset[str]()
    words = [*parts[1:2], *kinds, *([parts[0]] if parts[0] else [])]
    if len(parts) > 3 or token.startswith("/") or not all(_WORD.fullmatch(word) for word in words):
        raise ValueError(f"{token!r} is none of GROUP, GROUP/VERSION, GROUP/VERSION/Kind1,Kind2")
    return KindRule(parts[0], parts[1] if len(parts) > 1 else "", kinds)


@dataclass(frozen=True, slots=True)
class SelectionSettings:
    """What the hub's operator decided about selection.

    Args:
        allowed: When not empty, only these kinds are selected, and the default block list does not count.
        blocked: Kinds never selected, besides the default ones. Not together with *allowed*.
        reserved_namespaces: Never selected, besides ``default``, ``kube-*`` and ``fleet-*``.
        workloads_enabled: The hub runs workloads itself: claims of volumes are then not propagated.
    """

    allowed: tuple[KindRule, ...] = ()
    blocked: tuple[KindRule, ...] = ()
    reserved_namespaces: frozenset[str] = frozenset()
    workloads_enabled: bool = False

    @classmethod
    def of(
        cls, *, allowed: str = "", blocked: str = "", reserved_namespaces: str = "", workloads_enabled: bool = False
    ) -> "SelectionSettings":
        """Read the options; names of namespaces are separated by ``,`` or ``;``.

        Raises:
            ValueError: A token cannot be read, or both lists are given.
        """
        if allowed.strip() and blocked.strip():
            raise ValueError("allowed and blocked kinds exclude each other")
        names = (name.strip() for name in reserved_namespaces.replace(";", ",").split(","))
        return cls(
            parse_kind_rules(allowed), parse_kind_rules(blocked), frozenset(filter(None, names)), workloads_enabled
        )

    def is_selectable(self, group: str, version: str, kind: str) -> bool:
        """Say whether objects of the kind are ever selected."""
        if self.allowed:
            return _any(self.allowed, group, version, kind)
        if group in _BLOCKED_GROUPS or (group, kind) in _BLOCKED_KINDS:
            return False
        if group == PLACEMENT_GROUP and kind not in ENVELOPE_KINDS:
            return False
        return not _any(self.blocked, group, version, kind)

    def is_reserved(self, namespace: str) -> bool:
        """Say whether the namespace is never selected."""
        return is_reserved_namespace(namespace) or namespace in self.reserved_namespaces


def _any(rules: Iterable[KindRule], group: str, version: str, kind: str) -> bool:
    return any(rule.covers(group, version, kind) for rule in rules)
