"""RollingUpdate: bring bindings to the latest snapshot within the limits of the strategy.

Source: rollout.md 7 and 8.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from scorer.api.meta import JsonObject
from scorer.api.placement import StrategyType
from scorer.rollout.apply_strategy import plan_apply_strategy
from scorer.rollout.bindings import NO_OVERRIDES, BindingView, Overrides, bound, rollout_started_status, views
from scorer.rollout.documents import is_deleting
from scorer.rollout.planner import Action, RolloutPlan, Wanted, plan_rollout
from scorer.rollout.resource_snapshots import latest_group, snapshot_groups
from scorer.rollout.writes import replace
from webhook.controllers.family import FAMILY_OF, Family
from webhook.controllers.overrides import wanted_overrides
from webhook.controllers.result import DONE, Result, RetryError
from webhook.controllers.settings import LoopSettings
from webhook.kube.hub import Hub, at_once
from webhook.services import PlacementRef

log = logging.getLogger(__name__)


class RolloutController:
    """Rolls one placement out.

    Args:
        hub: Where everything is.
        now: The clock.
        settings: Whether removals need a budget.
    """

    def __init__(self, hub: Hub, now: Callable[[], datetime], settings: LoopSettings) -> None:
        self._hub = hub
        self._now = now
        self._settings = settings

    async def reconcile(self, ref: PlacementRef) -> Result:
        """Do what the limits allow now, and come back when they may allow more."""
        family = FAMILY_OF[ref.kind]
        placement = self._hub.cache.get(family.placement, ref.name, ref.namespace)
        if placement is None or is_deleting(placement):
            return DONE
        spec = placement["spec"]
        if (spec.get("strategy") or {}).get("type") not in (None, StrategyType.ROLLING_UPDATE):
            return DONE
        documents = family.children(self._hub.cache, family.binding, ref)
        if outdated := plan_apply_strategy(spec.get("strategy"), documents):
            await self._hub.carry_out_at_once(family.binding, map(replace, outdated))
            return Result(timedelta())
        latest = latest_group(snapshot_groups(family.children(self._hub.cache, family.resource_snapshot, ref)))
        name = latest.name if latest and latest.name else None
        wanted = Wanted.of(spec.get("policy"))
        overrides = wanted_overrides(self._hub.cache, placement, latest, documents)
        plan = plan_rollout(
            wanted,
            spec.get("strategy"),
            views(documents),
            name,
            self._now(),
            overrides=overrides,
            removal_needs_budget=self._settings.removal_needs_budget,
        )
        if plan.error is not None:
            log.error("rollout is stopped", extra={"placement": str(ref), "error": plan.error.message})
            raise RetryError(plan.error.message)
        if name is not None:
            by_name = {document["metadata"]["name"]: document for document in documents}
            await self._carry_out(family, plan, by_name, name, overrides)
        return Result(plan.requeue_after)

    async def _carry_out(
        self,
        family: Family,
        plan: RolloutPlan,
        documents: Mapping[str, JsonObject],
        snapshot: str,
        overrides: Mapping[str, Overrides],
    ) -> None:
        budget = plan.budget
        limits = (
            f"{budget.ready} of {budget.target} clusters are ready, so {max(0, budget.max_to_remove)} may be taken away"
        )
        for binding in plan.blocked:
            self._mark(family, documents[binding.name], started=False, message=f"waits: {limits} now")
        for binding in plan.up_to_date:
            self._mark(family, documents[binding.name], started=True, message="on the latest resources")
        if plan.action is not Action.ROLL:
            return
        bind = (
            self._bind(
                family, binding, bound(documents[binding.name], snapshot, overrides.get(binding.cluster, NO_OVERRIDES))
            )
            for binding in (*plan.update, *plan.bind)
        )
        remove = (self._hub.delete(family.binding, documents[binding.name]) for binding in plan.remove)
        await at_once([*bind, *remove])

    async def _bind(self, family: Family, binding: BindingView, document: JsonObject) -> None:
        stored = await self._hub.replace(family.binding, document)
        message = f"rolling out {document['spec']['resourceSnapshotName']} to {binding.cluster}"
        self._mark(family, stored, started=True, message=message)

    def _mark(self, family: Family, document: JsonObject, *, started: bool, message: str) -> None:
        status = rollout_started_status(document, started=started, message=message, now=self._now())
        if status is not None:
            self._hub.report(family.binding, document, status)
