"""Detection of members that refuse everything: no object of any Work could be applied.

The agent reports heartbeats, so such a member is eligible, and gets further placements. A condition of the
MemberCluster makes it visible. A member that has never refused everything has no such condition.

Only outcomes that the member or its agent decides count as refusals. Drift, an object of another owner, and a Work that
is still being applied do not.

Source: docs/specifications/rollout.md 21.1.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from scorer.api.conditions import FALSE, TRUE, make_condition
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dicts_at, is_deleting

CONTENT_APPLIED: Final = "ContentApplied"
LONGEST_ERROR: Final = 512
"""Maximum number of characters of the first error in the message."""
_APPLIED: Final = "Applied"
REFUSALS: Final = frozenset(
    {"ManifestApplyFailed", "FailedToFindObjInMemberCluster", "FailedToTakeOver", "RefusedByAgent"}
)
"""Reasons of manifests, as `scorer.rollout.works.status.ManifestReason` has them. That package is in the same layer."""


def content_condition(
    works: Iterable[JsonObject], old: Iterable[Mapping[str, Any]], generation: int, now: datetime
) -> JsonObject | None:
    """Return the condition to store, or None if the member has never refused everything.

    Stops at the first applied object, so that a healthy member costs one Work.

    Args:
        works: The Works of the member, in any order.
        old: The stored conditions of the MemberCluster.
        generation: Generation of the MemberCluster.
        now: The time by the hub's clock.
    """
    count, objects, first = 0, 0, ""
    for work in works:
        if is_deleting(work):
            continue
        outcomes = [*_outcomes(work)]
        if any(outcome.get("status") == TRUE for outcome in outcomes):
            return _accepted(old, generation, now)
        refusals = [outcome for outcome in outcomes if outcome.get("reason") in REFUSALS]
        if outcomes and not refusals:
            return _accepted(old, generation, now)
        if refusals:
            count, objects = count + 1, objects + len(outcomes)
            message = str(refusals[0].get("message") or refusals[0]["reason"])
            first = min(filter(None, (first, message)))
    if not count:
        return _accepted(old, generation, now)
    number = f"{objects} object{'' if objects == 1 else 's'} in {count} Work{'' if count == 1 else 's'}"
    text = f"refuses all content: 0 of {number} could be applied. One of the errors: {first[:LONGEST_ERROR]}"
    return make_condition(CONTENT_APPLIED, FALSE, "AllContentRefused", text, generation=generation, now=now)


def _outcomes(work: JsonObject) -> Iterator[Mapping[str, Any]]:
    """Yield the Applied conditions of the manifests of a Work."""
    for entry in dicts_at(work, "status", "manifestConditions"):
        yield from (condition for condition in dicts_at(entry, "conditions") if condition.get("type") == _APPLIED)


def _accepted(old: Iterable[Mapping[str, Any]], generation: int, now: datetime) -> JsonObject | None:
    if not _condition(old):
        return None
    text = "no longer refuses all content"
    return make_condition(CONTENT_APPLIED, TRUE, "ContentAccepted", text, generation=generation, now=now)


def _condition(conditions: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next((condition for condition in conditions if condition.get("type") == CONTENT_APPLIED), {})
