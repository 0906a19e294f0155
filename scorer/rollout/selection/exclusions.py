"""Kinds and namespaces that may be placed.

The rules of the operator, the built-in exclusions, and harbormaster's own objects.

If a placement contained the definition of AppliedWork, deleting the placement would delete the member's AppliedWorks,
and everything that they own. If it contained the agent's namespace, deleting it would delete the agent. So the fleet's
own objects are neither selected nor unwrapped on the hub, nor applied or removed on a member, regardless of the user or
hub that requests it.

They are recognized by group, kind and name alone: nothing else in a manifest can be trusted.

Source: docs/specifications/placement-api.md 2.1, X-01, X-02; docs/specifications/rollout.md 2.3 and 2.4; KubeFleet
pkg/utils/apiresources.go.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scorer.api.family import FAMILIES
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, NODE_POOL, OUR_KINDS, group_kind, split_api_version
from scorer.api.names import MEMBER_NAMESPACE_PREFIX, PLACEMENT_GROUP, is_reserved_namespace
from scorer.api.unstructured.documents import name_of, namespace_of

_WORD = re.compile(r"[A-Za-z0-9.-]+", re.ASCII)
_VERSION = re.compile(r"v[0-9]+(?:(?:alpha|beta)[0-9]+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class KindRule:
    """One entry of the operator's list of kinds: group, version and kinds. An empty version or set matches any."""

    group: str
    version: str = ""
    kinds: frozenset[str] = frozenset()

    def covers(self, group: str, version: str, kind: str) -> bool:
        """Return whether the rule names this kind."""
        return self.group == group and self.version in ("", version) and (not self.kinds or kind in self.kinds)


def parse_kind_rules(text: str) -> tuple[KindRule, ...]:
    """Parse ``GROUP``, ``GROUP/VERSION``, ``GROUP/VERSION/Kind1,Kind2`` or ``v1/Kind1,Kind2``, separated by ``;``.

    Raises:
        ValueError: A token is none of these. The message quotes the token.
    """
    return tuple(_rule(rule_text) for part in text.split(";") if (rule_text := part.strip()))


def _rule(rule_text: str) -> KindRule:
    parts = [part.strip() for part in rule_text.split("/")]
    if len(parts) <= 2 and _VERSION.fullmatch(parts[0]):
        parts = ["", *parts]  # the core group is written without its empty name
    kinds = frozenset(kind.strip() for kind in parts[2].split(",")) if len(parts) == 3 else frozenset[str]()
    words = [*parts[1:2], *kinds, *([parts[0]] if parts[0] else [])]
    if len(parts) > 3 or rule_text.startswith("/") or not all(_WORD.fullmatch(word) for word in words):
        message = "is not one of GROUP, GROUP/VERSION, GROUP/VERSION/Kind1,Kind2, VERSION, VERSION/Kind1,Kind2"
        raise ValueError(f"{rule_text!r} {message}")
    return KindRule(parts[0], parts[1] if len(parts) > 1 else "", kinds)


FLEET_GROUPS: Final = frozenset(kind.group for kind in OUR_KINDS) - {NODE_POOL.group}
_OWN_GROUP: Final = "harbormaster.dev"
_OWN_NAME: Final = "harbormaster"

_API_SERVICE: Final = ("apiregistration.k8s.io", "APIService")
_GUARDS: Final = frozenset(
    {("rbac.authorization.k8s.io", kind) for kind in ("ClusterRole", "ClusterRoleBinding")}
    | {
        ("admissionregistration.k8s.io", kind)
        for kind in (
            "ValidatingWebhookConfiguration",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
        )
    }
)
"""Cluster-scoped kinds of harbormaster's own objects: its RBAC, webhook configurations and admission policies."""


def is_fleet_group(group: str) -> bool:
    """Return whether an API group with all its kinds is the fleet's own."""
    return group in FLEET_GROUPS or group == _OWN_GROUP or group.endswith(f".{_OWN_GROUP}")


def exclusion_reason(group: str, kind: str, name: str, namespace: str = "", *, homes: Collection[str] = ()) -> str:
    """Return why an object is never placed, as the end of a sentence about it, or an empty string.

    Args:
        group: Group of the object.
        kind: Kind of the object.
        name: Name of the object.
        namespace: Namespace of the object, empty for a cluster-scoped one.
        homes: The namespaces of harbormaster itself, on the hub or on the member, depending on the caller.
    """
    if is_fleet_group(group):
        return f"belongs to the fleet's own API group {group}"
    if (group, kind) == CUSTOM_RESOURCE_DEFINITION.group_kind and is_fleet_group(name.partition(".")[2]):
        return "defines a kind of the fleet"
    if (group, kind) == _API_SERVICE and is_fleet_group(name.partition(".")[2]):
        return "conflicts with the fleet's definitions"
    if (group, kind) in _GUARDS and (name == _OWN_NAME or name.startswith(f"{_OWN_NAME}-")):
        return "is one of harbormaster's own roles, webhook configurations or policies"
    if (group, kind) == NAMESPACE.group_kind:
        return "is a namespace of the fleet itself" if is_fleet_namespace(name, homes) else ""
    return f"is in {namespace}, a namespace of the fleet itself" if is_fleet_namespace(namespace, homes) else ""


def is_fleet_namespace(name: str, homes: Collection[str]) -> bool:
    """Return whether a namespace is the fleet's own. *homes* are the namespaces of harbormaster itself."""
    return name.startswith(MEMBER_NAMESPACE_PREFIX) or (bool(name) and name in homes)


@dataclass(frozen=True, slots=True)
class MemberLimits:
    """Limits on what the agent of a member applies and removes, regardless of what the hub sends.

    Args:
        home: The agent's own namespace.
        blocked_namespaces: Further namespaces. The agent touches neither them nor the objects in them. ``*`` at the end
            matches any rest.
        allowed_kinds: Kinds that the agent may change. Empty: all kinds except the fleet's own.
        namespaced_only: Whether the agent touches no cluster-scoped objects.
    """

    home: str = ""
    blocked_namespaces: tuple[str, ...] = ("kube-*",)
    allowed_kinds: tuple[KindRule, ...] = ()
    namespaced_only: bool = False

    def refusal(
        self,
        group: str,
        versions: Sequence[str],
        kind: str,
        name: str,
        namespace: str = "",
        *,
        cluster_scoped: bool = False,
    ) -> str:
        """Return why the agent must not touch an object, as the end of a sentence about it, or an empty string.

        Args:
            group: Group of the object.
            versions: Possible versions of its group.
            kind: Kind of the object.
            name: Name of the object.
            namespace: Namespace of the object, empty for a cluster-scoped one.
            cluster_scoped: Whether the kind is cluster-scoped on the member. Also False if unknown.
        """
        if cluster_scoped and self.namespaced_only:
            return "is cluster-scoped on the member and comes from a namespace of the hub"
        if reason := exclusion_reason(group, kind, name, namespace, homes=(self.home,)):
            return reason
        is_namespace = (group, kind) == NAMESPACE.group_kind
        if pattern := _matching(name if is_namespace else namespace, self.blocked_namespaces):
            return f"is {'' if is_namespace else 'in '}a namespace that the agent ignores ({pattern})"
        allowed_kinds = self.allowed_kinds
        if allowed_kinds and not any(
            rule.covers(group, version, kind) for rule in allowed_kinds for version in versions
        ):
            return "is of a kind that the agent is not allowed to apply"
        return ""


def _matching(namespace: str, patterns: Iterable[str]) -> str:
    """Return the first pattern that a namespace matches, or an empty string. An empty *namespace* never matches."""
    for pattern in patterns if namespace else ():
        stem = pattern.removesuffix("*")
        if namespace == pattern or (stem != pattern and namespace.startswith(stem)):
            return pattern
    return ""


HOME = "harbormaster-system"
"""Default namespace of harbormaster."""

TRIMMED_AT_HOME: Final = frozenset({("", "ConfigMap"), ("", "Secret")})
"""Kinds whose objects in the namespace of the installation may be cached without their data: they are never placed."""

ENVELOPE_KINDS = frozenset(family.envelope.kind for family in FAMILIES)

BLOCKED_GROUPS = frozenset({"events.k8s.io", "coordination.k8s.io", "metrics.k8s.io"})
BLOCKED_KINDS = frozenset(
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
    """Selection settings of the hub's operator.

    Args:
        allowed: Kinds that may be selected, instead of the default block list. Empty: all kinds that are not blocked.
        blocked: Kinds never selected, besides the default ones. Not together with *allowed*.
        reserved_namespaces: Never selected, besides ``default``, ``kube-*`` and ``fleet-*``.
        workloads_enabled: Whether the hub runs workloads itself: PersistentVolumeClaims are then not placed.
        home: The namespace of harbormaster on the hub, never selected, including all objects in it.
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
        """Parse the options. Names of namespaces are separated by ``,`` or ``;``.

        Raises:
            ValueError: A token cannot be read, or both lists are given.
        """
        if allowed.strip() and blocked.strip():
            raise ValueError("allowed and blocked kinds are mutually exclusive")
        names = (name.strip() for name in reserved_namespaces.replace(";", ",").split(","))
        reserved_names = frozenset(filter(None, names))
        return cls(parse_kind_rules(allowed), parse_kind_rules(blocked), reserved_names, workloads_enabled, home)

    def is_selectable(self, group: str, version: str, kind: str) -> bool:
        """Return whether objects of the kind are ever selected."""
        if is_fleet_group(group) and (group != PLACEMENT_GROUP or kind not in ENVELOPE_KINDS):
            return False
        if self.allowed:
            return _any_rule_matches(self.allowed, group, version, kind)
        if group in BLOCKED_GROUPS or (group, kind) in BLOCKED_KINDS:
            return False
        return not _any_rule_matches(self.blocked, group, version, kind)

    def is_reserved(self, namespace: str) -> bool:
        """Return whether the namespace is never selected."""
        return is_reserved_namespace(namespace) or namespace in self.reserved_namespaces or namespace == self.home

    def exclusion_reason(self, document: Mapping[str, Any]) -> str:
        """Return why an object is never placed, as the end of a sentence, or an empty string.

        An envelope may be placed. `envelope_exclusion_reason` judges the objects in it.
        """
        group, kind = group_kind(document)
        if group == PLACEMENT_GROUP and kind in ENVELOPE_KINDS:
            return ""
        return exclusion_reason(group, kind, name_of(document), namespace_of(document), homes=(self.home,))

    def envelope_exclusion_reason(self, document: Mapping[str, Any]) -> str:
        """Return why an object in an envelope is not placed, or an empty string. The exclusions of selectors apply."""
        if reason := self.exclusion_reason(document):
            return reason
        group, version = split_api_version(str(document.get("apiVersion") or ""))
        kind, name = str(document.get("kind") or ""), name_of(document)
        if not self.is_selectable(group, version, kind):
            return "is of a kind that is never placed"
        if (group, kind) == NAMESPACE.group_kind and self.is_reserved(name):
            return "is a reserved namespace"
        return ""


def _any_rule_matches(rules: Iterable[KindRule], group: str, version: str, kind: str) -> bool:
    return any(rule.covers(group, version, kind) for rule in rules)


DEFAULT_SETTINGS = SelectionSettings()
