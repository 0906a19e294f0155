"""The node disruption controller: continue accepted commands, then plan new ones, under one queue key.

A pass first advances the running commands, which it reads from the nodes, and then evaluates the cluster if something
has changed. A restart loses nothing: accepted commands are stored on the nodes
(`scorer.node_disruption.execution.command_annotation`), and everything else is decided again.

In mode Act a command is accepted once its nodes are reserved at the gate of their pools, as for any other client. From
then on their taint counts against the budgets. While Karpenter holds its Lease, nothing is written to nodes or claims,
not even to roll back a command: Karpenter itself cleans up taints that belong to none of its own commands.

Source: docs/specifications/nodepool-disruption.md 5.1, 7.1, 9 and 10.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from scorer.api import kinds
from scorer.api.conditions import UNKNOWN
from scorer.api.event import Event
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import uid_of
from scorer.node_budgets.nodes import DISRUPTED_TAINT
from scorer.node_disruption.execution.command_annotation import Order, expiration_of, is_marked, is_tainted, order_of
from scorer.node_disruption.execution.replacement_claims import claims_of
from scorer.node_disruption.execution.reporting import (
    Circumstance,
    NodePoolCondition,
    NodePoolConditionReason,
    NodePoolEventReason,
    Note,
    describe,
    notes,
    pool_conditions,
)
from scorer.node_disruption.methods.command import Command, over_limits
from scorer.node_disruption.methods.validation import ValidationFailure
from webhook.controllers.machinery.failures import Concerned
from webhook.controllers.machinery.result import DONE, Result
from webhook.controllers.machinery.wiring import NODES, Later, Signal, Watch, Wiring, always
from webhook.controllers.nodes.cache import NodeWorld
from webhook.controllers.nodes.drain import POLL, NodeDraining, is_being_deleted
from webhook.controllers.nodes.events import NodeAdvice, counted_by_cause, joined
from webhook.controllers.nodes.observer import UNOBSERVED_NODES, NodeDisruptionObserver
from webhook.controllers.nodes.orchestration import NodeOrders, disrupted_nodes
from webhook.controllers.nodes.planning import PASS, NodePlanning, PlanningPass
from webhook.controllers.nodes.preconditions import RIVAL_EVERY, SKEW, KarpenterDetector
from webhook.controllers.nodes.reservations import NodeReservations
from webhook.controllers.nodes.writes import NodeCommands
from webhook.gate.reservations import LeaseReservations
from webhook.kube.cache.changes import Broadcaster
from webhook.kube.cache.hub import Hub, run_concurrently
from webhook.kube.client.evictions import NodeWork
from webhook.kube.leader_election.term import monotonic
from webhook.kube.ports import Key, StoreError, UnavailableError
from webhook.settings.gate import NodeDisruptionMode, NodeDisruptionOptions

NAME: Final = "node_disruption"
KEY: Final = "nodes"
DEBOUNCE: Final = timedelta(seconds=1)
"""Debounce of changes before an evaluation."""
SYNC: Final = timedelta(seconds=1)
MOST_OF_ONE: Final = 100
"""Maximum number of nodes per command: each node of an accepted command carries the names of all its nodes."""


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Cluster whose nodes are disrupted, with a cache that watches NodePools.

    Without ``work``, no command is executed. Without ``namespace``, nodes are not reserved.
    """

    hub: Hub
    work: NodeWork | None
    namespace: str


class NodeDisruptionController:
    """Evaluates all pools together, because a command may take nodes from several pools.

    Args:
        place: The cluster.
        options: Settings of the operator.
        now: The clock.
        record: Records Events.
        observer: Metrics hooks.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self,
        place: NodePlace,
        options: NodeDisruptionOptions,
        now: Callable[[], datetime],
        record: Callable[[JsonObject, Event], None],
        observer: NodeDisruptionObserver = UNOBSERVED_NODES,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._place = place
        self._options = options
        self._now = now
        self._record = record
        self._observer = observer
        self._clock = clock
        self._rivals = KarpenterDetector(place.work, options, now, clock)
        self._broadcaster = Broadcaster[None]()
        self._opened = asyncio.Event()
        self._site: _Site | None = None
        self._set_to: timedelta | None = None
        self._why_not = ""
        self._acted = False
        self._has_begun = False
        self._refused: frozenset[str] = frozenset()
        """Nodes of the last command that was refused, by the gate or for the limits of a pool."""
        self._advised: tuple[Command, ...] = ()

    def wiring(self) -> Wiring[str]:
        """Return the wiring: pools, claims, nodes and PodDisruptionBudgets enqueue the key, the rest is polled."""
        return Wiring(
            name=NAME,
            reconcile=self.reconcile,
            concerned=lambda _: Concerned(kinds.NODE_POOL, Key(min(self._pools(), default=KEY))),
            owner=always(NODES),
            watches=(
                Watch(kinds.NODE_POOL, lambda _: (Later(KEY, DEBOUNCE),)),
                Signal(self._broadcaster.subscribe, lambda _: (Later(KEY, DEBOUNCE),)),
            ),
            workers=1,
            background=(self.run,),
            ends=(self.end,),
        )

    async def run(self) -> None:
        """Watch the cluster until cancelled, once the first pool exists."""
        await self._opened.wait()
        assert self._site is not None
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._site.world.run())
            if self._site.turns is not None:
                tasks.create_task(self._site.turns.reservations.run())

    def end(self) -> None:
        """Stop all watches."""
        if self._site is not None:
            self._site.world.end()
        self._observer.ended()

    async def reconcile(self, _: str) -> Result:
        """Advance the running commands, and plan new ones.

        Raises:
            UnavailableError: It is unknown whether Karpenter runs. The queue retries soon.
        """
        if self._options.mode is NodeDisruptionMode.OFF or (self._site is None and not self._pools()):
            return DONE
        site = self._opened_site()
        if not site.synced:
            return Result(SYNC)
        site.advice.begin_pass()
        self._heed_the_clock(site)
        if trouble := site.world.problem:
            site.advice.cannot_read(trouble)
            self._observer.ended()
            return Result(RIVAL_EVERY)
        is_acting = await self._may_act()
        if is_acting is not self._acted:
            self._acted = is_acting
            site.planning.requeue_immediately()
        is_at_work = await self._go_on(site) if is_acting else False
        if not is_acting:
            self._observer.draining(0)
        now = self._now()
        if site.planning.next_evaluation(now) <= now:
            await self._look(site, is_acting)
        return Result(self._pause(site, is_at_work=is_at_work))

    async def _go_on(self, site: "_Site") -> bool:
        """Advance the running commands. Return whether there are any."""
        if not self._has_begun and site.turns is not None:
            await site.turns.release_all()
        self._has_begun = True
        return await site.orders.advance()

    def _pause(self, site: "_Site", *, is_at_work: bool) -> timedelta:
        """Return the longest delay until the next pass: pod changes do not trigger a reconcile."""
        now = self._now()
        pauses = [site.planning.next_evaluation(now) - now, PASS]
        pauses += [POLL] if is_at_work else []
        pauses += [self._rivals.due_in] if self._options.mode is NodeDisruptionMode.ACT else []
        return max(min(pauses), POLL / 10)

    def _heed_the_clock(self, site: "_Site") -> None:
        """Drop all pending due times if the wall clock has been set: they were computed with the old time."""
        set_to = self._now() - _EPOCH - timedelta(seconds=self._clock())
        if self._set_to is None or abs(set_to - self._set_to) > SKEW:
            site.planning.reset()
            site.advice.forget()
            self._rivals.invalidate()
            self._set_to = set_to

    def _pools(self) -> list[str]:
        return [key.name for key in self._place.hub.cache.of_kind(kinds.NODE_POOL).objects]

    def _opened_site(self) -> "_Site":
        if self._site is None:
            self._site = _Site(
                self._place, self._options, self._record, self._observer, now=self._now, clock=self._clock
            )
            self._site.world.subscribe(self._broadcaster.publish)
            self._opened.set()
        return self._site

    async def _may_act(self, *, surely: bool = False) -> bool:
        """Return whether commands are executed now. *surely*: read Karpenter's Lease first. Raises `StoreError`."""
        if self._options.mode is not NodeDisruptionMode.ACT:
            return False
        try:
            self._why_not = await self._rivals.refusal(surely=surely)
        except UnavailableError as error:
            raise UnavailableError(str(error), error.retry_after or RIVAL_EVERY.total_seconds()) from error
        return not self._why_not

    async def _look(self, site: "_Site", is_acting: bool) -> None:
        """Evaluate the cluster, start the decided commands, and report the result."""
        evaluation = await site.planning.evaluate(site.orders.backed_off if is_acting else {})
        decision = evaluation.decision
        causes = counted_by_cause((hold.reason, hold.node) for hold in decision.held)
        self._observer.evaluated(decision.eligible, causes)
        if is_acting:
            await self._begin_all(site, evaluation)
        elif decision.commands != self._advised:
            self._advised = decision.commands
            for command in decision.commands:
                self._observer.decided(command.method, command.decided)
        self._stand(site, evaluation, is_acting)
        site.advice.record_events(self._notes(evaluation, is_acting))
        site.advice.report_invalid_annotations()

    def _stand(self, site: "_Site", planning_pass: PlanningPass, is_acting: bool) -> None:
        """Set the condition of every pool, including those that cannot be parsed."""
        disrupted = disrupted_nodes(site.world)
        trouble = planning_pass.problem or site.planning.trouble
        circumstance = Circumstance(is_acting, self._why_not, trouble, disrupted if is_acting else None)
        expired_nodes = tuple(name for name in planning_pass.decision.expired if not _is_of_others(site.world, name))
        conditions = pool_conditions(
            replace(planning_pass.decision, expired=expired_nodes), planning_pass.cluster, circumstance
        )
        if not is_acting:
            conditions = {
                name: _with_stuck(condition, _of_pool(site.world, disrupted, name))
                for name, condition in conditions.items()
            }
        unreadable = sorted(set(site.world.pools.names()) - set(conditions))
        site.advice.set_conditions({**conditions, **dict.fromkeys(unreadable, _UNREADABLE)})

    def _notes(self, planning_pass: PlanningPass, is_acting: bool) -> Iterable[Note]:
        if self._why_not:
            for name in planning_pass.cluster.pools:
                yield Note("NodePool", name, NodePoolEventReason.REFUSED, self._why_not, warning=True)
        yield from joined(notes(planning_pass.decision, planning_pass.cluster, planning_pass.views, acts=is_acting))

    async def _begin_all(self, site: "_Site", planning_pass: PlanningPass) -> None:
        decision = planning_pass.decision
        for start in range(0, len(decision.expired), MOST_OF_ONE):
            several = decision.expired[start : start + MOST_OF_ONE]
            await run_concurrently(
                self._expire_or_repeat(site, name, planning_pass.uids.get(name, "")) for name in several
            )
        if isinstance(planning_pass.checked, ValidationFailure) and planning_pass.waited is not None:
            self._fail(site, planning_pass.waited, planning_pass.checked)
        elif isinstance(planning_pass.checked, Command):
            await self._begin(site, planning_pass.checked, planning_pass)
            return
        if site.planning.waiting is not None or site.orders.resting:
            return
        for command in decision.commands:
            if command.validate_after:
                site.planning.waiting = command, self._now() + command.validate_after
                message = f"{describe(command)}. It is validated again in {command.validate_after.seconds} s"
                site.advice.record_events(
                    Note("Node", node, NodePoolEventReason.CANDIDATE, message) for node in command.nodes
                )
                return
            await self._begin(site, command, planning_pass)

    def _fail(self, site: "_Site", command: Command, failure: ValidationFailure) -> None:
        self._observer.failed(command.method, failure.word)
        message = f"{command.reason}: {failure.word}: {failure.message}"
        site.advice.record_events(Note("Node", node, NodePoolEventReason.REJECTED, message) for node in command.nodes)

    async def _expire_or_repeat(self, site: "_Site", name: str, uid: str) -> None:
        if not await site.orders.about(name, partial(self._expire, site, name, uid)):
            site.planning.repeat()

    async def _expire(self, site: "_Site", name: str, uid: str) -> None:
        node = site.world.cache.get(kinds.NODE, name)
        if node is None or uid_of(node) != uid or is_marked(node) or is_being_deleted(site.world, name):
            return
        if _is_of_others(site.world, name):
            message = (
                f"it has expired, but another controller has set the taint {DISRUPTED_TAINT}: it is left to that "
                "controller"
            )
            site.advice.record_events([Note("Node", name, NodePoolEventReason.BLOCKED, message, warning=True)])
            return
        if not await self._may_act(surely=True):
            return
        order = expiration_of(name, uid, self._now())
        if self._options.graceful_expiration and not await self._reserved(site, order, uid):
            return
        self._observer.decided(order.method, "delete")
        await site.draining.advance(name, uid, order)
        site.planning.requeue_immediately()

    async def _begin(self, site: "_Site", command: Command, planning_pass: PlanningPass) -> None:
        """Accept a command. One without replacements is split into parts of at most `MOST_OF_ONE` nodes."""
        if command.replacements:
            await self._accept(site, command, planning_pass)
            return
        for start in range(0, len(command.nodes), MOST_OF_ONE):
            await self._accept(site, replace(command, nodes=command.nodes[start : start + MOST_OF_ONE]), planning_pass)

    async def _accept(self, site: "_Site", command: Command, planning_pass: PlanningPass) -> None:
        """Reserve and mark the nodes of a command, and create its replacements."""
        uids = {name: planning_pass.uids.get(name, "") for name in sorted(command.nodes)}
        pools = {
            replacement.pool: site.world.cache.get(kinds.NODE_POOL, replacement.pool)
            for replacement in command.replacements
        }
        present_pools = {name: pool for name, pool in pools.items() if pool is not None}
        if len(present_pools) < len(pools) or any(_uid(site.world, name) != uid for name, uid in uids.items()):
            site.planning.requeue_immediately()
            return
        if not await self._may_act(surely=True):
            return
        order = order_of(command, uids.values(), self._now())
        if limits_exceeded := over_limits(command, planning_pass.cluster):
            self._refuse(site, command, limits_exceeded.message)
            return
        async with self._turn(site, order, command) as refusal:
            if refusal:
                self._refuse(site, command, f"refused by the gate: {refusal}")
                return
            self._observer.decided(command.method, command.decided)
            site.advice.record_events(
                Note("Node", name, NodePoolEventReason.APPROVED, describe(command)) for name in order.nodes
            )
            site.planning.requeue_immediately()
            await self._mark(site, order, uids, claims_of(order, command.replacements, present_pools))

    async def _mark(self, site: "_Site", order: Order, uids: dict[str, str], replacements: list[JsonObject]) -> None:
        marked_uids: dict[str, str] = {}

        async def mark(name: str) -> None:
            if not await site.commands.mark(name, uids[name], order):
                return
            marked_uids[name] = uids[name]
            if (claim := site.world.claim_of(name)) is not None:
                await site.commands.set_condition(claim, order.reason, f"{order.method}, command {order.id}")

        await run_concurrently(site.orders.about(name, partial(mark, name)) for name in order.nodes)
        for name in set(order.nodes).difference(marked_uids):
            site.orders.back_off(name, "it could not be tainted for a command")
        if not replacements:
            return
        if len(marked_uids) < len(order.nodes):
            await site.orders.undo(order, marked_uids, "not every node of the command could be tainted")
            return
        message = f"{order.reason}: waiting for {', '.join(order.replacements)}"
        site.advice.record_events(
            Note("Node", name, NodePoolEventReason.LAUNCHING, message) for name in sorted(marked_uids)
        )
        try:
            await site.commands.create(replacements)
        except StoreError as error:
            await site.orders.undo(order, marked_uids, f"creating a replacement failed: {error}")

    def _refuse(self, site: "_Site", command: Command, refusal: str) -> None:
        site.orders.pause(RIVAL_EVERY)
        self._observer.failed(command.method, "gate")
        message = f"{command.reason}: {refusal}"
        for name in self._refused.intersection(command.nodes):  # a single refusal may be a race with a recent change
            site.orders.back_off(name, f"refused repeatedly: {refusal}")
        self._refused = frozenset(command.nodes)
        site.advice.record_events(Note("Node", node, NodePoolEventReason.BLOCKED, message) for node in command.nodes)

    @asynccontextmanager
    async def _turn(self, site: "_Site", order: Order, command: Command | None) -> AsyncIterator[str]:
        """Reserve the nodes of an order at the gate during the block. Yield the reason for a failure, else ""."""
        assert site.turns is not None
        try:
            refusal, reservation_ids = await site.turns.reserve(order, nodes_by_pool(site.world, order), command)
        except StoreError as error:
            refusal, reservation_ids = f"reserving failed: {error}", []
        try:
            yield refusal
        finally:
            await site.turns.release(reservation_ids)

    async def _reserved(self, site: "_Site", order: Order, uid: str) -> bool:
        """Mark an expired node under a reservation. Return whether the gate admitted it and it could be marked."""
        async with self._turn(site, order, None) as refusal:
            return not refusal and await site.commands.mark(order.nodes[0], uid, order)


class _Site:
    """Everything that is created with the first pool."""

    def __init__(
        self,
        place: NodePlace,
        options: NodeDisruptionOptions,
        record: Callable[[JsonObject, Event], None],
        observer: NodeDisruptionObserver,
        *,
        now: Callable[[], datetime],
        clock: Callable[[], float],
    ) -> None:
        store = place.hub.store
        self.world = NodeWorld(store, template_do_not_disrupt=options.gate.template_do_not_disrupt)
        self.advice = NodeAdvice(self.world, record, now)
        self.commands = NodeCommands(self.world, now)
        reservations = LeaseReservations(store, place.namespace, now) if place.namespace else None
        self.turns = (
            None if reservations is None else NodeReservations(self.world, reservations, store, options.gate, now)
        )
        self.planning = NodePlanning(self.world, options, reservations, now)
        self._draining: NodeDraining | None = None
        self._orders: NodeOrders | None = None
        if place.work is not None:
            self._draining = NodeDraining(self.world, place.work, self.commands, self.advice, now, clock)
            self._orders = NodeOrders(
                self.world, self.commands, self._draining, self.planning, self.advice, observer, now, clock
            )

    @property
    def draining(self) -> NodeDraining:
        """The drains. Only valid if commands are executed here."""
        assert self._draining is not None
        return self._draining

    @property
    def orders(self) -> NodeOrders:
        """The running commands. Only valid if commands are executed here."""
        assert self._orders is not None
        return self._orders

    @property
    def synced(self) -> bool:
        """Whether everything has been read once."""
        return self.world.synced and (self.turns is None or self.turns.reservations.synced)


_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_UNREADABLE: Final = NodePoolCondition(
    UNKNOWN,
    NodePoolConditionReason.CANNOT_READ,
    "Karpenter would not accept the NodePool, so its nodes are disrupted only when they expire",
)


def nodes_by_pool(world: NodeWorld, order: Order) -> dict[str, list[str]]:
    """Return the nodes of an order by their pools."""
    by_pool: dict[str, list[str]] = {}
    for name in order.nodes:
        node = world.pools.node(name)
        if node is not None:
            by_pool.setdefault(node[0], []).append(name)
    return dict(sorted(by_pool.items()))


def _uid(world: NodeWorld, name: str) -> str | None:
    node = world.cache.get(kinds.NODE, name)
    return None if node is None else uid_of(node)


def _is_of_others(world: NodeWorld, name: str) -> bool:
    """Return whether a node has the disruption taint of another controller."""
    node = world.cache.get(kinds.NODE, name)
    return node is not None and is_tainted(node) and not is_marked(node)


def _of_pool(world: NodeWorld, names: Iterable[str], pool: str) -> list[str]:
    return sorted(name for name in names if (node := world.pools.node(name)) is not None and node[0] == pool)


def _with_stuck(condition: NodePoolCondition, nodes: list[str]) -> NodePoolCondition:
    """Return the condition of a pool with a note on nodes whose commands are not executed now."""
    if not nodes:
        return condition
    names_text = ", ".join(nodes[:_NAMED]) + (f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else "")
    return replace(condition, message=f"{condition.message}. Started in mode Act and left unchanged: {names_text}")


_NAMED: Final = 5
