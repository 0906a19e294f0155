"""The drain of a node, step by step: which pod begins to end when, and what holds the others.

Pods go in four tiers, a later one when the one before is gone: pods, daemons, critical pods, critical daemons. A pod
that is protected is waited for; one that a PodDisruptionBudget guards goes when that lets it. A bound on the drain
ends the waiting: a pod is deleted as soon as what is left is no more than the time it takes to end.

Source: nodepool-disruption.md 9.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from scorer.api.meta import format_time
from scorer.node_budgets.blockers import BlockReason, PodGuard
from scorer.node_budgets.nodes import DISRUPTED_TAINT, DO_NOT_DISRUPT
from scorer.node_disruption.pod import Owner, Pod
from scorer.node_disruption.shape import Taint

DISRUPTED: Final = Taint(DISRUPTED_TAINT, "NoSchedule")
"""What a node has that goes."""
_PENDING: Final = "Pending"


@dataclass(frozen=True, slots=True)
class Hold:
    """What keeps a pod on a node that is drained.

    Args:
        pod: Its key.
        reason: A `scorer.node_budgets.blockers.BlockReason`.
        message: For people.
        until: When it ends by itself, or the pod is deleted all the same; None: neither is known.
    """

    pod: str
    reason: str
    message: str
    until: datetime | None = None


class GuardBook:
    """What PodDisruptionBudgets still allow while evicted pods have not come back.

    A pod that was not healthy when it left, or that had no place at the start, takes nothing of what is allowed; it
    adds to that once it runs.

    Args:
        guards: By namespace, as they are when nothing has been evicted.
    """

    def __init__(self, guards: Mapping[str, Sequence[PodGuard]]) -> None:
        self._guards = guards
        self._away: dict[str, tuple[PodGuard, ...]] = {}
        self._taken: Counter[tuple[str, str]] = Counter()

    def around(self, pod: Pod) -> tuple[PodGuard, ...]:
        """Return the guards of a pod."""
        return tuple(guard for guard in self._guards.get(pod.namespace, ()) if guard.guards(pod.held.labels))

    def refusal(self, pod: Pod) -> tuple[str, str] | None:
        """Return why a pod cannot be evicted now, as a reason and a message; None: it can.

        A pod whose containers do not run yet can, whatever guards it.

        Source: Kubernetes v1.36 ``pkg/registry/core/pod/storage/eviction.go``.
        """
        if pod.phase == _PENDING:
            return None
        around = self.around(pod)
        names = [f"{each.namespace}/{each.name}" for each in around]
        if len(around) > 1:
            message = f"more than one PodDisruptionBudget ({', '.join(names)}) guards pod {pod.key}"
            return BlockReason.SEVERAL_POD_DISRUPTION_BUDGETS, f"{message}, which cannot be evicted"
        if not around or self._left(around[0]) > 0 or (pod.held.unready and self._frees_unready(around[0])):
            return None
        return BlockReason.POD_DISRUPTION_BUDGET, f"PodDisruptionBudget {names[0]} lets no pod go: pod {pod.key}"

    def leave(self, pod: Pod) -> None:
        """Note that a pod has been evicted or deleted, or does not run yet."""
        around = self.around(pod)
        if not is_healthy(pod):
            around = tuple(each for each in around if each.lacking is not None)
        if around and pod.key not in self._away:
            self._away[pod.key] = around
            if is_healthy(pod):
                self._taken.update((each.namespace, each.name) for each in around)

    def come_back(self, key: str) -> None:
        """Note that a pod runs again."""
        self._taken.subtract((each.namespace, each.name) for each in self._away.pop(key, ()))

    def guards(self) -> Mapping[str, Sequence[PodGuard]]:
        """Return the guards with what they allow now."""
        changed = {namespace for (namespace, _), taken in self._taken.items() if taken}
        if not changed:
            return self._guards
        now = {name: tuple(map(self._as_now, self._guards[name])) for name in changed}
        return {**self._guards, **now}

    def _as_now(self, guard: PodGuard) -> PodGuard:
        left = self._left(guard)
        return guard if left == guard.disruptions_allowed else replace(guard, disruptions_allowed=left)

    def _left(self, guard: PodGuard) -> int:
        return max(0, self._spare(guard))

    def _spare(self, guard: PodGuard) -> int:
        """Return how many healthy pods there are beyond those that a guard wants; negative: so many it lacks."""
        return guard.disruptions_allowed - (guard.lacking or 0) - self._taken[guard.namespace, guard.name]

    def _frees_unready(self, guard: PodGuard) -> bool:
        """Say whether a pod that is not ready may go: by the policy of a guard, or while that has what it wants."""
        if guard.frees_unready:
            return True
        return guard.lacking is not None and guard.wants_some and self._spare(guard) >= 0


def hold_of(pod: Pod, book: GuardBook, now: datetime, forced: datetime | None) -> Hold | None:
    """Return what keeps a pod whose turn it is; None: nothing does.

    Args:
        pod: The pod.
        book: What PodDisruptionBudgets allow.
        now: The instant, with a time zone.
        forced: When it is deleted all the same; None: never.
    """
    if pod.held.is_protected(now):
        end = pod.held.protected_until
        said = f" until {format_time(end)}" if end is not None else ""
        until = min((each for each in (end, forced) if each is not None), default=None)
        message = f"pod {pod.key} has the annotation {DO_NOT_DISRUPT}{said}"
        return Hold(pod.key, BlockReason.DO_NOT_DISRUPT, message, until)
    refusal = book.refusal(pod)
    return None if refusal is None else Hold(pod.key, *refusal, until=forced)


class Drain:
    """One node that is drained.

    Args:
        pods: That are on it when the drain begins.
        start: When it begins.
        bound: When it ends, whatever pods remain; None: never.
    """

    def __init__(self, pods: Iterable[Pod], start: datetime, bound: datetime | None) -> None:
        self.start = start
        self.bound = None if bound is None else max(bound, start)
        self._left: dict[str, Pod] = {}
        self._ending: dict[str, tuple[int, datetime]] = {}
        self.staying: list[Pod] = []
        """Pods that are not evicted, and end with the node."""
        for pod in pods:
            if pod.terminating_since is not None and not pod.finished:
                self._ending[pod.key] = pod.tier, self._bounded(max(start, pod.terminating_since))
            elif pod.active and pod.owner is not Owner.NODE and not pod.shape.tolerates(DISRUPTED):
                self._left[pod.key] = pod
            else:
                self.staying.append(pod)

    def evict(self, now: datetime, book: GuardBook) -> list[Pod]:
        """Return the pods that begin to end at *now*, which *book* learns of."""
        gone: list[Pod] = []
        while True:
            self._ending = {key: each for key, each in self._ending.items() if each[1] > now}
            found = [pod for pod in self._left.values() if self._is_forced(pod, now)]
            for pod in found:
                self._end(pod, now, book)
            tier = self._tier()
            for pod in [each for each in self._left.values() if each.tier == tier]:
                if not pod.held.is_protected(now) and book.refusal(pod) is None:
                    self._end(pod, now, book)
                    found.append(pod)
            if not found:
                return gone
            gone += found

    def holds(self, now: datetime, book: GuardBook) -> Iterator[Hold]:
        """Yield what holds the pods whose turn it is, after `evict`."""
        tier = self._tier()
        for pod in self._left.values():
            if pod.tier == tier and (hold := hold_of(pod, book, now, self._forced_at(pod))) is not None:
                yield hold

    def is_over(self, now: datetime, shortest: timedelta) -> bool:
        """Say whether the node can vanish at *now*, after `evict`."""
        if self.bound is not None and now >= self.bound:
            return True
        return not self._left and not self._ending and now >= self._earliest(shortest)

    def next_at(self, now: datetime, shortest: timedelta) -> datetime | None:
        """Return when something changes by itself, after `evict`; None: never."""
        found = [end for _, end in self._ending.values()]
        found += [at for pod in self._left.values() for at in (self._forced_at(pod), pod.held.protected_until) if at]
        found += [self.bound] if self.bound else []
        found += [self._earliest(shortest)] if not self._left and not self._ending else []
        return min((each for each in found if each > now), default=None)

    @property
    def left(self) -> tuple[Pod, ...]:
        """Pods that have not begun to end."""
        return tuple(self._left.values())

    def _earliest(self, shortest: timedelta) -> datetime:
        return self._bounded(self.start + shortest)

    def _end(self, pod: Pod, now: datetime, book: GuardBook) -> None:
        del self._left[pod.key]
        self._ending[pod.key] = pod.tier, self._bounded(now + pod.grace)
        book.leave(pod)

    def end_of(self, key: str) -> datetime | None:
        """Return when a pod that has begun to end is gone; None: it has not begun, or is gone."""
        found = self._ending.get(key)
        return None if found is None else found[1]

    def _tier(self) -> int:
        tiers = [pod.tier for pod in self._left.values()] + [tier for tier, _ in self._ending.values()]
        return min(tiers, default=0)

    def _bounded(self, at: datetime) -> datetime:
        return at if self.bound is None else min(at, self.bound)

    def _forced_at(self, pod: Pod) -> datetime | None:
        return None if self.bound is None else max(self.start, self.bound - pod.grace)

    def _is_forced(self, pod: Pod, now: datetime) -> bool:
        at = self._forced_at(pod)
        return at is not None and now >= at


def is_healthy(pod: Pod) -> bool:
    """Say whether a PodDisruptionBudget counts a pod among those that it has."""
    return pod.active and pod.phase != _PENDING and not pod.held.unready
