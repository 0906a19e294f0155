"""RollingUpdate: bring bindings to the latest snapshot within the limits of the strategy.

With turns, a member is reserved before its binding is touched, until that is available or has failed. Bindings on
members that something else disrupts say what they wait for, and leave their turn to others; those that somebody else
has reserved to change count as changed.

Source: rollout.md 7 and 8.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace as with_changes
from datetime import datetime, timedelta

from scorer.api.documents import current_condition, is_deleting
from scorer.api.family import FAMILY_OF, Family
from scorer.api.meta import JsonObject
from scorer.api.placement import StrategyType
from scorer.api.references import PlacementRef
from scorer.member_gate.holds import Hold, rollout_holder
from scorer.rollout.apply_strategy import plan_apply_strategy
from scorer.rollout.bindings import (
    NO_OVERRIDES,
    ROLLOUT_STARTED,
    BindingView,
    bound,
    is_lost_and_found,
    is_rolling,
    rollout_started_status,
    views,
)
from scorer.rollout.planner import Action, RolloutPlan, blocked_reason
from scorer.rollout.writes import replace
from webhook.controllers.removal import remove_meant
from webhook.controllers.result import DONE, Result, StuckError, soonest
from webhook.controllers.turns import LOOK_AGAIN, RENEWED_BELOW, Turns
from webhook.kube.children import children
from webhook.kube.hub import Hub, at_once
from webhook.kube.rollout_state import RolloutState, rollout_state
from webhook.settings.loop import LoopSettings

WAITS_FOR_MEMBER = "waits until the member is free: "
"""So the message of a binding begins whose member is held."""

log = logging.getLogger(__name__)


class RolloutController:
    """Rolls one placement out.

    Args:
        hub: Where everything is.
        now: The clock.
        settings: Whether removals need a budget.
        turns: Reserves members; None: rollouts wait for nothing but their limits.
    """

    def __init__(
        self, hub: Hub, now: Callable[[], datetime], settings: LoopSettings, turns: Turns | None = None
    ) -> None:
        self._hub = hub
        self._now = now
        self._settings = settings
        self._turns = turns
        self._reserved: dict[PlacementRef, set[str]] = {}
        """The members that this process has reserved for the rollout of a placement."""
        self._numbers: dict[PlacementRef, tuple[object, datetime]] = {}
        """What clusters that wait would be told, and since when it is the same."""

    async def reconcile(self, ref: PlacementRef) -> Result:
        """Do what the limits allow now, and come back when they may allow more."""
        family = FAMILY_OF[ref.kind]
        placement = self._hub.cache.get(family.placement, ref.name, ref.namespace)
        if placement is None or is_deleting(placement):
            self._numbers.pop(ref, None)
            return await self._follow(ref, [])
        spec = placement["spec"]
        documents = children(self._hub.cache, family.binding, ref)
        if (spec.get("strategy") or {}).get("type") not in (None, StrategyType.ROLLING_UPDATE):
            for document in filter(is_lost_and_found, documents):
                self._mark(family, document, started=True, message="on what it was rolled out with before")
            return await self._follow(ref, [])
        if outdated := plan_apply_strategy(spec.get("strategy"), documents):
            await self._hub.carry_out_at_once(family.binding, map(replace, outdated))
            return Result(timedelta())
        state = rollout_state(self._hub.cache, family, placement, documents, works_known=True)
        promised = self._promised(ref, state)
        holds = self._holds(state) | promised
        unsaid = DONE
        plan = state.plan(
            self._now(), promised=promised, held=holds, removal_needs_budget=self._settings.removal_needs_budget
        )
        if plan.error is not None:
            log.error("rollout is stopped", extra={"placement": str(ref), "error": plan.error.message})
            raise StuckError(plan.error.message)
        if state.snapshot is not None:
            by_name = {document["metadata"]["name"]: document for document in documents}
            if self._turns is not None and plan.action is Action.ROLL:
                plan = await self._take_turns(ref, plan, holds)
            unsaid = self._until_told(ref, plan)
            await self._carry_out(family, plan, by_name, state, holds, renew=unsaid.requeue_after is None)
        return soonest(
            Result(plan.requeue_after),
            unsaid,
            Result(LOOK_AGAIN) if holds else DONE,
            await self._follow(ref, views(children(self._hub.cache, family.binding, ref))),
        )

    def _holds(self, state: RolloutState) -> dict[str, Hold]:
        """Return the members of a placement that something else holds."""
        if self._turns is None:
            return {}
        return {member: hold for member in state.clusters if (hold := self._turns.waits(member)) is not None}

    def _promised(self, ref: PlacementRef, state: RolloutState) -> dict[str, Hold]:
        """Return the members on which somebody else has reserved to change the placement: they use up its limits."""
        if self._turns is None:
            return {}
        return self._turns.promised(str(ref), state.clusters)

    async def _take_turns(self, ref: PlacementRef, plan: RolloutPlan, holds: dict[str, Hold]) -> RolloutPlan:
        """Reserve the members that a plan touches, and return it without those that are not to be had."""
        turns, holder = self._turns, rollout_holder(str(ref))
        assert turns is not None
        members = sorted({binding.cluster for binding in (*plan.update, *plan.bind, *plan.remove)})
        self._reserved.setdefault(ref, set()).update(members)

        async def take(member: str) -> None:
            if (hold := await turns.take(member, holder)) is not None:
                holds[member] = hold

        await at_once(take(member) for member in members)

        def free(bindings: Iterable[BindingView]) -> tuple[BindingView, ...]:
            return tuple(binding for binding in bindings if binding.cluster not in holds)

        late = (binding for binding in (*plan.update, *plan.bind) if binding.cluster in holds)
        return with_changes(
            plan,
            update=free(plan.update),
            bind=free(plan.bind),
            remove=free(plan.remove),
            waiting=tuple(sorted((*plan.waiting, *late), key=lambda binding: binding.name)),
        )

    def _until_told(self, ref: PlacementRef, plan: RolloutPlan) -> Result:
        """Return when the clusters that wait are to be told why, if it is another reason than before; DONE: now.

        While a rollout moves the reasons change with every step, and to write each of them on all that wait would take
        more writes than the rollout itself.
        """
        if not plan.blocked:
            self._numbers.pop(ref, None)
            return DONE
        numbers = plan.budget, plan.update, plan.bind, plan.remove, plan.unready
        known, since = self._numbers.get(ref, (None, self._now()))
        if known != numbers:
            since = self._now()
        self._numbers[ref] = numbers, since
        left = since + self._settings.renewed_after - self._now()
        return DONE if left <= timedelta() else Result(left)

    async def _follow(self, ref: PlacementRef, bindings: Sequence[BindingView]) -> Result:
        """Keep the members reserved that the rollout of a placement is still working on, and give the others back."""
        if self._turns is None:
            return DONE
        holder = rollout_holder(str(ref))
        busy = {binding.cluster for binding in bindings if is_rolling(binding) or binding.deleting}
        known = self._reserved.pop(ref, set()) | {binding.cluster for binding in bindings}
        held = {member for member in known if self._turns.holds(member, holder)}
        if held & busy:
            self._reserved[ref] = held & busy
        await at_once(self._turns.give_back(member, holder) for member in sorted(held - busy))
        await at_once(self._turns.keep(member, holder) for member in sorted(held & busy))
        return Result(RENEWED_BELOW) if held & busy else DONE

    async def _carry_out(
        self,
        family: Family,
        plan: RolloutPlan,
        documents: Mapping[str, JsonObject],
        state: RolloutState,
        holds: Mapping[str, Hold],
        *,
        renew: bool,
    ) -> None:
        for binding in plan.waiting:
            message = WAITS_FOR_MEMBER + holds[binding.cluster].message
            self._mark(family, documents[binding.name], started=False, message=message)
        for binding in plan.blocked:
            document, message = documents[binding.name], blocked_reason(plan, binding)
            self._mark(family, document, started=False, message=message, renew=renew or waits_for_member(document))
        for binding in plan.up_to_date:
            self._mark(family, documents[binding.name], started=True, message="on the latest resources")
        snapshot, overrides = state.snapshot, state.overrides
        if plan.action is not Action.ROLL or snapshot is None:
            return
        bind = (
            self._bind(
                family, binding, bound(documents[binding.name], snapshot, overrides.get(binding.cluster, NO_OVERRIDES))
            )
            for binding in (*plan.update, *plan.bind)
        )
        remove = (remove_meant(self._hub, family.binding, documents[binding.name]) for binding in plan.remove)
        await at_once([*bind, *remove])

    async def _bind(self, family: Family, binding: BindingView, document: JsonObject) -> None:
        stored = await self._hub.replace(family.binding, document)
        message = f"rolling out {document['spec']['resourceSnapshotName']} to {binding.cluster}"
        self._mark(family, stored, started=True, message=message)

    def _mark(self, family: Family, document: JsonObject, *, started: bool, message: str, renew: bool = True) -> None:
        status = rollout_started_status(document, started=started, message=message, now=self._now(), renew=renew)
        if status is not None:
            self._hub.report(family.binding, document, status)


def waits_for_member(binding: JsonObject) -> bool:
    """Say whether a binding says that its rollout waits for its member."""
    said = current_condition(binding, ROLLOUT_STARTED) or {}
    return str(said.get("message") or "").startswith(WAITS_FOR_MEMBER)
