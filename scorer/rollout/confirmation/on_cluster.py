"""Judgement of objects that leave one cluster while the placement still places them.

An override of type Delete takes an object off some clusters, and an update run may go back to a snapshot without it.
Both show only when the Works of a cluster are made, so the judgement is per cluster.

Source: docs/specifications/removal.md 6.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

import orjson

from scorer.api.meta import JsonObject, dump_json, format_time, parse_time
from scorer.api.names import OBJECTS_PENDING
from scorer.api.unstructured.documents import annotation, manifests_of, uid_of
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
"""Bytes of the record on a binding: half of what an API server allows for all annotations of an object."""


@dataclass(frozen=True, slots=True)
class LeavingObjects:
    """The objects that new Works of a binding would take off its cluster.

    Args:
        held: All objects in its present Works.
        leaving: Those that the new Works lack. The latest snapshot of the placement has them, unless the snapshot that
            the present Works are of was deleted by another client.
        placed: The content of that snapshot.
        shown: All that is pending for the placement: the roll-ups that users see are made of it.
        works: The version of the Work that holds each object: see `work_version`.
    """

    held: frozenset[ObjectIdentity]
    leaving: frozenset[ObjectIdentity]
    placed: Mapping[ObjectIdentity, PlacedObject]
    shown: tuple[RemovalItem, ...] = ()
    works: Mapping[ObjectIdentity, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeavingJudgement:
    """The verdict on these objects.

    Args:
        pending: Items that wait for confirmation.
        warned: Items removed with a warning.
        confirmed: The digests that are carried out now, with the versions of the Works that lose objects by each.
    """

    pending: tuple[RemovalItem, ...] = ()
    warned: tuple[RemovalItem, ...] = ()
    confirmed: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def identities(self) -> frozenset[ObjectIdentity]:
        """The pending objects."""
        return frozenset(item.identity for item in self.pending)


def objects_in(works: Iterable[JsonObject]) -> frozenset[ObjectIdentity]:
    """Return the objects in Works that have their manifests."""
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
    """Return which objects remain on a cluster until their removal is confirmed.

    Args:
        policy: Of the placement.
        placement: The placement.
        binding: Its binding on the cluster, with the record of what is pending there.
        objects: The objects that would leave it.
        exemptions: Of the placement.
        now: The present time.
    """
    confirmation, carried_out = Confirmation.of(placement, now), CarriedOut.of(binding).without_expired(now)
    judged = (each for each in sorted(objects.leaving) if not exemptions.covers(each))
    items = [
        RemovalItem(RemovalEffect.OBJECT, each, placed.uid if (placed := objects.placed.get(each)) else "")
        for each in judged
    ]
    uid = uid_of(placement)
    digests = confirmation.digests
    groups = (*confirmable_groups(uid, items), *confirmable_groups(uid, objects.shown)) if digests else ()
    rolled_up = {item: group.digest for group in groups if group.digest in digests for item in group.items}
    own = {item: digest for item in items if (digest := item.digest(uid)) in digests}
    accepted = {
        item: digest
        for item, digest in (rolled_up | own).items()
        if carried_out.is_renewed(digest, confirmation.expiry)
        or carried_out.is_ordered(digest, objects.works.get(item.identity, ""))
    }
    fitting = fitting_digests(accepted.values(), binding, confirmation.expiry, now)
    confirmed = {item: accepted[item] for item in items if accepted.get(item) in fitting}
    rest = [item for item in items if item not in confirmed]
    many = len(rest) > MANY or is_large_share(len(rest), len(objects.held)) or 0 < len(objects.held) == len(rest)
    before = {item: item.since for item in pending_on(binding)}
    modes = {item: _mode(policy, item, many=many or item in before) for item in rest}
    return LeavingJudgement(
        tuple(
            replace(item, since=before.get(item) or now.replace(microsecond=0))
            for item, mode in modes.items()
            if mode is ConfirmationMode.CONFIRM
        ),
        tuple(item for item, mode in modes.items() if mode is ConfirmationMode.WARN),
        _works_by_digest(confirmed, objects.works),
    )


def _works_by_digest(
    confirmed: Mapping[RemovalItem, str], works: Mapping[ObjectIdentity, str]
) -> dict[str, frozenset[str]]:
    versions: dict[str, set[str]] = defaultdict(set)
    for item, digest in confirmed.items():
        versions[digest].add(works.get(item.identity, ""))
    return {digest: frozenset(each) for digest, each in sorted(versions.items())}


def _mode(policy: RemovalPolicy, item: RemovalItem, *, many: bool) -> ConfirmationMode:
    group, kind, _, _ = item.identity
    modes = [policy.objects, *([policy.many_objects] if many else [])]
    return strictest([*modes, *([policy.data] if policy.holds_data(group, kind) else [])])


def pending_on(binding: Mapping[str, Any]) -> tuple[RemovalItem, ...]:
    """Return the objects that a binding records as pending on its cluster. An unreadable record is empty."""
    try:
        entries = orjson.loads(annotation(binding, OBJECTS_PENDING) or "[]")
        return tuple(
            RemovalItem(
                RemovalEffect.OBJECT,
                (str(group), str(kind), str(namespace), str(name)),
                str(uid),
                since=parse_time(since),
            )
            for group, kind, namespace, name, uid, since in entries
        )
    except (ValueError, TypeError):
        return ()


def format_pending(items: Iterable[RemovalItem]) -> str:
    """Return the record for a binding. Empty: nothing is pending.

    It has as many items as an annotation has room for. The others are retained as well, and recorded later.
    """
    entries, room = [], _LONGEST_RECORD
    for item in sorted(items):
        entry = [*item.identity, item.uid, format_time(item.since)] if item.since else []
        room -= len(dump_json(entry)) + 1
        if room < 0:
            break
        entries += [entry] if entry else []
    return dump_json(entries).decode() if entries else ""
