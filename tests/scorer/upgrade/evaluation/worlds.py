"""A hub around an upgrade run as a value: what is stored, what back ends know, and what time it is.

Times are rounded to ages: one step of the clock is longer than every limit of a run, so an age is zero or beyond all of
them. A step leads out of the window that is open at one in the morning, or into it. Attempts are counted to one: of the
one before, the back end must have reported the end.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pydantic import BaseModel

from scorer.api.conditions import FALSE, TRUE, Condition, find_condition
from scorer.api.meta import ObjectMeta
from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.gate import UpgradeGateStatus
from scorer.api.upgrade.run import (
    ClusterUpgradeRun,
    GateReports,
    GroupStatus,
    MemberStatus,
    SkipTarget,
    StageStatus,
    UpgradeRunState,
    UpgradeRunStatus,
    WaitStatus,
)
from scorer.upgrade.back_ends.interface import Inventory, Observation, OperationState, Rejected
from scorer.upgrade.evaluation.engine import advance
from scorer.upgrade.evaluation.gates import APPROVED, REJECTED
from scorer.upgrade.members.windows import WindowStates
from scorer.upgrade.simulation.hub import SimulatedHub
from scorer.upgrade.state.facts import UpgradeRunFacts
from scorer.upgrade.state.operations import members_to_observe
from scorer.upgrade.state.record import OVER
from scorer.upgrade.state.step import CancelUpgrade, StartUpgrade, UpgradeStep, WriteGate
from tests.walks import Key

CLOCK_STEP = timedelta(hours=12)
DAY = datetime.fromisoformat("2025-01-06T00:00:00+00:00")
HOURS = (DAY + timedelta(hours=1), DAY + timedelta(hours=13))
"""The two instants there are: in the window, and outside."""
IN_FLIGHT = frozenset({OperationState.ACCEPTED, OperationState.IN_PROGRESS})
DRAINED = frozenset({UpgradeState.STOPPED, UpgradeState.FAILED})
TOKEN = "again"
"""The token of a restart that the run has not seen."""

Operations = Mapping[str, OperationState]
Answers = Mapping[str, Rejected]


@dataclass(frozen=True)
class World:
    """One state.

    Args:
        hub: What stays as it is: the run's spec, its strategy, windows and catalog.
        status: Of the run.
        state: What the user wants.
        restart: Whether the run has a token that it has not seen.
        skips: The skip targets that it has not counted.
        inventories: What the members run; one that is not there has left.
        operations: What the back end knows of the latest attempt on a member.
        answers: What it has refused since the run was last looked at, by member.
        gates: The gate objects.
        hour: Which of the two instants it is.
        held: The members that another run upgrades.
        deleting: Whether the run is being deleted.
        silent: Whether the back end does not say how its operations go.
    """

    hub: SimulatedHub
    inventories: Mapping[str, Inventory]
    status: UpgradeRunStatus = field(default_factory=UpgradeRunStatus)
    state: UpgradeRunState = UpgradeRunState.INITIALIZE
    restart: bool = False
    skips: tuple[SkipTarget, ...] = ()
    operations: Operations = field(default_factory=dict)
    answers: Answers = field(default_factory=dict)
    gates: Mapping[str, UpgradeGateStatus] = field(default_factory=dict)
    hour: int = 0
    held: frozenset[str] = frozenset()
    deleting: bool = False
    silent: bool = False

    @classmethod
    def of(cls, hub: SimulatedHub, **given: Any) -> "World":
        """Return the state in which a hub begins."""
        return cls(hub, {name: found for name, each in hub.members.items() if (found := each.inventory)}, **given)

    @property
    def now(self) -> datetime:
        """Return the instant."""
        return HOURS[self.hour]

    @property
    def run(self) -> ClusterUpgradeRun:
        """Return the run as it is stored."""
        changes = {
            "state": self.state,
            "restart_token": TOKEN if self.restart else "",
            "skip_targets": self.skips,
        }
        metadata: ObjectMeta = self.hub.run.metadata
        if self.deleting:
            metadata = metadata.model_copy(update={"deletion_timestamp": self.now})
        spec = self.hub.run.spec.model_copy(update=changes)
        return self.hub.run.model_copy(update={"metadata": metadata, "spec": spec, "status": self.status})

    def facts(self, standings: WindowStates | None = None) -> UpgradeRunFacts:
        """Return the hub as the engine sees it."""
        asked = {member_of(id_): id_ for id_ in members_to_observe(self.status)}
        known = {name: self.operations.get(name, OperationState.UNKNOWN) for name in asked if not self.silent}
        return UpgradeRunFacts(
            now=self.now,
            members={
                name: replace(self.hub.members[name], inventory=found) for name, found in self.inventories.items()
            },
            strategy=self.hub.strategy,
            windows=self.hub.windows,
            standings=standings or _STANDINGS[self.hour],
            catalog=self.hub.catalog,
            upgraders=self.hub.upgraders,
            observations={asked[name]: Observation(found) for name, found in known.items()},
            rejections={asked[name]: each for name, each in self.answers.items() if name in asked},
            gates=self.gates,
            busy=dict.fromkeys(self.held, "another"),
        )

    def step(self) -> UpgradeStep:
        """Return what the engine says."""
        return advance(self.run, self.facts())

    @property
    def is_over(self) -> bool:
        """Say whether nothing comes any more."""
        drained = self.status.start_time is None or self.status.state in DRAINED
        return self.status.state in OVER or (self.deleting and drained)

    # What the process does.

    def stored(self, status: UpgradeRunStatus) -> "World":
        """Store a status; of every attempt that is begun or forgotten by that, the one before must have ended."""
        before = {entry.name: entry for entry in entries(self.status)}
        operations = dict(self.operations)
        for entry in entries(status):
            known = before.get(entry.name)
            if known is not None and known.operation_id and entry.operation_id != known.operation_id:
                assert operations.pop(entry.name, None) not in IN_FLIGHT, f"{entry.name} is upgraded twice at once"
        return replace(self, status=status, operations=operations, answers={})

    def carried(self, action: object, answer: Rejected | None = None) -> "World":
        """Carry an action out; *answer* is what a call that starts an upgrade is answered."""
        match action:
            case StartUpgrade(operation):
                if answer is not None and operation.member not in self.operations:
                    return replace(self, answers={**self.answers, operation.member: answer})
                known = self.operations.get(operation.member, OperationState.IN_PROGRESS)
                return replace(self, operations={**self.operations, operation.member: known})
            case CancelUpgrade(member=name) if self.operations.get(name) in IN_FLIGHT:
                return replace(self, operations={**self.operations, name: OperationState.CANCELLED})
            case WriteGate(name=name, status=status):
                known_gate = self.gates.get(name, UpgradeGateStatus())
                changes = {
                    "state": status.state,
                    "readiness": status.readiness,
                    "conditions": (*known_gate.conditions, *status.conditions),
                }
                return replace(self, gates={**self.gates, name: known_gate.model_copy(update=changes)})
        return self

    # What others do.

    def reported(self, member: str, state: OperationState, *, upgraded: bool = False) -> "World":
        """Have a back end say that it has ended, and that the cluster runs what it should, or not."""
        inventories = self.inventories
        if upgraded:
            inventories = {**inventories, member: _upgraded(inventories[member])}
        return replace(self, operations={**self.operations, member: state}, inventories=inventories)

    def repaired(self, member: str) -> "World":
        """Have somebody upgrade a cluster by hand."""
        return replace(self, inventories={**self.inventories, member: _upgraded(self.inventories[member])})

    def left(self, member: str) -> "World":
        """Have a member leave."""
        return replace(self, inventories={name: each for name, each in self.inventories.items() if name != member})

    def answered(self, gate: str, *, approved: bool) -> "World":
        """Have a person answer a gate."""
        condition = Condition(
            type=APPROVED,
            status=TRUE if approved else FALSE,
            reason=APPROVED if approved else REJECTED,
            last_transition_time=self.now,
        )
        known = self.gates[gate]
        others = tuple(each for each in known.conditions if each.type != APPROVED)
        found = known.model_copy(update={"conditions": (*others, condition)})
        return replace(self, gates={**self.gates, gate: found})

    def later(self) -> "World":
        """Return the state after one step of the clock."""
        moved = replace(self, hour=1 - self.hour) if self.hub.windows else self
        return replace(moved, status=aged(self.status, self.now + CLOCK_STEP, moved.now))


_STANDINGS = (WindowStates(), WindowStates())
Part = TypeVar("Part", bound=BaseModel)


def _with(part: Part, **values: Any) -> Part:
    """Return a part of a status with other values: the same one where they are what it has, as most walks find."""
    changes = {name: value for name, value in values.items() if not _is_same(getattr(part, name), value)}
    return part.model_copy(update=changes) if changes else part


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        return len(one) == len(other) and all(left is right for left, right in zip(one, other, strict=True))
    return one is other or (one == other and not isinstance(one, BaseModel))


def _upgraded(inventory: Inventory) -> Inventory:
    pools = tuple(replace(pool, version="1.31.2") for pool in inventory.pools)
    return replace(inventory, version="1.31.2", pools=pools)


def member_of(operation: str) -> str:
    """Return the member of an operation."""
    return operation.split("/")[1]


def entries(status: UpgradeRunStatus) -> Iterator[MemberStatus]:
    """Yield what a status says of each member."""
    for stage in status.stages:
        for group in stage.groups:
            yield from group.members


def answer_of(gate: UpgradeGateStatus) -> str:
    """Return the status of a person's answer; empty: nobody has answered."""
    found = find_condition(gate.conditions, APPROVED)
    return "" if found is None else found.status


# States are few.


def settled(world: World, known: dict[int, UpgradeRunStatus] | None = None) -> World:
    """Return a state that has forgotten what was counted: tokens, attempts, and skip targets once it has begun.

    *known* has the statuses that are settled already by the identity of those that they come from, and gets this one.
    """
    status = world.status
    restart = world.restart and status.observed_restart_token != TOKEN
    skips = world.skips if status.start_time is None else world.skips[status.observed_skip_targets :]
    operations = {
        entry.name: world.operations[entry.name]
        for entry in entries(status)
        if entry.name in world.operations and ((entry.state not in OVER and entry.operation_id) or entry.operation_open)
    }
    found = None if known is None else known.get(id(status))
    if found is None:
        found = aged(status, world.now, world.now)
        if known is not None:
            known[id(status)] = found
    return replace(world, status=found, restart=restart, skips=skips, operations=operations)


def aged(status: UpgradeRunStatus, now: datetime, then: datetime) -> UpgradeRunStatus:
    """Return a status in which the times that count are as old as they are, at *then* instead of *now*."""

    def moved(instant: datetime | None) -> datetime | None:
        if instant is None or instant > now:
            return instant and instant + (then - now)
        return then if now - instant < CLOCK_STEP else then - CLOCK_STEP

    def reset(instant: datetime | None) -> datetime | None:
        return instant and then

    def member(entry: MemberStatus) -> MemberStatus:
        refused = entry.state is UpgradeState.PENDING and entry.attempt and not entry.operation_id
        return _with(
            entry,
            attempt=min(entry.attempt, 1),
            operation_id=entry.operation_id and f"uid/{entry.name}/1",
            start_time=(moved if entry.state is UpgradeState.RUNNING else reset)(entry.start_time),
            pending_since=moved(entry.pending_since),
            completion_time=(moved if refused else reset)(entry.completion_time),
            next_window_open=moved(entry.next_window_open),
            message="",
            error=None,
        )

    def gates(reports: GateReports) -> GateReports:
        return tuple(
            _with(each, start_time=moved(each.start_time), completion_time=reset(each.completion_time))
            for each in reports
        )

    def positions(owner: StageStatus | GroupStatus) -> dict[str, Any]:
        return {
            "before_gates": gates(owner.before_gates),
            "after_gates": gates(owner.after_gates),
            "start_time": reset(owner.start_time),
            "completion_time": reset(owner.completion_time),
        }

    def wait(known: WaitStatus | None) -> WaitStatus | None:
        if known is None:
            return None
        return _with(known, start_time=moved(known.start_time), completion_time=reset(known.completion_time))

    def group(known: GroupStatus) -> GroupStatus:
        return _with(known, **positions(known), members=tuple(map(member, known.members)))

    def stage(known: StageStatus) -> StageStatus:
        waits, groups = wait(known.after_stage_wait), tuple(map(group, known.groups))
        return _with(known, **positions(known), after_stage_wait=waits, groups=groups)

    return _with(
        status,
        stages=tuple(map(stage, status.stages)),
        start_time=reset(status.start_time),
        completion_time=reset(status.completion_time),
        restarts=0,
        observed_restart_token="",
        observed_skip_targets=status.observed_skip_targets if status.start_time is None else 0,
        next_wakeup=None,
        conditions=tuple(_with(each, last_transition_time=then) for each in status.conditions),
    )


def key_of(world: World) -> Key:
    """Return what tells a state from others."""
    return (
        world.state,
        world.restart,
        world.skips,
        world.hour,
        tuple(sorted(world.held)),
        world.deleting,
        world.silent,
        tuple(sorted((name, each.version) for name, each in world.inventories.items())),
        tuple(sorted(world.operations.items())),
        tuple(sorted((name, each.code, each.retryable) for name, each in world.answers.items())),
        tuple(sorted((name, _gate_key(each)) for name, each in world.gates.items())),
        _status_key(world.status),
    )


def _gate_key(gate: UpgradeGateStatus) -> Key:
    ready = gate.readiness
    behind = ready and (
        ready.start,
        ready.skip,
        ready.pending,
        ready.fail,
        tuple(sorted(ready.pending_reasons.items())),
    )
    return gate.state, behind, tuple((each.type, each.status) for each in gate.conditions)


def _status_key(status: UpgradeRunStatus) -> Key:
    conditions = tuple((each.type, each.status, each.reason) for each in status.conditions)
    return (
        status.state,
        status.start_time,
        status.observed_skip_targets,
        conditions,
        tuple(map(_stage_key, status.stages)),
    )


def _stage_key(stage: StageStatus) -> Key:
    wait = stage.after_stage_wait
    waits = wait and (wait.state, wait.start_time)
    return (
        *_owner_key(stage),
        waits,
        tuple((*_owner_key(group), *map(_member_key, group.members)) for group in stage.groups),
    )


def _owner_key(owner: StageStatus | GroupStatus) -> Key:
    gates = [
        (each.state, each.gate, each.start_time, each.message) for each in (*owner.before_gates, *owner.after_gates)
    ]
    return owner.name, owner.state, owner.reason, owner.start_time is None, *gates


def _member_key(entry: MemberStatus) -> Key:
    times = (entry.start_time, entry.pending_since, entry.completion_time, entry.next_window_open)
    return entry.name, entry.state, entry.reason, entry.attempt, entry.operation_id, entry.operation_open, times
