"""Placement of the pods of removed nodes: existing nodes first, then new ones.

Source: docs/specifications/nodepool-disruption.md 6.5 and 15; Karpenter v1.15.0
``pkg/controllers/provisioning/scheduling``.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Final

from scorer.node_disruption.cluster.pod import Pod
from scorer.node_disruption.cluster.requirements import compatible, intersect
from scorer.node_disruption.cluster.resources import total
from scorer.node_disruption.instance_types.new_domains import NewDomains
from scorer.node_disruption.instance_types.new_node import NewNode, remaining_limits, wishes, within_limits
from scorer.node_disruption.scheduling.node_filter import ClusterCapacity, NodeView
from scorer.node_disruption.scheduling.node_load import queue_order

_MOST_CHOICES: Final = 100
"""Maximum number of combinations of zone and similar labels that are tried per pod and new node."""


@dataclass(frozen=True, slots=True)
class NewNodes:
    """Possible new nodes.

    Args:
        templates: One template per pool that can create a node, by weight and name.
        domains: Topology domains that new nodes could open, including those of pools at their limits.
    """

    templates: Sequence[NewNode]
    domains: NewDomains


@dataclass(frozen=True, slots=True)
class Placed:
    """Result of a placement.

    Args:
        onto: Node name by pod key. Pods on new nodes are not included.
        new_nodes: New nodes with their pods.
        left: Reason why a pod was not placed, by its key. See `_Reasons`.
        unplaced: The pods of *left*, in the order of placement.
        fitting: Remaining free capacity. Must not be mutated.
        is_worthless: Whether placement was aborted because a new node is not worth it.
    """

    onto: Mapping[str, str]
    new_nodes: tuple[NewNode, ...]
    left: Mapping[str, str]
    unplaced: Sequence[Pod]
    fitting: ClusterCapacity
    is_worthless: bool = False

    @property
    def after(self) -> ClusterCapacity:
        """Remaining free capacity, as an independent copy."""
        return self.fitting.without(())


def place_all(capacity: ClusterCapacity, pods: Sequence[Pod], new: NewNodes | None = None) -> Placed:
    """Place *pods* as a cluster would. *capacity* is not changed.

    Large pods come first: by cpu, then memory, then age. Existing nodes come before new ones, initialized nodes first,
    then by name. A new node that is already open comes before another one. Pods that do not fit are retried while other
    pods are placed, because they may have affinity to those.

    The scheduler places pods on existing nodes. It counts only their domains, and ignores preferences that it cannot
    meet. The provisioner creates new nodes. It also counts domains that new nodes could open, and treats preferences as
    requirements until nothing else helps.

    Args:
        capacity: Free capacity.
        pods: Pods to place.
        new: Possible new nodes, if any.
    """
    return _Placing(capacity, new).placed(queue_order(pods))


def plan_all(
    capacity: ClusterCapacity,
    pods: Sequence[Pod],
    new: NewNodes,
    *,
    resting_pods: Collection[str] = (),
    is_worth: Callable[[Mapping[str, int]], bool] | None = None,
) -> Placed:
    """Place *pods* as the provisioner plans it. *capacity* is not changed.

    The provisioner's rules also apply to existing nodes: domains that new nodes could open count there as well, and a
    new node is created before a preference is given up.

    Args:
        capacity: Free capacity.
        pods: Pods to place, in `queue_order`.
        new: Possible new nodes.
        resting_pods: Keys of the pods that may use nodes within their consolidateAfter.
        is_worth: Returns whether one new node with room for these resources is worth it. Unset: always.
    """
    return _Planning(capacity, new, resting_pods, is_worth).placed(pods)


class _Placing:
    """A placement in progress.

    Args:
        capacity: Free capacity. It is not changed.
        new: Possible new nodes, if any.
    """

    def __init__(self, capacity: ClusterCapacity, new: NewNodes | None) -> None:
        self._fitting = capacity.without(())
        self._new = new
        self._templates = new.templates if new else ()
        self._room = {template.pool: template.room for template in self._templates}
        self._opened: list[NewNode] = []
        self._onto: dict[str, str] = {}
        self._changes = 0
        self._failed: dict[tuple[int, ...], int] = {}
        self._pods: Sequence[Pod] = ()
        self._is_worthless = False

    def placed(self, pods: Sequence[Pod]) -> Placed:
        """Place pods in this order, and retry those that do not fit while any pod is placed."""
        self._pods = pods
        left = self._try_once(pods)
        while left and len(still_left := self._try_once(left)) < len(left):
            left = still_left
        pools = tuple(template.pool for template in self._templates)
        reasons = _Reasons(self._fitting, left, pools, self._view) if left else {}
        return Placed(self._onto, tuple(self._opened), reasons, left, self._fitting, self._is_worthless)

    def _try_once(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Place pods. Return those that do not fit."""
        return [pod for pod in pods if self._is_worthless or not self._put(pod)]

    def _view(self, _pod: Pod) -> NodeView:
        """Return the rules for the placement of a pod on existing nodes."""
        return NodeView()

    def _put(self, pod: Pod) -> bool:
        """Place a pod. Return whether it was placed."""
        kind = (self._view(pod).moved, *(id(variant.shape) for variant in (pod, *pod.stricter)))
        if self._failed.get(kind) == self._changes:  # an equal pod has failed, and nothing has changed since
            return False
        if self._settle(pod):
            self._changes += 1
            return True
        self._failed[kind] = self._changes
        return False

    def _settle(self, pod: Pod) -> bool:
        if self._put_on_real(pod, pod):
            return True
        return any(self._put_on_new(variant, pod) for variant in (*pod.stricter, pod))

    def _put_on_real(self, stricter: Pod, pod: Pod) -> bool:
        name = self._fitting.first(stricter, self._view(pod))
        if name is None:
            return False
        self._fitting.place(pod, name)
        self._onto[pod.key] = name
        return True

    def _put_on_new(self, stricter: Pod, pod: Pod) -> bool:
        self._opened.sort(key=lambda node: len(node.pods))
        if any(self._join(node, index, stricter, pod) for index, node in enumerate(self._opened)):
            return True
        index = len(self._opened)
        for template in self._templates:
            node = within_limits(template, self._room[template.pool])
            if node and self._join(replace(node, name=f"{node.pool}/new-{index + 1}"), index, stricter, pod):
                room = self._room[template.pool]
                self._room[template.pool] = remaining_limits(self._opened[index], room) if room else room
                return True
        return False

    def _join(self, node: NewNode, index: int, stricter: Pod, pod: Pod) -> bool:
        """Place a pod on a new node, and open the node if it is not open yet."""
        assert self._new is not None
        if not node.welcomes(stricter):
            return False
        for wish in wishes(stricter.shape):
            if not compatible(wish, node.requirements):
                continue
            requirements = intersect(node.requirements, wish)
            choices = self._fitting.choices(stricter, node, requirements, self._new.domains)
            for choice in islice(choices, _MOST_CHOICES):
                narrowed_node = (
                    node.narrow(intersect(requirements, choice), pod) if compatible(choice, requirements) else None
                )
                if narrowed_node is not None:
                    self._record(narrowed_node, index, pod)
                    return True
        return False

    def _record(self, node: NewNode, index: int, pod: Pod) -> None:
        if not self._opened:
            self._fitting.follow(self._pods)
        self._fitting.record(pod, node)
        self._opened[index:] = [node, *self._opened[index + 1 :]]


class _Planning(_Placing):
    """Placement by the rules of the provisioner. See `plan_all`."""

    def __init__(
        self,
        capacity: ClusterCapacity,
        new: NewNodes,
        resting_pods: Collection[str],
        is_worth: Callable[[Mapping[str, int]], bool] | None,
    ) -> None:
        super().__init__(capacity, new)
        self._moved = NodeView(new.domains, moved=True)
        self._rested = NodeView(new.domains)
        self._rested_keys = resting_pods
        self._is_worth = is_worth

    def _view(self, pod: Pod) -> NodeView:
        return self._rested if pod.key in self._rested_keys or pod.is_starting else self._moved

    def _settle(self, pod: Pod) -> bool:
        return any(
            self._put_on_real(variant, pod) or self._put_on_new(variant, pod) for variant in (*pod.stricter, pod)
        )

    def _record(self, node: NewNode, index: int, pod: Pod) -> None:
        super()._record(node, index, pod)
        if self._is_worth is not None:
            self._is_worthless = not self._is_worth(total(node.taken for node in self._opened))


class _Reasons(Mapping[str, str]):
    """Reasons why pods were not placed, by pod key. Evaluated lazily and cached per shape.

    Args:
        capacity: Free capacity at the end.
        pods: Pods that were not placed.
        pools: Pools that could have created a node.
        view: Returns the rules for the placement of a pod on existing nodes.
    """

    def __init__(
        self, capacity: ClusterCapacity, pods: Sequence[Pod], pools: Sequence[str], view: Callable[[Pod], NodeView]
    ) -> None:
        self._fitting = capacity
        self._left = pods
        self._pools = pools
        self._view = view
        self._cache: dict[int, str] = {}

    @cached_property
    def _pods(self) -> Mapping[str, Pod]:
        return {pod.key: pod for pod in self._left}

    def __getitem__(self, key: str) -> str:
        pod = self._pods[key]
        if (reason := self._cache.get(id(pod.shape))) is None:
            reason = self._cache[id(pod.shape)] = self._reason_for(pod)
        return reason

    def __iter__(self) -> Iterator[str]:
        return iter(self._pods)

    def __len__(self) -> int:
        return len(self._left)

    def __contains__(self, key: object) -> bool:
        return key in self._pods

    def _reason_for(self, pod: Pod) -> str:
        reasons = self._fitting.reasons(pod, self._view(pod))
        reason = ", ".join(f"{number} {reason}" for reason, number in reasons.items())
        message = f"0/{self._fitting.size} nodes are available: {reason or 'no nodes'}"
        return f"{message}. No new node of NodePool {', '.join(self._pools)} fits the pod" if self._pools else message
