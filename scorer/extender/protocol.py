"""The requests of kube-scheduler and their responses: the protocol of ``k8s.io/kube-scheduler/extender/v1``.

Requests are read leniently, by `scorer.extender.question`. Their types are only described here.

Source: docs/specifications/serving.md 2.1.
"""

from typing import Annotated, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from scorer.api.meta import JsonObject
from scorer.api.values.answer import Count, ShapeOf


@with_config(ConfigDict(extra="allow"))
class EmbeddedObject(TypedDict):
    """A Pod or Node as a scheduler sends it: without `apiVersion` and `kind`."""


AnyPodOrNode = Annotated[JsonObject, ShapeOf(EmbeddedObject)]


@with_config(ConfigDict(extra="allow"))
class NodeList(TypedDict):
    """Complete nodes. kube-scheduler sends them unless the extender is configured with `nodeCacheCapable`."""

    metadata: NotRequired[JsonObject]
    items: list[AnyPodOrNode]


class ExtenderArgs(TypedDict):
    """A pod and its candidate nodes. One of the two lists is null."""

    Pod: AnyPodOrNode
    Nodes: NotRequired[NodeList | None]
    NodeNames: NotRequired[list[str] | None]


class ExtenderFilterResult(TypedDict):
    """The remaining nodes, as objects or names like the candidates in the request."""

    Nodes: NodeList | None
    NodeNames: list[str] | None
    FailedNodes: dict[str, str]
    FailedAndUnresolvableNodes: dict[str, str]
    Error: str


class HostPriority(TypedDict):
    """Points of one node."""

    Host: str
    Score: Count


class Victims(TypedDict):
    """Pods to evict."""

    Pods: list[AnyPodOrNode]
    NumPDBViolations: int


class MetaPod(TypedDict):
    """A pod by its uid."""

    UID: str


class MetaVictims(TypedDict):
    """Pods to evict, by uid."""

    Pods: list[MetaPod]
    NumPDBViolations: int


class ExtenderPreemptionArgs(TypedDict):
    """A pod, and for each node the pods to evict for it."""

    Pod: AnyPodOrNode
    NodeNameToVictims: NotRequired[dict[str, Victims] | None]
    NodeNameToMetaVictims: NotRequired[dict[str, MetaVictims] | None]


class ExtenderPreemptionResult(TypedDict):
    """The remaining nodes for a preemption."""

    NodeNameToMetaVictims: dict[str, MetaVictims]


class ExtenderBindingArgs(TypedDict):
    """A pod and its node."""

    PodName: str
    PodNamespace: str
    PodUID: str
    Node: str


class ExtenderBindingResult(TypedDict):
    """harbormaster does not bind: always an error."""

    Error: str
