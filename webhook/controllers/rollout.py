"""RollingUpdate: bring bindings to the latest snapshot within the limits of the strategy.

Source: rollout.md 7 and 8.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from scorer.api.meta import JsonObject
from scorer.rollout.apply_strategy import plan_apply_strategy
from scorer.rollout.bindings import NO_OVERRIDES, BindingView, bound, rollout_started_status, views
from scorer.rollout.planner import Action, RolloutPlan, Wanted, plan_rollout
from scorer.rollout.resource_snapshots import latest_group, snapshot_groups
from webhook.controllers.family import FAMILY_OF, Family, is_deleting
from webhook.controllers.result import DONE, Result, RetryError
from webhook.kube.hub import Hub
from webhook.services import PlacementRef


class RolloutController:
    """Rolls one placement out.

    Args:
        hub: Where everything is.
        now: The clock.
    """

    def __init__(self, hub: Hub, now: Callable[[], datetime]) -> None:
        self._hub = hub
        self._now = now

    async def reconcile(self, ref: PlacementRef) -> Result:
        """Do what the limits allow now, and come back when they may allow more."""
        family = FAMILY_OF[ref.kind]
        placement = self._hub.cache.get(family.placement, ref.name, ref.namespace)
        if placement is None or is_deleting(placement):
            return DONE
        spec = placement["spec"]
        documents = family.children(self._hub.cache, family.binding, ref)
        if outdated := plan_apply_strategy(spec.get("strategy"), documents):
            for document in outdated:
                await self._hub.replace(family.binding, document)
            return Result(timedelta())
        latest = latest_group(snapshot_groups(family.children(self._hub.cache, family.resource_snapshot, ref)))
        name = latest.name if latest and latest.name else None
        wanted = Wanted.of(spec.get("policy"))
        plan = plan_rollout(wanted, spec.get("strategy"), views(documents), name, self._now())
        if plan.error is not None:
            raise RetryError(plan.error.message)
        if name is not None:
            await self._carry_out(
                family, plan, {document["metadata"]["name"]: document for document in documents}, name
            )
        return Result(plan.requeue_after)

    async def _carry_out(
        self, family: Family, plan: RolloutPlan, documents: Mapping[str, JsonObject], snapshot: str
    ) -> None:
        budget = plan.budget
        limits = (
            f"{budget.ready} of {budget.target} clusters are ready, so {max(0, budget.max_to_remove)} may be taken away"
        )
        for binding in plan.blocked:
            await self._mark(family, documents[binding.name], started=False, message=f"waits: {limits} now")
        for binding in plan.up_to_date:
            await self._mark(family, documents[binding.name], started=True, message="on the latest resources")
        if plan.action is not Action.ROLL:
            return
        for binding in (*plan.update, *plan.bind):
            await self._bind(family, binding, documents[binding.name], snapshot)
        for binding in plan.remove:
            await self._hub.delete(family.binding, documents[binding.name])

    async def _bind(self, family: Family, binding: BindingView, document: JsonObject, snapshot: str) -> None:
        stored = await self._hub.replace(family.binding, bound(document, snapshot, NO_OVERRIDES))
        await self._mark(family, stored, started=True, message=f"rolling out {snapshot} to {binding.cluster}")

    async def _mark(self, family: Family, document: JsonObject, *, started: bool, message: str) -> None:
        status = rollout_started_status(document, started=started, message=message, now=self._now())
        if status is not None:
            await self._hub.replace_status(family.binding, document, status)
