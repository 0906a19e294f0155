"""The objects that harbormaster itself depends on, and therefore never places.

If a placement held the definition of AppliedWork, its end would delete the member's AppliedWorks, and everything that
they own; if it held the agent's namespace, its end would delete the agent. So the fleet's own objects are neither
selected nor unwrapped on the hub, nor applied or removed on a member, no matter which user or hub asks for it. They are
recognized by group, kind and name alone: nothing else in a manifest can be trusted.

Source: placement-api.md 2.1, X-01, X-02; rollout.md 2.3, 2.4.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, NODE_POOL, OUR_KINDS
from scorer.api.names import MEMBER_NAMESPACE_PREFIX
from scorer.rollout.kind_rules import KindRule

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
"""Cluster-scoped kinds of which harbormaster has objects of its own: the rights of its processes, and their guards."""


def is_fleet_group(group: str) -> bool:
    """Say whether an API group with all its kinds is the fleet's own."""
    return group in FLEET_GROUPS or group == _OWN_GROUP or group.endswith(f".{_OWN_GROUP}")


def why_never_placed(group: str, kind: str, name: str, namespace: str = "", *, homes: Collection[str] = ()) -> str:
    """Say why an object is never placed, as the end of a sentence about it; empty when it may be.

    Args:
        group: Of the object.
        kind: Of the object.
        name: Of the object.
        namespace: Of the object; empty for a cluster-scoped one.
        homes: The namespaces in which harbormaster runs, on the hub or on the member, depending on the caller.
    """
    if is_fleet_group(group):
        return f"is of the fleet's own group {group}"
    if (group, kind) == CUSTOM_RESOURCE_DEFINITION.group_kind and is_fleet_group(name.partition(".")[2]):
        return "defines a kind of the fleet"
    if (group, kind) == _API_SERVICE and is_fleet_group(name.partition(".")[2]):
        return "takes the place of the fleet's definitions"
    if (group, kind) in _GUARDS and (name == _OWN_NAME or name.startswith(f"{_OWN_NAME}-")):
        return "is one of harbormaster's own roles or policies"
    if (group, kind) == NAMESPACE.group_kind:
        return "is a namespace of the fleet itself" if is_fleet_namespace(name, homes) else ""
    return f"is in {namespace}, a namespace of the fleet itself" if is_fleet_namespace(namespace, homes) else ""


def is_fleet_namespace(name: str, homes: Collection[str]) -> bool:
    """Say whether a namespace is the fleet's own; *homes* are those in which harbormaster runs."""
    return name.startswith(MEMBER_NAMESPACE_PREFIX) or (bool(name) and name in homes)


@dataclass(frozen=True, slots=True)
class MemberLimits:
    """Limits on what the agent of a member applies and removes, whatever the hub sends.

    Args:
        home: The agent's own namespace.
        blocked_namespaces: Further namespaces that the agent touches neither themselves nor the objects in them; ``*``
            at the end matches any rest.
        allowed_kinds: When not empty, the agent touches no other kinds.
        namespaced_only: The agent touches no cluster-scoped objects.
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
        """Say why the agent leaves an object alone, as the end of a sentence about it; empty when it need not.

        Args:
            group: Of the object.
            versions: The versions of its group that may be meant.
            kind: Of the object.
            name: Of the object.
            namespace: Of the object; empty for a cluster-scoped one.
            cluster_scoped: Whether objects of the kind have no namespace on the member; False: unknown, too.
        """
        if cluster_scoped and self.namespaced_only:
            return "is cluster-scoped on the member and comes from a namespace of the hub"
        if why := why_never_placed(group, kind, name, namespace, homes=(self.home,)):
            return why
        of_its_own = (group, kind) == NAMESPACE.group_kind
        if pattern := _matching(name if of_its_own else namespace, self.blocked_namespaces):
            return f"is {'' if of_its_own else 'in '}a namespace that the agent leaves alone ({pattern})"
        allowed = self.allowed_kinds
        if allowed and not any(rule.covers(group, version, kind) for rule in allowed for version in versions):
            return "is of a kind that the agent is not allowed to apply"
        return ""


def _matching(namespace: str, patterns: Iterable[str]) -> str:
    """Return the first pattern that a namespace matches; empty when none does, or *namespace* is empty."""
    for pattern in patterns if namespace else ():
        stem = pattern.removesuffix("*")
        if namespace == pattern or (stem != pattern and namespace.startswith(stem)):
            return pattern
    return ""
