"""Active disruptions of each member cluster, kept up to date with the cache, so that a question reads one member."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final

from scorer.api import kinds
from scorer.api.family import CLUSTER, FAMILIES, Family, placement_ref
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import annotation, name_of, spec_of
from scorer.member_gate.holds import (
    Hold,
    MemberDisruption,
    eviction_hold,
    reserved_holds,
    rollout_hold,
    staged_update_holds,
    upgrade_holds,
)
from scorer.reservations import MEMBER, Reservation, UnreadableReservationsError
from scorer.rollout.bindings import BindingView, is_rolling
from scorer.rollout.removal.eviction import EVICTED_BINDING, is_in_progress
from webhook.kube.cache.changes import Broadcaster, Handler, ObjectDelta
from webhook.kube.cache.informer import Cache
from webhook.kube.listers.placements import children
from webhook.kube.ports import Key, key_of

_SEEN_IN: Final[Mapping[MemberDisruption, tuple[Kind, ...]]] = {
    MemberDisruption.EVICTION: (kinds.EVICTION, CLUSTER.binding),
    MemberDisruption.ROLLOUT: tuple(family.binding for family in FAMILIES),
    MemberDisruption.STAGED_UPDATE: tuple(family.run for family in FAMILIES),
    MemberDisruption.UPGRADE: (kinds.UPGRADE_RUN,),
}

Known = Callable[[str, str], Iterable[Reservation]]
"""Returns the active reservations of an object at a gate. Raises `UnreadableReservationsError`."""


def seen_in(disruptions: Collection[MemberDisruption]) -> tuple[Kind, ...]:
    """Return the kinds of objects that show these disruptions, without duplicates."""
    return tuple(
        dict.fromkeys(kind for purpose in MemberDisruption if purpose in disruptions for kind in _SEEN_IN[purpose])
    )


class HubMemberHolds:
    """Holds on the members of a hub.

    Args:
        cache: Cache of the hub. The class adds the watches that it needs.
        disruptions: Kinds of disruption that are gated. Others are ignored.
        reservations: Returns reservations, which count for every kind of disruption.
    """

    def __init__(
        self,
        cache: Cache,
        disruptions: Collection[MemberDisruption],
        reservations: Known,
    ) -> None:
        self._cache = cache
        self._reservations = reservations
        self._changed = Broadcaster[str]()
        self._evictions: dict[str, dict[str, JsonObject]] = defaultdict(dict)
        self._by_source: dict[tuple[str, Key], Mapping[str, Hold]] = {}
        self._by_member: dict[str, dict[tuple[str, Key], Hold]] = {}
        self._ends: list[Callable[[], None]] = []
        cache.require(seen_in(disruptions))
        if MemberDisruption.EVICTION in disruptions:
            self._follow(kinds.EVICTION, self._take_eviction)
        if MemberDisruption.ROLLOUT in disruptions:
            for family in FAMILIES:
                self._follow(family.binding, partial(self._take, partial(_rollout_holds, family)))
        if MemberDisruption.STAGED_UPDATE in disruptions:
            for kind in _SEEN_IN[MemberDisruption.STAGED_UPDATE]:
                self._follow(kind, partial(self._take, staged_update_holds))
        if MemberDisruption.UPGRADE in disruptions:
            self._follow(kinds.UPGRADE_RUN, partial(self._take, upgrade_holds))

    def subscribe(self, handler: Callable[[str], None]) -> Callable[[], None]:
        """Call *handler* with the name of every member whose holds change. Return the unsubscriber.

        The end of an eviction does not trigger a call. The release of its reservation is a change of the reservations.
        """
        return self._changed.subscribe(handler)

    def end(self) -> None:
        """Unsubscribe from all changes."""
        for end in self._ends:
            end()

    def of(self, member: str) -> tuple[Hold, ...]:
        """Return the active disruptions and reservations of a member.

        If the reservations are unreadable, the member counts as held against every caller.
        """
        try:
            reservation_holds = tuple(reserved_holds(member, self._reservations(MEMBER, member)))
        except UnreadableReservationsError as error:
            reservation_holds = (Hold(None, "", str(error)),)
        return (*self.active_disruptions(member), *reservation_holds)

    def active_disruptions(self, member: str) -> tuple[Hold, ...]:
        """Return the active disruptions of a member, without reservations."""
        evictions = (
            eviction_hold(member, name, spec_of(eviction).get("placementName") or "")
            for name, eviction in self._evictions.get(member, {}).items()
            if is_in_progress(eviction, self._bindings(eviction))
        )
        return (*self._by_member.get(member, {}).values(), *evictions)

    def _bindings(self, eviction: JsonObject) -> list[JsonObject]:
        name = spec_of(eviction).get("placementName") or ""
        return children(self._cache, CLUSTER.binding, placement_ref(name))

    def _follow(self, kind: Kind, handler: Handler) -> None:
        self._ends.append(self._cache.subscribe(kind, handler))

    def _take_eviction(self, change: ObjectDelta) -> None:
        """Track an eviction that has recorded its binding. A question checks whether the binding still exists."""
        for document in change:
            if document is None or not annotation(document, EVICTED_BINDING):
                continue
            member = spec_of(document).get("clusterName") or ""
            if document is change.new:
                self._evictions[member][name_of(document)] = document
            elif change.new is None and (evictions := self._evictions.get(member)) is not None:
                evictions.pop(name_of(document), None)
                if not evictions:
                    del self._evictions[member]

    def _take(self, reader: Callable[[JsonObject], Mapping[str, Hold]], change: ObjectDelta) -> None:
        source = (str(change.document.get("kind")), key_of(change.document))
        before, after = self._by_source.get(source, {}), reader(change.new) if change.new is not None else {}
        if before == after:
            return
        if after:
            self._by_source[source] = after
        else:
            del self._by_source[source]
        for member in before.keys() | after.keys():
            holds = self._by_member.setdefault(member, {})
            holds.pop(source, None)
            if member in after:
                holds[source] = after[member]
            elif not holds:
                del self._by_member[member]
        for member in sorted(before.keys() ^ after.keys()):
            self._changed.publish(member)


def _rollout_holds(family: Family, binding: JsonObject) -> Mapping[str, Hold]:
    try:
        view = BindingView.of(binding)
    except ValueError:  # the rollout reports the invalid binding
        return {}
    return {view.cluster: rollout_hold(view.cluster, str(family.parent(binding)))} if is_rolling(view) else {}
