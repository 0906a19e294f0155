"""What is written down about a Work's objects: what may be on the member, and what is.

The Work's status lists what was applied or was about to be; the AppliedWork on the member lists what
is its own. An object that an earlier pass put there and the Work no longer holds is found by either.

Source: rollout.md 11.1 to 11.3; KubeFleet pkg/controllers/workapplier/preprocess.go.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from scorer.api.conditions import FALSE, make_condition
from scorer.api.documents import list_at, status_of
from scorer.api.kinds import APPLIED_WORK, CUSTOM_RESOURCE_DEFINITION, WORK, Kind, group_kind, split_api_version
from scorer.api.meta import JsonObject
from scorer.rollout.work_status import ManifestReason
from webhook.kube.ports import ConflictError, Key, NotFoundError, Store
from webhook.member.manifests import (
    Identity,
    KnownKinds,
    Manifest,
    Rejected,
    kinds_of,
    manifest_result,
)
from webhook.member.ports import MemberStore

ATTEMPTS: Final = 4
"""How often an object is read again when somebody else wrote it in the same moment."""


async def known_kinds(member: MemberStore, manifests: Sequence[object], *, applies: bool) -> KnownKinds:
    """Return the kinds that *manifests* may be of; the member is asked once when it does not seem to know one.

    Args:
        member: Whose kinds they are.
        manifests: As in the Work.
        applies: What a definition among them defines will be there when its objects are applied.
    """
    definitions = [
        manifest
        for manifest in manifests
        if isinstance(manifest, Mapping) and group_kind(manifest) == CUSTOM_RESOURCE_DEFINITION.group_kind
    ]
    coming = kinds_of(definitions) if applies else {}
    served = KnownKinds(member.served.kinds)
    for manifest in manifests:
        if isinstance(manifest, Mapping) and served.find(*group_kind(manifest), _version(manifest)) is None:
            await member.served.refresh()
            break
    return KnownKinds(member.served.kinds, coming)


def _version(manifest: Mapping[str, Any]) -> str:
    return split_api_version(str(manifest.get("apiVersion", "")))[1]


def _identity(identifier: Mapping[str, Any]) -> Identity | None:
    """Return the object that an entry of a status is about, None where it could not be read from the manifest."""
    group, kind, namespace, name = (str(identifier.get(field) or "") for field in Identity._fields)
    return Identity(group, kind, namespace, name) if kind and name else None


def recorded(work: JsonObject, owner: JsonObject | None, *, compared: bool = False) -> list[Identity]:
    """Return what earlier passes may have put on the member, as the Work and the AppliedWork remember it.

    What failed to be applied counts, too: the failure may have come after the write. Whether an object is
    really there, and ours, is for its owner references to say.

    Args:
        work: As it is, or was last.
        owner: Its AppliedWork, if there is one.
        compared: Also what was only compared. That is no left-over when its Work holds it no longer; but comparing
            takes over where it may, and then it would go with its owner.
    """
    identifiers = [
        entry.get("identifier") or {}
        for entry in list_at(work, "status", "manifestConditions")
        if compared or _was_applied(entry)
    ]
    if owner is not None:
        identifiers += list_at(owner, "status", "appliedResources")
    return sorted({identity for identifier in identifiers if (identity := _identity(identifier))})


def written_down(owner: JsonObject) -> list[Identity]:
    """Return what an AppliedWork says to own."""
    entries = list_at(owner, "status", "appliedResources")
    return sorted({identity for entry in entries if (identity := _identity(entry))})


def with_resource(owner: JsonObject, identity: Identity) -> JsonObject:
    """Return an AppliedWork that says to own an object more."""
    entries = list_at(owner, "status", "appliedResources")
    return {**owner, "status": {"appliedResources": [*entries, _resource(identity, len(entries))]}}


def _resource(identity: Identity, ordinal: int) -> JsonObject:
    return {"ordinal": ordinal, **{name: text for name, text in identity._asdict().items() if text}}


def _was_applied(entry: Mapping[str, Any]) -> bool:
    """Say whether an entry of the Work's status is about applying, not only about comparing."""
    return any(condition.get("type") == "Applied" for condition in entry.get("conditions") or ())


async def still_answers(member: MemberStore, owner: JsonObject) -> None:
    """Tell what went wrong with one object (a webhook of the member fails, say) from a member that is not there.

    Raises:
        StoreError: The member does not even answer for the AppliedWork: nothing can be said about any object.
    """
    await member.get(APPLIED_WORK, Key(owner["metadata"]["name"]))


async def served_kinds(identities: Sequence[Identity], member: MemberStore) -> list[tuple[Identity, Kind]]:
    """Return the objects whose kinds the member serves; with its definition an object has gone, too."""
    if any((identity.group, identity.kind) not in member.served.kinds for identity in identities):
        await member.served.refresh()
    known = member.served.kinds
    return [
        (identity, known[identity.group, identity.kind])
        for identity in identities
        if (identity.group, identity.kind) in known
    ]


async def on_latest(kind: Kind, key: Key, member: Store, change: Callable[[JsonObject], Awaitable[None]]) -> None:
    """Do *change* to an object as it is now, again when somebody wrote it meanwhile; nothing when it is gone."""
    for attempt in range(ATTEMPTS):
        try:
            await change(await member.get(kind, key))
        except NotFoundError:
            return
        except ConflictError:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return


async def write_ahead(
    work: JsonObject, decoded: Sequence[Manifest | Rejected], hub: Store, now: datetime
) -> JsonObject:
    """Write down which objects are about to be applied for the first time, before any of them is.

    After a crash in between, the next pass then knows what it may have left on the member.
    """
    coming = [item for item in decoded if isinstance(item, Manifest)]
    identifiers = [manifest_result(item, ManifestReason.PREPARING_TO_PROCESS, "").identifier() for item in coming]
    return await _announced(work, identifiers, hub, now)


async def remember(work: JsonObject, owner: JsonObject, hub: Store, now: datetime) -> JsonObject:
    """Write down at the Work what only its AppliedWork knows of, before that goes."""
    known = list_at(owner, "status", "appliedResources")
    identifiers = [{name: value for name, value in entry.items() if name != "uid"} for entry in known]
    return await _announced(work, identifiers, hub, now)


async def _announced(work: JsonObject, identifiers: Iterable[JsonObject], hub: Store, now: datetime) -> JsonObject:
    """Return the Work with those of the objects written down as possibly applied that were not yet."""
    status = status_of(work)
    entries = status.get("manifestConditions") or ()
    known = {_identity(entry.get("identifier") or {}) for entry in entries if _was_applied(entry)}
    new = {identity: each for each in identifiers if (identity := _identity(each)) and identity not in known}
    if not new:
        return work
    kept = [entry for entry in entries if _identity(entry.get("identifier") or {}) not in new]
    condition = make_condition(
        "Applied", FALSE, ManifestReason.PREPARING_TO_PROCESS, "about to be applied", generation=0, now=now
    )
    added = [{"identifier": identifier, "conditions": [condition]} for identifier in new.values()]
    status = {"conditions": [], **status, "manifestConditions": [*kept, *added]}
    return await hub.replace_status(WORK, {**work, "status": status})


async def record(
    owner: JsonObject,
    decoded: Sequence[Manifest | Rejected],
    live: Mapping[Identity, JsonObject],
    refused: Iterable[Identity],
    member: MemberStore,
) -> None:
    """Write into the AppliedWork which objects are its own; what failed this time keeps its entry.

    Args:
        owner: The AppliedWork as stored.
        decoded: The manifests of the Work.
        live: The objects that were applied in this pass.
        refused: Left-overs that are still there.
        member: Where the AppliedWork is.
    """
    before = {_identity(entry): entry for entry in list_at(owner, "status", "appliedResources")}
    resources = []
    for item in decoded:
        document = live.get(item.identity)
        if isinstance(item, Manifest) and document is not None:
            identifier = manifest_result(item, ManifestReason.APPLIED, "").identifier()
            resources.append({**identifier, "uid": document["metadata"].get("uid", "")})
        elif (entry := before.get(item.identity)) is not None and not _listed(item, decoded):
            resources.append(entry)
    resources.extend(before.get(identity) or _resource(identity, len(decoded)) for identity in refused)
    status = {"appliedResources": resources}
    if status != (owner.get("status") or {"appliedResources": []}):
        await member.replace_status(APPLIED_WORK, {**owner, "status": status})


def _listed(item: Manifest | Rejected, decoded: Sequence[Manifest | Rejected]) -> bool:
    """Say whether *item* is a repetition of another manifest."""
    return isinstance(item, Rejected) and any(
        isinstance(other, Manifest) and other.identity == item.identity for other in decoded
    )
