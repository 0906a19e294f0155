"""A run on a moved clock, from now to its end.

The engine is the real one, and so is the copy of the run. What is assumed: upgrades take as long as expected and none
fails, approvals are given, nothing new is published, and nobody stops or skips. What another run upgrades now, or what
was given up and may still be at work, is free again after the time that an upgrade takes. A run that does not go on by
itself is started, or started again.

Source: upgrade-runs.md 14 and 14.3.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import ClusterUpgradeRun, GroupStatus, MemberStatus, StageStatus
from scorer.api.upgrade.strategy import GateType, StrategySpec
from scorer.upgrade.members.member import Member
from scorer.upgrade.members.windows import WindowStates
from scorer.upgrade.planning.durations import in_whole_seconds
from scorer.upgrade.simulation.back_end import AttemptOutcome, SimulatedBackEnd
from scorer.upgrade.simulation.hub import Approve, Order, SimulatedEvaluation, SimulatedHub, Start, gates_of, simulate
from scorer.upgrade.state.facts import Estimate, UpgradeRunFacts
from scorer.upgrade.state.operations import operation_of
from scorer.upgrade.state.record import OVER
from scorer.upgrade.state.step import StartUpgrade
from scorer.upgrade.versions.images import ImageTargets
from scorer.windows.maintenance import MaintenanceWindow, WindowState

HORIZON: Final = timedelta(days=90)
"""How far ahead a run is followed."""
OVERRUN: Final = 4
"""An upgrade that takes longer than expected is expected to take this part of its time more: a quarter."""

_NEEDS_START: Final = frozenset({UpgradeState.NOT_STARTED, UpgradeState.STOPPED, UpgradeState.FAILED})

Place = tuple[int, int, int]
"""Of a member: its stage, group and position there."""


@dataclass(frozen=True, slots=True)
class ForecastAssumptions:
    """What a plan takes for granted.

    Args:
        approve_after: How long after its opening a gate is approved.
        start_at: When a run that does not go on by itself is started; None: now.
        duration_factor: What every expected time is multiplied with.
        failures: Members whose next upgrade fails, and how long after its start.
    """

    approve_after: timedelta = timedelta()
    start_at: datetime | None = None
    duration_factor: float = 1.0
    failures: Mapping[str, timedelta] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UpgradeStart:
    """What a member was just before its upgrade began.

    Args:
        entry: Its entry in the run.
        at: When the upgrade began.
    """

    entry: MemberStatus
    at: datetime


@dataclass(frozen=True)
class UpgradeForecast:
    """How a run goes.

    Args:
        begin: The first instant.
        run: As it is in the end.
        beginnings: The members whose upgrades begin from now on.
    """

    begin: datetime
    run: ClusterUpgradeRun
    beginnings: Mapping[str, UpgradeStart]

    @property
    def eta(self) -> datetime | None:
        """Return when the run is over; None: never, or not within `HORIZON`."""
        status = self.run.status
        return status.completion_time if status.state in OVER else None

    def entries(self) -> Iterator[tuple[StageStatus, GroupStatus, MemberStatus]]:
        """Yield every member with its stage and group."""
        for stage in self.run.status.stages:
            for group in stage.groups:
                for entry in group.members:
                    yield stage, group, entry

    @cached_property
    def ends(self) -> Mapping[datetime, frozenset[str]]:
        """Return the groups in which upgrades end at an instant; names of groups are unique in a run."""
        ends: dict[datetime, set[str]] = {}
        for _, group, entry in self.entries():
            if entry.attempt and entry.completion_time is not None:
                ends.setdefault(entry.completion_time, set()).add(group.name)
        return {at: frozenset(groups) for at, groups in ends.items()}

    @cached_property
    def upgrades(self) -> tuple[MemberStatus, ...]:
        """Return the members whose clusters are worked on at some time, in the order of their beginnings."""
        entries = (entry for _, _, entry in self.entries() if entry.attempt and entry.start_time is not None)
        return tuple(sorted(entries, key=lambda entry: (entry.start_time, entry.name)))


class _Times:
    """How long upgrades take in a forecast."""

    def __init__(self, durations: Mapping[str, Estimate], assumed: ForecastAssumptions, *, long: bool) -> None:
        self._durations = durations
        self._assumed = assumed
        self._long = long

    def of(self, member: str) -> timedelta:
        estimate = self._durations[member]
        expected = estimate.p90 if self._long else estimate.p50
        return in_whole_seconds(expected.total_seconds() * self._assumed.duration_factor)

    def outcome(self, member: str, _attempt: int) -> AttemptOutcome:
        if (after := self._assumed.failures.get(member)) is not None:
            return AttemptOutcome(after, fails=True)
        return AttemptOutcome(self.of(member))

    def remaining(self, member: str, begun: datetime, now: datetime) -> AttemptOutcome:
        """Return how an upgrade goes on that has begun; one that should be over takes a while longer."""
        found = self.outcome(member, 1)
        assert found.after is not None
        if begun + found.after > now:
            return found
        late = now - begun
        return replace(found, after=late + max(timedelta(seconds=1), late // OVERRUN))


def no_deadline() -> None:
    """Let a forecast take as long as it takes."""


class _Pulsed(WindowStates):
    """Calls a function whenever it is asked."""

    __slots__ = ("_pulse", "_standings")

    def __init__(self, standings: WindowStates, pulse: Callable[[], None]) -> None:
        super().__init__()
        self._standings = standings
        self._pulse = pulse

    def of(self, windows: Sequence[MaintenanceWindow], now: datetime) -> WindowState:
        """Return whether one of the windows is open, and until when."""
        self._pulse()
        return self._standings.of(windows, now)


def forecast(
    run: ClusterUpgradeRun,
    facts: UpgradeRunFacts,
    assumed: ForecastAssumptions,
    *,
    long: bool = False,
    pulse: Callable[[], None] = no_deadline,
) -> UpgradeForecast:
    """Follow a run from now on; nothing is written.

    Args:
        run: As it is stored.
        facts: The hub around it; `UpgradeRunFacts.durations` has all of its members.
        assumed: What is taken for granted.
        long: Whether every upgrade takes as long as nine of ten do, not as half of them do.
        pulse: Called at every instant of the forecast, and for every set of windows that is looked at then, as there
            may be thousands; what it raises ends the forecast.
    """
    now = facts.now.replace(microsecond=0)
    times = _Times(facts.durations, assumed, long=long)
    hub = _hub(run, replace(facts, standings=_Pulsed(facts.standings, pulse)), times, now)
    recorder = _Recorder(run)
    reactions = _Approvals(assumed.approve_after)
    for moment in simulate(hub, now, _orders(run, assumed, now), now + HORIZON, reactions):
        pulse()
        recorder.take(moment)
        if moment.run.status.state in OVER:
            break
    return UpgradeForecast(now, hub.run, recorder.beginnings)


def _orders(run: ClusterUpgradeRun, assumed: ForecastAssumptions, now: datetime) -> list[tuple[datetime, Order]]:
    if run.status.state not in _NEEDS_START:
        return []
    return [(max(assumed.start_at or now, now), Start())]


def _hub(run: ClusterUpgradeRun, facts: UpgradeRunFacts, times: _Times, now: datetime) -> SimulatedHub:
    """Return the hub as it is now, with everything in it that is under way."""
    back_end = SimulatedBackEnd(times.outcome)
    at_work = {name for name, member in facts.members.items() if member.inventory and member.inventory.busy}
    images = ImageTargets(run.spec.upgrade, run.status.resolved.node_images, facts.catalog)
    for stage in run.status.stages:
        for group in stage.groups:
            for entry in group.members:
                member = facts.members.get(entry.name)
                if entry.operation_open:
                    at_work.add(entry.name)
                if entry.state is UpgradeState.RUNNING and member is not None and entry.start_time is not None:
                    operation = operation_of(run, entry, member, images, None)
                    back_end.resume(operation, entry.start_time, times.remaining(entry.name, entry.start_time, now))
    busy = (at_work | set(facts.busy)) & facts.members.keys()
    return SimulatedHub(
        run=run,
        back_end=back_end,
        members={name: _free(member) for name, member in facts.members.items()},
        strategy=facts.strategy,
        windows=dict(facts.windows),
        catalog=facts.catalog,
        upgraders=dict(facts.upgraders),
        newest_patches=dict(facts.newest_patches),
        busy_until={name: now + times.of(name) for name in busy},
        durations=dict(facts.durations),
        guarded=dict(facts.guarded),
        gates=dict(facts.gates),
        _standings=facts.standings,
    )


def _free(member: Member) -> Member:
    """Return a member of which only what it runs is known: the rest is moved with the clock."""
    if member.inventory is None:
        return member
    return replace(member, inventory=replace(member.inventory, busy="", observed_at=None))


class _Approvals:
    """Approves every gate some time after it has opened."""

    def __init__(self, after: timedelta) -> None:
        self._after = after
        self._given: set[str] = set()

    def __call__(self, moment: SimulatedEvaluation) -> Iterator[tuple[datetime, Order]]:
        for place, gate in gates_of(moment.run.status):
            if gate.state is not UpgradeState.PENDING or gate.type is not GateType.APPROVAL or gate.gate in self._given:
                continue
            self._given.add(gate.gate)
            opened = gate.start_time or moment.now
            yield max(opened + self._after, moment.now), Approve(place.stage, place.group, place.timing, place.index)


class _Recorder:
    """Remembers what each member was before its upgrade began."""

    def __init__(self, run: ClusterUpgradeRun) -> None:
        self.beginnings: dict[str, UpgradeStart] = {}
        self._before = run
        self._places: dict[str, Place] = {}
        self._layout: StrategySpec | None = None

    def take(self, moment: SimulatedEvaluation) -> None:
        for action in moment.step.actions:
            if isinstance(action, StartUpgrade):
                name = action.operation.member
                entry = self._entry(name) or MemberStatus(name=name, state=UpgradeState.NOT_STARTED)
                self.beginnings.setdefault(name, UpgradeStart(entry, moment.now))
        self._before = moment.run

    def _entry(self, name: str) -> MemberStatus | None:
        if self._layout is not self._before.status.strategy_snapshot or name not in self._places:
            self._layout, self._places = self._before.status.strategy_snapshot, _places(self._before)
        if (place := self._places.get(name)) is None:
            return None
        stage, group, index = place
        return self._before.status.stages[stage].groups[group].members[index]


def _places(run: ClusterUpgradeRun) -> dict[str, Place]:
    return {
        entry.name: (number, position, index)
        for number, stage in enumerate(run.status.stages)
        for position, group in enumerate(stage.groups)
        for index, entry in enumerate(group.members)
    }
