"""Rules on ``spec.resourceSelectors``: which objects a placement selects (P-04 to P-15, X-01 to X-04, X-17)."""

from collections.abc import Iterator, Sequence
from typing import Final

from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION
from scorer.api.placement.placement import PlacementSpec, ResourceSelectorTerm, SelectionScope
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import quote
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import SPEC, Cause, FieldError, FieldWarning, duplicate, invalid
from webhook.validation.framework.reading import Finding
from webhook.validation.framework.selector import validate_label_selector
from webhook.validation.placement import never_placed
from webhook.validation.placement.rules import MOST_ITEMS, SELECTORS

# Paths made once, because every review needs them, whether it finds a mistake or not.
_SELECTOR: Final = tuple(SELECTORS / i for i in range(MOST_ITEMS))


def validate_resource_selectors(
    terms: Sequence[ResourceSelectorTerm], context: Context, *, namespaced: bool
) -> Iterator[Finding]:
    """Yield the findings about the resource selectors (P-04 to P-13, X-01 to X-04)."""
    with_selectors = [
        i
        for i, term in enumerate(terms)
        if term.selection_scope is SelectionScope.NAMESPACE_WITH_RESOURCE_SELECTORS and _is_namespace(term)
    ]
    for at, term in zip(_SELECTOR, terms, strict=False):
        if term.label_selector is not None:
            yield from validate_name_or_labels(term, at)
            yield from validate_label_selector(term.label_selector, at / "labelSelector", "P-05")
        if never_placed.is_never_placed(term.group, term.kind, context):
            yield FieldError(at / "kind", Cause.FORBIDDEN, f"{quote(term.kind)} is never placed", "X-02")
        elif not _is_namespace(term) and (reason := never_placed.reserved_reason(term.group, term.kind, term.name)):
            yield FieldError(at / "name", Cause.FORBIDDEN, f"{quote(term.name)} {reason}, never placed", "X-02")
        else:
            yield from validate_kind_scope(term, at, context, namespaced=namespaced, lifted=bool(with_selectors))
        if not namespaced and _is_namespace(term):
            yield from validate_namespace_name(term, at, context)
        if (term.group, term.kind) == CUSTOM_RESOURCE_DEFINITION.group_kind and not term.name:
            yield from warn_about_definitions(term, at)
    yield from validate_namespace_with_selectors(terms, with_selectors)
    yield from validate_distinct_terms(terms)


def validate_name_or_labels(term: ResourceSelectorTerm, at: FieldPath) -> Iterator[FieldError]:
    """A term selects by name or by label, not by both. An empty ``labelSelector`` counts as set (P-04)."""
    if term.name and term.label_selector is not None:
        yield FieldError(at / "labelSelector", Cause.FORBIDDEN, "name and labelSelector are mutually exclusive", "P-04")


def validate_kind_scope(
    term: ResourceSelectorTerm, at: FieldPath, context: Context, *, namespaced: bool, lifted: bool
) -> Iterator[Finding]:
    """The hub serves the kind (P-06), with a scope that this kind of placement can select (P-07, P-08).

    If discovery is not available, an unknown kind outside Kubernetes' own groups only causes a warning (P-09). The
    reference refuses such a kind.

    Args:
        term: The selector.
        at: Path of the selector.
        context: Has the kinds that the hub serves.
        namespaced: Whether the placement is a ResourcePlacement.
        lifted: Whether a term selects a Namespace whose objects the other terms may select.
    """
    kind = context.kinds.find_served(term.group, term.version, term.kind)
    if kind is None:
        if context.kinds.may_serve(term.group):
            message = f"cannot determine whether the hub has {quote(term.kind)}{context.kinds.remedy}"
            yield FieldWarning(at / "kind", message, "P-09")
        else:
            kind_text = quote(f"{term.group}/{term.version}" if term.group else term.version)
            parts = (at / "group", at / "version", at / "kind")
            yield invalid(at / "kind", term.kind, f"the hub has no such kind in {kind_text}", "P-06", parts)
    elif namespaced and not kind.namespaced:
        reason = f"{quote(term.kind)}: must be namespaced in a ResourcePlacement"
        yield FieldError(at / "kind", Cause.INVALID, reason, "P-08")
    elif not namespaced and kind.namespaced and not lifted:
        reason = f"{quote(term.kind)}: must be cluster-scoped in a ClusterResourcePlacement"
        yield FieldError(at / "kind", Cause.INVALID, reason, "P-07")


def validate_namespace_name(term: ResourceSelectorTerm, at: FieldPath, context: Context) -> Iterator[Finding]:
    """A reserved namespace must not be selected by name (X-01). A selector of all namespaces skips them (X-03).

    The reference admits both, and the placement then fails permanently.
    """
    if never_placed.is_never_placed_namespace(term.name, context):
        yield FieldError(
            at / "name", Cause.FORBIDDEN, f"must not select the reserved namespace {quote(term.name)}", "X-01"
        )
    elif (
        not term.name
        and term.label_selector is None
        and term.selection_scope is SelectionScope.NAMESPACE_WITH_RESOURCES
    ):
        yield FieldWarning(at, "selects every namespace except the reserved ones", "X-03")


def warn_about_definitions(term: ResourceSelectorTerm, at: FieldPath) -> Iterator[FieldWarning]:
    """A selector of all definitions skips those of the fleet (X-03)."""
    if term.label_selector is None or not (term.label_selector.match_labels or term.label_selector.match_expressions):
        yield FieldWarning(at, "selects every definition except those of the fleet", "X-03")


def validate_namespace_with_selectors(
    terms: Sequence[ResourceSelectorTerm], positions: Sequence[int]
) -> Iterator[FieldError]:
    """A ``NamespaceWithResourceSelectors`` term is the only Namespace term, and selects by name (P-11 to P-13)."""
    for i in positions:
        at = SELECTORS / i
        message = "NamespaceWithResourceSelectors must select one namespace by name"
        if not terms[i].name:
            yield FieldError(at / "name", Cause.REQUIRED, message, "P-12", (at,))
        if terms[i].label_selector is not None:
            yield FieldError(at / "labelSelector", Cause.FORBIDDEN, message, "P-12", (at,))
    for i in positions[1:]:
        message = "only one term may have NamespaceWithResourceSelectors"
        yield FieldError(SELECTORS / i / "selectionScope", Cause.FORBIDDEN, message, "P-11")
    if positions:
        for i, term in enumerate(terms):
            if i not in positions and _is_namespace(term):
                message = "must not select a Namespace when another term has NamespaceWithResourceSelectors"
                yield FieldError(SELECTORS / i, Cause.FORBIDDEN, message, "P-13")


def validate_distinct_terms(terms: Sequence[ResourceSelectorTerm]) -> Iterator[FieldError]:
    """No two terms without a labelSelector are the same: the rollout would fail with a duplicate resource (X-04)."""
    visited: set[tuple[str, str, str, str]] = set()
    for i, term in enumerate(terms):
        if term.label_selector is not None:
            continue
        key = (term.group, term.version, term.kind, term.name)
        if key in visited:
            subject = f"{term.kind} {term.name}" if term.name else f"every {term.kind}"
            yield duplicate(SELECTORS / i, subject, rule="X-04")
        visited.add(key)


def validate_reporting_scope(spec: PlacementSpec, *, namespaced: bool) -> Iterator[Finding]:
    """``NamespaceAccessible`` requires exactly one Namespace term (P-15). It has no effect if *namespaced* (X-17)."""
    if spec.status_reporting_scope != "NamespaceAccessible":
        return
    at = SPEC / "statusReportingScope"
    if namespaced:
        yield FieldWarning(at, "has no effect on a ResourcePlacement", "X-17")
        return
    count = sum(term.kind == "Namespace" for term in spec.resource_selectors)
    if count != 1:
        message = f'"NamespaceAccessible": must have exactly one Namespace among resourceSelectors, has {count}'
        yield FieldError(at, Cause.INVALID, message, "P-15", (at, SELECTORS))


def _is_namespace(term: ResourceSelectorTerm) -> bool:
    return term.kind == "Namespace" and term.group == "" and term.version == "v1"
