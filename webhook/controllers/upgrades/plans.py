"""Plans in the status of upgrade runs: recomputed on change, at most once a minute.

A plan takes a second for a thousand members, so it is computed in a thread. An unchanged plan is not written. The
planned times of a run without progress would shift every minute, so its plan is recomputed only on changes. Plans are
computed one at a time, so each has a deadline. A plan that exceeds the deadline is cancelled, and the previous one
remains for a while.

Source: docs/specifications/upgrade-runs.md 14.1.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from scorer.api.kinds import MEMBER_CLUSTER, UPGRADE_RUN, UPGRADE_STRATEGY, VERSION_CATALOG
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dict_at, is_deleting, name_of, spec_of, status_of, text_at
from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.plan import PlannedAction, UpgradePlan
from scorer.api.upgrade.run import ClusterUpgradeRun
from scorer.upgrade.members.windows import WindowStates
from scorer.upgrade.planning.durations import estimates
from scorer.upgrade.planning.plan import plan_of
from scorer.upgrade.state.record import OVER, plan_document
from webhook.controllers.machinery.failures import concerned_of
from webhook.controllers.machinery.result import DONE, Result
from webhook.controllers.machinery.wiring import UPGRADES, Later, Signal, Waker, Watch, Wiring, always, watch_spec
from webhook.controllers.upgrades.facts import UpgradeFacts
from webhook.controllers.upgrades.observer import UNOBSERVED_UPGRADES, UpgradeObserver
from webhook.controllers.upgrades.runs import seen_of_member
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.cache.hub import Hub
from webhook.kube.listers.maintenance_windows import MaintenanceWindows
from webhook.runtime.clock import DeadlineExceededError, patience

AT_MOST_EVERY: Final = timedelta(minutes=1)
SOON: Final = timedelta(seconds=1)
"""Debounce before the first plan of a run."""
LONGEST_SECONDS: Final = 20.0
"""Deadline of one plan. The plans of other runs wait for it."""
GIVEN_UP_FOR: Final = timedelta(minutes=10)
"""Pause before the next plan of a run whose plan has timed out."""

_log = logging.getLogger(__name__)


class UpgradePlanController:
    """Keeps the plans of unfinished runs up to date.

    Args:
        hub: The hub cluster.
        now: The clock.
        facts: Gathers the inputs of a plan.
        windows: Maintenance windows of the members.
        observer: Records the estimated end of runs.
    """

    def __init__(
        self,
        hub: Hub,
        now: Callable[[], datetime],
        facts: UpgradeFacts,
        windows: MaintenanceWindows,
        observer: UpgradeObserver = UNOBSERVED_UPGRADES,
    ) -> None:
        self._hub = hub
        self._now = now
        self._facts = facts
        self._windows = windows
        self._observer = observer
        self._planned_at: dict[str, datetime] = {}
        """Time of the last plan by run."""
        self._given_up: set[str] = set()
        """Runs whose last plan timed out."""

    def wiring(self) -> Wiring[str]:
        """Return the wiring: everything that may move a run enqueues it."""
        return Wiring(
            name="upgrade_plan",
            reconcile=self.reconcile,
            concerned=concerned_of(UPGRADE_RUN),
            owner=always(UPGRADES),
            watches=tuple(self._watches()),
            workers=1,
        )

    def _watches(self) -> Iterator[Waker[str]]:
        yield Watch(UPGRADE_RUN, self._of_run)
        yield watch_spec(UPGRADE_STRATEGY, self._open)
        yield watch_spec(VERSION_CATALOG, self._open)
        yield Watch(MEMBER_CLUSTER, self._of_member)
        yield Signal(self._windows.subscribe, lambda _: self._open())

    def _of_run(self, change: ObjectDelta) -> Iterator[Later[str]]:
        if change.touches(_seen_of_run):
            yield self._later(name_of(change.document))

    def _of_member(self, change: ObjectDelta) -> Iterator[Later[str]]:
        if change.touches(seen_of_member):
            yield from self._open()

    def _open(self) -> Iterator[Later[str]]:
        for run in self._hub.cache.list(UPGRADE_RUN):
            if text_at(run, "status", "state") not in OVER:
                yield self._later(name_of(run))

    def _later(self, name: str) -> Later[str]:
        return Later(name, max(SOON, self._remaining_pause(name)))

    def _remaining_pause(self, name: str) -> timedelta:
        """Return the time until the plan of a run may be recomputed. A clock that was set back does not extend it."""
        last_plan, pause = self._planned_at.get(name), GIVEN_UP_FOR if name in self._given_up else AT_MOST_EVERY
        return timedelta() if last_plan is None else max(timedelta(), pause - abs(self._now() - last_plan))

    async def reconcile(self, name: str) -> Result:
        """Compute the plan of a run, and write it if it has changed.

        Raises:
            TerminalError: The run is invalid.
            StoreError: The hub refused a request, or did not respond.
        """
        document = self._hub.cache.get(UPGRADE_RUN, name)
        if document is None or is_deleting(document) or text_at(document, "status", "state") in OVER:
            self._planned_at.pop(name, None)
            self._given_up.discard(name)
            self._observer.planned(name, None, self._now())
            return DONE
        now = self._now()
        if wait := self._remaining_pause(name):
            return Result(wait)
        self._planned_at[name] = now
        situation = await self._facts.of(document, ask=False)  # the run controller polls the back ends
        run, facts = situation.run, situation.facts
        durations = estimates(self._facts.upgrades.samples(), facts.members, run.spec.upgrade.type)
        facts = replace(facts, durations=durations, standings=WindowStates())  # nothing is shared with the thread
        placements = await self._facts.upgrades.placements(run)
        self._given_up.discard(name)
        pulse = patience(f"the plan of run {name}", LONGEST_SECONDS)
        try:
            plan = await asyncio.to_thread(plan_of, run, facts, placements, pulse=pulse)
        except DeadlineExceededError as error:
            self._given_up.add(name)
            _log.warning("plan cancelled", extra={"run": name, "error": str(error)})
            return Result(GIVEN_UP_FOR)
        self._observer.planned(name, plan.eta, now)
        await self._write(name, plan)
        return _when_late(run, plan, now)

    async def _write(self, name: str, plan: UpgradePlan) -> None:
        document = self._hub.cache.get(UPGRADE_RUN, name)
        if document is None or is_deleting(document) or text_at(document, "status", "state") in OVER:
            return
        plan_status = plan_document(plan)
        if _without_time(dict_at(status_of(document), "plan")) != _without_time(plan_status):
            await self._hub.store_status(UPGRADE_RUN, document, {**status_of(document), "plan": plan_status})


def _when_late(run: ClusterUpgradeRun, plan: UpgradePlan, now: datetime) -> Result:
    """Return when to requeue: after the next planned end of an upgrade. If that one is late, later ones are too."""
    if run.status.state not in (UpgradeState.RUNNING, UpgradeState.STOPPING):
        return DONE
    ends = [member.end for member in plan.members if member.action is PlannedAction.UPGRADE and member.end is not None]
    late = min((end for end in ends if end > now), default=None)
    return DONE if late is None else Result(max(late - now + SOON, AT_MOST_EVERY))


def _without_time(plan: JsonObject) -> JsonObject:
    return {key: value for key, value in plan.items() if key != "computedAt"}


def _seen_of_run(run: JsonObject) -> object:
    """Return the parts of a run that its plan depends on: its spec, and its status without the plan."""
    status = {key: value for key, value in status_of(run).items() if key not in ("plan", "nextWakeup")}
    return spec_of(run), status
