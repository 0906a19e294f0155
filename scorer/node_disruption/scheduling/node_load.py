"""The load of a node: its pods, and the resources that they request together.

A cluster that is looked at again and again changes on few nodes between two looks. What all others carry is added up
once, and taken over as long as their pods stay the same.
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
"""Stands for an unknown time of creation."""


@dataclass(frozen=True, slots=True)
class Load:
    """The pods of one node.

    Args:
        all: All of them.
        pods: Those that take something.
        taken: What these take, by resource.
        asking: Shapes of all of them that ask for other pods, or for their absence.
        special: Those of *pods* that have host ports or terms of anti-affinity.
        queue: Those of all that need a new place when the node goes, as `queued`.
    """

    all: tuple[Pod, ...] = ()
    pods: tuple[Pod, ...] = ()
    taken: Mapping[str, int] = field(default_factory=dict)
    asking: tuple[PodShape, ...] = ()
    special: tuple[Pod, ...] = ()
    queue: tuple[Pod, ...] = ()

    @classmethod
    def of(cls, node: str, pods: tuple[Pod, ...]) -> "Load":
        """Add up what *pods* take on a node of that name."""
        taking = tuple(pod for pod in pods if not pod.finished)
        return cls(
            all=pods,
            pods=taking,
            taken=total(pod.usage_on(node) for pod in taking),
            asking=tuple(shapes_with_affinity(pods)),
            special=tuple(pod for pod in taking if pod.shape.host_ports or pod.shape.anti_affinity),
            queue=tuple(queued(pod for pod in pods if pod.reschedulable)),
        )


NOTHING: Final = Load()


def loads(cluster: ClusterSnapshot, known: Mapping[str, Load]) -> dict[str, Load]:
    """Return what each node carries that has pods, by name.

    Args:
        cluster: With the pods.
        known: Of the same cluster at another time; what is still true is taken over.
    """
    loads_by_node = {}
    for name, pods in cluster.pods.items():
        load = known.get(name)
        loads_by_node[name] = load if load is not None and load.all is pods else Load.of(name, pods)
    return loads_by_node


def shapes_with_affinity(pods: tuple[Pod, ...]) -> Iterator[PodShape]:
    """Yield the different shapes of *pods* that ask for other pods, or for their absence, preferences included."""
    for shape in {id(each.shape): each.shape for pod in pods for each in (pod, *pod.stricter)}.values():
        if shape.affinity or shape.anti_affinity or shape.spreads:
            yield shape


def queued(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods in the order in which they get places."""
    return sorted(pods, key=_size)


def _size(pod: Pod) -> tuple[int, int, datetime, str, str]:
    """Return by what pods are sorted: the largest first."""
    needs = pod.requests
    return -needs.get(CPU, 0), -needs.get(MEMORY, 0), pod.created or _EARLIEST, pod.uid, pod.key
