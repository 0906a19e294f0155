"""A placement that has come to its end, compared field by field on every level: its own status, each cluster in it,
bindings, Works, and the verdict of the scheduler.

Source: docs/specifications/rollout.md 4, 5.3, 13, 15 and 16.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from e2e.controlplane.cluster import JsonObject
from e2e.controlplane.process import PATIENCE
from e2e.fleet.bed import Fleet
from e2e.fleet.conditions import (
    Row,
    binding_rows,
    check_policy_snapshot,
    check_rows,
    cluster_rows,
    placement_rows,
    rows,
    rows_of,
    work_rows,
)
from e2e.fleet.objects import is_deleting, labels_of, name_of
from e2e.fleet.settled import FLEET
from e2e.fleet.waiting import wait_until
from scorer.api.family import family_in
from scorer.api.kinds import WORK

LISTS = ("failedPlacements", "driftedPlacements", "diffedPlacements")


@dataclass(frozen=True)
class Complete:
    """What a placement is expected to say.

    Args:
        name: Its name.
        clusters: In the order of the decisions, if nothing is missing.
        selected: Kind and name of what it selects, in the order of rollout.md 2.7.
        namespace: Of a ResourcePlacement.
        index: Of the latest resource snapshot.
        overridden: Override snapshots of each cluster that has any, cluster-scoped ones first.
        report_diff: It only compares.
        trackable: All of its content says whether it is available.
        missing: Why clusters are missing that were wanted; a prefix of the message of each.
        works: How many Works are on each cluster.
        lists: Which of the lists of single objects are not empty, per cluster.
        more: Conditions of the placement after the usual ones.
    """

    name: str
    clusters: Sequence[str]
    selected: Sequence[tuple[str, str]] = ()
    namespace: str = ""
    index: str = "0"
    overridden: Mapping[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    report_diff: bool = False
    trackable: bool = True
    missing: Sequence[str] = ()
    works: int = 1
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)
    more: Sequence[tuple[str, str, str]] = ()


def wait_complete(fleet: Fleet, wanted: Complete, seconds: float = PATIENCE) -> JsonObject:
    """Wait until a placement says all of that; return it."""
    family = family_in(wanted.namespace)
    wait_until(f"{wanted.name} completes", lambda: incomplete(fleet, wanted), seconds)
    return fleet.on_hub.get(family.placement, wanted.name, wanted.namespace)


def incomplete(fleet: Fleet, wanted: Complete) -> str:
    """Say what a placement does not say yet, or says wrongly; empty when all is as wanted."""
    family = family_in(wanted.namespace)
    hub = fleet.on_hub
    placement = hub.find(family.placement, wanted.name, wanted.namespace)
    if placement is None:
        return "it is not there"
    policies, bindings = (
        [
            item
            for item in hub.all(kind, wanted.namespace)
            if labels_of(item)[f"{FLEET}parent-CRP"] == wanted.name and not is_deleting(item)
        ]
        for kind in (family.policy_snapshot, family.binding)
    )
    policies = [item for item in policies if labels_of(item)[f"{FLEET}is-latest-snapshot"] == "true"]
    if len(policies) != 1:
        return f"{len(policies)} latest policy snapshots"
    fulfilled = not wanted.missing
    return (
        check_policy_snapshot(policies[0], placement, fulfilled=fulfilled)
        or _placement(placement, wanted)
        or _bindings(fleet, placement, bindings, wanted)
    )


def _placement(placement: JsonObject, wanted: Complete) -> str:
    status, generation = placement.get("status") or {}, placement["metadata"]["generation"]
    own = placement_rows(
        placement,
        overridden=bool(wanted.overridden),
        report_diff=wanted.report_diff,
        fulfilled=not wanted.missing,
    )
    own += [(placement["kind"] + word, state, reason, generation) for word, state, reason in wanted.more]
    if problem := check_rows(wanted.name, rows_of(placement), own):
        return f"{problem}; clusters: {_told(status)}"
    if status.get("observedResourceIndex") != wanted.index:
        return f"observedResourceIndex is {status.get('observedResourceIndex')!r}, not {wanted.index!r}"
    selected = [(item["kind"], item["name"]) for item in status.get("selectedResources") or ()]
    if wanted.selected and selected != list(wanted.selected):
        return f"selectedResources are {selected}, not {list(wanted.selected)}"
    entries = status.get("placementStatuses") or []
    clusters = [entry["clusterName"] for entry in entries if entry.get("clusterName")]
    # Those of a namespace are picked as the members report that they have it, and who is short of clusters picks again
    # with every change: what was picked before is then listed by its name (scheduling.md 17).
    in_turn = bool(wanted.namespace or wanted.missing)
    if (sorted(clusters) if in_turn else clusters) != (sorted if in_turn else list)(wanted.clusters):
        return f"clusters are {clusters}, not {list(wanted.clusters)}"
    for entry in entries[: len(clusters)]:
        if problem := _cluster(entry, generation, wanted):
            return problem
    return _missing(entries[len(clusters) :], generation, wanted)


def _cluster(entry: JsonObject, generation: int, wanted: Complete) -> str:
    name = entry["clusterName"]
    overrides = wanted.overridden.get(name, ([], []))
    rows_wanted = cluster_rows(
        generation,
        overridden=overrides != ([], []),
        report_diff=wanted.report_diff,
        trackable=wanted.trackable,
    )
    if problem := check_rows(name, rows(entry["conditions"]), rows_wanted):
        return problem
    if entry.get("observedResourceIndex") != wanted.index:
        return f"{name}: observedResourceIndex is {entry.get('observedResourceIndex')!r}, not {wanted.index!r}"
    found = (
        entry.get("applicableClusterResourceOverrides") or [],
        [f"{item['namespace']}/{item['name']}" for item in entry.get("applicableResourceOverrides") or []],
    )
    if found != overrides:
        return f"{name}: overrides are {found}, not {overrides}"
    lists = [word for word in LISTS if entry.get(word)]
    if lists != list(wanted.lists.get(name, ())):
        return f"{name}: {lists} are not empty: {[entry[word] for word in lists]}"
    return ""


def _missing(entries: Sequence[JsonObject], generation: int, wanted: Complete) -> str:
    if len(entries) != len(wanted.missing):
        return f"{len(entries)} clusters are said to be missing, not {len(wanted.missing)}: {entries}"
    unscheduled: list[Row] = [("Scheduled", "False", "ScheduleFailed", generation)]
    for entry, begin in zip(entries, wanted.missing, strict=True):
        if problem := check_rows("missing", rows(entry["conditions"]), unscheduled):
            return problem
        if not entry["conditions"][0]["message"].startswith(begin):
            return f"missing: {entry['conditions'][0]['message']!r} does not begin with {begin!r}"
    return ""


def _bindings(fleet: Fleet, placement: JsonObject, bindings: list[JsonObject], wanted: Complete) -> str:
    by_cluster = {item["spec"]["targetCluster"]: item for item in bindings}
    if sorted(by_cluster) != sorted(wanted.clusters) or len(by_cluster) != len(bindings):
        return f"bindings are for {sorted(item['spec']['targetCluster'] for item in bindings)}"
    how = {"report_diff": wanted.report_diff, "trackable": wanted.trackable}
    for cluster, binding in by_cluster.items():
        overridden = wanted.overridden.get(cluster, ([], [])) != ([], [])
        rows_wanted = binding_rows(binding["metadata"]["generation"], overridden=overridden, **how)
        if problem := check_rows(name_of(binding), rows_of(binding), rows_wanted):
            return problem
        if binding["spec"]["state"] != "Bound":
            return f"{name_of(binding)} is {binding['spec']['state']}"
        works = [
            work
            for work in fleet.on_hub.all(WORK, f"fleet-member-{cluster}")
            if labels_of(work).get(f"{FLEET}parent-CRP") == wanted.name
            and labels_of(work).get(f"{FLEET}parent-placement-namespace", "") == wanted.namespace
        ]
        if len(works) != wanted.works:
            return f"{cluster}: Works are {[name_of(work) for work in works]}, not {wanted.works}"
        found = {problem for work in works if (problem := _work(work, wanted))}
        if found:
            return "; ".join(sorted(found))
    return ""


def _work(work: JsonObject, wanted: Complete) -> str:
    generation, status = work["metadata"]["generation"], work.get("status") or {}
    trackable = wanted.trackable or wanted.works > 1
    rows_wanted = work_rows(generation, report_diff=wanted.report_diff, trackable=trackable)
    if problem := check_rows(name_of(work), rows_of(work), rows_wanted):
        return problem
    manifests = work["spec"]["workload"].get("manifests") or []
    entries = status.get("manifestConditions") or []
    names = [(entry["identifier"]["kind"], entry["identifier"]["name"]) for entry in entries]
    if names != [(item["kind"], item["metadata"]["name"]) for item in manifests]:
        return f"{name_of(work)}: manifests are {names}"
    for entry in entries:
        said = [(type_, state) for type_, state, _, _ in rows(entry["conditions"])]
        words = ["DiffReported"] if wanted.report_diff else ["Applied", "Available"]
        if said != [(word, "True") for word in words]:
            return f"{name_of(work)}: {entry['identifier']['name']} says {entry['conditions']}"
    return ""


def _told(status: JsonObject) -> str:
    return "; ".join(
        f"{entry.get('clusterName')}: {[row[:3] for row in rows(entry.get('conditions'))]}"
        + "".join(f" {word}: {str(entry[word])[:400]}" for word in LISTS if entry.get(word))
        for entry in status.get("placementStatuses") or ()
    )
