"""Plans of upgrade runs, and effects of changes to them: ``/v1/upgrade/plan`` and ``whatif``.

The plan is that of the loop: the engine with an advanced clock, over the content of the cache. Back ends are not
queried. Their last reports are used instead, and they are assumed to support the upgrade.

Source: docs/specifications/upgrade-runs.md 14.1 and 14.7.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Final

from typing_extensions import TypedDict

from scorer.api.kinds import UPGRADE_REQUEST, UPGRADE_RUN
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import name_of, text_at
from scorer.api.upgrade.plan import UpgradePlan
from scorer.api.upgrade.plan_change import PlanChange
from scorer.api.upgrade.run import ClusterUpgradeRun, PlacementGuardMode
from scorer.api.upgrade.strategy import ClusterUpgradeStrategy
from scorer.api.values.answer import ShapeOf
from scorer.api.values.quoting import quote
from scorer.upgrade.back_ends.interface import Capabilities
from scorer.upgrade.back_ends.inventories import reported_inventory
from scorer.upgrade.members.member import Member, read_member
from scorer.upgrade.members.windows import targets_of
from scorer.upgrade.planning.changes import PlanDifference, Planned, apply_changes, difference
from scorer.upgrade.planning.durations import Sample, estimates
from scorer.upgrade.planning.forecast import ForecastAssumptions
from scorer.upgrade.planning.plan import plan_of
from scorer.upgrade.state.facts import UpgradeRunFacts
from scorer.upgrade.state.placement_guard import GuardedPlacement, by_cluster
from scorer.upgrade.state.record import OVER, plan_document
from scorer.upgrade.versions.catalog import ReleaseCatalog
from scorer.windows.member_windows import WindowDefinition, windows_of
from webhook.answers.one_at_a_time import OneAtATime, PlannerBusyError
from webhook.kube.cache.informer import Cache
from webhook.kube.listers.maintenance_windows import MaintenanceWindows
from webhook.kube.listers.upgrades import HubUpgrades, UnreadableRunError, catalogs_of
from webhook.runtime.clock import patience

LONGEST_SECONDS: Final = 20.0
"""Time limit of one plan: a run whose members have thousands of windows would take forever."""
HUB_SECONDS: Final = 10.0
"""Time limit for reading the inputs of a plan from the hub."""


class UnplannableError(Exception):
    """The run has nothing to plan. The message has the reason."""


class UnknownRunError(Exception):
    """The run does not exist."""


class UnfitStrategyError(Exception):
    """The run does not follow the strategy in the question. The message has the reason."""


PlanDocument = Annotated[JsonObject, ShapeOf(UpgradePlan)]


class UpgradeWhatIfAnswer(TypedDict):
    """The plan of an upgrade run before and after the changes."""

    before: PlanDocument
    after: PlanDocument
    difference: PlanDifference


@dataclass(frozen=True, slots=True)
class UpgradeQuestion:
    """A run to plan. Objects that are None are read from the hub.

    Args:
        run: The name of a run of the hub, or a ClusterUpgradeRun that need not exist there and has not started.
        strategy: The ClusterUpgradeStrategy that it refers to.
        windows: All ClusterMaintenanceWindows.
        catalogs: All ClusterVersionCatalogs.
        members: All MemberClusters.
        approve_after: Time between the arrival of the run at a gate and the approval of the gate.
        changes: Hypothetical changes. If empty, the current state.
    """

    run: str | JsonObject
    strategy: JsonObject | None = None
    windows: Sequence[JsonObject] | None = None
    catalogs: Sequence[JsonObject] | None = None
    members: Sequence[JsonObject] | None = None
    approve_after: timedelta = timedelta()
    changes: Sequence[PlanChange] = ()


@dataclass(frozen=True, slots=True)
class _Gathered:
    """Inputs of a plan, read from the cache at one moment. They are immutable."""

    question: UpgradeQuestion
    run: ClusterUpgradeRun
    facts: UpgradeRunFacts
    members: Mapping[str, JsonObject]
    default_upgrader: str
    requests: Mapping[str, Sequence[JsonObject]]
    samples: Sequence[Sample]
    placements: Sequence[GuardedPlacement]
    shown: Sequence[GuardedPlacement]


class HubUpgradePlanner:
    """Plans over a cache, without writing anything.

    Args:
        cache: The hub's objects.
        upgrades: The upgrade runs of that hub.
        windows: Maintenance windows.
        now: The clock.
    """

    def __init__(
        self, cache: Cache, upgrades: HubUpgrades, windows: MaintenanceWindows, now: Callable[[], datetime]
    ) -> None:
        self._cache = cache
        self._now = now
        self._windows = windows
        self._upgrades = upgrades
        self._plans = OneAtATime()

    async def plan(self, question: UpgradeQuestion, readable: Callable[[GuardedPlacement], bool]) -> JsonObject:
        """Return the plan of a run.

        Args:
            question: The question.
            readable: Returns whether the caller may see a placement.

        Raises:
            UnknownRunError: The run does not exist.
            UnfitStrategyError: The run does not follow the strategy in the question.
            UnplannableError: The run has nothing to plan.
            PlannerBusyError: Too many other plans are waiting, they take too long, or the hub responds too slowly.
            DeadlineExceededError: The plan takes too long.
            StoreError: The hub does not respond.
        """
        async with self._plans.acquire():
            pulse = _patience()
            inputs = await self._gathered(question, readable)
            return await asyncio.to_thread(_plan, inputs, pulse)

    async def what_if(
        self, question: UpgradeQuestion, readable: Callable[[GuardedPlacement], bool]
    ) -> UpgradeWhatIfAnswer:
        """Return the plan of a run before and after its changes, and the differences. Raises as `plan`.

        Raises:
            scorer.upgrade.planning.changes.UnfitChangeError: A change cannot be made.
        """
        async with self._plans.acquire():
            pulse = _patience()
            inputs = await self._gathered(question, readable)
            return await asyncio.to_thread(_what_if, inputs, pulse)

    async def _gathered(self, question: UpgradeQuestion, readable: Callable[[GuardedPlacement], bool]) -> _Gathered:
        """Return the result of `_gather`. Raises `PlannerBusyError` on a timeout of the hub, as other plans wait."""
        try:
            async with asyncio.timeout(HUB_SECONDS):
                return await self._gather(question, readable)
        except TimeoutError as error:
            raise PlannerBusyError(f"the hub did not answer within {HUB_SECONDS:g} s") from error

    async def _gather(self, question: UpgradeQuestion, readable: Callable[[GuardedPlacement], bool]) -> _Gathered:
        hub, run = self._upgrades, self._run(question)
        if question.strategy is not None:
            _check_strategy(run, name_of(question.strategy))
        members = hub.joined() if question.members is None else {name_of(member): member for member in question.members}
        await self._read_runs()
        facts = UpgradeRunFacts(
            now=self._now(),
            strategy=hub.strategy(run),
            windows=self._windows.definitions,
            catalog=hub.catalog(),
            gates=hub.gates(run),
            busy=hub.busy(run.metadata.name),
        )
        requests = self._requests() if question.members is None else {}
        samples = hub.samples()
        placements = await hub.placements(run)
        placements_shown = [placement for placement in placements if readable(placement)]
        default = hub.default_upgrader
        return _Gathered(question, run, facts, members, default, requests, samples, placements, placements_shown)

    async def _read_runs(self) -> None:
        """Parse changed runs one by one, so that other requests are served in between."""
        for document in self._cache.list(UPGRADE_RUN):
            with suppress(UnreadableRunError):
                self._upgrades.run(document)
            await asyncio.sleep(0)

    def _run(self, question: UpgradeQuestion) -> ClusterUpgradeRun:
        if not isinstance(question.run, str):
            return ClusterUpgradeRun.read({**question.run, "status": {}})
        document = self._cache.get(UPGRADE_RUN, question.run)
        if document is None:
            raise UnknownRunError(unknown_run(question.run))
        try:
            run = self._upgrades.run(document)
        except UnreadableRunError as error:
            raise UnplannableError(f"run {question.run} cannot be read: {error}") from error
        if run.status.state in OVER:
            raise UnplannableError(f"run {question.run} is {run.status.state.value}: nothing remains to be planned")
        return run

    def _requests(self) -> dict[str, list[JsonObject]]:
        requests: dict[str, list[JsonObject]] = {}
        for request in self._cache.list(UPGRADE_REQUEST):
            requests.setdefault(text_at(request, "spec", "memberName"), []).append(request)
        return requests


def unknown_run(name: str) -> str:
    """Return the message about an upgrade run that does not exist or that the caller may not read."""
    return f"there is no {UPGRADE_RUN.kind} {quote(name)}"


def _check_strategy(run: ClusterUpgradeRun, name: str) -> None:
    """Require that a run follows the strategy in the question.

    Raises:
        UnfitStrategyError: The run follows another strategy.
    """
    strategy_name = run.spec.strategy_ref.name if run.spec.strategy_ref is not None else ""
    if run.status.start_time is not None:
        raise UnfitStrategyError(f"run {run.metadata.name} has started, and follows its own copy of the strategy")
    if run.spec.strategy is not None:
        raise UnfitStrategyError("the run follows the strategy in its spec")
    if strategy_name != name:
        of = f"refers to strategy {quote(strategy_name)}" if strategy_name else "refers to no strategy"
        raise UnfitStrategyError(f"{quote(name)}: the run {of}")


def _patience() -> Callable[[], None]:
    return patience("the plan", LONGEST_SECONDS)


def _plan(inputs: _Gathered, pulse: Callable[[], None]) -> JsonObject:
    return plan_document(_upgrade_plan(_planned(inputs, pulse), inputs, pulse))


def _what_if(inputs: _Gathered, pulse: Callable[[], None]) -> UpgradeWhatIfAnswer:
    planned = _planned(inputs, pulse)
    changed = apply_changes(planned, inputs.question.changes)
    before, after = _upgrade_plan(planned, inputs, pulse), _upgrade_plan(changed, inputs, pulse)
    return {
        "before": plan_document(before),
        "after": plan_document(after),
        "difference": difference(before, after),
    }


def _planned(inputs: _Gathered, pulse: Callable[[], None]) -> Planned:
    run, question_facts = inputs.run, _with_question(inputs.facts, inputs.question)
    members = _members(inputs, question_facts.windows, pulse)
    guards = run.spec.placement_guard.mode is PlacementGuardMode.ENFORCE
    facts = replace(
        question_facts,
        members=members,
        durations=estimates(inputs.samples, members, run.spec.upgrade.type),
        upgraders=_able(members.values()),
        guarded=by_cluster(inputs.placements) if guards else {},
    )
    return Planned(run, facts, ForecastAssumptions(approve_after=inputs.question.approve_after))


def _with_question(facts: UpgradeRunFacts, question: UpgradeQuestion) -> UpgradeRunFacts:
    """Return the facts with the objects in the question in place of the hub's."""
    if question.strategy is not None:
        facts = replace(facts, strategy=ClusterUpgradeStrategy.read(question.strategy).spec)
    if question.windows is not None:
        facts = replace(facts, windows={name_of(window): WindowDefinition.of(window) for window in question.windows})
    if question.catalogs is not None:
        facts = replace(facts, catalog=ReleaseCatalog.of(catalogs_of(question.catalogs)))
    return facts


def _upgrade_plan(planned: Planned, inputs: _Gathered, pulse: Callable[[], None]) -> UpgradePlan:
    return plan_of(planned.run, planned.facts, inputs.shown, planned.assumed, pulse=pulse)


def _members(
    inputs: _Gathered, windows: Mapping[str, WindowDefinition], pulse: Callable[[], None]
) -> dict[str, Member]:
    targets, members = targets_of(inputs.run.spec.upgrade.type), dict[str, Member]()
    selector_windows = [window for window in windows.values() if window.selector is not None]
    for name, document in inputs.members.items():
        pulse()
        members[name] = read_member(
            document,
            windows_of(document, windows, targets, selector_windows),
            reported_inventory(document, inputs.requests.get(name, ())),
            upgrader=inputs.default_upgrader,
        )
    return members


def _able(members: Iterable[Member]) -> Mapping[str, Capabilities]:
    """Return all capabilities for each back end, because none is queried."""
    names: Collection[str] = {member.upgrader for member in members}
    return {name: Capabilities() for name in names}
