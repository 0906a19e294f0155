"""The records on a Work alongside its content: the overrides and the generation that it was written with.

Source: docs/specifications/rollout.md 9.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

import orjson

from scorer.api.meta import JsonObject, dump_json, format_time, parse_time
from scorer.api.names import (
    ABANDON,
    LEFT_OUT,
    OVERRIDES,
    PARENT_CLUSTER_OVERRIDE_HASH,
    PARENT_OVERRIDE_HASH,
    PARENT_RESOURCE_SNAPSHOT_NAME,
    REMOVE,
    RETAINED,
    TOO_LARGE,
    WORK_GENERATION,
    WRITTEN,
)
from scorer.api.unstructured.documents import annotation, generation_of, spec_of, with_metadata
from scorer.rollout.apply_strategy import effective_apply_strategy
from scorer.rollout.bindings import NO_OVERRIDES, Overrides
from scorer.rollout.object_size import ObjectIdentity, object_identity, parse_left_out
from scorer.rollout.removal.marks import without_removal_mark


def overrides_of(work: JsonObject) -> Overrides | None:
    """Return the override lists that a Work was made with. None if the record is unreadable or contradicts the hashes.

    A missing record stands for empty lists.
    """
    try:
        overrides = Overrides.of(orjson.loads(annotation(work, OVERRIDES) or "{}"))
    except (ValueError, TypeError, AttributeError):  # another client wrote it
        return None
    matches_hashes = all(annotation(work, key) == value for key, value in override_hashes(overrides.fields()).items())
    return overrides if matches_hashes else None


def format_overrides(overrides: Overrides) -> str | None:
    """Return the record of override lists for a Work, or None if both are empty."""
    return None if overrides == NO_OVERRIDES else dump_json(overrides.fields()).decode()


def override_hashes(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations that distinguish different override lists."""
    return {
        PARENT_OVERRIDE_HASH: _hash_list(spec.get("resourceOverrideSnapshots")),
        PARENT_CLUSTER_OVERRIDE_HASH: _hash_list(spec.get("clusterResourceOverrideSnapshots")),
    }


def are_made_for(works: Collection[JsonObject], binding: Mapping[str, Any]) -> bool:
    """Return whether a binding has Works, all with the snapshot, the overrides and the apply strategy of its spec."""
    spec = spec_of(binding)
    desired = {**override_hashes(spec), PARENT_RESOURCE_SNAPSHOT_NAME: spec.get("resourceSnapshotName")}
    strategy = effective_apply_strategy(spec.get("applyStrategy"))
    return bool(works) and all(
        all(annotation(work, key) == value for key, value in desired.items())
        and effective_apply_strategy(spec_of(work).get("applyStrategy")) == strategy
        for work in works
    )


def _hash_list(items: Sequence[Any] | None) -> str:
    return sha256(orjson.dumps(items or [], option=orjson.OPT_SORT_KEYS)).hexdigest()


def with_signature(work: JsonObject, now: datetime | None) -> JsonObject:
    """Return the Work with the generation that it will have once it is written, and with the time."""
    # The API server raises the generation by exactly 1 when a write changes the spec, and refuses the write if another
    # client has written since: so a stored generation above the signed one proves an edit by another client.
    record: dict[str, str | None] = {WORK_GENERATION: str(generation_of(work) + 1)}
    if now is not None:  # never earlier than before: the clock of a new leader may be behind
        record[WRITTEN] = max(format_time(now), _write_time(work))
    return with_metadata(work, annotations=record)


def without_marks(work: JsonObject) -> JsonObject:
    """Return the Work without its removal and abandon marks, or the same Work if it has no removal mark."""
    return with_metadata(without_removal_mark(work), annotations={ABANDON: None}) if annotation(work, REMOVE) else work


def _write_time(work: JsonObject) -> str:
    """Return when the hub wrote the Work last. Empty: unknown."""
    text = annotation(work, WRITTEN)
    try:
        return format_time(parse_time(text)) if text else ""
    except ValueError:  # another client wrote it
        return ""


def is_edited(work: JsonObject) -> bool:
    """Return whether another client has changed the spec of a Work since the hub wrote it.

    An unsigned Work, such as one of the reference, does not count as edited. If the last write did not change the spec,
    the signature is one too high until the next pass corrects it, and an edit in between is not detected.
    """
    return 0 <= signed_generation(work) < generation_of(work)


def signed_generation(work: JsonObject) -> int:
    """Return the generation that the hub recorded with its last write. -1: unsigned."""
    text = annotation(work, WORK_GENERATION)
    return int(text) if text.isascii() and text.isdigit() else -1


def has_current_records(
    work: JsonObject, contents: Iterable[JsonObject], retained_objects: frozenset[ObjectIdentity]
) -> bool:
    """Return whether a Work leaves out no object that its snapshot contains, and retains no object that may be removed.

    False if its records are unreadable because another client wrote them.

    Args:
        work: The Work.
        contents: The objects of its snapshot.
        retained_objects: The objects whose removal waits for confirmation.
    """
    try:
        return not _lacks_carried(work, contents) and parse_left_out(annotation(work, RETAINED)) <= retained_objects
    except (ValueError, TypeError):
        return False


def _lacks_carried(work: JsonObject, contents: Iterable[JsonObject]) -> bool:
    """Return whether a Work leaves out an object of its snapshot: the removal of that object is no longer pending.

    False for a Work with objects that are left out for their size.
    """
    left_out_record = annotation(work, LEFT_OUT)
    if not left_out_record or annotation(work, TOO_LARGE):
        return False
    return not parse_left_out(left_out_record).isdisjoint(map(object_identity, contents))
