"""Judgment of objects that leave a placement: which are removed now, and which wait for confirmation.

The effect is the difference between the placed and the selected objects. Its extent is measured against all selections
within the window, so a series of single deletions counts as one effect.

Source: docs/specifications/removal.md 2, 3 and 6.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import is_deleting, uid_of
from scorer.rollout.confirmation.digests import (
    CarriedOut,
    Confirmation,
    RemovalEffect,
    RemovalItem,
    confirmable_groups,
    fitting_digests,
    rolled_up_digest,
)
from scorer.rollout.confirmation.exemption import Exemptions
from scorer.rollout.confirmation.policy import ConfirmationMode, RemovalPolicy, strictest
from scorer.rollout.confirmation.sources import (
    MOST_GROUPS,
    ObjectSource,
    PlacedObject,
    format_sources,
    has_pending,
    placed_objects,
    unwrapped_objects,
    with_pending,
)
from scorer.rollout.confirmation.window import recent_groups, retained_groups
from scorer.rollout.object_size import ObjectIdentity, by_identity, namespace_identity, object_identity
from scorer.rollout.selection.content import resource_identifier
from scorer.rollout.selection.selector import InvalidSelection, Selection, order_key
from scorer.rollout.snapshots.content_record import NO_RECORD, ContentRecord
from scorer.rollout.snapshots.groups import SnapshotGroup, latest_group, placed_group
from scorer.rollout.snapshots.resources import is_envelope

MANY: Final = 10
"""A loss of more objects or clusters than this is many, regardless of the share."""
FEW: Final = 3
"""A loss of fewer than this is not a large share, even if it is more than half."""


def is_large_share(loss: int, total: int) -> bool:
    """Return whether a loss is more than half of *total*, and at least `FEW`."""
    return loss >= FEW and 2 * loss > total


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """The selection of a placement, its placed content, and its confirmations.

    Args:
        policy: Removal policy of the placement.
        placement: The placement.
        selected: The selected objects as they are placed, envelopes wrapped.
        uids: Uids of the selected objects on the hub.
        groups: All resource snapshots of the placement.
        namespace: Returns a Namespace on the hub. None: unknown or deleted.
        now: The current time.
        released: Objects that members keep although they are no longer selected. They do not count as removed.
    """

    policy: RemovalPolicy
    placement: JsonObject
    selected: Sequence[JsonObject]
    uids: Mapping[ObjectIdentity, str]
    groups: Sequence[SnapshotGroup]
    namespace: Callable[[str], JsonObject | None]
    now: datetime
    released: Collection[ObjectIdentity] = ()


@dataclass(frozen=True, slots=True)
class ObjectJudgement:
    """The content to place, and the verdict on objects that are no longer selected.

    Args:
        objects: The content to place, in the order of snapshots: the selection, and the pending objects.
        sources: Source of each of *objects*, by identity.
        pending: Items that wait for confirmation.
        warned: Items removed with a warning.
        confirmed: The digests that are carried out now.
        retained: Names of the snapshots that the window needs. They remain in the history beyond its limit.
    """

    objects: tuple[JsonObject, ...]
    sources: Mapping[ObjectIdentity, ObjectSource]
    pending: tuple[RemovalItem, ...] = ()
    warned: tuple[RemovalItem, ...] = ()
    confirmed: frozenset[str] = frozenset()
    retained: frozenset[str] = frozenset()


def judge_objects(facts: ObjectFacts) -> ObjectJudgement:
    """Return the content to place, and the verdict on objects that are placed and no longer selected."""
    return _Judge(facts).judgement()


def judge_selection(
    policy: RemovalPolicy,
    placement: JsonObject,
    selection: Selection | InvalidSelection,
    groups: Sequence[SnapshotGroup],
    namespace: Callable[[str], JsonObject | None],
    now: datetime,
) -> ObjectJudgement | None:
    """Return the verdict on objects that are placed and no longer selected. None: disabled.

    For an invalid selection, only confirmed objects are removed, and the result is also None if no removals are pending
    or confirmed.

    Args:
        policy: Removal policy of the placement.
        placement: The placement.
        selection: Its selection.
        groups: All of its resource snapshots.
        namespace: Returns a Namespace on the hub. None: unknown or deleted.
        now: The current time.
    """
    if isinstance(selection, InvalidSelection):
        judgement = None
        if selection.rest:
            judgement = judge_selection(policy, placement, selection.rest, groups, namespace, now)
        return judgement if judgement and (judgement.pending or judgement.confirmed) else None
    if policy.is_off:
        return None
    released = frozenset(selection.cluster_objects)
    objects, uids = selection.objects, selection.uids
    return judge_objects(ObjectFacts(policy, placement, objects, uids, groups, namespace, now, released))


def placed_selection(selection: Selection, judgement: ObjectJudgement | None) -> Selection:
    """Return a selection together with the objects whose removal is pending."""
    if judgement is None:
        return selection
    identifiers = tuple(map(resource_identifier, judgement.objects))
    return replace(selection, objects=judgement.objects, identifiers=identifiers)


def content_record(judgement: ObjectJudgement | None) -> ContentRecord:
    """Return the record of the snapshots that hold the judged objects."""
    if judgement is None:
        return NO_RECORD
    return ContentRecord(partial(format_sources, judgement.sources), judgement.retained, bool(judgement.confirmed))


class _Judge:
    def __init__(self, facts: ObjectFacts) -> None:
        self._facts = facts
        self._uid = uid_of(facts.placement)
        self._sources = {
            identity: ObjectSource(facts.uids.get(identity, "")) for identity in map(object_identity, facts.selected)
        }
        selected = unwrapped_objects(
            facts.selected, [self._sources[object_identity(content)] for content in facts.selected]
        )
        self._selected = selected.keys()
        base = placed_group(facts.groups) or latest_group(facts.groups)
        self._base = base
        self._placed = placed_objects(base) if base else {}
        self._index = base.index if base else -1
        self._recent = recent_groups(facts.groups, facts.policy.window, facts.now)
        leaving = sorted(self._placed.keys() - self._selected - set(facts.released))
        earlier_groups = [group for group in self._recent if group is not base] if leaving else []
        self._recently_placed = [self._placed, *map(placed_objects, earlier_groups)]
        self._exemptions = Exemptions(facts.policy, facts.placement, self._recently_placed, facts.namespace, facts.now)
        self._leaving = [identity for identity in leaving if not self._exemptions.covers(identity)]
        self._confirmation = Confirmation.of(facts.placement, facts.now)
        self._carried_out = CarriedOut.of(facts.placement)
        self._record = self._carried_out.without_expired(facts.now)
        self._by_kind: dict[tuple[str, str, str], str] | None = None

    def judgement(self) -> ObjectJudgement:
        facts = self._facts
        units: dict[RemovalItem, list[ObjectIdentity]] = defaultdict(list)
        for identity in self._leaving:
            units[self._unit(identity)].append(identity)
        unit_members = {replace(item, objects=len(members)): members for item, members in units.items()}
        confirmed = self._confirmed_items(unit_members)
        unconfirmed_units = {item: members for item, members in unit_members.items() if item not in confirmed}
        confirmed_objects = {identity for item in confirmed for identity in unit_members[item]}
        is_many = self._are_many(confirmed_objects)
        modes = {item: self._mode(item, members, is_many=is_many) for item, members in unconfirmed_units.items()}
        waiting_units = {
            item: unconfirmed_units[item] for item, mode in modes.items() if mode is ConfirmationMode.CONFIRM
        }
        pending = self._pending(waiting_units)
        objects, sources = with_pending(facts.selected, self._sources, pending, self._envelopes())
        return ObjectJudgement(
            tuple(sorted(objects, key=order_key)),
            sources,
            tuple(
                sorted(
                    replace(item, since=min(_since(pending[identity]) for identity in waiting_units[item]))
                    for item in waiting_units
                )
            ),
            tuple(sorted(item for item, mode in modes.items() if mode is ConfirmationMode.WARN)),
            frozenset(confirmed.values()),
            retained_groups(facts.groups, facts.policy.window, facts.now),
        )

    def _confirmed_items(self, units: Mapping[RemovalItem, Sequence[ObjectIdentity]]) -> dict[RemovalItem, str]:
        """Return the confirmed items with their digests, as many as fit into the record."""
        accepted_digests = {
            item: digest for item, members in units.items() if (digest := self._confirming_digest(item, members))
        }
        recordable_digests = fitting_digests(
            accepted_digests.values(), self._facts.placement, self._confirmation.expiry, self._facts.now
        )
        return {item: digest for item, digest in accepted_digests.items() if digest in recordable_digests}

    def _unit(self, identity: ObjectIdentity) -> RemovalItem:
        """Return the item of an object: its Namespace if that is removed as well or deleted on the hub, else its own.

        An object that is confirmed by itself remains its own item.
        """
        own_item = RemovalItem(RemovalEffect.OBJECT, identity, self._placed[identity].uid)
        if not identity[2] or self._is_accepted(own_item.digest(self._uid)):
            return own_item
        home = namespace_identity(identity[2])
        if home in self._placed:
            return (
                own_item if home in self._selected else RemovalItem(RemovalEffect.OBJECT, home, self._placed[home].uid)
            )
        document = self._facts.namespace(identity[2])
        if document is None or is_deleting(document):
            return RemovalItem(RemovalEffect.OBJECT, home, uid_of(document or {}))
        return own_item

    def _is_accepted(self, digest: str) -> bool:
        """Return whether a digest is confirmed, and not yet spent."""
        confirmation = self._confirmation
        return digest in confirmation.digests and not self._record.is_spent(digest, confirmation.expiry, self._index)

    def _confirming_digest(self, item: RemovalItem, members: Iterable[ObjectIdentity]) -> str:
        """Return the digest that confirms an item. Empty: unconfirmed."""
        if not self._confirmation.digests:
            return ""
        group_digests = {group for identity in members for group in self._placed[identity].groups}
        candidates = (item.digest(self._uid), *sorted(group_digests), self._whole_kinds().get(item.identity[:3], ""))
        return next(filter(self._is_accepted, candidates), "")

    def _whole_kinds(self) -> Mapping[tuple[str, str, str], str]:
        """Return the digest of all placed objects per group, kind and namespace. It confirms the removal of all.

        Computed once: with 10,000 pending objects, each of them looks up the digest of its kind.
        """
        if self._by_kind is None:
            items: dict[tuple[str, str, str], list[RemovalItem]] = defaultdict(list)
            for identity, placed in self._placed.items():
                items[identity[:3]].append(RemovalItem(RemovalEffect.OBJECT, identity, placed.uid))
            self._by_kind = {kind: rolled_up_digest(self._uid, kind_items) for kind, kind_items in items.items()}
        return self._by_kind

    def _are_many(self, confirmed: set[ObjectIdentity]) -> bool:
        """Return whether the objects lost within the window are all objects, or many."""
        selections = [self._countable_objects(placed) - confirmed for placed in self._recently_placed]
        present, largest = selections[0], max(selections, key=len)
        loss = len(largest - self._selected)
        largest_loss = max(len(selection - self._selected) for selection in selections)
        loses_all = any(selection and selection.isdisjoint(self._selected) for selection in (present, largest))
        return loses_all or largest_loss > MANY or is_large_share(loss, len(largest))

    def _countable_objects(self, placed: Mapping[ObjectIdentity, PlacedObject]) -> set[ObjectIdentity]:
        """Return the objects of a snapshot, without unselected ones that are exempt or were removed as confirmed."""
        return {
            identity
            for identity, placed_object in placed.items()
            if identity in self._selected
            or not (self._exemptions.covers(identity) or self._is_carried_out(identity, placed_object))
        }

    def _is_carried_out(self, identity: ObjectIdentity, placed: PlacedObject) -> bool:
        until = self._carried_out.until
        if not until or identity in self._placed:
            return False
        digest = RemovalItem(RemovalEffect.OBJECT, identity, placed.uid).digest(self._uid)
        return digest in until or any(group in until for group in placed.groups)

    def _mode(self, item: RemovalItem, members: Sequence[ObjectIdentity], *, is_many: bool) -> ConfirmationMode:
        """Return the mode of an item. A pending item keeps that of many objects, even if the others are confirmed."""
        policy = self._facts.policy
        is_many = is_many or any(self._placed[identity].since is not None for identity in members)
        kinds = {(item.identity[0], item.identity[1]), *((group, kind) for group, kind, _, _ in members)}
        modes = [policy.objects, *([policy.many_objects] if is_many else [])]
        return strictest([*modes, *(policy.data for kind in kinds if policy.holds_data(*kind))])

    def _pending(
        self, waiting_units: Mapping[RemovalItem, Sequence[ObjectIdentity]]
    ) -> dict[ObjectIdentity, PlacedObject]:
        now = self._facts.now.replace(microsecond=0)
        rolled_up = {
            item: group.digest
            for group in confirmable_groups(self._uid, waiting_units)
            if len(group.items) > 1
            for item in group.items
        }
        pending: dict[ObjectIdentity, PlacedObject] = {}
        for item, members in waiting_units.items():
            for identity in members:
                placed = self._placed[identity]
                shared_digests = [rolled_up.get(item, ""), "" if item.identity == identity else item.digest(self._uid)]
                new_digests = [digest for digest in shared_digests if digest and digest not in placed.groups]
                groups = (*new_digests, *placed.groups)[:MOST_GROUPS]
                pending[identity] = replace(placed, since=placed.since or now, groups=groups)
        return pending

    def _envelopes(self) -> dict[ObjectIdentity, JsonObject]:
        return by_identity(filter(is_envelope, self._base.objects())) if self._base else {}


def _since(placed: PlacedObject) -> datetime:
    assert placed.since is not None
    return placed.since


def pending_objects(group: SnapshotGroup | None) -> tuple[RemovalItem, ...]:
    """Return the items that a snapshot group records as pending, without judging again.

    The objects in a pending Namespace belong to the item of the Namespace.
    """
    placed = placed_objects(group) if group and has_pending(group) else {}
    pending = {identity: placed_object for identity, placed_object in placed.items() if placed_object.since is not None}
    items: dict[ObjectIdentity, list[ObjectIdentity]] = defaultdict(list)
    for identity in pending:
        home = namespace_identity(identity[2])
        items[home if home in pending else identity].append(identity)
    return tuple(
        sorted(
            RemovalItem(
                RemovalEffect.OBJECT,
                identity,
                pending[identity].uid,
                objects=len(members),
                since=min(_since(pending[member]) for member in members),
            )
            for identity, members in items.items()
        )
    )
