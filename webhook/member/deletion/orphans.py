"""Orphaning: if a user deletes an AppliedWork, its objects are released first and adopted by the next AppliedWork.

A member's garbage collector deletes objects whose last owner no longer exists, and a placed namespace is deleted with
all of its content. Therefore, each of our AppliedWorks has a finalizer. If another client deletes an AppliedWork (by
hand, or with its definition), the agent removes it from the owners of the objects, then removes the finalizer. If the
Work still exists, the agent recreates the AppliedWork as owner of the same objects.

In between, the objects have no owner, but a mark that names their future owner. The garbage collector ignores objects
without owner references.

Example: a user deletes the CustomResourceDefinition of AppliedWorks on a member. All AppliedWorks get a deletion
timestamp, and their finalizers keep them until the agent has removed their references from all objects. Otherwise the
garbage collector would delete the content of every placement on that member.

This does not help against a foreground deletion (``--cascade=foreground``), for which the garbage collector starts to
delete immediately.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from scorer.api.kinds import APPLIED_WORK, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import APPLIED_WORK_CLEANUP
from scorer.api.unstructured.documents import finalizers_of, without_finalizer
from scorer.membership.identity import AppliedWorkOwnership, HubMember, ownership_of
from webhook.kube.ports import ForbiddenError, Key, Store, StoreError
from webhook.member.objects.applied_works import AppliedWorkDeletingError, applied_work
from webhook.member.objects.ledger import on_latest, recorded, remember, served_kinds, written_down
from webhook.member.objects.manifests import ManifestIdentity
from webhook.member.objects.owner_references import (
    is_applied_work,
    is_freed,
    marked_freed,
    owner_reference,
    owners,
    unfreed,
    with_owners,
    without_owner,
)
from webhook.member.store.ports import MemberStore


async def recreated(
    error: AppliedWorkDeletingError, work: JsonObject, hub: Store, member: MemberStore, us: HubMember, now: datetime
) -> tuple[JsonObject, JsonObject]:
    """Free an AppliedWork that another client deletes while its Work exists.

    Its objects are marked, and listed in the Work's status, so that a later pass can adopt them (`adopt_freed`). This
    may stop at any point, and no object is collected in the meantime, because it has no owner.

    Returns:
        The Work, and the new AppliedWork.

    Raises:
        AppliedWorkDeletingError: The AppliedWork is not ours, or another finalizer still keeps it.
        StoreError: The hub or the member did not respond.
    """
    live_applied_work = error.found
    if not may_free(live_applied_work, us):
        raise error
    # The Work's status first: the list in the AppliedWork is deleted with it. Without any list, the freed objects would
    # be lost.
    work = await remember(work, live_applied_work, hub, now)
    await free(live_applied_work, recorded(work, live_applied_work, compared=True), member, us)
    metadata = work["metadata"]
    return work, await applied_work(Key(metadata["name"], metadata["namespace"]), member, us)


async def adopt_freed(
    work: JsonObject, owner: JsonObject | None, member: MemberStore, us: HubMember
) -> JsonObject | None:
    """Make the AppliedWork of a Work the owner of objects freed from an earlier one, and create it if needed.

    Call it while the AppliedWork records no objects, and when the Work is deleted. In the latter case, the freed
    objects are deleted with the AppliedWork, or are released like the others.

    Args:
        work: The Work, or its last state.
        owner: AppliedWork of the Work. None if it does not exist.
        member: Store of the objects.
        us: The identity of this member.

    Returns:
        The AppliedWork. None if it does not exist and no object was freed.

    Raises:
        StoreError: The member did not respond.
    """
    about = work["metadata"]
    for identity, kind in await served_kinds(recorded(work, owner, compared=True), member):

        async def adopt(live: JsonObject, kind: Kind = kind) -> None:
            nonlocal owner
            if not is_freed(live, about["name"], us):
                return
            owner = owner or await applied_work(Key(about["name"], about["namespace"]), member, us)
            references = owners(live)
            ours = [] if any(map(is_applied_work, references)) else [owner_reference(owner)]
            await member.replace(kind, unfreed(with_owners(live, [*references, *ours])))

        with suppress(ForbiddenError):
            await on_latest(kind, Key(identity.name, identity.namespace), member, adopt)
    return owner


def may_free(applied_work: JsonObject, us: HubMember) -> bool:
    """Return whether an AppliedWork has our finalizer, and does not belong to another member."""
    has_cleanup = APPLIED_WORK_CLEANUP in finalizers_of(applied_work)
    return has_cleanup and ownership_of(applied_work, us) is not AppliedWorkOwnership.ANOTHERS


def group_names(groups: Iterable[str]) -> str:
    """Return the names of API groups for a message. The core group has none."""
    return ", ".join(sorted(group or "core" for group in groups))


async def free(
    applied_work: JsonObject, identities: Iterable[ManifestIdentity], member: MemberStore, us: HubMember | None = None
) -> None:
    """Remove an AppliedWork from the owners of its objects, then remove our finalizer from it.

    In this order: without our finalizer, the garbage collector deletes every object that still refers to it.

    Args:
        applied_work: An AppliedWork that another client deletes.
        identities: Objects of the AppliedWork, which remain without an owner.
        member: Store of the objects.
        us: Identity for the mark by which the next AppliedWork of this member adopts the objects. None: unset.

    Raises:
        StoreError: The member refused a request or did not respond, or could not discover the API group of an object.
    """
    name, uid = applied_work["metadata"]["name"], applied_work["metadata"]["uid"]
    owned_identities = list(identities)
    # Kinds that discovery does not list count as deleted with their objects, except in a group that did not answer.
    if unknown := {identity.group for identity in owned_identities} & member.served.silent:
        raise StoreError(f"AppliedWork {name} is kept: discovery failed on the member for {group_names(unknown)}")
    for identity, kind in await served_kinds(owned_identities, member):

        async def change(live: JsonObject, kind: Kind = kind) -> None:
            if (without_us := without_owner(live, name)) is not None:
                await member.replace(kind, without_us if us is None else marked_freed(without_us, name, us))

        try:
            await on_latest(kind, Key(identity.name, identity.namespace), member, change)
        except ForbiddenError:
            if identity in written_down(applied_work):  # otherwise it may never have been applied
                raise

    async def let_go(live: JsonObject) -> None:
        if (without_cleanup := without_finalizer(live, APPLIED_WORK_CLEANUP)) is not None and live["metadata"][
            "uid"
        ] == uid:
            await member.replace(APPLIED_WORK, without_cleanup)

    await on_latest(APPLIED_WORK, Key(name), member, let_go)
