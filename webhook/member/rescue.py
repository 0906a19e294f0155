"""AppliedWorks that somebody on the member deletes: what they own must not go with them.

A member's garbage collector deletes what has lost its last owner, and a placed namespace takes along what is local in
it. So every AppliedWork of ours has a finalizer. One that goes without our doing (by hand, with its definition) is
freed first: what it owns is taken from it, then it may go, and where its Work is still there it is made anew and owns
the same objects again.

Not helped by this: a foreground deletion (``--cascade=foreground``), with which the garbage collector begins at once.
"""

from collections.abc import Iterable

from scorer.api.kinds import APPLIED_WORK, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import APPLIED_WORK_CLEANUP
from scorer.membership.identity import HubMember, Standing, standing
from scorer.rollout.documents import without_finalizer
from scorer.rollout.intent import is_meant
from webhook.kube.ports import Key, NotFoundError, StoreError
from webhook.member.books import on_latest, recorded, served_kinds, written_down
from webhook.member.manifests import Identity
from webhook.member.owners import is_applied_work, owner_reference, owners, with_owners, without_owner
from webhook.member.ownership import GoingError, applied_work
from webhook.member.ports import MemberStore


async def made_anew(going: GoingError, work: JsonObject, member: MemberStore, us: HubMember) -> JsonObject:
    """Free an AppliedWork that somebody deletes while its Work is there; return the one that takes its place.

    Raises:
        GoingError: It is ours no longer to free, or something else holds it.
        StoreError: The member did not answer.
    """
    found = going.found
    if not _is_ours_to_free(found, us):
        raise going
    freed = await _free(found, recorded(work, found), member)
    metadata = work["metadata"]
    owner = await applied_work(Key(metadata["name"], metadata["namespace"]), member, us)
    for identity, kind in await served_kinds(freed, member):

        async def adopt(live: JsonObject, kind: Kind = kind) -> None:
            if not any(is_applied_work(known) for known in owners(live)):
                await member.replace(kind, with_owners(live, [*owners(live), owner_reference(owner)]))

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
    if found["metadata"].get("deletionTimestamp") and _is_ours_to_free(found, us):
        await _free(found, () if is_meant(found) else written_down(found), member)


def _is_ours_to_free(found: JsonObject, us: HubMember) -> bool:
    held = APPLIED_WORK_CLEANUP in (found["metadata"].get("finalizers") or ())
    return held and standing(found, us) is not Standing.ANOTHERS


async def _free(found: JsonObject, identities: Iterable[Identity], member: MemberStore) -> list[Identity]:
    """Take what an AppliedWork owns from it, then let it go; return what it owned."""
    name, uid = found["metadata"]["name"], found["metadata"]["uid"]
    freed, owned = [], list(identities)
    if unknown := {identity.group for identity in owned} & member.served.silent:
        raise StoreError(f"AppliedWork {name} is held: the member does not say what {sorted(unknown)} is")
    for identity, kind in await served_kinds(owned, member):

        async def change(live: JsonObject, kind: Kind = kind, identity: Identity = identity) -> None:
            if (released := without_owner(live, name)) is not None:
                await member.replace(kind, released)
                freed.append(identity)

        await on_latest(kind, Key(identity.name, identity.namespace), member, change)

    async def let_go(live: JsonObject) -> None:
        if (gone := without_finalizer(live, APPLIED_WORK_CLEANUP)) is not None and live["metadata"]["uid"] == uid:
            await member.replace(APPLIED_WORK, gone)

    await on_latest(APPLIED_WORK, Key(name), member, let_go)
    return freed
