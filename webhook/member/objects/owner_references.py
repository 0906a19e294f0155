"""Owner references of objects on the member: AppliedWorks and other owners.

Source: docs/specifications/rollout.md 11.1 and 11.5.
"""

from collections.abc import Mapping
from typing import Any

from scorer.api.kinds import APPLIED_WORK, group_kind
from scorer.api.meta import JsonObject
from scorer.api.names import FREED, SPEC_HASH
from scorer.api.unstructured.documents import annotation, with_metadata
from scorer.membership.identity import HubMember


def owner_reference(applied_work: JsonObject) -> JsonObject:
    """Return the owner reference for every object that is applied for a Work."""
    return {
        "apiVersion": APPLIED_WORK.api_version,
        "kind": APPLIED_WORK.kind,
        "name": applied_work["metadata"]["name"],
        "uid": applied_work["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }


def owners(document: Mapping[str, Any]) -> list[JsonObject]:
    """Return the owner references of an object."""
    return list(document["metadata"].get("ownerReferences") or ())


def is_applied_work(owner: Mapping[str, Any]) -> bool:
    """Return whether an owner reference names an AppliedWork."""
    return group_kind(owner) == APPLIED_WORK.group_kind


def is_owned(document: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """Return whether *owner* is among the owners. A recreated AppliedWork is another owner."""
    return any(is_applied_work(reference) and reference["uid"] == owner["uid"] for reference in owners(document))


def with_owners(document: JsonObject, references: list[JsonObject]) -> JsonObject:
    """Return *document* with these owners and no others."""
    return {**document, "metadata": {**document["metadata"], "ownerReferences": references}}


def without_owner(document: JsonObject, name: str) -> JsonObject | None:
    """Return *document* without the owner references to AppliedWorks named *name*, or None if it has none of them."""
    others = [owner for owner in owners(document) if not (is_applied_work(owner) and owner["name"] == name)]
    return None if len(others) == len(owners(document)) else with_owners(document, others)


def was_compared(document: JsonObject, name: str) -> bool:
    """Return whether our AppliedWork *name* owns an object that it never applied.

    Releases up to 0.1.0 took objects over before they compared them. Both ways of applying write the hash of the
    manifest, so an object without it was only compared.
    """
    return without_owner(document, name) is not None and not annotation(document, SPEC_HASH)


def marked_freed(document: JsonObject, name: str, us: HubMember) -> JsonObject:
    """Return *document* marked as freed from our AppliedWork *name*, for adoption by the next one of that name."""
    return with_metadata(document, annotations={FREED: _mark(name, us)})


def is_freed(document: Mapping[str, Any], name: str, us: HubMember) -> bool:
    """Return whether an object is marked as freed from our AppliedWork *name*."""
    return annotation(document, FREED) == _mark(name, us)


def unfreed(document: JsonObject) -> JsonObject:
    """Return *document* without the mark of `marked_freed`, or *document* itself if it is not marked."""
    return with_metadata(document, annotations={FREED: None}) if annotation(document, FREED) else document


def _mark(name: str, us: HubMember) -> str:
    return f"{us.hub}/{us.namespace}/{name}"


def unblocked(document: JsonObject, uid: str) -> JsonObject:
    """Return *document* changed so that it does not block the deletion of its owner *uid*.

    Return *document* itself if it does not block the deletion, or has no other owner.
    """
    references = owners(document)
    ours = [owner for owner in references if owner["uid"] == uid]
    if len(references) == len(ours) or not any(owner.get("blockOwnerDeletion") for owner in ours):
        return document
    freed = [{**owner, "blockOwnerDeletion": False} if owner["uid"] == uid else owner for owner in references]
    return with_owners(document, freed)
