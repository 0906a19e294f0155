"""The simulated drain of a node: when each pod starts terminating, and what holds the others.

Pods are evicted in four tiers, each after the previous one has terminated: pods, DaemonSet pods, critical pods,
critical DaemonSet pods. The drain waits for protected pods, and for PodDisruptionBudgets to allow an eviction. The
terminationGracePeriod bounds the drain: a pod is deleted as soon as the remaining time equals its grace period.

Source: docs/specifications/nodepool-disruption.md 9.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from scorer.node_disruption.cluster.pod import Owner, Pod
from scorer.node_disruption.drain.eviction import DISRUPTED, DrainBlocker, EvictionLedger, blocker_of


class NodeDrain:
    """One draining node.

    Args:
        pods: Pods on it at the start of the drain.
        start: Start of the drain.
        deadline: Time at which it ends regardless of remaining pods. None: unlimited.
    """

    def __init__(self, pods: Iterable[Pod], start: datetime, deadline: datetime | None) -> None:
        self.start = start
        self.bound = None if deadline is None else max(deadline, start)
        self._left: dict[str, Pod] = {}
        self._ending: dict[str, tuple[int, datetime]] = {}
        self.staying: list[Pod] = []
        """Pods that are not evicted, and terminate with the node."""
        for pod in pods:
            if pod.terminating_since is not None and not pod.finished:
                self._ending[pod.key] = pod.tier, self._bound_by_deadline(max(start, pod.terminating_since))
            elif pod.active and pod.owner is not Owner.NODE and not pod.shape.tolerates(DISRUPTED):
                self._left[pod.key] = pod
            else:
                self.staying.append(pod)

    def evict(self, now: datetime, ledger: EvictionLedger) -> list[Pod]:
        """Return the pods that start terminating at *now*, and record them in *ledger*."""
        evicted_pods: list[Pod] = []
        while True:
            self._ending = {key: end for key, end in self._ending.items() if end[1] > now}
            forced_pods = [pod for pod in self._left.values() if self._is_forced(pod, now)]
            for pod in forced_pods:
                self._end(pod, now, ledger)
            tier = self._tier()
            for pod in [pod for pod in self._left.values() if pod.tier == tier]:
                if not pod.held.is_protected(now) and ledger.refusal(pod) is None:
                    self._end(pod, now, ledger)
                    forced_pods.append(pod)
            if not forced_pods:
                return evicted_pods
            evicted_pods += forced_pods

    def holds(self, now: datetime, ledger: EvictionLedger) -> Iterator[DrainBlocker]:
        """Yield the holds of the pods whose turn it is, after `evict`."""
        tier = self._tier()
        for pod in self._left.values():
            if pod.tier == tier and (hold := blocker_of(pod, ledger, now, self._forced_at(pod))) is not None:
                yield hold

    def is_over(self, now: datetime, shortest: timedelta) -> bool:
        """Return whether the node can be removed at *now*, after `evict`."""
        if self.bound is not None and now >= self.bound:
            return True
        return not self._left and not self._ending and now >= self._earliest(shortest)

    def next_at(self, now: datetime, shortest: timedelta) -> datetime | None:
        """Return when something changes without intervention, after `evict`, or None."""
        instants = [end for _, end in self._ending.values()]
        instants += [at for pod in self._left.values() for at in (self._forced_at(pod), pod.held.protected_until) if at]
        instants += [self.bound] if self.bound else []
        instants += [self._earliest(shortest)] if not self._left and not self._ending else []
        return min((instant for instant in instants if instant > now), default=None)

    @property
    def left(self) -> tuple[Pod, ...]:
        """Pods that have not started terminating."""
        return tuple(self._left.values())

    def _earliest(self, shortest: timedelta) -> datetime:
        return self._bound_by_deadline(self.start + shortest)

    def _end(self, pod: Pod, now: datetime, ledger: EvictionLedger) -> None:
        del self._left[pod.key]
        self._ending[pod.key] = pod.tier, self._bound_by_deadline(now + pod.grace)
        ledger.leave(pod)

    def end_of(self, key: str) -> datetime | None:
        """Return when a terminating pod has terminated, or None if it is not terminating."""
        end = self._ending.get(key)
        return None if end is None else end[1]

    def _tier(self) -> int:
        tiers = [pod.tier for pod in self._left.values()] + [tier for tier, _ in self._ending.values()]
        return min(tiers, default=0)

    def _bound_by_deadline(self, at: datetime) -> datetime:
        return at if self.bound is None else min(at, self.bound)

    def _forced_at(self, pod: Pod) -> datetime | None:
        return None if self.bound is None else max(self.start, self.bound - pod.grace)

    def _is_forced(self, pod: Pod, now: datetime) -> bool:
        at = self._forced_at(pod)
        return at is not None and now >= at
