"""The requests of kube-scheduler: ``ExtenderRequest`` and ``ExtenderPreemptionArgs``.

Source: docs/specifications/serving.md 2.1 and 2.7; ``k8s.io/kube-scheduler/extender/v1``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scorer.api.meta import JsonObject
from scorer.extender.node import ExtenderNode, read_node
from scorer.extender.pod import ExtenderPod, read_pod
from scorer.extender.reading import member, read_integer, read_list, read_object, read_text, wrong_type


@dataclass(frozen=True, slots=True)
class ExtenderRequest:
    """The request of ``filter`` and ``prioritize``.

    Args:
        pod: The pod to schedule. None: unset.
        names: Names of the candidates in the order of the request, without duplicates. None: unset.
        nodes: The node objects in the request, parsed, by name.
        documents: The node objects in the request as decoded JSON, by name. They are the candidates if *names* is
            unset. None: unset.
    """

    pod: ExtenderPod | None
    names: Sequence[str] | None
    nodes: Mapping[str, ExtenderNode]
    documents: Mapping[str, JsonObject] | None

    @property
    def candidates(self) -> Sequence[str] | None:
        """Names of the candidates. None if the request contains neither names nor nodes."""
        if self.names is not None:
            return self.names
        return None if self.documents is None else tuple(self.documents)


@dataclass(frozen=True, slots=True)
class NodeVictims:
    """The pods that kube-scheduler would evict from one node.

    Args:
        uids: Uids of the victims, in the order of the request.
        violations: Number of PodDisruptionBudget violations, as counted by kube-scheduler.
        undisturbed: Whether a victim has the do-not-disrupt annotation. False if the request contains only uids.
    """

    uids: Sequence[str]
    violations: int
    undisturbed: bool


@dataclass(frozen=True, slots=True)
class PreemptionArgs:
    """The request of ``preempt``: the victims by node."""

    pod: ExtenderPod | None
    victims: Mapping[str, NodeVictims]


def read_args(document: JsonObject, cluster_labels: Sequence[str]) -> ExtenderRequest:
    """Read the body of ``filter`` or ``prioritize``.

    Raises:
        scorer.extender.reading.MalformedArgsError: A member has the wrong type.
    """
    node_list = member(document, "Nodes")
    documents: dict[str, JsonObject] | None = None
    nodes: dict[str, ExtenderNode] = {}
    if node_list is not None:
        documents = {}
        for index, item in enumerate(read_list(read_object(node_list, "Nodes").get("items"), "Nodes.items")):
            node = read_node(item, cluster_labels, f"Nodes.items[{index}]")
            if node.name not in nodes:
                nodes[node.name], documents[node.name] = node, item
    return ExtenderRequest(_pod(document), _names(member(document, "NodeNames")), nodes, documents)


def _pod(document: JsonObject) -> ExtenderPod | None:
    pod = member(document, "Pod")
    return None if pod is None else read_pod(pod, "Pod")


def _names(value: Any) -> Sequence[str] | None:
    if value is None:
        return None
    names = read_list(value, "NodeNames")
    for index, name in enumerate(names):
        if type(name) is not str:
            raise wrong_type(name, f"NodeNames[{index}]", "a string")
    return tuple(dict.fromkeys(names))


def read_preemption(document: JsonObject) -> PreemptionArgs:
    """Read the body of ``preempt``.

    Raises:
        scorer.extender.reading.MalformedArgsError: A member has the wrong type.
    """
    pod = _pod(document)
    meta, whole = member(document, "NodeNameToMetaVictims"), member(document, "NodeNameToVictims")
    if meta is not None:
        entries, field, read_victim = (
            read_object(meta, "NodeNameToMetaVictims"),
            "NodeNameToMetaVictims",
            _read_meta_victim,
        )
    else:
        entries, field, read_victim = read_object(whole, "NodeNameToVictims"), "NodeNameToVictims", read_pod
    victims = {}
    for name, value in entries.items():
        at = f"{field}[{name[:64]}]"
        entry = read_object(value, at)
        pods = read_list(member(entry, "Pods"), f"{at}.Pods")
        victim_pods = [read_victim(pod_value, f"{at}.Pods[{index}]") for index, pod_value in enumerate(pods)]
        violations = read_integer(member(entry, "NumPDBViolations"), f"{at}.NumPDBViolations")
        victims[name] = NodeVictims(
            [pod.uid for pod in victim_pods], violations, any(pod.undisturbed for pod in victim_pods)
        )
    return PreemptionArgs(pod, victims)


def _read_meta_victim(document: Any, path: str) -> ExtenderPod:
    if not isinstance(document, dict):
        raise wrong_type(document, path, "an object")
    return ExtenderPod(uid=read_text(member(document, "UID"), f"{path}.UID"))
