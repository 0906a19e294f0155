"""AppliedWorks that somebody on the member deletes: what they own must not go with them.

A member's garbage collector deletes what has lost its last owner, and a placed namespace takes along what is local in
it. So every AppliedWork of ours has a finalizer. One that goes without our doing (by hand, with its definition) is
freed first: what it owns is taken from it, then it may go, and where its Work is still there it is made anew and owns
the same objects again. In between they have no owner, and a mark that says whose they are: nothing without an owner is
collected, what has only one that is gone would be.

Not helped by this: a foreground deletion (``--cascade=foreground``), with which the garbage collector begins at once.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from scorer.api.documents import finalizers_of, is_deleting, without_finalizer
from scorer.api.kinds import APPLIED_WORK, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import APPLIED_WORK_CLEANUP
from scorer.membership.identity import HubMember, Standing, standing
from scorer.rollout.intent import is_meant
from webhook.kube.ports import ForbiddenError, Key, NotFoundError, Store, StoreError
from webhook.member.books import on_latest, recorded, remember, served_kinds, written_down
from webhook.member.manifests import Identity
from webhook.member.owners import (
    freed,
    is_applied_work,
    is_freed,
    owner_reference,
    owners,
    unfreed,
    with_owners,
    without_owner,
)
from webhook.member.ownership import GoingError, applied_work
from webhook.member.ports import MemberStore


async def made_anew(
    going: GoingError, work: JsonObject, hub: Store, member: MemberStore, us: HubMember, now: datetime
) -> tuple[JsonObject, JsonObject]:
    """Free an AppliedWork that somebody deletes while its Work is there.

    What it owned is marked, and is written down at the Work, so that it is taken back (`take_back`) whenever that can
    be done: all this may stop anywhere, and without an owner nothing goes meanwhile.

    Returns:
        The Work, and the AppliedWork that takes the place.

    Raises:
        GoingError: It is ours no longer to free, or something else holds it.
        StoreError: The hub or the member did not answer.
    """
    found = going.found
    if not _is_ours_to_free(found, us):
        raise going
    work = await remember(work, found, hub, now)
    await _free(found, recorded(work, found, compared=True), member, us)
    metadata = work["metadata"]
    return work, await applied_work(Key(metadata["name"], metadata["namespace"]), member, us)


async def take_back(
    work: JsonObject, owner: JsonObject | None, member: MemberStore, us: HubMember
) -> JsonObject | None:
    """Have the AppliedWork of a Work own what was freed from an earlier one; it is made if need be.

    To be called as long as it has nothing written down, and when it goes for good: then what was freed already goes
    with it, or is let go of like the rest.

    Args:
        work: As it is, or was last.
        owner: Its AppliedWork; None: there is none.
        member: Where the objects are.
        us: Which member this is, of which hub.

    Returns:
        The AppliedWork; None: there is none, and nothing was freed.

    Raises:
        StoreError: The member did not answer.
    """
    about = work["metadata"]
    for identity, kind in await served_kinds(recorded(work, owner, compared=True), member):

        async def adopt(live: JsonObject, kind: Kind = kind) -> None:
            nonlocal owner
            if not is_freed(live, about["name"], us):
                return
            owner = owner or await applied_work(Key(about["name"], about["namespace"]), member, us)
            known = owners(live)
            ours = [] if any(map(is_applied_work, known)) else [owner_reference(owner)]
            await member.replace(kind, unfreed(with_owners(live, [*known, *ours])))

        with suppress(ForbiddenError):
            await on_latest(kind, Key(identity.name, identity.namespace), member, adopt)
    return owner


async def free_without_work(name: str, member: MemberStore, us: HubMember) -> None:
    """Free an AppliedWork that somebody deletes and that has no Work; what it owned stays, without an owner.

    An administrator gets rid of what stayed by saying so on it first, as the loop does on a Work: an AppliedWork with
    ``harbormaster.dev/remove`` and its own uid takes along what it owns (`scorer.rollout.intent`). Anything less is no
    word about any of it: all of them may go at once, with their definition or by ``kubectl delete --all``.

    Raises:
        StoreError: The member did not answer.
    """
    try:
        found = await member.get(APPLIED_WORK, Key(name))
    except NotFoundError:
        return
    if is_deleting(found) and _is_ours_to_free(found, us):
        await _free(found, () if is_meant(found) else written_down(found), member)


def _is_ours_to_free(found: JsonObject, us: HubMember) -> bool:
    held = APPLIED_WORK_CLEANUP in finalizers_of(found)
    return held and standing(found, us) is not Standing.ANOTHERS


async def _free(
    found: JsonObject, identities: Iterable[Identity], member: MemberStore, us: HubMember | None = None
) -> None:
    """Take what an AppliedWork owns from it, then let it go; with *us*, for the next of its name to take back."""
    name, uid = found["metadata"]["name"], found["metadata"]["uid"]
    owned = list(identities)
    if unknown := {identity.group for identity in owned} & member.served.silent:
        raise StoreError(f"AppliedWork {name} is held: the member does not say what {sorted(unknown)} is")
    for identity, kind in await served_kinds(owned, member):

        async def change(live: JsonObject, kind: Kind = kind) -> None:
            if (released := without_owner(live, name)) is not None:
                await member.replace(kind, released if us is None else freed(released, name, us))

        try:
            await on_latest(kind, Key(identity.name, identity.namespace), member, change)
        except ForbiddenError:
            if identity in written_down(found):  # the others may never have been applied
                raise

    async def let_go(live: JsonObject) -> None:
        if (gone := without_finalizer(live, APPLIED_WORK_CLEANUP)) is not None and live["metadata"]["uid"] == uid:
            await member.replace(APPLIED_WORK, gone)

    await on_latest(APPLIED_WORK, Key(name), member, let_go)
