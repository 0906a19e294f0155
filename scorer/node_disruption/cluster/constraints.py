"""Scheduling constraints of a pod: everything that decides where it may run.

Many pods of a cluster are alike: those of one workload differ in name only. What they have in common is worked out
once per `PodShape`, not once per pod. Preferences are in stricter shapes of a pod, which have them as requirements.

Source: Kubernetes v1.36 ``pkg/scheduler/framework/plugins``; ``component-helpers/scheduling/corev1/nodeaffinity``.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from scorer.node_disruption.cluster.requirements import parse_integer

NODE_NAME: Final = "metadata.name"
"""The one field that a node affinity term can match."""
UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
HELD_EFFECTS: Final = ("NoSchedule", "NoExecute")
"""The effects of taints that keep pods away."""
EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - what an absent hostIP stands for

Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""Labels by key; hashable."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition on one label, or on one field of a node.

    Args:
        key: The label.
        operator: ``In``, ``NotIn``, ``Exists``, ``DoesNotExist``, and for nodes ``Gt`` and ``Lt``.
        values: What the operator takes.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, value: str | None) -> bool:
        """Say whether the condition holds for *value*; None: there is no such label."""
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
    """Which labels an object must have; one without expressions selects everything."""

    expressions: tuple[Expression, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether an object with *labels* is selected."""
        return all(expression.holds(labels.get(expression.key)) for expression in self.expressions)


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One of several terms of which a node must match at least one.

    Args:
        labels: Conditions on the labels of the node; all must hold.
        fields: Conditions on its fields; all must hold.
    """

    labels: tuple[Expression, ...] = ()
    fields: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedToleration:
    """A toleration; an empty key, or an empty effect, stands for every one."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: "ParsedTaint") -> bool:
        """Say whether a pod with it may run on a node with *taint*.

        ``Gt`` and ``Lt`` never do: TaintTolerationComparisonOperators, the gate for them, is off by default.
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
        topology_key: Label of nodes; those with the same value are together.
        selector: Which pods are meant; None: no pod.
        namespaces: Whose pods are meant.
        namespace_selector: Or the pods of these namespaces; None: no more than *namespaces*.
    """

    topology_key: str
    selector: Selector | None
    namespaces: frozenset[str]
    namespace_selector: Selector | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """A topology spread constraint that must be met.

    Args:
        topology_key: Label of nodes; those with the same value are together.
        selector: Which pods of the own namespace are spread; None: no pod.
        max_skew: How many more of them than where there are fewest.
        min_domains: With fewer domains the fewest counts as none.
        honors_affinity: Only nodes that match selector and node affinity count.
        honors_taints: Only nodes whose taints are tolerated count.
    """

    topology_key: str
    selector: Selector | None
    max_skew: int = 1
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node itself."""

    port: int
    protocol: str = "TCP"
    address: str = EVERY_ADDRESS

    def conflicts(self, other: "HostPort") -> bool:
        """Say whether both cannot be had on one node."""
        alike = (self.port, self.protocol) == (other.port, other.protocol)
        return alike and (self.address == other.address or EVERY_ADDRESS in (self.address, other.address))


@dataclass(frozen=True, slots=True)
class PodShape:
    """Everything that decides where a pod may run; pods with equal shapes may replace each other.

    Args:
        namespace: Of the pod.
        labels: As far as terms of some pod ask for them, by key.
        requests: What it needs, by resource: cpu in thousandths, everything else in whole units; ``pods``: 1.
        node_selector: Labels that the node must have, by key.
        node_terms: A node must match at least one; None: every node will do. An empty tuple matches no node.
        preferred_nodes: A preferred term that a node must match as well. Only stricter shapes of a pod have one.
        volume_terms: For every volume that is bound to some nodes, terms as *node_terms*.
        tolerations: Of the pod.
        affinity: Required terms of pod affinity.
        anti_affinity: Required terms of pod anti-affinity.
        spreads: Topology spread constraints that must be met.
        host_ports: Ports of the node that it takes.
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
        """Say whether some toleration tolerates *taint*."""
        return any(toleration.tolerates(taint) for toleration in self.tolerations)

    def selected_keys(self) -> frozenset[str]:
        """Return the keys of pods' labels that its terms ask for."""
        selectors = [term.selector for term in (*self.affinity, *self.anti_affinity)]
        selectors += [spread.selector for spread in self.spreads]
        return frozenset(expression.key for selector in selectors if selector for expression in selector.expressions)

    def narrowed(self, keys: Collection[str]) -> "PodShape":
        """Return the shape without the labels that are not among *keys*."""
        narrowed_labels = tuple(pair for pair in self.labels if pair[0] in keys)
        return self if len(narrowed_labels) == len(self.labels) else replace(self, labels=narrowed_labels)
