"""Simulation of a cluster: the planner's decisions are executed on a simulated clock.

The clock jumps to the next instant at which something can change: a node becomes ready, a drain ends, a pod is
force-deleted, a budget opens, or a node expires. The planner then runs. After a run without a command, the next run is
throttled (`SimulationAssumptions.poll_interval`), unless a hold ends earlier. Each command is executed in three steps:

1. A command that deletes empty nodes or consolidates nodes waits 15 seconds, and is validated again.
2. The nodes are marked, and their replacements are launched.
3. When the replacements are ready, the nodes are drained.

Source: docs/specifications/nodepool-disruption.md 5.1, 5.6, 7, 7.1, 9 and 10.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from scorer.api.meta import format_time
from scorer.api.node_pool import DisruptionReason
from scorer.node_budgets.blockers import BlockReason
from scorer.node_budgets.budgets import Allowance, allowance
from scorer.node_budgets.nodes import PoolNode, count_nodes
from scorer.node_disruption.candidates.refusals import EXPIRED, DisruptionBlockReason, DisruptionEventReason, Held
from scorer.node_disruption.cluster.snapshot import ClusterNode, ClusterSnapshot
from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
from scorer.node_disruption.methods.command import Command, Decided, Method, over_limits
from scorer.node_disruption.methods.drift import detect_drift
from scorer.node_disruption.methods.planner import DisruptionDecision, PlannerOptions, decide, validate
from scorer.node_disruption.simulation.cluster import Clockwork, NodeProvisioning
from scorer.node_disruption.simulation.launches import seen_types
from scorer.node_disruption.simulation.static_pools import should_have
from scorer.node_disruption.simulation.timeline import (
    DELETION,
    EXPIRATION,
    OVERPROVISIONED,
    PROVISIONING,
    SCALE_DOWN,
    BlockedPeriod,
    BlockedPeriods,
    PoolSummary,
    SimulationAssumptions,
    SimulationEvent,
    SimulationResult,
)

PASSING: Final = frozenset(
    (BlockReason.NOT_INITIALIZED, BlockReason.DELETING, BlockReason.REBOOTING, DisruptionBlockReason.NOMINATED)
)
"""Causes that hold a node only during an operation that the timeline reports separately."""

_UNHELD: Final = (EXPIRATION, DELETION, SCALE_DOWN)
"""Reasons that are exempt from budgets."""
_NEVER: Final = frozenset(
    (DisruptionBlockReason.NO_CATALOG, DisruptionBlockReason.ONLY_WHEN_EMPTY, DisruptionBlockReason.DISABLED)
)
"""Causes for which consolidation skips a node entirely. Its other holds are not reported then."""
_ENDING: Final = frozenset((BlockReason.DO_NOT_DISRUPT, DisruptionBlockReason.BUDGET))
"""Causes that end at a time chosen by users. The planner runs at that time, regardless of the size of the cluster."""


def simulate(
    cluster: ClusterSnapshot,
    catalog: InstanceTypeCatalog | None,
    start: datetime,
    length: timedelta,
    settings: PlannerOptions = PlannerOptions(),  # noqa: B008 - it is frozen
    assumptions: SimulationAssumptions = SimulationAssumptions(),  # noqa: B008 - it is frozen
) -> SimulationResult:
    """Simulate a cluster for a period, and return the timeline.

    Args:
        cluster: Initial state.
        catalog: Instance types and prices. None: unknown, which disables consolidation and makes new nodes copies of
            existing ones.
        start: Start time, timezone-aware.
        length: Duration.
        settings: Options of the operator.
        assumptions: Durations and bounds, and what the simulation leaves out.

    Raises:
        ValueError: *length* is not positive.
    """
    if length <= timedelta():
        raise ValueError(f"the length of a simulation must be positive, not {length}")
    return _Simulation(cluster, catalog, start, start + length, settings, assumptions).run()


@dataclass(slots=True)
class _Replacing:
    """A command that waits until its replacements are ready."""

    nodes: tuple[str, ...]
    new: tuple[str, ...]


class _Simulation:
    """One simulation."""

    def __init__(
        self,
        cluster: ClusterSnapshot,
        catalog: InstanceTypeCatalog | None,
        start: datetime,
        end: datetime,
        settings: PlannerOptions,
        assumptions: SimulationAssumptions,
    ) -> None:
        self._start_cluster, self._catalog, self._settings, self._assumptions = cluster, catalog, settings, assumptions
        self._start, self._end, self._now = start, end, start
        types = catalog.types if catalog else seen_types(cluster.nodes.values())
        self._world = Clockwork(cluster, types, catalog, assumptions, start)
        self._prices = {name: self._world.price(name) for name in cluster.nodes}
        self._happenings: list[SimulationEvent] = []
        self._fresh = 0  # number of events before this time
        self._wanted: dict[str, str] = {}
        self._replacing: list[_Replacing] = []
        self._awaiting: tuple[Command, datetime] | None = None
        self._held, self._draining = BlockedPeriods(), BlockedPeriods()
        self._decision: DisruptionDecision | None = None  # of the last planner run
        self._looks = 0
        self._last_look: datetime | None = None
        self._next_look: datetime | None = start
        self._opening: datetime | None = None  # earliest end of a hold
        self._look_again = assumptions.poll_interval(len(cluster.nodes))
        self._missed = False  # something changed after the last planner run, and the next one is throttled
        self._stopped = ""

    def run(self) -> SimulationResult:
        """Run the simulation."""
        self._begin()
        while self._now < self._end and not self._is_full():
            self._move()
            self._plan()
            self._draining.see(self._drain_holds(), self._now)
            next_instant = self._next_instant()
            if next_instant is None:
                break
            self._now, self._fresh = next_instant, len(self._happenings)
        return self._result()

    def _begin(self) -> None:
        """Start the drains of nodes that are already being removed."""
        for name, node in self._start_cluster.nodes.items():
            if node.node is not None and (node.node.deleting or node.node.instance_gone):
                self._record([name], DELETION, "", "was being deleted when the simulation started")
                self._world.drain(name, self._now)

    def _move(self) -> None:
        """Apply all due changes that do not involve the planner."""
        self._world.advance(self._now)
        for replacement in [item for item in self._replacing if all(map(self._world.is_ready, item.new))]:
            self._replacing.remove(replacement)
            for name in replacement.nodes:
                self._world.drain(name, self._now)
        if not self._settings.graceful_expiration:
            self._expire(self._world.expired(self._now))
        self._keep_replicas()
        self._settle()

    def _expire(self, names: Iterable[str]) -> None:
        for name in names:
            claim = self._world.nodes[name].claim
            creation_text = format_time(claim.created) if claim is not None and claim.created is not None else "?"
            expire_after = claim.expire_after if claim is not None else None
            self._record([name], EXPIRATION, EXPIRED, f"created {creation_text}, expires after {_hours(expire_after)}")
            self._world.drain(name, self._now)
            self._held.release({name}, self._now)

    def _keep_replicas(self) -> None:
        """Launch missing nodes of static pools and remove surplus ones."""
        for pool, names in self._world.surplus(self._now):
            reason = f"NodePool {pool.name} should have {should_have(pool)} and has {(pool.replicas or 0) + len(names)}"
            self._record(names, SCALE_DOWN, OVERPROVISIONED, reason)
            for name in names:
                self._world.drain(name, self._now)
            self._held.release(set(names), self._now)
        self._world.make_up(self._now)

    def _settle(self) -> None:
        """Evict and place pods. New nodes for them are attributed to the latest events of their former nodes."""
        self._world.settle(self._now)
        launches, self._world.made = self._world.made, []
        for launch in launches:
            price = launch.launch.price
            for index in range(self._fresh, len(self._happenings)):
                event = self._happenings[index]
                if launch.causes & set(event.nodes):
                    savings = _less(event.savings, price)
                    new = (*event.replaced_by, launch.launch.node)
                    self._happenings[index] = replace(event, replaced_by=new, savings=savings)
                    break
            else:
                self._happenings.append(self._provisioning_event(launch))

    def _provisioning_event(self, launch: NodeProvisioning) -> SimulationEvent:
        """Return the event for a node launched for pods of earlier removals, or for pending pods."""
        price, nodes = launch.launch.price, tuple(sorted(launch.causes))
        owner = f"pods of {', '.join(nodes)}" if nodes else "pending pods"
        reason = launch.why or f"{owner} cannot be scheduled to an existing node"
        return SimulationEvent(
            at=self._now,
            pool=launch.launch.pool,
            method=PROVISIONING,
            reason="",
            nodes=(),
            why=reason,
            savings=None if price is None else -price,
            replaced_by=(launch.launch.node,),
            pods_of=nodes,
        )

    def _plan(self) -> None:
        """Run the planner until it returns no command, or a command that must wait for its validation."""
        if self._awaiting is not None:
            command, at = self._awaiting
            if at > self._now:
                return
            self._awaiting = None
            validated = validate(
                command, self._world.cluster(), self._catalog, self._now, self._settings, previous=self._decision
            )
            if isinstance(validated, Command) and self._is_within_limits(validated):
                self._carry_out(validated)
            self._next_look = self._now
        elif not self._may_look():
            self._missed = True
            return
        self._missed = False
        while not self._is_full():
            decision = self._look()
            if decision.expired and self._settings.graceful_expiration:
                self._expire(decision.expired)
                self._settle()
            commands = [command for command in decision.commands if self._is_within_limits(command)]
            for command in commands:
                self._held.release(set(command.nodes), self._now)
                if command.validate_after:
                    self._awaiting = command, self._now + command.validate_after
                    return
                self._carry_out(command)
            if not commands and not decision.expired:
                self._last_look, self._next_look = self._now, decision.next_at
                ends = (hold.until for hold in decision.held if hold.reason in _ENDING)
                self._opening = min((end for end in ends if end is not None and end > self._now), default=None)
                self._held.see(self._periods_of_interest(decision.held), self._now)
                return

    def _is_within_limits(self, command: Command) -> bool:
        return over_limits(command, self._world.cluster()) is None

    def _may_look(self) -> bool:
        """Return whether the planner may run again: its interval has passed, or a budget or annotation has ended."""
        if self._last_look is None or (self._opening is not None and self._now >= self._opening):
            return True
        return self._now >= self._last_look + self._look_again

    def _look(self) -> DisruptionDecision:
        self._looks += 1
        previous = self._decision
        unseen_pools = previous.unseen if previous else ()
        self._decision = decide(
            self._world.cluster(),
            self._catalog,
            self._now,
            self._settings,
            unseen_pools=unseen_pools,
            previous=previous,
        )
        return self._decision

    def _is_full(self) -> bool:
        """Return whether the simulation has reached one of its bounds and must stop."""
        if len(self._happenings) >= self._assumptions.most_happenings:
            self._stopped = f"{len(self._happenings)} events"
        elif self._looks >= self._assumptions.most_looks:
            self._stopped = f"{self._looks} passes of the planner"
        return bool(self._stopped)

    def _carry_out(self, command: Command) -> None:
        reason = self._reason_text(command)
        for name in command.nodes:
            self._world.mark(name)
        new = [
            replacement
            for index, new_node in enumerate(command.replacements)
            if (
                replacement := self._world.launch(
                    new_node, command.nodes[min(index, len(command.nodes) - 1)], self._now
                )
            )
        ]
        prices_by_node = {
            launch.node: launch.price for launch in self._world.launches[len(self._world.launches) - len(new) :]
        }
        by_pool: dict[str, list[str]] = {}
        for name in command.nodes:
            by_pool.setdefault(self._world.nodes[name].pool, []).append(name)
        for names in by_pool.values():
            share = self._share(names, command.nodes)
            cost = (
                None
                if None in prices_by_node.values()
                else sum(price or 0.0 for price in prices_by_node.values()) * share
            )
            self._record(names, command.method, command.reason, reason, tuple(new), cost)
        if new:
            self._replacing.append(_Replacing(command.nodes, tuple(new)))
        else:
            for name in command.nodes:
                self._world.drain(name, self._now)
        self._settle()

    def _share(self, names: Sequence[str], among: Sequence[str]) -> float:
        """Return the share of the named nodes in the total price."""
        whole = sum(self._world.price(name) or 0.0 for name in among)
        return sum(self._world.price(name) or 0.0 for name in names) / whole if whole else len(names) / len(among)

    def _record(
        self,
        names: Sequence[str],
        method: str,
        reason: str,
        reason_text: str,
        replaced_by: tuple[str, ...] = (),
        cost: float | None = 0.0,
    ) -> None:
        """Record the removal of nodes of one pool, and mark them."""
        node = self._world.nodes[names[0]]
        for name in names:
            self._wanted[name] = reason
            self._world.mark(name)
        prices = [self._world.price(name) for name in names]
        known_prices = [price for price in prices if price is not None]
        savings = _less(sum(known_prices), cost) if len(known_prices) == len(prices) else None
        allowed = self._allowance(node.pool, reason)
        self._happenings.append(
            SimulationEvent(
                self._now,
                node.pool,
                method,
                reason,
                tuple(names),
                reason_text,
                savings,
                replaced_by,
                None if method in _UNHELD or allowed is None else allowed.limit,
                0 if allowed is None else allowed.disrupting,
            )
        )

    def _allowance(self, pool: str, reason: str) -> Allowance | None:
        pool_state = self._start_cluster.pools.get(pool)
        if pool_state is None:
            return None
        return allowance(pool_state.budgets, count_nodes(self._nodes_of(pool)), reason, self._now)

    def _nodes_of(self, pool: str) -> Iterator[PoolNode]:
        for node in self._world.nodes.values():
            if node.node is not None and node.pool == pool:
                yield node.node

    def _reason_text(self, command: Command) -> str:
        if command.method is Method.EMPTINESS:
            return "no pods to move"
        if command.method in (Method.DRIFT, Method.STATIC_DRIFT):
            return self._drift_text(self._world.nodes[command.nodes[0]])
        if command.decided is Decided.DELETE:
            return "its pods fit on other nodes" if len(command.nodes) == 1 else "their pods fit on other nodes"
        return "a cheaper node takes its pods" if len(command.nodes) == 1 else "one cheaper node takes their pods"

    def _drift_text(self, node: ClusterNode) -> str:
        pool = self._start_cluster.pools.get(node.pool)
        if node.claim is None or pool is None:
            return "drifted"
        drift = detect_drift(node.claim, pool, self._catalog, self._now)
        return "drifted" if drift is None else drift.message

    def _periods_of_interest(self, holds: Iterable[Held]) -> Iterator[BlockedPeriod]:
        """Yield the holds to report. A node whose disruption would not pay off is omitted."""
        holds, remaining = list(holds), dict[str, int]()
        excluded_nodes = {
            hold.node for hold in holds if hold.wanted == DisruptionReason.UNDERUTILIZED and hold.reason in _NEVER
        }
        for hold in holds:
            if hold.wanted == DisruptionReason.UNDERUTILIZED and hold.node in excluded_nodes:
                continue
            pool = self._world.nodes[hold.node].pool
            if hold.wanted == DisruptionReason.UNDERUTILIZED and hold.reason == DisruptionBlockReason.BUDGET:
                if pool not in remaining:
                    allowed = self._allowance(pool, hold.wanted)
                    remaining[pool] = 1 if allowed is None else allowed.remaining
                if remaining[pool]:  # held only because budgets do not allow all of them together
                    continue
            if _is_of_interest(hold):
                yield BlockedPeriod(hold.node, pool, hold.wanted, hold.reason, hold.message, self._now)

    def _drain_holds(self) -> Iterator[BlockedPeriod]:
        for name, hold in self._world.holds(self._now):
            pool = self._world.nodes[name].pool
            reason = self._wanted.get(name, "")
            yield BlockedPeriod(name, pool, reason, hold.reason, hold.message, self._now, draining=True)

    def _next_instant(self) -> datetime | None:
        """Return the next instant at which something can change, or None."""
        instants = [self._world.next_at(self._now)]
        if self._awaiting is not None:
            instants.append(self._awaiting[1])
        else:
            instants += [self._next_look, self._opening]
            if self._last_look is not None and self._missed:
                instants.append(self._last_look + self._look_again)
        if not self._settings.graceful_expiration:
            instants.append(self._world.next_age())
        return min((instant for instant in instants if instant is not None and instant > self._now), default=None)

    def _result(self) -> SimulationResult:
        if self._stopped:
            self._end = self._now
            self._stopped = f"stopped at {format_time(self._now)}, after {self._stopped}"
        periods = tuple(
            sorted(
                (*self._held.all(), *self._draining.all()),
                key=lambda period: (period.since, period.node, period.wanted),
            )
        )
        return SimulationResult(
            start=self._start,
            end=self._end,
            assumptions=replace(self._assumptions, look_again=self._look_again),
            happenings=tuple(self._happenings),
            removals=tuple(self._world.removals),
            launches=tuple(self._world.launches),
            blocked=periods,
            pools=tuple(self._summaries(periods)),
            waiting=self._world.waiting(),
            stopped=self._stopped,
        )

    def _summaries(self, periods: Sequence[BlockedPeriod]) -> Iterator[PoolSummary]:
        old_nodes, new_nodes = self._start_cluster.nodes.values(), self._world.nodes.values()
        prices = self._prices | {launch.node: launch.price for launch in self._world.launches}
        for name in sorted({*self._start_cluster.pools, *(node.pool for node in old_nodes if node.pool)}):
            own = [item for item in self._happenings if item.pool == name]
            disruptions: dict[str, int] = {}
            for item in own:
                if item.reason:
                    disruptions[item.reason] = disruptions.get(item.reason, 0) + len(item.nodes)
            stretches = [period for period in periods if period.pool == name]
            yield PoolSummary(
                pool=name,
                nodes_before=sum(node.pool == name for node in old_nodes),
                nodes_after=sum(node.pool == name for node in new_nodes),
                price_before=_sum(prices[node.name] for node in old_nodes if node.pool == name),
                price_after=_sum(prices[node.name] for node in new_nodes if node.pool == name),
                disrupted=dict(sorted(disruptions.items())),
                savings=_sum(item.savings for item in own),
                longest=max(stretches, key=lambda item: item.length(self._end), default=None),
            )


def _is_of_interest(hold: Held) -> bool:
    if hold.wanted == DisruptionReason.EMPTY and hold.reason in (
        DisruptionBlockReason.NOT_YET,
        DisruptionBlockReason.DISABLED,
    ):
        return True
    return hold.event is DisruptionEventReason.BLOCKED and hold.reason not in PASSING


def _less(price: float | None, other: float | None) -> float | None:
    return None if price is None or other is None else price - other


def _sum(prices: Iterable[float | None]) -> float | None:
    price_list = list(prices)
    return None if None in price_list else sum(price or 0.0 for price in price_list)


def _hours(length: timedelta | None) -> str:
    """Format a duration as in the spec of a NodePool."""
    if length is None:
        return "Never"
    seconds = int(length.total_seconds())
    hours, rest_seconds = divmod(seconds, 3600)
    minutes, left = divmod(rest_seconds, 60)
    parts = [f"{number}{unit}" for number, unit in ((hours, "h"), (minutes, "m"), (left, "s")) if number]
    return "".join(parts) or "0s"
