"""Rules on ``spec.policy``: how many clusters, which ones, affinity, spread and tolerations (P-20 to P-44, U-03)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from scorer.api.placement.placement import (
    ClusterAffinity,
    ClusterSelectorTerm,
    PlacementPolicy,
    PlacementType,
    PropertySorter,
    Toleration,
    TopologySpreadConstraint,
)
from scorer.api.values.field_path import FieldPath
from scorer.api.values.name_grammar import dns_subdomain_error, label_value_error, qualified_name_error
from scorer.api.values.quoting import quote
from scorer.plugins.cluster_affinity import MOST_REQUIREMENTS, requirement_count, too_many_requirements
from webhook.validation.framework.field import (
    Cause,
    FieldError,
    FieldWarning,
    duplicate,
    invalid,
    not_supported,
    too_long,
)
from webhook.validation.framework.reading import Finding
from webhook.validation.framework.selector import validate_label_selector, validate_requirements, validate_sorter
from webhook.validation.placement.rules import (
    CLUSTER_AFFINITY,
    MOST_ITEMS,
    POLICY,
    PREFERRED,
    REQUIRED_TERMS,
    SPREAD,
    TOLERATIONS,
    TYPE,
)

_REQUIRED_TERM: Final = tuple(REQUIRED_TERMS / i for i in range(MOST_ITEMS))
_PREFERRED_TERM: Final = tuple(PREFERRED / i / "preference" for i in range(MOST_ITEMS))
_TOLERATION: Final = tuple(TOLERATIONS / i for i in range(MOST_ITEMS))
_PRESENT: Final[Mapping[str, str]] = {
    "affinity": "affinity",
    "cluster_names": "clusterNames",
    "number_of_clusters": "numberOfClusters",
    "topology_spread_constraints": "topologySpreadConstraints",
    "tolerations": "tolerations",
}
_NOT_WITH: Final[Mapping[PlacementType, tuple[str, tuple[str, ...]]]] = {
    PlacementType.PICK_FIXED: (
        "P-20",
        ("affinity", "number_of_clusters", "topology_spread_constraints", "tolerations"),
    ),
    PlacementType.PICK_ALL: ("P-23", ("cluster_names", "number_of_clusters", "topology_spread_constraints")),
    PlacementType.PICK_N: ("P-25", ("cluster_names",)),
}


def validate_policy(policy: PlacementPolicy) -> Iterator[Finding]:
    """Yield the findings that need only the new policy (P-20 to P-44, X-06, X-09 to X-13, X-18, X-19, X-28)."""
    fixed = policy.placement_type is PlacementType.PICK_FIXED
    yield from validate_policy_matrix(policy)
    yield from validate_number_of_clusters(policy)
    if fixed:
        yield from validate_cluster_names(policy.cluster_names)
    if policy.affinity is not None and policy.affinity.cluster_affinity is not None and not fixed:
        yield from validate_affinity(policy.affinity.cluster_affinity, policy.placement_type)
    if policy.topology_spread_constraints:
        yield from validate_spread(policy.topology_spread_constraints)
    if policy.tolerations and not fixed:
        yield from validate_tolerations(policy.tolerations)


def validate_policy_matrix(policy: PlacementPolicy) -> Iterator[FieldError]:
    """A placement type takes only its own fields. An empty field counts as well (P-20, P-23, P-25).

    Source: docs/specifications/placement-api.md 5 and 2.8.
    """
    rule, fields = _NOT_WITH[policy.placement_type]
    for name in fields:
        if name in policy.model_fields_set:
            message = f"must not be set when placementType is {policy.placement_type}"
            at = POLICY / _PRESENT[name]
            yield FieldError(at, Cause.FORBIDDEN, message, rule, (at, TYPE))


def validate_number_of_clusters(policy: PlacementPolicy) -> Iterator[Finding]:
    """PickN requires a number of clusters (P-25). Picking no cluster removes all placed objects (X-06).

    Seed 003 has a PickN example without the field. Here, as in the reference, the field is required.
    """
    if policy.placement_type is PlacementType.PICK_N and policy.number_of_clusters is None:
        at, message = POLICY / "numberOfClusters", "must be set when placementType is PickN"
        yield FieldError(at, Cause.REQUIRED, message, "P-25", (at, TYPE))
    elif policy.placement_type is PlacementType.PICK_N and policy.number_of_clusters == 0:
        yield FieldWarning(POLICY / "numberOfClusters", "0 removes the placed objects from every cluster", "X-06")
    elif policy.placement_type is PlacementType.PICK_FIXED and not policy.cluster_names:
        yield FieldWarning(
            POLICY / "clusterNames", "an empty list removes the placed objects from every cluster", "X-06"
        )


def validate_cluster_names(cluster_names: Sequence[str]) -> Iterator[FieldError]:
    """Names are valid names of member clusters (P-21), and appear once (P-22)."""
    at = POLICY / "clusterNames"
    visited: set[str] = set()
    for i, name in enumerate(cluster_names):
        if len(name) > 63:
            yield too_long(at / i, name, 63, "P-21")
        elif error := dns_subdomain_error(name):
            yield invalid(at / i, name, error, "P-21")
        if name in visited:
            yield duplicate(at / i, name, rule="P-22")
        visited.add(name)


def validate_affinity(affinity: ClusterAffinity, placement_type: PlacementType) -> Iterator[Finding]:
    """Yield the findings about the terms that select clusters (P-24, P-27 to P-36, X-13, X-18, X-28)."""
    if (count := requirement_count(affinity)) > MOST_REQUIREMENTS:  # too many to check, and the scheduler refuses them
        yield FieldError(CLUSTER_AFFINITY, Cause.TOO_MANY, too_many_requirements(count), "X-28")
        return
    if affinity.required is not None:
        terms = affinity.required.cluster_selector_terms
        if not terms:
            yield FieldWarning(REQUIRED_TERMS, "has no effect without terms", "X-13")
        for at, term in zip(_REQUIRED_TERM, terms, strict=False):
            yield from validate_required_term(term, at)
            if len(terms) > 1 and not _selects(term):
                yield FieldWarning(at, "an empty term matches every cluster. The other terms have no effect", "X-13")
    if affinity.preferred and placement_type is PlacementType.PICK_ALL:
        message = "must not be set when placementType is PickAll, which picks every cluster"
        yield FieldError(PREFERRED, Cause.FORBIDDEN, message, "P-24", (PREFERRED, TYPE))
    for at, preferred in zip(_PREFERRED_TERM, affinity.preferred, strict=False):
        yield from validate_preferred_term(preferred.preference, at)
        if preferred.weight == 0 or not _selects(preferred.preference):
            yield FieldWarning(at, "has no effect: weight 0 or an empty preference", "X-13")


def validate_required_term(term: ClusterSelectorTerm, at: FieldPath) -> Iterator[Finding]:
    """A required term selects by labels and properties, and has no sorter (P-27, P-28)."""
    if term.label_selector is not None:
        yield from validate_label_selector(term.label_selector, at / "labelSelector", "P-27")
    if term.property_selector is not None:
        path = at / "propertySelector" / "matchExpressions"
        yield from validate_requirements(term.property_selector.match_expressions, path)
    for name in _sorters(term):
        message = "must not be set in a required term"
        yield FieldError(at / name, Cause.FORBIDDEN, message, "P-28")


def validate_preferred_term(term: ClusterSelectorTerm, at: FieldPath) -> Iterator[Finding]:
    """A preferred term selects by labels. Its sorter is the same under both names (P-27, P-29, P-36, X-18)."""
    if term.label_selector is not None:
        yield from validate_label_selector(term.label_selector, at / "labelSelector", "P-27")
    if term.property_selector is not None:
        message = "must not be set in a preferred term"
        yield FieldError(at / "propertySelector", Cause.FORBIDDEN, message, "P-29")
    sorters = _sorters(term)
    for name, sorter in sorters.items():
        yield from validate_sorter(sorter, at / name)
    if len({(sorter.name, sorter.sort_order) for sorter in sorters.values()}) > 1:
        message = "must not differ from propertySorter, its new name. Set only one of them"
        yield FieldError(at / "metricSorter", Cause.FORBIDDEN, message, "X-18", (at,))


def validate_spread(constraints: Sequence[TopologySpreadConstraint]) -> Iterator[FieldError]:
    """Constraints have valid label keys (X-11), and no two are the same (X-12)."""
    visited: set[tuple[str, str]] = set()
    for i, constraint in enumerate(constraints):
        if error := qualified_name_error(constraint.topology_key):
            yield invalid(SPREAD / i / "topologyKey", constraint.topology_key, error, "X-11")
        key = (constraint.topology_key, constraint.when_unsatisfiable)
        if key in visited:
            yield duplicate(SPREAD / i, f"{key[0]}, {key[1]}", rule="X-12")
        visited.add(key)


def validate_tolerations(tolerations: Sequence[Toleration]) -> Iterator[FieldError]:
    """Tolerations are valid, and no two are the same (P-39 to P-44)."""
    visited: set[tuple[str, str, str, str]] = set()
    for at, toleration in zip(_TOLERATION, tolerations, strict=False):
        yield from validate_toleration(toleration, at)
        key = _tuple(toleration)
        if key in visited:
            subject = " ".join(part for part in key if part)
            yield duplicate(at, subject, rule="P-44")
        visited.add(key)


def validate_toleration(toleration: Toleration, at: FieldPath) -> Iterator[FieldError]:
    """Operator and effect are known. Exists takes no value, Equal requires a key and a label value (P-39 to P-43)."""
    if toleration.operator not in {"Equal", "Exists"}:
        yield not_supported(at / "operator", toleration.operator, ("Equal", "Exists"), "P-43")
    if "effect" in toleration.model_fields_set and toleration.effect != "NoSchedule":
        yield not_supported(at / "effect", toleration.effect, ("NoSchedule",), "P-43")
    if toleration.operator == "Exists" and toleration.value:
        parts = (at / "operator", at / "value")
        yield invalid(at / "value", toleration.value, "must be empty when operator is Exists", "P-39", parts)
    if not toleration.key and toleration.operator != "Exists":
        parts = (at / "operator", at / "key")
        yield invalid(at / "operator", toleration.operator, "must be Exists when key is empty", "P-40", parts)
    if toleration.key and (error := qualified_name_error(toleration.key)):
        yield invalid(at / "key", toleration.key, error, "P-41")
    if toleration.operator == "Equal" and (error := label_value_error(toleration.value)):
        yield invalid(at / "value", toleration.value, error, "P-42")


def validate_kept_tolerations(new: PlacementPolicy | None, old: PlacementPolicy | None) -> Iterator[FieldError]:
    """Tolerations may be added, but not changed or removed. Their order is irrelevant (U-03)."""
    if old is None or not old.tolerations:
        return
    remaining = {_tuple(toleration) for toleration in new.tolerations} if new is not None else set()
    for toleration in old.tolerations:
        if (key := _tuple(toleration)) not in remaining:
            what = quote(" ".join(part for part in key if part))
            message = f"tolerations must not be changed or removed, missing: {what}"
            yield FieldError(POLICY / "tolerations", Cause.FORBIDDEN, message, "U-03")


def _sorters(term: ClusterSelectorTerm) -> dict[str, PropertySorter]:
    """Return the sorters of a term by the field that holds them."""
    if term.property_sorter is None and term.metric_sorter is None:
        return {}
    named = {"propertySorter": term.property_sorter, "metricSorter": term.metric_sorter}
    return {name: sorter for name, sorter in named.items() if sorter is not None}


def _selects(term: ClusterSelectorTerm) -> bool:
    """Return whether a term has any condition or sorter."""
    labels, properties = term.label_selector, term.property_selector
    return bool(
        (labels is not None and (labels.match_labels or labels.match_expressions))
        or (properties is not None and properties.match_expressions)
        or _sorters(term)
    )


def _tuple(toleration: Toleration) -> tuple[str, str, str, str]:
    return toleration.key, toleration.operator, toleration.value, toleration.effect
