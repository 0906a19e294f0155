"""Node drain: evict Pods step by step until the NodeClaim can be deleted.

The claim is deleted only after the drain, so that no instance is terminated while its pods run, no matter which client
owns the claim. A pod that cannot be evicted is retried with backoff. Backoffs are kept in memory, so a new leader
retries immediately.

Source: docs/specifications/nodepool-disruption.md 9.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from scorer.api import kinds
from scorer.api.meta import JsonObject, format_time
from scorer.api.unstructured.documents import is_deleting, text_at, uid_of
from scorer.node_budgets.blockers import PodGuard, read_pod_guard
from scorer.node_disruption.cluster.pod import Pod, read_pod
from scorer.node_disruption.cluster.snapshot import read_claim
from scorer.node_disruption.drain.eviction import DrainBlocker
from scorer.node_disruption.drain.step import DrainStep, drain_deadline, drain_step
from scorer.node_disruption.execution.command_annotation import DELETION, Order, drained_from, read_order
from scorer.node_disruption.execution.reporting import NodePoolEventReason, Note
from webhook.controllers.nodes.backoff import FIRST_PAUSE, LONGEST_PAUSE, Pauses
from webhook.controllers.nodes.cache import NodeWorld
from webhook.controllers.nodes.events import NodeAdvice
from webhook.controllers.nodes.preconditions import SKEW
from webhook.controllers.nodes.writes import NodeCommands
from webhook.kube.client.evictions import NodeWork
from webhook.kube.ports import Key, StoreError

POLL: Final = timedelta(seconds=1)
"""Poll interval of a drain: pod terminations do not trigger a reconcile here."""
EVICTION_BATCH: Final = 50
"""Maximum number of pods of one node that are evicted or deleted per step, so that other nodes have their turn."""
_FINISHED: Final = ("Succeeded", "Failed")
"""Phases of pods that a drain ignores. There may be thousands of them."""
_NAMED: Final = 3
"""Maximum number of pods that an Event names."""


class NodeDraining:
    """Drains nodes.

    Args:
        world: The cached cluster.
        work: Evicts and deletes pods.
        commands: Writes to nodes and claims.
        advice: Records Events.
        now: The clock.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self,
        world: NodeWorld,
        work: NodeWork,
        commands: NodeCommands,
        advice: NodeAdvice,
        now: Callable[[], datetime],
        clock: Callable[[], float],
    ) -> None:
        self._world = world
        self._work = work
        self._commands = commands
        self._advice = advice
        self._now = now
        self._pauses = Pauses[tuple[str, bool]](clock, FIRST_PAUSE, LONGEST_PAUSE)
        """Backoffs by pod UID and by whether the pod is deleted rather than evicted."""

    async def advance(self, name: str, uid: str, order: Order) -> None:
        """Take the next step of the drain of a node.

        Args:
            name: Name of the node.
            uid: UID of the node. Another node of that name is skipped.
            order: The command.

        Raises:
            StoreError: The step failed. It is retried.
        """
        since = await self._begin(name, uid, order)
        if since is None:
            return
        deadline = await self._tell_claim(name, order, since)
        step = self._step(self._world.pods_on(name), since, deadline)
        errors = await self._carry_out(step)
        self._advice.record_events(_notes(name, step, errors))
        if step.is_over and not self._commands.is_deleted(name) and await self._is_empty(name, since, deadline):
            await self._commands.delete(name, uid)

    def forget(self) -> None:
        """Drop the backoffs of deleted pods."""
        uids = {pod["metadata"].get("uid", "") for pod in self._world.cache.of_kind(kinds.POD).objects.values()}
        self._pauses.retain({(uid, by_force) for uid in uids for by_force in (True, False)})

    async def _begin(self, name: str, uid: str, order: Order) -> datetime | None:
        """Return the start of the drain: now, if it is new.

        Return None if the node no longer exists, or if another command or client has marked or tainted it.
        """
        node = self._world.cache.get(kinds.NODE, name)
        if node is None or uid_of(node) != uid:
            return None
        previous_order, now = read_order(node), self._now()
        drain_order = drained_from(order, now)
        if previous_order is not None and previous_order.id == order.id and previous_order.draining is not None:
            if previous_order.draining <= now + SKEW:
                return previous_order.draining
            drain_order = replace(order, draining=now.replace(microsecond=0))
        mark = self._commands.mark_deleted if order.method == DELETION else self._commands.mark
        if not await mark(name, uid, drain_order):
            return None
        self._advice.record_events(
            [Note("Node", name, NodePoolEventReason.TERMINATING, f"{order.reason}: it is drained and then deleted")]
        )
        return drain_order.draining

    async def _tell_claim(self, name: str, order: Order, since: datetime) -> datetime | None:
        """Write the reason of a disruption and the drain deadline to the claim of a node. Return the deadline.

        It is None without a claim, and for a drain without a time limit.

        The deadline on the claim counts only while the claim is being deleted, and only if it is not before the start
        of the drain. Otherwise it belongs to an earlier drain that was rolled back.
        """
        claim = self._world.claim_of(name)
        if claim is None:
            return None
        if order.method != DELETION or not is_deleting(claim):
            await self._commands.set_condition(claim, order.reason, f"{order.method}, command {order.id}")
            claim = self._world.claim_of(name) or claim
        claim_view = read_claim(claim)
        termination = claim_view.terminates_at if claim_view.deletion is not None else None
        if termination is not None and termination < since:
            termination = None
        deadline = drain_deadline(claim_view.deletion or since, claim_view.termination_grace, termination)
        if deadline is not None:
            await self._commands.set_deadline(claim, deadline)
            time = f"its drain ends at {format_time(deadline)}, even if pods remain"
            self._advice.record_events(
                [Note("Node", name, NodePoolEventReason.EXPIRING, time, quiet=timedelta(days=1))]
            )
        return deadline

    def _step(self, pods: Iterable[JsonObject], since: datetime, deadline: datetime | None) -> DrainStep:
        pods_left = [read_pod(pod) for pod in pods if text_at(pod, "status", "phase") not in _FINISHED]
        return drain_step(pods_left, self._guards(), self._now(), since=since, deadline=deadline)

    async def _is_empty(self, name: str, since: datetime, deadline: datetime | None) -> bool:
        """Return whether the drain has finished, by a live read: a watch may lag, and deletion kills every pod."""
        pods = await self._work.pods_on(name)
        for pod in pods:
            self._world.cache.of_kind(kinds.POD).put(pod)
        return self._step(pods, since, deadline).is_over

    async def _carry_out(self, step: DrainStep) -> dict[str, str]:
        """Evict and delete the most urgent pods, at most `EVICTION_BATCH`. Return the errors of the store by pod key.

        An unexpected error of an attempt is raised.
        """
        deletions: list[tuple[Pod, int | None]] = [
            (deletion.pod, int(deletion.grace.total_seconds())) for deletion in step.delete
        ]
        deletions += [(pod, None) for pod in step.evict]
        due_deletions = [deletion for deletion in deletions if _key(*deletion) not in self._pauses]
        due_deletions.sort(key=lambda deletion: (deletion[1] is None, self._pauses.until(_key(*deletion))))
        batch = due_deletions[:EVICTION_BATCH]
        results = await asyncio.gather(*(self._attempt(*deletion) for deletion in batch), return_exceptions=True)
        errors = {}
        for (pod, seconds), error in zip(batch, results, strict=True):
            if isinstance(error, StoreError):
                errors[pod.key] = f"pod {pod.key} cannot be {'evicted' if seconds is None else 'deleted'}: {error}"
            elif error is not None:
                raise error
        return errors

    async def _attempt(self, pod: Pod, grace_seconds: int | None) -> None:
        """Evict or delete a pod.

        Raises:
            StoreError: The server refuses, or another pod has that name.
        """
        key = Key(pod.name, pod.namespace)
        try:
            if grace_seconds is None:
                await self._work.evict(key, pod.uid)
            else:
                await self._work.delete(key, pod.uid, grace_seconds)
        except StoreError:
            self._pauses.failed(_key(pod, grace_seconds))
            raise
        self._pauses.set_longest(_key(pod, grace_seconds))  # it is terminating, which the watch reports soon
        self._advice.record_events([_told_of(pod, grace_seconds)])

    def _guards(self) -> Mapping[str, Sequence[PodGuard]]:
        guards: dict[str, list[PodGuard]] = {}
        for document in self._world.cache.list(kinds.POD_DISRUPTION_BUDGET):
            guard = read_pod_guard(document)
            guards.setdefault(guard.namespace, []).append(guard)
        return guards


def _key(pod: Pod, grace_seconds: int | None) -> tuple[str, bool]:
    return pod.uid, grace_seconds is not None


def _notes(node: str, step: DrainStep, errors: Mapping[str, str]) -> Iterator[Note]:
    """Yield an Event with the pods that block the drain: budgets, annotations, and other errors of the server."""
    blocked_pods = {hold.pod for hold in step.holds}
    messages = [f"{hold.message}{_until(hold)}" for hold in step.holds]
    messages += [error for key, error in sorted(errors.items()) if key not in blocked_pods]
    if messages:
        more = f" and {len(messages) - _NAMED} more pods" if len(messages) > _NAMED else ""
        yield Note("Node", node, NodePoolEventReason.FAILED_DRAINING, "; ".join(messages[:_NAMED]) + more, warning=True)


def _until(hold: DrainBlocker) -> str:
    """Return the time of a pod's forced deletion as text. Empty: none is planned, or the message names it already."""
    if hold.until is None or (at := format_time(hold.until)) in hold.message:
        return ""
    return f", until it is deleted at {at}"


def _told_of(pod: Pod, grace_seconds: int | None) -> Note:
    if grace_seconds is None:
        return Note(
            "Pod",
            pod.name,
            NodePoolEventReason.EVICTED,
            f"evicted: node {pod.node} is being drained",
            namespace=pod.namespace,
        )
    message = f"deleted with a grace period of {grace_seconds} s: the drain of node {pod.node} timed out"
    return Note("Pod", pod.name, NodePoolEventReason.DISRUPTED, message, warning=True, namespace=pod.namespace)


def is_being_deleted(world: NodeWorld, name: str) -> bool:
    """Return whether a node or its claim has a deletion timestamp."""
    node, claim = world.cache.get(kinds.NODE, name), world.claim_of(name)
    return any(document is not None and is_deleting(document) for document in (node, claim))
