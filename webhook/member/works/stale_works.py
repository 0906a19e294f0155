"""Stale Works: a Work older than the applied state is not applied, see `scorer.rollout.works.hub_restore`.

A hub that was restored from a backup has such Works.
"""

from datetime import datetime

from scorer.api.event import Event
from scorer.api.kinds import APPLIED_WORK, WORK
from scorer.api.meta import JsonObject
from scorer.api.names import OLDER_THAN_APPLIED
from scorer.api.unstructured.documents import status_of
from scorer.rollout.works.hub_restore import (
    held_message,
    held_status,
    is_older,
    with_applied,
    with_held,
)
from webhook.kube.ports import Key, Store
from webhook.member.membership.hub_state import MemberStateReader
from webhook.member.objects.ledger import on_latest
from webhook.member.store.events import record_event
from webhook.member.store.ports import MemberStore


async def is_held(
    work: JsonObject,
    owner: JsonObject,
    read_hub_state: MemberStateReader,
    hub: Store,
    member: MemberStore,
    now: datetime,
) -> bool:
    """Return whether a Work is held because it is older than the applied state. If so, record that on both sides.

    Args:
        work: Work as it is on the hub.
        owner: AppliedWork of the Work.
        read_hub_state: Reads whether the member accepts older Works, as set on the hub.
        hub: Store of the Work.
        member: Store of its AppliedWork.
        now: The time of day.

    Raises:
        StoreError: The hub or the member did not respond.
    """
    if not is_older(work, owner) or (await read_hub_state()).accepts_older:
        return False
    # The member first: if the agent stops before the hub is updated, the hold remains, even if the hub rewrites the
    # Work.
    if (updated := with_held(owner, work)) is not None:
        await member.replace(APPLIED_WORK, updated)
    message = held_message(work, owner)
    status = held_status(work, message, now)
    if status != status_of(work):
        await hub.replace_status(WORK, {**work, "status": status})
        await record_event(work, Event(OLDER_THAN_APPLIED, message, "Warning"), hub, member, now)
    return True


async def note_applied(work: JsonObject, owner: JsonObject, member: MemberStore) -> None:
    """Record on the AppliedWork which Work was applied. Call it after the hub has stored the Work's status.

    A no-op if that is recorded already, or if the AppliedWork was recreated.

    Raises:
        StoreError: The member did not respond, or other clients keep writing the AppliedWork.
    """
    if with_applied(owner, work) is None:
        return

    async def change(live: JsonObject) -> None:
        if live["metadata"]["uid"] == owner["metadata"]["uid"] and (updated := with_applied(live, work)) is not None:
            await member.replace(APPLIED_WORK, updated)

    await on_latest(APPLIED_WORK, Key(owner["metadata"]["name"]), member, change)
