"""Disrupts the nodes of pools, or says what it would do: one controller for a hub and for a member alike.

All of it is one key of the queue. A pass first goes on with the commands that are under way, as they show on the nodes,
and then looks at the cluster if something has changed. Nothing is remembered that a restart would lose: what has been
accepted is written on the nodes (`scorer.node_disruption.order`), and what has not is decided again.

In mode Act a command is accepted when its nodes have been reserved at the gate of their pools, like those of any other
client, and from then on they count against the budgets by their taint. While a Karpenter leads, nothing is written to
nodes or claims, not even to undo what was begun: what its own commands do not hold it cleans up itself.

Source: nodepool-disruption.md 5.1, 7.1, 9 and 10.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from scorer.api import kinds
from scorer.api.documents import conditions_of, is_deleting, name_of, uid_of
from scorer.api.meta import JsonObject
from scorer.node_disruption.command import Command
from scorer.node_disruption.order import (
    Order,
    deletion_of,
    expiration_of,
    is_marked,
    order_of,
    orders_on,
    read_order,
    strays,
)
from scorer.node_disruption.pod import read_instant
from scorer.node_disruption.progress import Next, Step, next_step
from scorer.node_disruption.replacement import claims_of
from scorer.node_disruption.rival import rival_of
from scorer.node_disruption.telling import Circumstance, Note, ToldReason, describe, notes, standings
from scorer.node_disruption.validation import Failure
from scorer.rollout.placement_status import Event
from webhook.controllers.failures import Concerned
from webhook.controllers.node_advice import NodeAdvice, counted_by_cause
from webhook.controllers.node_commands import NodeCommands
from webhook.controllers.node_disruption_observer import UNOBSERVED_NODES, NodeDisruptionObserver
from webhook.controllers.node_draining import POLL, NodeDraining, is_going
from webhook.controllers.node_planning import NodePlanning, Pass
from webhook.controllers.node_turns import NodeTurns
from webhook.controllers.node_world import NodeWorld
from webhook.controllers.result import DONE, Result
from webhook.controllers.wiring import Later, Signal, Watch, Wiring
from webhook.gate.reservations import LeaseReservations
from webhook.kube.channel import Channel
from webhook.kube.hub import Hub, at_once
from webhook.kube.node_work import NodeWork
from webhook.kube.ports import ForbiddenError, Key
from webhook.settings.node_disruption import NodeDisruptionMode, NodeDisruptionOptions

NAME: Final = "node_disruption"
KEY: Final = "nodes"
DEBOUNCE: Final = timedelta(seconds=1)
"""How long changes are collected before they are looked at."""
SYNC: Final = timedelta(seconds=1)
RIVAL_EVERY: Final = timedelta(seconds=10)
"""How often to look whether Karpenter runs; before a command is accepted in any case."""
REST: Final = timedelta(minutes=1)
"""How long no command is accepted after one could not be carried out."""


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Where nodes are disrupted.

    Args:
        hub: The cluster, with a cache that tells whether there are NodePools.
        work: Evicts and deletes pods; None: nobody can here, so nothing is carried out.
        namespace: Where reservations are kept; empty: nobody reserves nodes here.
    """

    hub: Hub
    work: NodeWork | None
    namespace: str


class NodeDisruptionController:
    """Looks at all pools at once: a command may take nodes of several.

    Args:
        place: The cluster.
        options: What the operator decided.
        now: The clock.
        record: Takes events.
        observer: Is told what is found and done.
    """

    def __init__(
        self,
        place: NodePlace,
        options: NodeDisruptionOptions,
        now: Callable[[], datetime],
        record: Callable[[JsonObject, Event], None],
        observer: NodeDisruptionObserver = UNOBSERVED_NODES,
    ) -> None:
        self._place = place
        self._options = options
        self._now = now
        self._record = record
        self._observer = observer
        self._told = Channel[None]()
        self._opened = asyncio.Event()
        self._site: _Site | None = None
        self._why_not = ""
        self._rival_due: datetime | None = None
        self._rests_until: datetime | None = None
        self._acted = False
        self._advised: tuple[Command, ...] = ()

    def wiring(self) -> Wiring[str]:
        """Say what wakes it: pools, claims, nodes, and what guards pods; the rest is asked for by time."""
        return Wiring(
            name=NAME,
            reconcile=self.reconcile,
            concerned=lambda _: Concerned(kinds.NODE_POOL, Key(min(self._pools(), default=KEY))),
            watches=(
                Watch(kinds.NODE_POOL, lambda _: (Later(KEY, DEBOUNCE),)),
                Signal(self._told.subscribe, lambda _: (Later(KEY, DEBOUNCE),)),
            ),
            workers=1,
            background=(self.run,),
            ends=(self.end,),
        )

    async def run(self) -> None:
        """Follow the cluster until cancelled, from when there is a pool."""
        await self._opened.wait()
        assert self._site is not None
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._site.world.run())
            if self._site.turns is not None:
                tasks.create_task(self._site.turns.reservations.run())

    def end(self) -> None:
        """Follow nothing any more."""
        if self._site is not None:
            self._site.world.end()
        self._observer.ended()

    async def reconcile(self, _: str) -> Result:
        """Go on with what is under way, and look for more."""
        if self._options.mode is NodeDisruptionMode.OFF or (self._site is None and not self._pools()):
            return DONE
        site = self._opened_site()
        if not site.synced:
            return Result(SYNC)
        if trouble := site.world.trouble:
            site.advice.cannot_read(trouble)
            return Result(RIVAL_EVERY)
        acting = await self._may_act()
        if acting is not self._acted:
            self._acted = acting
            site.planning.hurry()
        steps = await self._go_on(site) if acting else []
        now = self._now()
        if site.planning.next_look(now) <= now:
            await self._look(site, acting)
        now = self._now()
        instants = [site.planning.next_look(now), *steps, *((self._rival_due,) if self._rival_due else ())]
        return Result(max(min(instants) - now, POLL / 10))

    def _pools(self) -> list[str]:
        return [key.name for key in self._place.hub.cache.shelf(kinds.NODE_POOL).objects]

    def _opened_site(self) -> "_Site":
        if self._site is None:
            self._site = _Site(self._place, self._options, self._now, self._record)
            self._site.world.subscribe(self._told.tell)
            self._opened.set()
        return self._site

    async def _may_act(self, *, surely: bool = False) -> bool:
        """Say whether commands are carried out now; `_why_not` says why not, where they should be.

        Args:
            surely: Look at the Lease of Karpenter now, however short a while ago that was.
        """
        if self._options.mode is not NodeDisruptionMode.ACT:
            return False
        now = self._now()
        if surely or self._rival_due is None or now >= self._rival_due:
            self._why_not, self._rival_due = await self._rival(), now + RIVAL_EVERY
        return not self._why_not

    async def _rival(self) -> str:
        """Return why nothing may be carried out; empty when it may."""
        if self._place.work is None:
            return "mode Act needs an API server that evicts pods, and this store does not"
        name, namespace = self._options.karpenter_lease, self._options.karpenter_namespace
        try:
            return rival_of(await self._place.work.leases(name, namespace), self._now())
        except ForbiddenError as error:
            return f"nobody can tell whether Karpenter runs: {error}"

    async def _go_on(self, site: "_Site") -> list[datetime]:
        """Take the next step of every command under way; returns when each is to be looked at again."""
        world, now = site.world, self._now()
        for node in strays(world.nodes()):
            await site.commands.unmark(name_of(node))
        orders = orders_on(world.nodes())
        doings = [self._advance(site, order, carrying, len(orders)) for order, carrying in orders.values()]
        adopted = [site.draining.advance(name, order) for name, order in self._adopt(site)]
        await at_once([*doings, *adopted])
        await self._clear(site)
        site.draining.forget()
        draining = sum(_is_drained(node) for node in world.nodes())
        self._observer.draining(draining)
        return [now + POLL] if orders or adopted else []

    def _adopt(self, site: "_Site") -> list[tuple[str, Order]]:
        """Return the nodes that somebody else deletes and that carry no command, but pods; with a command for each."""
        found = []
        for node in site.world.nodes():
            name = name_of(node)
            if is_marked(node) or not is_going(site.world, name) or site.world.claim_of(name) is None:
                continue
            if any(pod.evictable for pod in site.world.pools.pods_on(name)):
                found.append((name, deletion_of(name, uid_of(node), _deleted_at(site.world, name) or self._now())))
        return found

    async def _advance(self, site: "_Site", order: Order, carrying: dict[str, JsonObject], commands: int) -> None:
        world = site.world
        there = [name for name in order.nodes if world.cache.get(kinds.NODE, name) is not None]
        step = next_step(
            order,
            there=there,
            marked=carrying,
            going=[name for name, node in carrying.items() if _is_drained(node) or is_going(world, name)],
            replacements={
                name: _is_initialized(claim)
                for name in order.replacements
                if (claim := world.claim(name)) is not None and not is_deleting(claim)
            },
            commands=commands,
            now=self._now(),
        )
        await self._carry_out(site, order, carrying, step)

    async def _carry_out(self, site: "_Site", order: Order, carrying: Iterable[str], step: Step) -> None:
        match step.next:
            case Next.WAIT:
                for name in carrying:
                    if (claim := site.world.claim_of(name)) is not None:
                        await site.commands.set_condition(claim, order.reason, f"{order.method}, command {order.id}")
                site.advice.tell(Note("Node", name, ToldReason.WAITING, step.message) for name in carrying)
            case Next.UNDO:
                await self._undo(site, order, carrying, step.message)
            case Next.DRAIN:
                await at_once(site.draining.advance(name, order) for name in carrying)

    async def _undo(self, site: "_Site", order: Order, carrying: Iterable[str], why: str) -> None:
        self._rests_until = self._now() + REST
        self._observer.failed(order.method, "undone")
        for name in list(carrying):
            await site.commands.unmark(name)
            site.advice.tell([Note("Node", name, ToldReason.UNDONE, f"{order.reason}: it stays: {why}", warning=True)])
        site.planning.hurry()

    async def _clear(self, site: "_Site") -> None:
        """Delete claims that were made for commands which no node carries any more, unless they have become nodes."""
        running = orders_on(site.world.nodes())
        for claim in site.world.cache.list(kinds.NODE_CLAIM):
            order = read_order(claim)
            if order is None or name_of(claim) not in order.replacements or order.id in running:
                continue
            if not _is_initialized(claim):
                await site.commands.delete_claim(claim)

    async def _look(self, site: "_Site", acting: bool) -> None:
        """Decide, begin what has been decided, and tell of it."""
        found = await site.planning.look()
        decision = found.decision
        causes = counted_by_cause((each.reason, each.node) for each in decision.held)
        self._observer.looked(decision.eligible, causes)
        if acting:
            await self._begin_all(site, found)
        elif decision.commands != self._advised:
            self._advised = decision.commands
            for command in decision.commands:
                self._observer.decided(command.method, command.decided)
        given = Circumstance(
            acting, self._why_not, found.problem or site.planning.types.problem, _under_way(site.world)
        )
        site.advice.stand(standings(decision, found.cluster, given))
        site.advice.tell(self._notes(found, acting))
        site.advice.tell_of_annotations()

    def _notes(self, found: Pass, acting: bool) -> Iterable[Note]:
        if self._why_not:
            for name in found.cluster.pools:
                yield Note("NodePool", name, ToldReason.REFUSED, self._why_not, warning=True)
        yield from notes(found.decision, found.cluster, found.views, acting=acting)

    async def _begin_all(self, site: "_Site", found: Pass) -> None:
        decision = found.decision
        for name in decision.expired:
            await self._expire(site, name)
        if isinstance(found.checked, Failure) and found.waited is not None:
            self._fail(site, found.waited, found.checked)
        elif isinstance(found.checked, Command):
            await self._begin(site, found.checked)
            return
        if site.planning.waiting is not None or (self._rests_until is not None and self._now() < self._rests_until):
            return
        for command in decision.commands:
            if command.validate_after:
                site.planning.waiting = command, self._now() + command.validate_after
                said = f"{describe(command)}; it is looked at again in {command.validate_after.seconds} s"
                site.advice.tell(Note("Node", node, ToldReason.CANDIDATE, said) for node in command.nodes)
                return
            await self._begin(site, command)

    def _fail(self, site: "_Site", command: Command, failure: Failure) -> None:
        self._observer.failed(command.method, failure.word)
        said = f"{command.reason}: {failure.word}: {failure.message}"
        site.advice.tell(Note("Node", node, ToldReason.REJECTED, said) for node in command.nodes)

    async def _expire(self, site: "_Site", name: str) -> None:
        node = site.world.cache.get(kinds.NODE, name)
        if node is None or is_marked(node) or is_going(site.world, name) or not await self._may_act(surely=True):
            return
        order = expiration_of(name, uid_of(node), self._now())
        if self._options.graceful_expiration and not await self._reserved(site, order, found_pools(site.world, order)):
            return
        self._observer.decided(order.method, "delete")
        await site.draining.advance(name, order)
        site.planning.hurry()

    async def _begin(self, site: "_Site", command: Command) -> None:
        """Accept a command: reserve its nodes, mark them, and have its replacements made."""
        documents = [site.world.cache.get(kinds.NODE, name) for name in sorted(command.nodes)]
        pools = {each.pool: site.world.cache.get(kinds.NODE_POOL, each.pool) for each in command.replacements}
        known = {name: pool for name, pool in pools.items() if pool is not None}
        if any(each is None for each in documents) or len(known) < len(pools):
            site.planning.hurry()
            return
        if not await self._may_act(surely=True):
            return
        order = order_of(command, [uid_of(each) for each in documents if each is not None], self._now())
        assert site.turns is not None
        refusal, taken = await site.turns.take(order, found_pools(site.world, order), command)
        try:
            if refusal:
                self._refuse(site, command, refusal)
                return
            self._observer.decided(command.method, command.decided)
            site.advice.tell(Note("Node", name, ToldReason.APPROVED, describe(command)) for name in order.nodes)
            site.planning.hurry()
            await self._mark(site, order, claims_of(order, command.replacements, known))
        finally:
            await site.turns.give_back(taken)

    async def _mark(self, site: "_Site", order: Order, replacements: list[JsonObject]) -> None:
        marked = [name for name in order.nodes if await site.commands.mark(name, order)]
        if replacements and len(marked) < len(order.nodes):
            await self._undo(site, order, marked, "not every node of the command could be marked")
            return
        for name in marked:
            if (claim := site.world.claim_of(name)) is not None:
                await site.commands.set_condition(claim, order.reason, f"{order.method}, command {order.id}")
        if replacements:
            said = f"{order.reason}: waits for {', '.join(order.replacements)}"
            site.advice.tell(Note("Node", name, ToldReason.LAUNCHING, said) for name in marked)
            await site.commands.create(replacements)

    def _refuse(self, site: "_Site", command: Command, refusal: str) -> None:
        self._rests_until = self._now() + RIVAL_EVERY
        self._observer.failed(command.method, "gate")
        said = f"{command.reason}: the gate says no: {refusal}"
        site.advice.tell(Note("Node", node, ToldReason.BLOCKED, said) for node in command.nodes)

    async def _reserved(self, site: "_Site", order: Order, pools: dict[str, list[str]]) -> bool:
        """Say whether the gate lets nodes go that have reached their age; they are marked at once."""
        assert site.turns is not None
        refusal, taken = await site.turns.take(order, pools, None)
        if not refusal:
            await site.commands.mark(order.nodes[0], order)
        await site.turns.give_back(taken)
        return not refusal


class _Site:
    """Everything that is made when there is a pool."""

    def __init__(
        self,
        place: NodePlace,
        options: NodeDisruptionOptions,
        now: Callable[[], datetime],
        record: Callable[[JsonObject, Event], None],
    ) -> None:
        store = place.hub.store
        self.world = NodeWorld(store, template_do_not_disrupt=options.gate.template_do_not_disrupt)
        self.advice = NodeAdvice(self.world, record, now)
        self.commands = NodeCommands(self.world, now)
        reservations = LeaseReservations(store, place.namespace, now) if place.namespace else None
        self.turns = None if reservations is None else NodeTurns(self.world, reservations, store, options.gate, now)
        self.planning = NodePlanning(self.world, options, reservations, now)
        self._draining = (
            None if place.work is None else NodeDraining(self.world, place.work, self.commands, self.advice, now)
        )

    @property
    def draining(self) -> NodeDraining:
        """What drains nodes; only asked for where something is carried out."""
        assert self._draining is not None
        return self._draining

    @property
    def synced(self) -> bool:
        """Whether everything has been read once."""
        return self.world.synced and (self.turns is None or self.turns.reservations.synced)


def found_pools(world: NodeWorld, order: Order) -> dict[str, list[str]]:
    """Return the nodes of an order by their pools."""
    found: dict[str, list[str]] = {}
    for name in order.nodes:
        known = world.pools.node(name)
        if known is not None:
            found.setdefault(known[0], []).append(name)
    return dict(sorted(found.items()))


def _under_way(world: NodeWorld) -> dict[str, str]:
    """Return the reason of every node that carries a command, by its name."""
    return {name_of(node): order.reason for node in world.nodes() if (order := read_order(node)) is not None}


def _is_drained(node: JsonObject) -> bool:
    order = read_order(node)
    return order is not None and order.draining is not None


def _is_initialized(claim: JsonObject) -> bool:
    return any(each.get("type") == "Initialized" and each.get("status") == "True" for each in conditions_of(claim))


def _deleted_at(world: NodeWorld, name: str) -> datetime | None:
    """Return when somebody has deleted a node or its claim."""
    documents = (world.claim_of(name), world.cache.get(kinds.NODE, name))
    found = (read_instant(each["metadata"].get("deletionTimestamp")) for each in documents if each is not None)
    return next((each for each in found if each is not None), None)
