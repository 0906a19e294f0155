"""A simulated hub around a run, on a simulated clock, for tests, dry runs and plans.

The real engine evaluates the run. Its inputs, the commands of users, and the durations of upgrades are simulated.

Source: docs/specifications/upgrade-runs.md 13.2, 14 and 18.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final

from scorer.api.conditions import TRUE, Condition
from scorer.api.event import Event
from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.gate import GateTiming, UpgradeGateStatus
from scorer.api.upgrade.run import ClusterUpgradeRun, GateReport, SkipTarget, UpgradeRunState, UpgradeRunStatus
from scorer.api.upgrade.strategy import StrategySpec
from scorer.upgrade.back_ends.interface import Capabilities, Rejected
from scorer.upgrade.evaluation.engine import advance, record_observations
from scorer.upgrade.evaluation.gates import APPROVED
from scorer.upgrade.members.member import Member
from scorer.upgrade.members.rosters import Rosters
from scorer.upgrade.members.windows import WindowStates
from scorer.upgrade.simulation.back_end import UPGRADER, SimulatedBackEnd, upgrade_inventory
from scorer.upgrade.state.facts import Estimate, UpgradeRunFacts
from scorer.upgrade.state.operations import members_to_observe
from scorer.upgrade.state.placement_guard import GuardedPlacement
from scorer.upgrade.state.record import OVER, STOPPED, status_document
from scorer.upgrade.state.step import CancelUpgrade, StartUpgrade, UpgradeStep, WriteGate
from scorer.upgrade.versions.catalog import ReleaseCatalog
from scorer.windows.member_windows import WindowDefinition

POLL: Final = timedelta(seconds=15)
"""Interval between polls for an operation that the back end has no record of."""

_NOT_STOPPABLE: Final = OVER | {UpgradeState.NOT_STARTED}


@dataclass(frozen=True, slots=True)
class Start:
    """Start or restart the run."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop the run."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Skip parts of the run."""

    targets: tuple[SkipTarget, ...]


@dataclass(frozen=True, slots=True)
class Approve:
    """Approve a gate. *group* is empty for a gate of the stage."""

    stage: str
    group: str
    timing: GateTiming
    index: int = 0


@dataclass(frozen=True, slots=True)
class Publish:
    """Replace the catalog."""

    catalog: ReleaseCatalog


@dataclass(frozen=True, slots=True)
class AddMember:
    """Add a member."""

    member: Member


@dataclass(frozen=True, slots=True)
class ChangeMember:
    """Change a member, given its state at that time."""

    name: str
    change: Callable[[Member], Member]


@dataclass(frozen=True, slots=True)
class RemoveMember:
    """Remove a member."""

    name: str


@dataclass(frozen=True, slots=True)
class EditStrategy:
    """Edit the strategy object."""

    strategy: StrategySpec


@dataclass(frozen=True, slots=True)
class Crash:
    """Lose all state except for the stored run.

    Args:
        calls_first: If False, the process ends right after the next status write, before any call.
    """

    calls_first: bool = True


Order = Start | Stop | Skip | Approve | Publish | AddMember | ChangeMember | RemoveMember | EditStrategy | Crash


@dataclass(frozen=True, slots=True)
class SimulatedEvaluation:
    """One evaluated instant.

    Args:
        now: The instant.
        run: The run after it.
        step: Result of the evaluation, after the orders of the instant.
        events: Events emitted, including those of the orders.
        refused: Refused orders of this instant.
    """

    now: datetime
    run: ClusterUpgradeRun
    step: UpgradeStep
    events: tuple[Event, ...] = ()
    refused: tuple[Order, ...] = ()


@dataclass(slots=True)
class SimulatedHub:
    """A hub with one run. Upgrades change its members.

    Args:
        run: The run.
        back_end: The back end of all members.
        members: All members, by name.
        strategy: The strategy that the run refers to.
        windows: All maintenance windows, by name.
        catalog: Published versions.
        upgraders: Capabilities per back end. All of them are the simulated one.
        newest_patches: Newest patches known to the back end.
        busy_until: Members with another operation in progress, and its end.
        busy: Members that other runs upgrade now, with a message.
        durations: Expected durations of upgrades.
        guarded: Placements per member that the run must protect.
        gates: The gate objects.
    """

    run: ClusterUpgradeRun
    back_end: SimulatedBackEnd
    members: dict[str, Member]
    strategy: StrategySpec | None = None
    windows: dict[str, WindowDefinition] = field(default_factory=dict)
    catalog: ReleaseCatalog = field(default_factory=ReleaseCatalog)
    upgraders: dict[str, Capabilities] = field(default_factory=lambda: {UPGRADER: Capabilities()})
    newest_patches: dict[str, str] = field(default_factory=dict)
    busy_until: dict[str, datetime] = field(default_factory=dict)
    busy: dict[str, str] = field(default_factory=dict)
    durations: dict[str, Estimate] = field(default_factory=dict)
    guarded: dict[str, Sequence[GuardedPlacement]] = field(default_factory=dict)
    gates: dict[str, UpgradeGateStatus] = field(default_factory=dict)
    _standings: WindowStates = field(default_factory=WindowStates)
    _rosters: Rosters = field(default_factory=Rosters)
    _rejections: dict[str, Rejected] = field(default_factory=dict)
    _events: list[Event] = field(default_factory=list)
    _crashing: bool = False

    def facts(self, now: datetime) -> UpgradeRunFacts:
        """Return the state of the hub as the engine sees it."""
        observations = {id_: self.back_end.observe(id_, now) for id_ in self._operations()}
        rejections, self._rejections = self._rejections, {}
        return UpgradeRunFacts(
            now=now,
            members=self._members_with_heartbeats(now),
            strategy=self.strategy,
            windows=self.windows,
            standings=self._standings,
            rosters=self._rosters,
            catalog=self.catalog,
            newest_patches=self.newest_patches,
            upgraders=self.upgraders,
            observations=observations,
            rejections=rejections,
            gates=self.gates,
            durations=self.durations,
            guarded=self.guarded,
            busy=self.busy,
        )

    def _operations(self) -> Iterator[str]:
        return members_to_observe(self.run.status, self._rosters)

    def _members_with_heartbeats(self, now: datetime) -> dict[str, Member]:
        late = self.back_end.last_seen()
        busy = [name for name, until in self.busy_until.items() if now < until]
        if not late and not busy:
            return self.members
        members = dict(self.members)
        for name, heartbeat in late.items():
            _look_different(members, name, observed_at=heartbeat)
        for name in busy:
            _look_different(members, name, busy="another operation is in progress")
        return members

    def evaluate(self, now: datetime, orders: Iterable[Order] = ()) -> SimulatedEvaluation:
        """Apply the orders of one instant in sequence, then evaluate the run and execute its actions."""
        self._move_clusters(now)
        self._events = []
        refused_orders = tuple(order for order in orders if not self._follow(order, now))
        step = advance(self.run, self.facts(now))
        self._store(step)
        if self._crashing:
            self._crashing = False
        else:
            self._carry_out(step, now)
        return SimulatedEvaluation(now, self.run, step, tuple(self._events), refused_orders)

    def _store(self, step: UpgradeStep) -> None:
        self._events += step.events
        if step.changed:
            self.run = self.run.model_copy(update={"status": step.status})

    def _move_clusters(self, now: datetime) -> None:
        for operation in self.back_end.arrived(now):
            member = self.members.get(operation.member)
            if member is not None and member.inventory is not None:
                inventory = upgrade_inventory(member.inventory, operation.target)
                self.members[operation.member] = replace(member, inventory=inventory)

    def _carry_out(self, step: UpgradeStep, now: datetime) -> None:
        for action in step.actions:
            match action:
                case StartUpgrade(operation):
                    if (rejection := self.back_end.start_upgrade(operation, now)) is not None:
                        self._rejections[operation.id] = rejection
                case CancelUpgrade(id=id_):
                    self.back_end.cancel(id_)
                case WriteGate(name=name, status=status):
                    gate_status = self.gates.get(name, UpgradeGateStatus())
                    conditions = (*gate_status.conditions, *status.conditions)
                    changes = {"state": status.state, "readiness": status.readiness, "conditions": conditions}
                    self.gates[name] = gate_status.model_copy(update=changes)

    def _follow(self, order: Order, now: datetime) -> bool:
        """Apply an order. Return whether it was accepted."""
        self._take_in(now)
        old_run = self.run
        if not self._change(order, now):
            return False
        self._take_in(now)
        if isinstance(order, Start) and self.run.status.start_time is None:
            self.run = old_run
            return False
        return True

    def _take_in(self, now: datetime) -> None:
        step = record_observations(self.run, self.facts(now))
        self._store(step)
        self._carry_out(step, now)

    def _change(self, order: Order, now: datetime) -> bool:
        match order:
            case Start():
                return self._start()
            case Stop():
                return self._stop()
            case Skip(targets):
                if self.run.status.state not in OVER:
                    self._edit(skip_targets=(*self.run.spec.skip_targets, *targets))
            case Approve():
                return self._approve(order, now)
            case Publish(catalog):
                self.catalog = catalog
            case AddMember(member):
                self.members[member.name] = member
            case ChangeMember(name, change) if name in self.members:
                self.members[name] = change(self.members[name])
            case RemoveMember(name):
                self.members.pop(name, None)
            case EditStrategy(strategy):
                self.strategy = strategy
            case Crash(calls_first):
                self._crashing = not calls_first
                document = self.run.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"status"})
                self.run = ClusterUpgradeRun.read({**document, "status": status_document(self.run.status)})
        return True

    def _edit(self, **changes: object) -> None:
        metadata = self.run.metadata
        metadata = metadata.model_copy(update={"generation": metadata.generation + 1})
        spec = self.run.spec.model_copy(update=changes)
        self.run = self.run.model_copy(update={"metadata": metadata, "spec": spec})

    def _start(self) -> bool:
        state = self.run.status.state
        if state is UpgradeState.NOT_STARTED:
            self._edit(state=UpgradeRunState.RUN)
        elif state in STOPPED:
            self._edit(state=UpgradeRunState.RUN, restart_token=f"restart-{self.run.status.restarts + 1}")
        else:
            return False
        return True

    def _stop(self) -> bool:
        if self.run.status.state in _NOT_STOPPABLE:
            return False
        self._edit(state=UpgradeRunState.STOP)
        return True

    def _approve(self, order: Approve, now: datetime) -> bool:
        gate = next((gate for place, gate in gates_of(self.run.status) if place == order), None)
        if gate is None or gate.state is not UpgradeState.PENDING:
            return False
        gate_status = self.gates.get(gate.gate, UpgradeGateStatus())
        approved = Condition(type=APPROVED, status=TRUE, reason="Approved", last_transition_time=now)
        self.gates[gate.gate] = gate_status.model_copy(update={"conditions": (*gate_status.conditions, approved)})
        return True

    def next_instant(self, now: datetime) -> datetime | None:
        """Return the next instant at which something is due, or None."""
        status = self.run.status
        retries = [now + POLL] if self._is_lost(now) else []
        instants = [status.next_wakeup, self.back_end.next_instant(now), *self.busy_until.values(), *retries]
        return min((instant for instant in instants if instant is not None and instant > now), default=None)

    @property
    def has_news(self) -> bool:
        """Whether an action of this instant had a result that the engine has not processed yet."""
        return bool(self._rejections)

    def _is_lost(self, now: datetime) -> bool:
        return any(self.back_end.observe(id_, now).state == "Unknown" for id_ in self._operations())


def _look_different(members: dict[str, Member], name: str, **changes: Any) -> None:
    member = members.get(name)
    if member is not None and member.inventory is not None:
        members[name] = replace(member, inventory=replace(member.inventory, **changes))


def gates_of(status: UpgradeRunStatus) -> Iterator[tuple[Approve, GateReport]]:
    """Yield every gate of a run with its position."""
    for stage in status.stages:
        for timing, reports in ((GateTiming.BEFORE, stage.before_gates), (GateTiming.AFTER, stage.after_gates)):
            yield from ((Approve(stage.name, "", timing, index), gate) for index, gate in enumerate(reports))
        for group in stage.groups:
            for timing, reports in ((GateTiming.BEFORE, group.before_gates), (GateTiming.AFTER, group.after_gates)):
                yield from (
                    (Approve(stage.name, group.name, timing, index), gate) for index, gate in enumerate(reports)
                )


Reactions = Callable[[SimulatedEvaluation], Iterable[tuple[datetime, Order]]]
"""Orders that follow from an evaluation, each with its time."""


def simulate(
    hub: SimulatedHub,
    begin: datetime,
    orders: Sequence[tuple[datetime, Order]],
    until: datetime,
    react: Reactions = lambda _: (),
) -> Iterator[SimulatedEvaluation]:
    """Yield every evaluated instant of a simulation, in order.

    Args:
        hub: Initial state. It is modified.
        begin: The first instant.
        orders: Orders with their times. Those of one instant are applied in the given order.
        until: The last instant.
        react: Returns the orders that follow from an evaluation. An order for the same instant is applied right after
            it.
    """
    number = count()
    queue = [(at, next(number), order) for at, order in orders]
    heapify(queue)
    now = begin
    while True:
        due_orders = []
        while queue and queue[0][0] <= now:
            due_orders.append(heappop(queue)[2])
        yield (moment := hub.evaluate(now, due_orders))
        while hub.has_news:
            yield (moment := hub.evaluate(now))
        for at, order in react(moment):
            heappush(queue, (at, next(number), order))
        instants = [max(queue[0][0], now)] if queue else []
        if (instant := hub.next_instant(now)) is not None:
            instants.append(instant)
        now = min(instants, default=until + POLL)
        if now > until:
            return
