"""Accepted disruption commands: advance each to completion, or roll it back.

A failure is reported on its node, and only that node is retried with backoff, so that it does not block the others. An
admission policy may refuse any of these writes permanently, and other clients also annotate nodes.

Source: docs/specifications/nodepool-disruption.md 5.1, 7.1 and 9.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from scorer.api import kinds
from scorer.api.meta import JsonObject, format_time, read_instant
from scorer.api.unstructured.documents import conditions_of, is_deleting, label, name_of, text_at, uid_of
from scorer.node_budgets.nodes import INITIALIZED_LABEL
from scorer.node_disruption.cluster.pod import read_pod
from scorer.node_disruption.execution.command_annotation import (
    Order,
    deletion_of,
    is_marked,
    orders_on,
    orphaned_nodes,
    own_order,
    read_order,
)
from scorer.node_disruption.execution.progress import CommandStep, Next, next_step
from scorer.node_disruption.execution.reporting import NodePoolEventReason, Note
from webhook.controllers.nodes.backoff import FIRST_PAUSE, LONGEST_PAUSE, Pauses
from webhook.controllers.nodes.cache import NodeWorld
from webhook.controllers.nodes.drain import NodeDraining, is_being_deleted
from webhook.controllers.nodes.events import NodeAdvice
from webhook.controllers.nodes.observer import NodeDisruptionObserver
from webhook.controllers.nodes.planning import NodePlanning
from webhook.controllers.nodes.preconditions import SKEW
from webhook.controllers.nodes.writes import NodeCommands
from webhook.kube.cache.hub import run_concurrently
from webhook.kube.ports import ConflictError, StoreError

FIRST_SHUN: Final = timedelta(minutes=10)
LONGEST_SHUN: Final = timedelta(hours=24)
"""Maximum backoff of a node that could not be marked, or whose command was rolled back.

Without it, such a node would be the first candidate each time and starve the others.
"""
REST: Final = timedelta(minutes=1)
"""Pause after a rollback, during which no command is accepted. A rollback after a restart causes none."""

log = logging.getLogger(__name__)


class NodeOrders:
    """Running commands.

    Args:
        world: The cached cluster.
        commands: Writes to nodes and claims.
        draining: Drains nodes.
        planning: Triggers evaluations.
        advice: Records Events.
        observer: Metrics hooks.
        now: The clock.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self,
        world: NodeWorld,
        commands: NodeCommands,
        draining: NodeDraining,
        planning: NodePlanning,
        advice: NodeAdvice,
        observer: NodeDisruptionObserver,
        now: Callable[[], datetime],
        clock: Callable[[], float],
    ) -> None:
        self._world = world
        self._commands = commands
        self._draining = draining
        self._planning = planning
        self._advice = advice
        self._observer = observer
        self._now = now
        self._clock = clock
        self._pauses = Pauses[str](clock, FIRST_PAUSE, LONGEST_PAUSE)
        """Backoffs by name of a node or a claim. A claim of a node is listed under either name."""
        self._shunned = Pauses[str](clock, FIRST_SHUN, LONGEST_SHUN)
        self._why: dict[str, str] = {}
        self._rests_until = float("-inf")
        self._takes_over = True
        """Whether this process has not taken a step yet."""

    @property
    def resting(self) -> bool:
        """Whether no command may be accepted now."""
        return self._clock() < self._rests_until

    def pause(self, duration: timedelta) -> None:
        """Accept no command for *duration*."""
        self._rests_until = self._clock() + duration.total_seconds()

    @property
    def backed_off(self) -> dict[str, str]:
        """Backed-off nodes, which are excluded from decisions, with the reasons."""
        return {name: reason for name, reason in self._why.items() if name in self._shunned}

    def back_off(self, name: str, reason: str) -> None:
        """Exclude a node from decisions for a while, twice as long each time."""
        self._shunned.failed(name)
        self._why[name] = reason

    async def advance(self) -> bool:
        """Take the next step of every command. Return whether there are any."""
        world = self._world
        await run_concurrently(
            self.about(name_of(node), partial(self._commands.unmark, name_of(node), uid_of(node)))
            for node in orphaned_nodes(world.nodes())
        )
        orders, adopted_orders = orders_on(world.nodes()), list(self._adopted())
        doings = [self._advance(order, nodes_of_order, len(orders)) for order, nodes_of_order in orders.values()]
        await run_concurrently([*doings, *(self._drain(name, uid, order) for name, uid, order in adopted_orders)])
        await self._clear()
        self._takes_over = False
        self._draining.forget()
        self._forget()
        self._observer.draining(sum(_is_drained(node) for node in world.nodes()))
        return bool(orders or adopted_orders)

    def _forget(self) -> None:
        """Drop the state of deleted objects."""
        names = {
            name_of(document) for kind in _WRITTEN for document in self._world.cache.of_kind(kind).objects.values()
        }
        self._pauses.retain(names)
        self._shunned.retain(names)
        self._why = {name: reason for name, reason in self._why.items() if name in names}

    async def about(self, name: str, action: Callable[[], Awaitable[object]]) -> bool:
        """Run an action on a node or claim unless it is backed off. Return whether it succeeded.

        An error is logged and causes a backoff.
        """
        if name in self._pauses:
            return False
        try:
            await action()
        except StoreError as error:
            self._pauses.failed(name)
            if not isinstance(error, ConflictError):  # a conflict usually passes on the first retry
                log.warning("node disruption failed", extra={"node": name, "error": str(error)})
                self._advice.record_events(
                    [
                        Note(
                            "Node",
                            name,
                            NodePoolEventReason.BLOCKED,
                            f"its disruption failed and will be retried: {error}",
                            warning=True,
                        )
                    ]
                )
            return False
        except Exception:  # a bug that affects one node must not block the others: log with traceback
            self._pauses.failed(name)
            log.exception("node disruption failed", extra={"node": name})
            return False
        self._pauses.over(name)
        return True

    async def undo(self, order: Order, nodes_of_order: Mapping[str, str], reason: str) -> None:
        """Roll back a command.

        Args:
            order: The command.
            nodes_of_order: UIDs of the order's nodes, by name.
            reason: Human-readable reason.
        """
        is_done = False
        for name, uid in nodes_of_order.items():
            if await self.about(name, partial(self._commands.unmark, name, uid)):
                is_done = True
                message = f"{order.reason}: it is kept: {reason}"
                self._advice.record_events([Note("Node", name, NodePoolEventReason.UNDONE, message, warning=True)])
        if is_done:
            if not self._takes_over:
                self.pause(REST)
                for name in nodes_of_order:
                    self.back_off(name, f"its disruption command was rolled back: {reason}")
            self._observer.failed(order.method, "undone")
            self._planning.requeue_immediately()

    def _adopted(self) -> Iterator[tuple[str, str, Order]]:
        """Yield the unmarked nodes that another client deletes, each with its UID and a command for its drain.

        Nodes without a claim or without evictable pods are left out.
        """
        for node in self._world.nodes():
            name = name_of(node)
            if is_marked(node) or not is_being_deleted(self._world, name) or self._world.claim_of(name) is None:
                continue
            if any(pod.evictable for pod in self._world.pools.pods_on(name)):
                yield name, uid_of(node), self._deletion(node)

    def _deletion(self, node: JsonObject) -> Order:
        """Return the command for a node that another client deletes, directly or through its claim."""
        documents = (self._world.claim_of(name_of(node)), node)
        instants = (
            read_instant(document["metadata"].get("deletionTimestamp"))
            for document in documents
            if document is not None
        )
        return deletion_of(name_of(node), uid_of(node), next(filter(None, instants), self._now()))

    async def _drain(self, name: str, uid: str, order: Order) -> None:
        await self.about(name, partial(self._draining.advance, name, uid, order))

    async def _advance(self, order: Order, nodes_of_order: Mapping[str, JsonObject], commands: int) -> None:
        world = self._world
        drained_nodes = [name for name, node in nodes_of_order.items() if _is_drained(node)]
        deleted = [name for name in nodes_of_order if is_being_deleted(world, name)]
        claims = {name: claim for name in order.replacements if (claim := world.claim(name)) is not None}
        replacements = {name: _is_initialized(claim) for name, claim in claims.items() if not is_deleting(claim)}
        uids = {name: uid_of(node) for name, node in nodes_of_order.items()}
        is_ready = len(replacements) == len(order.replacements) and all(replacements.values())
        if not drained_nodes and not is_ready and 0 < len(deleted) < len(nodes_of_order):
            # Another client deletes some of the nodes. The others must not be drained before their pods have a place.
            await run_concurrently(
                self._drain(name, uids[name], self._deletion(nodes_of_order[name])) for name in deleted
            )
            return
        if not drained_nodes and not deleted and order.since > self._now() + SKEW:
            await self.undo(order, uids, f"it was accepted at {format_time(order.since)}, which is in the future")
            return
        step = next_step(
            order,
            present=[name for name in order.nodes if world.cache.get(kinds.NODE, name) is not None],
            marked_nodes=nodes_of_order,
            removed_nodes=[*drained_nodes, *deleted],
            replacements=replacements,
            commands=commands,
            now=self._now(),
        )
        await self._carry_out(order, uids, step)

    async def _carry_out(self, order: Order, uids: Mapping[str, str], step: CommandStep) -> None:
        match step.next:
            case Next.WAIT:
                until = f", until {format_time(step.until)} at the latest" if step.until is not None else ""
                for name in uids:
                    await self.about(name, partial(self._tell_claim, name, order))
                message = f"{step.message}{until}"
                self._advice.record_events(Note("Node", name, NodePoolEventReason.WAITING, message) for name in uids)
            case Next.UNDO:
                await self.undo(order, uids, step.message)
            case Next.DRAIN:
                await run_concurrently(self._drain(name, uid, order) for name, uid in uids.items())

    async def _tell_claim(self, name: str, order: Order) -> None:
        if (claim := self._world.claim_of(name)) is not None:
            await self._commands.set_condition(claim, order.reason, f"{order.method}, command {order.id}")

    async def _clear(self) -> None:
        """Delete replacement claims whose command is no longer on any node, unless pods may run on their nodes."""
        running = {order.id for order, _ in orders_on(self._world.nodes()).values()}
        for claim in self._world.cache.list(kinds.NODE_CLAIM):
            order = read_order(claim)
            if order is None or name_of(claim) not in order.replacements or order.id in running:
                continue
            if not self._has_become_a_node(claim):
                await self.about(name_of(claim), partial(self._commands.delete_claim, claim))

    def _has_become_a_node(self, claim: JsonObject) -> bool:
        """Return whether pods may run on a claim's node: pods exist, or the node has ever been initialized."""
        name = text_at(claim, "status", "nodeName")
        node = self._world.cache.get(kinds.NODE, name) if name else None
        if _is_initialized(claim) or (node is not None and label(node, INITIALIZED_LABEL) == "true"):
            return True
        return node is not None and any(read_pod(pod).reschedulable for pod in self._world.pods_on(name))


_WRITTEN: Final = (kinds.NODE, kinds.NODE_CLAIM)


def disrupted_nodes(world: NodeWorld) -> dict[str, str]:
    """Return the disruption reason of every node of a command, by node name."""
    return {name_of(node): order.reason for node in world.nodes() if (order := own_order(node)) is not None}


def _is_drained(node: JsonObject) -> bool:
    order = own_order(node)
    return order is not None and order.draining is not None


def _is_initialized(claim: JsonObject) -> bool:
    return any(
        condition.get("type") == "Initialized" and condition.get("status") == "True"
        for condition in conditions_of(claim)
    )
