"""Detection of a restored hub: it must not roll back its members without a user's consent.

The member's AppliedWork records the state of its Work when it was last applied, out of reach of a backup of the hub:
the Work's uid, its generation, and when the loop wrote it last. A Work that proves to be older is held: nothing on the
member changes until a user accepts it, or until the Work that was applied is back.

There are two kinds of evidence that the hub was restored to an earlier state:

- The Work has the recorded uid, but a lower generation, or a status that observed a lower one. A generation only grows,
  and the hub knew the recorded one, because the agent reports it in the Work's status before it records it.
- The Work has another uid, as if recreated from a backup or after the restore, and the loop wrote it earlier than the
  recorded one. If the Work does not record when it was written, its creation time counts. A time difference of up to
  `CLOCKS_APART` is no evidence.

A placement that a user pins to an older snapshot is a different case: the loop writes its Works now.

All later writes of a restored hub are based on its backup, so the hold ends only as described above. If a user applies
an older file over a Work instead, the hub still knows the generations in between, and the next write of the loop is
accepted.

Content that a Work held during the lost time is not detected if the hub later creates another Work of that name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from scorer.api.conditions import FALSE, make_condition, merge_conditions
from scorer.api.meta import JsonObject, dump_json, format_time, read_instant
from scorer.api.names import ACCEPT_OLDER_UNTIL, APPLIED_REVISION, OLDER_THAN_APPLIED, WRITTEN
from scorer.api.unstructured.documents import (
    annotation,
    conditions_of,
    generation_of,
    metadata_of,
    status_of,
    uid_of,
    with_metadata,
)
from scorer.rollout.apply_strategy import reports_diff

LONGEST_ACCEPTANCE: Final = timedelta(days=7)
"""Maximum remaining validity of an acceptance, so that the next restored backup is detected again."""

CLOCKS_APART: Final = timedelta(minutes=5)
"""Maximum skew between the clocks of successive leaders, which write the Works.

A larger skew breaks leases and certificates first. A hub that was restored to a more recent state than this is still
detected by the generations of its Works. Only a Work that was recreated in that time is missed.
"""

NEXT_STEP: Final = (
    f"To accept older Works, annotate the MemberCluster with {ACCEPT_OLDER_UNTIL}=<time>, at most "
    f"{LONGEST_ACCEPTANCE.days} days ahead"
)


@dataclass(frozen=True, slots=True)
class WorkRevision:
    """Revision of a Work.

    Args:
        uid: Uid of the Work.
        generation: Generation of the Work.
        written: Time at which the loop wrote it last, or when it was created if not recorded.
    """

    uid: str
    generation: int
    written: datetime | None = None


def work_revision(work: Mapping[str, Any]) -> WorkRevision:
    """Return the revision of a Work."""
    creation_text = str(metadata_of(work).get("creationTimestamp") or "")
    write_time = read_instant(annotation(work, WRITTEN)) or read_instant(creation_text)
    return WorkRevision(uid_of(work), generation_of(work), write_time)


def applied_revision(applied_work: Mapping[str, Any]) -> tuple[WorkRevision | None, bool]:
    """Return the revision of a Work when it was last applied, and whether an older one has been held since.

    The revision is None if the AppliedWork has no record, or if the record cannot be read.
    """
    try:
        record = orjson.loads(annotation(applied_work, APPLIED_REVISION) or "{}")
        return WorkRevision(
            str(record["uid"]), int(record["generation"]), read_instant(str(record.get("written") or ""))
        ), "held" in record
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return None, False


def is_older(work: Mapping[str, Any], applied_work: Mapping[str, Any]) -> bool:
    """Return whether a Work is older than what was last applied, or replaces a Work that is held for that reason."""
    applied_work_revision, is_held = applied_revision(applied_work)
    current = work_revision(work)
    if applied_work_revision is None or current == applied_work_revision:
        return False
    return is_held or _is_restored(work, applied_work_revision) or _is_put_back(work, applied_work_revision)


def _is_restored(work: Mapping[str, Any], applied_work_revision: WorkRevision) -> bool:
    """Return whether the hub was restored to a state before the Work that was applied."""
    current = work_revision(work)
    if current.uid == applied_work_revision.uid:
        return (
            min(current.generation, _reported_generation(work, current.generation)) < applied_work_revision.generation
        )
    return (
        current.written is not None
        and applied_work_revision.written is not None
        and current.written < applied_work_revision.written - CLOCKS_APART
    )


def _is_put_back(work: Mapping[str, Any], applied_work_revision: WorkRevision) -> bool:
    """Return whether a user has applied an older file over a Work.

    The loop never writes an earlier time over a later one. A missing time is not evidence. Neither is a different time
    with the same generation, because the content has not changed.
    """
    write_time = read_instant(annotation(work, WRITTEN))
    changed = uid_of(work) == applied_work_revision.uid and generation_of(work) > applied_work_revision.generation
    return (
        changed
        and write_time is not None
        and applied_work_revision.written is not None
        and write_time < applied_work_revision.written
    )


def with_applied(applied_work: JsonObject, work: Mapping[str, Any]) -> JsonObject | None:
    """Return the AppliedWork with the record that *work* was applied; None when it has that already."""
    return _with_stand(applied_work, work_revision(work), is_held=False)


def with_held(applied_work: JsonObject, work: Mapping[str, Any]) -> JsonObject | None:
    """Return the AppliedWork with the record that a Work is held, or None if recorded already or not restored."""
    applied_work_revision, _ = applied_revision(applied_work)
    if applied_work_revision is None or not _is_restored(work, applied_work_revision):
        return None
    return _with_stand(applied_work, applied_work_revision, is_held=True)


def held_status(work: JsonObject, message: str, now: datetime) -> JsonObject:
    """Return the status of a Work that is held. The entries of its objects are kept as last reported."""
    kind = "DiffReported" if reports_diff(work) else "Applied"
    condition = make_condition(kind, FALSE, OLDER_THAN_APPLIED, message, generation=generation_of(work), now=now)
    return {**status_of(work), "conditions": merge_conditions(conditions_of(work), [condition])}


def held_message(work: Mapping[str, Any], applied_work: Mapping[str, Any]) -> str:
    """Return the message about a Work that is held because it is older than the record of its AppliedWork."""
    applied_work_revision, _ = applied_revision(applied_work)
    assert applied_work_revision is not None
    old_words, current = _words(applied_work_revision), _words(work_revision(work))
    return (
        f"this Work ({current}) is older than what was applied ({old_words}), as on a hub restored from a backup: "
        f"nothing on the member is changed. {NEXT_STEP}"
    )


def accepts_older(document: Mapping[str, Any], now: datetime) -> bool:
    """Return whether a user has allowed a member to accept Works that are older than what was applied.

    The permission must end after *now*, and at most `LONGEST_ACCEPTANCE` later.

    Args:
        document: MemberCluster or InternalMemberCluster of the member.
        now: The current instant.
    """
    until = read_instant(annotation(document, ACCEPT_OLDER_UNTIL))
    return until is not None and now < until <= now + LONGEST_ACCEPTANCE


def _reported_generation(work: Mapping[str, Any], otherwise: int) -> int:
    generations = [condition.get("observedGeneration") for condition in conditions_of(work)]
    return max((number for number in generations if isinstance(number, int)), default=otherwise)


def _with_stand(applied_work: JsonObject, stand: WorkRevision, *, is_held: bool) -> JsonObject | None:
    record = {"uid": stand.uid, "generation": stand.generation}
    suffix = {"written": format_time(stand.written)} if stand.written else {}
    text = dump_json({**record, **suffix, **({"held": True} if is_held else {})}).decode()
    if annotation(applied_work, APPLIED_REVISION) == text:
        return None
    return with_metadata(applied_work, annotations={APPLIED_REVISION: text})


def _words(stand: WorkRevision) -> str:
    suffix = f", written {format_time(stand.written)}" if stand.written else ""
    return f"generation {stand.generation} of {stand.uid}{suffix}"
