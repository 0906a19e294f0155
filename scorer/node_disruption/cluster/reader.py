"""Parser of a cluster from the documents of a dump or of the cache.

Parsing is lenient: a field of the wrong type counts as absent, and oddities become notes. An object is parsed again
only if its document has changed, or if the node terms of volumes or the selected label keys have. Callers must not
mutate documents.

Source: docs/specifications/nodepool-disruption.md 3.1, 4.1, 5.3, 5.6, 9, 10 and 15.
"""

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Generic, TypeAlias, TypeVar

from pydantic import ValidationError

from scorer.api.meta import JsonObject
from scorer.api.node_pool import NODE_POOL_LABEL
from scorer.api.unstructured.documents import (
    dict_at,
    dicts_at,
    is_deleting,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    spec_of,
    text_at,
    uid_of,
)
from scorer.node_budgets.blockers import PodGuard, read_pod_guard
from scorer.node_budgets.nodes import is_of_another_instance
from scorer.node_disruption.cluster.constraint_reader import read_node_terms
from scorer.node_disruption.cluster.constraints import NodeTerm
from scorer.node_disruption.cluster.pod import Owner, Pod, read_pod
from scorer.node_disruption.cluster.snapshot import (
    ClassKey,
    ClusterNode,
    ClusterSnapshot,
    NodePoolState,
    key_of,
    read_launching,
    read_node,
    read_pool,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DerivedValue(Generic[T]):
    """A value with the documents that it was derived from.

    Args:
        sources: The documents. None if a document does not exist.
        value: The derived value.
    """

    sources: tuple[object, ...]
    value: T


Kept: TypeAlias = Mapping[str, DerivedValue[T]]
"""Derived values by name."""


def derive(previous: DerivedValue[T] | None, sources: tuple[object, ...], make: Callable[..., T]) -> DerivedValue[T]:
    """Return the result of *make*, or the *previous* value if its sources are the same objects."""
    if previous is not None and all(map(operator.is_, previous.sources, sources)):
        return previous
    return DerivedValue(sources, make(*sources))


_NAMED: Final = 5
"""Maximum number of objects that a note names."""

_Volumes = Mapping[tuple[str, str], tuple[NodeTerm, ...]]


@dataclass(frozen=True, slots=True)
class ClusterReading:
    """A parsed cluster with its sources.

    Args:
        cluster: The snapshot.
        nodes: Nodes by name, derived from their documents and those of their claims.
        pools: Pools by name.
        pods: Pods by namespace and name.
        volumes: Node terms of bound volume claims.
        keys: Label keys that some pod selects.
    """

    cluster: ClusterSnapshot
    nodes: Kept[ClusterNode]
    pools: Kept[NodePoolState]
    pods: Kept[Pod]
    volumes: _Volumes
    keys: frozenset[str]


def read_cluster(documents: Iterable[JsonObject], now: datetime) -> ClusterSnapshot:
    """Parse a dump: nodes, claims, pools, pods, budgets, DaemonSets, namespaces and volumes, in any order.

    Args:
        documents: Documents of the dump. Lists are flattened, and irrelevant kinds are ignored.
        now: Time of the dump. Later timestamps become a note.
    """
    return read_incrementally(documents, now).cluster


def read_incrementally(
    documents: Iterable[JsonObject], now: datetime, previous: ClusterReading | None = None
) -> ClusterReading:
    """Parse a cluster incrementally: nodes, pools and pods with unchanged documents are reused.

    Args:
        documents: See `read_cluster`. They must not be mutated while the reading is in use.
        now: See `read_cluster`.
        previous: An earlier reading. None: unset.
    """
    return _read_cluster(_by_kind(documents), now, previous)


def _read_cluster(
    objects: Mapping[str, Sequence[JsonObject]], now: datetime, earlier: ClusterReading | None
) -> ClusterReading:
    volumes, notes = _terms_by_claim(objects)
    if earlier is not None and earlier.volumes != volumes:
        return _read_cluster(objects, now, None)
    nodes = _nodes(objects, earlier.nodes if earlier else {})
    classes = {key_of(document): document for kind in _class_kinds(objects) for document in objects.get(kind, ())}
    pools = _pools(objects.get("NodePool", ()), classes, earlier.pools if earlier else {}, notes)
    previous = earlier.pods if earlier else {}
    pods_read = _pods(objects.get("Pod", ()), volumes, previous)
    daemons = _daemons([entry.value for entry in pods_read.values()], objects.get("DaemonSet", ()))
    keys = _selected_keys((*(entry.value for entry in pods_read.values()), *daemons))
    if earlier is not None and earlier.keys != keys:
        return _read_cluster(objects, now, None)
    pods, interned_pods = _intern_shapes(pods_read, previous, daemons, keys)
    unplaced_pods = [pod.value for pod in pods.values() if not pod.value.node]
    cluster = ClusterSnapshot(
        pools={name: pool.value for name, pool in pools.items()},
        nodes={name: node.value for name, node in nodes.items()},
        launching=_launching_nodes(objects.get("NodeClaim", ()), [node.value for node in nodes.values()]),
        pods=_on_nodes(pods, earlier.cluster.pods if earlier else {}),
        pending=tuple(pod for pod in unplaced_pods if not pod.finished and not pod.gated),
        guards=_guards(objects.get("PodDisruptionBudget", ())),
        daemons=interned_pods,
        namespaces={name_of(namespace): labels_of(namespace) for namespace in objects.get("Namespace", ())},
    )
    notes += _note([pod.key for pod in unplaced_pods if pod.gated], "pods with scheduling gates")
    notes += _without_node(objects.get("NodeClaim", ()), cluster)
    notes += _unmatched_notes(cluster)
    notes += _future(cluster, now)
    return ClusterReading(replace(cluster, notes=tuple(notes)), nodes, pools, pods, volumes, keys)


def _by_kind(documents: Iterable[JsonObject]) -> dict[str, list[JsonObject]]:
    """Return the objects by kind, sorted by namespace and name. The last of several duplicates wins."""
    by_kind: dict[str, dict[tuple[str, str], JsonObject]] = {}
    for document in _flatten_lists(documents):
        by_kind.setdefault(text_at(document, "kind"), {})[(namespace_of(document), name_of(document))] = document
    return {
        kind: [document for _, document in sorted(documents_by_key.items())]
        for kind, documents_by_key in by_kind.items()
    }


def _flatten_lists(documents: Iterable[JsonObject]) -> Iterator[JsonObject]:
    for document in documents:
        kind = text_at(document, "kind")
        if kind.endswith("List") and isinstance(document.get("items"), list):
            for item in dicts_at(document, "items"):
                yield item if "kind" in item else {**item, "kind": kind.removesuffix("List")}
        elif name_of(document):
            yield document


def _nodes(objects: Mapping[str, Sequence[JsonObject]], previous: Kept[ClusterNode]) -> Kept[ClusterNode]:
    claims_by_node: dict[str, list[JsonObject]] = {}
    claims_without_node: dict[str, JsonObject] = {}
    for document in objects.get("NodeClaim", ()):
        if name := text_at(document, "status", "nodeName"):
            claims_by_node.setdefault(name, []).append(document)
        elif instance := text_at(document, "status", "providerID"):
            claims_without_node.setdefault(instance, document)
    nodes = {}
    for document in objects.get("Node", ()):
        name, instance = name_of(document), text_at(document, "spec", "providerID")
        own = (claim for claim in claims_by_node.get(name, ()) if not is_of_another_instance(claim, instance))
        claim = next(own, None) or claims_without_node.get(instance)
        nodes[name] = derive(previous.get(name), (document, claim), read_node)
    return nodes


def _class_kinds(objects: Mapping[str, Sequence[JsonObject]]) -> set[str]:
    """Return the kinds of the node classes that pools name."""
    return {
        text_at(document, "spec", "template", "spec", "nodeClassRef", "kind")
        for document in objects.get("NodePool", ())
    }


def _pools(
    documents: Iterable[JsonObject],
    classes: Mapping[ClassKey, JsonObject],
    previous: Kept[NodePoolState],
    notes: list[str],
) -> Kept[NodePoolState]:
    pools = {}
    for document in documents:
        name = name_of(document)
        reference = dict_at(document, "spec", "template", "spec", "nodeClassRef")
        node_class = classes.get((text_at(reference, "group"), text_at(reference, "kind"), text_at(reference, "name")))
        try:
            pools[name] = derive(previous.get(name), (document, node_class), read_pool)
        except ValidationError:
            notes.append(f"NodePool {name} is invalid and is left out")
    return pools


def _guards(documents: Iterable[JsonObject]) -> dict[str, tuple[PodGuard, ...]]:
    guards: dict[str, list[PodGuard]] = {}
    for guard in map(read_pod_guard, documents):
        guards.setdefault(guard.namespace, []).append(guard)
    return {namespace: tuple(guards) for namespace, guards in guards.items()}


def _terms_by_claim(objects: Mapping[str, Sequence[JsonObject]]) -> tuple[_Volumes, list[str]]:
    """Return the node terms of volume claims whose volume restricts nodes, by namespace and name, and notes."""
    terms = {}
    for volume in objects.get("PersistentVolume", ()):
        required = dict_at(volume, "spec", "nodeAffinity").get("required")
        if isinstance(required, dict):
            terms[name_of(volume)] = read_node_terms(required)
    volume_names = {name_of(volume) for volume in objects.get("PersistentVolume", ())}
    terms_by_claim, unknown = {}, []
    for claim in objects.get("PersistentVolumeClaim", ()):
        volume_name = text_at(claim, "spec", "volumeName")
        if volume_name in terms:
            terms_by_claim[namespace_of(claim), name_of(claim)] = terms[volume_name]
        elif volume_name not in volume_names:
            unknown.append(f"{namespace_of(claim)}/{name_of(claim)}")
    return terms_by_claim, _note(unknown, "PersistentVolumeClaims without a known volume do not restrict pods to nodes")


def _pods(documents: Iterable[JsonObject], volumes: _Volumes, previous: Kept[Pod]) -> Kept[Pod]:
    def read(document: JsonObject) -> Pod:
        return read_pod(document, tuple(_volume_terms(document, volumes)) if volumes else ())

    pods = {}
    for document in documents:
        key = f"{namespace_of(document)}/{name_of(document)}"
        pods[key] = derive(previous.get(key), (document,), read)
    return pods


def _volume_terms(document: JsonObject, volumes: _Volumes) -> Iterator[tuple[NodeTerm, ...]]:
    for volume in dicts_at(document, "spec", "volumes"):
        name = text_at(volume, "persistentVolumeClaim", "claimName")
        if "ephemeral" in volume:
            name = f"{name_of(document)}-{text_at(volume, 'name')}"
        if (terms := volumes.get((namespace_of(document), name))) is not None:
            yield terms


def _daemons(pods: Sequence[Pod], documents: Sequence[JsonObject]) -> list[Pod]:
    """Return one pod per DaemonSet: based on a running one, or else on its template."""
    running = {pod.owner_uid: pod for pod in reversed(pods) if pod.owner is Owner.DAEMON_SET and pod.active}
    daemons = {uid: _anywhere(pod) for uid, pod in running.items()}
    for document in documents:
        template = _from_template(document)
        daemons.setdefault(template.owner_uid, template)
    return sorted(daemons.values(), key=lambda pod: (pod.namespace, pod.name))


def _anywhere(pod: Pod) -> Pod:
    """Return a pod of a DaemonSet without the node name that its controller has added to each term."""
    terms = pod.shape.node_terms
    if terms is not None:
        label_terms = tuple(NodeTerm(term.labels) for term in terms)
        terms = label_terms if all(term.labels for term in label_terms) else None
    return replace(pod, node="", shape=replace(pod.shape, node_terms=terms), stricter=())


def _from_template(document: JsonObject) -> Pod:
    template = dict_at(document, "spec", "template")
    owner = {"kind": "DaemonSet", "uid": uid_of(document), "name": name_of(document), "controller": True}
    metadata = {
        **metadata_of(template),
        "name": name_of(document),
        "namespace": namespace_of(document),
        "ownerReferences": [owner],
    }
    return read_pod({"metadata": metadata, "spec": spec_of(template)})


def _selected_keys(pods: Iterable[Pod]) -> frozenset[str]:
    """Return the label keys that terms of *pods* select."""
    shapes = {id(shape.shape): shape.shape for pod in pods for shape in (pod, *pod.stricter)}
    return frozenset[str]().union(*(shape.selected_keys() for shape in shapes.values()))


def _intern_shapes(
    pods: Kept[Pod], previous: Kept[Pod], daemons: Iterable[Pod], keys: frozenset[str]
) -> tuple[Kept[Pod], tuple[Pod, ...]]:
    """Intern equal shapes. Labels that no term selects are ignored in the comparison.

    Args:
        pods: Pods by namespace and name.
        previous: Pods of an earlier reading, with interned shapes.
        daemons: One pod per DaemonSet.
        keys: Label keys that some term selects.
    """
    unchanged = [pod.value for key, pod in pods.items() if previous.get(key) is pod]
    old = {id(shape.shape): shape.shape for pod in unchanged for shape in (pod, *pod.stricter)}
    shapes = {shape: shape for shape in old.values()}

    def intern_pod(pod: Pod) -> Pod:
        shape = pod.shape.narrow(keys)
        stricter = tuple(map(intern_pod, pod.stricter))
        return replace(pod, shape=shapes.setdefault(shape, shape), stricter=stricter)

    interned_pods = {
        key: pod if previous.get(key) is pod else replace(pod, value=intern_pod(pod.value)) for key, pod in pods.items()
    }
    return interned_pods, tuple(intern_pod(pod) for pod in daemons)


def _on_nodes(pods: Kept[Pod], previous: Mapping[str, tuple[Pod, ...]]) -> dict[str, tuple[Pod, ...]]:
    """Return the pods on each node, reusing the tuple of an earlier reading if its pods are identical."""
    pods_by_node: dict[str, list[Pod]] = {}
    for pod in pods.values():
        if pod.value.node:
            pods_by_node.setdefault(pod.value.node, []).append(pod.value)
    return {
        name: _reuse_if_identical(previous.get(name, ()), tuple(node_pods))
        for name, node_pods in sorted(pods_by_node.items())
    }


def _reuse_if_identical(previous: tuple[Pod, ...], current: tuple[Pod, ...]) -> tuple[Pod, ...]:
    return previous if len(previous) == len(current) and all(map(operator.is_, previous, current)) else current


def _unmatched_notes(cluster: ClusterSnapshot) -> Iterator[str]:
    nodes = cluster.nodes.values()
    yield from _note([node.name for node in nodes if not node.pool], "nodes without a pool are kept, and can take pods")
    strange = [node.name for node in nodes if node.pool and node.pool not in cluster.pools]
    yield from _note(strange, f"nodes whose pool (label {NODE_POOL_LABEL}) does not exist")
    pods_without_node = [pod.key for name, pods in cluster.pods.items() if name not in cluster.nodes for pod in pods]
    yield from _note(pods_without_node, "pods on nodes that do not exist are ignored")
    yield from _note([pod.key for pod in cluster.pending], "pods that are pending")


def _launching_nodes(claims: Iterable[JsonObject], nodes: Iterable[ClusterNode]) -> dict[str, ClusterNode]:
    claim_names = {node.claim.name for node in nodes if node.claim}
    return {
        name_of(claim): read_launching(claim)
        for claim in claims
        if name_of(claim) not in claim_names and not is_deleting(claim) and not text_at(claim, "status", "nodeName")
    }


def _without_node(claims: Iterable[JsonObject], cluster: ClusterSnapshot) -> list[str]:
    """Return notes on claims whose nodes were deleted or have not joined yet."""
    claim_names = {node.claim.name for node in cluster.nodes.values() if node.claim}.union(cluster.launching)
    names = [name for name in map(name_of, claims) if name not in claim_names]
    deletion_notes = _note(names, "NodeClaims whose nodes do not exist are ignored")
    return [*deletion_notes, *_note(list(cluster.launching), "NodeClaims whose nodes have not joined yet")]


def _future(cluster: ClusterSnapshot, now: datetime) -> Iterator[str]:
    """Yield notes on objects created after *now*, which indicate clock skew of the dump."""
    changes: list[tuple[str, datetime | None]] = [(name, node.created) for name, node in cluster.nodes.items()]
    changes += [(node.claim.name, node.claim.created) for node in cluster.nodes.values() if node.claim]
    changes += [(pod.key, pod.created) for pods in cluster.pods.values() for pod in pods]
    late = [name for name, creation_time in changes if creation_time is not None and creation_time > now]
    yield from _note(late, "created in the future")


def _note(names: Sequence[str], subject: str) -> list[str]:
    """Return a note about objects, or an empty list without objects."""
    if not names:
        return []
    sorted_names = sorted(Counter(names))
    more = f" and {len(sorted_names) - _NAMED} more" if len(sorted_names) > _NAMED else ""
    return [f"{subject}: {', '.join(sorted_names[:_NAMED])}{more}"]
