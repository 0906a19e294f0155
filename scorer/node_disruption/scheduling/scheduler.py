"""Placement of the pods of removed nodes: existing nodes first, then new ones.

Source: nodepool-disruption.md 6.3, 7 and 15; Karpenter v1.15.0 ``pkg/controllers/provisioning/scheduling``.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from scorer.api.node_pool import HOSTNAME
from scorer.node_disruption.cluster.pod import Pod
from scorer.node_disruption.cluster.requirements import both, compatible, one_of
from scorer.node_disruption.instance_types.new_node import NewNode, remaining_limits, templates, wishes, within_limits
from scorer.node_disruption.scheduling.node_filter import ClusterCapacity
from scorer.node_disruption.scheduling.node_load import queued

__all__ = ["NewNode", "Placed", "place_all", "templates"]

_MOST_CHOICES: Final = 100
"""How many choices of zone and the like are tried for one pod on one new node."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where pods went.

    Args:
        onto: Name of the node, by the key of the pod; those on new nodes are not here.
        new_nodes: That would be made, in the order in which they were opened, with their pods.
        left: Why a pod finds no place, by its key; see `_Reasons`.
        unplaced: The pods of *left*, in the order in which they were tried.
        fitting: What is free then; not to be changed.
    """

    onto: Mapping[str, str]
    new_nodes: tuple[NewNode, ...]
    left: Mapping[str, str]
    unplaced: Sequence[Pod]
    fitting: ClusterCapacity

    @property
    def after(self) -> ClusterCapacity:
        """What is free then; the caller's own."""
        return self.fitting.without(())


def place_all(
    fitting: ClusterCapacity, pods: Sequence[Pod], new: Sequence[NewNode] = (), *, is_queued: bool = False
) -> Placed:
    """Find a place for each of *pods*; *fitting* stays as it is.

    Large pods come first: by cpu, then memory, then age. Nodes that are there come before new ones, initialized ones
    first, then by name; a new node that is already opened comes before another one. What finds no place is tried again
    as long as that places some other pod, which it may want beside it.

    A pod that is spread goes onto a node that is there by the rule of the scheduler, who knows no others. A new node it
    shares with others only as far as the domains that more new nodes could open leave it even, as the provisioner does.

    Args:
        fitting: What is free.
        pods: That need a place.
        new: Templates of new nodes; the first that can take a pod is opened.
        is_queued: *pods* are in the order of `queued` already.
    """
    placing = _Placing(fitting, new)
    left = pods if is_queued else queued(pods)
    while True:
        still = [pod for pod in left if not placing.put(pod)]
        if not still or len(still) == len(left):
            return placing.placed(still)
        left = still


class _Placing:
    """Pods on their way to nodes.

    Args:
        fitting: What is free; it is not changed.
        new: Templates of new nodes.
    """

    def __init__(self, fitting: ClusterCapacity, new: Sequence[NewNode]) -> None:
        self._fitting = fitting.without(())
        self._real = len(fitting.names)
        self._templates = new
        self._room = {template.pool: template.room for template in new}
        self._opened: list[NewNode] = []
        self._onto: dict[str, str] = {}
        self._changes = 0
        self._failed: dict[int, int] = {}

    def put(self, pod: Pod) -> bool:
        """Put a pod somewhere; says whether there was a place."""
        if self._failed.get(id(pod.shape)) == self._changes:  # one like it has just failed
            return False
        if self._put_on_real(pod) or self._put_on_opened(pod) or self._open_for(pod):
            self._changes += 1
            return True
        self._failed[id(pod.shape)] = self._changes
        return False

    def placed(self, left: Sequence[Pod]) -> Placed:
        """Return what has come of it."""
        pools = tuple(template.pool for template in self._templates)
        why_not = _Reasons(self._fitting, left, pools) if left else {}
        return Placed(self._onto, tuple(self._opened), why_not, left, self._fitting)

    def _put_on_real(self, pod: Pod) -> bool:
        name = self._fitting.first(pod)
        if name is None:
            return False
        self._fitting.place(pod, name)
        self._onto[pod.key] = name
        return True

    def _put_on_opened(self, pod: Pod) -> bool:
        by_pods = sorted(range(len(self._opened)), key=lambda index: len(self._opened[index].pods))
        return any(self._join(self._opened[index], index, pod) for index in by_pods)

    def _open_for(self, pod: Pod) -> bool:
        index = len(self._opened)
        for template in self._templates:
            node = within_limits(template, self._room[template.pool])
            if node and self._join(replace(node, name=f"{node.pool}/new-{index + 1}"), index, pod):
                room = self._room[template.pool]
                self._room[template.pool] = remaining_limits(self._opened[index], room) if room else room
                return True
        return False

    def _join(self, node: NewNode, index: int, pod: Pod) -> bool:
        """Put a pod on a new node, which is opened with that when it is not yet."""
        if not node.welcomes(pod):
            return False
        for wish in wishes(pod.shape):
            if compatible(wish, node.requirements):
                narrowed = node.narrowed(both(node.requirements, wish), pod)
                if narrowed is not None and self._settle(narrowed, index, pod):
                    return True
        return False

    def _settle(self, node: NewNode, index: int, pod: Pod) -> bool:
        """Choose what affinity and spread need to know of a new node, such as its zone, so that they allow a pod."""
        keys = self._fitting.topology_keys(pod)
        choices = sorted((self._crowd(pod, choice), sorted(choice.items())) for choice in node.pinned(keys))
        expected = self._expected(pod)
        for _, choice in choices[:_MOST_CHOICES]:
            pinned = both(node.requirements, {key: one_of(value) for key, value in choice})
            settled = node.narrowed(pinned) if choice else node
            if settled is None:
                continue
            fitting = self._with(settled, index)
            row = self._real + index
            if fitting.topology(pod)[row] and fitting.is_even(pod, row, expected):
                fitting.place(pod, settled.name)
                self._fitting = fitting
                self._opened[index:] = [settled, *self._opened[index + 1 :]]
                return True
        return False

    def _expected(self, pod: Pod) -> Mapping[str, Collection[str]]:
        """Return the domains over which *pod* is spread that new nodes could open for it."""
        keys = {spread.topology_key for spread in pod.shape.spreads} - {HOSTNAME}
        expected = list(wishes(pod.shape)) if keys else []
        return {
            key: {
                value
                for template in self._templates
                for value in template.values(key)
                if any(key not in wish or wish[key].allows(value) for wish in expected)
            }
            for key in keys
        }

    def _crowd(self, pod: Pod, choice: Mapping[str, str]) -> int:
        return sum(self._fitting.spread_count(pod, key, value) for key, value in choice.items())

    def _with(self, node: NewNode, index: int) -> ClusterCapacity:
        """Return what is free, with a new node or what is now known of it."""
        imagined = node.imagined()
        if index < len(self._opened) and imagined.labels == self._fitting.node(self._real + index).labels:
            return self._fitting
        nodes = [self._fitting.node(self._real + each) for each in range(len(self._opened))]
        return self._fitting.with_imagined([*nodes[:index], imagined, *nodes[index + 1 :]], int(index == len(nodes)))


class _Reasons(Mapping[str, str]):
    """Why pods found no place, by their key; worked out when it is asked for, once for all that are alike.

    Args:
        fitting: What was free at the end.
        pods: That found no place.
        pools: That could have made a node.
    """

    def __init__(self, fitting: ClusterCapacity, pods: Sequence[Pod], pools: Sequence[str]) -> None:
        self._fitting = fitting
        self._left = pods
        self._pools = pools
        self._known: dict[int, str] = {}

    @cached_property
    def _pods(self) -> Mapping[str, Pod]:
        return {pod.key: pod for pod in self._left}

    def __getitem__(self, key: str) -> str:
        pod = self._pods[key]
        if (cached := self._known.get(id(pod.shape))) is None:
            cached = self._known[id(pod.shape)] = self._why_not(pod)
        return cached

    def __iter__(self) -> Iterator[str]:
        return iter(self._pods)

    def __len__(self) -> int:
        return len(self._left)

    def __contains__(self, key: object) -> bool:
        return key in self._pods

    def _why_not(self, pod: Pod) -> str:
        reason = ", ".join(f"{number} {reason}" for reason, number in self._fitting.reasons(pod).items())
        message = f"0/{self._fitting.size} nodes are available: {reason or 'there are none'}"
        return f"{message}; no new node of {', '.join(self._pools)} takes it" if self._pools else message
