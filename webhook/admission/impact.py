"""Warnings about what an update of a placement removes: clusters, and objects on its clusters (X-26).

The response to the update contains the warnings, before the removals take effect. The lost clusters are determined by
the decision that the scheduler will make: the new policy on the current fleet, bindings and policy snapshots.

An update may lose clusters with a shorter ``clusterNames``, with a smaller ``numberOfClusters``, and with any other
change of the policy that creates a new snapshot, because the scheduler then evaluates all earlier bindings again.
Rollout settings lose no clusters. A cluster that is deleted or leaving does not count, since it is lost without the
update, too.

Source: docs/specifications/scheduling.md 4, 14 to 16.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from scorer.api.meta import JsonObject, json_equal
from scorer.api.placement.placement import PlacementPolicy
from scorer.api.unstructured.documents import dict_at, dicts_at, name_of, namespace_of
from scorer.api.values.quoting import format_count
from scorer.placement.policy_hash import canonical_policy
from webhook.validation.framework.context import Context, UnknownStateError
from webhook.validation.framework.field import LONGEST_WARNING, FieldWarning
from webhook.validation.framework.relations import children, cluster_of, family_of, holds_cluster
from webhook.validation.live.check import LiveCheck, with_names
from webhook.validation.placement.rules import POLICY, SELECTORS

if TYPE_CHECKING:
    from scorer.fleet import Fleet

RULE: Final = "X-26"

_WHOLE_NAMESPACE: Final = "NamespaceWithResources"


def warn_about_lost_clusters(
    document: JsonObject | None, old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """Warn about the clusters that the placement would leave."""
    if document is None or old is None or not changes_policy(document, old):
        return
    current = current_clusters(document, context)
    if not current:
        return
    fleet = context.hub.fleet
    removed = {name for name in current - planned_clusters(document, context) if _stays_in_fleet(name, fleet)}
    if removed:
        text = f"removes the placement from {len(removed)} of {format_count(len(current), 'cluster')}"
        names = removed & named_clusters(document, old)
        yield FieldWarning(POLICY, with_names(text, names, LONGEST_WARNING - len(str(POLICY)) - 2, len(removed)), RULE)


def warn_about_lost_objects(
    document: JsonObject | None, old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """Warn about selected objects that the update removes from clusters.

    The objects are those in the status of the placement, so each selector counts the objects that it has selected. A
    client that forges a review learns the name of no object.
    """
    if document is None or old is None:
        return
    terms = dicts_at(document, "spec", "resourceSelectors")
    if json_equal(terms, dicts_at(old, "spec", "resourceSelectors")):
        return
    removed = [
        _object_title(identifier)
        for identifier in dicts_at(old, "status", "selectedResources")
        if not any(_may_reach(term, identifier, context) for term in terms)
    ]
    if not removed:
        return
    if count := len(current_clusters(document, context)):
        text = f"removes {format_count(len(removed), 'object')} from {format_count(count, 'cluster')}"
        yield FieldWarning(SELECTORS, with_names(text, removed, LONGEST_WARNING - len(str(SELECTORS)) - 2), RULE)


def _object_title(identifier: JsonObject) -> str:
    names = filter(None, (identifier.get("namespace"), identifier.get("name")))
    return f"{identifier.get('kind')} {'/'.join(map(str, names))}"


CHECKS: Final[tuple[LiveCheck, ...]] = (warn_about_lost_clusters, warn_about_lost_objects)


def changes_policy(document: JsonObject, old: JsonObject) -> bool:
    """Return whether an update changes the policy, not just its spelling.

    Raises:
        UnknownStateError: One of the policies is malformed and cannot be compared.
    """
    if json_equal(*(dict_at(version, "spec").get("policy") for version in (document, old))):
        return False
    return canonical_policy(_policy_of(document)) != canonical_policy(_policy_of(old))


def current_clusters(document: JsonObject, context: Context) -> frozenset[str]:
    """Return the current clusters of the placement.

    Raises:
        UnknownStateError: The bindings are unknown.
    """
    family = family_of(document)
    bindings = children(family.binding, name_of(document), namespace_of(document), context)
    return frozenset(cluster_of(binding) for binding in bindings if holds_cluster(binding))


def planned_clusters(document: JsonObject, context: Context) -> frozenset[str]:
    """Return the clusters that the scheduler would give the placement as written.

    Raises:
        UnknownStateError: An input of the decision is unknown or malformed.
    """
    from scorer.placement.binding_plan import BrokenBindingError  # the engine, which a command on files does not need
    from scorer.placement.plan_document import decide

    family, name, namespace = family_of(document), name_of(document), namespace_of(document)
    bindings = children(family.binding, name, namespace, context)
    snapshots = children(family.policy_snapshot, name, namespace, context)
    if bindings and not snapshots:
        raise UnknownStateError(family.policy_snapshot, name)
    desired = {"metadata": {"name": name, "namespace": namespace}, "spec": {"policy": _policy_of(document)}}
    try:
        run = decide(desired, context.hub.fleet, bindings, tuple(snapshots), context.now)
    except BrokenBindingError as error:
        raise UnknownStateError(family.binding, name) from error
    return frozenset({pick.cluster for pick in run.picked} | {binding.cluster for binding in run.kept})


def named_clusters(*documents: JsonObject | None) -> frozenset[str]:
    """Return the clusters that a review itself names, in a policy or in a status.

    A response names no other clusters. A review from the API server includes the stored object, whose status lists the
    clusters of the placement. A client that forges a review learns only the names that it sent (serving.md 8).
    """
    names: set[str] = set()
    for document in documents:
        listed = dict_at(document, "spec", "policy").get("clusterNames")
        placed = [entry.get("clusterName") for entry in dicts_at(document, "status", "placementStatuses")]
        names.update(name for name in [*(listed or ()), *placed] if isinstance(name, str))
    return frozenset(names)


def _policy_of(document: JsonObject) -> JsonObject | None:
    policy = dict_at(document, "spec").get("policy")
    if policy is None:
        return None
    try:
        PlacementPolicy.read(policy)
    except (ValidationError, TypeError, OverflowError) as error:
        raise UnknownStateError("policy") from error
    return policy if isinstance(policy, dict) else None


def _stays_in_fleet(name: str, fleet: "Fleet") -> bool:
    member = fleet.member(name)
    return member is not None and member.metadata.deletion_timestamp is None


def _may_reach(term: JsonObject, selected: JsonObject, context: Context) -> bool:
    """Return whether *term* may select an object that is selected now.

    A term with labels always may. A term of a Namespace may, for the content of the namespace.
    """
    kind = context.kinds.find(str(selected.get("group") or ""), str(selected.get("kind")))
    if kind is None:
        return True
    if kind.namespaced and (term.get("group") or "", term.get("kind")) == ("", "Namespace"):
        takes_content = (term.get("selectionScope") or _WHOLE_NAMESPACE) == _WHOLE_NAMESPACE
        return takes_content and term.get("name") in (None, "", selected.get("namespace"))
    same_kind = (term.get("group") or "", term.get("kind")) == (selected.get("group") or "", selected.get("kind"))
    return same_kind and term.get("name") in (None, "", selected.get("name"))
