"""Simulation of a run on an accelerated clock, from now to its end.

The real engine evaluates a copy of the run. Assumptions: upgrades take as long as expected and succeed, approvals are
given, no new version is published, and no user stops or skips anything. A member that another run upgrades, or whose
abandoned operation may be in progress, becomes free after the duration of an upgrade. A run that is not in progress is
started or restarted.

Source: docs/specifications/upgrade-runs.md 14 and 14.3.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import ClusterUpgradeRun, GroupStatus, MemberStatus, StageStatus
from scorer.api.upgrade.strategy import GateType
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
"""Time span of a forecast. A run that has not ended by then has no expected end."""
OVERRUN: Final = 4
"""An overdue upgrade is expected to take a quarter of its elapsed time longer."""

_NEEDS_START: Final = frozenset({UpgradeState.NOT_STARTED, UpgradeState.STOPPED, UpgradeState.FAILED})

Place = tuple[int, int, int]
"""Indices of a member: stage, group, and position in the group."""


@dataclass(frozen=True, slots=True)
class ForecastAssumptions:
    """Assumptions of a plan.

    Args:
        approve_after: Delay between the opening of a gate and its approval.
        start_at: Time at which a run that is not in progress is started. None: unset, now.
        duration_factor: Factor for every expected duration.
        failures: Members whose current or next upgrade fails, with the delay after its start.
    """

    approve_after: timedelta = timedelta()
    start_at: datetime | None = None
    duration_factor: float = 1.0
    failures: Mapping[str, timedelta] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UpgradeStart:
    """State of a member just before its upgrade started.

    Args:
        entry: Entry in the run.
        at: Start of the upgrade.
    """

    entry: MemberStatus
    at: datetime


@dataclass(frozen=True)
class UpgradeForecast:
    """Course of a run.

    Args:
        begin: The first instant.
        run: The run at its end.
        beginnings: State of each member whose upgrade starts from now on, just before its start, by name.
    """

    begin: datetime
    run: ClusterUpgradeRun
    beginnings: Mapping[str, UpgradeStart]

    @property
    def eta(self) -> datetime | None:
        """The end of the run, or None if it does not end within `HORIZON`."""
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
        """The groups with an upgrade that ends, by instant. Names of groups are unique in a run."""
        ends: dict[datetime, set[str]] = {}
        for _, group, entry in self.entries():
            if entry.attempt and entry.completion_time is not None:
                ends.setdefault(entry.completion_time, set()).add(group.name)
        return {at: frozenset(groups) for at, groups in ends.items()}

    @cached_property
    def upgrades(self) -> tuple[MemberStatus, ...]:
        """The members that are upgraded at some time, ordered by start."""
        entries = (entry for _, _, entry in self.entries() if entry.attempt and entry.start_time is not None)
        return tuple(sorted(entries, key=lambda entry: (entry.start_time, entry.name)))


class _Times:
    """Durations of upgrades in a forecast."""

    def __init__(self, durations: Mapping[str, Estimate], assumptions: ForecastAssumptions, *, long: bool) -> None:
        self._durations = durations
        self._assumed = assumptions
        self._long = long

    def of(self, member: str) -> timedelta:
        estimate = self._durations[member]
        expected = estimate.p90 if self._long else estimate.p50
        return in_whole_seconds(expected.total_seconds() * self._assumed.duration_factor)

    def outcome(self, member: str, _attempt: int) -> AttemptOutcome:
        if (failure_delay := self._assumed.failures.get(member)) is not None:
            return AttemptOutcome(failure_delay, fails=True)
        return AttemptOutcome(self.of(member))

    def remaining(self, member: str, start: datetime, now: datetime) -> AttemptOutcome:
        """Return the outcome of a running upgrade. An overdue one takes a while longer."""
        outcome = self.outcome(member, 1)
        assert outcome.after is not None
        if start + outcome.after > now:
            return outcome
        late = now - start
        return replace(outcome, after=late + max(timedelta(seconds=1), late // OVERRUN))


def no_deadline() -> None:
    """Default pulse: no deadline."""


class _Pulsed(WindowStates):
    """Window states that call a function on every query."""

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
    assumptions: ForecastAssumptions,
    *,
    long: bool = False,
    pulse: Callable[[], None] = no_deadline,
) -> UpgradeForecast:
    """Simulate a run from now on. Nothing is written.

    Args:
        run: The run as stored.
        facts: State of the hub. `UpgradeRunFacts.durations` must have all of its members.
        assumptions: Assumptions.
        long: Whether upgrades take their P90 instead of their P50.
        pulse: Called at every instant and for every query of window states, because an instant may need thousands of
            queries. An exception that it raises aborts the forecast.
    """
    now = facts.now.replace(microsecond=0)
    times = _Times(facts.durations, assumptions, long=long)
    hub = _hub(run, replace(facts, standings=_Pulsed(facts.standings, pulse)), times, now)
    recorder = _Recorder(run)
    reactions = _Approvals(assumptions.approve_after)
    for moment in simulate(hub, now, _orders(run, assumptions, now), now + HORIZON, reactions):
        pulse()
        recorder.take(moment)
        if moment.run.status.state in OVER:
            break
    return UpgradeForecast(now, hub.run, recorder.beginnings)


def _orders(run: ClusterUpgradeRun, assumptions: ForecastAssumptions, now: datetime) -> list[tuple[datetime, Order]]:
    if run.status.state not in _NEEDS_START:
        return []
    return [(max(assumptions.start_at or now, now), Start())]


def _hub(run: ClusterUpgradeRun, facts: UpgradeRunFacts, times: _Times, now: datetime) -> SimulatedHub:
    """Return a simulated hub in the current state, with all operations in flight."""
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
    """Return a member without its busy state and observation time, which the simulation derives from the clock."""
    if member.inventory is None:
        return member
    return replace(member, inventory=replace(member.inventory, busy="", observed_at=None))


class _Approvals:
    """Approves every Approval gate with a delay after it opens."""

    def __init__(self, delay: timedelta) -> None:
        self._after = delay
        self._given: set[str] = set()

    def __call__(self, moment: SimulatedEvaluation) -> Iterator[tuple[datetime, Order]]:
        for place, gate in gates_of(moment.run.status):
            if gate.state is not UpgradeState.PENDING or gate.type is not GateType.APPROVAL or gate.gate in self._given:
                continue
            self._given.add(gate.gate)
            opening = gate.start_time or moment.now
            yield max(opening + self._after, moment.now), Approve(place.stage, place.group, place.timing, place.index)


class _Recorder:
    """Records each member's state before its upgrade starts."""

    def __init__(self, run: ClusterUpgradeRun) -> None:
        self.beginnings: dict[str, UpgradeStart] = {}
        self._before = run
        self._places: dict[str, Place] = {}

    def take(self, moment: SimulatedEvaluation) -> None:
        for action in moment.step.actions:
            if isinstance(action, StartUpgrade):
                name = action.operation.member
                entry = self._entry(name) or MemberStatus(name=name, state=UpgradeState.NOT_STARTED)
                self.beginnings.setdefault(name, UpgradeStart(entry, moment.now))
        self._before = moment.run

    def _entry(self, name: str) -> MemberStatus | None:
        entry = self._entry_at(name)
        if entry is None or entry.name != name:  # members join and leave during a run
            self._places = _places(self._before)
            entry = self._entry_at(name)
        return entry

    def _entry_at(self, name: str) -> MemberStatus | None:
        if (place := self._places.get(name)) is None:
            return None
        stage, group, index = place
        try:
            return self._before.status.stages[stage].groups[group].members[index]
        except IndexError:
            return None


def _places(run: ClusterUpgradeRun) -> dict[str, Place]:
    return {
        entry.name: (number, position, index)
        for number, stage in enumerate(run.status.stages)
        for position, group in enumerate(stage.groups)
        for index, entry in enumerate(group.members)
    }
