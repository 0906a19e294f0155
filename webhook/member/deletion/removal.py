"""The only module that deletes objects on a member, after `scorer.rollout.removal` has allowed it.

No other module of this package deletes: `tests.contracts.member_deletions`, a part of ``make lint``, checks that.

Source: docs/specifications/rollout.md 11.3, 18 and 20.
"""

import logging
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from scorer.api.event import Event
from scorer.api.kinds import APPLIED_WORK, CUSTOM_RESOURCE_DEFINITION, NAMESPACE, Kind
from scorer.api.meta import JsonObject, parse_time
from scorer.api.names import APPLIED_WORK_CLEANUP, KEEP, LEFT_OUT, RELEASE
from scorer.api.unstructured.documents import annotation, finalizers_of, is_deleting, with_metadata, without_finalizer
from scorer.membership.identity import HubMember, is_owned_by
from scorer.rollout.apply_strategy import reports_diff
from scorer.rollout.object_size import ObjectIdentity, parse_left_out
from scorer.rollout.removal.marks import RemovalAction, RemovalFacts, has_hub_signature, is_marked, removal_action
from scorer.rollout.selection.exclusions import MemberLimits
from webhook.kube.ports import ForbiddenError, Key, NotFoundError, Store, StoreError, UnavailableError
from webhook.member.deletion.blocking_finalizers import left_over_obstacles
from webhook.member.deletion.crds import Definitions, is_definition
from webhook.member.deletion.handover import NO_SIBLING_WORKS, SiblingWorks, owner_after, sibling_works, written_at
from webhook.member.deletion.orphans import adopt_freed, group_names
from webhook.member.objects.finalizers import without_own_finalizers
from webhook.member.objects.ledger import on_latest, recorded, served_kinds, still_answers, unanswered, written_down
from webhook.member.objects.manifests import DEFAULT_LIMITS, Manifest, ManifestIdentity, RejectedManifest, limits_of
from webhook.member.objects.owner_references import (
    is_applied_work,
    owners,
    unblocked,
    was_compared,
    with_owners,
    without_owner,
)
from webhook.member.store.events import record_event
from webhook.member.store.ports import MemberStore

STUCK_AFTER: Final = timedelta(minutes=5)
"""Grace period before objects with other owners no longer block the deletion of an AppliedWork (rollout.md 20)."""

OBJECTS_RELEASED: Final = "ObjectsReleased"
_MOST_NAMED: Final = 10
"""Maximum number of objects that the Event names."""

_log = logging.getLogger(__name__)


class LeftOvers(NamedTuple):
    """Objects on the member that a Work no longer holds.

    Args:
        remaining: Objects to retry in the next pass: the member refused, the Work is not signed, the object is left
            out, another Work may be about to hold it, or it is being deleted.
        deleting: Whether some objects are being deleted.
        obstacles: Obstacles to deletions that have lasted for a minute. Empty: none.
    """

    remaining: list[ManifestIdentity]
    deleting: bool = False
    obstacles: str = ""


async def remove_left_overs(
    work: JsonObject,
    owner: JsonObject,
    items: Sequence[Manifest | RejectedManifest],
    hub: Store,
    member: MemberStore,
    us: HubMember,
    now: datetime,
    limits: MemberLimits = DEFAULT_LIMITS,
) -> LeftOvers:
    """Remove applied objects that the Work no longer holds. Objects with other owners are released.

    An object that another Work of the same binding now holds is handed over to that Work. An object that an earlier
    agent applied and that this agent must not touch is released, even if the Work still holds it. An object that the
    hub left out of the Work only because it is too large is kept. An object that belongs to the cluster is released.

    Raises:
        StoreError: The hub or the member does not respond.
    """
    desired = {item.identity for item in items}
    recorded_objects = recorded(work, owner)
    await _let_go_of_untouchable(recorded_objects, owner, member, us, limits)
    left_overs = [identity for identity in recorded_objects if identity not in desired]
    content = RemovalFacts(signed=has_hub_signature(work))
    if left_overs and removal_action(content) is RemovalAction.KEPT:
        fields = {"work": owner["metadata"]["name"], "objects": len(left_overs)}
        _log.warning("objects of a Work kept: its content differs from the content written by the hub", extra=fields)
        return LeftOvers(left_overs)
    try:
        left_out_release = parse_left_out(annotation(work, RELEASE))
        left_out = parse_left_out(annotation(work, LEFT_OUT)) - left_out_release
    except (ValueError, TypeError):  # another client wrote it
        return LeftOvers(left_overs)
    refusals = [identity for identity in left_overs if identity in left_out]
    left_overs = [identity for identity in left_overs if identity not in left_out]
    successors = await sibling_works(work, hub, member) if left_overs else NO_SIBLING_WORKS
    definitions = Definitions(work, hub, member, us, now)
    keeping = _Keeping(owner, content, limits, us, successors, definitions, left_out_release)
    keeping.keep(await _spaces_of_marked(left_overs, owner, member))
    kinds_served = await served_kinds(_inside_first(left_overs), member)
    refusals += [identity for identity in unanswered(owner, member) if identity in left_overs]
    for identity, kind in kinds_served:
        try:
            if not await _settle(kind, Key(identity.name, identity.namespace), member, keeping):
                refusals.append(identity)
        except StoreError as error:
            if isinstance(error, UnavailableError):
                await still_answers(member, owner)
            fields = {"object": identity, "work": owner["metadata"]["name"], "reason": str(error)}
            _log.warning("object not removed", extra=fields)
            refusals.append(identity)
    if keeping.left_to_cluster:
        await record_event(work, _released_event(keeping.left_to_cluster), hub, member, now)
    return LeftOvers(refusals, bool(keeping.deleting), left_over_obstacles(keeping.deleting, now))


def _released_event(identities: Sequence[ManifestIdentity]) -> Event:
    names = [f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}" for _, kind, namespace, name in identities]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    message = (
        "no longer placed, because the controllers of each cluster create such objects. They remain on the member "
        f"without an owner: {', '.join(names[:_MOST_NAMED])}{more}"
    )
    return Event(OBJECTS_RELEASED, message)


async def _let_go_of_untouchable(
    identities: Sequence[ManifestIdentity], owner: JsonObject, member: MemberStore, us: HubMember, limits: MemberLimits
) -> None:
    """Release the objects that the agent must not touch. Other objects are not read."""
    keeping = _Keeping(owner, RemovalFacts(listed=True), limits, us)
    for identity, kind in await served_kinds(identities, member):
        about = (identity.group, kind.versions, identity.kind, identity.name, identity.namespace)
        if limits.refusal(*about, cluster_scoped=not kind.namespaced):
            await _settle(kind, Key(identity.name, identity.namespace), member, keeping)


async def release_compared(
    identities: Sequence[ManifestIdentity], owner: JsonObject, member: MemberStore, us: HubMember
) -> list[ManifestIdentity]:
    """Release the objects that an earlier agent took over to compare them, and that their Work dropped since.

    `webhook.member.apply.steps` releases those that the Work still holds.

    Returns:
        The objects that could not be released. The next pass tries again.

    Raises:
        StoreError: The member does not respond. The Work's status lists these objects until its next pass.
    """
    refusals, keeping = [], _Keeping(owner, RemovalFacts(listed=True, compared=True), DEFAULT_LIMITS, us)
    for identity, kind in await served_kinds(identities, member):
        try:
            with suppress(ForbiddenError):  # an object that the agent has no right to read was not taken over
                await _settle(kind, Key(identity.name, identity.namespace), member, keeping)
        except NotReleasedError as error:
            fields = {"object": identity, "work": owner["metadata"]["name"], "reason": str(error)}
            _log.warning("object not released", extra=fields)
            refusals.append(identity)
    return refusals


async def remove_content(
    work: JsonObject,
    content: RemovalFacts,
    hub: Store,
    member: MemberStore,
    now: datetime,
    us: HubMember,
    limits: MemberLimits = DEFAULT_LIMITS,
) -> bool:
    """Remove, release or keep all content of a Work on the member, and return whether that is finished.

    Objects are deleted with their AppliedWork. Objects with other owners remain. So do objects that are marked to be
    kept or that the agent must not touch, with their namespaces. An AppliedWork of another owner does not belong to
    this Work. Kept content keeps its AppliedWork: a recreated Work of that name finds both unchanged.

    Args:
        work: The Work, or its last state.
        content: Facts about all of its objects.
        hub: Store of the Work, and of other Works that may hold its objects now.
        member: Store of the objects.
        now: The time of day.
        us: The identity of this member.
        limits: Objects that the agent must not touch.

    Raises:
        NotReleasedError: An object cannot be released or read, so nothing may be deleted.
        StoreError: The hub or the member did not respond: retry later.
    """
    action = removal_action(content)
    if action is RemovalAction.KEPT:
        return True
    key, owner = Key(work["metadata"]["name"]), None
    with suppress(NotFoundError):
        owner = await member.get(APPLIED_WORK, key)
    if owner is not None and removal_action(replace(content, ours=is_owned_by(owner, us))) is RemovalAction.KEPT:
        return True
    if owner is None or is_deleting(owner) or not written_down(owner):
        owner = await adopt_freed(work, owner, member, us)
    if owner is None:
        return True
    recorded_identities, ours = recorded(work, owner, compared=True), set(written_down(owner))
    content, limits = replace(content, compared=reports_diff(work)), limits_of(work, limits)
    successors, definitions = await sibling_works(work, hub, member), Definitions(work, hub, member, us, now)
    keeping, all_inherited = _Keeping(owner, content, limits, us, successors, definitions), True
    keeping.keep(await _spaces_of_marked(recorded_identities, owner, member))
    found_kinds = await served_kinds(_inside_first(recorded_identities), member)
    if unknown := unanswered(owner, member):  # they may be annotated to be kept
        groups = group_names({identity.group for identity in unknown})
        raise NotReleasedError(f"AppliedWork {key.name} is kept: discovery failed on the member for {groups}")
    for identity, kind in found_kinds:
        try:
            all_inherited &= await _settle(
                kind, Key(identity.name, identity.namespace), member, keeping, is_collected=True
            )
        except ForbiddenError:
            # It may be marked to be kept, in an annotation that we cannot read. Deleting the AppliedWork would delete
            # it, so nothing is removed. An object that is only in the Work's status was perhaps never applied.
            if identity in ours:
                raise
    if not all_inherited:  # the successor has no AppliedWork yet: deleting ours now would delete the object
        return False
    if await _deleted(key, owner, member):
        return True
    deletion_timestamp = owner["metadata"].get("deletionTimestamp")
    if deletion_timestamp and now - parse_time(deletion_timestamp) >= STUCK_AFTER:
        await _unblock(recorded_identities, owner, member)
    return False


class NotReleasedError(StoreError):
    """An object cannot be released or read. Deleting its AppliedWork now might delete the object."""


class _Keeping:
    """Facts about the objects of one AppliedWork, and the namespaces that must be kept because of their content.

    Query objects before the namespaces that contain them, see `_inside_first`.

    Args:
        owner: The AppliedWork.
        content: Facts about all of its objects.
        limits: Objects that the agent must not touch.
        us: The identity of this member.
        successors: The other Works of the binding.
        definitions: Inspects the definitions among the objects. None if no object is removed.
        released: Objects that belong to the cluster, and are released.
    """

    def __init__(
        self,
        owner: JsonObject,
        content: RemovalFacts,
        limits: MemberLimits,
        us: HubMember,
        successors: SiblingWorks = NO_SIBLING_WORKS,
        definitions: Definitions | None = None,
        released: Collection[ObjectIdentity] = (),
    ) -> None:
        self._name = owner["metadata"]["name"]
        self._content = content
        self._limits = limits
        self._us = us
        self._successors = successors
        self.definitions = definitions
        self._released = released
        self.left_to_cluster: list[ManifestIdentity] = []
        self.deleting: list[tuple[ManifestIdentity, Kind, JsonObject]] = []
        """The objects whose deletion is not finished."""
        self._spaces: set[str] = set()

    def note_released(self, kind: Kind, key: Key) -> None:
        """Record an object that was released, if it belongs to the cluster."""
        identity = ManifestIdentity(*kind.group_kind, key.namespace, key.name)
        if identity in self._released:
            self.left_to_cluster.append(identity)

    def keep(self, spaces: Iterable[str]) -> None:
        """Record namespaces that must be kept."""
        self._spaces.update(spaces)

    def ask(self, kind: Kind, live: JsonObject) -> tuple[RemovalFacts, JsonObject]:
        """Return the facts about an object, and the object without our AppliedWork among its owners."""
        about = live["metadata"]
        without_us = without_owner(live, self._name)
        is_marked_object = is_marked(live) or (kind == NAMESPACE and about["name"] in self._spaces)
        space = about.get("namespace") or ""
        names = (kind.group, kind.versions, kind.kind, about["name"], space)
        identity = ManifestIdentity(*kind.group_kind, space, about["name"])
        untouchable = identity in self._released or bool(
            self._limits.refusal(*names, cluster_scoped=not kind.namespaced)
        )
        was_compared_before = self._content.compared and was_compared(live, self._name)
        is_inherited = identity in self._successors.holders
        if (is_marked_object or untouchable or was_compared_before or is_inherited) and space:
            self._spaces.add(space)
        content = replace(
            self._content,
            ours=without_us is not None,
            shared=bool(owners(without_us or live)),
            marked=is_marked_object,
            untouchable=untouchable,
            occupied=is_definition(kind),  # until `webhook.member.deletion.crds` has found no such object
            compared=was_compared_before,
            inherited=is_inherited,
            unsettled=self._successors.unsettled,
        )
        return content, without_us or live

    def note_deleting(self, kind: Kind, live: JsonObject) -> bool:
        """Return whether the deletion of an object may take time. Record the object if it is already being deleted."""
        about = live["metadata"]
        if not finalizers_of(live) and kind != NAMESPACE:
            return False
        if is_deleting(live):
            identity = ManifestIdentity(*kind.group_kind, about.get("namespace") or "", about["name"])
            self.deleting.append((identity, kind, live))
        return True

    async def hand_over(self, kind: Kind, live: JsonObject, member: MemberStore) -> bool:
        """Make the Work that now holds an object its owner.

        Return False if that Work has no AppliedWork on the member, or one that is being deleted. The object has both
        owners until the successor has recorded it. If the successor is removed concurrently, either it sees the object
        when it reads its objects, or its delete fails because its record has changed, and the next pass retries.

        A crash between two writes leaves both owners, and the next pass repeats them. If our reference were removed
        first, a crash would leave an object without an owner, which the successor must not adopt
        (``whenToTakeOver: Never``).
        """
        about = live["metadata"]
        identity = ManifestIdentity(*kind.group_kind, about.get("namespace") or "", about["name"])
        reference = await owner_after(self._successors.holders[identity], member, self._us)
        if reference is None:
            return False
        references = [owner for owner in owners(live) if owner["uid"] != reference["uid"]]
        live = await member.replace(kind, with_owners(live, [*references, reference]))
        if not await written_at(reference, identity, member):  # the successor was deleted: the object remains ours
            await member.replace(kind, with_owners(live, references))
            return False
        await member.replace(kind, without_owner(live, self._name) or live)
        return True


async def _spaces_of_marked(identities: Sequence[ManifestIdentity], owner: JsonObject, member: MemberStore) -> set[str]:
    """Return the namespaces in *identities* where another AppliedWork owns an object that is marked to be kept."""
    spaces = {identity.name for identity in identities if (identity.group, identity.kind) == NAMESPACE.group_kind}
    namespaces: set[str] = set()
    for other in (await member.list(APPLIED_WORK)).items if spaces else ():
        if other["metadata"]["name"] == owner["metadata"]["name"]:
            continue
        inside = [identity for identity in written_down(other) if identity.namespace in spaces - namespaces]
        for identity, kind in await served_kinds(inside, member):
            with suppress(NotFoundError):
                if is_marked(await member.get(kind, Key(identity.name, identity.namespace))):
                    namespaces.add(identity.namespace)
    return namespaces


async def _mark_space(content: RemovalFacts, live: JsonObject, member: MemberStore) -> None:
    """Mark the namespace of an object that is marked to be kept, if a Work placed the namespace.

    That Work may be deleted after this one.
    """
    space = live["metadata"].get("namespace") or ""
    if not (space and content.marked):
        return

    async def change(namespace: JsonObject) -> None:
        if any(map(is_applied_work, owners(namespace))) and not is_marked(namespace):
            await member.replace(NAMESPACE, with_metadata(namespace, annotations={KEEP: "true"}))

    await on_latest(NAMESPACE, Key(space), member, change)


def _inside_first(identities: Sequence[ManifestIdentity]) -> list[ManifestIdentity]:
    """Return objects in namespaces before the namespaces, and definitions last: their objects are deleted with them.

    Example: ConfigMap ``team/a`` is marked to be kept, and the Work also holds Namespace ``team``. In the other order,
    the namespace would be deleted, with the ConfigMap in it, before `_Keeping` learns that it must be kept.
    """
    definition = CUSTOM_RESOURCE_DEFINITION.group_kind
    return sorted(
        identities, key=lambda identity: (not identity.namespace, (identity.group, identity.kind) == definition)
    )


async def _settle(kind: Kind, key: Key, member: MemberStore, keeping: _Keeping, *, is_collected: bool = False) -> bool:
    """Remove, release or hand over one object. Return False while it waits for its successor or is being deleted.

    A missing object, or one that is not ours, is skipped.

    Args:
        kind: Kind of the object.
        key: Key of the object.
        member: Store of the object.
        keeping: Facts about the object.
        is_collected: Whether its AppliedWork is deleted, too: the member's garbage collector deletes the object unless
            it is a definition, or removes our reference from an object that only other owners keep.
    """
    settled = True

    async def change(live: JsonObject) -> None:
        nonlocal settled
        content, without_us = keeping.ask(kind, live)
        reason = ""
        if (
            keeping.definitions
            and content.occupied
            and removal_action(replace(content, occupied=False)) is RemovalAction.REMOVED
        ):
            if is_deleting(live):  # its objects are already being deleted
                settled = is_collected or not keeping.note_deleting(kind, live)
                return
            reason = await keeping.definitions.deletion_refusal(live)
            content = replace(content, occupied=bool(reason))
        match removal_action(content):
            case RemovalAction.REMOVED:
                if (freed := without_own_finalizers(live)) is not None:
                    live = await member.replace(kind, freed)
                await _delete(kind, key, live, member, is_collected=is_collected)
                settled = is_collected or not keeping.note_deleting(kind, live)
            case RemovalAction.RELEASED if not is_collected or content.outlives_owner:
                # The namespace first: once released, the object is not ours, and no later pass would mark its
                # namespace.
                await _mark_space(content, live, member)
                try:
                    await member.replace(kind, without_us)
                except ForbiddenError as error:
                    raise NotReleasedError(str(error)) from error
                keeping.note_released(kind, key)
                if reason and keeping.definitions:
                    await keeping.definitions.report(live, reason)
            case RemovalAction.HANDED_OVER:
                settled = await keeping.hand_over(kind, live, member)
            case RemovalAction.KEPT:
                settled = not content.unsettled or not content.ours

    await on_latest(kind, key, member, change)
    return settled


async def _delete(kind: Kind, key: Key, live: JsonObject, member: MemberStore, *, is_collected: bool) -> None:
    metadata = live["metadata"]
    if is_definition(kind):
        # Even if its AppliedWork is deleted, too: the garbage collector may take hours, and does not check its objects.
        await member.delete(kind, key, uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    elif not is_collected and not is_deleting(live):
        # The uid: a recreated object of this name is not the one that was checked.
        await member.delete(kind, key, uid=metadata.get("uid", ""))


async def _deleted(key: Key, owner: JsonObject, member: MemberStore) -> bool:
    """Delete the AppliedWork in the foreground, so that its objects are deleted first. Return whether it is deleted.

    Raises:
        ConflictError: The AppliedWork has changed since its objects were checked, and may own more of them.
    """
    try:
        # Both writes require the version that was checked. An object handed over since then has changed the record. It
        # would be collected without a check of whether it must be kept.
        if (freed := without_finalizer(owner, APPLIED_WORK_CLEANUP)) is not None:
            owner = await member.replace(APPLIED_WORK, freed)
        if not is_deleting(owner):
            metadata = owner["metadata"]
            version = metadata.get("resourceVersion", "")
            await member.delete(APPLIED_WORK, key, uid=metadata["uid"], resource_version=version, foreground=True)
        await member.get(APPLIED_WORK, key)
    except NotFoundError:
        return True
    return False


async def _unblock(identities: Sequence[ManifestIdentity], owner: JsonObject, member: MemberStore) -> None:
    """Unblock a stuck deletion of an AppliedWork from objects with other owners.

    The garbage collector deletes an owner in the foreground only after every dependent with ``blockOwnerDeletion`` is
    deleted. An object with another owner remains for as long as that owner exists.

    Source: docs/specifications/rollout.md 20.
    """
    for identity, kind in await served_kinds(identities, member):
        key = Key(identity.name, identity.namespace)

        async def change(live: JsonObject, kind: Kind = kind) -> None:
            changed = unblocked(live, owner["metadata"]["uid"])
            if changed is not live:
                await member.replace(kind, changed)

        await on_latest(kind, key, member, change)
