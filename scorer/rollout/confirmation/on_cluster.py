"""Judgment of objects that leave one cluster while the placement still places them.

An override of type Delete removes an object from some clusters, and an update run may roll back to a snapshot without
it. Either effect is visible only in the Works of a cluster, so each cluster is judged by itself. After their
confirmation, pending objects remain until the rollout updates the binding. Otherwise all clusters would lose them
concurrently.

Source: docs/specifications/removal.md 6.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import orjson

from scorer.api.meta import JsonObject, dump_json, format_time, parse_time
from scorer.api.names import OBJECTS_PENDING
from scorer.api.unstructured.documents import annotation, manifests_of, uid_of
from scorer.rollout.bindings import ObjectRemoval, object_removal
from scorer.rollout.confirmation.digests import (
    CarriedOut,
    Confirmation,
    RemovalEffect,
    RemovalItem,
    confirmable_groups,
    fitting_digests,
)
from scorer.rollout.confirmation.exemption import Exemptions
from scorer.rollout.confirmation.objects import MANY, is_large_share
from scorer.rollout.confirmation.policy import ConfirmationMode, RemovalPolicy, strictest
from scorer.rollout.confirmation.sources import PlacedObject
from scorer.rollout.object_size import ObjectIdentity, object_identity

_LONGEST_RECORD: Final = 128 * 1024
"""Maximum size of the record on a binding in bytes, half of the limit for all annotations of an object."""


@dataclass(frozen=True, slots=True)
class LeavingObjects:
    """The objects that new Works of a binding would remove from its cluster.

    Args:
        present: All objects in its current Works.
        leaving: Objects that the new Works lack. The latest snapshot of the placement has them, unless another client
            has deleted the snapshot of the current Works.
        placed: Content of the latest snapshot.
        shown: All pending items of the placement. The roll-ups for users are computed from them.
        retained: Objects that the current Works keep until their removal is confirmed and ordered.
    """

    present: frozenset[ObjectIdentity]
    leaving: frozenset[ObjectIdentity]
    placed: Mapping[ObjectIdentity, PlacedObject]
    shown: tuple[RemovalItem, ...] = ()
    retained: frozenset[ObjectIdentity] = frozenset()


@dataclass(frozen=True, slots=True)
class LeavingJudgement:
    """The verdict on the objects that leave a cluster.

    Args:
        pending: Items that wait for confirmation.
        warned: Items removed with a warning.
        confirmed: Confirmed items.
        removal: Progress of the confirmed removal. None if no item is confirmed.
        digests: Digests of the items that are confirmed now. Items on record as confirmed have none.
    """

    pending: tuple[RemovalItem, ...] = ()
    warned: tuple[RemovalItem, ...] = ()
    confirmed: tuple[RemovalItem, ...] = ()
    removal: ObjectRemoval | None = None
    digests: frozenset[str] = frozenset()

    @property
    def retained(self) -> frozenset[ObjectIdentity]:
        """The objects that remain in the Works."""
        unordered_items = self.confirmed if self.removal is ObjectRemoval.CONFIRMED else ()
        return frozenset(item.identity for item in (*self.pending, *unordered_items))


def objects_in(works: Iterable[JsonObject]) -> frozenset[ObjectIdentity]:
    """Return the identities of the objects in the manifests of Works."""
    manifests = (manifest for work in works for manifest in manifests_of(work))
    return frozenset(object_identity(manifest) for manifest in manifests if isinstance(manifest, dict))


def judge_leaving(
    policy: RemovalPolicy,
    placement: JsonObject,
    binding: JsonObject,
    objects: LeavingObjects,
    exemptions: Exemptions,
    now: datetime,
) -> LeavingJudgement:
    """Return the verdict on the objects that would leave a cluster.

    Args:
        policy: Removal policy of the placement.
        placement: The placement.
        binding: Its binding on the cluster, with the record of pending items.
        objects: The objects that would leave the cluster.
        exemptions: Exempt namespaces of the placement.
        now: The current time.
    """
    identities = (identity for identity in sorted(objects.leaving) if not exemptions.covers(identity))
    items = [
        RemovalItem(RemovalEffect.OBJECT, identity, placed.uid if (placed := objects.placed.get(identity)) else "")
        for identity in identities
    ]
    record = object_record(binding)
    since = {item: item.since or now.replace(microsecond=0) for item in (*items, *record)}
    confirmed_earlier = [item for item in items if record.get(item)]
    accepted_digests = _confirmed_digests(
        placement, binding, [item for item in items if not record.get(item)], objects, now
    )
    confirmed = _recordable_items(
        replace(item, since=since[item]) for item in (*confirmed_earlier, *sorted(accepted_digests))
    )
    unconfirmed_set = frozenset(items).difference(confirmed)
    unconfirmed_items = [item for item in items if item in unconfirmed_set]
    is_many = (
        len(unconfirmed_items) > MANY
        or is_large_share(len(unconfirmed_items), len(objects.present))
        or 0 < len(objects.present) == len(unconfirmed_items)
    )
    modes = {item: _mode(policy, item, is_many=is_many or item in record) for item in unconfirmed_items}
    # An object that was never pending is removed by the update of the binding that drops it.
    is_new = any(item not in record and item.identity not in objects.retained for item in confirmed)
    is_ordered = is_new or object_removal(binding) is ObjectRemoval.ORDERED
    removal = ObjectRemoval.ORDERED if is_ordered else ObjectRemoval.CONFIRMED
    return LeavingJudgement(
        tuple(replace(item, since=since[item]) for item, mode in modes.items() if mode is ConfirmationMode.CONFIRM),
        tuple(item for item, mode in modes.items() if mode is ConfirmationMode.WARN),
        confirmed,
        removal if confirmed else None,
        frozenset(accepted_digests[item] for item in confirmed if item in accepted_digests),
    )


def _confirmed_digests(
    placement: JsonObject, binding: JsonObject, items: Sequence[RemovalItem], objects: LeavingObjects, now: datetime
) -> dict[RemovalItem, str]:
    """Return the items that are confirmed now, with the digests that confirm them."""
    confirmation, carried_out = Confirmation.of(placement, now), CarriedOut.of(binding).without_expired(now)
    uid, digests = uid_of(placement), confirmation.digests
    if not digests:
        return {}
    groups = (*confirmable_groups(uid, items), *confirmable_groups(uid, objects.shown))
    rolled_up = {item: group.digest for group in groups if group.digest in digests for item in group.items}
    item_digests = {item: digest for item in items if (digest := item.digest(uid)) in digests}
    renewed_digests = {
        item: digest
        for item, digest in (rolled_up | item_digests).items()
        if carried_out.is_renewed(digest, confirmation.expiry)
    }
    recordable_digests = fitting_digests(renewed_digests.values(), binding, confirmation.expiry, now)
    return {item: renewed_digests[item] for item in items if renewed_digests.get(item) in recordable_digests}


def _mode(policy: RemovalPolicy, item: RemovalItem, *, is_many: bool) -> ConfirmationMode:
    group, kind, _, _ = item.identity
    modes = [policy.objects, *([policy.many_objects] if is_many else [])]
    return strictest([*modes, *([policy.data] if policy.holds_data(group, kind) else [])])


def object_record(binding: Mapping[str, Any]) -> dict[RemovalItem, bool]:
    """Return the objects that a binding records as remaining on its cluster. True: their removal is confirmed.

    An unreadable record is empty.
    """
    try:
        entries = orjson.loads(annotation(binding, OBJECTS_PENDING) or "[]")
        return {
            RemovalItem(
                RemovalEffect.OBJECT,
                (str(group), str(kind), str(namespace), str(name)),
                str(uid),
                since=parse_time(since),
            ): bool(confirmed)
            for group, kind, namespace, name, uid, since, *confirmed in entries
        }
    except (ValueError, TypeError):
        return {}


def pending_binding_items(binding: Mapping[str, Any]) -> tuple[RemovalItem, ...]:
    """Return the objects that a binding records as pending on its cluster."""
    return tuple(item for item, is_confirmed in object_record(binding).items() if not is_confirmed)


def format_record(judgement: LeavingJudgement) -> str:
    """Return the record for a binding. Empty: nothing is pending or confirmed.

    It contains as many items as fit into the annotation, confirmed ones first. The others are retained as well, and are
    recorded later.
    """
    confirmed = frozenset(judgement.confirmed)
    items = _recordable_items((*judgement.confirmed, *sorted(judgement.pending)))
    entries = [[*_entry(item), *([True] if item in confirmed else [])] for item in items]
    return dump_json(entries).decode() if entries else ""


def _recordable_items(items: Iterable[RemovalItem]) -> tuple[RemovalItem, ...]:
    """Return the first items, as many as the record has room for."""
    recordable_items, room = [], _LONGEST_RECORD
    for item in items:
        room -= len(dump_json([*_entry(item), True])) + 1
        if room < 0:
            break
        recordable_items.append(item)
    return tuple(recordable_items)


def _entry(item: RemovalItem) -> list[str]:
    return [*item.identity, item.uid, format_time(item.since) if item.since else ""]
