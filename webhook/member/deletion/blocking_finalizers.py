"""Report of the finalizers and namespace conditions that block the deletion of a Work's content.

The member's API server deletes an object when its last finalizer is removed. Until then its Work remains on the hub,
and with it a placement that is being deleted. The Work's status names the object and the finalizer, so that a user of
the hub need not search the member.

Source: docs/specifications/rollout.md 20.
"""

from contextlib import suppress
from datetime import datetime
from typing import Final

from scorer.api.conditions import FALSE, TRUE, make_condition, merge_conditions
from scorer.api.kinds import APPLIED_WORK, NAMESPACE, WORK, Kind
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import (
    conditions_of,
    finalizers_of,
    generation_of,
    is_deleting,
    name_of,
    status_of,
)
from scorer.rollout.removal.marks import REMOVED
from webhook.kube.ports import ForbiddenError, Key, NotFoundError, Store
from webhook.member.objects.ledger import served_kinds, written_down
from webhook.member.objects.manifests import MESSAGE_LIMIT, ManifestIdentity
from webhook.member.objects.owner_references import without_owner
from webhook.member.store.ports import MemberStore

_OF_COLLECTORS: Final = frozenset({"foregroundDeletion", "orphan"})
_MOST_NAMED: Final = 5


async def report_obstacles(work: JsonObject, hub: Store, member: MemberStore, now: datetime) -> str:
    """Write into the status of a Work the obstacles to the removal of its content, and return them. Empty: none.

    Args:
        work: It is being deleted, and so is its AppliedWork.
        hub: Where it is.
        member: Where its objects are.
        now: The time of a transition.

    Raises:
        StoreError: The hub or the member did not answer.
    """
    message = "; ".join(await _obstacles(work["metadata"]["name"], member))
    await _report(work, "FinalizersRemain", message, hub, now)
    return message


async def report_refusal(work: JsonObject, why: str, hub: Store, now: datetime) -> None:
    """Write into the status of a Work that the agent may not remove its content.

    Args:
        work: It is being deleted.
        why: The answer of the API server.
        hub: Where it is.
        now: The time of a transition.

    Raises:
        StoreError: The hub did not answer.
    """
    message = f"Work {name_of(work)}: the agent may not remove its content: {why}"
    await _report(work, "ForbiddenByMember", message, hub, now)


async def _report(work: JsonObject, reason: str, message: str, hub: Store, now: datetime) -> None:
    generation, old = generation_of(work), conditions_of(work)
    conditions = [condition for condition in old if condition.get("type") != REMOVED]
    if message:
        condition = make_condition(REMOVED, FALSE, reason, message[:MESSAGE_LIMIT], generation=generation, now=now)
        conditions += merge_conditions(old, [condition])
    if conditions != list(old):
        await hub.replace_status(WORK, {**work, "status": {**status_of(work), "conditions": conditions}})


async def _obstacles(name: str, member: MemberStore) -> list[str]:
    """Return the objects of an AppliedWork that finalizers keep, the first few of them."""
    try:
        owner = await member.get(APPLIED_WORK, Key(name))
    except NotFoundError:
        return []
    obstacles = []
    for identity, kind in await served_kinds(written_down(owner), member):
        with suppress(NotFoundError, ForbiddenError):  # an object that the agent may not read has no name here
            live = await member.get(kind, Key(identity.name, identity.namespace))
            if is_deleting(live) and without_owner(live, name) is not None and (reason := _obstacle(kind, live)):
                obstacles.append(f"{_name(identity)}: {reason}")
    more = [f"{len(obstacles) - _MOST_NAMED} more objects"] if len(obstacles) > _MOST_NAMED else []
    return [*obstacles[:_MOST_NAMED], *more]


def _obstacle(kind: Kind, live: JsonObject) -> str:
    """Return why an object that is being deleted remains. Empty: it is about to be removed."""
    finalizers = [finalizer for finalizer in finalizers_of(live) if finalizer not in _OF_COLLECTORS]
    if finalizers:
        return f"finalizer {', '.join(finalizers)}"
    if kind != NAMESPACE:
        return ""
    # Content may remain for a while, but the other conditions do not pass by themselves.
    reasons = [
        str(condition.get("message") or condition.get("reason"))
        for condition in conditions_of(live)
        if condition.get("type") != "NamespaceContentRemaining" and condition.get("status") == TRUE
    ]
    return "; ".join(reasons)


def _name(identity: ManifestIdentity) -> str:
    space = f"{identity.namespace}/" if identity.namespace else ""
    return f"{identity.kind} {space}{identity.name}"
