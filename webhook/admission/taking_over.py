"""Which objects that were on members before a write of a placement makes ours (X-29).

By default a placement takes over the objects that it finds, and they later go with the placement. Of the objects that
are there before anything is applied, the hub knows namespaces, where agents report them, and objects that the placement
was told not to take over, which agents report as well. The hub does not know of any others; there is no warning about
them.

Source: rollout.md 11.1; KubeFleet pkg/controllers/workapplier.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from scorer.api.documents import dict_at, dicts_at, name_of, namespace_of, text_at
from scorer.api.kinds import NAMESPACE
from scorer.api.meta import JsonObject
from scorer.placement.binding_plan import BrokenBindingError
from scorer.placement.plan_document import decide
from scorer.rollout.work_status import ManifestReason
from webhook.admission.impact import planned_clusters
from webhook.validation.context import Context, NotKnownError
from webhook.validation.field import FieldWarning
from webhook.validation.live.check import LiveCheck, counted, timed
from webhook.validation.live.relations import children, cluster_of, family_of, holds_cluster
from webhook.validation.placement import SELECTORS

RULE: Final = "X-29"

_REFUSED: Final = frozenset({ManifestReason.NOT_TAKEN_OVER, ManifestReason.FAILED_TO_TAKE_OVER})
_WHAT_MATTERS: Final = ("resourceSelectors", "policy", "strategy")


def warn_about_taking_over(
    document: JsonObject | None, old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """Warn about the objects that are on members already and that the placement would own."""
    if document is None or not _takes_over(document) or (old is not None and not _changes(document, old)):
        return
    took_over = old is not None and _takes_over(old)
    wanted = _namespaces(document)
    if (old is None or took_over) and not _are_reported(wanted, context):  # the hub knows of no such object
        return
    held = {} if old is None else _bindings_by_cluster(document, context)
    found: set[tuple[str, object]] = set()
    for cluster in timed(_clusters(document, old, context), context):
        known = took_over and cluster in held
        names = wanted - (_namespaces(old or {}) if known else frozenset())
        found |= {(cluster, name) for name in names if _is_unowned(cluster, name, context)}
        if cluster in held and not took_over:
            found |= {(cluster, identity) for identity in _refused(held[cluster])}
    if found:
        objects, clusters = len(found), len({cluster for cluster, _ in found})
        text = f"{counted(objects, 'existing object')} would become ours, and go with the placement"
        yield FieldWarning(SELECTORS, f"{text} ({counted(clusters, 'cluster')})", RULE)


CHECKS: Final[tuple[LiveCheck, ...]] = (warn_about_taking_over,)


def _takes_over(document: JsonObject) -> bool:
    strategy = dict_at(document, "spec", "strategy", "applyStrategy")
    return text_at(strategy, "type") != "ReportDiff" and text_at(strategy, "whenToTakeOver") != "Never"


def _changes(document: JsonObject, old: JsonObject) -> bool:
    new, stored = dict_at(document, "spec"), dict_at(old, "spec")
    return any(new.get(member) != stored.get(member) for member in _WHAT_MATTERS)


def _bindings_by_cluster(document: JsonObject, context: Context) -> Mapping[str, JsonObject]:
    family = family_of(document)
    bindings = children(family.binding, name_of(document), namespace_of(document), context)
    return {cluster_of(binding): binding for binding in bindings if holds_cluster(binding)}


def _clusters(document: JsonObject, old: JsonObject | None, context: Context) -> frozenset[str]:
    """Return the clusters that the placement would get; a new one has neither bindings nor snapshots."""
    if old is not None:
        return planned_clusters(document, context)
    try:
        run = decide(document, context.hub.fleet, (), (), context.now)
    except BrokenBindingError as error:
        raise NotKnownError(name_of(document)) from error
    return frozenset(pick.cluster for pick in run.picked)


def _namespaces(document: JsonObject) -> frozenset[str]:
    """Return the namespaces that are selected by name."""
    terms = dicts_at(document, "spec", "resourceSelectors")
    found = (term.get("name") for term in terms if (term.get("group") or "", term.get("kind")) == NAMESPACE.group_kind)
    return frozenset(name for name in found if isinstance(name, str) and name)


def _are_reported(names: frozenset[str], context: Context) -> bool:
    """Say whether any member has reported one of these namespaces, whoever created it.

    Much cheaper than to decide which clusters the placement would get, and almost always the answer is no.
    """
    if not names:
        return False
    views = timed(context.hub.fleet.namespaces.values, context)
    return any(reported is not None and not names.isdisjoint(reported) for _, reported in views)


def _is_unowned(cluster: str, namespace: str, context: Context) -> bool:
    """Say whether a member has reported a namespace that no Work created."""
    member = context.hub.fleet.member(cluster)
    reported = member.status.namespaces if member is not None else None
    return reported is not None and reported.get(namespace) == ""


def _refused(binding: JsonObject) -> Iterator[object]:
    """Yield the objects that the agent found and did not take over; Namespaces by name, as above."""
    for entry in dicts_at(binding, "status", "failedPlacements"):
        if dict_at(entry, "condition").get("reason") in _REFUSED:
            identity = tuple(str(entry.get(part) or "") for part in ("group", "kind", "namespace", "name"))
            yield identity[3] if identity[:2] == NAMESPACE.group_kind else identity
