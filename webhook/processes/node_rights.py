"""Rights of node disruption: to read and report in mode Advise, and to act only in mode Act.

Source: docs/specifications/serving.md 5.3; docs/specifications/nodepool-disruption.md 5.1.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from scorer.api import kinds
from scorer.api.kinds import EVENT, KINDS, Kind
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import texts_at
from webhook.processes.rbac_objects import PolicyRule, RbacResource
from webhook.settings.gate import DEFAULT_LEASE, NodeDisruptionMode

NODE_LEASE: Final = "harbormaster-node-disruption"
"""Lease of the agent that disrupts the nodes of its member."""
_READ: Final = ("get", "list", "watch")
_NEEDED: Final = (kinds.NODE_POOL, kinds.NODE_CLAIM, kinds.NODE, kinds.POD, kinds.POD_DISRUPTION_BUDGET)
_HELPFUL: Final = (
    KINDS["apps", "DaemonSet"],
    kinds.NAMESPACE,
    KINDS["", "PersistentVolume"],
    KINDS["", "PersistentVolumeClaim"],
)


@dataclass(frozen=True, slots=True)
class NodeRights:
    """Rights of node disruption.

    Args:
        mode: Mode.
        karpenter_lease: Name of Karpenter's leader Lease.
    """

    mode: NodeDisruptionMode = NodeDisruptionMode.ADVISE
    karpenter_lease: str = DEFAULT_LEASE

    @classmethod
    def of(cls, mode: NodeDisruptionMode, lease: str) -> "NodeRights":
        """Return the rights for the settings. *lease* is Karpenter's Lease: ``NAME`` or ``NAMESPACE/NAME``."""
        return cls(mode, lease.rpartition("/")[2])

    @classmethod
    def held_by(cls, rules: Iterable[JsonObject]) -> "NodeRights":
        """Return the rights to keep for an agent whose ClusterRole has *rules*: at least those of Advise.

        A ClusterRole that allows evicting pods has the rights of mode Act. Its rule for Leases names Karpenter's Lease.
        """
        acts, lease = False, DEFAULT_LEASE
        for rule in rules:
            groups, resources, names = (texts_at(rule, key) for key in ("apiGroups", "resources", "resourceNames"))
            if "" in groups and "pods/eviction" in resources and "create" in texts_at(rule, "verbs"):
                acts = True
            if kinds.LEASE.group in groups and "leases" in resources and len(names) == 1:
                lease = names[0]
        return cls(NodeDisruptionMode.ACT, lease) if acts else cls()

    def rules(self) -> Iterator[PolicyRule]:
        """Yield the rules for the whole cluster."""
        if self.mode is NodeDisruptionMode.OFF:
            return
        yield from _reading(
            "candidates for disruption: pools, claims, nodes, pods and their disruption budgets", _NEEDED
        )
        yield from _reading("inputs for scheduling their pods elsewhere: DaemonSets, namespaces, volumes", _HELPFUL)
        yield _rule(
            "the status of a pool reports which nodes would be disrupted", ("update",), kinds.NODE_POOL, "status"
        )
        yield _rule("Events on pools, claims, nodes and pods", ("create", "get", "update"), EVENT)
        if self.mode is NodeDisruptionMode.ACT:
            yield from self._acting()

    def own_rules(self, lease: str) -> Iterator[PolicyRule]:
        """Yield the rules of an agent in its own namespace.

        Args:
            lease: Lease of the agent that disrupts nodes.
        """
        if self.mode is NodeDisruptionMode.OFF:
            return
        yield _rule(
            "acquire the Lease of node disruption (create cannot be limited to a name)", ("create",), kinds.LEASE
        )
        resources = (RbacResource.of(kinds.LEASE),)
        yield PolicyRule("leader election: only one agent evaluates nodes", ("get", "update"), resources, (lease,))
        if self.mode is NodeDisruptionMode.ACT:
            verbs = ("create", "delete", "get", "list", "update", "watch")
            yield PolicyRule("Leases reserve nodes before they are disrupted", verbs, resources)

    def _acting(self) -> Iterator[PolicyRule]:
        yield _rule("mode Act: nodes are tainted, and deleted if they have no claim", ("delete", "update"), kinds.NODE)
        yield _rule("mode Act: pods are evicted", ("create",), kinds.POD, "eviction")
        yield _rule("mode Act: pods are deleted when a drain times out", ("delete",), kinds.POD)
        verbs = ("create", "delete", "patch")
        yield _rule(
            "mode Act: claims are deleted, replacements are created, and drain deadlines are annotated",
            verbs,
            kinds.NODE_CLAIM,
        )
        yield _rule(
            "mode Act: the status of a claim reports why it is disrupted", ("update",), kinds.NODE_CLAIM, "status"
        )
        reason = "mode Act: claims block the deletion of their pool, which OwnerReferencesPermissionEnforcement checks"
        yield _rule(reason, ("update",), kinds.NODE_POOL, "finalizers")
        resources = (RbacResource.of(kinds.LEASE),)
        yield PolicyRule(
            "mode Act: whether Karpenter holds its Lease", ("get", "list"), resources, (self.karpenter_lease,)
        )


def _reading(reason: str, kinds: Iterable[Kind]) -> Iterator[PolicyRule]:
    by_group: dict[str, list[RbacResource]] = {}
    for resource in sorted(map(RbacResource.of, kinds)):
        by_group.setdefault(resource.group, []).append(resource)
    for resources in by_group.values():
        yield PolicyRule(reason, _READ, tuple(resources))


def _rule(reason: str, verbs: tuple[str, ...], kind: Kind, subresource: str = "") -> PolicyRule:
    return PolicyRule(reason, verbs, (RbacResource.of(kind, subresource),))
