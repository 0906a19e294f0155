"""The ledger: which objects of a Work may be on the member, and which are.

The Work's status lists the objects that were applied or were about to be; the AppliedWork on the member lists those
that it owns. Either list leads to an object that an earlier pass put there and the Work no longer holds.

Source: rollout.md 11.1 to 11.3; KubeFleet pkg/controllers/workapplier/preprocess.go.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from scorer.api.conditions import FALSE, make_condition
from scorer.api.kinds import APPLIED_WORK, CUSTOM_RESOURCE_DEFINITION, WORK, Kind, group_kind, split_api_version
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import list_at, status_of
from scorer.rollout.works.status import ManifestReason
from webhook.kube.ports import ConflictError, Key, NotFoundError, Store
from webhook.member.objects.manifests import (
    Manifest,
    ManifestIdentity,
    ManifestKinds,
    RejectedManifest,
    kinds_of,
    manifest_result,
)
from webhook.member.store.ports import MemberStore

ATTEMPTS: Final = 4
"""How often a read and write is attempted when other clients write the same object between the two."""


async def discover_kinds(member: MemberStore, manifests: Sequence[object], *, applies: bool) -> ManifestKinds:
    """Return the kinds that *manifests* may be of; discovery runs once more when it does not know one of them.

    Args:
        member: The member that serves them.
        manifests: As in the Work.
        applies: Whether the manifests are applied: then the kinds that definitions among them define count, too.
    """
    definitions = [
        manifest
        for manifest in manifests
        if isinstance(manifest, Mapping) and group_kind(manifest) == CUSTOM_RESOURCE_DEFINITION.group_kind
    ]
    new_kinds = kinds_of(definitions) if applies else {}
    kinds = ManifestKinds(member.served.kinds)
    for manifest in manifests:
        if isinstance(manifest, Mapping) and kinds.find(*group_kind(manifest), _version(manifest)) is None:
            await member.served.refresh()
            break
    return ManifestKinds(member.served.kinds, new_kinds)


def _version(manifest: Mapping[str, Any]) -> str:
    return split_api_version(str(manifest.get("apiVersion", "")))[1]


def _identity(identifier: Mapping[str, Any]) -> ManifestIdentity | None:
    """Return the object that a status entry is about, None where it could not be read from the manifest."""
    group, kind, namespace, name = (str(identifier.get(field) or "") for field in ManifestIdentity._fields)
    return ManifestIdentity(group, kind, namespace, name) if kind and name else None


def recorded(work: JsonObject, owner: JsonObject | None, *, compared: bool = False) -> list[ManifestIdentity]:
    """Return what earlier passes may have put on the member, according to the Work and the AppliedWork.

    Objects that could not be applied count, too: the failure may have come after the write. Only its owner references
    tell whether an object is really there, and ours.

    Args:
        work: The Work, or its last state.
        owner: Its AppliedWork, if there is one.
        compared: Include objects that were only compared. Such an object is no left-over when its Work drops it; but
            releases up to 0.1.0 took objects over before they compared them, and such an object would be collected
            with its owner.
    """
    identifiers = [
        entry.get("identifier") or {}
        for entry in list_at(work, "status", "manifestConditions")
        if compared or _was_applied(entry)
    ]
    if owner is not None:
        identifiers += list_at(owner, "status", "appliedResources")
    return sorted({identity for identifier in identifiers if (identity := _identity(identifier))})


def written_down(owner: JsonObject) -> list[ManifestIdentity]:
    """Return the objects that an AppliedWork lists as its own."""
    entries = list_at(owner, "status", "appliedResources")
    return sorted({identity for entry in entries if (identity := _identity(entry))})


def with_resource(owner: JsonObject, identity: ManifestIdentity) -> JsonObject:
    """Return an AppliedWork that lists one more object as its own."""
    entries = list_at(owner, "status", "appliedResources")
    return {**owner, "status": {"appliedResources": [*entries, _resource(identity, len(entries))]}}


def _resource(identity: ManifestIdentity, ordinal: int) -> JsonObject:
    return {"ordinal": ordinal, **{name: text for name, text in identity._asdict().items() if text}}


def _was_applied(entry: Mapping[str, Any]) -> bool:
    """Say whether an entry of the Work's status is about applying, not just comparing."""
    return any(condition.get("type") == "Applied" for condition in entry.get("conditions") or ())


async def still_answers(member: MemberStore, owner: JsonObject) -> None:
    """Tell the failure of one object (a webhook on the member fails, say) from a member that is unreachable.

    Raises:
        StoreError: The member cannot even return the AppliedWork: nothing is known about any object.
    """
    await member.get(APPLIED_WORK, Key(owner["metadata"]["name"]))


async def served_kinds(
    identities: Sequence[ManifestIdentity], member: MemberStore
) -> list[tuple[ManifestIdentity, Kind]]:
    """Return the objects whose kinds the member serves; the others went with their definitions."""
    if any((identity.group, identity.kind) not in member.served.kinds for identity in identities):
        await member.served.refresh()
    kinds = member.served.kinds
    return [
        (identity, kinds[identity.group, identity.kind])
        for identity in identities
        if (identity.group, identity.kind) in kinds
    ]


def unanswered(owner: JsonObject, member: MemberStore) -> list[ManifestIdentity]:
    """Return the objects of an AppliedWork whose kind is unknown because its group did not answer discovery.

    Call it after `served_kinds`. An agent that was started while the server of a group is down knows none of its kinds.
    """
    silent, kinds = member.served.silent, member.served.kinds
    return [entry for entry in written_down(owner) if entry.group in silent and (entry.group, entry.kind) not in kinds]


async def on_latest(kind: Kind, key: Key, member: Store, change: Callable[[JsonObject], Awaitable[None]]) -> None:
    """Run *change* on the latest version of an object; retry when another client wrote in between; skip a missing one.

    *change* decides and writes by the version that it is given, so what it decides holds for what it overwrites.
    """
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
    work: JsonObject, items: Sequence[Manifest | RejectedManifest], hub: Store, now: datetime
) -> JsonObject:
    """Record in the Work's status which objects are about to be applied for the first time, before any of them is.

    After a crash in between, the next pass knows what this one may have left on the member.
    """
    manifests = [item for item in items if isinstance(item, Manifest)]
    identifiers = [manifest_result(item, ManifestReason.PREPARING_TO_PROCESS, "").identifier() for item in manifests]
    return await _announced(work, identifiers, hub, now)


async def remember(work: JsonObject, owner: JsonObject, hub: Store, now: datetime) -> JsonObject:
    """Copy into the Work's status the objects that only its AppliedWork lists, before the AppliedWork goes."""
    previous = list_at(owner, "status", "appliedResources")
    identifiers = [{name: value for name, value in entry.items() if name != "uid"} for entry in previous]
    return await _announced(work, identifiers, hub, now)


async def _announced(work: JsonObject, identifiers: Iterable[JsonObject], hub: Store, now: datetime) -> JsonObject:
    """Return the Work with all of the objects listed as possibly applied; write its status if some were missing."""
    status = status_of(work)
    entries = status.get("manifestConditions") or ()
    identities = {_identity(entry.get("identifier") or {}) for entry in entries if _was_applied(entry)}
    new = {
        identity: identifier
        for identifier in identifiers
        if (identity := _identity(identifier)) and identity not in identities
    }
    if not new:
        return work
    remaining = [entry for entry in entries if _identity(entry.get("identifier") or {}) not in new]
    condition = make_condition(
        "Applied", FALSE, ManifestReason.PREPARING_TO_PROCESS, "about to be applied", generation=0, now=now
    )
    added = [{"identifier": identifier, "conditions": [condition]} for identifier in new.values()]
    status = {"conditions": [], **status, "manifestConditions": [*remaining, *added]}
    return await hub.replace_status(WORK, {**work, "status": status})


async def record(
    owner: JsonObject,
    items: Sequence[Manifest | RejectedManifest],
    live: Mapping[ManifestIdentity, JsonObject],
    refusals: Iterable[ManifestIdentity],
    member: MemberStore,
) -> None:
    """Write into the AppliedWork which objects it owns; an object that failed this time keeps its entry.

    Args:
        owner: The AppliedWork as read at the start of the pass.
        items: The manifests of the Work.
        live: The objects that were applied in this pass.
        refusals: Left-overs that are still there.
        member: Where the AppliedWork is.

    Raises:
        ConflictError: The AppliedWork has changed since: another Work may have handed an object over to it.
    """
    before = {_identity(entry): entry for entry in list_at(owner, "status", "appliedResources")}
    resources = []
    for item in items:
        document = live.get(item.identity)
        if isinstance(item, Manifest) and document is not None:
            identifier = manifest_result(item, ManifestReason.APPLIED, "").identifier()
            resources.append({**identifier, "uid": document["metadata"].get("uid", "")})
        elif (entry := before.get(item.identity)) is not None and not _listed(item, items):
            resources.append(entry)
    resources.extend(before.get(identity) or _resource(identity, len(items)) for identity in refusals)
    status = {"appliedResources": resources}
    if status != (owner.get("status") or {"appliedResources": []}):
        # Over the version read at the start, not the latest: this list does not have what was handed over meanwhile,
        # and an object that the books forget is deleted with its owner, even one that is to stay.
        await member.replace_status(APPLIED_WORK, {**owner, "status": status})


def _listed(item: Manifest | RejectedManifest, items: Sequence[Manifest | RejectedManifest]) -> bool:
    """Say whether *item* repeats another manifest."""
    return isinstance(item, RejectedManifest) and any(
        isinstance(other, Manifest) and other.identity == item.identity for other in items
    )
