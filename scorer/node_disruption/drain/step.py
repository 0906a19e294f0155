"""The next step in the drain of one node: which pods to evict or delete, and when to requeue.

The API server enforces PodDisruptionBudgets at each eviction, so all pods whose turn it is are tried. The budgets here
only explain why pods remain.

Source: docs/specifications/nodepool-disruption.md 9; Karpenter v1.15.0 ``pkg/controllers/node/termination/terminator``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from scorer.node_budgets.blockers import PodGuard
from scorer.node_disruption.cluster.pod import Owner, Pod
from scorer.node_disruption.drain.eviction import DISRUPTED, DrainBlocker, EvictionLedger, blocker_of

SHORTEST: Final = timedelta(seconds=5)
"""Minimum duration of a drain."""
STUCK: Final = timedelta(minutes=1)
"""Time after a pod's deletionTimestamp at which its kubelet is considered unresponsive and the drain continues."""
LEAST_GRACE: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Deletion:
    """A pod that is deleted regardless of its protection.

    Args:
        pod: The pod.
        grace: Remaining grace period, in whole seconds.
    """

    pod: Pod
    grace: timedelta


@dataclass(frozen=True, slots=True)
class DrainStep:
    """Next step in the drain of a node.

    Args:
        evict: Pods to evict now, by namespace and name.
        delete: Pods to delete now.
        holds: Blockers of the pods in the current tier.
        left: Number of pods that the drain waits for.
        is_over: Whether the drain is complete, so the node can be deleted.
        next_at: Time at which the step changes even without an event. None: unknown.
    """

    evict: tuple[Pod, ...] = ()
    delete: tuple[Deletion, ...] = ()
    holds: tuple[DrainBlocker, ...] = ()
    left: int = 0
    is_over: bool = False
    next_at: datetime | None = None


def drain_deadline(since: datetime, grace: timedelta | None, announcement: datetime | None) -> datetime | None:
    """Return when a drain ends regardless of remaining pods. None: unlimited.

    Args:
        since: Start of the drain.
        grace: The terminationGracePeriod of the claim. None: unset.
        announcement: Deadline already stored on the claim. An announced deadline never moves.
    """
    if announcement is not None or grace is None:
        return announcement
    try:
        return since + grace
    except OverflowError:  # after the year 9999
        return None


def drain_step(
    pods: Iterable[Pod],
    guards: Mapping[str, Sequence[PodGuard]],
    now: datetime,
    *,
    since: datetime,
    deadline: datetime | None,
) -> DrainStep:
    """Return the next step in the drain of a node.

    Args:
        pods: Pods on the node.
        guards: PodDisruptionBudgets by namespace.
        now: Current time, timezone-aware.
        since: Start of the drain.
        deadline: Time at which it ends regardless of remaining pods. None: unlimited.
    """
    remaining_pods = sorted(
        (pod for pod in pods if _is_waited_for(pod, now)), key=lambda pod: (pod.namespace, pod.name)
    )
    forced_pods = [pod for pod in remaining_pods if _is_forced(pod, now, deadline)]
    terminating_pods = [pod for pod in remaining_pods if pod.terminating_since is not None]
    tier = min((pod.tier for pod in remaining_pods), default=0)
    turn = [
        blocker
        for blocker in remaining_pods
        if blocker not in terminating_pods and blocker not in forced_pods and blocker.tier == tier
    ]
    ledger = EvictionLedger(guards)
    evict = tuple(pod for pod in turn if not pod.held.is_protected(now))
    earliest = since + SHORTEST if deadline is None else min(since + SHORTEST, max(deadline, since))
    return DrainStep(
        evict=evict,
        delete=tuple(Deletion(pod, _grace(now, deadline)) for pod in forced_pods),
        holds=tuple(
            hold for pod in turn if (hold := blocker_of(pod, ledger, now, _forced_at(pod, deadline))) is not None
        ),
        left=len(remaining_pods),
        is_over=not remaining_pods and now >= earliest,
        next_at=_next(remaining_pods, terminating_pods, now, deadline, earliest),
    )


def _is_waited_for(pod: Pod, now: datetime) -> bool:
    if pod.finished or pod.owner is Owner.NODE or pod.shape.tolerates(DISRUPTED):
        return False
    return pod.terminating_since is None or now - pod.terminating_since <= STUCK


def _is_forced(pod: Pod, now: datetime, deadline: datetime | None) -> bool:
    """Return whether a pod must be deleted to terminate by the deadline. Pods that will terminate in time are skipped.

    The deletionTimestamp of a pod includes its grace period.
    """
    if deadline is None:
        return False
    if pod.terminating_since is not None:
        return pod.terminating_since > max(deadline, now + LEAST_GRACE)
    return now >= deadline - pod.grace


def _forced_at(pod: Pod, deadline: datetime | None) -> datetime | None:
    return None if deadline is None else deadline - pod.grace


def _grace(now: datetime, deadline: datetime | None) -> timedelta:
    assert deadline is not None
    return max(LEAST_GRACE, timedelta(seconds=int((deadline - now).total_seconds())))


def _next(
    remaining_pods: Sequence[Pod],
    terminating_pods: Sequence[Pod],
    now: datetime,
    deadline: datetime | None,
    earliest: datetime,
) -> datetime | None:
    instants = [pod.terminating_since + STUCK for pod in terminating_pods if pod.terminating_since is not None]
    forced_times = (_forced_at(pod, deadline) for pod in remaining_pods if pod.terminating_since is None)
    instants += [at for at in forced_times if at is not None]
    instants += [end for pod in remaining_pods if (end := pod.held.protected_until) is not None]
    instants += [] if remaining_pods else [earliest]
    return min((instant for instant in instants if instant > now), default=None)
