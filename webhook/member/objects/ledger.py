"""The ledger of a Work's objects that are or may be on the member.

The Work's status lists the objects that were applied or were about to be. The AppliedWork on the member lists those
that it owns. Either list finds an object that an earlier pass applied and that the Work no longer holds.

Source: docs/specifications/rollout.md 11.1 to 11.3; KubeFleet pkg/controllers/workapplier/preprocess.go.
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
"""Attempts of a read and write while other clients write the same object."""


async def discover_kinds(member: MemberStore, manifests: Sequence[object], *, applies: bool) -> ManifestKinds:
    """Return the kinds of *manifests*. Discovery is refreshed once if it lacks one of them.

    Args:
        member: The member that serves them.
        manifests: Manifests of the Work.
        applies: Whether the manifests will be applied. If so, the kinds that CustomResourceDefinitions among them
            define are included, too.

    Raises:
        StoreError: Discovery failed.
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
    """Return the object of a status entry, or None if the manifest did not identify it."""
    group, kind, namespace, name = (str(identifier.get(field) or "") for field in ManifestIdentity._fields)
    return ManifestIdentity(group, kind, namespace, name) if kind and name else None


def recorded(work: JsonObject, owner: JsonObject | None, *, compared: bool = False) -> list[ManifestIdentity]:
    """Return objects that earlier passes may have applied, according to the Work and the AppliedWork.

    Objects that could not be applied count, too: the failure may have come after the write. Only the owner references
    of an object show whether it exists and is ours.

    Args:
        work: The Work, or its last state.
        owner: AppliedWork of the Work, if it exists.
        compared: Whether to include objects that were only compared. Such an object is not a left-over when its Work
            drops it. However, releases up to 0.1.0 took objects over before they compared them, and such an object
            would be collected with its owner.
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
    """Return whether an entry of the Work's status comes from an apply, not only from a comparison."""
    return any(condition.get("type") == "Applied" for condition in entry.get("conditions") or ())


async def still_answers(member: MemberStore, owner: JsonObject) -> None:
    """Check that the member is reachable after a failure of one object, for example of a webhook on the member.

    Raises:
        StoreError: The member cannot even return the AppliedWork, so the state of all objects is unknown.
    """
    await member.get(APPLIED_WORK, Key(owner["metadata"]["name"]))


async def served_kinds(
    identities: Sequence[ManifestIdentity], member: MemberStore
) -> list[tuple[ManifestIdentity, Kind]]:
    """Return the objects whose kinds the member serves. Discovery is refreshed once if it lacks one of them.

    The others were deleted with their definitions, or their group failed discovery (`unanswered`).

    Raises:
        StoreError: Discovery failed.
    """
    if any((identity.group, identity.kind) not in member.served.kinds for identity in identities):
        await member.served.refresh()
    kinds = member.served.kinds
    return [
        (identity, kinds[identity.group, identity.kind])
        for identity in identities
        if (identity.group, identity.kind) in kinds
    ]


def unanswered(owner: JsonObject, member: MemberStore) -> list[ManifestIdentity]:
    """Return the objects of an AppliedWork whose kind is unknown because its group failed discovery.

    Call it after `served_kinds`. An agent that starts during an outage of a group's server knows none of its kinds.
    """
    silent, kinds = member.served.silent, member.served.kinds
    return [entry for entry in written_down(owner) if entry.group in silent and (entry.group, entry.kind) not in kinds]


async def on_latest(kind: Kind, key: Key, member: Store, change: Callable[[JsonObject], Awaitable[None]]) -> None:
    """Run *change* on the latest version of an object. Retry after a concurrent write, and skip a missing object.

    *change* decides and writes at the version that it gets, so its decision is valid for the version that it
    overwrites.

    Raises:
        ConflictError: Other clients wrote the object during every attempt.
        StoreError: The member did not respond.
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
    """Record in the Work's status which objects are about to be applied for the first time.

    After a crash, the next pass knows which objects this pass may have left on the member.

    Raises:
        StoreError: The hub did not respond, or another client has written the Work since it was read.
    """
    manifests = [item for item in items if isinstance(item, Manifest)]
    identifiers = [manifest_result(item, ManifestReason.PREPARING_TO_PROCESS, "").identifier() for item in manifests]
    return await _announced(work, identifiers, hub, now)


async def remember(work: JsonObject, owner: JsonObject, hub: Store, now: datetime) -> JsonObject:
    """Add the objects that only the AppliedWork lists to the Work's status, before the AppliedWork is deleted.

    Raises:
        StoreError: The hub did not respond, or another client has written the Work since it was read.
    """
    previous = list_at(owner, "status", "appliedResources")
    identifiers = [{name: value for name, value in entry.items() if name != "uid"} for entry in previous]
    return await _announced(work, identifiers, hub, now)


async def _announced(work: JsonObject, identifiers: Iterable[JsonObject], hub: Store, now: datetime) -> JsonObject:
    """Return the Work with all of the objects listed as possibly applied, after writing missing ones."""
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
    """List the owned objects in the status of the AppliedWork. An object that failed in this pass keeps its entry.

    Args:
        owner: The AppliedWork as read at the start of the pass.
        items: The manifests of the Work.
        live: The objects that were applied in this pass.
        refusals: Left-overs that still exist.
        member: Store of the AppliedWork.

    Raises:
        ConflictError: The AppliedWork has changed since it was read: another Work may have handed an object over to it.
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
        # At the version read at the start, not the latest: this list lacks objects that were handed over since. An
        # object that is missing from the list is deleted with its owner, even if it must be kept.
        await member.replace_status(APPLIED_WORK, {**owner, "status": status})


def _listed(item: Manifest | RejectedManifest, items: Sequence[Manifest | RejectedManifest]) -> bool:
    """Return whether *item* was rejected although another of *items* holds the same object."""
    return isinstance(item, RejectedManifest) and any(
        isinstance(other, Manifest) and other.identity == item.identity for other in items
    )
