"""What is written down about a Work's objects: what may be on the member, and what is.

The Work's status lists what was applied or was about to be; the AppliedWork on the member lists what
is its own. An object that an earlier pass put there and the Work no longer holds is found by either.

Source: rollout.md 11.1 to 11.3; KubeFleet pkg/controllers/workapplier/preprocess.go.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from scorer.api.conditions import FALSE, make_condition
from scorer.api.kinds import APPLIED_WORK, CUSTOM_RESOURCE_DEFINITION, KINDS, WORK, Kind
from scorer.api.meta import JsonObject
from scorer.rollout.work_status import ManifestReason
from webhook.kube.ports import Key, NotFoundError, Store, StoreError
from webhook.member.manifests import (
    FindKind,
    Identity,
    Manifest,
    Rejected,
    kinds_of,
    manifest_result,
)
from webhook.member.owners import is_applied_work, owners, with_owners


async def applied_work(key: Key, member: Store) -> JsonObject:
    """Return the AppliedWork that owns the Work's objects; make it when there is none.

    Raises:
        StoreError: That of an earlier Work of the same name is still on its way out.
    """
    try:
        found = await member.get(APPLIED_WORK, Key(key.name))
    except NotFoundError:
        document = {
            "apiVersion": APPLIED_WORK.api_version,
            "kind": APPLIED_WORK.kind,
            "metadata": {"name": key.name},
            "spec": {"workName": key.name, "workNamespace": key.namespace},
        }
        return await member.create(APPLIED_WORK, document)
    if found["metadata"].get("deletionTimestamp"):
        raise StoreError(f"AppliedWork {key.name} of an earlier Work is still being deleted on the member")
    return found


async def kinds(member: Store, manifests: Sequence[object]) -> FindKind:
    """Return the look-up of kinds; CustomResourceDefinitions are read only when something needs them.

    One that travels in the Work itself counts: it is applied in an earlier wave than its objects.
    """
    named = {_group_kind(manifest) for manifest in manifests}
    if named <= KINDS.keys():
        return lambda group, kind: KINDS.get((group, kind))
    return await _all_kinds(member, manifests)


async def _all_kinds(member: Store, manifests: Sequence[object] = ()) -> FindKind:
    stored = (await member.list(CUSTOM_RESOURCE_DEFINITION)).items
    coming = [
        manifest
        for manifest in manifests
        if isinstance(manifest, Mapping) and _group_kind(manifest) == CUSTOM_RESOURCE_DEFINITION.group_kind
    ]
    custom = kinds_of([*coming, *stored])
    return lambda group, kind: KINDS.get((group, kind)) or custom.get((group, kind))


def _group_kind(manifest: object) -> tuple[str, str]:
    if not isinstance(manifest, Mapping):
        return "", ""
    group, slash, _ = str(manifest.get("apiVersion")).rpartition("/")
    return group if slash else "", str(manifest.get("kind"))


def _identity(identifier: Mapping[str, Any]) -> Identity | None:
    """Return the object that an entry of a status is about, None where it could not be read from the manifest."""
    group, kind, namespace, name = (str(identifier.get(field) or "") for field in Identity._fields)
    return Identity(group, kind, namespace, name) if kind and name else None


def recorded(work: JsonObject, owner: JsonObject | None) -> list[Identity]:
    """Return what earlier passes may have put on the member, as the Work and the AppliedWork remember it.

    What failed to be applied counts, too: the failure may have come after the write. Whether an object is
    really there, and ours, is for its owner references to say.
    """
    identifiers = [
        entry.get("identifier") or {}
        for entry in (work.get("status") or {}).get("manifestConditions") or ()
        if _was_applied(entry)
    ]
    if owner is not None:
        identifiers += (owner.get("status") or {}).get("appliedResources") or ()
    return sorted({identity for identifier in identifiers if (identity := _identity(identifier))})


def _was_applied(entry: Mapping[str, Any]) -> bool:
    """Say whether an entry of the Work's status is about applying, not only about comparing."""
    return any(condition.get("type") == "Applied" for condition in entry.get("conditions") or ())


async def delete_left_overs(
    work: JsonObject,
    owner: JsonObject,
    decoded: Sequence[Manifest | Rejected],
    member: Store,
    find_kind: FindKind,
) -> None:
    """Delete what earlier passes applied and the Work no longer holds; what others own too is only let go."""
    wanted = {item.identity for item in decoded}
    left = [identity for identity in recorded(work, owner) if identity not in wanted]
    if not left:
        return
    find_kind = await find_all(left, find_kind, member)
    for identity in left:
        kind = find_kind(identity.group, identity.kind)
        if kind is not None:  # with its definition the object has gone too
            await let_go(kind, Key(identity.name, identity.namespace), owner, member, delete=True)


async def find_all(identities: Iterable[Identity], find_kind: FindKind, member: Store) -> FindKind:
    """Return a look-up that knows the kinds of all *identities*, as far as the member does."""
    unknown = any(find_kind(identity.group, identity.kind) is None for identity in identities)
    return await _all_kinds(member) if unknown else find_kind


async def let_go(kind: Kind, key: Key, owner: JsonObject, member: Store, *, delete: bool) -> None:
    """Take our owner reference off an object; with *delete*, delete it when nobody else owns it.

    An object that is gone or not ours is left alone.
    """
    try:
        live = await member.get(kind, key)
    except NotFoundError:
        return
    name, uid = owner["metadata"]["name"], live["metadata"].get("uid", "")
    others = [known for known in owners(live) if not (is_applied_work(known) and known["name"] == name)]
    if len(others) == len(owners(live)):
        return
    if delete and not others:
        try:
            await member.delete(kind, key, uid=uid)
        except NotFoundError:
            return
    else:
        await member.replace(kind, with_owners(live, others))


async def write_ahead(
    work: JsonObject, decoded: Sequence[Manifest | Rejected], hub: Store, now: datetime
) -> JsonObject:
    """Write down which objects are about to be applied for the first time, before any of them is.

    After a crash in between, the next pass then knows what it may have left on the member.
    """
    status = work.get("status") or {}
    entries = [entry for entry in status.get("manifestConditions") or () if _was_applied(entry)]
    known = {_identity(entry.get("identifier") or {}) for entry in entries}
    new = [item for item in decoded if isinstance(item, Manifest) and item.identity not in known]
    if not new:
        return work
    for item in new:
        condition = make_condition(
            "Applied", FALSE, ManifestReason.PREPARING_TO_PROCESS, "about to be applied", generation=0, now=now
        )
        identifier = manifest_result(item, ManifestReason.PREPARING_TO_PROCESS, "").identifier()
        entries.append({"identifier": identifier, "conditions": [condition]})
    status = {"conditions": [], **status, "manifestConditions": entries}
    return await hub.replace_status(WORK, {**work, "status": status})


async def record(
    owner: JsonObject, decoded: Sequence[Manifest | Rejected], live: Mapping[Identity, JsonObject], member: Store
) -> None:
    """Write into the AppliedWork which objects are its own; what failed this time keeps its entry.

    Args:
        owner: The AppliedWork as stored.
        decoded: The manifests of the Work.
        live: The objects that were applied in this pass.
        member: Where the AppliedWork is.
    """
    before = {_identity(entry): entry for entry in (owner.get("status") or {}).get("appliedResources") or ()}
    resources = []
    for item in decoded:
        document = live.get(item.identity)
        if isinstance(item, Manifest) and document is not None:
            identifier = manifest_result(item, ManifestReason.APPLIED, "").identifier()
            resources.append({**identifier, "uid": document["metadata"].get("uid", "")})
        elif (entry := before.get(item.identity)) is not None and not _listed(item, decoded):
            resources.append(entry)
    status = {"appliedResources": resources}
    if status != (owner.get("status") or {"appliedResources": []}):
        await member.replace_status(APPLIED_WORK, {**owner, "status": status})


def _listed(item: Manifest | Rejected, decoded: Sequence[Manifest | Rejected]) -> bool:
    """Say whether *item* is a repetition of another manifest."""
    return isinstance(item, Rejected) and any(
        isinstance(other, Manifest) and other.identity == item.identity for other in decoded
    )
