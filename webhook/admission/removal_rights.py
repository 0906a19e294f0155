"""Rights to confirm removals of content from members, and to switch confirmation off (RC-21).

Source: docs/specifications/removal.md 10.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from scorer.api.family import FAMILIES, FAMILY_OF, family_in
from scorer.api.kinds import ENVELOPE, NAMESPACE, NODE_POOL, Kind, group_kind
from scorer.api.meta import JsonObject
from scorer.api.names import (
    CARRIED_OUT,
    CLUSTERS_HELD,
    CONFIRM_REMOVAL,
    EXEMPT_SINCE,
    OBJECTS_PENDING,
    OBJECTS_REMOVAL,
    PARENT_PLACEMENT,
    REMOVAL_CONFIRMATION,
    REMOVAL_PENDING,
    REMOVE,
    SOURCES,
    SUPERSEDED_AT,
)
from scorer.api.unstructured.documents import annotation, dict_at, is_deleting, label, name_of, namespace_of, uid_of
from scorer.rollout.confirmation.digests import Confirmation, RemovalEffect, RemovalItem, rolled_up_digest
from scorer.rollout.confirmation.policy import CONFIRM_VERB, RemovalPolicy
from scorer.rollout.confirmation.sources import placed_objects
from scorer.rollout.object_size import home_namespace
from scorer.rollout.snapshots.groups import placed_group, snapshot_groups
from webhook.access.rights import Access
from webhook.admission.removal_effects import PASSING_USERS
from webhook.validation.framework.context import Context, UnknownStateError
from webhook.validation.framework.relations import children

_CONFIRMED: Final[Mapping[tuple[str, str], Kind]] = {
    kind.group_kind: kind for kind in (*(family.placement for family in FAMILIES), NODE_POOL)
}
_RECORDS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    **{
        family.binding.group_kind: (REMOVAL_PENDING, OBJECTS_PENDING, OBJECTS_REMOVAL, CARRIED_OUT, REMOVE)
        for family in FAMILIES
    },
    **{family.resource_snapshot.group_kind: (SOURCES, SUPERSEDED_AT) for family in FAMILIES},
    **{family.policy_snapshot.group_kind: (CLUSTERS_HELD,) for family in FAMILIES},
}
"""Annotations that record or order pending removals. An edit of such an annotation may confirm all of them."""
_HISTORY: Final = frozenset(
    kind.group_kind for family in FAMILIES for kind in (family.resource_snapshot, family.policy_snapshot)
)


def confirmation_rights(request: JsonObject, context: Context) -> tuple[tuple[Access, ...], ...]:
    """Return alternative sets of rights for a write. Its author needs all rights of one set. Empty: no right is needed.

    Args:
        request: Request of a review, unchecked.
        context: The hub and the author.
    """
    document, old = request.get("object"), request.get("oldObject")
    if request.get("operation") == "DELETE" and isinstance(old, dict) and not context.is_ours:
        return _of_history(old, context)
    if request.get("operation") not in ("CREATE", "UPDATE") or not isinstance(document, dict) or context.is_ours:
        return ()
    old = old if isinstance(old, dict) else {}
    kind = _CONFIRMED.get(group_kind(document))
    if kind is not None:
        return _of_annotations(kind, document, old, context)
    if (records := _RECORDS.get(group_kind(document))) is not None:
        return _of_records(records, document, old)
    exempted = () if context.settings.removal.is_off else sorted(_exempted(document, old, context.settings.removal))
    return (tuple(access for name in exempted for access in _on_every_placement(name)),) if exempted else ()


def _of_history(deleted: JsonObject, context: Context) -> tuple[tuple[Access, ...], ...]:
    """Return the right to delete a snapshot. Without its snapshots, no removal of a placement could be pending."""
    is_passing = context.user.username in PASSING_USERS or is_deleting(deleted)
    if group_kind(deleted) not in _HISTORY or is_passing or context.settings.removal.is_off:
        return ()
    return (_on_its_placement(deleted),)


def _exempted(document: JsonObject, old: JsonObject, policy: RemovalPolicy) -> Iterator[str]:
    """Yield the namespaces that a write exempts from confirmation: by their own label, or as entries of an envelope."""
    if group_kind(document) == NAMESPACE.group_kind:
        if policy.exempts(document) and not policy.exempts(old):
            yield name_of(document)
    elif group_kind(document) == ENVELOPE.group_kind:
        before = set(map(name_of, _exempt_entries(old, policy)))
        yield from {*map(name_of, _exempt_entries(document, policy))} - before


def _exempt_entries(envelope: JsonObject, policy: RemovalPolicy) -> Iterator[JsonObject]:
    for entry in dict_at(envelope, "data").values():
        if isinstance(entry, dict) and group_kind(entry) == NAMESPACE.group_kind and policy.exempts(entry):
            yield entry


def _on_every_placement(namespace: str) -> Iterator[Access]:
    """Yield the rights to exempt a namespace. Placements of both families may place its content."""
    for family in FAMILIES:
        home = namespace if family.placement.namespaced else ""
        yield Access(CONFIRM_VERB, family.placement.group, family.placement.plural, namespace=home)


def _of_records(records: Iterable[str], document: JsonObject, old: JsonObject) -> tuple[tuple[Access, ...], ...]:
    """Return the right to edit records of the loop, which is the right to confirm removals of their placement."""
    if not old or all(annotation(document, record) == annotation(old, record) for record in records):
        return ()
    return (_on_its_placement(old),)


def _on_its_placement(document: JsonObject) -> tuple[Access]:
    kind, namespace = family_in(namespace_of(document)).placement, namespace_of(document)
    return (Access(CONFIRM_VERB, kind.group, kind.plural, label(document, PARENT_PLACEMENT), namespace),)


def _of_annotations(
    kind: Kind, document: JsonObject, old: JsonObject, context: Context
) -> tuple[tuple[Access, ...], ...]:
    confirmed, before = annotation(document, CONFIRM_REMOVAL), annotation(old, CONFIRM_REMOVAL)
    mode, mode_before = annotation(document, REMOVAL_CONFIRMATION), annotation(old, REMOVAL_CONFIRMATION)
    is_confirmed = bool(confirmed) and confirmed != before
    is_forged = bool(old) and _forges_record(document, old)
    if mode == mode_before and not is_confirmed and not is_forged:
        return ()
    own = (Access(CONFIRM_VERB, kind.group, kind.plural, name_of(document), namespace_of(document)),)
    if mode != mode_before or is_forged:
        return (own,)
    namespace = _only_namespace(document, _digests(confirmed) - _digests(before), context)
    if not namespace:
        return (own,)
    return (own, tuple(Access(verb, "", "namespaces", namespace, namespace) for verb in ("delete", "place")))


def _forges_record(document: JsonObject, old: JsonObject) -> bool:
    """Return whether a write forges the record of carried-out removals, or the start of an exemption.

    A deletion on record counts as confirmed (RC-10). A write that drops the record together with the confirmation, such
    as a replacement of the whole object, confirms nothing. If a write drops the start of an exemption, the exemption
    starts again.
    """
    record, before = annotation(document, CARRIED_OUT), annotation(old, CARRIED_OUT)
    since = annotation(document, EXEMPT_SINCE)
    is_dated_back = bool(since) and since != annotation(old, EXEMPT_SINCE)
    return is_dated_back or (record != before and bool(record or annotation(document, CONFIRM_REMOVAL)))


def _digests(text: str) -> frozenset[str]:
    try:
        return Confirmation.parse(text).digests if text else frozenset()
    except ValueError:
        return frozenset()


def _only_namespace(placement: JsonObject, digests: frozenset[str], context: Context) -> str:
    """Return the only namespace of all confirmed items. Empty: several namespaces, or unknown."""
    if home := namespace_of(placement):
        return home
    family = FAMILY_OF.get(group_kind(placement)[1])
    if family is None or not digests:
        return ""
    try:
        snapshots = children(family.resource_snapshot, name_of(placement), "", context)
    except UnknownStateError:
        return ""
    namespaces = {namespace for digest, namespace in _digests_of_content(placement, snapshots) if digest in digests}
    content_digests = {digest for digest, _ in _digests_of_content(placement, snapshots)}
    return namespaces.pop() if len(namespaces) == 1 and digests <= content_digests else ""


def _digests_of_content(placement: JsonObject, snapshots: Any) -> Iterator[tuple[str, str]]:
    """Yield each digest that stands for placed content of one namespace, and that namespace."""
    uid, group = uid_of(placement), placed_group(snapshot_groups(snapshots))
    by_kind: dict[tuple[str, str, str], list[RemovalItem]] = {}
    placed = placed_objects(group) if group else {}
    for identity, content in placed.items():
        if not (namespace := home_namespace(identity)):
            continue
        item = RemovalItem(RemovalEffect.OBJECT, identity, content.uid)
        yield item.digest(uid), namespace
        if identity[2]:
            by_kind.setdefault(identity[:3], []).append(item)
    for (_, _, namespace), items in by_kind.items():
        yield rolled_up_digest(uid, items), namespace
