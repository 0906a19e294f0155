"""Warnings about existing objects of members that a placement would take over (X-29).

By default a placement takes over objects that already exist on a member, and they are later deleted with the placement.
The hub knows only some of the existing objects:

* namespaces, if agents report them: selected by name, or by labels that namespaces of the hub have now
* namespaces that a member created itself, where a ResourcePlacement may find objects of the same names
* objects that the placement must not take over, which agents report as well

A member that has not reported its namespaces yet, or not all of them, may have any. The warning counts such clusters.
There is no warning about other objects, which the hub does not know. Namespaces in envelopes do not count, because the
server does not watch envelopes.

Each distinct report is compared once before the clusters are planned. The clusters are compared within the time limit
of live checks.

Source: docs/specifications/rollout.md 11.5; KubeFleet pkg/controllers/workapplier.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.kinds import NAMESPACE
from scorer.api.meta import JsonObject
from scorer.api.names import AGENT_VERSION
from scorer.api.placement.placement import PlacementType
from scorer.api.unstructured.documents import (
    dict_at,
    dicts_at,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    text_at,
    texts_at,
)
from scorer.api.values.quoting import format_count
from scorer.columns import BoolColumn
from scorer.eligibility import NOT_JOINED, NOT_REPORTING
from scorer.fleet import Fleet
from scorer.framework.cycle import Cycle
from scorer.membership.heartbeats import NAMESPACE_LIMIT
from scorer.placement.binding_plan import BrokenBindingError
from scorer.placement.plan_document import decide
from scorer.placement.request import read_request
from scorer.rollout.works.status import ManifestReason
from scorer.selectors import InvalidPolicyError
from webhook.admission.impact import planned_clusters
from webhook.validation.framework.context import Context, UnknownStateError
from webhook.validation.framework.field import FieldWarning
from webhook.validation.framework.relations import children, cluster_of, family_of, holds_cluster
from webhook.validation.live.check import LiveCheck, selector_of, timed
from webhook.validation.placement.never_placed import is_never_placed_namespace
from webhook.validation.placement.rules import SELECTORS

RULE: Final = "X-29"

_REFUSED: Final = frozenset({ManifestReason.NOT_TAKEN_OVER, ManifestReason.FAILED_TO_TAKE_OVER})
_WHAT_MATTERS: Final = ("resourceSelectors", "policy", "strategy")


def warn_about_taking_over(
    document: JsonObject | None, old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """Warn about objects of members that the placement would take over, and about members that may have some."""
    if document is None or not _takes_over(document) or (old is not None and not _changes(document, old)):
        return
    took_over = old is not None and _takes_over(old)
    reports = _reports(context.hub.fleet)
    if (old is None or took_over) and not reports.may_have_any:  # without a search for the namespaces
        return
    planned = _planned_objects(document, context)
    if (old is None or took_over) and not reports.may_have(planned):
        return
    before = _before(document, old, context) if old is not None and took_over else frozenset()
    bindings = {} if old is None else _bindings_by_cluster(document, context)
    takeovers: set[tuple[str, object]] = set()
    unseen: set[str] = set()
    for cluster in timed(_clusters(document, old, context), context):
        names = planned - before if cluster in bindings else planned
        member = context.hub.fleet.member(cluster)
        if member is not None:
            takeovers |= {(cluster, name) for name in names if (member.status.namespaces or {}).get(name) == ""}
            if _may_have_others(names, member, context.hub.fleet):
                unseen.add(cluster)
        if cluster in bindings and not took_over:
            takeovers |= {(cluster, identity) for identity in _refused(bindings[cluster])}
    if planned and (not took_over or not planned <= before or _policy(document) != _policy(old)):
        unseen |= _to_come(document, context)
    if takeovers:
        clusters = format_count(len({cluster for cluster, _ in takeovers}), "cluster")
        subject = "existing objects" if namespace_of(document) else format_count(len(takeovers), "existing object")
        yield FieldWarning(
            SELECTORS, f"{subject} on {clusters} would be taken over, and later deleted with the placement", RULE
        )
    if unseen:
        clusters = format_count(len(unseen), "cluster")
        text = f"namespaces of {clusters} are not reported yet: objects there may be taken over"
        yield FieldWarning(SELECTORS, text, RULE)


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
    """Return the clusters that the placement would get. A new placement has neither bindings nor snapshots.

    Raises:
        UnknownStateError: The fleet is unknown, or a stored binding is malformed.
    """
    if old is not None:
        return planned_clusters(document, context)
    try:
        run = decide(document, context.hub.fleet, (), (), context.now)
    except BrokenBindingError as error:
        raise UnknownStateError(name_of(document)) from error
    return frozenset(pick.cluster for pick in run.picked)


def _planned_objects(document: JsonObject, context: Context) -> frozenset[str]:
    """Return the selected namespaces, or the namespace of a ResourcePlacement, which contains all its objects."""
    if namespace := namespace_of(document):
        return frozenset({namespace})
    terms = [
        term
        for term in dicts_at(document, "spec", "resourceSelectors")
        if (term.get("group") or "", term.get("kind")) == NAMESPACE.group_kind
    ]
    named = {name for term in terms if isinstance(name := term.get("name"), str) and name}
    return frozenset(named | _labelled([term for term in terms if not term.get("name")], context))


def _labelled(terms: Sequence[JsonObject], context: Context) -> set[str]:
    """Return the namespaces of the hub that terms without a name select now, empty if they are unknown."""
    if not terms:
        return set()
    try:
        selectors = [selector_of(term) for term in terms]
        return {
            name_of(namespace)
            for namespace in timed(context.hub.list(NAMESPACE), context)
            if any(selector.matches(labels_of(namespace)) for selector in selectors)
            and not is_deleting(namespace)
            and not is_never_placed_namespace(name_of(namespace), context)
        }
    except UnknownStateError:
        return set()


def _before(document: JsonObject, old: JsonObject, context: Context) -> frozenset[str]:
    """Return the namespaces where an update selects no additional objects."""
    terms, stored = (dicts_at(version, "spec", "resourceSelectors") for version in (document, old))
    if namespace_of(document) and any(term not in stored for term in terms):
        return frozenset()
    return _planned_objects(old, context)


@dataclass(frozen=True, slots=True)
class _Reports:
    """Reports of all members of a fleet about namespaces.

    Args:
        names: All namespaces that any member reports, regardless of their creator.
        cut: Reports that may be incomplete.
        missing: Whether the report of some agent is missing, so that its member may have any namespace.
    """

    names: frozenset[str]
    cut: tuple[frozenset[str], ...]
    missing: bool

    @property
    def may_have_any(self) -> bool:
        """Whether any member has a namespace, or may have one."""
        return self.missing or bool(self.names or self.cut)

    def may_have(self, names: frozenset[str]) -> bool:
        """Return whether any member has one of these namespaces, or may have one."""
        if not names:
            return False
        return self.missing or not names.isdisjoint(self.names) or any(not names <= reported for reported in self.cut)


@lru_cache(maxsize=1)
def _reports(fleet: Fleet) -> _Reports:
    """Return the reports of members, computed once per fleet and not per review.

    This is much cheaper than a scheduling decision. In most fleets no report has the namespaces of the placement.
    """
    reports = [reported for _, reported in fleet.namespaces.values if reported is not None]
    missing = (
        bool(_silent(fleet).any())
        or any(collects and reported is None for collects, reported in fleet.namespaces.values)
        or any(
            member.status.namespaces is None and AGENT_VERSION in member.status.properties for member in fleet.members
        )
    )
    cut = tuple(reported for reported in reports if len(reported) >= NAMESPACE_LIMIT)
    return _Reports(frozenset().union(*reports), cut, missing)


def _may_have_others(names: frozenset[str], member: MemberCluster, fleet: Fleet) -> bool:
    """Return whether a member may have one of these namespaces although its agent has not reported it.

    Agents of other projects and simulated members never report namespaces. A warning about every placement would be
    useless.
    """
    reported = member.status.namespaces
    if reported is None:
        return bool(names) and (AGENT_VERSION in member.status.properties or _collects(member.metadata.name, fleet))
    return len(reported) >= NAMESPACE_LIMIT and not names <= reported.keys()


def _to_come(document: JsonObject, context: Context) -> frozenset[str]:
    """Return the members that the placement may get as soon as they report. Until then, no decision names them.

    Raises:
        UnknownStateError: The fleet is unknown, or the policy is invalid.
    """
    fleet = context.hub.fleet
    silent, policy = _silent(fleet), _policy(document)
    if not silent.any():
        return frozenset()
    try:
        profile = read_request(policy).profile
    except InvalidPolicyError as error:
        raise UnknownStateError("policy") from error
    if policy.get("placementType") == PlacementType.PICK_FIXED:
        named = fleet.rows(texts_at(document, "spec", "policy", "clusterNames"))
        return _names(fleet, silent & named)
    nowhere = np.zeros(len(fleet), dtype=np.bool_)
    cycle = Cycle(fleet, context.now, "", nowhere, nowhere)
    for plugin in (profile.affinity, profile.taints):
        if (mask := plugin.filter(cycle)) is not None:
            silent = silent & mask
    return _names(fleet, silent)


def _collects(cluster: str, fleet: Fleet) -> bool:
    view = None if (row := fleet.row(cluster)) is None else fleet.namespaces.value(row)
    return view is not None and view[0]


def _silent(fleet: Fleet) -> BoolColumn:
    """Return the clusters of a hub whose agents do not report yet. A MemberCluster in a file has no agent."""
    failed = fleet.eligibility.failed
    silent: BoolColumn = (failed == NOT_REPORTING) | (failed == NOT_JOINED)
    for row in np.flatnonzero(silent):
        silent[row] = bool(fleet.members[int(row)].metadata.uid)
    return silent


def _names(fleet: Fleet, rows: BoolColumn) -> frozenset[str]:
    return frozenset(fleet.names[row] for row in np.flatnonzero(rows))


def _policy(document: JsonObject | None) -> JsonObject:
    return dict_at(document, "spec", "policy")


def _refused(binding: JsonObject) -> Iterator[object]:
    """Yield the existing objects that the agent did not take over. Namespaces are represented by their names."""
    for entry in dicts_at(binding, "status", "failedPlacements"):
        if dict_at(entry, "condition").get("reason") in _REFUSED:
            identity = tuple(str(entry.get(part) or "") for part in ("group", "kind", "namespace", "name"))
            yield identity[3] if identity[:2] == NAMESPACE.group_kind else identity
