"""Live checks on ClusterResourcePlacement and ResourcePlacement.

On an update, they check only what the update changes.

Source: docs/specifications/placement-api.md 10.1.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain
from typing import Final

import numpy as np
import orjson

from scorer.api.kinds import MEMBER_CLUSTER, Kind
from scorer.api.meta import JsonObject, json_equal
from scorer.api.names import RESOURCE_INDEX, SCORE_PREFIX
from scorer.api.unstructured.documents import (
    SELECTED_OBJECTS,
    dict_at,
    dicts_at,
    is_deleting,
    label,
    labels_of,
    name_of,
    namespace_of,
    selection_key,
    text_at,
    texts_at,
)
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import format_count, quote
from scorer.eligibility import LEAVING, NOT_JOINED, NOT_REPORTING
from scorer.fleet import Fleet
from scorer.framework.cycle import Cycle
from scorer.placement.request import read_request
from scorer.profile import Profile
from scorer.properties import CAPACITY_KINDS, NODE_COUNT, NODE_COUNT_ALIASES, RESOURCE_PREFIX, read_property
from scorer.selectors import InvalidPolicyError
from webhook.validation.framework.context import Context, UnknownStateError
from webhook.validation.framework.field import SPEC, FieldWarning
from webhook.validation.framework.relations import (
    children,
    cluster_of,
    family_of,
    holds_cluster,
    is_same_object,
    is_unfinished,
)
from webhook.validation.framework.selector import NOT_NUMERIC
from webhook.validation.live.check import LONGEST_KNOWN, MOST_KNOWN, LiveCheck, selector_of, timed
from webhook.validation.placement.rules import POLICY, PREFERRED, REQUIRED_TERMS, SELECTORS

_AZURE: Final = "kubernetes.azure.com/"
WELL_KNOWN: Final = frozenset(
    {f"{RESOURCE_PREFIX}{kind}-{resource}" for kind in CAPACITY_KINDS for resource in ("cpu", "memory")}
    | {NODE_COUNT, *NODE_COUNT_ALIASES, f"{_AZURE}per-cpu-core-cost", f"{_AZURE}per-gb-memory-cost"}
    | NOT_NUMERIC
)
"""Properties that a member may report later, even if none does now (placement-api.md 2.2)."""
_SIZE_COUNT: Final = re.compile(r"kubernetes\.azure\.com/vm-sizes/[^/]+/count", re.ASCII)
_MOST_CANDIDATES: Final = 200
"""Maximum number of property names that are compared with an unknown one, to suggest a correction."""
_NAMESPACE: Final = ("", "Namespace")


def warn_about_number(document: JsonObject | None, old: JsonObject | None, context: Context) -> Iterator[FieldWarning]:
    """PickN asks for more clusters than have joined, or than match its terms and tolerations (X-05).

    A cluster that has never reported counts as matching.
    """
    policy = dict_at(document, "spec", "policy")
    requested = policy.get("numberOfClusters")
    if document is None or policy.get("placementType") != "PickN" or not isinstance(requested, int):
        return
    if old is not None and json_equal(policy, dict_at(old, "spec", "policy")):
        return
    fleet = context.hub.fleet
    known, text = _of_this_fleet(fleet), _text_of(policy)
    message = known.get(text)
    if message is None:
        message = _missing_clusters(policy, text, requested, fleet, context)
        if len(text) <= LONGEST_KNOWN and len(known) < MOST_KNOWN:
            known[text] = message
    if message:
        yield FieldWarning(POLICY / "numberOfClusters", message, "X-05")


@lru_cache(maxsize=1)
def _of_this_fleet(_fleet: Fleet) -> dict[bytes, str]:
    """Return the cached results of `_missing_clusters` by policy. A change to the fleet invalidates all of them."""
    return {}


def _missing_clusters(policy: JsonObject, text: bytes, wanted: int, fleet: Fleet, context: Context) -> str:
    """Return the warning about the number of clusters of a PickN policy, empty if enough clusters match."""
    failed = fleet.eligibility.failed
    joined = (failed != LEAVING) & (failed != NOT_JOINED)
    count = int(np.count_nonzero(joined))
    if wanted > count:
        return f"{wanted} clusters requested, but only {format_count(count, 'cluster')} joined so far"
    profile = _profile_of(policy, text)
    nowhere = np.zeros(len(fleet), dtype=np.bool_)
    cycle = Cycle(fleet, context.now, "", nowhere, nowhere)
    fitting = joined
    for plugin in (profile.affinity, profile.taints):
        if (mask := plugin.filter(cycle)) is not None:
            fitting = fitting & mask
    if wanted <= np.count_nonzero(fitting):
        return ""
    fit = int(np.count_nonzero(fitting | (failed == NOT_REPORTING)))
    if wanted <= fit:
        return ""
    return (
        f"{format_count(wanted, 'cluster')} requested, but the terms and tolerations match only {fit} of "
        f"{format_count(count, 'joined cluster')}"
    )


def _text_of(policy: JsonObject) -> bytes:
    """Return a policy as JSON, the cache key of results about it. Few policies differ, so results are cached.

    Raises:
        UnknownStateError: The policy cannot be written as JSON.
    """
    try:
        return orjson.dumps(policy)
    except orjson.JSONEncodeError as error:
        raise UnknownStateError("policy") from error


def _profile_of(policy: JsonObject, text: bytes) -> Profile:
    try:
        return _known_profile(text) if len(text) <= LONGEST_KNOWN else read_request(policy).profile
    except InvalidPolicyError as error:
        raise UnknownStateError("policy") from error


@lru_cache(maxsize=MOST_KNOWN)
def _known_profile(text: bytes) -> Profile:
    return read_request(orjson.loads(text)).profile


def warn_about_unknown_clusters(
    document: JsonObject | None, old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """A listed cluster is not in the fleet (X-07)."""
    before = texts_at(old, "spec", "policy", "clusterNames")
    for i, name in enumerate(texts_at(document, "spec", "policy", "clusterNames")):
        if name not in before and context.hub.get(MEMBER_CLUSTER, name) is None:
            yield FieldWarning(POLICY / "clusterNames" / i, f"there is no member cluster {quote(name)} yet", "X-07")


def warn_about_unknown_properties(
    document: JsonObject | None, old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """A term compares or sorts by a property that no member reports, and that is not well known (X-08).

    There is no warning while some member has never reported, or while no member reports any property.
    """
    policy = dict_at(document, "spec", "policy")
    text = _text_of(policy)
    strange = _known_strange(text) if len(text) <= LONGEST_KNOWN else _strange(policy)
    if strange and old is not None:
        before = {name for _, name in _properties(dict_at(old, "spec", "policy"))}
        strange = tuple((at, name) for at, name in strange if name not in before)
    if not strange:
        return
    fleet = context.hub.fleet
    if (fleet.eligibility.failed == NOT_REPORTING).any():
        return
    reported = {name for member in timed(fleet.members, context) for name in member.status.properties}
    if not reported:
        return
    for at, name in strange:
        if name in reported or _is_reported_otherwise(name, fleet, context):
            continue
        context.check_time()
        close = _closest(name, sorted(reported | WELL_KNOWN)[:_MOST_CANDIDATES])
        yield FieldWarning(at, f"no cluster reports it{f'. Did you mean {close}?' if close else ''}", "X-08")


@lru_cache(maxsize=MOST_KNOWN)
def _known_strange(text: bytes) -> tuple[tuple[FieldPath, str], ...]:
    return _strange(orjson.loads(text))


def _strange(policy: JsonObject) -> tuple[tuple[FieldPath, str], ...]:
    """Return the properties in a policy that are not well known, with their paths."""
    return tuple(
        (at, name) for at, name in _properties(policy) if name not in WELL_KNOWN and not _SIZE_COUNT.fullmatch(name)
    )


def _closest(name: str, others: Sequence[str]) -> str:
    """Return the one of *others* that the user may have meant, empty if none is similar.

    Only the last segments are compared, because most prefixes are similar.
    """
    by_end = {other.rpartition("/")[2]: other for other in others}
    close = get_close_matches(name.rpartition("/")[2], by_end, 1, 0.75)
    return by_end[close[0]] if close else ""


def _is_reported_otherwise(name: str, fleet: Fleet, context: Context) -> bool:
    """Return whether a cluster has a resource or an external score of that name, which ``status.properties`` lacks."""
    return name.startswith((RESOURCE_PREFIX, SCORE_PREFIX)) and any(
        read_property(member, name) is not None for member in timed(fleet.members, context)
    )


def _properties(policy: JsonObject) -> Iterator[tuple[FieldPath, str]]:
    """Yield the names of the properties in a policy, with their paths."""
    affinity = dict_at(policy, "affinity", "clusterAffinity")
    required = dicts_at(affinity, "requiredDuringSchedulingIgnoredDuringExecution", "clusterSelectorTerms")
    for i, term in enumerate(required):
        for k, requirement in enumerate(dicts_at(term, "propertySelector", "matchExpressions")):
            at = REQUIRED_TERMS.below(i, "propertySelector", "matchExpressions", k, "name")
            yield at, text_at(requirement, "name")
    for i, term in enumerate(dicts_at(affinity, "preferredDuringSchedulingIgnoredDuringExecution")):
        for sorter in ("propertySorter", "metricSorter"):
            if name := text_at(term, "preference", sorter, "name"):
                yield PREFERRED.below(i, "preference", sorter, "name"), name


def warn_about_empty_selectors(
    document: JsonObject | None, old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """A selector matches no object on the hub (X-25): the object is not created yet, or its name is misspelt."""
    before = dicts_at(old, "spec", "resourceSelectors")
    terms = dicts_at(document, "spec", "resourceSelectors")
    for i, term in enumerate(terms):
        kind = context.kinds.find(text_at(term, "group"), text_at(term, "kind"))
        if term in before or kind is None:
            continue
        namespace = (namespace_of(document or {}) or selected_home(terms)) if kind.namespaced else ""
        if kind.namespaced and not namespace:
            continue
        try:
            finds = _finds_anything(term, kind, namespace, context)
        except UnknownStateError:
            continue
        if not finds:
            name = text_at(term, "name")
            message = f"there is no {kind.kind} {quote(name)} yet" if name else f"selects no {kind.kind} yet"
            yield FieldWarning(SELECTORS / i, message, "X-25")


def selected_home(terms: list[JsonObject]) -> str:
    """Return the namespace of the namespaced objects that a ClusterResourcePlacement selects. Empty: unset."""
    names = (text_at(term, "name") for term in terms if term.get("selectionScope") == "NamespaceWithResourceSelectors")
    return next(names, "")


def _finds_anything(term: JsonObject, kind: Kind, namespace: str, context: Context) -> bool:
    if name := text_at(term, "name"):
        return context.hub.get(kind, name, namespace) is not None
    if not context.hub.list(kind, namespace):
        return False
    selector = selector_of(term)
    candidates = context.hub.candidates(kind, selector, namespace)
    return any(selector.matches(labels_of(item)) for item in timed(candidates, context) if not is_deleting(item))


def warn_about_shared_objects(
    document: JsonObject | None, old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """Another placement of the same kind places the same object on some of the same clusters (X-22).

    Agents refuse that even if both allow co-ownership. Only objects that this placement selects by name are compared.
    The other placement may select them by name, or by labels that the object has on the hub.
    """
    before = dicts_at(old, "spec", "resourceSelectors")
    named = [
        (i, term)
        for i, term in enumerate(dicts_at(document, "spec", "resourceSelectors"))
        if text_at(term, "name") and term not in before
    ]
    if document is None or not named:
        return
    family, namespace = family_of(document), namespace_of(document)
    if not context.hub.list(family.binding, namespace):
        return
    planned: frozenset[str] | None = None
    for i, term in named:
        for other in _others_selecting(term, document, context):
            bindings = children(family.binding, name_of(other), namespace, context)
            held = {cluster_of(binding) for binding in bindings if holds_cluster(binding)}
            if not held:
                continue
            planned = _planned(document, context) if planned is None else planned
            if both := planned & held:
                message = (
                    f"{family.ref(other)} places it on {len(both)} of the same clusters: only one of them can apply it "
                    "there"
                )
                yield FieldWarning(SELECTORS / i, message, "X-22")
                break


def _others_selecting(named: JsonObject, document: JsonObject, context: Context) -> Iterator[JsonObject]:
    """Yield the other placements that select an object by name, then those that select it by labels.

    Args:
        named: The selector that names the object.
        document: The placement of the selector.
        context: Finds the placements by the objects that they select.
    """
    kind, namespace = family_of(document).placement, namespace_of(document)
    group, selected, name = (text_at(named, part) for part in ("group", "kind", "name"))
    by_name = context.hub.labelled(kind, SELECTED_OBJECTS, selection_key(group, selected, name), namespace)
    by_labels = context.hub.labelled(kind, SELECTED_OBJECTS, selection_key(group, selected, ""), namespace)
    for other in timed(chain(by_name, _fitting(by_labels, named, context)), context):
        if not is_same_object(document, other) and not is_deleting(other):
            yield other


def _planned(document: JsonObject, context: Context) -> frozenset[str]:
    """Return the clusters that a placement holds, and those that its first scheduling run would pick."""
    from scorer.placement.plan_document import decide  # only for placements that share objects

    family, name, namespace = family_of(document), name_of(document), namespace_of(document)
    bindings = children(family.binding, name, namespace, context) if name else ()
    clusters_held = {cluster_of(binding) for binding in bindings if holds_cluster(binding)}
    policy = dict_at(document, "spec").get("policy")
    desired = {"metadata": {"name": name, "namespace": namespace}, "spec": {"policy": policy}}
    run = decide(desired, context.hub.fleet, (), (), context.now)
    return frozenset(clusters_held | {pick.cluster for pick in run.picked})


def _fitting(placements: Collection[JsonObject], named: JsonObject, context: Context) -> Iterator[JsonObject]:
    """Yield the *placements* with a term that selects, by labels, the object of *named*."""
    labels = _labels_on_hub(named, context) if placements else None
    if labels is None:
        return
    kind = text_at(named, "group"), text_at(named, "kind")
    for placement in timed(placements, context):
        terms = dicts_at(placement, "spec", "resourceSelectors")
        bare = (each for each in terms if not each.get("name") and (each.get("group") or "", each.get("kind")) == kind)
        if any(_fits_labels(term, labels) for term in bare):
            yield placement


def _fits_labels(term: JsonObject, labels: Mapping[str, str]) -> bool:
    try:
        return selector_of(term).matches(labels)
    except UnknownStateError:
        return False


def _labels_on_hub(named: JsonObject, context: Context) -> Mapping[str, str] | None:
    """Return the labels that the object of *named* has on the hub.

    None: unknown. The object is namespaced, does not exist or cannot be read, or its kind is unknown.
    """
    kind = context.kinds.find(text_at(named, "group"), text_at(named, "kind"))
    if kind is None or kind.namespaced:
        return None
    try:
        document = context.hub.get(kind, text_at(named, "name"))
    except UnknownStateError:
        return None
    return None if document is None else labels_of(document)


def warn_about_history(document: JsonObject | None, old: JsonObject | None, context: Context) -> Iterator[FieldWarning]:
    """A smaller history limit prunes a snapshot that an unfinished run uses (X-24)."""
    limit, before = (_history_limit(state) for state in (document, old))
    if document is None or old is None or limit >= before:
        return
    family, name, namespace = family_of(document), name_of(document), namespace_of(document)
    used = {
        index
        for run in timed(context.hub.list(family.run, namespace), context)
        if text_at(run, "spec", "placementName") == name
        and is_unfinished(run)
        and (
            index := text_at(run, "status", "resourceSnapshotIndexUsed")
            or text_at(run, "spec", "resourceSnapshotIndex")
        )
    }
    if not used:
        return
    snapshots = children(family.resource_snapshot, name, namespace, context)
    indices = sorted({label(snapshot, RESOURCE_INDEX) for snapshot in snapshots}, key=_number)
    pruned = used & (_surplus(indices, limit) - _surplus(indices, before))
    if pruned:
        index = min(pruned, key=_number)
        message = f"the next change prunes snapshot {quote(index)}, which an unfinished run uses"
        yield FieldWarning(SPEC / "revisionHistoryLimit", message, "X-24")


def _history_limit(document: JsonObject | None) -> int:
    limit = dict_at(document, "spec").get("revisionHistoryLimit")
    return limit if isinstance(limit, int) else 10


def _surplus(indexes: list[str], limit: int) -> set[str]:
    """Return the indexes that are pruned when another snapshot is created."""
    return set(indexes[: max(0, len(indexes) - limit + 1)])


def _number(index: str) -> int:
    return int(index) if index.isascii() and index.isdigit() else -1


CHECKS: Final[tuple[LiveCheck, ...]] = (
    warn_about_number,
    warn_about_unknown_clusters,
    warn_about_unknown_properties,
    warn_about_empty_selectors,
    warn_about_shared_objects,
    warn_about_history,
)
