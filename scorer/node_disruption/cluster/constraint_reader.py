"""Parser of the scheduling constraints of a pod.

Values that the API server would refuse cannot occur in a cluster. In a file, they count as conditions that never match.

Source: Kubernetes v1.36 ``component-helpers/scheduling/corev1/nodeaffinity``, ``kube-scheduler/framework/types.go`` and
``pkg/scheduler/framework/plugins/podtopologyspread/common.go``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dict_at, dicts_at, labels_of, namespace_of, spec_of, text_at, texts_at
from scorer.node_disruption.cluster.constraints import (
    EVERY_ADDRESS,
    Expression,
    HostPort,
    NodeTerm,
    Pairs,
    ParsedTaint,
    ParsedToleration,
    PodShape,
    PodTerm,
    Selector,
    Spread,
)
from scorer.node_disruption.cluster.requirements import parse_integer

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_HARD: Final = "DoNotSchedule"


def read_shapes(
    document: JsonObject, requests: Mapping[str, int], volume_terms: tuple[tuple[NodeTerm, ...], ...] = ()
) -> tuple[PodShape, ...]:
    """Parse the shapes of a pod, strictest first: with all preferences, then with fewer and fewer, finally with none.

    Args:
        document: The pod.
        requests: Resource requests of the pod.
        volume_terms: Node terms of its volumes.
    """
    required = _required_shape(document, requests, volume_terms)
    preferences = _preferences(spec_of(document))
    if preferences is None:
        return (required,)
    shapes = []
    while preferences is not None:
        shapes.append(_with_preferences(required, preferences, labels_of(document)))
        preferences = preferences.relax()
    return (*shapes, required)


@dataclass(frozen=True, slots=True)
class _Preferences:
    """Preferences of a pod, in the order of their relaxation: the heaviest term first.

    Source: docs/specifications/nodepool-disruption.md 6.5; Karpenter v1.15.0
    ``pkg/controllers/provisioning/scheduling/preferences.go``.
    """

    affinity: tuple[JsonObject, ...]
    anti_affinity: tuple[JsonObject, ...]
    nodes: tuple[JsonObject, ...]
    spreads: tuple[JsonObject, ...]
    """All constraints, ``DoNotSchedule`` included."""

    def relax(self) -> "_Preferences | None":
        """Return the preferences without the next one, if any remain."""
        if self.affinity:
            remaining = replace(self, affinity=self.affinity[1:])
        elif self.anti_affinity:
            remaining = replace(self, anti_affinity=self.anti_affinity[1:])
        elif self.nodes:
            remaining = replace(self, nodes=self.nodes[1:])
        else:
            *spreads, last = self.spreads
            soft = next(index for index, spread in enumerate(self.spreads) if not _is_hard(spread))
            spreads[soft : soft + 1] = [last] if soft < len(spreads) else []
            remaining = replace(self, spreads=tuple(spreads))
        return remaining if remaining.any else None

    @property
    def any(self) -> bool:
        """Whether there is a preference."""
        return bool(self.affinity or self.anti_affinity or self.nodes) or not all(map(_is_hard, self.spreads))


def _preferences(spec: JsonObject) -> _Preferences | None:
    """Return the preferences of a pod, if it has any."""
    affinity = dict_at(spec, "affinity")
    preferences = _Preferences(
        affinity=_heaviest_first(dict_at(affinity, "podAffinity"), "podAffinityTerm"),
        anti_affinity=_heaviest_first(dict_at(affinity, "podAntiAffinity"), "podAffinityTerm"),
        nodes=_heaviest_first(dict_at(affinity, "nodeAffinity"), "preference"),
        spreads=tuple(dicts_at(spec, "topologySpreadConstraints")),
    )
    return preferences if preferences.any else None


def _heaviest_first(group: JsonObject, key: str) -> tuple[JsonObject, ...]:
    terms = sorted(dicts_at(group, _PREFERRED), key=lambda term: -_number(term.get("weight")))
    return tuple(dict_at(term, key) for term in terms)


def _with_preferences(required: PodShape, preferences: _Preferences, labels: Mapping[str, str]) -> PodShape:
    """Return a shape that also requires the preferences, including only the first node preference."""
    namespace = required.namespace
    nodes = _node_term(preferences.nodes[0]) if preferences.nodes else None
    return replace(
        required,
        preferred_nodes=nodes,
        affinity=(
            *required.affinity,
            *(_pod_term(preference, namespace, labels) for preference in preferences.affinity),
        ),
        anti_affinity=(
            *required.anti_affinity,
            *(_pod_term(preference, namespace, labels) for preference in preferences.anti_affinity),
        ),
        spreads=tuple(_spread(preference, labels) for preference in preferences.spreads),
    )


def _is_hard(constraint: JsonObject) -> bool:
    return constraint.get("whenUnsatisfiable") == _HARD


def _required_shape(
    document: JsonObject, requests: Mapping[str, int], volume_terms: tuple[tuple[NodeTerm, ...], ...]
) -> PodShape:
    spec, labels, namespace = spec_of(document), labels_of(document), namespace_of(document)
    affinity = dict_at(spec, "affinity")
    return PodShape(
        namespace=namespace,
        labels=_pairs(labels),
        requests=tuple(sorted(requests.items())),
        node_selector=_pairs(dict_at(spec, "nodeSelector")),
        node_terms=_required_node_terms(affinity),
        volume_terms=volume_terms,
        tolerations=_tolerations(spec),
        affinity=_pod_terms(dict_at(affinity, "podAffinity"), namespace, labels),
        anti_affinity=_pod_terms(dict_at(affinity, "podAntiAffinity"), namespace, labels),
        spreads=_spreads(spec, labels),
        host_ports=_host_ports(spec),
    )


def read_node_terms(selector: JsonObject) -> tuple[NodeTerm, ...]:
    """Parse ``nodeSelectorTerms``. Empty and invalid terms match no node and are omitted."""
    terms = (_node_term(term) for term in dicts_at(selector, "nodeSelectorTerms"))
    return tuple(term for term in terms if term is not None)


def read_taints(document: JsonObject) -> tuple[ParsedTaint, ...]:
    """Parse the taints of a node or of another object with the same field."""
    return tuple(
        ParsedTaint(text_at(taint, "key"), text_at(taint, "effect"), text_at(taint, "value"))
        for taint in dicts_at(document, "spec", "taints")
    )


def _pairs(labels: Mapping[str, Any]) -> Pairs:
    return tuple(sorted((key, value) for key, value in labels.items() if isinstance(value, str)))


def _required_node_terms(affinity: JsonObject) -> tuple[NodeTerm, ...] | None:
    if "nodeAffinity" not in affinity:
        return None
    required = dict_at(affinity, "nodeAffinity").get(_REQUIRED)
    return read_node_terms(required) if isinstance(required, dict) else None


def _node_term(term: JsonObject) -> NodeTerm | None:
    labels = [_expression(expression) for expression in dicts_at(term, "matchExpressions")]
    fields = [_expression(field) for field in dicts_at(term, "matchFields")]
    node_term = NodeTerm(tuple(filter(_is_valid, labels)), tuple(filter(_is_valid_field, fields)))
    is_whole = len(node_term.labels) == len(labels) and len(node_term.fields) == len(fields)
    return node_term if is_whole and (labels or fields) else None


def _expression(document: JsonObject) -> Expression:
    return Expression(text_at(document, "key"), text_at(document, "operator"), tuple(texts_at(document, "values")))


def _is_valid(expression: Expression) -> bool:
    match expression.operator:
        case "In" | "NotIn":
            return bool(expression.values)
        case "Exists" | "DoesNotExist":
            return not expression.values
        case "Gt" | "Lt":
            return len(expression.values) == 1 and parse_integer(expression.values[0]) is not None
    return False


def _is_valid_field(expression: Expression) -> bool:
    return expression.operator in ("In", "NotIn") and len(expression.values) == 1


def _tolerations(spec: JsonObject) -> tuple[ParsedToleration, ...]:
    return tuple(
        ParsedToleration(
            text_at(toleration, "key"),
            text_at(toleration, "operator") or "Equal",
            text_at(toleration, "value"),
            text_at(toleration, "effect"),
        )
        for toleration in dicts_at(spec, "tolerations")
    )


def _selector(document: object) -> Selector | None:
    """Parse a label selector. None: unset or invalid, it selects nothing."""
    if not isinstance(document, dict):
        return None
    equal = (Expression(key, "In", (value,)) for key, value in _pairs(dict_at(document, "matchLabels")))
    expressions = tuple(_expression(expression) for expression in dicts_at(document, "matchExpressions"))
    if not all(_is_valid(expression) and expression.operator not in ("Gt", "Lt") for expression in expressions):
        return None
    return Selector((*equal, *expressions))


def _pod_terms(group: JsonObject, namespace: str, labels: Mapping[str, str]) -> tuple[PodTerm, ...]:
    return tuple(_pod_term(term, namespace, labels) for term in dicts_at(group, _REQUIRED)) if group else ()


def _pod_term(term: JsonObject, namespace: str, labels: Mapping[str, str]) -> PodTerm:
    selector = _selector(term.get("labelSelector"))
    if selector is not None:
        selector = _narrow(selector, "In", texts_at(term, "matchLabelKeys"), labels)
        selector = _narrow(selector, "NotIn", texts_at(term, "mismatchLabelKeys"), labels)
    namespaces, namespace_selector = texts_at(term, "namespaces"), term.get("namespaceSelector")
    own = not namespaces and not isinstance(namespace_selector, dict)
    return PodTerm(
        topology_key=text_at(term, "topologyKey"),
        selector=selector,
        namespaces=frozenset((namespace,) if own else namespaces),
        namespace_selector=_selector(namespace_selector),
    )


def _narrow(selector: Selector, operator: str, keys: Iterable[str], labels: Mapping[str, str]) -> Selector:
    """Return *selector* with the pod's own values of *keys*.

    For stored pods, the API server has already added these values from the labels at creation. Existing expressions
    take precedence.
    """
    present = {(expression.key, expression.operator) for expression in selector.expressions}
    more = (
        Expression(key, operator, (labels[key],)) for key in keys if key in labels and (key, operator) not in present
    )
    return Selector((*selector.expressions, *more))


def _spreads(spec: JsonObject, labels: Mapping[str, str]) -> tuple[Spread, ...]:
    return tuple(
        _spread(constraint, labels)
        for constraint in dicts_at(spec, "topologySpreadConstraints")
        if _is_hard(constraint)
    )


def _spread(constraint: JsonObject, labels: Mapping[str, str]) -> Spread:
    selector = _selector(constraint.get("labelSelector"))
    if selector is not None:  # the scheduler takes the present labels, not the values stored by the API server
        own = (Expression(key, "In", (labels[key],)) for key in texts_at(constraint, "matchLabelKeys") if key in labels)
        selector = Selector((*selector.expressions, *(spread for spread in own if spread not in selector.expressions)))
    return Spread(
        topology_key=text_at(constraint, "topologyKey"),
        selector=selector,
        max_skew=_number(constraint.get("maxSkew")),
        min_domains=_number(constraint.get("minDomains")),
        honors_affinity=constraint.get("nodeAffinityPolicy") != "Ignore",
        honors_taints=constraint.get("nodeTaintsPolicy") == "Honor",
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1


def _host_ports(spec: JsonObject) -> tuple[HostPort, ...]:
    sidecars = [
        container for container in dicts_at(spec, "initContainers") if container.get("restartPolicy") == "Always"
    ]
    ports = {
        HostPort(port["hostPort"], text_at(port, "protocol") or "TCP", text_at(port, "hostIP") or EVERY_ADDRESS)
        for port in _ports((*sidecars, *dicts_at(spec, "containers")))
    }
    return tuple(sorted(ports, key=lambda port: (port.port, port.protocol, port.address))) if ports else ()


def _ports(containers: Sequence[JsonObject]) -> list[JsonObject]:
    return [
        port
        for container in containers
        if "ports" in container
        for port in dicts_at(container, "ports")
        if type(number := port.get("hostPort")) is int and number > 0
    ]
