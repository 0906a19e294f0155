"""Evictions: take a placement off one member cluster, once, within the disruption budget.

They are answered one at a time, and each is decided on what the store says now, not on what the watch said last: the
budget, the placement and the eviction are read from the store, and the bindings are listed into the cache before they
are counted. What this process has written itself is in the cache anyway, also statuses that are not stored yet; so a
binding that the eviction before has deleted, or that the rollout has just found unavailable, counts as what it is. The
deletion carries the resource version that was decided on: any write to that binding in between (by its rollout, of its
status, a deletion by a user) makes it fail, and everything is decided again. One gap remains: another binding of the
placement may become unavailable, or be deleted by another client, while the deletion is under way. No precondition
covers two objects.

Before it deletes, an eviction notes which binding it means: `scorer.rollout.removal.eviction` says why.

With turns, an eviction that may be executed reserves the member first. While something else disrupts the member, the
eviction has no answer yet, says what it waits for, and goes on when that has ended. The reservation lasts until the
binding is gone. An eviction does not wait for the rollout of its own placement: that ends with the binding, even when
it hangs.

Source: rollout.md 19.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime

from scorer.api.event import Event
from scorer.api.family import placement_ref
from scorer.api.kinds import BINDING, DISRUPTION_BUDGET, EVICTION, PLACEMENT, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_PLACEMENT
from scorer.api.unstructured.documents import annotation, is_deleting, name_of, status_of, text_at
from scorer.api.values.name_grammar import dns_subdomain_error, label_value_error
from scorer.member_gate.holds import Hold, eviction_holder, rollout_holder
from scorer.rollout.removal.eviction import (
    EVICTED_BINDING,
    Eviction,
    decide_eviction,
    eviction_status,
    is_finished,
    is_in_progress,
    meaning,
    waiting_status,
)
from scorer.rollout.removal.marks import is_marked_for_removal, unmeant
from webhook.controllers.machinery.failures import concerned_of
from webhook.controllers.machinery.result import DONE, Result, StuckError
from webhook.controllers.machinery.wiring import Signal, Waker, Watch, Wiring
from webhook.controllers.members.reservations import RESERVATION_POLL_INTERVAL, MemberReservations
from webhook.controllers.placements.deletion import mark_and_delete
from webhook.kube.cache.changes import ObjectDelta, desired
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.live_reads import refresh_list
from webhook.kube.listers.placements import children
from webhook.kube.ports import Key, NotFoundError

Record = Callable[[JsonObject, Event], None]


class EvictionController:
    """Answers one eviction at a time, even if several workers call it.

    Args:
        hub: Where everything is.
        now: The clock.
        turns: Reserves members; None: evictions wait for nothing.
        record: Tells of events.
    """

    def __init__(
        self,
        hub: Hub,
        now: Callable[[], datetime],
        turns: MemberReservations | None = None,
        record: Record = lambda _document, _event: None,
    ) -> None:
        self._hub = hub
        self._now = now
        self._turns = turns
        self._record = record
        self._turn = asyncio.Lock()
        self._reserving: dict[str, JsonObject] = {}
        """The evictions for which this process has reserved the member, as they were last seen."""

    def wiring(self) -> Wiring[str]:
        """Say what wakes it: evictions; with turns also members that may be free, and the end of evicted bindings."""
        turns = self._turns
        return Wiring(
            name="eviction",
            reconcile=self.reconcile,
            concerned=concerned_of(EVICTION),
            owner=self._owner,
            watches=tuple(self._watches()),
            resync=lambda: map(name_of, self._hub.cache.list(EVICTION)),
            workers=1,
            background=() if turns is None else turns.background,
            ends=() if turns is None else turns.ends,
        )

    def _watches(self) -> Iterator[Waker[str]]:
        yield Watch(EVICTION, _asked)
        if self._turns is not None:
            yield Watch(EVICTION, _withdrawn)
            yield Watch(BINDING, self._of_binding)
            yield Signal(self._turns.subscribe, self._of_member)

    def _owner(self, name: str) -> str | None:
        """Return its placement: all evictions from one count against one budget, and delete bindings of it."""
        eviction = self._hub.cache.get(EVICTION, name) or self._reserving.get(name)
        return None if eviction is None else str(placement_ref(text_at(eviction, "spec", "placementName")))

    def _of_binding(self, change: ObjectDelta) -> Iterator[str]:
        """Yield the eviction that has deleted a binding, once that is gone: it gives its member back."""
        if change.new is None:
            uid = change.document["metadata"].get("uid")
            evictions = self._hub.cache.of_kind(EVICTION).objects.values()
            yield from (name_of(eviction) for eviction in evictions if annotation(eviction, EVICTED_BINDING) == uid)

    def _of_member(self, member: str) -> Iterator[str]:
        """Yield the evictions from a member: it may be their turn now."""
        evictions = self._hub.cache.of_kind(EVICTION).objects.values()
        yield from (name_of(eviction) for eviction in evictions if eviction["spec"].get("clusterName") == member)

    async def reconcile(self, name: str) -> Result:
        """Give the eviction called *name* its answer, unless it has one.

        Raises:
            ConflictError: Another client wrote to the eviction or the binding first; the queue tries again.
            StuckError: A binding of the placement cannot be read.
        """
        async with self._turn:  # two at once would both count the same bindings as available, and overdraw the budget
            cached = self._hub.cache.get(EVICTION, name)
            if cached is None:
                return await self._follow_withdrawn(name)
            if is_finished(cached):
                return await self._follow(cached)
            eviction = await self._newest(cached)
            if eviction is None:
                return await self._follow_withdrawn(name)
            if is_deleting(eviction) or is_finished(eviction):
                return DONE
            return await self._answer(eviction)

    async def _answer(self, eviction: JsonObject) -> Result:
        has_turn = self._turns is None
        while True:
            outcome, binding = await self._decide(eviction)
            if binding is None:
                await self._take_back(eviction)
                break
            if not has_turn:
                if (hold := await self._take_turn(eviction)) is not None:
                    return self._wait(eviction, hold)
                has_turn = True
                continue  # reserving took a while: decide again on what holds now
            # Two writes: first the note on the eviction, stored, then the deletion. After a crash in between, the note
            # tells the next leader which binding was meant; deleted first, it could not tell who did it.
            if (marked := meaning(eviction, binding)) is None:
                await mark_and_delete(self._hub, BINDING, binding)
                break
            try:
                eviction = await self._hub.amend(EVICTION, marked)
            except NotFoundError:  # a user has withdrawn it
                return await self._follow_withdrawn(name_of(eviction))
        return await self._follow(self._hub.report(EVICTION, eviction, eviction_status(eviction, outcome, self._now())))

    async def _take_back(self, eviction: JsonObject) -> None:
        """Take the word that it is to go off the binding that the eviction meant, now that it was decided otherwise."""
        uid = annotation(eviction, EVICTED_BINDING)
        ref = placement_ref(text_at(eviction, "spec", "placementName"))
        for binding in children(self._hub.cache, BINDING, ref) if uid else ():
            if binding["metadata"].get("uid") == uid and is_marked_for_removal(binding) and not is_deleting(binding):
                await self._hub.replace(BINDING, unmeant(binding))

    async def _take_turn(self, eviction: JsonObject) -> Hold | None:
        assert self._turns is not None
        # Before the request: it may be stored though it fails here, and has to be given back then, too.
        self._reserving[name_of(eviction)] = eviction
        ref = placement_ref(text_at(eviction, "spec", "placementName"))
        holder = eviction_holder(name_of(eviction))
        return await self._turns.reserve(_member(eviction), holder, ending=rollout_holder(str(ref)))

    def _wait(self, eviction: JsonObject, hold: Hold) -> Result:
        """Say what an eviction waits for: once, however often it is reconciled."""
        status = waiting_status(eviction, f"the placement may be evicted, but waits: {hold.message}", self._now())
        if status != status_of(eviction):
            self._hub.report(EVICTION, eviction, status)
            self._record(eviction, Event("EvictionWaits", f"waits: {hold.message}"))
        return Result(RESERVATION_POLL_INTERVAL)

    async def _follow(self, eviction: JsonObject, *, withdrawn: bool = False) -> Result:
        """Keep the member reserved until the binding is gone that an answered eviction has deleted."""
        member, holder = _member(eviction), eviction_holder(name_of(eviction))
        if self._turns is None or not self._turns.holds(member, holder):
            self._reserving.pop(name_of(eviction), None)
            return DONE
        self._reserving[name_of(eviction)] = eviction
        ref = placement_ref(text_at(eviction, "spec", "placementName"))
        bindings = children(self._hub.cache, BINDING, ref)
        if is_in_progress(eviction, bindings, withdrawn=withdrawn):
            await self._turns.renew(member, holder)
            return Result(RESERVATION_POLL_INTERVAL)
        await self._turns.release(member, holder)
        del self._reserving[name_of(eviction)]
        return DONE

    async def _follow_withdrawn(self, name: str) -> Result:
        """Do the same for an eviction that is gone."""
        eviction = self._reserving.get(name)
        return DONE if eviction is None else await self._follow(eviction, withdrawn=True)

    async def _decide(self, eviction: JsonObject) -> tuple[Eviction, JsonObject | None]:
        """Return what the eviction comes to, and the binding that has to be deleted for it."""
        name = text_at(eviction, "spec", "placementName")
        placement = budget = None
        if not dns_subdomain_error(name):  # else no object can have that name
            placement = await self._find(PLACEMENT, name)
            budget = await self._find(DISRUPTION_BUDGET, name)
            if not label_value_error(name):  # bindings know their placement by a label
                await self._catch_up(name)
        ref = placement_ref(name)
        bindings = children(self._hub.cache, BINDING, ref)
        try:
            outcome = decide_eviction(eviction, placement, bindings, budget)
        except ValueError as error:
            raise StuckError(f"a binding of placement {name} cannot be read: spec.state: {error}") from error
        doomed = (binding for binding in bindings if outcome.deletes and name_of(binding) == outcome.binding)
        return outcome, next(doomed, None)

    async def _newest(self, eviction: JsonObject) -> JsonObject | None:
        """Return an eviction as it is stored; None when it is gone. An answer that is still to be stored counts."""
        current = await self._find(EVICTION, name_of(eviction))
        shelf = self._hub.cache.of_kind(EVICTION)
        if current is None:
            shelf.drop(eviction)
            return None
        shelf.put(current)
        return self._hub.cache.get(EVICTION, name_of(eviction))

    async def _find(self, kind: Kind, name: str) -> JsonObject | None:
        try:
            return await self._hub.store.get(kind, Key(name))
        except NotFoundError:
            return None

    async def _catch_up(self, placement: str) -> None:
        """Bring what the cache knows of the bindings of a placement up to the present state of the store."""
        cached = children(self._hub.cache, BINDING, placement_ref(placement))
        await refresh_list(self._hub.cache, self._hub.store, BINDING, {PARENT_PLACEMENT: placement}, cached)


def _member(eviction: JsonObject) -> str:
    return text_at(eviction, "spec", "clusterName")


def _asked(change: ObjectDelta) -> Iterator[str]:
    """Yield an eviction that is new, or whose spec or deletion mark has changed."""
    if change.new is not None and change.touches(desired):
        yield name_of(change.new)


def _withdrawn(change: ObjectDelta) -> Iterator[str]:
    """Yield an eviction that is gone: it may have reserved its member."""
    if change.new is None:
        yield name_of(change.document)
