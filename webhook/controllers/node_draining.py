"""Drains nodes: one step at a time, as `scorer.node_disruption.draining` says, until the claim can be deleted.

The drain comes before the deletion of the claim, so that no instance is taken away under its pods, whoever owns the
claim. A pod that cannot be evicted is tried again after a pause that grows; that is remembered here alone, so a process
that takes over tries at once.

Source: nodepool-disruption.md 9.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from scorer.api import kinds
from scorer.api.documents import is_deleting
from scorer.api.meta import format_time
from scorer.node_budgets.blockers import PodGuard, read_pod_guard
from scorer.node_disruption.cluster_reading import read_claim
from scorer.node_disruption.draining import DrainStep, drain_deadline, drain_step
from scorer.node_disruption.order import DELETION, Order, drained_from, read_order
from scorer.node_disruption.pod import Pod, read_pod
from scorer.node_disruption.telling import Note, ToldReason
from webhook.controllers.node_advice import NodeAdvice
from webhook.controllers.node_commands import NodeCommands
from webhook.controllers.node_world import NodeWorld
from webhook.kube.node_work import NodeWork
from webhook.kube.ports import ConflictError, Key, UnavailableError

POLL: Final = timedelta(seconds=1)
"""How often a drain is looked at: pods that end tell nobody here."""
FIRST_PAUSE: Final = timedelta(milliseconds=100)
LONGEST_PAUSE: Final = timedelta(seconds=10)
"""Between two attempts to evict one pod."""


class NodeDraining:
    """Drains nodes.

    Args:
        world: Where nodes and pods are.
        work: Evicts and deletes pods.
        commands: Writes about nodes and claims.
        advice: Is told what goes on.
        now: The clock.
    """

    def __init__(
        self,
        world: NodeWorld,
        work: NodeWork,
        commands: NodeCommands,
        advice: NodeAdvice,
        now: Callable[[], datetime],
    ) -> None:
        self._world = world
        self._work = work
        self._commands = commands
        self._advice = advice
        self._now = now
        self._pauses: dict[tuple[str, bool], tuple[timedelta, datetime]] = {}
        """By uid of a pod, and whether it is to be deleted: how long it is left alone, and until when."""

    async def advance(self, name: str, order: Order) -> None:
        """Take the next step of the drain of a node.

        Raises:
            StoreError: It cannot be taken now.
        """
        since = await self._begin(name, order)
        if since is None:
            return
        deadline = await self._tell_claim(name, order, since)
        step = drain_step(self._pods(name), self._guards(), self._now(), since=since, deadline=deadline)
        await self._carry_out(step)
        self._advice.tell(_notes(name, step))
        if step.is_over:
            await self._commands.delete(name)

    def forget(self) -> None:
        """Forget pods that are gone."""
        known = {pod["metadata"].get("uid", "") for pod in self._world.cache.shelf(kinds.POD).objects.values()}
        self._pauses = {each: pause for each, pause in self._pauses.items() if each[0] in known}

    async def _begin(self, name: str, order: Order) -> datetime | None:
        """Return since when a node is drained, from now on if it was not; None: it is gone, or not ours."""
        node = self._world.cache.get(kinds.NODE, name)
        if node is None:
            return None
        known = read_order(node)
        if known is not None and known.id == order.id and known.draining is not None:
            return known.draining
        begun = drained_from(order, self._now())
        if order.method == DELETION:
            await self._commands.mark_deleted(name, begun)
        elif not await self._commands.mark(name, begun):
            return None
        self._advice.tell(
            [Note("Node", name, ToldReason.TERMINATING, f"{order.reason}: it is drained, and then deleted")]
        )
        return begun.draining

    async def _tell_claim(self, name: str, order: Order, since: datetime) -> datetime | None:
        """Say on the claim of a node why it goes, and when at the latest; returns that; None: it waits for its pods."""
        claim = self._world.claim_of(name)
        if claim is None:
            return None
        if order.method != DELETION:
            await self._commands.set_condition(claim, order.reason, f"{order.method}, command {order.id}")
            claim = self._world.claim_of(name) or claim
        read = read_claim(claim)
        deadline = drain_deadline(read.deletion or since, read.termination_grace, read.terminates_at)
        if deadline is not None:
            await self._commands.set_deadline(claim, deadline)
            said = f"its drain ends at {format_time(deadline)}, whatever pods remain"
            self._advice.tell([Note("Node", name, ToldReason.EXPIRING, said, quiet=timedelta(days=1))])
        return deadline

    async def _carry_out(self, step: DrainStep) -> None:
        for each in step.delete:
            await self._attempt(each.pod, int(each.grace.total_seconds()))
        for pod in step.evict:
            await self._attempt(pod, None)

    async def _attempt(self, pod: Pod, grace_seconds: int | None) -> None:
        """Evict a pod, or delete it, unless that was tried a moment ago."""
        this, key = (pod.uid, grace_seconds is not None), Key(pod.name, pod.namespace)
        pause, until = self._pauses.get(this, (FIRST_PAUSE / 2, None))
        if until is not None and self._now() < until:
            return
        try:
            if grace_seconds is None:
                await self._work.evict(key, pod.uid)
            else:
                await self._work.delete(key, pod.uid, grace_seconds)
        except (UnavailableError, ConflictError) as error:  # a budget, the server, or another pod of that name
            pause = min(2 * pause, LONGEST_PAUSE)
            message = f"pod {pod.key} cannot be {'evicted' if grace_seconds is None else 'deleted'}: {error}"
            self._advice.tell([Note("Node", pod.node, ToldReason.FAILED_DRAINING, message, warning=True)])
        else:
            pause = LONGEST_PAUSE  # it is ending, which the watch tells in a moment
            self._advice.tell([_told_of(pod, grace_seconds)])
        self._pauses[this] = (pause, self._now() + pause)

    def _pods(self, node: str) -> list[Pod]:
        return [read_pod(document) for document in self._world.pods_on(node)]

    def _guards(self) -> Mapping[str, Sequence[PodGuard]]:
        found: dict[str, list[PodGuard]] = {}
        for document in self._world.cache.list(kinds.POD_DISRUPTION_BUDGET):
            guard = read_pod_guard(document)
            found.setdefault(guard.namespace, []).append(guard)
        return found


def _notes(node: str, step: DrainStep) -> Iterator[Note]:
    if step.holds:
        more = f" and {len(step.holds) - 3} more pods" if len(step.holds) > 3 else ""
        message = "; ".join(each.message for each in step.holds[:3]) + more
        yield Note("Node", node, ToldReason.FAILED_DRAINING, message, warning=True)


def _told_of(pod: Pod, grace_seconds: int | None) -> Note:
    if grace_seconds is None:
        return Note(
            "Pod", pod.name, ToldReason.EVICTED, f"evicted: node {pod.node} is drained", namespace=pod.namespace
        )
    message = f"deleted with {grace_seconds} s to end: the time of the drain of node {pod.node} is over"
    return Note("Pod", pod.name, ToldReason.DISRUPTED, message, warning=True, namespace=pod.namespace)


def is_going(world: NodeWorld, name: str) -> bool:
    """Say whether somebody deletes a node or its claim."""
    node, claim = world.cache.get(kinds.NODE, name), world.claim_of(name)
    return any(each is not None and is_deleting(each) for each in (node, claim))
