"""Capacity, allocatable and requested resources of the member, as running sums.

Only the amounts of a node or a pod are kept. A node or pod counts until it is deleted, even while terminating or
cordoned. A pod counts from its assignment to a node until it has succeeded or failed, with the requests of its regular
containers.

Source: docs/specifications/scheduling.md 18; KubeFleet pkg/propertyprovider/azure/trackers.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import labels_of, spec_of, status_of
from scorer.api.values.quantity import Quantity, format_binary_quantity, format_quantity, parse_quantity
from scorer.cost import PricedNode
from webhook.kube.ports import Key, key_of
from webhook.member.properties.azure import REGION_LABEL, AzureNode, azure_properties, read_azure_node

SKU_LABEL = "beta.kubernetes.io/instance-type"
UNDEFINED_SKU = "undefined"

_ENDED = frozenset({"Succeeded", "Failed"})


class Amounts(NamedTuple):
    """CPU and memory, exact, in units of 10^-9."""

    cpu: int = 0
    memory: int = 0

    def plus(self, other: "Amounts", sign: int = 1) -> "Amounts":
        """Return the sum, with *sign* -1 the difference."""
        return Amounts(self.cpu + sign * other.cpu, self.memory + sign * other.memory)

    def texts(self) -> dict[str, str]:
        """Return both as quantities, by resource name."""
        return {"cpu": format_quantity(self.cpu), "memory": format_binary_quantity(self.memory)}


class _NodeCapacity(NamedTuple):
    """Relevant part of a node. *sku* and *region* are empty without such a label. *azure* is None outside of Azure."""

    capacity: Amounts
    allocatable: Amounts
    sku: str = ""
    region: str = ""
    azure: AzureNode | None = None


class Usage:
    """The sums over all nodes and pods of one cluster."""

    def __init__(self) -> None:
        self._nodes: dict[str, _NodeCapacity] = {}
        self._pods: dict[Key, Amounts] = {}
        self._capacity = self._allocatable = self._requested = Amounts()
        self._skus: Counter[str] = Counter()
        self.node_revision = 0
        """Increases when a node is added or deleted, or when its relevant part changes."""

    def put_node(self, document: JsonObject) -> None:
        """Add or update a node."""
        self._set_node(document["metadata"]["name"], read_node(document))

    def drop_node(self, name: str) -> None:
        """Remove a node."""
        self._set_node(name, None)

    def replace_nodes(self, documents: Iterable[JsonObject]) -> None:
        """Replace all nodes by these."""
        nodes = {document["metadata"]["name"]: read_node(document) for document in documents}
        for name in [*(name for name in self._nodes if name not in nodes), *nodes]:
            self._set_node(name, nodes.get(name))

    def put_pod(self, document: JsonObject) -> None:
        """Add or update a pod."""
        self._set_pod(key_of(document), read_pod(document))

    def drop_pod(self, key: Key) -> None:
        """Remove a pod."""
        self._set_pod(key, None)

    def replace_pods(self, documents: Iterable[JsonObject]) -> None:
        """Replace all pods by these."""
        pods = {key_of(document): read_pod(document) for document in documents}
        for key in [*(key for key in self._pods if key not in pods), *pods]:
            self._set_pod(key, pods.get(key))

    def _set_node(self, name: str, new: _NodeCapacity | None) -> None:
        old = self._nodes.pop(name, None)
        if new is not None:
            self._nodes[name] = new
        for node, sign in ((old, -1), (new, 1)):
            if node is not None:
                self._capacity = self._capacity.plus(node.capacity, sign)
                self._allocatable = self._allocatable.plus(node.allocatable, sign)
                self._skus[node.sku or UNDEFINED_SKU] += sign
        if old is not None and not self._skus[old.sku or UNDEFINED_SKU]:
            del self._skus[old.sku or UNDEFINED_SKU]
        if old != new:
            self.node_revision += 1

    def _set_pod(self, key: Key, new: Amounts | None) -> None:
        old = self._pods.pop(key, None)
        if old is not None:
            self._requested = self._requested.plus(old, -1)
        if new is not None:
            self._pods[key] = new
            self._requested = self._requested.plus(new)

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return len(self._nodes)

    @property
    def skus(self) -> Mapping[str, int]:
        """Number of nodes per SKU, with those without the label under ``undefined``."""
        return dict(sorted(self._skus.items()))

    @property
    def region(self) -> str:
        """The region of the nodes: that of the first node by name that has the label."""
        return next((node.region for _, node in sorted(self._nodes.items()) if node.region), "")

    @property
    def azure_properties(self) -> dict[str, str]:
        """The location, resource group and subscription of the cluster, as far as the nodes agree, by property."""
        return azure_properties(node.azure for node in self._nodes.values())

    @property
    def capacity(self) -> dict[str, str]:
        """Sum of ``status.capacity``, as quantities."""
        return self._capacity.texts()

    @property
    def allocatable(self) -> dict[str, str]:
        """Sum of ``status.allocatable``, as quantities."""
        return self._allocatable.texts()

    @property
    def available(self) -> dict[str, str]:
        """`allocatable` without the requests of the pods, never below zero."""
        free = self._allocatable.plus(self._requested, -1)
        return Amounts(max(0, free.cpu), max(0, free.memory)).texts()

    def priced_nodes(self) -> Iterator[PricedNode]:
        """Yield the cost-relevant data of each node."""
        for node in self._nodes.values():
            yield PricedNode(node.sku, _quantity(node.capacity.cpu), _quantity(node.capacity.memory))


def read_node(document: Mapping[str, Any]) -> _NodeCapacity:
    """Return the resources of a node, and the labels that set its price."""
    status = status_of(document)
    labels = labels_of(document)
    return _NodeCapacity(
        _amounts(status.get("capacity")),
        _amounts(status.get("allocatable")),
        str(labels.get(SKU_LABEL) or ""),
        str(labels.get(REGION_LABEL) or ""),
        read_azure_node(document),
    )


def read_pod(document: Mapping[str, Any]) -> Amounts | None:
    """Return the resources that a pod requests from its node, or None if it has no node or has ended."""
    spec = spec_of(document)
    if not spec.get("nodeName") or status_of(document).get("phase") in _ENDED:
        return None
    requests = Amounts()
    for container in spec.get("containers") or ():
        requests = requests.plus(_amounts((container.get("resources") or {}).get("requests")))
    return requests


def _amounts(resources: object) -> Amounts:
    amounts = resources if isinstance(resources, Mapping) else {}
    return Amounts(_nano(amounts.get("cpu")), _nano(amounts.get("memory")))


def _nano(value: object) -> int:
    """Return a quantity in units of 10^-9. A malformed one counts as 0."""
    if not isinstance(value, str | int):
        return 0
    try:
        return parse_quantity(str(value)).nano
    except ValueError:
        return 0


def _quantity(nano: int) -> Quantity:
    return parse_quantity(format_quantity(nano))
