"""Live checks on ClusterResourceOverride and ResourceOverride.

The content of a placement is that of its latest complete snapshot, plus the known objects on the hub that it selects.
These objects are included because the loop creates the next snapshot only a while after a write.

Source: docs/specifications/placement-api.md 10.3.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from scorer.api.family import CLUSTER, FAMILIES, NAMESPACED, Family
from scorer.api.kinds import ENVELOPE, MEMBER_CLUSTER, NAMESPACE, NAMESPACED_ENVELOPE, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_PLACEMENT
from scorer.api.placement.override import PlacementScope
from scorer.api.unstructured.documents import (
    PLACED_CONTENT,
    dicts_at,
    is_deleting,
    label,
    name_of,
    namespace_of,
    placed_in,
    placed_of,
    spec_of,
    text_at,
)
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import quote
from scorer.rollout.overrides.effect import PlacedTargets, ineffective_parts, is_for, nearest_names
from scorer.rollout.overrides.matching import (
    OverrideTarget,
    by_namespace,
    ignores_resource_overrides,
    placed_targets,
    selected_in,
)
from scorer.rollout.overrides.rules import member_labels
from scorer.rollout.selection.selector import DocumentInventory, InvalidSelection, select_resources
from scorer.rollout.snapshots.groups import placed_group, snapshot_groups
from webhook.validation.framework.context import Context, UnknownStateError
from webhook.validation.framework.field import FieldWarning
from webhook.validation.framework.relations import children
from webhook.validation.live.check import LiveCheck, timed


def warn_about_placement(
    document: JsonObject | None, _old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """The placement that an override is for does not exist (X-62)."""
    name = text_at(document, "spec", "placement", "name")
    if document is None or (family := _family_of_placement(document)) is None:
        return
    kind = family.placement
    if context.hub.get(kind, name, namespace_of(document) if kind.namespaced else "") is None:
        at = FieldPath.of("spec", "placement", "name")
        yield FieldWarning(at, f"there is no {kind.kind} {quote(name)} yet", "X-62")


def warn_about_effect(document: JsonObject | None, _old: JsonObject | None, context: Context) -> Iterator[FieldWarning]:
    """A selector matches no placed object, or a rule no member cluster (X-77 to X-79)."""
    if document is None:
        return
    try:
        placed = _PlacedContent(document, context).of_placements()
    except UnknownStateError:
        placed = None
    for part in ineffective_parts(document, placed, context.kinds, _cluster_labels(document, context)):
        yield FieldWarning(part.field, part.message, part.rule)


def _cluster_labels(override: JsonObject, context: Context) -> Collection[Mapping[str, str]] | None:
    """Return the labels of the member clusters. None: unknown, or no rule has terms."""
    rules = dicts_at(override, "spec", "policy", "overrideRules")
    if not any(dicts_at(rule, "clusterSelector", "clusterSelectorTerms") for rule in rules):
        return None
    try:
        return [member_labels(member) for member in timed(context.hub.list(MEMBER_CLUSTER), context)]
    except UnknownStateError:
        return None


class _PlacedContent:
    """The objects of placements that one override may select."""

    def __init__(self, override: JsonObject, context: Context) -> None:
        self._override = override
        self._context = context
        self._namespace = namespace_of(override)
        self._family = _family_of_placement(override)
        self._targets = tuple(selected_in(spec_of(override), self._namespace))
        self._kinds = dict(self._selectable())
        self._inventory = self._focused()
        self._with_content = {family: self._snapshotted(family) for family in FAMILIES}

    def of_placements(self) -> list[PlacedTargets]:
        """Return the targets in the content of each placement. The placements that the override is for come first.

        The search ends when the placements that the override is for place every target. Other placements are only read
        to name those that place the remaining targets.

        Raises:
            UnknownStateError: The placements, or the content of one that the override is for, are unknown.
        """
        matches: list[PlacedTargets] = []
        missing = set(self._targets)
        for family, placement, is_own in timed(self._own_first(), self._context):
            if not missing:
                break
            targets = self._targets_of(family, placement)
            if targets is not None:
                is_exempt = ignores_resource_overrides(placement)
                matches.append(PlacedTargets(family.ref(placement), targets, is_exempt))
                if is_own and not (is_exempt and self._namespace):
                    missing -= targets
            elif is_own:
                raise UnknownStateError(family.ref(placement))
        return matches

    def _own_first(self) -> Iterator[tuple[Family, JsonObject, bool]]:
        """Yield placements, each with whether the override is for it. The named one comes first, without a list."""
        family, name = self._family, text_at(self._override, "spec", "placement", "name")
        if family is None:
            yield from ((family, placement, True) for family, placement in self._placements())
            return
        named = self._context.hub.get(family.placement, name, "" if family is CLUSTER else self._namespace)
        if named is not None and not is_deleting(named):
            yield family, named, True
        yield from (
            (family, placement, False)
            for family, placement in self._placements()
            if not is_for(self._override, family.ref(placement))
        )

    def _placements(self) -> Iterator[tuple[Family, JsonObject]]:
        """Yield all placements that may place a selected object.

        If the override names a placement, the other family may be unknown, and is then skipped.
        """
        for family in FAMILIES:
            try:
                for home in self._homes(family):
                    placements = self._context.hub.list(family.placement, home)
                    yield from ((family, each) for each in placements if not is_deleting(each))
            except UnknownStateError:
                if self._family in (None, family):
                    raise

    def _homes(self, family: Family) -> Sequence[str]:
        """Return the namespaces of the placements of a family that may place a selected object."""
        if family is CLUSTER:
            return ("",)
        if self._namespace:
            return (self._namespace,)
        return sorted({target.name for target in self._targets if _is_namespace(target)})

    def _targets_of(self, family: Family, placement: JsonObject) -> frozenset[OverrideTarget] | None:
        """Return the selections that match the content of a placement. None: unknown."""
        name, namespace = name_of(placement), namespace_of(placement)
        stored, with_content = frozenset[OverrideTarget](), self._with_content[family]
        snapshots = () if with_content is None else children(family.resource_snapshot, name, namespace, self._context)
        if with_content is not None and (name, namespace) in with_content:
            group = placed_group(snapshot_groups(snapshots))
            stored = frozenset(placed_targets(group.objects() if group else ()))
        if self._inventory is None:
            return stored if snapshots else None
        if namespace and not self._namespace:  # the override selects the whole namespace, which is not in the inventory
            return stored if snapshots else frozenset({by_namespace(namespace)})
        terms = [term for term in dicts_at(placement, "spec", "resourceSelectors") if _identity(term) in self._kinds]
        selection = select_resources(terms, namespace, self._inventory, self._kinds)
        return stored if isinstance(selection, InvalidSelection) else stored | {*placed_targets(selection.objects)}

    def _snapshotted(self, family: Family) -> Collection[tuple[str, str]] | None:
        """Return the placements whose snapshots may hold a selected object. None: unknown."""
        values = {placed_in(self._namespace)} if self._namespace else set()
        for target in self._targets:
            if not self._namespace and _is_namespace(target):
                values.add(placed_in(target.name))
            elif not self._namespace:
                values |= {placed_of(target.group, target.kind), placed_of(*ENVELOPE.group_kind)}
        try:
            return {
                (label(snapshot, PARENT_PLACEMENT), home)
                for value in values
                for home in self._homes(family)
                for snapshot in self._context.hub.labelled(family.resource_snapshot, PLACED_CONTENT, value, home)
            }
        except UnknownStateError:
            return None

    def _selectable(self) -> Iterator[tuple[tuple[str, str], Kind]]:
        """Yield the served kinds that the override can select, and the kinds of Namespaces and envelopes."""
        for kind in (NAMESPACE, ENVELOPE, NAMESPACED_ENVELOPE):
            yield kind.group_kind, kind
        for target in self._targets:
            served = self._context.kinds.find_served(target.group, target.version, target.kind)
            if served is not None and served.namespaced is bool(self._namespace):
                yield served.group_kind, served

    def _focused(self) -> DocumentInventory | None:
        """Return the objects of the hub that the override selects, or those of similar names, and the envelopes.

        None: unknown, or the namespace of the override does not exist.
        """
        hub, documents = self._context.hub, []
        try:
            if self._namespace:
                home = hub.get(NAMESPACE, self._namespace)
                if home is None:
                    return None
                documents.append(home)
            for target in self._targets:
                if (target.group, target.kind) in self._kinds:
                    documents += self._similar(self._kinds[target.group, target.kind], target.name)
        except UnknownStateError:
            return None
        with suppress(UnknownStateError):  # the content of those in snapshots is known
            documents += hub.list(NAMESPACED_ENVELOPE if self._namespace else ENVELOPE, self._namespace)
        return DocumentInventory(documents)

    def _similar(self, kind: Kind, name: str) -> Sequence[JsonObject]:
        """Return the object with a name. If it does not exist, return those with the most similar names."""
        hub = self._context.hub
        if (exact := hub.get(kind, name, self._namespace)) is not None:
            return [exact]
        by_name = {name_of(each): each for each in timed(hub.list(kind, self._namespace), self._context)}
        return [by_name[close] for close in nearest_names(name, by_name)]


def _family_of_placement(override: JsonObject) -> Family | None:
    """Return the family of the placement that an override names. None means that it is for any placement."""
    if not text_at(override, "spec", "placement", "name"):
        return None
    return NAMESPACED if text_at(override, "spec", "placement", "scope") == PlacementScope.NAMESPACED else CLUSTER


def _is_namespace(target: OverrideTarget) -> bool:
    return (target.group, target.kind) == NAMESPACE.group_kind


def _identity(term: JsonObject) -> tuple[str, str]:
    return text_at(term, "group"), text_at(term, "kind")


CHECKS: Final[tuple[LiveCheck, ...]] = (warn_about_placement, warn_about_effect)
