"""The load of a node: its pods, and their total requests.

Between two passes over a cluster, only a few nodes change. The loads of all others are reused as long as their pods are
identical.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from scorer.node_disruption.cluster.constraints import PodShape
from scorer.node_disruption.cluster.pod import Pod
from scorer.node_disruption.cluster.resources import CPU, MEMORY, total
from scorer.node_disruption.cluster.snapshot import ClusterSnapshot

_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
"""Replaces an unknown creation time."""


@dataclass(frozen=True, slots=True)
class Load:
    """The pods of one node.

    Args:
        all: All pods on the node.
        pods: The pods that use resources.
        taken: Total usage of the pods, by resource.
        asking: Distinct shapes of all pods with affinity, anti-affinity or spread constraints.
        special: The members of *pods* with host ports or anti-affinity.
        queue: The members of *all* that must be rescheduled if the node is removed, in `queue_order`.
    """

    all: tuple[Pod, ...] = ()
    pods: tuple[Pod, ...] = ()
    taken: Mapping[str, int] = field(default_factory=dict)
    asking: tuple[PodShape, ...] = ()
    special: tuple[Pod, ...] = ()
    queue: tuple[Pod, ...] = ()

    @classmethod
    def of(cls, node: str, pods: tuple[Pod, ...]) -> "Load":
        """Return the load of *pods* on a node."""
        active_pods = tuple(pod for pod in pods if not pod.finished)
        return cls(
            all=pods,
            pods=active_pods,
            taken=total(pod.usage_on(node) for pod in active_pods),
            asking=tuple(shapes_with_affinity(pods)),
            special=tuple(pod for pod in active_pods if pod.shape.host_ports or pod.shape.anti_affinity),
            queue=tuple(queue_order(pod for pod in pods if pod.reschedulable)),
        )


NOTHING: Final = Load()


def loads(cluster: ClusterSnapshot, previous: Mapping[str, Load]) -> dict[str, Load]:
    """Return the load of each node with pods, by name.

    Args:
        cluster: The cluster.
        previous: Earlier loads of the same cluster. Still valid ones are reused.
    """
    loads_by_node = {}
    for name, pods in cluster.pods.items():
        load = previous.get(name)
        loads_by_node[name] = load if load is not None and load.all is pods else Load.of(name, pods)
    return loads_by_node


def shapes_with_affinity(pods: tuple[Pod, ...]) -> Iterator[PodShape]:
    """Yield the distinct shapes of *pods* with affinity, anti-affinity or spread constraints, including preferences."""
    for shape in {id(variant.shape): variant.shape for pod in pods for variant in (pod, *pod.stricter)}.values():
        if shape.affinity or shape.anti_affinity or shape.spreads:
            yield shape


def queue_order(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods in the order of placement."""
    return sorted(pods, key=_size)


def _size(pod: Pod) -> tuple[int, int, datetime, str, str]:
    """Return the sort key of a pod: the largest first, then the oldest."""
    needs = pod.requests
    return -needs.get(CPU, 0), -needs.get(MEMORY, 0), pod.created or _EARLIEST, pod.uid, pod.key
