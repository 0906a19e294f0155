"""Handover: the other Work of the same binding that now holds an object that a Work dropped.

A placement that outgrows one snapshot is split into several, each with its own Work. The sizes of the objects determine
the split: an object that grows moves others into the next Work. On the member such an object changes its owner.
Deleting and recreating it would lose state that only the member has (the data of a volume, the objects of a
definition).

Example: Work 0 holds ConfigMap ``a`` and PersistentVolumeClaim ``data``. ``a`` grows, so that ``data`` moves to Work 1.
Work 0 sees ``data`` as a left-over. Its owner changes to the AppliedWork of Work 1, and the volume is kept.

The loop stores the Works of a new snapshot before it deletes unneeded ones. If a Work has left-overs, and all other
Works are of the same snapshot, their manifests therefore show which left-overs are still needed.

A Work holds all objects that its manifests name, even those that it cannot apply or only compares. Those do not become
left-overs either. The placement still selects them, and they are removed with the Work that holds them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from scorer.api.kinds import APPLIED_WORK, WORK
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_BINDING, PARENT_PLACEMENT, PARENT_RESOURCE_SNAPSHOT_NAME
from scorer.api.unstructured.documents import annotation, is_deleting, label, manifests_of, name_of, namespace_of
from scorer.membership.identity import HubMember, is_owned_by
from webhook.kube.ports import Key, NotFoundError, Store
from webhook.member.objects.ledger import on_latest, with_resource, written_down
from webhook.member.objects.manifests import ManifestIdentity, ManifestKinds, decode
from webhook.member.objects.owner_references import owner_reference
from webhook.member.store.ports import MemberStore


@dataclass(frozen=True, slots=True)
class SiblingWorks:
    """The remaining other Works of a binding.

    Args:
        holders: Name of the Work that holds each object.
        unsettled: Whether some Works are of another snapshot, so that their next objects are not known yet.
    """

    holders: Mapping[ManifestIdentity, str] = field(default_factory=dict)
    unsettled: bool = False


NO_SIBLING_WORKS: Final = SiblingWorks()


async def sibling_works(work: JsonObject, hub: Store, member: MemberStore) -> SiblingWorks:
    """Read the other Works of a Work's binding from the hub.

    Raises:
        StoreError: The hub does not respond.
    """
    labels = {name: label(work, name) for name in (PARENT_BINDING, PARENT_PLACEMENT)}
    if not all(labels.values()):  # not written by the loop
        return NO_SIBLING_WORKS
    holders: dict[ManifestIdentity, str] = {}
    unsettled, kinds = False, ManifestKinds(member.served.kinds)
    for other in (await hub.list(WORK, namespace_of(work), labels)).items:
        if name_of(other) == name_of(work) or is_deleting(other):
            continue
        of_another = annotation(other, PARENT_RESOURCE_SNAPSHOT_NAME) != annotation(work, PARENT_RESOURCE_SNAPSHOT_NAME)
        unsettled = unsettled or of_another
        holders |= {item.identity: name_of(other) for item in decode(manifests_of(other), kinds)}
    return SiblingWorks(holders, unsettled)


async def owner_after(successor: str, member: MemberStore, us: HubMember) -> JsonObject | None:
    """Return the owner reference to the AppliedWork of *successor*.

    None: unknown, because the AppliedWork is missing, not ours or being deleted.

    Raises:
        StoreError: The member does not respond.
    """
    try:
        applied_work = await member.get(APPLIED_WORK, Key(successor))
    except NotFoundError:
        return None
    return None if is_deleting(applied_work) or not is_owned_by(applied_work, us) else owner_reference(applied_work)


async def written_at(owner: JsonObject, identity: ManifestIdentity, member: MemberStore) -> bool:
    """Record an object in the AppliedWork that will own it, and return whether it is recorded.

    Return False if that AppliedWork is missing, is being deleted or was recreated.

    An unrecorded object would be deleted with its owner, even if it is marked to be kept.

    Raises:
        StoreError: The member does not respond.
    """
    is_recorded = False

    async def change(live: JsonObject) -> None:
        nonlocal is_recorded
        # The uid: a recreated AppliedWork of the same name is not the one that the object refers to.
        if is_deleting(live) or live["metadata"]["uid"] != owner["uid"]:
            return
        if identity not in written_down(live):
            await member.replace_status(APPLIED_WORK, with_resource(live, identity))
        is_recorded = True

    await on_latest(APPLIED_WORK, Key(owner["name"]), member, change)
    return is_recorded
