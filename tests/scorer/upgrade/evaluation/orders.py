"""Every order of events around an upgrade run: what may happen in a state, and what has to hold in each.

A state is followed by every pass of the loop, whole, or ended after the status is stored and any of its calls are made,
and by everything that a back end, a person, a member, another run or the clock may do.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from scorer.api.conditions import TRUE
from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.gate import GateState
from scorer.api.upgrade.run import (
    GateReport,
    GroupStatus,
    MemberStatus,
    SkipTarget,
    StageStatus,
    UpgradeRunState,
    UpgradeRunStatus,
)
from scorer.upgrade.back_ends.interface import OperationState, Rejected
from scorer.upgrade.evaluation.engine import advance
from scorer.upgrade.state.record import HALTED, OVER
from scorer.upgrade.state.step import CancelUpgrade, StartUpgrade, UpgradeStep, WriteGate
from tests.scorer.upgrade.evaluation.worlds import DRAINED, HOURS, IN_FLIGHT, World, answer_of, entries, key_of, settled
from tests.walks import Walk

PASS = "pass"
CLOCK = "clock"

Event = tuple[str, World]

BUSY = Rejected("Busy", retryable=True)
NEVER = Rejected("Never")
AGAIN = frozenset({UpgradeState.NOT_STARTED, UpgradeState.PENDING, UpgradeState.RUNNING})


@dataclass(frozen=True)
class Shape:
    """What may happen in a walk; a name with a mark keeps a run from its end.

    Args:
        first: Where it begins.
        failing: Attempts may fail, and be said to have succeeded without having changed the cluster.
        refusing: Calls may be refused, for now and for good.
        stops: People may stop the run and start it again.
        skips: What people may skip.
        others: Another run may hold a member.
        leaves: A member may leave; one in a history.
        repairs: A member may be upgraded by hand.
        deletion: The run may be deleted.
        crashes: The process may end between two writes.
        silence: The back end may stop saying how its operations go.
    """

    first: World
    failing: bool = True
    refusing: bool = False
    stops: bool = True
    skips: tuple[SkipTarget, ...] = ()
    others: bool = False
    leaves: bool = False
    repairs: bool = False
    deletion: bool = False
    crashes: bool = True
    silence: bool = False


def walk(shape: Shape) -> Walk:
    """Go every way there is, and check every state and every step.

    Raises:
        AssertionError: An invariant does not hold; the message has the way there.
    """
    found = Walk()
    awake: dict[int, bool] = {}
    hours: dict[int, int] = {}
    first = settled(shape.first)
    found.number(key_of(first), 0, "")
    todo: deque[tuple[int, World]] = deque([(0, first)])
    while todo:
        number, world = todo.popleft()
        try:
            step = world.step()
            awake[number] = step.again is not None and step.again <= HOURS[0] + (HOURS[1] - HOURS[0]) * (world.hour + 1)
            check(world, step)
            after = list(events(shape, world, step))
        except AssertionError as error:
            raise AssertionError(f"after {found.way_to(number)}: {error}") from error
        if world.is_over:
            found.ends.add(number)
        statuses = {id(world.status): world.status}
        for name, raw in after:
            other = settled(raw, statuses)
            there, is_new = found.number(key_of(other), number, name)
            if is_new:
                todo.append((there, other))
            found.ways += 1
            if name == PASS and there != number:
                found.passes[number] = there
                if other.answers or any(isinstance(action, CancelUpgrade) for action in step.actions):
                    found.restless.add(number)
            if name == CLOCK:
                hours[number] = there
            if not name.startswith("!"):
                found.back.setdefault(there, set()).add(number)
    for number, there in hours.items():
        asleep = number not in found.passes and not awake[number]
        assert not (asleep and there in found.passes), f"after {found.way_to(number)}: sleeps on"
    return found


def events(shape: Shape, world: World, step: UpgradeStep) -> Iterator[Event]:
    """Yield what may happen, and what comes of it."""
    yield from _passes(shape, world, step)
    if world.is_over:
        return
    yield CLOCK, world.later()
    yield from _reports(shape, world)
    yield from _answers(world)
    if not world.deleting:
        yield from _orders(shape, world)
    yield from _accidents(shape, world)


def _passes(shape: Shape, world: World, step: UpgradeStep) -> Iterator[Event]:
    """Yield a whole pass, every way in which it may end before, and the ways in which its calls may be answered."""
    stored = world.stored(step.status)
    whole = stored
    for action in step.actions:
        whole = whole.carried(action)
    check_again(world, whole)
    yield PASS, whole
    if shape.crashes:
        for many in range(len(step.actions)):
            for those in combinations(step.actions, many):
                cut = stored
                for action in those:
                    cut = cut.carried(action)
                yield f"! crash with {[type(each).__name__ for each in those]} done", cut
        if world.answers:
            yield "! another leader", replace(world, answers={})
    if shape.refusing:
        starts = [action for action in step.actions if isinstance(action, StartUpgrade)]
        for refused in starts:
            for answer in (BUSY, NEVER):
                answered = stored
                for action in step.actions:
                    answered = answered.carried(action, answer if action is refused else None)
                yield f"! {refused.operation.member} refused: {answer.code}", answered


def _reports(shape: Shape, world: World) -> Iterator[Event]:
    for name, state in world.operations.items():
        if state not in IN_FLIGHT:
            continue
        if name in world.inventories:
            yield f"{name} done", world.reported(name, OperationState.SUCCEEDED, upgraded=True)
        if shape.failing:
            yield f"! {name} fails", world.reported(name, OperationState.FAILED)
            yield f"! {name} lies", world.reported(name, OperationState.SUCCEEDED)


def _answers(world: World) -> Iterator[Event]:
    for name, gate in world.gates.items():
        if gate.state is GateState.PENDING and answer_of(gate) != TRUE:
            yield f"approve {name}", world.answered(name, approved=True)
            if not answer_of(gate):
                yield f"! reject {name}", world.answered(name, approved=False)


def _orders(shape: Shape, world: World) -> Iterator[Event]:
    state = world.status.state
    if world.state is not UpgradeRunState.RUN or (state in DRAINED and not world.restart):
        token = world.status.start_time is not None
        yield "start", replace(world, state=UpgradeRunState.RUN, restart=token)
    elif shape.stops:
        yield "! stop", replace(world, state=UpgradeRunState.STOP)
        if not world.restart:
            yield "! start again", replace(world, restart=True)
    if not world.skips:
        yield from ((f"! skip {each.type} {each.name}", replace(world, skips=(each,))) for each in shape.skips)
    if shape.deletion:
        yield "! delete", replace(world, deleting=True)


def _accidents(shape: Shape, world: World) -> Iterator[Event]:
    for name, inventory in world.inventories.items():
        old = inventory.version != "1.31.2"
        if shape.repairs and old and world.operations.get(name) not in IN_FLIGHT:
            yield f"! {name} repaired", world.repaired(name)
        if shape.leaves and len(world.inventories) == len(world.hub.members):
            yield f"! {name} leaves", world.left(name)
        if shape.others and name not in world.held and world.operations.get(name) not in IN_FLIGHT:
            yield f"! {name} held", replace(world, held=world.held | {name})
    for name in world.held:
        yield f"{name} free", replace(world, held=world.held - {name})
    if world.silent:
        yield "speaks", replace(world, silent=False)
    elif shape.silence:
        yield "! silent", replace(world, silent=True)


# What has to hold.


def check(world: World, step: UpgradeStep) -> None:
    """Check one state, and what the engine makes of it."""
    if world.is_over and not world.deleting:
        assert all(isinstance(each, WriteGate) for each in step.actions), "a run that is over acts"
        assert step.status.model_copy(update={"observed_generation": world.status.observed_generation}) == (
            let_go(world)
        ), "a run that is over writes"
        return
    before = {entry.name: entry for entry in entries(world.status)}
    operations = {entry.name: entry.operation_id for entry in before.values()}
    begun = {entry.name for entry in entries(step.status) if entry.operation_id not in ("", operations.get(entry.name))}
    check_ways(world, step, before)
    check_begun(world, step, begun)
    check_attempts(step, before, begun)
    check_stages(world, step, begun)
    check_told(world, step)


def let_go(world: World) -> UpgradeRunStatus:
    """Return the status of a run after the back end has reported which of the abandoned operations have ended."""

    def member(entry: MemberStatus) -> MemberStatus:
        ended = not world.silent and world.operations.get(entry.name) not in IN_FLIGHT
        return entry.model_copy(update={"operation_open": False}) if ended else entry

    def group(known: GroupStatus) -> GroupStatus:
        return known.model_copy(update={"members": tuple(map(member, known.members))})

    def stage(known: StageStatus) -> StageStatus:
        return known.model_copy(update={"groups": tuple(map(group, known.groups))})

    return world.status.model_copy(update={"stages": tuple(map(stage, world.status.stages))})


def check_ways(world: World, step: UpgradeStep, before: dict[str, MemberStatus]) -> None:
    """Check that states change only as they may."""
    for entry in entries(step.status):
        known = before.get(entry.name)
        if known is None or known.state is entry.state:
            continue
        way = f"{entry.name} goes from {known.state} to {entry.state}"
        assert known.state not in OVER, way
        if known.state in DRAINED and entry.state in AGAIN:
            assert world.restart, way
        if known.state is UpgradeState.RUNNING:
            assert entry.state is not UpgradeState.NOT_STARTED, way
    if world.status.state in DRAINED and step.status.state not in DRAINED | OVER:
        assert world.restart, "a run goes on that nobody has started again"
    if world.status.start_time is None and step.status.start_time is not None:
        assert world.state is UpgradeRunState.RUN, "a run starts that nobody has started"


def check_begun(world: World, step: UpgradeStep, begun: set[str]) -> None:
    """Check that members are upgraded only when they may be, and that calls are about what is on record."""
    stopped = world.state is not UpgradeRunState.RUN or world.deleting or step.status.state in HALTED
    assert not (begun and stopped), f"a run that is to stop begins {begun}"
    assert not begun & world.held, f"{begun & world.held} are upgraded by another run"
    for name in begun:
        assert name in world.inventories, f"{name}, which has left, is upgraded"
        assert not world.hub.members[name].windows.names or world.hour == 0, f"{name} begins outside its window"
        assert world.operations.get(name) not in IN_FLIGHT, f"{name} is upgraded twice at once"
    recorded = {entry.name: entry for entry in entries(step.status)}
    for action in step.actions:
        if isinstance(action, StartUpgrade):
            entry = recorded[action.operation.member]
            assert entry.operation_id == action.operation.id, "a call is made that is not on record"
            assert entry.state is UpgradeState.RUNNING, "a call is made for a member that is not in upgrade"


def check_attempts(step: UpgradeStep, before: dict[str, MemberStatus], begun: set[str]) -> None:
    """Check that every attempt counts, but one that was refused for now, which is made again."""
    for entry in entries(step.status):
        if entry.name in begun and (known := before.get(entry.name)) is not None:
            refused = known.attempt and not known.operation_id
            wanted = known.attempt if refused else known.attempt + 1
            assert entry.attempt == wanted, f"attempt {entry.attempt} of {entry.name} begins, not {wanted}"


def check_stages(world: World, step: UpgradeStep, begun: set[str]) -> None:
    """Check that members come stage by stage, never more of them than may, and only behind their gates."""
    open_stage = ""
    for stage in step.status.stages:
        here = {entry.name for group in stage.groups for entry in group.members}
        assert not (open_stage and begun & here), f"{begun & here} begin before stage {open_stage} is over"
        running = [_running(group) for group in stage.groups]
        assert sum(running) <= stage.max_concurrency, f"too many members of stage {stage.name} are in upgrade"
        for group, many in zip(stage.groups, running, strict=True):
            assert many <= group.max_concurrency, f"too many members of group {group.name} are in upgrade"
            if begun & {entry.name for entry in group.members}:
                _check_gates(world, stage.before_gates, stage)
                _check_gates(world, group.before_gates, group)
            if group.state is UpgradeState.COMPLETED:
                _check_gates(world, group.after_gates, group)
        if stage.state is UpgradeState.COMPLETED:
            _check_gates(world, stage.after_gates, stage)
            wait = stage.after_stage_wait
            assert wait is not None, f"stage {stage.name} has no wait"
            assert wait.state in OVER, f"stage {stage.name} is over before its wait"
            waited = wait.start_time is not None and world.now - wait.start_time >= HOURS[1] - HOURS[0]
            assert waited or not wait.seconds or wait.state is UpgradeState.SKIPPED, f"{stage.name} has not waited"
        if stage.state not in OVER and not open_stage:
            open_stage = stage.name


def _running(group: GroupStatus) -> int:
    return sum(entry.state is UpgradeState.RUNNING for entry in group.members)


def _check_gates(world: World, reports: tuple[GateReport, ...], owner: StageStatus | GroupStatus) -> None:
    for gate in reports:
        assert gate.state in OVER, f"a gate of {owner.name} is passed over"
        if gate.state is UpgradeState.COMPLETED:
            assert answer_of(world.gates[gate.gate]) == TRUE, f"a gate of {owner.name} is passed without its approval"


def check_told(world: World, step: UpgradeStep) -> None:
    """Check that a run that goes on says what is going on, and that its states are those of its parts."""
    status = step.status
    members = list(entries(status))
    assert all(entry.reason for entry in members if entry.state is UpgradeState.PENDING), (
        "a member waits without a cause"
    )
    running = [entry for entry in members if entry.state is UpgradeState.RUNNING]
    if status.state in (UpgradeState.RUNNING, UpgradeState.PENDING):
        stage = next(each for each in status.stages if each.state not in OVER)
        groups = stage.groups
        gates = [*stage.before_gates, *stage.after_gates]
        gates += [gate for group in groups for gate in (*group.before_gates, *group.after_gates)]
        waits = stage.after_stage_wait is not None and stage.after_stage_wait.state is UpgradeState.RUNNING
        states = {each.state for each in gates} | {each.state for each in members}
        pending = UpgradeState.PENDING in states
        assert running or waits or pending, "a run goes on and says neither what it does nor what it waits for"
    if status.state in (*DRAINED, *OVER):
        assert not running, f"a run that is {status.state} has members in upgrade: {running}"
    if status.state in HALTED:
        assert not any(entry.state is UpgradeState.PENDING for entry in members), "a run that halts lets members wait"
    if status.state is UpgradeState.STOPPING:
        assert running, "a run is stopping, and nothing is in flight"
    counts = status.counts
    assert counts.running == len(running), "the members in upgrade are counted wrongly"
    assert counts.total == len(members), "the members are counted wrongly"


def check_again(before: World, whole: World) -> None:
    """Check that a second pass at the same instant does nothing, except for operations that the first has cancelled."""
    for entry in entries(whole.status):
        known = whole.operations.get(entry.name)
        begun = entry.state is not UpgradeState.RUNNING or known in IN_FLIGHT or whole.silent
        assert begun, f"{entry.name} is in upgrade, and {known}"
    again = advance(whole.run, whole.facts())
    assert again.status == let_go(whole), f"a second pass writes {again.status} after {before.status}"
    assert not again.actions, f"a second pass calls {again.actions}"
    assert not again.events, f"a second pass tells {again.events}"
