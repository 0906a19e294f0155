"""Evictions during a drain: the PodDisruptionBudgets and annotations that block them.

Source: docs/specifications/nodepool-disruption.md 9.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from scorer.api.meta import format_time
from scorer.node_budgets.blockers import BlockReason, PodGuard
from scorer.node_budgets.nodes import DISRUPTED_TAINT, DO_NOT_DISRUPT
from scorer.node_disruption.cluster.constraints import ParsedTaint
from scorer.node_disruption.cluster.pod import Pod

DISRUPTED: Final = ParsedTaint(DISRUPTED_TAINT, "NoSchedule")
"""Taint of a node that is being disrupted."""
_PENDING: Final = "Pending"


@dataclass(frozen=True, slots=True)
class DrainBlocker:
    """A blocked eviction.

    Args:
        pod: Key of the pod.
        reason: A `scorer.node_budgets.blockers.BlockReason`.
        message: Human-readable reason.
        until: Time at which it ends without intervention, or the pod is deleted in any case. None: unknown.
    """

    pod: str
    reason: str
    message: str
    until: datetime | None = None


class EvictionLedger:
    """Remaining allowance of PodDisruptionBudgets while evicted pods are not running again.

    A pod that was unhealthy when evicted, or pending at the start, does not consume allowance. It adds to the allowance
    once it runs.

    Args:
        guards: PodDisruptionBudgets by namespace, before any eviction.
    """

    def __init__(self, guards: Mapping[str, Sequence[PodGuard]]) -> None:
        self._guards = guards
        self._away: dict[str, tuple[PodGuard, ...]] = {}
        self._used: Counter[tuple[str, str]] = Counter()

    def guards_of(self, pod: Pod) -> tuple[PodGuard, ...]:
        """Return the PodDisruptionBudgets of a pod."""
        return tuple(guard for guard in self._guards.get(pod.namespace, ()) if guard.guards(pod.held.labels))

    def refusal(self, pod: Pod) -> tuple[str, str] | None:
        """Return why a pod cannot be evicted now, as reason and message, or None.

        A pending pod can always be evicted.

        Source: Kubernetes v1.36 ``pkg/registry/core/pod/storage/eviction.go``.
        """
        if pod.phase == _PENDING:
            return None
        guards = self.guards_of(pod)
        names = [f"{guard.namespace}/{guard.name}" for guard in guards]
        if len(guards) > 1:
            message = f"more than one PodDisruptionBudget ({', '.join(names)}) guards pod {pod.key}"
            return BlockReason.SEVERAL_POD_DISRUPTION_BUDGETS, f"{message}, which cannot be evicted"
        if not guards or self._remaining(guards[0]) > 0 or (pod.held.unready and self._frees_unready(guards[0])):
            return None
        return BlockReason.POD_DISRUPTION_BUDGET, f"PodDisruptionBudget {names[0]} allows no evictions: pod {pod.key}"

    def leave(self, pod: Pod) -> None:
        """Record that a pod has been evicted or deleted, or is not running yet."""
        guards = self.guards_of(pod)
        if not is_healthy(pod):
            guards = tuple(guard for guard in guards if guard.lacking is not None)
        if guards and pod.key not in self._away:
            self._away[pod.key] = guards
            if is_healthy(pod):
                self._used.update((guard.namespace, guard.name) for guard in guards)

    def record_restart(self, key: str) -> None:
        """Record that a pod is running again."""
        self._used.subtract((guard.namespace, guard.name) for guard in self._away.pop(key, ()))

    def guards(self) -> Mapping[str, Sequence[PodGuard]]:
        """Return the PodDisruptionBudgets with their remaining allowance."""
        changed = {namespace for (namespace, _), count in self._used.items() if count}
        if not changed:
            return self._guards
        now = {name: tuple(map(self._as_now, self._guards[name])) for name in changed}
        return {**self._guards, **now}

    def _as_now(self, guard: PodGuard) -> PodGuard:
        remaining = self._remaining(guard)
        return guard if remaining == guard.disruptions_allowed else replace(guard, disruptions_allowed=remaining)

    def _remaining(self, guard: PodGuard) -> int:
        return max(0, self._spare(guard))

    def _spare(self, guard: PodGuard) -> int:
        """Return the surplus of healthy pods beyond those that a budget requires. Negative: a deficit."""
        return guard.disruptions_allowed - (guard.lacking or 0) - self._used[guard.namespace, guard.name]

    def _frees_unready(self, guard: PodGuard) -> bool:
        """Return whether an unready pod may be evicted: by policy, or while enough pods are healthy."""
        if guard.frees_unready:
            return True
        return guard.lacking is not None and guard.wants_some and self._spare(guard) >= 0


def blocker_of(pod: Pod, ledger: EvictionLedger, now: datetime, deadline: datetime | None) -> DrainBlocker | None:
    """Return the blocker of a pod's eviction at its turn, or None.

    Args:
        pod: The pod.
        ledger: Remaining allowance of PodDisruptionBudgets.
        now: Current time, timezone-aware.
        deadline: Time at which the pod is deleted in any case. None: unlimited.
    """
    if pod.held.is_protected(now):
        end = pod.held.protected_until
        suffix = f" until {format_time(end)}" if end is not None else ""
        until = min((instant for instant in (end, deadline) if instant is not None), default=None)
        message = f"pod {pod.key} is protected by the annotation {DO_NOT_DISRUPT}{suffix}"
        return DrainBlocker(pod.key, BlockReason.DO_NOT_DISRUPT, message, until)
    refusal = ledger.refusal(pod)
    return None if refusal is None else DrainBlocker(pod.key, *refusal, until=deadline)


def is_healthy(pod: Pod) -> bool:
    """Return whether a PodDisruptionBudget counts a pod as healthy."""
    return pod.active and pod.phase != _PENDING and not pod.held.unready
