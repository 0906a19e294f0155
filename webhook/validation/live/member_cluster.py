"""Live checks on MemberCluster.

Source: docs/specifications/placement-api.md 9 and 10.4; docs/specifications/scheduling.md 9 and 16.
"""

from collections.abc import Iterator
from typing import Final

from pydantic import ValidationError

from scorer.api.cluster.member_cluster import Taint
from scorer.api.family import FAMILIES, Family
from scorer.api.meta import JsonObject
from scorer.api.placement.placement import Toleration
from scorer.api.unstructured.documents import dicts_at, is_deleting, name_of
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import format_count
from scorer.plugins.taint_toleration import TaintToleration
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import LONGEST_WARNING, FieldWarning
from webhook.validation.framework.relations import cluster_of, holds_cluster, placement_type_of
from webhook.validation.live.check import LiveCheck, timed, with_names

TAINTS: Final = FieldPath.of("spec", "taints")
NAME: Final = FieldPath.of("metadata", "name")


def warn_about_taints(document: JsonObject | None, old: JsonObject | None, context: Context) -> Iterator[FieldWarning]:
    """A new taint does not remove the placements that do not tolerate it (X-92). PickFixed ignores taints."""
    if document is None or old is None:
        return
    before = [_key(taint) for taint in dicts_at(old, "spec", "taints")]
    added = [(i, taint) for i, taint in enumerate(dicts_at(document, "spec", "taints")) if _key(taint) not in before]
    if not added:
        return
    on_cluster = [
        (str(family.parent(binding)), TaintToleration(tolerations))
        for family, binding in _bindings_of(name_of(document), context)
        if holds_cluster(binding) and (tolerations := _tolerations(family, binding, context)) is not None
    ]
    for i, taint in added:
        try:
            read = Taint.read(taint)
        except ValidationError:
            continue
        names = {name for name, tolerations in on_cluster if tolerations.untolerated([read]) is not None}
        if names:
            text = (
                f"does not evict existing placements. Not tolerated by {format_count(len(names), 'placement')} on "
                "this cluster"
            )
            at = TAINTS / i
            yield FieldWarning(at, with_names(text, names, LONGEST_WARNING - len(str(at)) - 2), "X-92")


def warn_about_deletion(
    _document: JsonObject | None, old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """A member cluster that still has placements is deleted (D-05, X-93)."""
    if old is None or is_deleting(old):
        return
    names = {
        str(family.parent(binding))
        for family, binding in _bindings_of(name_of(old), context)
        if not is_deleting(binding)
    }
    if names:
        text = f"objects of {format_count(len(names), 'placement')} remain on this cluster, unmanaged"
        yield FieldWarning(NAME, with_names(text, names, LONGEST_WARNING - len(str(NAME)) - 2), "X-93")


def _bindings_of(cluster: str, context: Context) -> Iterator[tuple[Family, JsonObject]]:
    for family in FAMILIES:
        for binding in timed(context.hub.list(family.binding), context):
            if cluster_of(binding) == cluster:
                yield family, binding


def _tolerations(family: Family, binding: JsonObject, context: Context) -> tuple[Toleration, ...] | None:
    """Return the tolerations of a binding's placement.

    The result is None if the placement does not exist, is PickFixed, or has a malformed toleration.
    """
    ref = family.parent(binding)
    placement = context.hub.get(family.placement, ref.name, ref.namespace)
    if placement is None or placement_type_of(placement) == "PickFixed":
        return None
    try:
        return tuple(Toleration.read(entry) for entry in dicts_at(placement, "spec", "policy", "tolerations"))
    except ValidationError:
        return None


def _key(taint: JsonObject) -> tuple[object, object, object]:
    return taint.get("key"), taint.get("value") or "", taint.get("effect")


CHECKS: Final[tuple[LiveCheck, ...]] = (warn_about_taints,)
DELETION_CHECKS: Final[tuple[LiveCheck, ...]] = (warn_about_deletion,)
