"""When an upgrade run reaches each member, and what would come of changes: ``/v1/upgrade/plan`` and ``whatif``.

The plan is that of the loop: the engine on a moved clock, over what the cache has. What back ends would say if they
were asked is taken from what they reported last; that they can do the upgrade is taken for granted.

Source: upgrade-runs.md 14.1 and 14.7.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from time import monotonic
from typing import Final

from scorer.api.documents import name_of, text_at
from scorer.api.kinds import UPGRADE_REQUEST, UPGRADE_RUN
from scorer.api.meta import JsonObject
from scorer.api.upgrade.change import PlanChange
from scorer.api.upgrade.plan import UpgradePlan
from scorer.api.upgrade.run import ClusterUpgradeRun, PlacementGuardMode
from scorer.api.upgrade.strategy import ClusterUpgradeStrategy
from scorer.upgrade.back_end import Capabilities
from scorer.upgrade.catalog import Catalog
from scorer.upgrade.documents import plan_document
from scorer.upgrade.facts import Facts, GuardedPlacement
from scorer.upgrade.guard import by_cluster
from scorer.upgrade.inventories import reported_inventory
from scorer.upgrade.members import Member, read_member
from scorer.upgrade.planning.changes import Planned, apply_changes, difference
from scorer.upgrade.planning.durations import Sample, estimates
from scorer.upgrade.planning.forecast import Assumptions
from scorer.upgrade.planning.plan import plan_of
from scorer.upgrade.record import OVER
from scorer.upgrade.tiers import targets_of
from scorer.windows.member_windows import Definition, windows_of
from webhook.answers.one_at_a_time import BusyError, OneAtATime
from webhook.kube.cache import Cache
from webhook.kube.maintenance import MaintenanceWindows
from webhook.kube.upgrades import HubUpgrades, UnreadableRunError, catalogs_of

LONGEST_SECONDS: Final = 20.0
"""How long one plan may be worked on: a run whose members have thousands of windows has no end."""


class UnplannableError(Exception):
    """There is nothing to plan; the message says why."""


@dataclass(frozen=True, slots=True)
class UpgradeQuestion:
    """What is to be planned; what is None is as the hub has it.

    Args:
        run: The name of a run of the hub, or a ClusterUpgradeRun that need not be there: one that is not started.
        strategy: The ClusterUpgradeStrategy that it follows.
        windows: All ClusterMaintenanceWindows.
        catalogs: All ClusterVersionCatalogs.
        members: All MemberClusters.
        approve_after: How long after its opening a gate is approved.
        changes: What if; empty: as it is.
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
    """What a plan is made from, read from the cache at one moment; nothing in it changes any more."""

    question: UpgradeQuestion
    run: ClusterUpgradeRun
    facts: Facts
    members: Mapping[str, JsonObject]
    requests: Mapping[str, Sequence[JsonObject]]
    samples: Sequence[Sample]
    placements: Sequence[GuardedPlacement]
    shown: Sequence[GuardedPlacement]


class HubUpgradePlanner:
    """Plans over a cache, without writing anything.

    Args:
        cache: The hub's objects; it is made to watch what is needed, where the account may.
        upgrades: The upgrade runs of that hub.
        windows: Its maintenance windows.
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
            question: What is asked.
            readable: Says which placements the caller may be told about.

        Raises:
            UnplannableError: There is no such run, or nothing to plan in it.
            BusyError: Too many other plans are waiting, or this one takes too long.
            StoreError: The hub does not answer.
        """
        async with self._plans.turn():
            gathered = await self._gather(question, readable)
            return await asyncio.to_thread(_plan, gathered, _patience())

    async def what_if(self, question: UpgradeQuestion, readable: Callable[[GuardedPlacement], bool]) -> JsonObject:
        """Return the plan of a run before and after its changes, and what is different; raises as `plan`.

        Raises:
            scorer.upgrade.planning.changes.UnfitChangeError: A change cannot be made.
        """
        async with self._plans.turn():
            gathered = await self._gather(question, readable)
            return await asyncio.to_thread(_what_if, gathered, _patience())

    async def _gather(self, question: UpgradeQuestion, readable: Callable[[GuardedPlacement], bool]) -> _Gathered:
        hub, run = self._upgrades, self._run(question)
        strategy = hub.strategy(run)
        if question.strategy is not None:
            strategy = ClusterUpgradeStrategy.read(question.strategy).spec
        members = hub.joined() if question.members is None else {name_of(each): each for each in question.members}
        windows = self._windows.definitions
        if question.windows is not None:
            windows = {name_of(each): Definition.of(each) for each in question.windows}
        catalog = hub.catalog() if question.catalogs is None else Catalog.of(catalogs_of(question.catalogs))
        facts = Facts(
            now=self._now(),
            strategy=strategy,
            windows=windows,
            catalog=catalog,
            gates=hub.gates(run),
            busy=hub.busy(run.metadata.name, {}),
        )
        requests = self._requests() if question.members is None else {}
        samples = hub.samples()
        placements = await hub.placements(run)
        shown = [each for each in placements if readable(each)]
        return _Gathered(question, run, facts, members, requests, samples, placements, shown)

    def _run(self, question: UpgradeQuestion) -> ClusterUpgradeRun:
        if not isinstance(question.run, str):
            return ClusterUpgradeRun.read({**question.run, "status": {}})
        document = self._cache.get(UPGRADE_RUN, question.run)
        if document is None:
            raise UnplannableError(f"there is no {UPGRADE_RUN.kind} {question.run[:253]!r}")
        try:
            run = self._upgrades.run(document)
        except UnreadableRunError as error:
            raise UnplannableError(f"run {question.run} cannot be read: {error}") from error
        if run.status.state in OVER:
            raise UnplannableError(f"run {question.run} is {run.status.state.value}: nothing of it is to come")
        return run

    def _requests(self) -> dict[str, list[JsonObject]]:
        found: dict[str, list[JsonObject]] = {}
        for request in self._cache.list(UPGRADE_REQUEST):
            found.setdefault(text_at(request, "spec", "memberName"), []).append(request)
        return found


def _patience() -> Callable[[], None]:
    """Return a function that raises `BusyError` when a plan has been worked on for too long."""
    end = monotonic() + LONGEST_SECONDS

    def check() -> None:
        if monotonic() > end:
            raise BusyError(f"the plan takes longer than {LONGEST_SECONDS:g} s")

    return check


def _plan(gathered: _Gathered, pulse: Callable[[], None]) -> JsonObject:
    return plan_document(_made(_planned(gathered), gathered, pulse))


def _what_if(gathered: _Gathered, pulse: Callable[[], None]) -> JsonObject:
    planned = _planned(gathered)
    changed = apply_changes(planned, gathered.question.changes)
    before, after = _made(planned, gathered, pulse), _made(changed, gathered, pulse)
    return {
        "before": plan_document(before),
        "after": plan_document(after),
        "difference": difference(before, after),
    }


def _planned(gathered: _Gathered) -> Planned:
    run, members = gathered.run, _members(gathered)
    guards = run.spec.placement_guard.mode is PlacementGuardMode.ENFORCE
    facts = replace(
        gathered.facts,
        members=members,
        durations=estimates(gathered.samples, members, run.spec.upgrade.type),
        upgraders=_able(members.values()),
        guarded=by_cluster(gathered.placements) if guards else {},
    )
    return Planned(run, facts, Assumptions(approve_after=gathered.question.approve_after))


def _made(planned: Planned, gathered: _Gathered, pulse: Callable[[], None]) -> UpgradePlan:
    return plan_of(planned.run, planned.facts, gathered.shown, planned.assumed, pulse=pulse)


def _members(gathered: _Gathered) -> dict[str, Member]:
    windows, targets = gathered.facts.windows, targets_of(gathered.run.spec.upgrade.type)
    selecting = [each for each in windows.values() if each.selector is not None]
    return {
        name: read_member(
            document,
            windows_of(document, windows, targets, selecting),
            reported_inventory(document, gathered.requests.get(name, ())),
        )
        for name, document in gathered.members.items()
    }


def _able(members: Iterable[Member]) -> Mapping[str, Capabilities]:
    """Return what back ends can do: all of it, as none is asked."""
    names: Collection[str] = {member.upgrader for member in members}
    return {name: Capabilities() for name in names}
