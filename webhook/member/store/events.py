"""Events about a Work on the hub and on the member, best effort.

The hub may refuse its Event: no object can be created in a namespace that is being deleted, and the roles of older hubs
do not allow Events.
"""

import logging
from datetime import datetime

from scorer.api.event import Event
from scorer.api.kinds import APPLIED_WORK, EVENT
from scorer.api.meta import JsonObject
from webhook.kube.events import event_document, own_name
from webhook.kube.ports import AlreadyExistsError, Key, Store, StoreError
from webhook.member.store.ports import MemberStore

_log = logging.getLogger(__name__)


async def record_event(work: JsonObject, event: Event, hub: Store, member: MemberStore, now: datetime) -> None:
    """Write an Event about a Work on the hub, and one about its AppliedWork on the member.

    Args:
        work: The Work, or its last state.
        event: The event.
        hub: Store of the Work.
        member: Store of its objects.
        now: The time of day.
    """
    name = work["metadata"]["name"]
    _log.warning("event recorded", extra={"work": name, "reason": event.reason, "note": event.message})
    try:
        owner = await member.get(APPLIED_WORK, Key(name))
        await member.create(EVENT, event_document(owner, event, now, own_name(), event.message))
    except AlreadyExistsError:
        return  # written by an earlier pass, which also tried the hub
    except StoreError as error:
        _log.warning("event write on the member failed", extra={"work": name, "error": str(error)})
    try:
        await hub.create(EVENT, event_document(work, event, now, own_name(), event.message))
    except AlreadyExistsError:
        return
    except StoreError as error:
        _log.warning("event write on the hub failed", extra={"work": name, "error": str(error)})
