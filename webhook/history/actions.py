"""Actions of users: accepted writes that decide something, as history entries.

Objects do not record the author of a write. Only the admission review names the author, so the server that accepts the
write records the action. Each function compares two versions of an object, and does no more for writes that are not
actions.

Source: docs/specifications/upgrade-runs.md 9 and 10.2; docs/specifications/staged-updates.md 6.2;
docs/specifications/removal.md 10; docs/specifications/rollout.md 21.2.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from enum import StrEnum
from itertools import islice
from typing import Any, Final, NamedTuple

from scorer.api.cluster.member_cluster import is_cordon
from scorer.api.conditions import TRUE
from scorer.api.family import FAMILIES, family_in
from scorer.api.kinds import MEMBER_CLUSTER, NODE_POOL, UPGRADE_GATE, UPGRADE_RUN, group_kind
from scorer.api.meta import JsonObject, format_time
from scorer.api.names import CONFIRM_REMOVAL, REJECTED, REMOVAL_CONFIRMATION, ROLLBACK_OF
from scorer.api.placement.staged_update import RunState
from scorer.api.unstructured.documents import (
    annotation,
    conditions_of,
    dicts_at,
    generation_of,
    has_current_status,
    is_deleting,
    name_of,
    namespace_of,
    spec_of,
    text_at,
    uid_of,
)
from scorer.api.values.quoting import quote
from scorer.rollout.confirmation.digests import Confirmation
from webhook.history.entry import ID_CHARACTERS, InvolvedObject

MOST_FIELDS: Final = 3
"""Maximum number of changed fields in the message of a change."""
_APPROVED: Final = "Approved"


class ActionReason(StrEnum):
    """``reason`` of an entry with type ``Action``."""

    PLACEMENT_CREATED = "PlacementCreated"
    PLACEMENT_CHANGED = "PlacementChanged"
    PLACEMENT_DELETED = "PlacementDeleted"
    CONTENT_ABANDONED = "ContentAbandoned"
    REMOVAL_CONFIRMED = "RemovalConfirmed"
    CONFIRMATION_CHANGED = "ConfirmationChanged"
    RUN_CREATED = "RunCreated"
    RUN_STARTED = "RunStarted"
    RUN_STOPPED = "RunStopped"
    RUN_RESUMED = "RunResumed"
    RUN_UNDONE = "RunUndone"
    RUN_PARTS_SKIPPED = "RunPartsSkipped"
    RUN_DELETED = "RunDeleted"
    APPROVAL_GIVEN = "ApprovalGiven"
    APPROVAL_REJECTED = "ApprovalRejected"
    MEMBER_CREATED = "MemberCreated"
    MEMBER_CORDONED = "MemberCordoned"
    MEMBER_UNCORDONED = "MemberUncordoned"
    MEMBER_DELETED = "MemberDeleted"


class UserAction(NamedTuple):
    """An action of a user, and the object of the history entry. For an approval, that is the run."""

    about: InvolvedObject
    reason: ActionReason
    message: str


@dataclass(frozen=True, slots=True)
class AcceptedWrite:
    """A write that admission has accepted.

    Args:
        document: The object after the write, or None for a deletion.
        old: The object before the write, or None for a creation.
        subresource: The written subresource. Empty: the object itself.
    """

    document: JsonObject | None
    old: JsonObject | None = None
    subresource: str = ""

    def actions(self) -> Iterator[UserAction]:
        """Yield the actions of the write. Most writes have none."""
        present = self.document if self.document is not None else self.old
        if present is None:
            return
        subresource, actions = _ACTIONS.get(group_kind(present), ("", None))
        if actions is not None and subresource == self.subresource:
            yield from actions(self.document, self.old)

    def id_of(self, action: UserAction, by: str) -> str:
        """Return the id of an action, the same in every review of one write. Empty: the entry needs a unique id.

        After a conflict with a write of a controller, the API server repeats a patch and its review, perhaps by another
        replica: the object then has another resource version, but the same generation. Ids of one object sort by age.
        """
        if action.reason is ActionReason.CONFIRMATION_CHANGED:  # an annotation does not change the generation
            return ""
        uid = uid_of(self.old or self.document or {})
        words = hashlib.sha256(repr((uid, action, by)).encode(errors="replace")).hexdigest()
        subject = hashlib.sha256(uid.encode(errors="replace")).hexdigest()
        generation = generation_of(self.old) if self.old is not None else 0
        return f"{subject[:8]}-{generation:010}-{words[:10]}"[:ID_CHARACTERS] if uid else ""


_Actions = Callable[[JsonObject | None, JsonObject | None], Iterator[UserAction]]


def _of_deletion(reason: ActionReason, old: JsonObject | None) -> Iterator[UserAction]:
    if old is not None and not is_deleting(old):  # a repeated deletion decides nothing
        yield UserAction(_object(old), reason, "deleted")


def _of_placement(new: JsonObject | None, old: JsonObject | None) -> Iterator[UserAction]:
    if new is None:
        yield from _of_deletion(ActionReason.PLACEMENT_DELETED, old)
        return
    about = _object(new)
    if old is None:
        yield UserAction(about, ActionReason.PLACEMENT_CREATED, f"created: {_policy(new)}")
    else:
        yield from _of_spec(about, new, old)
    yield from _of_confirmation(new, old)
    mode = annotation(new, REMOVAL_CONFIRMATION)
    if mode != annotation(old or {}, REMOVAL_CONFIRMATION):
        message = f"set the confirmation of removals to {quote(mode)}" if mode else "unset the confirmation of removals"
        yield UserAction(about, ActionReason.CONFIRMATION_CHANGED, message)


def _of_spec(about: InvolvedObject, new: JsonObject, old: JsonObject) -> Iterator[UserAction]:
    before, after = spec_of(old), spec_of(new)
    if before == after:
        return
    if is_deleting(new) and text_at(after, "strategy", "deleteStrategy", "propagationPolicy") == "Abandon":
        yield UserAction(about, ActionReason.CONTENT_ABANDONED, "leaves its content on the members, unmanaged")
        return
    fields = list(islice(_changes(before, after, ""), MOST_FIELDS + 1))
    more = ", and more" if len(fields) > MOST_FIELDS else ""
    yield UserAction(about, ActionReason.PLACEMENT_CHANGED, f"changed {', '.join(fields[:MOST_FIELDS])}{more}")


def _of_confirmation(new: JsonObject | None, old: JsonObject | None) -> Iterator[UserAction]:
    if new is None or (text := annotation(new, CONFIRM_REMOVAL)) == annotation(old or {}, CONFIRM_REMOVAL):
        return
    after, before = _confirmation(text), _confirmation(annotation(old or {}, CONFIRM_REMOVAL))
    digests = sorted(after.digests - before.digests or after.digests)
    if digests and after.expiry is not None:
        expiry = format_time(after.expiry.astimezone(UTC))
        message = f"confirmed the removal {', '.join(digests)} until {expiry}"
        yield UserAction(_object(new), ActionReason.REMOVAL_CONFIRMED, message)


def _confirmation(text: str) -> Confirmation:
    try:
        return Confirmation.parse(text) if text else Confirmation()
    except ValueError:
        return Confirmation()


def _of_run(new: JsonObject | None, old: JsonObject | None) -> Iterator[UserAction]:
    rejection = annotation(new or {}, REJECTED)
    if new is not None and old is not None and rejection and rejection != annotation(old, REJECTED):
        yield UserAction(_object(new), ActionReason.APPROVAL_REJECTED, f"rejected {rejection}")  # this stops the run
    else:
        yield from _of_run_state(new, old)


def _of_run_state(new: JsonObject | None, old: JsonObject | None) -> Iterator[UserAction]:
    if new is None:
        yield from _of_deletion(ActionReason.RUN_DELETED, old)
        return
    about, after = _object(new), _state(new)
    if old is None:
        verb = "started" if after == RunState.RUN else "created"
        if undone := annotation(new, ROLLBACK_OF):
            yield UserAction(about, ActionReason.RUN_UNDONE, f"{verb} the rollback of run {undone}: {_subject(new)}")
        else:
            reason = ActionReason.RUN_STARTED if after == RunState.RUN else ActionReason.RUN_CREATED
            yield UserAction(about, reason, f"{verb}: {_subject(new)}")
    elif (before := _state(old)) != after and after == RunState.STOP:
        yield UserAction(about, ActionReason.RUN_STOPPED, "stopped")
    elif after == RunState.RUN and before == RunState.INITIALIZE:
        yield UserAction(about, ActionReason.RUN_STARTED, f"started: {_subject(new)}")
    elif after == RunState.RUN and (before == RunState.STOP or _token(new) != _token(old)):
        yield UserAction(about, ActionReason.RUN_RESUMED, "resumed")


def _of_upgrade_run(new: JsonObject | None, old: JsonObject | None) -> Iterator[UserAction]:
    yield from _of_run_state(new, old)
    if new is None or old is None:
        return
    earlier = dicts_at(old, "spec", "skipTargets")
    parts = [target for target in dicts_at(new, "spec", "skipTargets") if target not in earlier]
    if parts:
        names = [f"{text_at(target, 'type')} {text_at(target, 'name')}" for target in parts[:MOST_FIELDS]]
        more = f" and {len(parts) - MOST_FIELDS} more" if len(parts) > MOST_FIELDS else ""
        yield UserAction(_object(new), ActionReason.RUN_PARTS_SKIPPED, f"skipped {', '.join(names)}{more}")


def _of_approval_request(new: JsonObject | None, old: JsonObject | None) -> Iterator[UserAction]:
    if new is None or old is None or not has_current_status(new, _APPROVED, TRUE):
        return
    if has_current_status(old, _APPROVED, TRUE):
        return
    space = namespace_of(new)
    run = InvolvedObject(family_in(space).run.kind, text_at(new, "spec", "parentStageRollout"), space)
    stage = text_at(new, "spec", "targetStage")
    yield UserAction(run, ActionReason.APPROVAL_GIVEN, _answer("approved", new, f" of stage {stage}" if stage else ""))


def _of_upgrade_gate(new: JsonObject | None, old: JsonObject | None) -> Iterator[UserAction]:
    if new is None or old is None:
        return
    status = text_at(_approval(new), "status")
    if not status or status == text_at(_approval(old), "status"):
        return
    run = text_at(new, "spec", "runName")
    about = InvolvedObject(UPGRADE_RUN.kind, run) if run else _object(new)
    stage = text_at(new, "spec", "stage")
    where = f" of stage {stage}" if stage else ""
    if status == TRUE:
        yield UserAction(about, ActionReason.APPROVAL_GIVEN, _answer("approved", new, where))
    else:
        yield UserAction(about, ActionReason.APPROVAL_REJECTED, _answer("rejected", new, where))


def _of_member(new: JsonObject | None, old: JsonObject | None) -> Iterator[UserAction]:
    if new is None:
        yield from _of_deletion(ActionReason.MEMBER_DELETED, old)
    elif old is None:
        message = "created, cordoned" if _is_cordoned(new) else "created"
        yield UserAction(_object(new), ActionReason.MEMBER_CREATED, message)
    elif _is_cordoned(new) and not _is_cordoned(old):
        yield UserAction(_object(new), ActionReason.MEMBER_CORDONED, "cordoned")
    elif _is_cordoned(old) and not _is_cordoned(new):
        yield UserAction(_object(new), ActionReason.MEMBER_UNCORDONED, "uncordoned")


def _is_cordoned(member: JsonObject) -> bool:
    return any(map(is_cordon, dicts_at(member, "spec", "taints")))


def _answer(verb: str, request: JsonObject, where: str) -> str:
    message = text_at(_approval(request), "message")
    return f"{verb} {name_of(request)}{where}{f': {message}' if message else ''}"


def _approval(request: JsonObject) -> JsonObject:
    return next((condition for condition in conditions_of(request) if condition.get("type") == _APPROVED), {})


_ACTIONS: Final[Mapping[tuple[str, str], tuple[str, _Actions]]] = {
    **{family.placement.group_kind: ("", _of_placement) for family in FAMILIES},
    **{family.run.group_kind: ("", _of_run) for family in FAMILIES},
    **{family.approval_request.group_kind: ("status", _of_approval_request) for family in FAMILIES},
    UPGRADE_RUN.group_kind: ("", _of_upgrade_run),
    UPGRADE_GATE.group_kind: ("status", _of_upgrade_gate),
    MEMBER_CLUSTER.group_kind: ("", _of_member),
    NODE_POOL.group_kind: ("", _of_confirmation),
}
"""Per kind, the subresource whose writes are actions, and the function that finds them."""


def _object(document: JsonObject) -> InvolvedObject:
    return InvolvedObject(str(document.get("kind", "")), name_of(document), namespace_of(document))


def _state(run: JsonObject) -> str:
    return text_at(run, "spec", "state") or RunState.INITIALIZE


def _token(run: JsonObject) -> str:
    return text_at(run, "spec", "restartToken")


def _subject(run: JsonObject) -> str:
    """Return the subject of a run as text: a placement and a strategy, or the type and version of an upgrade."""
    placement, strategy = text_at(run, "spec", "placementName"), text_at(run, "spec", "stagedRolloutStrategyName")
    if placement:
        return f"placement {placement}, strategy {strategy}"
    version = text_at(run, "spec", "upgrade", "kubernetesVersion")
    return f"upgrade {text_at(run, 'spec', 'upgrade', 'type')}{f' to {version}' if version else ''}"


def _policy(placement: JsonObject) -> str:
    policy = spec_of(placement).get("policy")
    policy = policy if isinstance(policy, dict) else {}
    number = policy.get("numberOfClusters")
    return f"{policy.get('placementType') or 'PickAll'}{f' {number}' if isinstance(number, int) else ''}"


def _changes(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Yield the fields that differ, with their values if these are short."""
    for member in sorted({*before, *after}):
        was, now, path = before.get(member), after.get(member), f"{prefix}{member}"
        if was == now:
            continue
        if isinstance(was, dict) and isinstance(now, dict):
            yield from _changes(was, now, f"{path}.")
        elif isinstance(was, dict | list) or isinstance(now, dict | list):
            yield path
        else:
            yield f"{path} from {_value(was)} to {_value(now)}"


def _value(value: Any) -> str:
    return "unset" if value is None else quote(value)
