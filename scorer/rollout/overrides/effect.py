"""Overrides without effect: selectors that match no placed object, and rules that match no member cluster.

Admission, ``lint``, ``plan`` and the loop share this judgment. They differ only in how they read the hub. An unknown
part of the hub is None, and the findings that depend on it are omitted.

Source: docs/specifications/placement-api.md 10.3; docs/specifications/rollout.md 6.2 and 6.3.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from heapq import nsmallest
from typing import Final, Protocol

from scorer.api.family import PlacementRef
from scorer.api.kinds import KINDS, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import IGNORE_RESOURCE_OVERRIDES
from scorer.api.unstructured.documents import namespace_of, spec_of, text_at
from scorer.api.values.field_path import FieldPath
from scorer.api.values.label_selector import LabelSelectorRequirement, holds_for
from scorer.api.values.quoting import printable, quote
from scorer.rollout.overrides.matching import OverrideTarget, placement_key, selected_in
from scorer.rollout.overrides.rules import OVERRIDE_RULES, RulesError, read_rules

KIND_RULE: Final = "X-77"
OBJECT_RULE: Final = "X-78"
CLUSTER_RULE: Final = "X-79"
EFFECT_RULES: Final = frozenset({KIND_RULE, OBJECT_RULE, CLUSTER_RULE})

MOST_SUGGESTIONS: Final = 3
"""Maximum number of names that a message suggests."""
MOST_COMPARED: Final = 500
"""Maximum number of names that are compared with a misspelled one."""
_ALIKE: Final = 0.6
_SECRET: Final = KINDS["", "Secret"].group_kind
_PLACEMENT: Final = FieldPath.of("spec", "placement", "name")
_TERMS: Final = ("clusterSelector", "clusterSelectorTerms")


class KindDirectory(Protocol):
    """The kinds that a hub serves."""

    def find(self, group: str, kind: str) -> Kind | None:
        """Return a kind in any of its versions. None: unknown."""
        ...

    def find_served(self, group: str, version: str, kind: str) -> Kind | None:
        """Return a kind, or None if it is not served in that version."""
        ...

    def may_serve(self, group: str) -> bool:
        """Return whether the hub may serve unlisted kinds of a group."""
        ...

    def __iter__(self) -> Iterator[Kind]: ...


@dataclass(frozen=True, slots=True)
class PlacedTargets:
    """The content of one placement, as the selectors of overrides name it.

    Args:
        ref: The placement.
        targets: The selections that match its objects.
        is_exempt: Whether the placement has opted out of the ResourceOverrides of namespaces.
    """

    ref: PlacementRef
    targets: frozenset[OverrideTarget]
    is_exempt: bool = False


@dataclass(frozen=True, slots=True)
class IneffectivePart:
    """One part of an override that has no effect now.

    Args:
        field: Path of the part.
        message: The value, the reason, and what exists instead.
        rule: Id of the admission rule.
    """

    field: FieldPath
    message: str
    rule: str


def ineffective_parts(
    override: JsonObject,
    placed: Sequence[PlacedTargets] | None,
    kinds: KindDirectory,
    cluster_labels: Collection[Mapping[str, str]] | None,
) -> Iterator[IneffectivePart]:
    """Yield the parts of an override that have no effect.

    If the override names a placement that is not in *placed* (X-62), no object is reported as not placed.

    Args:
        override: ClusterResourceOverride or ResourceOverride that has passed admission.
        placed: The placements and their content, at least of those that the override is for. None: unknown.
        kinds: The kinds that the hub serves.
        cluster_labels: Labels of every member cluster, as `member_labels` returns them. None: unknown. Rules are not
            reported without clusters.
    """
    judge = _SelectorJudge(override, placed, kinds)
    for i, target in enumerate(selected_in(spec_of(override), namespace_of(override))):
        if (part := judge.part(target, i)) is not None:
            yield part
    rules = read_rules({"spec": {"overrideSpec": spec_of(override)}})
    if not cluster_labels or isinstance(rules, RulesError):
        return
    for i, rule in enumerate(rules):
        if rule.clusters and not any(map(rule.holds_for, cluster_labels)):
            at = OVERRIDE_RULES.below(i, *_TERMS)
            if len(rule.clusters) > 1:
                yield IneffectivePart(at, "no cluster matches any of the terms", CLUSTER_RULE)
            else:
                message = _unmatched(rule.clusters[0] or (), cluster_labels)
                yield IneffectivePart(at.below(0, "labelSelector"), message, CLUSTER_RULE)


def is_for(override: JsonObject, placement: PlacementRef) -> bool:
    """Return whether an override names a placement, or none and so applies to any."""
    key = placement_key(spec_of(override), namespace_of(override))
    own = f"{placement.namespace}/{placement.name}" if placement.namespace else placement.name
    return key in ("", own)


class _SelectorJudge:
    """Evaluates the selectors of one override."""

    def __init__(self, override: JsonObject, placed: Sequence[PlacedTargets] | None, kinds: KindDirectory) -> None:
        namespace = namespace_of(override)
        self._kinds = kinds
        self._named = text_at(override, "spec", "placement", "name")
        self._at = FieldPath.of("spec", "resourceSelectors" if namespace else "clusterResourceSelectors")
        own = [each for each in placed or () if is_for(override, each.ref)]
        self._is_known = placed is not None and bool(own or not self._named)
        self._exempt = [each for each in own if each.is_exempt and namespace]
        self._reached = _targets(each for each in own if each not in self._exempt)
        self._placed = placed or ()

    def part(self, target: OverrideTarget, index: int) -> IneffectivePart | None:
        """Return the finding about one selector, or None if it matches a placed object, or if that is unknown."""
        if target in self._reached:
            return None
        at = self._at / index
        kind = self._kinds.find_served(target.group, target.version, target.kind)
        if kind is None:
            return self._unserved(target, at)
        if kind.namespaced and not target.namespace:
            message = f"{quote(kind.kind)} is namespaced: select its Namespace, or use a ResourceOverride"
            return IneffectivePart(at / "kind", message, KIND_RULE)
        if target.namespace and not kind.namespaced:
            message = f"{quote(kind.kind)} is cluster-scoped: use a ClusterResourceOverride"
            return IneffectivePart(at / "kind", message, KIND_RULE)
        return self._not_placed(target, at) if self._is_known else None

    def _unserved(self, target: OverrideTarget, at: FieldPath) -> IneffectivePart | None:
        served = self._kinds.find(target.group, target.kind)
        if served is not None:
            versions = ", ".join(served.versions)
            return IneffectivePart(
                at / "version", f"{quote(target.version)}: the hub serves {served.kind} in {versions}", KIND_RULE
            )
        groups = sorted({kind.group for kind in self._kinds if kind.kind == target.kind})
        if groups:
            group = " or ".join(quote(group) for group in groups)
            return IneffectivePart(at / "group", f"{quote(target.group)}: {target.kind} is in {group}", KIND_RULE)
        if self._kinds.may_serve(target.group):
            return None
        close = _closest_kind(target, self._kinds)
        message = f"{quote(target.kind)}: the hub has no such kind{f'; did you mean {close}?' if close else ''}"
        return IneffectivePart(at / "kind", message, KIND_RULE)

    def _not_placed(self, target: OverrideTarget, at: FieldPath) -> IneffectivePart:
        if version := next((each.version for each in sorted(self._reached) if _same_object(each, target)), ""):
            message = f"{quote(target.version)}: {_title(target)} is placed in version {version}"
            return IneffectivePart(at / "version", message, OBJECT_RULE)
        if self._exempt and any(target in each.targets for each in self._exempt):
            if self._named:
                message = f"{quote(self._named)} ignores ResourceOverrides ({IGNORE_RESOURCE_OVERRIDES})"
                return IneffectivePart(_PLACEMENT, message, OBJECT_RULE)
            message = f"{quote(target.name)}: its placements ignore ResourceOverrides"
            return IneffectivePart(at / "name", message, OBJECT_RULE)
        place = f" in {target.namespace}" if target.namespace else ""
        others = sorted(each.ref.name for each in self._placed if target in each.targets)
        if self._named and others:
            message = f"{quote(self._named)} places no {_title(target)}{place}; {_listed(others)}"
            return IneffectivePart(_PLACEMENT, message, OBJECT_RULE)
        places = f"{quote(self._named)} places no such" if self._named else "no placement places such a"
        message = f"{quote(target.name)}: {places} {target.kind}{place} yet{self._nearest(target)}"
        return IneffectivePart(at / "name", message, OBJECT_RULE)

    def _nearest(self, target: OverrideTarget) -> str:
        """Return the placed names that are most like the selected one. Names of Secrets are not disclosed."""
        if (target.group, target.kind) == _SECRET:
            return ""
        return _nearest(target.name, {each.name for each in self._reached if each[:4] == target[:4]})


def _targets(placed: Iterable[PlacedTargets]) -> frozenset[OverrideTarget]:
    return frozenset[OverrideTarget]().union(*(each.targets for each in placed))


def _same_object(target: OverrideTarget, other: OverrideTarget) -> bool:
    return target._replace(version="") == other._replace(version="")


def _title(target: OverrideTarget) -> str:
    return printable(f"{target.kind} {target.name}")


def _listed(names: Sequence[str]) -> str:
    """Return the first of some names with the number of the others, and the verb."""
    return f"{names[0]} does" if len(names) == 1 else f"{names[0]} and {len(names) - 1} more do"


def _closest_kind(target: OverrideTarget, kinds: Iterable[Kind]) -> str:
    """Return the kind with the most similar name. Empty: none is similar."""
    by_name: dict[str, str] = {}
    for kind in sorted(kinds, key=lambda kind: (kind.group != target.group, str(kind))):
        by_name.setdefault(kind.kind.lower(), kind.kind)
    close = get_close_matches(target.kind.lower(), by_name, 1, _ALIKE)
    return by_name[close[0]] if close else ""


def nearest_names(word: str, names: Collection[str]) -> list[str]:
    """Return the names that share the most of their start and end with *word*, at most `MOST_SUGGESTIONS`, best first.

    Only the first `MOST_COMPARED` names in alphabetical order are compared.

    The time is linear in the lengths of the names, which users choose. A comparison of all substrings, as in
    ``difflib``, takes seconds for long names with few distinct characters.
    """
    compared_names = sorted(names)[:MOST_COMPARED]
    return nsmallest(MOST_SUGGESTIONS, compared_names, key=lambda name: (-_similarity(word, name), name))


def _similarity(word: str, other: str) -> float:
    """Return the share of the longer word that the start and the end of both have in common."""
    longest, shortest = max(len(word), len(other)), min(len(word), len(other))
    start = next((i for i in range(shortest) if word[i] != other[i]), shortest)
    end = next((i for i in range(shortest - start) if word[-1 - i] != other[-1 - i]), shortest - start)
    return (start + end) / longest if longest else 1.0


def _nearest(word: str, words: Collection[str]) -> str:
    """Return the words most similar to *word*, for the end of a message. Empty: no words."""
    close = nearest_names(word, words)
    return f"; nearest: {', '.join(map(printable, close))}" if close else ""


def _unmatched(requirements: Sequence[LabelSelectorRequirement], cluster_labels: Collection[Mapping[str, str]]) -> str:
    """Return why a selector matches no cluster: the first expression that alone matches none, or all together."""
    for requirement in requirements:
        values = [labels.get(requirement.key) for labels in cluster_labels]
        if any(holds_for(requirement, value) for value in values):
            continue
        if all(value is None for value in values):
            return f"no cluster has a label {quote(requirement.key)}"
        existing = {value for value in values if value is not None}
        return f"no cluster has {_expression(requirement)}{_nearest(next(iter(requirement.values), ''), existing)}"
    return "no cluster matches the whole selector"


def _expression(requirement: LabelSelectorRequirement) -> str:
    """Return an expression as kubectl writes it."""
    key, values = requirement.key, ",".join(requirement.values)
    match requirement.operator:
        case "In" if len(requirement.values) == 1:
            text = f"{key}={values}"
        case "In":
            text = f"{key} in ({values})"
        case "NotIn":
            text = f"{key} notin ({values})"
        case "Exists":
            text = key
        case _:
            text = f"!{key}"
    return printable(text)
