"""Everything that leaves a member because of us leaves it here; whether it may is for `scorer.rollout.removal` to say.

Nothing else in this package deletes: `tests.contracts.member_deletions`, a part of ``make lint``, sees to it.

Source: rollout.md 11.3, 18 and 20.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from scorer.api.kinds import APPLIED_WORK, Kind
from scorer.api.meta import JsonObject, parse_time
from scorer.membership.identity import HubMember, is_ours
from scorer.rollout.removal import Content, Fate, fate, is_signed
from webhook.kube.ports import Key, NotFoundError, StoreError, UnavailableError
from webhook.member.books import on_latest, recorded, served_kinds, still_answers
from webhook.member.manifests import Identity, Manifest, Rejected
from webhook.member.owners import is_applied_work, owners, unblocked, with_owners
from webhook.member.ports import MemberStore

STUCK_AFTER: Final = timedelta(minutes=5)
"""How long an AppliedWork may be on its way out until objects that others own, too, stop holding it (rollout.md 20)."""

_log = logging.getLogger(__name__)


async def remove_left_overs(
    work: JsonObject, owner: JsonObject, decoded: Sequence[Manifest | Rejected], member: MemberStore
) -> list[Identity]:
    """Remove what earlier passes applied and the Work no longer holds; what others own too is only let go.

    Returns:
        What is still there: the member refused, or the Work may not say so. The next pass tries again.

    Raises:
        StoreError: The member does not answer.
    """
    wanted = {item.identity for item in decoded}
    left = [identity for identity in recorded(work, owner) if identity not in wanted]
    content = Content(signed=is_signed(work))
    if left and fate(content) is Fate.KEPT:
        fields = {"work": owner["metadata"]["name"], "objects": len(left)}
        _log.warning(
            "objects that a Work no longer holds are kept: what it holds is not what the hub wrote", extra=fields
        )
        return left
    refused = []
    for identity, kind in await served_kinds(left, member):
        try:
            await _settle(kind, Key(identity.name, identity.namespace), owner, member, content)
        except StoreError as error:
            if isinstance(error, UnavailableError):
                await still_answers(member, owner)
            fields = {"object": identity, "work": owner["metadata"]["name"], "reason": str(error)}
            _log.warning("the member does not let go of an object that its Work no longer holds", extra=fields)
            refused.append(identity)
    return refused


async def remove_content(work: JsonObject, content: Content, member: MemberStore, now: datetime, us: HubMember) -> bool:
    """Do with all that a Work put on the member what is to be done with it; say whether that is done.

    It goes with its AppliedWork, and what others own, too, stays. An AppliedWork that is another's is not of this Work.
    What is kept keeps its AppliedWork: a Work of that name that comes back finds both as they were.

    Args:
        work: As it is, or was last.
        content: What is known of all of its objects.
        member: Where they are.
        now: The time of day.
        us: Which member this is, of which hub.

    Raises:
        StoreError: The member did not answer: try again later.
    """
    found = fate(content)
    if found is Fate.KEPT:
        return True
    key = Key(work["metadata"]["name"])
    try:
        owner = await member.get(APPLIED_WORK, key)
    except NotFoundError:
        return True
    if fate(replace(content, ours=is_ours(owner, us))) is Fate.KEPT:
        return True
    known = recorded(work, owner)
    if found is Fate.RELEASED:
        for identity, kind in await served_kinds(known, member):
            await _settle(kind, Key(identity.name, identity.namespace), owner, member, content)
    if await _deleted(key, owner, member):
        return True
    marked = owner["metadata"].get("deletionTimestamp")
    if marked and now - parse_time(marked) >= STUCK_AFTER:
        await _unblock(known, owner, member)
    return False


async def _settle(kind: Kind, key: Key, owner: JsonObject, member: MemberStore, content: Content) -> None:
    """Do with one object what is to be done with it: an object that is gone or not ours is left alone.

    Args:
        kind: Of the object.
        key: Of the object.
        owner: The AppliedWork.
        member: Where it is.
        content: What is known of it, but for who owns it.
    """
    name = owner["metadata"]["name"]

    async def change(live: JsonObject) -> None:
        others = [known for known in owners(live) if not (is_applied_work(known) and known["name"] == name)]
        match fate(replace(content, ours=len(others) != len(owners(live)), shared=bool(others))):
            case Fate.REMOVED:
                await member.delete(kind, key, uid=live["metadata"].get("uid", ""))
            case Fate.RELEASED:
                await member.replace(kind, with_owners(live, others))

    await on_latest(kind, key, member, change)


async def _deleted(key: Key, owner: JsonObject, member: MemberStore) -> bool:
    """Delete the AppliedWork, after what it owns; say whether it is gone."""
    try:
        if not owner["metadata"].get("deletionTimestamp"):
            await member.delete(APPLIED_WORK, key, uid=owner["metadata"]["uid"], foreground=True)
        await member.get(APPLIED_WORK, key)
    except NotFoundError:
        return True
    return False


async def _unblock(identities: Sequence[Identity], owner: JsonObject, member: MemberStore) -> None:
    """Let an AppliedWork that is stuck in deletion go before its objects that others own, too.

    Source: rollout.md 20.
    """
    for identity, kind in await served_kinds(identities, member):
        key = Key(identity.name, identity.namespace)

        async def change(live: JsonObject, kind: Kind = kind) -> None:
            changed = unblocked(live, owner["metadata"]["uid"])
            if changed is not live:
                await member.replace(kind, changed)

        await on_latest(kind, key, member, change)
