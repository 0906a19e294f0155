"""Snapshots of the objects that a placement selects: one index per content, split into shards, the oldest dropped.

A snapshot group is the master of one index with its shards. The process may end after any single write: the next plan
continues from the stored state.

Source: docs/specifications/rollout.md 3; KubeFleet pkg/controllers/placement/controller.go.
"""

import dataclasses
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from scorer.api.family import family_in
from scorer.api.meta import JsonObject, format_time, parse_time, read_instant
from scorer.api.names import (
    CONTENT_REMOVED_IN,
    IS_LATEST_SNAPSHOT,
    LEFT_OUT,
    NEXT_CANDIDATE_DETECTION_TIME,
    NUMBER_OF_ENVELOPED_OBJECTS,
    NUMBER_OF_RESOURCE_SNAPSHOTS,
    PARENT_PLACEMENT,
    PLACEMENT_GROUP,
    RELEASE,
    RESOURCE_HASH,
    RESOURCE_INDEX,
    SOURCES,
    SUBINDEX_OF_RESOURCE_SNAPSHOT,
    SUPERSEDED_AT,
)
from scorer.api.placement.placement import DEFAULT_REVISION_HISTORY_LIMIT
from scorer.api.unstructured.documents import (
    annotation,
    is_deleting,
    is_labelled_latest,
    metadata_of,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
    with_metadata,
)
from scorer.api.unstructured.go_json import go_json
from scorer.rollout.object_size import (
    CONTENT_LIMIT,
    STATUS_BYTES,
    ObjectIdentity,
    StorableContent,
    TooLarge,
    by_identity,
    fit_objects,
    format_left_out,
)
from scorer.rollout.selection.content import resource_identifier
from scorer.rollout.selection.exclusions import ENVELOPE_KINDS
from scorer.rollout.snapshots.content_record import NO_RECORD, ContentRecord, missing_records
from scorer.rollout.snapshots.groups import (
    SnapshotGroup,
    is_labelled,
    latest_group,
    placed_group,
    selected_resources,
    snapshot_groups,
)
from scorer.rollout.snapshots.release import plan_releases
from scorer.rollout.writes import Write, create, delete, replace

SHARD_LIMIT = 800 * 1024
"""Maximum size of the content of one snapshot in etcd, in bytes, well below the limit of a request."""


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """Throttle of content changes (rollout.md 3.5). If both are zero, changes take effect immediately.

    Args:
        interval: Shortest time between two snapshots of a placement.
        collection: Debounce period, counted from the first change.
    """

    interval: timedelta = timedelta(seconds=30)
    collection: timedelta = timedelta(seconds=15)


DEFAULT_SETTINGS = SnapshotSettings()

UNTHROTTLED = SnapshotSettings(timedelta(), timedelta())
"""For update runs, which never wait (staged-updates.md 4)."""


def resource_hash(objects: Iterable[JsonObject]) -> str:
    """Return the hash that shows whether the content changed: lower-case hex SHA-256, equal to KubeFleet's."""
    return _hash(map(go_json, objects))


def _hash(parts: Iterable[bytes], left_out_record: str = "") -> str:
    return sha256(b'{"selectedResources":[' + b",".join(parts) + b"]}" + left_out_record.encode()).hexdigest()


def shard_lengths(sizes: Iterable[int], limit: int = SHARD_LIMIT) -> list[int]:
    """Return how many objects fit into each snapshot, greedily and in order. There is at least one snapshot.

    Args:
        sizes: Bytes of each object in etcd.
        limit: Bytes per snapshot. A larger object gets one of its own.
    """
    lengths, room = [0], limit
    for size in sizes:
        if size > room and lengths[-1]:
            lengths.append(0)
            room = limit
        lengths[-1] += 1
        room -= size
    return lengths


@dataclass(frozen=True, slots=True)
class ResourceSnapshotPlan:
    """Writes for the snapshots, and the content in force until the next change.

    Args:
        writes: Sequential writes. Groups beyond the history limit are deleted before the master of the new group is
            created. The latest group, and the latest complete one, are deleted only afterwards.
        name: Name of the master to roll out.
        index: Its index.
        identifiers: ``status.selectedResources`` to report: the content in force, not a pending change.
        requeue_after: Delay until a pending change may be written. None if nothing is pending.
        too_large: The selected objects whose current content does not fit into a snapshot.
    """

    writes: tuple[Write, ...]
    name: str
    index: int
    identifiers: tuple[JsonObject, ...]
    requeue_after: timedelta | None = None
    too_large: tuple[TooLarge, ...] = ()


def plan_resource_snapshots(
    placement: JsonObject,
    snapshots: Iterable[JsonObject],
    objects: Sequence[JsonObject],
    now: datetime,
    settings: SnapshotSettings = DEFAULT_SETTINGS,
    *,
    bindings: Iterable[JsonObject] = (),
    cluster_objects: Collection[ObjectIdentity] = (),
    content: ContentRecord = NO_RECORD,
) -> ResourceSnapshotPlan:
    """Return the writes after which the latest snapshot group holds *objects*, as far as throttle and sizes allow.

    While the throttle delays a change, only the time of its detection is written. With an External strategy, only
    update runs call this, with `UNTHROTTLED` (rollout.md 3.7).

    Args:
        placement: ClusterResourcePlacement or ResourcePlacement.
        snapshots: All resource snapshots of the placement.
        objects: Current selection, trimmed and sorted.
        now: Decides whether a change has waited long enough.
        settings: The throttle.
        bindings: All bindings of the placement. No index that one of them uses is assigned again, even if its snapshots
            no longer exist, as with a history of one after a crash between their deletion and the creation of the new
            ones. Otherwise a binding would seem to have the new content already.
        cluster_objects: Objects that are excluded from the selection because a cluster's controllers create them.
        content: The record about the objects.
    """
    groups = snapshot_groups(snapshots)
    releases = plan_releases(groups, objects, cluster_objects)
    latest = latest_group([group for group in groups if group.master and not is_deleting(group.master)])
    content_fit, parts = fitting_content(groups, releases.objects)
    left_out_record = format_left_out(content_fit.too_large)
    digest, identifiers = _hash(parts, left_out_record), tuple(map(resource_identifier, content_fit.objects))

    def plan(writes: Iterable[Write], index: int) -> ResourceSnapshotPlan:
        return ResourceSnapshotPlan(
            tuple(writes), _master_name(placement, index), index, identifiers, too_large=content_fit.too_large
        )

    def group_of(index: int) -> list[JsonObject]:
        removed_in = annotation((latest and latest.master) or {}, CONTENT_REMOVED_IN)
        removed_in = str(index) if content.removes else removed_in
        records = {LEFT_OUT: left_out_record, RELEASE: releases.record, CONTENT_REMOVED_IN: removed_in}
        group = _make_group(placement, index, content_fit.objects, parts, digest, records)
        return [content.written(document) for document in group]

    used_names = (str(spec_of(binding).get("resourceSnapshotName") or "") for binding in bindings)
    retained_indices = {index_in_name(name.removesuffix("-snapshot"), f"{name_of(placement)}-") for name in used_names}
    parts_only = [group for group in groups if group.master is None and group.index not in retained_indices]
    unfinished_groups = [group for group in parts_only if latest is None or group.index > latest.index]
    if latest is not None and _holds(latest, digest):
        group = group_of(latest.index)
        if latest.is_complete or _is_begun(latest, group):
            return plan([*_repair(latest, group), *_delete(unfinished_groups)], latest.index)
    if latest is not None and latest.master is not None and is_labelled(latest) and latest.is_complete:
        detection_time = read_instant(annotation(latest.master, NEXT_CANDIDATE_DETECTION_TIME))
        if detection_time is not None and detection_time > now:  # by a clock that was ahead
            detection_time = None
        due_time = _due_time(latest.master, detection_time or now, now, settings)
        if due_time > now:
            mark = {NEXT_CANDIDATE_DETECTION_TIME: format_time(now)}
            detection_writes = [] if detection_time else [replace(with_metadata(latest.master, annotations=mark))]
            latest_identifiers = tuple(latest.identifiers())
            return dataclasses.replace(
                plan(detection_writes, latest.index), identifiers=latest_identifiers, requeue_after=due_time - now
            )
    index = max([*(group.index for group in groups), *retained_indices], default=-1) + 1
    resumable = [
        group
        for group in unfinished_groups[-1:]
        if group.index == index - 1 and _is_begun(group, group_of(group.index))
    ]
    index -= len(resumable)
    abandoned_groups = [group for group in unfinished_groups if group not in resumable]
    complete = [group for group in groups if group not in unfinished_groups]
    surplus = complete[: max(0, len(complete) - history_limit(placement) + 1)]
    end_annotations = {} if content.sources is None else {SUPERSEDED_AT: format_time(now)}
    surplus = [group for group in surplus if group.name not in content.retained]
    needed_groups = [group for group in surplus if group in (latest, placed_group(groups))]
    old = [group for group in surplus if group not in needed_groups]
    return plan(
        [
            *_delete(abandoned_groups),
            *_succeed(latest, resumable, group_of(index), old, end_annotations),
            *_delete(needed_groups),
        ],
        index,
    )


def _holds(group: SnapshotGroup, digest: str) -> bool:
    """Return whether a group has the content of *digest*.

    Earlier releases, and programs built by an older Go, encode some numbers and characters differently. Hashes are then
    not comparable, and the content decides: a new encoding must not cause a new rollout (DR-5).
    """
    master = group.master or {}
    if annotation(master, RESOURCE_HASH) == digest:
        return True
    return group.is_complete and _hash(map(go_json, group.objects()), annotation(master, LEFT_OUT)) == digest


def _succeed(
    latest: SnapshotGroup | None,
    unfinished: Sequence[SnapshotGroup],
    desired: Sequence[JsonObject],
    old: Sequence[SnapshotGroup],
    end_annotations: Mapping[str, str],
) -> Iterator[Write]:
    """Yield the writes that replace the latest group by a new one.

    Args:
        latest: The latest group.
        unfinished: The new group as far as it exists.
        desired: The snapshots of the new group, the master first.
        old: The groups to delete before the new one counts.
        end_annotations: Annotations of the latest group when it ends.
    """
    # The master comes last: a group with a master is complete, and until then clusters keep the latest complete group.
    # The label is removed from the old group first, so that two groups are never labeled. A crash leaves at most one.
    master, *shards = desired
    existing = {name_of(document) for group in unfinished for document in group.documents}
    yield from (create(document) for document in shards if name_of(document) not in existing)
    if latest is not None and latest.master is not None and is_labelled(latest):
        yield replace(with_metadata(latest.master, labels={IS_LATEST_SNAPSHOT: "false"}, annotations=end_annotations))
    yield from _delete(old)
    yield create(master)


def fitting_content(
    groups: Sequence[SnapshotGroup], objects: Sequence[JsonObject]
) -> tuple[StorableContent, Sequence[bytes]]:
    """Return the content to place, and each of its objects as an API server stores it.

    Args:
        groups: All snapshot groups of a placement. An object that is too large keeps the content that it has there.
        objects: The objects that are selected now.
    """
    parts = [go_json(content) for content in objects]
    sizes = list(map(len, parts))
    if max(sizes, default=0) <= CONTENT_LIMIT:
        return StorableContent(tuple(objects)), parts
    placed_snapshots = placed_group(groups)
    content_fit = fit_objects(objects, sizes, by_identity(placed_snapshots.objects() if placed_snapshots else ()))
    return content_fit, [go_json(content) for content in content_fit.objects]


def _is_begun(group: SnapshotGroup, desired: Sequence[JsonObject]) -> bool:
    """Return whether the snapshots of a group are parts of *desired*. Another release may split content differently."""
    contents = {name_of(document): selected_resources(document) for document in desired}
    recorded_count = annotation(group.master, NUMBER_OF_RESOURCE_SNAPSHOTS) if group.master else str(len(desired))
    return recorded_count == str(len(desired)) and all(
        contents.get(name_of(document)) == selected_resources(document) and not is_deleting(document)
        for document in group.documents
    )


def _delete(groups: Iterable[SnapshotGroup]) -> Iterable[Write]:
    return (delete(document) for group in groups for document in group.documents if not is_deleting(document))


def plan_orphaned_snapshots(
    placement: JsonObject, strays: Iterable[JsonObject], groups: Iterable[SnapshotGroup], used_names: Container[str]
) -> Iterator[Write]:
    """Yield the writes for snapshots that lack the label of their placement because another client removed it.

    A snapshot gets its labels back if its group is in use or its master still has them. The history limit deletes it
    later. Other snapshots are deleted.

    Args:
        placement: The placement that owns the strays.
        strays: Resource snapshots without the label.
        groups: Groups with the label.
        used_names: Names of masters that a binding, a Work or an update run references.
    """
    masters = {group.index: group.master for group in groups if group.master is not None}
    for stray in strays:
        index, _, part = name_of(stray).removeprefix(f"{name_of(placement)}-").partition("-")
        if not (index.isascii() and index.isdigit() and part):
            continue  # not created by the loop
        if int(index) not in masters and _master_name(placement, int(index)) not in used_names:
            yield delete(stray)
            continue
        labels = {PARENT_PLACEMENT: name_of(placement), RESOURCE_INDEX: index}
        if is_labelled_latest(stray) and any(map(is_labelled_latest, masters.values())):
            labels[IS_LATEST_SNAPSHOT] = "false"
        yield replace(with_metadata(stray, labels=labels))


def index_in_name(name: str, prefix: str) -> int:
    """Return the index that follows *prefix* in the name of a snapshot, or -1."""
    text = name.removeprefix(prefix)
    return int(text) if text != name and text.isascii() and text.isdigit() else -1


def history_limit(placement: JsonObject) -> int:
    """Return ``spec.revisionHistoryLimit`` or its default."""
    limit = spec_of(placement).get("revisionHistoryLimit")
    return DEFAULT_REVISION_HISTORY_LIMIT if limit is None else int(limit)


def _due_time(master: JsonObject, detection_time: datetime, now: datetime, settings: SnapshotSettings) -> datetime:
    """Return when the successor of *master* may be created. Without a throttle, that is when the change was detected.

    A master that was created later than *now*, by a clock that is ahead of ours, delays nothing. Otherwise the wait
    would be as long as the clock skew.
    """
    if not settings.interval and not settings.collection:
        return detection_time
    due_time = detection_time + settings.collection
    text = metadata_of(master).get("creationTimestamp")
    if not text or (creation_time := parse_time(text)) > now:
        return due_time
    return max(due_time, creation_time + settings.interval)


def _repair(latest: SnapshotGroup, desired: Sequence[JsonObject]) -> Iterable[Write]:
    """Yield the writes that complete a group after a crash, and drop the detection time of a change that was undone.

    The hash, and the records of the objects that are left out or released, are restored, too: without the records, the
    objects would count as no longer selected.
    """
    missing = missing_records(latest.documents, desired)
    master = latest.master or {}
    records = {key: annotation(desired[0], key) for key in (RESOURCE_HASH, LEFT_OUT, RELEASE)}
    is_edited = any(annotation(master, key) != record for key, record in records.items()) or name_of(master) in missing
    if not is_labelled(latest) or annotation(master, NEXT_CANDIDATE_DETECTION_TIME) or is_edited:
        annotations = {NEXT_CANDIDATE_DETECTION_TIME: None, **{key: record or None for key, record in records.items()}}
        annotations |= {SOURCES: missing[name_of(master)]} if name_of(master) in missing else {}
        yield replace(with_metadata(master, labels={IS_LATEST_SNAPSHOT: "true"}, annotations=annotations))
    for shard in latest.shards:
        if name_of(shard) in missing:
            yield replace(with_metadata(shard, annotations={SOURCES: missing[name_of(shard)]}))
    existing = {name_of(document) for document in latest.documents}
    if not latest.is_complete:
        yield from (create(document) for document in desired if name_of(document) not in existing)


def _master_name(placement: JsonObject, index: int) -> str:
    return f"{name_of(placement)}-{index}-snapshot"


def _make_group(
    placement: JsonObject,
    index: int,
    objects: Sequence[JsonObject],
    parts: Sequence[bytes],
    digest: str,
    records: Mapping[str, str],
) -> list[JsonObject]:
    lengths = shard_lengths(len(part) + STATUS_BYTES for part in parts)
    kind = family_in(namespace_of(placement)).resource_snapshot
    envelope_count = sum(is_envelope(content) for content in objects)
    documents, start = [], 0
    for at, length in enumerate(lengths):
        labels = {PARENT_PLACEMENT: name_of(placement), RESOURCE_INDEX: str(index)}
        if at == 0:
            labels[IS_LATEST_SNAPSHOT] = "true"
            annotations = {
                RESOURCE_HASH: digest,
                NUMBER_OF_RESOURCE_SNAPSHOTS: str(len(lengths)),
                NUMBER_OF_ENVELOPED_OBJECTS: str(envelope_count),
                **{key: record for key, record in records.items() if record},
            }
        else:
            annotations = {SUBINDEX_OF_RESOURCE_SNAPSHOT: str(at - 1)}
        name = _master_name(placement, index) if at == 0 else f"{name_of(placement)}-{index}-{at - 1}"
        meta: JsonObject = {"name": name, "labels": labels, "annotations": annotations}
        if namespace := namespace_of(placement):
            meta["namespace"] = namespace
        meta["ownerReferences"] = [owner_reference(placement)]
        content = list(objects[start : start + length])
        documents.append(
            {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": meta,
                "spec": {"selectedResources": content},
            }
        )
        start += length
    return documents


def is_envelope(content: Mapping[str, Any]) -> bool:
    """Return whether a placed object is an envelope. Each envelope's content gets its own Work."""
    group = str(content.get("apiVersion", "")).partition("/")[0]
    return group == PLACEMENT_GROUP and content.get("kind") in ENVELOPE_KINDS
