"""Handover: which other Work of the same binding now holds an object that a Work dropped.

A placement that outgrows one snapshot is split into several, each with its own Work, and the sizes of the objects
decide where it is split: an object that grows pushes others into the next Work. On the member such an object changes
its owner; deleted and created again, it would lose what only the member has of it (the data of a volume, the objects of
a definition).

The loop stores the Works of a new snapshot before it deletes those that the snapshot does not need. So when a Work has
left-overs, and all other Works are of the same snapshot, their manifests tell which left-overs are still wanted.

A Work holds what its manifests name, even where it cannot apply them or only compares, just as its own objects do not
become left-overs then. The placement still selects them, and they go with the Work that holds them.
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
    """The other Works of a binding that stay.

    Args:
        holders: Object to the name of the Work that holds it.
        unsettled: Some are of another snapshot, so it is not known yet which objects they will hold.
    """

    holders: Mapping[ManifestIdentity, str] = field(default_factory=dict)
    unsettled: bool = False


NO_SIBLING_WORKS: Final = SiblingWorks()


async def sibling_works(work: JsonObject, hub: Store, member: MemberStore) -> SiblingWorks:
    """Ask the hub for the other Works of a Work's binding.

    Raises:
        StoreError: The hub does not answer.
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


async def owner_after(heir: str, member: MemberStore, us: HubMember) -> JsonObject | None:
    """Return the owner reference to the AppliedWork of the Work *heir*; None when there is none of ours that stays.

    Raises:
        StoreError: The member does not answer.
    """
    try:
        applied_work = await member.get(APPLIED_WORK, Key(heir))
    except NotFoundError:
        return None
    return None if is_deleting(applied_work) or not is_owned_by(applied_work, us) else owner_reference(applied_work)


async def written_at(owner: JsonObject, identity: ManifestIdentity, member: MemberStore) -> bool:
    """Enter an object in the books of the AppliedWork that is to own it; False: that is being deleted, or was replaced.

    An object that is missing from the books would be deleted with its owner, even if it is marked to stay.

    Raises:
        StoreError: The member does not answer.
    """
    written = False

    async def change(live: JsonObject) -> None:
        nonlocal written
        # The uid: an AppliedWork of the same name that was created since is not the one that the object refers to.
        if is_deleting(live) or live["metadata"]["uid"] != owner["uid"]:
            return
        if identity not in written_down(live):
            await member.replace_status(APPLIED_WORK, with_resource(live, identity))
        written = True

    await on_latest(APPLIED_WORK, Key(owner["name"]), member, change)
    return written
