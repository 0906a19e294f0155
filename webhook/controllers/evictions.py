"""Evictions: take a placement off one member cluster, once, within the disruption budget.

One at a time, and each decides on what the store says now, not on what was last heard of it: the budget, the placement
and the eviction are read uncached, and its bindings are listed into the cache before they are counted. What this
process has written itself is in the cache anyway, also statuses that are not stored yet; so a binding that the
eviction before has deleted, or that the rollout has just found unavailable, counts as what it is. The deletion carries
the resource version that was decided on: whoever writes to that binding in between (its rollout, its status, a
deletion by hand) makes it fail, and everything is decided anew. What remains is that another binding of the placement
becomes unavailable by itself, or by somebody else's hand, while the deletion is under way; nobody can rule that out.

Before it deletes, an eviction says which binding it means: `scorer.rollout.eviction` says why.

Source: rollout.md 19.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime

from scorer.api.kinds import BINDING, DISRUPTION_BUDGET, EVICTION, PLACEMENT, Kind
from scorer.api.label_selector import dns_subdomain_error, label_value_error
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_PLACEMENT
from scorer.rollout.documents import is_deleting, name_of, spec_of
from scorer.rollout.eviction import Eviction, decide_eviction, eviction_status, is_finished, meaning
from webhook.controllers.family import CLUSTER
from webhook.controllers.result import DONE, Result, RetryError
from webhook.kube.hub import Hub
from webhook.kube.ports import Key, NotFoundError
from webhook.services import PlacementRef


class EvictionController:
    """Answers one eviction at a time, also when several workers ask it to.

    Args:
        hub: Where everything is.
        now: The clock.
    """

    def __init__(self, hub: Hub, now: Callable[[], datetime]) -> None:
        self._hub = hub
        self._now = now
        self._turn = asyncio.Lock()

    async def reconcile(self, name: str) -> Result:
        """Give the eviction called *name* its answer, unless it has one.

        Raises:
            ConflictError: Somebody wrote to the eviction or the binding first; the queue tries again.
            RetryError: A binding of the placement cannot be read.
        """
        async with self._turn:
            known = self._hub.cache.get(EVICTION, name)
            if known is None or is_finished(known):
                return DONE
            eviction = await self._newest(known)
            if eviction is None or is_deleting(eviction) or is_finished(eviction):
                return DONE
            await self._answer(eviction)
            return DONE

    async def _answer(self, eviction: JsonObject) -> None:
        while True:
            outcome, binding = await self._decide(eviction)
            if binding is None:
                break
            if (meant := meaning(eviction, binding)) is None:
                await self._hub.delete(BINDING, binding, this_version=True)
                break
            try:
                eviction = await self._hub.replace(EVICTION, meant)
            except NotFoundError:  # withdrawn
                return
        self._hub.report(EVICTION, eviction, eviction_status(eviction, outcome, self._now()))

    async def _decide(self, eviction: JsonObject) -> tuple[Eviction, JsonObject | None]:
        """Return what the eviction comes to, and the binding that has to be deleted for it."""
        name = spec_of(eviction).get("placementName") or ""
        placement = budget = None
        if not dns_subdomain_error(name):  # no object has any other name, and none is asked for by one
            placement = await self._find(PLACEMENT, name)
            budget = await self._find(DISRUPTION_BUDGET, name)
            if not label_value_error(name):  # bindings know their placement by a label
                await self._catch_up(name)
        ref = PlacementRef(PLACEMENT.kind, name)
        bindings = CLUSTER.children(self._hub.cache, BINDING, ref)
        try:
            outcome = decide_eviction(eviction, placement, bindings, budget)
        except ValueError as error:
            raise RetryError(f"a binding of placement {name} cannot be read: spec.state: {error}") from error
        doomed = (binding for binding in bindings if outcome.deletes and name_of(binding) == outcome.binding)
        return outcome, next(doomed, None)

    async def _newest(self, eviction: JsonObject) -> JsonObject | None:
        """Return an eviction as it is stored; None when it is gone. An answer that is on its way there counts."""
        stored = await self._find(EVICTION, name_of(eviction))
        shelf = self._hub.cache.shelf(EVICTION)
        if stored is None:
            shelf.drop(eviction)
            return None
        shelf.put(stored)
        return self._hub.cache.get(EVICTION, name_of(eviction))

    async def _find(self, kind: Kind, name: str) -> JsonObject | None:
        try:
            return await self._hub.store.get(kind, Key(name))
        except NotFoundError:
            return None

    async def _catch_up(self, placement: str) -> None:
        """Bring what the cache knows of the bindings of a placement up to the store's state of this moment."""
        shelf = self._hub.cache.shelf(BINDING)
        before = CLUSTER.children(self._hub.cache, BINDING, PlacementRef(PLACEMENT.kind, placement))
        listing = await self._hub.store.list(BINDING, labels={PARENT_PLACEMENT: placement})
        listed = {name_of(binding) for binding in listing.items}
        for binding in listing.items:
            shelf.put(binding)
        for binding in before:
            if name_of(binding) not in listed:
                shelf.drop(binding)
