"""Scheduling constraints of a pod: everything that determines where it may run.

Many pods of a cluster are alike: those of one workload differ only in name. Shared results are computed once per
`PodShape` instead of once per pod. Preferences are represented as stricter shapes of a pod, which require them.

Source: Kubernetes v1.36 ``pkg/scheduler/framework/plugins``; ``component-helpers/scheduling/corev1/nodeaffinity``.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from scorer.node_disruption.cluster.requirements import parse_integer

NODE_NAME: Final = "metadata.name"
"""The only field that a node affinity term can match."""
UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
HELD_EFFECTS: Final = ("NoSchedule", "NoExecute")
"""Taint effects that repel pods."""
EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - what an absent hostIP stands for

Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""Sorted, hashable labels."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition on one label, or on one field of a node.

    Args:
        key: The label.
        operator: ``In``, ``NotIn``, ``Exists``, ``DoesNotExist``, and for nodes ``Gt`` and ``Lt``.
        values: Operands.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, value: str | None) -> bool:
        """Return whether the condition holds for *value*, which is None for a missing label."""
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        if value is None or len(self.values) != 1:
            return False
        number, bound = parse_integer(value), parse_integer(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else self.operator == "Lt" and number < bound


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector. Without expressions it matches every object."""

    expressions: tuple[Expression, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with *labels* matches."""
        return all(expression.holds(labels.get(expression.key)) for expression in self.expressions)


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One of several alternative terms for a node.

    Args:
        labels: Conditions on the labels of the node, all required.
        fields: Conditions on its fields, all required.
    """

    labels: tuple[Expression, ...] = ()
    fields: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedToleration:
    """A toleration. An empty key matches every key, and an empty effect matches every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: "ParsedTaint") -> bool:
        """Return whether the toleration matches *taint*.

        ``Gt`` and ``Lt`` never match: their feature gate, TaintTolerationComparisonOperators, is off by default.
        """
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (self.operator == "Equal" and self.value == taint.value)


@dataclass(frozen=True, slots=True)
class ParsedTaint:
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A term of pod affinity or anti-affinity.

    Args:
        topology_key: Node label. Nodes with the same value form one domain.
        selector: Selects pods. None: unset or invalid, it matches no pod.
        namespaces: Namespaces of the selected pods.
        namespace_selector: Selects additional namespaces. None: unset.
    """

    topology_key: str
    selector: Selector | None
    namespaces: frozenset[str]
    namespace_selector: Selector | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """A topology spread constraint that must be met.

    Args:
        topology_key: Node label. Nodes with the same value form one domain.
        selector: Selects pods in the pod's namespace. None: unset or invalid, it matches no pod.
        max_skew: Largest difference from the domain with the fewest pods.
        min_domains: With fewer domains, the minimum counts as 0.
        honors_affinity: Count only nodes that match selector and node affinity.
        honors_taints: Count only nodes whose taints are tolerated.
    """

    topology_key: str
    selector: Selector | None
    max_skew: int = 1
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port on the node."""

    port: int
    protocol: str = "TCP"
    address: str = EVERY_ADDRESS

    def conflicts(self, other: "HostPort") -> bool:
        """Return whether the two ports conflict on one node."""
        is_same_port = (self.port, self.protocol) == (other.port, other.protocol)
        return is_same_port and (self.address == other.address or EVERY_ADDRESS in (self.address, other.address))


@dataclass(frozen=True, slots=True)
class PodShape:
    """Everything that determines where a pod may run. Pods with equal shapes are interchangeable.

    Args:
        namespace: Namespace of the pod.
        labels: Labels, reduced to the keys that terms of some pod select.
        requests: Resource requests: cpu in millicores, everything else in whole units. ``pods`` is 1.
        node_selector: Required node labels.
        node_terms: Alternative terms. A node must match at least one. None: unlimited. An empty tuple matches no node.
        preferred_nodes: A preferred node term that is required as well. Set only in the stricter shapes of a pod.
        volume_terms: Alternatives like *node_terms* for each volume bound to certain nodes.
        tolerations: Tolerations of the pod.
        affinity: Required terms of pod affinity.
        anti_affinity: Required terms of pod anti-affinity.
        spreads: Required topology spread constraints.
        host_ports: Host ports.
    """

    namespace: str = ""
    labels: Pairs = ()
    requests: tuple[tuple[str, int], ...] = (("pods", 1),)
    node_selector: Pairs = ()
    node_terms: tuple[NodeTerm, ...] | None = None
    preferred_nodes: NodeTerm | None = None
    volume_terms: tuple[tuple[NodeTerm, ...], ...] = ()
    tolerations: tuple[ParsedToleration, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spreads: tuple[Spread, ...] = ()
    host_ports: tuple[HostPort, ...] = ()

    def tolerates(self, taint: ParsedTaint) -> bool:
        """Return whether any toleration matches *taint*."""
        return any(toleration.tolerates(taint) for toleration in self.tolerations)

    def selected_keys(self) -> frozenset[str]:
        """Return the pod label keys that its terms select."""
        selectors = [term.selector for term in (*self.affinity, *self.anti_affinity)]
        selectors += [spread.selector for spread in self.spreads]
        return frozenset(expression.key for selector in selectors if selector for expression in selector.expressions)

    def narrow(self, keys: Collection[str]) -> "PodShape":
        """Return the shape with its labels reduced to *keys*."""
        narrowed_labels = tuple(pair for pair in self.labels if pair[0] in keys)
        return self if len(narrowed_labels) == len(self.labels) else replace(self, labels=narrowed_labels)
