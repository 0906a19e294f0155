"""Snapshots of an override: one index per spec, the latest labeled, the oldest dropped.

The successor is created before its predecessor loses its label. So an override is never without a latest snapshot, and
no placement rolls out as if there were no override, not even if the process ends between the two writes. While two
snapshots are labeled, the greater index counts.

The snapshots of a deleted override lose the label. They remain as long as a binding or an active run names them, as do
old snapshots of an existing one. They have no owner reference, because the garbage collector would delete them with the
override, and in a foreground deletion even before it.

Source: docs/specifications/rollout.md 6.1; KubeFleet pkg/controllers/overrider, which removes the label first, and
deletes the snapshots with their override.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Any, Final

import orjson

from scorer.api.family import FAMILIES, family_in
from scorer.api.meta import JsonObject
from scorer.api.names import IS_LATEST_SNAPSHOT, OVERRIDE_INDEX, PARENT_OVERRIDE, SNAPSHOT_REFUSED
from scorer.api.unstructured.documents import (
    annotation,
    dicts_at,
    index_of,
    is_deleting,
    is_labelled_latest,
    label,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    spec_of,
    with_metadata,
)
from scorer.rollout.writes import Write, create, replace

HISTORY_LIMIT: Final = 10
"""Snapshots kept of one override, the latest among them, besides those in use."""

LABEL_LIMIT: Final = 63
"""Maximum length of a label value, in characters. The name of an override is a label value on its snapshots."""

_OVERRIDE_KINDS: Final = frozenset(family.override.kind for family in FAMILIES)


@dataclass(frozen=True, slots=True)
class OverrideSnapshotPlan:
    """Writes for the snapshots of an override, in order.

    Args:
        writes: Empty if the snapshots are up to date.
        name: Name of the snapshot in force after the writes.
        index: Its index.
        error: Reason why the override cannot have snapshots. Nothing is planned then, and the caller reports it to the
            user. Empty: none.
    """

    writes: tuple[Write, ...] = ()
    name: str = ""
    index: int = -1
    error: str = ""


def plan_override_snapshots(override: JsonObject, snapshots: Sequence[JsonObject]) -> OverrideSnapshotPlan:
    """Return the writes after which only the latest snapshot is labeled latest, and it holds the override's spec.

    Args:
        override: ClusterResourceOverride or ResourceOverride that is not being deleted.
        snapshots: All snapshots of its kind and namespace. Those of other overrides only reserve names.
    """
    name = name_of(override)
    if obstacle := snapshot_obstacle(name):
        text = f"{obstacle}: placements with objects that the override selects are not rolled out until it is deleted"
        return OverrideSnapshotPlan(error=text)
    names = {name_of(snapshot) for snapshot in snapshots}
    sorted_snapshots = sorted(
        (snapshot for snapshot in snapshots if label(snapshot, PARENT_OVERRIDE) == name), key=_index
    )
    live = [snapshot for snapshot in sorted_snapshots if not is_deleting(snapshot)]
    latest = next(reversed([snapshot for snapshot in live if is_labelled_latest(snapshot)] or live), None)
    digest = _digest(spec_of(override))
    if latest is not None and spec_of(latest).get("overrideHash") == digest:
        older = [snapshot for snapshot in live if snapshot is not latest]
        writes = *_labelled([latest], is_latest=True), *_labelled(older, is_latest=False)
        return OverrideSnapshotPlan(writes, name_of(latest), _index(latest))
    first = max(map(_index, sorted_snapshots), default=-1) + 1
    index = next(index for index in count(first) if f"{name}-{index}" not in names)
    snapshot = _make(override, index, digest)
    writes = create(snapshot), *_labelled(live, is_latest=False)  # in this order: see the module docstring
    return OverrideSnapshotPlan(writes, name_of(snapshot), index)


def plan_retirement(snapshots: Iterable[JsonObject]) -> tuple[Write, ...]:
    """Return the writes after which none of the snapshots of a deleted override is labeled latest."""
    live = (snapshot for snapshot in snapshots if not is_deleting(snapshot))
    return tuple(_labelled(sorted(live, key=_index), is_latest=False))


def surplus_override_snapshots(snapshots: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the snapshots of one existing override that exceed the history, to delete once they are unused."""
    live = sorted((snapshot for snapshot in snapshots if not is_deleting(snapshot)), key=_index)
    return [snapshot for snapshot in live[:-HISTORY_LIMIT] if not is_labelled_latest(snapshot)]


def snapshot_obstacle(name: str) -> str:
    """Return why an override of that name cannot have snapshots, or an empty string."""
    if len(name) <= LABEL_LIMIT:
        return ""
    return f"metadata.name {name!r} has {len(name)} characters, must have at most {LABEL_LIMIT}"


def latest_override_snapshots(snapshots: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the latest snapshot of each override, in the order of application.

    The order is ClusterResourceOverrideSnapshots by name, then ResourceOverrideSnapshots by namespace and name.

    Args:
        snapshots: Snapshots of any overrides, of both kinds.
    """
    latest: dict[tuple[str, str], JsonObject] = {}
    for snapshot in snapshots:
        if is_labelled_latest(snapshot) and not is_deleting(snapshot):
            key = namespace_of(snapshot), label(snapshot, PARENT_OVERRIDE)
            if key not in latest or _index(latest[key]) < _index(snapshot):
                latest[key] = snapshot
    return sorted(latest.values(), key=lambda snapshot: (namespace_of(snapshot), name_of(snapshot)))


def awaited_override_snapshots(overrides: Iterable[JsonObject], snapshots: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the missing snapshots: one for each override whose latest snapshot lacks its current spec.

    The result is what the controller of overrides is about to create, except for the index and the annotation
    ``snapshot-refused`` of the override. An override that is being deleted is not awaited. One that cannot have
    snapshots is awaited until it is deleted: its placements would roll out as if there were no override.

    Args:
        overrides: Of any kind.
        snapshots: All snapshots of these overrides.
    """
    latest = {
        (namespace_of(snapshot), label(snapshot, PARENT_OVERRIDE)): spec_of(snapshot)
        for snapshot in latest_override_snapshots(snapshots)
    }
    awaited = []
    for override in overrides:
        if is_deleting(override):
            continue
        stored, spec = latest.get((namespace_of(override), name_of(override)), {}), spec_of(override)
        if stored.get("overrideSpec") != spec and stored.get("overrideHash") != (digest := _digest(spec)):
            refusal = {SNAPSHOT_REFUSED: annotation(override, SNAPSHOT_REFUSED) or None}
            awaited.append(with_metadata(_make(override, 0, digest), annotations=refusal))
    return awaited


def override_hash(spec: Mapping[str, Any]) -> str:
    """Return the lower-case hex SHA-256 of an override's spec. An explicit default does not change it."""
    return sha256(orjson.dumps(_canonical(spec), option=orjson.OPT_SORT_KEYS)).hexdigest()


def _digest(spec: Mapping[str, Any]) -> str:
    return b64encode(override_hash(spec).encode()).decode()


def _canonical(spec: Mapping[str, Any]) -> JsonObject:
    canonical = _without_absent(spec)
    if "placement" in canonical:
        canonical["placement"] = {"scope": "Cluster", **_without_absent(canonical["placement"])}
    policy = _without_absent(canonical.get("policy") or {})
    rules = [{"overrideType": "JSONPatch", **_without_absent(rule)} for rule in policy.get("overrideRules") or ()]
    return {**canonical, "policy": {**policy, "overrideRules": rules}}


def _without_absent(members: Mapping[str, Any]) -> JsonObject:
    return {key: value for key, value in members.items() if value is not None}


def _labelled(snapshots: Iterable[JsonObject], *, is_latest: bool) -> Iterator[Write]:
    """Yield the writes that label snapshots as latest or not, and drop the references to an override as their owner.

    Earlier releases and the reference have set such references.
    """
    for snapshot in snapshots:
        metadata = metadata_of(snapshot)
        owners = dicts_at(metadata, "ownerReferences")
        other_owners = [owner for owner in owners if owner.get("kind") not in _OVERRIDE_KINDS]
        if is_labelled_latest(snapshot) is is_latest and len(other_owners) == len(owners):
            continue
        labels = {**labels_of(snapshot), IS_LATEST_SNAPSHOT: "true" if is_latest else "false"}
        yield replace({**snapshot, "metadata": {**metadata, "labels": labels, "ownerReferences": other_owners}})


def _index(snapshot: JsonObject) -> int:
    return index_of(snapshot, OVERRIDE_INDEX)


def _make(override: JsonObject, index: int, digest: str) -> JsonObject:
    namespace, name = namespace_of(override), name_of(override)
    kind = family_in(namespace).override_snapshot
    labels = {PARENT_OVERRIDE: name, OVERRIDE_INDEX: str(index), IS_LATEST_SNAPSHOT: "true"}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": f"{name}-{index}",
            **({"namespace": namespace} if namespace else {}),
            "labels": labels,
        },
        "spec": {"overrideSpec": spec_of(override), "overrideHash": digest},
    }
