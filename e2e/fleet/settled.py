"""What must hold when a fleet has come to rest, whatever happened before: nothing lost, doubled or orphaned.

Everything is worked out from the objects themselves: what a placement selects is collected from the hub anew, Works
are counted from snapshots and decisions, and what is on the members is compared with the selected content field by
field. A problem is a text that names the object; the tests wait until there is none.

Source: docs/specifications/rollout.md 1 to 3, 5, 9 and 11.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from e2e.controlplane.cluster import JsonObject
from e2e.controlplane.process import PATIENCE
from e2e.fleet.bed import Fleet
from e2e.fleet.conditions import check_policy_snapshot, check_rows, placement_rows, rows_of
from e2e.fleet.objects import Objects, annotations_of, is_deleting, labels_of, name_of
from e2e.fleet.waiting import wait_until
from scorer.api.family import FAMILIES, NAMESPACED
from scorer.api.kinds import (
    APPLIED_WORK,
    KINDS,
    NAMESPACE,
    WORK,
)
from scorer.api.names import RESOURCES_SELECTED
from scorer.rollout.status.placement_conditions import OBJECTS_NOT_SELECTED

FLEET = "kubernetes-fleet.io/"
WHOLE = "NamespaceWithResources"
Identity = tuple[str, str, str, str]
"""Group, kind, namespace, name."""

CONTENT = tuple(
    KINDS[group, kind]
    for group, kind in (
        ("", "Namespace"),
        ("", "ConfigMap"),
        ("", "Secret"),
        ("", "Service"),
        ("", "ServiceAccount"),
        ("", "ResourceQuota"),
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("batch", "CronJob"),
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    )
)
"""The kinds that the tests place; of others nothing is on the members."""
_ENVELOPES = {family.envelope.kind for family in FAMILIES}


@dataclass(frozen=True)
class Allowed:
    """What a test knows to be otherwise; names of placements, ``namespace/name`` for namespaced ones.

    Args:
        unfinished: Whose conditions need not all be True.
        short: Which found fewer clusters than they want.
        overridden: Whose content is changed on the way, so that it is not compared; it must be there.
        absent: ``cluster/name`` of objects that an override keeps from a cluster.
        by_hand: Namespaces that were made on members by hand.
        kept: Namespaces whose content stayed on a member that has left, though nothing places it there any more.
    """

    unfinished: Collection[str] = ()
    short: Collection[str] = ()
    overridden: Collection[str] = ()
    absent: Collection[str] = ()
    by_hand: Collection[str] = ()
    kept: Collection[str] = ()


def assert_settled(fleet: Fleet, seconds: float = PATIENCE, **allowed: Collection[str]) -> None:
    """Wait until nothing is wrong any more in the whole fleet.

    Args:
        fleet: The fleet.
        seconds: Patience.
        allowed: See `Allowed`.
    """
    known = Allowed(**allowed)
    try:
        wait_until("the fleet settles", lambda: next(problems(fleet, known), ""), seconds, pause=0.3)
    except AssertionError as error:
        found = "".join(f"\n  {text}" for text in islice(problems(fleet, known), 12))
        raise AssertionError(f"{error}; now:{found or ' nothing is wrong'}") from error


def problems(fleet: Fleet, allowed: Allowed) -> Iterator[str]:
    """Yield all that is wrong now; members are looked at only when nothing is wrong on the hub."""
    hub = _Hub(fleet)
    is_right = True
    for text in hub.problems(allowed):
        is_right = False
        yield text
    if not is_right:
        return
    for name, objects in fleet.clusters.items():
        wanted = {
            identity: document
            for identity, document in hub.wanted[name].items()
            if f"{name}/{identity[-1]}" not in allowed.absent
        }
        known = {*fleet.first_namespaces.get(name, ()), *allowed.by_hand}
        yield from _member_problems(name, objects, hub.works[name], wanted, known, allowed.kept)


@dataclass
class _Hub:
    """What the hub holds, read once, and what of it the members must have."""

    fleet: Fleet
    works: dict[str, dict[str, JsonObject]] = field(default_factory=dict)
    wanted: dict[str, dict[Identity, JsonObject | None]] = field(default_factory=lambda: defaultdict(dict))
    """Per member the content that must be there; None: it must be there, whatever it says."""

    def problems(self, allowed: Allowed) -> Iterator[str]:
        hub = self.fleet.on_hub
        wanted_works: dict[str, dict[str, str]] = {name: {} for name in self.fleet.members}
        for family in FAMILIES:
            placements = {name_of(item): item for item in hub.all(family.placement)}
            children = {
                kind.kind: _by_parent(hub.all(kind))
                for kind in (family.policy_snapshot, family.resource_snapshot, family.binding)
            }
            for kind, grouped in children.items():
                for parent in grouped.keys() - placements.keys():
                    yield f"{kind}s without their placement {parent}: {[name_of(item) for item in grouped[parent]]}"
            for name, placement in placements.items():
                policies, snapshots, bindings = (grouped.get(name, []) for grouped in children.values())
                yield from _doubled_indexes(snapshots)
                yield from self._placement(placement, policies, snapshots, bindings, wanted_works, allowed)
        for name in self.fleet.members:
            found = {item["metadata"]["name"]: item for item in hub.all(WORK, f"fleet-member-{name}")}
            self.works[name] = found
            yield from _work_problems(name, found, wanted_works[name])

    def _placement(
        self,
        placement: JsonObject,
        policies: list[JsonObject],
        snapshots: list[JsonObject],
        bindings: list[JsonObject],
        works: dict[str, dict[str, str]],
        allowed: Allowed,
    ) -> Iterator[str]:
        name = name_of(placement)
        if is_deleting(placement):
            yield f"{name} is still being deleted, held by {placement['metadata'].get('finalizers')}"
            return
        strategy = placement["spec"].get("strategy") or {}
        external = strategy.get("type") == "External"
        latest = [item for item in policies if labels_of(item).get(f"{FLEET}is-latest-snapshot") == "true"]
        if len(latest) != 1:
            yield f"{name} has {len(latest)} latest policy snapshots of {len(policies)}"
            return
        yield from _lines(check_policy_snapshot(latest[0], placement, fulfilled=name not in allowed.short))
        decisions = [
            decision["clusterName"]
            for decision in (latest[0].get("status") or {}).get("targetClusters") or ()
            if decision["selected"]
        ]
        yield from _binding_problems(name, bindings, decisions, latest[0]["metadata"]["name"])
        if external:
            held = [item["spec"].get("resourceSnapshotName") for item in bindings]
            if snapshots or any(held):
                yield f"{name} is External, but has snapshots {len(snapshots)} and bindings on {held}"
            return
        masters = [item for item in snapshots if labels_of(item).get(f"{FLEET}is-latest-snapshot") == "true"]
        if len(masters) != 1:
            yield f"{name} has {len(masters)} latest resource snapshots of {len(snapshots)}"
            return
        master = masters[0]
        report_diff = (strategy.get("applyStrategy") or {}).get("type") == "ReportDiff"
        if name not in allowed.unfinished and decisions:
            wanted = placement_rows(
                placement,
                overridden=name in allowed.overridden,
                report_diff=report_diff,
                fulfilled=name not in allowed.short,
            )
            # Any namespace may have objects that are left to the members, and a placement may select nothing.
            beside = (OBJECTS_NOT_SELECTED, RESOURCES_SELECTED)
            rows = [row for row in rows_of(placement) if not row[0].endswith(beside)]
            if problem := check_rows(name, rows, wanted):
                yield f"{problem}; {self._below(bindings)}"
        index = labels_of(master)[f"{FLEET}resource-index"]
        shards = [item for item in snapshots if labels_of(item)[f"{FLEET}resource-index"] == index]
        count = int(annotations_of(master)[f"{FLEET}number-of-resource-snapshots"])
        if len(shards) != count:
            yield f"{name} has {len(shards)} snapshots of index {index}, which was to have {count}"
            return
        content = [item for shard in shards for item in shard["spec"].get("selectedResources") or ()]
        selected = self._select(placement)
        yield from _snapshot_problems(name, content, selected)
        behind = [item for item in bindings if item["spec"].get("resourceSnapshotName") != master["metadata"]["name"]]
        if name not in allowed.unfinished and behind:
            yield f"{name}: not on {master['metadata']['name']}: {[name_of(item) for item in behind]}"
        for cluster in decisions:
            if cluster not in works:
                yield f"{name} is on {cluster}, which is no member"
                continue
            for work in _work_names(placement, shards):
                works[cluster][work] = next(
                    (item["metadata"]["name"] for item in bindings if item["spec"]["targetCluster"] == cluster),
                    "a binding that is not there",
                )
            for identity, document in {} if report_diff else _unwrapped(selected).items():
                self.wanted[cluster][identity] = None if name in allowed.overridden else document

    def _below(self, bindings: list[JsonObject]) -> str:
        """What bindings and their Works say, for a message."""
        said = []
        for binding in bindings:
            cluster, owner = binding["spec"]["targetCluster"], binding["metadata"]["name"]
            works = [
                f"{name_of(work)}: {rows_of(work)}"
                for work in self.fleet.on_hub.all(WORK, f"fleet-member-{cluster}")
                if labels_of(work).get(f"{FLEET}parent-resource-binding") == owner
            ]
            said.append(f"{owner}: {rows_of(binding)}, {works}")
        return "; ".join(said)

    def _select(self, placement: JsonObject) -> dict[Identity, JsonObject]:
        """Collect what a placement selects, by name, by label or as a namespace with what is in it (rollout.md 2)."""
        hub, home = self.fleet.on_hub, placement["metadata"].get("namespace", "")
        terms = placement["spec"]["resourceSelectors"]
        within = next(
            (term["name"] for term in terms if term.get("selectionScope") == "NamespaceWithResourceSelectors"), home
        )
        found: dict[Identity, JsonObject] = {}
        for term in terms:
            kind = KINDS[term["group"], term["kind"]]
            for document in hub.all(kind, within if kind.namespaced else ""):
                labels = (term.get("labelSelector") or {}).get("matchLabels") or {}
                if term.get("name", document["metadata"]["name"]) != document["metadata"]["name"]:
                    continue
                if is_deleting(document) or labels.items() - labels_of(document).items():
                    continue
                found[identity_of(document)] = document
                if kind == NAMESPACE and term.get("selectionScope", WHOLE) == WHOLE:
                    for inner in (*(kind for kind in CONTENT if kind.namespaced), NAMESPACED.envelope):
                        for item in hub.all(inner, document["metadata"]["name"]):
                            if not _is_left_out(item):
                                found[identity_of(item)] = item
        return found


def identity_of(document: JsonObject) -> Identity:
    """What tells an object from all others of a cluster."""
    group, _, _ = str(document["apiVersion"]).rpartition("/")
    metadata = document["metadata"]
    return group, document["kind"], metadata.get("namespace", ""), metadata["name"]


_OF_CLUSTER = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deployment.kubernetes.io/revision",
        "deprecated.daemonset.template.generation",
    }
)
"""Annotations that a client or a controller of the hub has written for itself."""


def content_of(document: JsonObject) -> JsonObject:
    """What a placed object has to have in common with the one on the hub (rollout.md 2.6)."""
    annotations = {
        key: value for key, value in annotations_of(document).items() if FLEET not in key and key not in _OF_CLUSTER
    }
    rest = {key: value for key, value in document.items() if key not in {"metadata", "status"}}
    if document["kind"] == "Service":
        rest["spec"] = {key: value for key, value in rest["spec"].items() if not key.startswith("clusterIP")}
    return {"labels": dict(labels_of(document)), "annotations": annotations, **rest}


def _by_parent(documents: list[JsonObject]) -> dict[str, list[JsonObject]]:
    found: dict[str, list[JsonObject]] = defaultdict(list)
    for document in documents:
        namespace = document["metadata"].get("namespace", "")
        parent = labels_of(document)[f"{FLEET}parent-CRP"]
        found[f"{namespace}/{parent}" if namespace else parent].append(document)
    return found


def _lines(text: str) -> Iterator[str]:
    if text:
        yield text


def _doubled_indexes(snapshots: list[JsonObject]) -> Iterator[str]:
    masters = [item for item in snapshots if f"{FLEET}resource-hash" in annotations_of(item)]
    counts = Counter(labels_of(item)[f"{FLEET}resource-index"] for item in masters)
    for index, count in counts.items():
        if count > 1:
            yield f"{count} master snapshots of index {index}: {[name_of(item) for item in masters]}"


def _binding_problems(name: str, bindings: list[JsonObject], decisions: list[str], policy: str) -> Iterator[str]:
    for binding in bindings:
        state = binding["spec"]["state"]
        if is_deleting(binding):
            yield f"{name_of(binding)} is still being deleted, held by {binding['metadata'].get('finalizers')}"
        elif state == "Unscheduled":
            yield f"{name_of(binding)} is Unscheduled and still there"
        if binding["spec"]["schedulingPolicySnapshotName"] != policy:
            yield f"{name_of(binding)} is of {binding['spec']['schedulingPolicySnapshotName']}, not of {policy}"
    clusters = sorted(binding["spec"]["targetCluster"] for binding in bindings)
    if clusters != sorted(decisions):
        yield f"{name} was decided for {sorted(decisions)}, but has bindings for {clusters}"


def _work_names(placement: JsonObject, shards: list[JsonObject]) -> Iterator[str]:
    """The names of the Works on one cluster (rollout.md 9.2)."""
    base = name_of(placement).replace("/", ".")
    for shard in shards:
        index = annotations_of(shard).get(f"{FLEET}subindex-of-resource-snapshot")
        work = f"{base}-work" if index is None else f"{base}-{index}"
        yield work
        for item in shard["spec"].get("selectedResources") or ():
            if item["kind"] in _ENVELOPES:
                metadata = item["metadata"]
                text = f"{item['kind']}/{metadata.get('namespace', '')}/{metadata['name']}"
                yield f"{work}-envelope-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _work_problems(cluster: str, found: Mapping[str, JsonObject], wanted: Mapping[str, str]) -> Iterator[str]:
    for name in wanted.keys() - found.keys():
        yield f"{cluster} has no Work {name}"
    for name, work in found.items():
        if name not in wanted:
            yield f"{cluster} has a Work nobody wants: {name}, finalizers {work['metadata'].get('finalizers')}"
        elif is_deleting(work):
            yield f"{cluster}: Work {name} is still being deleted, held by {work['metadata'].get('finalizers')}"
        elif labels_of(work).get(f"{FLEET}parent-resource-binding") != wanted[name]:
            owner = labels_of(work).get(f"{FLEET}parent-resource-binding")
            yield f"{cluster}: Work {name} belongs to {owner}, not to {wanted[name]}"


def _snapshot_problems(name: str, content: list[JsonObject], selected: Mapping[Identity, JsonObject]) -> Iterator[str]:
    held = [identity_of(item) for item in content]
    if sorted(held) != sorted(selected):
        yield f"{name} holds {sorted(held)}, but selects {sorted(selected)}"
        return
    for item in content:
        document = selected[identity_of(item)]
        if content_of(item) != content_of(document):
            yield f"{name} holds an old {name_of(item)}: {_difference(content_of(item), content_of(document))}"


def _unwrapped(selected: Mapping[Identity, JsonObject]) -> dict[Identity, JsonObject | None]:
    """The content as it comes out on a member: envelopes are opened."""
    found: dict[Identity, JsonObject | None] = {}
    for identity, document in selected.items():
        if document["kind"] in _ENVELOPES:
            for inner in document["data"].values():
                found[identity_of(inner)] = None  # was not defaulted by the hub's API server
        else:
            found[identity] = document
    return found


def _is_left_out(document: JsonObject) -> bool:
    """What is in a namespace and is never placed (rollout.md 2.5)."""
    kind, name = document["kind"], document["metadata"]["name"]
    return (
        is_deleting(document)
        or (kind == "ConfigMap" and name == "kube-root-ca.crt")
        or (kind == "ServiceAccount" and name == "default")
        or (kind == "Secret" and document.get("type") == "kubernetes.io/service-account-token")
    )


def _member_problems(
    cluster: str,
    objects: Objects,
    works: Mapping[str, JsonObject],
    wanted: Mapping[Identity, JsonObject | None],
    first_namespaces: Collection[str],
    kept: Collection[str],
) -> Iterator[str]:
    applied = {item["metadata"]["name"]: item for item in objects.all(APPLIED_WORK)}
    for name in applied.keys() ^ works.keys():
        if name not in works and _spaces(applied[name]) <= set(kept):
            continue
        what = "an AppliedWork without a Work" if name in applied else "a Work without an AppliedWork"
        yield f"{cluster} has {what}: {name}"
    for name, item in applied.items():
        if is_deleting(item):
            yield f"{cluster}: AppliedWork {name} is still being deleted"
    owners = {item["metadata"]["uid"]: name for name, item in applied.items()}
    found: dict[Identity, JsonObject] = {}
    for kind in CONTENT:
        for document in objects.all(kind):
            if kind == NAMESPACE and document["metadata"]["name"] not in first_namespaces:
                found[identity_of(document)] = document
            for owner in document["metadata"].get("ownerReferences") or ():
                if owner["kind"] != APPLIED_WORK.kind:
                    continue
                found[identity_of(document)] = document
                if owner["uid"] not in owners:
                    yield f"{cluster}: {kind.kind} {name_of(document)} is owned by {owner['name']}, which is not there"
    for identity in wanted.keys() - found.keys():
        yield f"{cluster} has no {identity}"
    for identity in found.keys() - wanted.keys():
        if (identity[2] or identity[3]) in kept:
            continue
        yield f"{cluster} has {identity}, which nothing places there"
    for identity, selected in wanted.items():
        if identity in found and is_deleting(found[identity]):
            yield f"{cluster}: {identity} is still being deleted"
        elif identity in found and selected is not None:
            live, want = content_of(found[identity]), content_of(selected)
            if live != want:
                yield f"{cluster}: {identity} is not as on the hub: {_difference(live, want)}"


def _spaces(applied: JsonObject) -> set[str]:
    """The namespaces that an AppliedWork has something in, or has made."""
    entries = (applied.get("status") or {}).get("appliedResources") or ()
    return {entry.get("namespace") or entry["name"] for entry in entries}


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    keys = sorted(key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key))
    return "; ".join(f"{key} is {found.get(key)!r}, not {wanted.get(key)!r}" for key in keys)
