"""A cluster dump in files, as ``kubectl get`` writes it, read to plan node disruption.

User input is validated: documents must be objects, and NodePools must pass admission. Live objects are read as they
are. Missing or unexpected data is noted together with its effect.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from scorer.api.kinds import (
    NAMESPACE,
    NODE,
    NODE_CLAIM,
    NODE_POOL,
    POD,
    POD_DISRUPTION_BUDGET,
    Kind,
    find_kind,
    group_kind,
)
from scorer.api.node_class import NODE_OVERLAY
from scorer.api.unstructured.documents import conditions_of, dicts_at, name_of, namespace_of
from scorer.api.unstructured.json_object import JsonObject, read_instant
from scorer.api.values.quoting import quote
from webhook.cli.errors import UserError
from webhook.cli.files.documents import Loaded, read, resolve
from webhook.cli.files.parsing import DocumentSource, SourceDocument
from webhook.cli.files.repositories import load_known
from webhook.cli.files.search import Files

if TYPE_CHECKING:
    from scorer.node_disruption.cluster.snapshot import NodePoolState

DUMP_LINE: Final = "kubectl get nodepools,nodeclaims,nodes,pods,pdb,namespaces,pv,pvc,daemonsets -A -o yaml > dump.yaml"
"""Command that writes a dump."""


def _kind(word: str) -> Kind:
    kind = find_kind(word)
    assert kind is not None
    return kind


PERSISTENT_VOLUME: Final = _kind("persistentvolume")
PERSISTENT_VOLUME_CLAIM: Final = _kind("persistentvolumeclaim")
DAEMON_SET: Final = _kind("daemonset")
DUMPED: Final = (
    NODE_POOL,
    NODE_CLAIM,
    NODE,
    POD,
    POD_DISRUPTION_BUDGET,
    NAMESPACE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    DAEMON_SET,
)
"""The kinds that are read, besides NodeOverlays and the node classes of the NodePools. Other kinds are ignored."""
_MISSING: Final = {
    NODE_CLAIM: "no node can be disrupted, because that requires a NodeClaim",
    POD: "every node counts as empty",
    POD_DISRUPTION_BUDGET: "no budget protects a pod",
    NAMESPACE: "namespace selectors match only by name",
    DAEMON_SET: "only DaemonSets that already run a pod add one to new nodes",
}
"""Effect of a dump without objects of a kind."""
_MISSING_FOR_DRAIN: Final = {
    NODE_CLAIM: "terminationGracePeriod is unknown",
    POD: "no pods would move",
    POD_DISRUPTION_BUDGET: _MISSING[POD_DISRUPTION_BUDGET],
    NAMESPACE: _MISSING[NAMESPACE],
}
"""As `_MISSING`, for a drain, which only moves the pods of some nodes."""
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Dump:
    """Content of a dump.

    Args:
        documents: Objects of the kinds `DUMPED`, with NodePools as admission would store them, and their node classes.
        notes: Notes for the user about missing or unexpected data.
        made: Creation time, by the newest heartbeat of a node that is not in the future. None: unknown.
        overlays: NodeOverlays.
    """

    documents: tuple[JsonObject, ...]
    notes: tuple[str, ...]
    made: datetime | None
    overlays: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolChanges:
    """Changed NodePools, and the node classes and NodeOverlays given with them.

    Args:
        pools: NodePools as admission would store them.
        classes: Node classes.
        overlays: NodeOverlays.
    """

    pools: "tuple[NodePoolState, ...]" = ()
    classes: tuple[JsonObject, ...] = ()
    overlays: tuple[JsonObject, ...] = ()


def read_dump(files: Files, now: datetime, *, pools_needed: bool = True) -> Dump:
    """Read a dump.

    Args:
        files: The files to read.
        now: Current time, for the rules of admission.
        pools_needed: Whether a dump without NodePools is an error.

    Raises:
        UserError: A file cannot be read, a document is not an object, or admission refuses a NodePool. Also if the dump
            has no nodes, or lacks the required pools.
    """
    entries = read(files)
    by_kind: dict[tuple[str, str], list[SourceDocument]] = {kind.group_kind: [] for kind in DUMPED}
    others: list[JsonObject] = []
    problems: list[str] = []
    for entry in entries:
        if (mistake := _no_object(entry.document)) is not None:
            problems.append(f"{entry.source}: {mistake}")
        elif (documents_of_kind := by_kind.get(group_kind(entry.document))) is not None:
            documents_of_kind.append(entry)
        else:
            others.append(entry.document)
    if problems:
        raise UserError(problems)
    kinds = (NODE, NODE_POOL) if pools_needed else (NODE,)
    for kind in kinds:
        if not by_kind[kind.group_kind]:
            raise UserError(f"no {kind.kind} in {files}. Create a dump with: {DUMP_LINE}")
    pools = _admitted(resolve(by_kind.pop(NODE_POOL.group_kind)), now)
    notes = [
        *_missing(by_kind, _MISSING if pools_needed else _MISSING_FOR_DRAIN),
        *_duplicates(entry for several in by_kind.values() for entry in several),
    ]
    from scorer.api.node_pool import NodePool
    from scorer.node_disruption.cluster.node_classes import class_key
    from scorer.node_disruption.cluster.snapshot import key_of

    class_keys = {class_key(NodePool.read(pool)) for pool in pools}
    classes = [document for document in others if key_of(document) in class_keys]
    overlays = [document for document in others if group_kind(document) == NODE_OVERLAY.group_kind]
    ignored = Counter(
        str(document["kind"]) for document in others if document not in classes and document not in overlays
    )
    if ignored:
        notes.append(f"ignored objects of other kinds: {_listed(ignored)}")
    documents = (*pools, *classes, *(entry.document for several in by_kind.values() for entry in several))
    creation_time = newest_heartbeat((entry.document for entry in by_kind[NODE.group_kind]), now)
    return Dump(documents, tuple(notes), creation_time, tuple(overlays))


def read_pools(files: Files, now: datetime) -> PoolChanges:
    """Read changed NodePools, node classes and NodeOverlays. Objects of unknown kinds are skipped with a note.

    Raises:
        UserError: A file cannot be read, an object has another known kind, or admission refuses a NodePool.
    """
    read_only: list[JsonObject] = []
    objects = load_known(files, read_only=read_only)
    strange = [
        f"{item.source}: kind: {quote(item.kind.kind)}: only NodePools, their classes and NodeOverlays can be changed"
        for item in objects
        if item.kind != NODE_POOL
    ]
    if strange:
        raise UserError(strange)
    return changes_of(_admitted(objects, now), read_only)


def changes_of(pools: Iterable[JsonObject], read_only: Iterable[JsonObject]) -> PoolChanges:
    """Return NodePools, as admission would store them, and the node classes and NodeOverlays given with them."""
    from scorer.node_disruption.cluster.snapshot import read_pool

    documents = list(read_only)
    overlays = tuple(document for document in documents if group_kind(document) == NODE_OVERLAY.group_kind)
    classes = tuple(document for document in documents if group_kind(document) != NODE_OVERLAY.group_kind)
    return PoolChanges(tuple(map(read_pool, pools)), classes, overlays)


def _admitted(objects: Sequence[Loaded], now: datetime) -> list[JsonObject]:
    """Return NodePools as admission would store them. Raises `UserError`."""
    from webhook.cli.offline.admission import admit, offline_context

    context = offline_context(objects, now)
    verdicts = [admit(entry, context) for entry in objects]
    problems = [line for verdict in verdicts if not verdict.allowed for line in verdict.lines()]
    if problems:
        raise UserError(problems)
    return [verdict.document for verdict in verdicts]


def _no_object(document: JsonObject) -> str | None:
    """Return why a document is not a Kubernetes object, or None if it is one."""
    for key in ("apiVersion", "kind"):
        value = document.get(key)
        if not isinstance(value, str) or not value:
            return f"{key}: {'required' if value in (None, '') else f'{quote(value)} is not a string'}"
    if not isinstance(document.get("metadata"), dict) or not name_of(document):
        return "metadata.name: required"
    return None


def _missing(by_kind: dict[tuple[str, str], list[SourceDocument]], missing: Mapping[Kind, str]) -> Iterator[str]:
    for kind, consequence in missing.items():
        if not by_kind[kind.group_kind]:
            yield f"no {kind.kind}: {consequence}"
    pods = (entry.document for entry in by_kind[POD.group_kind])
    volumes = by_kind[PERSISTENT_VOLUME.group_kind], by_kind[PERSISTENT_VOLUME_CLAIM.group_kind]
    if not all(volumes) and any(
        "persistentVolumeClaim" in volume for pod in pods for volume in dicts_at(pod, "spec", "volumes")
    ):
        absent = [
            kind.kind
            for kind, several in zip((PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM), volumes, strict=True)
            if not several
        ]
        yield f"no {' and no '.join(absent)}: volumes do not restrict pods to a zone or node"


def _duplicates(entries: Iterable[SourceDocument]) -> Iterator[str]:
    first: dict[tuple[str, ...], DocumentSource] = {}
    twice: list[str] = []
    for entry in entries:
        key = (*group_kind(entry.document), namespace_of(entry.document), name_of(entry.document))
        if first.setdefault(key, entry.source) is not entry.source:
            twice.append(f"{entry.document['kind']} {'/'.join(part for part in key[2:] if part)}")
    if twice:
        more = f" and {len(twice) - _NAMED} more" if len(twice) > _NAMED else ""
        yield f"duplicate objects (the last one counts): {', '.join(twice[:_NAMED])}{more}"


def _listed(counts: Counter[str]) -> str:
    kind_counts = [f"{number} {kind}" for kind, number in sorted(counts.items())]
    return ", ".join(kind_counts[:_NAMED]) + (
        f" and {len(kind_counts) - _NAMED} more kinds" if len(kind_counts) > _NAMED else ""
    )


def newest_heartbeat(nodes: Iterable[JsonObject], now: datetime) -> datetime | None:
    """Return the newest heartbeat of any node, or None if no node has one.

    A heartbeat in the future counts only if all are in the future: a single clock may be wrong.
    """
    beats = (read_instant(condition.get("lastHeartbeatTime")) for node in nodes for condition in conditions_of(node))
    entries = [beat for beat in beats if beat is not None]
    past = [beat for beat in entries if beat <= now]
    return max(past or entries, default=None)
