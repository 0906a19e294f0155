"""One pass over a Work: apply or clean up, and report the status.

A pass reads all of its inputs, converges the member and writes the Work's status. It may stop at any point and be
repeated. Objects that it is about to apply are recorded first (`PreparingToProcess`), and the owner reference of an
object to the AppliedWork of the same name shows its Work.

Differences from the reference: the agent does not apply to an object that is being deleted on the member. Left-overs
are identified by group, kind and name, so an object is not deleted when its manifest moves to another version. An
object whose last apply failed can be a left-over, too, because the failure may have come after the write.

Source: docs/specifications/rollout.md 11, 13, 14, 18 and 20; KubeFleet pkg/controllers/workapplier.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final

from scorer.api.conditions import TRUE
from scorer.api.event import Event
from scorer.api.kinds import APPLIED_WORK, WORK
from scorer.api.meta import JsonObject
from scorer.api.names import ABANDON, LEFT_OUT, RELEASE, REMOVE, WORK_CLEANUP, WORK_OBJECTS
from scorer.api.placement.apply_strategy import ApplyStrategy
from scorer.api.unstructured.documents import (
    annotation,
    dict_at,
    is_deleting,
    list_at,
    manifests_of,
    spec_of,
    with_finalizer,
    without_finalizer,
)
from scorer.membership.identity import AppliedWorkOwnership, HubMember, adopted, is_owned_by, ownership_of
from scorer.rollout.apply_strategy import reports_diff
from scorer.rollout.removal.marks import RemovalFacts, is_marked_for_removal
from scorer.rollout.selection.exclusions import MemberLimits
from scorer.rollout.works.status import ManifestReason, ManifestResult, work_status
from scorer.rollout.works.waves import plan_waves
from webhook.kube.ports import ForbiddenError, Key, NotFoundError, Store, StoreError, key_of
from webhook.member.apply.contention import Memory
from webhook.member.apply.steps import Steps
from webhook.member.apply.writer import Writer
from webhook.member.deletion.blocking_finalizers import (
    new_obstacles,
    report_obstacles,
    report_refusal,
    with_obstacles,
)
from webhook.member.deletion.orphans import adopt_freed, free, may_free, recreated
from webhook.member.deletion.removal import (
    LeftOvers,
    NotReleasedError,
    release_compared,
    remove_content,
    remove_left_overs,
)
from webhook.member.membership.hub_state import MemberStateReader, always_remains
from webhook.member.objects.applied_works import (
    AnothersError,
    AppliedWorkDeletingError,
    applied_work,
    forbidden_status,
    refused_status,
)
from webhook.member.objects.job_runs import JobRuns
from webhook.member.objects.ledger import (
    discover_kinds,
    record,
    recorded,
    write_ahead,
    written_down,
)
from webhook.member.objects.manifests import (
    DEFAULT_LIMITS,
    Manifest,
    ManifestIdentity,
    ManifestKinds,
    RejectedManifest,
    decode,
    limits_of,
    manifest_result,
)
from webhook.member.objects.owner_references import owner_reference
from webhook.member.store.events import record_event
from webhook.member.store.ports import MemberStore
from webhook.member.works.backoff import WorkOutcome
from webhook.member.works.stale_works import is_held, note_applied

RECREATED: Final = "AppliedWorkMadeAnew"
OWNER_DELETED: Final = (
    "the AppliedWork was deleted on the member. Its objects remain, and the agent has created a new AppliedWork "
    "that owns them"
)

WORDS: Final = (ABANDON, LEFT_OUT, RELEASE, REMOVE, WORK_OBJECTS)
"""Annotations of a Work that change the actions or permissions of the agent."""

PARALLEL_MANIFESTS: Final = 16

DEFINITION_WAITS: Final = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Pause before each check whether the member serves the kind of a definition in the same Work, in seconds."""

KEPT_WITHOUT_ORDER: Final = "KeptWithoutOrder"
NO_ORDER: Final = (
    "the Work is being deleted, but harbormaster has not ordered the removal of its content: its objects remain on "
    "the member, and a new Work of this name adopts them unchanged. To remove them without a new Work, annotate the "
    f"AppliedWork of this name on the member with {REMOVE}, set to the uid of the AppliedWork, then delete it"
)

GONE: Final = WorkOutcome(gone=True)
HELD: Final = WorkOutcome(held=True)


async def reconcile_work(
    key: Key,
    hub: Store,
    member: MemberStore,
    now: datetime,
    memory: Memory | None = None,
    read_hub_state: MemberStateReader = always_remains,
    *,
    hub_uid: str = "",
    limits: MemberLimits = DEFAULT_LIMITS,
) -> WorkOutcome:
    """Reconcile one Work with the member, and report the outcome in the Work's status.

    Level-triggered: every pass reads everything again. Idempotent: a second pass writes nothing on either side, except,
    occasionally, the time of observation where the status lists differences.

    Args:
        key: Key of the Work.
        hub: Store of the Work.
        member: Store of its objects.
        now: Time of the pass.
        memory: State that the caller keeps between passes. Without it, every pass queries the member about each object
            that it stores differently from the manifest, and other writers are not detected.
        read_hub_state: Reads the hub's state of the member, before the content of a deleted Work is removed and before
            an older Work is applied.
        hub_uid: The uid of the hub, empty if unknown.
        limits: Objects that the agent must not touch, regardless of the Work.

    Raises:
        ConflictError: Another client wrote first: retry.
        StoreError: The hub or the member did not respond, or the member did not store the AppliedWork: retry later. A
            refusal of one object raises no error, but the Work's status reports it.
    """
    try:
        work = await hub.get(WORK, key)
    except NotFoundError:
        return GONE
    if is_deleting(work):
        return await _clean_up(work, read_hub_state, hub, member, now, hub_uid, limits)
    # Before any apply: a Work that is deleted from here on waits for our clean-up, so no object is left behind.
    work = await _hold(work, hub)
    us = HubMember(hub_uid, key.namespace)
    try:
        outcome, owner = await _apply(work, hub, member, now, memory or Memory(), read_hub_state, us, limits)
    except ForbiddenError as error:
        work = await hub.get(WORK, key)  # the pass may have written its status
        if (status := forbidden_status(work, str(error), now)) != work.get("status"):
            await hub.replace_status(WORK, {**work, "status": status})
        raise
    if owner is not None:
        # Last: if it were recorded before the hub has stored the status, an intact hub would look restored after a
        # crash.
        await note_applied(work, owner, member)
    return outcome


async def _apply(
    work: JsonObject,
    hub: Store,
    member: MemberStore,
    now: datetime,
    memory: Memory,
    read_hub_state: MemberStateReader,
    us: HubMember,
    limits: MemberLimits,
) -> tuple[WorkOutcome, JsonObject | None]:
    """Apply a Work, and return its AppliedWork as well. None means that the Work must not be applied.

    Raises:
        ForbiddenError: The agent has lost a permission that is not specific to one object.
    """
    try:
        owner = await applied_work(key_of(work), member, us)
    except AppliedWorkDeletingError as error:
        work, owner = await recreated(error, work, hub, member, us, now)
        await record_event(work, Event(RECREATED, OWNER_DELETED, "Warning"), hub, member, now)
    except AnothersError as error:
        status = refused_status(work, str(error), ManifestKinds(member.served.kinds), now)
        return await _store(work, status, hub), None
    if not written_down(owner):
        await adopt_freed(work, owner, member, us)
    if await is_held(work, owner, read_hub_state, hub, member, now):
        return HELD, None
    limits = limits_of(work, limits)
    manifests = manifests_of(work)
    strategy = ApplyStrategy.read(spec_of(work).get("applyStrategy") or {})
    applies = not reports_diff(work)
    items = decode(manifests, await discover_kinds(member, manifests, applies=applies), limits)
    desired = {item.identity for item in items}
    left_overs = LeftOvers([identity for identity in recorded(work, owner) if identity not in desired])
    if applies:
        left_overs = await remove_left_overs(work, owner, items, hub, member, us, now, limits)
        work = await write_ahead(work, items, hub, now)
    else:
        compared_left_overs = [identity for identity in recorded(work, owner, compared=True) if identity not in desired]
        left_overs.remaining.extend(await release_compared(compared_left_overs, owner, member, us))
    jobs = JobRuns(work, owner, [item for item in items if isinstance(item, Manifest) and applies], member, us)
    steps = Steps(
        us=us,
        applied_work=owner,
        strategy=strategy,
        reports_status=_reports_status(work),
        hub=hub,
        member=member,
        writer=Writer(member, owner_reference(owner), strategy, memory.fingerprints),
        rivals=memory.rivals,
        jobs=jobs,
        now=now,
    )
    results, live = await _process(items, steps, single_wave=not applies)
    owner = await jobs.store()
    # The AppliedWork first: the status stored next drops the left-overs that still exist. With the other order, a crash
    # between the two writes would leave them in neither list.
    await record(owner, items, live, left_overs.remaining, member)
    for event in (*_newly_contested(work, results), *new_obstacles(work, left_overs.obstacles)):
        await record_event(work, event, hub, member, now)
    outcome = await _store(work, with_obstacles(work, work_status(work, results, now), left_overs.obstacles, now), hub)
    return replace(outcome, removing=left_overs.deleting), owner


async def _store(work: JsonObject, status: JsonObject, hub: Store) -> WorkOutcome:
    """Store the Work's status if it has changed."""
    if status != work.get("status"):
        work = await hub.replace_status(WORK, {**work, "status": status})
    return _outcome(work["metadata"].get("generation", 0), status)


def _newly_contested(work: JsonObject, results: Iterable[ManifestResult]) -> Iterator[Event]:
    """Yield an Event for each contested object that the Work's status does not show yet.

    The Events are written before the status. After an interruption, the next pass writes them again, which is a no-op.
    """
    contested_before = [
        entry["identifier"]
        for entry in list_at(work, "status", "manifestConditions")
        if any(condition.get("reason") == ManifestReason.ANOTHER_WRITER for condition in entry.get("conditions") or ())
    ]
    for result in results:
        if result.reason is ManifestReason.ANOTHER_WRITER and result.identifier() not in contested_before:
            name = f"{result.namespace}/{result.name}" if result.namespace else result.name
            yield Event(ManifestReason.ANOTHER_WRITER.value, f"{result.kind} {name}: {result.message}", "Warning")


def _outcome(generation: int, status: JsonObject) -> WorkOutcome:
    conditions = [status["conditions"], *(entry["conditions"] for entry in status["manifestConditions"])]
    digest = ";".join(
        ",".join(f"{condition['type']}={condition['reason']}" for condition in group) for group in conditions
    )
    types_true = {condition["type"] for condition in status["conditions"] if condition["status"] == TRUE}
    is_contested = any(
        condition["reason"] == ManifestReason.ANOTHER_WRITER for group in conditions for condition in group
    )
    return WorkOutcome(
        generation, digest, settled=bool(types_true & {"Available", "DiffReported"}), contested=is_contested
    )


def _reports_status(work: JsonObject) -> bool:
    strategy = dict_at(work, "spec", "reportBackStrategy")
    return bool(strategy.get("type") == "Mirror")


async def _hold(work: JsonObject, hub: Store) -> JsonObject:
    """Add our finalizer to the Work, so that it remains until its objects are deleted."""
    with_cleanup = with_finalizer(work, WORK_CLEANUP)
    return work if with_cleanup is None else await hub.replace(WORK, with_cleanup)


async def _process(
    items: Sequence[Manifest | RejectedManifest], steps: Steps, *, single_wave: bool
) -> tuple[list[ManifestResult], dict[ManifestIdentity, JsonObject]]:
    """Process all manifests in waves. Return a result for each, in order, and the applied objects.

    Raises:
        StoreError: The member has stopped answering, and later waves have not started.
    """
    results = {
        item.ordinal: manifest_result(item, item.reason, item.message)
        for item in items
        if isinstance(item, RejectedManifest)
    }
    live: dict[ManifestIdentity, JsonObject] = {}
    errors: list[StoreError] = []
    slots = asyncio.Semaphore(PARALLEL_MANIFESTS)

    async def one(item: Manifest) -> None:
        async with slots:
            if errors:  # while this task waited for its slot, another one found the member unreachable
                return
            try:
                result, document = await steps.process(item)
            except StoreError as error:
                errors.append(error)
                return
        results[item.ordinal] = result
        if document is not None and result.applied:
            live[item.identity] = document

    manifests = [item for item in items if isinstance(item, Manifest)]
    for wave in plan_waves(manifests, single_wave=single_wave):
        ready, early = await _defined(wave, live, steps.member)
        for item in early:
            message = ManifestKinds(steps.member.served.kinds).problem(*item.kind.group_kind, item.version)
            message += ". The definition in this Work is not in effect yet"
            results[item.ordinal] = manifest_result(item, ManifestReason.DECODING_ERRED, message)
        async with asyncio.TaskGroup() as group:
            for item in ready:
                group.create_task(one(item))
        if errors:
            raise errors[0]
    return [results[ordinal] for ordinal in sorted(results)], live


async def _defined(
    wave: Sequence[Manifest], live: Mapping[ManifestIdentity, JsonObject], member: MemberStore
) -> tuple[list[Manifest], list[Manifest]]:
    """Split a wave into items that can be applied, and items whose definition is not in effect yet.

    After applying a definition, the pass waits a few seconds for it. Objects of other missing kinds wait for a later
    pass.
    """
    applied = {identity.name for identity in live}
    for seconds in DEFINITION_WAITS:
        kinds = ManifestKinds(member.served.kinds)
        missing = [item for item in wave if not kinds.serves(item.kind)]
        if not any(item.kind.resource in applied for item in missing):
            break
        await asyncio.sleep(seconds)
        await member.served.refresh()
    kinds = ManifestKinds(member.served.kinds)
    return [item for item in wave if kinds.serves(item.kind)], [item for item in wave if not kinds.serves(item.kind)]


async def _clean_up(
    work: JsonObject,
    read_hub_state: MemberStateReader,
    hub: Store,
    member: MemberStore,
    now: datetime,
    hub_uid: str,
    limits: MemberLimits,
) -> WorkOutcome:
    """Remove the Work's content from the member if the hub ordered it, then remove our finalizer from the Work."""
    metadata = work["metadata"]
    if (free := without_finalizer(work, WORK_CLEANUP)) is None:
        return GONE
    us = HubMember(hub_uid, metadata["namespace"])
    try:
        content = await _what_is_known(work, us, read_hub_state, hub, member, now)
        if content.leaving:  # `webhook.member.membership.controller` or the hub removes the finalizer
            return WorkOutcome(metadata.get("generation", 0), "leaving")
        if content.older:
            return HELD
        removed = await remove_content(work, content, hub, member, now, us, limits)
    except (ForbiddenError, NotReleasedError) as error:
        await report_refusal(work, str(error), hub, now)
        raise
    if not removed:
        # Part of the digest: the backoff restarts when an obstacle is removed.
        return WorkOutcome(metadata.get("generation", 0), "deleting " + await report_obstacles(work, hub, member, now))
    with suppress(NotFoundError):
        # At the version that was checked above: a concurrent change to the Work causes ConflictError and another check.
        await hub.replace(WORK, free)
    return GONE


def went_early(work: JsonObject) -> bool:
    """Return whether a Work was deleted without waiting for us, although it had our finalizer.

    An API server that handles an unconditional delete at the moment when the object gets its first finalizer deletes
    the object nevertheless. A Work that we have cleaned up still has a deletionTimestamp in its last state. A Work
    whose finalizer another client removed (the hub, when it abandons a member) has no finalizer. Neither was deleted
    early.

    Args:
        work: Last state of the Work, from the watch.
    """
    metadata = work["metadata"]
    return WORK_CLEANUP in (metadata.get("finalizers") or ()) and not metadata.get("deletionTimestamp")


async def clean_up_after(
    work: JsonObject,
    hub: Store,
    member: MemberStore,
    now: datetime,
    read_hub_state: MemberStateReader = always_remains,
    *,
    hub_uid: str = "",
    limits: MemberLimits = DEFAULT_LIMITS,
) -> WorkOutcome:
    """Remove the content of a Work that was deleted early, if the hub ordered it. Idempotent.

    No object is removed if a Work of that name exists again, because that Work takes over the content. The queue hands
    each name to one worker at a time, so no pass over a new Work of that name runs concurrently.

    Args:
        work: Last state of the Work.
        hub: Store of the Work.
        member: Store of its objects.
        now: Time of the pass.
        read_hub_state: Reads the hub's state of the member.
        hub_uid: The uid of the hub, empty if unknown.
        limits: Objects that the agent must not touch.

    Raises:
        StoreError: The hub or the member did not respond: retry later.
    """
    try:
        await hub.get(WORK, key_of(work))
    except NotFoundError:
        us = HubMember(hub_uid, work["metadata"]["namespace"])
        content = await _what_is_known(work, us, read_hub_state, hub, member, now)
        if not await remove_content(work, content, hub, member, now, us, limits):
            return WorkOutcome(work["metadata"].get("generation", 0), "deleting")
    return GONE


async def clean_up_without_work(
    name: str, hub: Store, member: MemberStore, now: datetime, us: HubMember, limits: MemberLimits = DEFAULT_LIMITS
) -> None:
    """Release an AppliedWork that has no Work and is being deleted. Its objects remain, without an owner.

    To remove these objects, an administrator annotates the AppliedWork before deleting it, as the loop does with a
    Work. An AppliedWork with ``harbormaster.dev/remove``, set to its own uid, is deleted with its objects
    (`scorer.rollout.removal.marks`), under the same rules as a Work. A mere deletion is not an order to remove them:
    all AppliedWorks may be deleted together, with their definition or by ``kubectl delete --all``.

    Args:
        name: Name of the AppliedWork.
        hub: The hub, which has no Work of that name.
        member: Store of the AppliedWork.
        now: Time of the pass.
        us: The identity of this member.
        limits: Objects that the agent must not touch.

    Raises:
        StoreError: The hub or the member did not respond: retry later.
    """
    try:
        applied_work = await member.get(APPLIED_WORK, Key(name))
    except NotFoundError:
        return
    if not is_deleting(applied_work) or not may_free(applied_work, us):
        return
    if not is_marked_for_removal(applied_work):
        await free(applied_work, written_down(applied_work), member)
        return
    if not is_owned_by(applied_work, us):
        await member.replace(APPLIED_WORK, adopted(applied_work, us))
    metadata = {"name": name, "namespace": us.namespace}
    work = {"apiVersion": WORK.api_version, "kind": WORK.kind, "metadata": metadata}
    await remove_content(work, RemovalFacts(going=True, ordered=True), hub, member, now, us, limits)


async def _what_is_known(
    work: JsonObject, us: HubMember, read_hub_state: MemberStateReader, hub: Store, member: MemberStore, now: datetime
) -> RemovalFacts:
    """Return the facts that decide what happens to a deleted Work's content. Record an Event if nothing ordered it."""
    is_ordered = is_marked_for_removal(work)
    if not is_ordered:
        await record_event(work, Event(KEPT_WITHOUT_ORDER, NO_ORDER, "Warning"), hub, member, now)
    is_leaving = is_ordered and (await read_hub_state()).leaving  # without an order everything is kept anyway
    is_abandoned = annotation(work, ABANDON) == "true"
    older = is_ordered and not is_leaving and await _is_older(work, us, read_hub_state, hub, member, now)
    return RemovalFacts(going=True, ordered=is_ordered, abandoned=is_abandoned, leaving=is_leaving, older=older)


async def _is_older(
    work: JsonObject, us: HubMember, read_hub_state: MemberStateReader, hub: Store, member: MemberStore, now: datetime
) -> bool:
    try:
        owner = await member.get(APPLIED_WORK, Key(work["metadata"]["name"]))
        return ownership_of(owner, us) is not AppliedWorkOwnership.ANOTHERS and await is_held(
            work, owner, read_hub_state, hub, member, now
        )
    except NotFoundError:  # no AppliedWork to compare with, or a Work that was deleted early and has no status to write
        return False
