"""Evictions: remove a placement from one member cluster, once, within the disruption budget.

Evictions are decided one at a time, on the state of the store instead of the watch: the budget, the placement and the
eviction are read from the store, and the bindings are relisted into the cache before they are counted. Writes of this
process are in the cache anyway, including statuses that are not stored yet. So a binding counts correctly if the
previous eviction has deleted it, or if the rollout has just found it unavailable.

The deletion carries the resource version of the decision. If the binding was written in between (by its rollout, by a
status update, or by a user who deleted it), the deletion fails and is decided again. One race remains: another binding
of the placement may become unavailable, or be deleted by another client, during the deletion. No precondition covers
two objects.

Before the deletion, the binding is recorded on the eviction, for the reason in `scorer.rollout.removal.eviction`.

If members are reserved, an eviction reserves its member first. While another disruption holds the member, the eviction
remains pending and reports what it waits for. The reservation lasts until the binding is deleted. An eviction does not
wait for the rollout of its own placement: that rollout ends with the binding, even if it hangs.

Source: docs/specifications/rollout.md 19.
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
    waiting_status,
    with_evicted_binding,
)
from scorer.rollout.removal.marks import is_marked_for_removal, without_removal_mark
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
    """Decides one eviction at a time, even if several workers call it.

    Args:
        hub: The hub cluster.
        now: The clock.
        turns: Reserves members. None: disabled, evictions do not wait.
        record: Records Events.
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
        """Evictions whose member this process has reserved, as last seen."""

    def wiring(self) -> Wiring[str]:
        """Return the wiring: evictions, and with reservations also free members and deleted bindings."""
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
        yield Watch(EVICTION, _eviction_keys)
        if self._turns is not None:
            yield Watch(EVICTION, _withdrawn)
            yield Watch(BINDING, self._of_binding)
            yield Signal(self._turns.subscribe, self._of_member)

    def _owner(self, name: str) -> str | None:
        """Return the placement of an eviction, or None if the eviction is unknown.

        All evictions of a placement share one budget, and delete its bindings.
        """
        eviction = self._hub.cache.get(EVICTION, name) or self._reserving.get(name)
        return None if eviction is None else str(placement_ref(text_at(eviction, "spec", "placementName")))

    def _of_binding(self, change: ObjectDelta) -> Iterator[str]:
        """Yield the eviction of a deleted binding, to release its member."""
        if change.new is None:
            uid = change.document["metadata"].get("uid")
            evictions = self._hub.cache.of_kind(EVICTION).objects.values()
            yield from (name_of(eviction) for eviction in evictions if annotation(eviction, EVICTED_BINDING) == uid)

    def _of_member(self, member: str) -> Iterator[str]:
        """Yield the evictions that wait for a member, which may be free now."""
        evictions = self._hub.cache.of_kind(EVICTION).objects.values()
        yield from (name_of(eviction) for eviction in evictions if eviction["spec"].get("clusterName") == member)

    async def reconcile(self, name: str) -> Result:
        """Decide the eviction *name* and carry it out, or renew or release its reservation if it is decided.

        Raises:
            ConflictError: Another client wrote to the eviction or the binding first. The queue retries.
            StuckError: A binding of the placement is invalid.
            StoreError: The hub refused a request, or did not respond.
        """
        async with self._turn:  # two concurrent ones would count the same bindings and exceed the budget
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
                continue  # reserving took a while: decide again on the present state
            # Two writes: first the record on the eviction, then the deletion. After a crash in between, the record
            # tells the next leader which binding was meant. A deletion without it could not be attributed.
            if (marked := with_evicted_binding(eviction, binding)) is None:
                await mark_and_delete(self._hub, BINDING, binding)
                break
            try:
                eviction = await self._hub.amend(EVICTION, marked)
            except NotFoundError:  # a user has withdrawn it
                return await self._follow_withdrawn(name_of(eviction))
        return await self._follow(self._hub.report(EVICTION, eviction, eviction_status(eviction, outcome, self._now())))

    async def _take_back(self, eviction: JsonObject) -> None:
        """Remove the removal mark from the eviction's binding: the decision has changed."""
        uid = annotation(eviction, EVICTED_BINDING)
        ref = placement_ref(text_at(eviction, "spec", "placementName"))
        for binding in children(self._hub.cache, BINDING, ref) if uid else ():
            if binding["metadata"].get("uid") == uid and is_marked_for_removal(binding) and not is_deleting(binding):
                await self._hub.replace(BINDING, without_removal_mark(binding))

    async def _take_turn(self, eviction: JsonObject) -> Hold | None:
        assert self._turns is not None
        # Before the request: it may fail here although it was stored, and must be released then, too.
        self._reserving[name_of(eviction)] = eviction
        ref = placement_ref(text_at(eviction, "spec", "placementName"))
        holder = eviction_holder(name_of(eviction))
        return await self._turns.reserve(_member(eviction), holder, ending=rollout_holder(str(ref)))

    def _wait(self, eviction: JsonObject, hold: Hold) -> Result:
        """Report what an eviction waits for, once."""
        status = waiting_status(eviction, f"the eviction is allowed, but waits: {hold.message}", self._now())
        if status != status_of(eviction):
            self._hub.report(EVICTION, eviction, status)
            self._record(eviction, Event("EvictionWaits", f"waits: {hold.message}"))
        return Result(RESERVATION_POLL_INTERVAL)

    async def _follow(self, eviction: JsonObject, *, withdrawn: bool = False) -> Result:
        """Renew the reservation of the member until the binding of a decided eviction is deleted."""
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
        """Renew or release the reservation of a deleted eviction's member, as `_follow` does."""
        eviction = self._reserving.get(name)
        return DONE if eviction is None else await self._follow(eviction, withdrawn=True)

    async def _decide(self, eviction: JsonObject) -> tuple[Eviction, JsonObject | None]:
        """Return the outcome of the eviction, and the binding to delete, or None if it deletes none.

        Raises:
            StuckError: A binding of the placement is invalid.
        """
        name = text_at(eviction, "spec", "placementName")
        placement = budget = None
        if not dns_subdomain_error(name):  # otherwise no object can have that name
            placement = await self._find(PLACEMENT, name)
            budget = await self._find(DISRUPTION_BUDGET, name)
            if not label_value_error(name):  # bindings carry the name of their placement in a label
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
        """Return the stored eviction, with its outcome even if that is not stored yet, or None if it is deleted."""
        current = await self._find(EVICTION, name_of(eviction))
        evictions = self._hub.cache.of_kind(EVICTION)
        if current is None:
            evictions.drop(eviction)
            return None
        evictions.put(current)
        return self._hub.cache.get(EVICTION, name_of(eviction))

    async def _find(self, kind: Kind, name: str) -> JsonObject | None:
        try:
            return await self._hub.store.get(kind, Key(name))
        except NotFoundError:
            return None

    async def _catch_up(self, placement: str) -> None:
        """Relist the bindings of a placement into the cache."""
        cached = children(self._hub.cache, BINDING, placement_ref(placement))
        await refresh_list(self._hub.cache, self._hub.store, BINDING, {PARENT_PLACEMENT: placement}, cached)


def _member(eviction: JsonObject) -> str:
    return text_at(eviction, "spec", "clusterName")


def _eviction_keys(change: ObjectDelta) -> Iterator[str]:
    """Yield an eviction that is new, or whose spec or deletion mark has changed."""
    if change.new is not None and change.touches(desired):
        yield name_of(change.new)


def _withdrawn(change: ObjectDelta) -> Iterator[str]:
    """Yield a deleted eviction: it may have reserved its member."""
    if change.new is None:
        yield name_of(change.document)
