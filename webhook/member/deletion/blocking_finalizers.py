"""Report of the finalizers and namespace conditions that block the deletion of a Work's content.

The member's API server deletes an object when its last finalizer is removed. Until then a Work that is being deleted
remains on the hub, and with it its placement. An object that its Work no longer holds remains in the AppliedWork. In
both cases the Work's status names the object and the finalizer, so that a user of the hub need not search the member.

Source: docs/specifications/rollout.md 20.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from scorer.api.conditions import FALSE, make_condition, merge_conditions
from scorer.api.event import Event
from scorer.api.kinds import APPLIED_WORK, WORK, Kind
from scorer.api.meta import JsonObject, parse_time
from scorer.api.unstructured.documents import (
    conditions_of,
    generation_of,
    is_deleting,
    name_of,
    status_of,
)
from scorer.rollout.removal.marks import FINALIZERS_REMAIN, REMOVED
from webhook.kube.ports import ForbiddenError, Key, NotFoundError, Store
from webhook.member.objects.finalizers import obstacle
from webhook.member.objects.ledger import served_kinds, written_down
from webhook.member.objects.manifests import MESSAGE_LIMIT, ManifestIdentity
from webhook.member.objects.owner_references import without_owner
from webhook.member.store.ports import MemberStore

REPORTED_AFTER: Final = timedelta(minutes=1)
"""Grace period before the Work reports a Terminating object that it no longer holds."""

_MOST_NAMED: Final = 5


async def report_obstacles(work: JsonObject, hub: Store, member: MemberStore, now: datetime) -> str:
    """Record the obstacles to the removal of a Work's content in its status, and return them as text. Empty: none.

    Args:
        work: A Work that is being deleted. Its AppliedWork is being deleted too.
        hub: Store of the Work.
        member: Store of its objects.
        now: Transition time of conditions that change.

    Raises:
        StoreError: The hub or the member did not respond.
    """
    message = _joined(await _obstacles(work["metadata"]["name"], member))
    await _report(work, FINALIZERS_REMAIN, message, hub, now)
    return message


async def report_refusal(work: JsonObject, reason: str, hub: Store, now: datetime) -> None:
    """Write into the status of a Work that the agent is not permitted to remove its content.

    Args:
        work: A Work that is being deleted.
        reason: The answer of the API server.
        hub: Store of the Work.
        now: Transition time of conditions that change.

    Raises:
        StoreError: The hub refused the request or did not respond.
    """
    message = f"Work {name_of(work)}: the agent may not remove its content: {reason}"
    await _report(work, "ForbiddenByMember", message, hub, now)


def left_over_obstacles(objects: Iterable[tuple[ManifestIdentity, Kind, JsonObject]], now: datetime) -> str:
    """Return the obstacles of left-over objects whose deletion started at least `REPORTED_AFTER` ago. Empty: none.

    Args:
        objects: Objects that the Work no longer holds and that are being deleted.
        now: The time of day.
    """
    return _joined(
        f"{_name(identity)}: {reason}"
        for identity, kind, live in objects
        if now - parse_time(live["metadata"]["deletionTimestamp"]) >= REPORTED_AFTER
        and (reason := obstacle(kind, live))
    )


def with_obstacles(work: JsonObject, status: JsonObject, message: str, now: datetime) -> JsonObject:
    """Return the new *status* of a Work, with the condition Removed if *message* names obstacles of left-overs."""
    if not message:
        return status
    return {**status, "conditions": [*status["conditions"], *_removed(work, FINALIZERS_REMAIN, message, now)]}


def new_obstacles(work: JsonObject, message: str) -> Iterator[Event]:
    """Yield an Event about the obstacles in *message* that the Work's status does not show yet. Empty: none."""
    messages = [condition.get("message") for condition in conditions_of(work) if condition.get("type") == REMOVED]
    if message and message not in messages:
        yield Event(FINALIZERS_REMAIN, message, "Warning")


def _removed(work: JsonObject, reason: str, message: str, now: datetime) -> list[JsonObject]:
    generation = generation_of(work)
    condition = make_condition(REMOVED, FALSE, reason, message[:MESSAGE_LIMIT], generation=generation, now=now)
    return merge_conditions(conditions_of(work), [condition])


async def _report(work: JsonObject, reason: str, message: str, hub: Store, now: datetime) -> None:
    old = conditions_of(work)
    conditions = [condition for condition in old if condition.get("type") != REMOVED]
    if message:
        conditions += _removed(work, reason, message, now)
    if conditions != list(old):
        await hub.replace_status(WORK, {**work, "status": {**status_of(work), "conditions": conditions}})


async def _obstacles(name: str, member: MemberStore) -> list[str]:
    """Return the objects of an AppliedWork that finalizers keep."""
    try:
        owner = await member.get(APPLIED_WORK, Key(name))
    except NotFoundError:
        return []
    obstacles = []
    for identity, kind in await served_kinds(written_down(owner), member):
        with suppress(NotFoundError, ForbiddenError):  # an object that the agent has no right to read is not reported
            live = await member.get(kind, Key(identity.name, identity.namespace))
            if is_deleting(live) and without_owner(live, name) is not None and (reason := obstacle(kind, live)):
                obstacles.append(f"{_name(identity)}: {reason}")
    return obstacles


def _joined(obstacles: Iterable[str]) -> str:
    """Return the first few obstacles, and the number of the others."""
    names = list(obstacles)
    more = [f"{len(names) - _MOST_NAMED} more objects"] if len(names) > _MOST_NAMED else []
    return "; ".join([*names[:_MOST_NAMED], *more])


def _name(identity: ManifestIdentity) -> str:
    space = f"{identity.namespace}/" if identity.namespace else ""
    return f"{identity.kind} {space}{identity.name}"
