"""One pass over a Work: apply or clean up, and report the status.

One pass over a Work reads everything it needs, brings the member closer to what the hub wants and writes the Work's
status. A pass may stop anywhere and be repeated: the objects that it is about to apply are written down first
(`PreparingToProcess`), and an object shows which Work it belongs to by its owner reference to the AppliedWork of the
same name.

Differences from the reference. The agent does not apply to an object that is being deleted on the member. Left-overs
are told by group, kind and name, so an object is not deleted when its manifest moves to another version; an object
whose last apply failed counts as well, since the failure may have come after the write.

Source: rollout.md 11, 13, 14, 18 and 20; KubeFleet pkg/controllers/workapplier.
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
from webhook.kube.ports import ForbiddenError, Key, NotFoundError, Store, StoreError, key_of
from webhook.member.apply.contention import Memory
from webhook.member.apply.steps import Steps
from webhook.member.apply.waves import plan_waves
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
    "the AppliedWork was deleted on the member; the objects it owned stay, and the agent has made a new one to own them"
)

WORDS: Final = (ABANDON, LEFT_OUT, RELEASE, REMOVE, WORK_OBJECTS)
"""Annotations of a Work that change what the agent does, or may do, about it."""

PARALLEL_MANIFESTS: Final = 16

DEFINITION_WAITS: Final = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds before each check whether the member serves the kind that a definition of the same Work defines."""

KEPT_WITHOUT_ORDER: Final = "KeptWithoutOrder"
NO_ORDER: Final = (
    "the Work is being deleted, but harbormaster has not asked for its content to go: "
    "its objects stay on the member, and a Work of this name that comes back finds them as they are; "
    f"to remove them if none comes back, annotate the AppliedWork of this name on the member with {REMOVE}, set to the "
    "AppliedWork's own uid, then delete it"
)

GONE: Final = WorkOutcome(gone=True)
HELD: Final = WorkOutcome(held=True)


async def reconcile_work(
    key: Key,
    hub: Store,
    member: MemberStore,
    now: datetime,
    memory: Memory | None = None,
    word: MemberStateReader = always_remains,
    *,
    hub_uid: str = "",
    limits: MemberLimits = DEFAULT_LIMITS,
) -> WorkOutcome:
    """Make the member hold what one Work says, and report the outcome in the Work's status.

    Level-triggered: every pass reads everything again. Idempotent: a second pass writes nothing on either side,
    except, now and then, the time of observation where the status lists differences.

    Args:
        key: Of the Work.
        hub: Where it is.
        member: Where its objects go.
        now: Time of the pass.
        memory: State that the caller keeps from pass to pass. Without it, every pass asks the member about each object
            that it stores differently from the manifest, and other writers are not noticed.
        word: Asks the hub about the member, before the content of a deleted Work is removed, and about an older Work.
        hub_uid: Which hub it is; empty: it does not say.
        limits: What the agent leaves alone, whatever the Work holds.

    Raises:
        ConflictError: Another client wrote first: try again.
        StoreError: The hub or the member did not answer, or the member did not store the books: try again later. A
            member that refuses an object raises no error: the Work's status says so.
    """
    try:
        work = await hub.get(WORK, key)
    except NotFoundError:
        return GONE
    if is_deleting(work):
        return await _clean_up(work, word, hub, member, now, hub_uid, limits)
    # Before anything is applied: a Work deleted from here on waits for our clean-up, so nothing is left behind.
    work = await _hold(work, hub)
    us = HubMember(hub_uid, key.namespace)
    try:
        outcome, owner = await _apply(work, hub, member, now, memory or Memory(), word, us, limits)
    except ForbiddenError as error:
        work = await hub.get(WORK, key)  # the pass may have written its status
        if (status := forbidden_status(work, str(error), now)) != work.get("status"):
            await hub.replace_status(WORK, {**work, "status": status})
        raise
    if owner is not None:
        # Last: a stand noted before the hub had stored its status would make an intact hub look restored after a crash.
        await note_applied(work, owner, member)
    return outcome


async def _apply(
    work: JsonObject,
    hub: Store,
    member: MemberStore,
    now: datetime,
    memory: Memory,
    word: MemberStateReader,
    us: HubMember,
    limits: MemberLimits,
) -> tuple[WorkOutcome, JsonObject | None]:
    """Apply a Work, and return its AppliedWork, too. None: unset, nothing may be applied.

    Raises:
        ForbiddenError: The agent has lost a right that no single object needs.
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
    if await is_held(work, owner, word, hub, member, now):
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
    # The AppliedWork first: the status stored next drops the left-overs that are still there, and a crash between the
    # two writes in the other order would leave them in neither list.
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
    """Yield an Event for each object that another writer keeps changing, and that the Work's status does not show yet.

    It is written before the status: a pass that is cut off in between writes it again, which changes nothing.
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
    """Put our finalizer on the Work, so that it stays until its objects are gone."""
    with_cleanup = with_finalizer(work, WORK_CLEANUP)
    return work if with_cleanup is None else await hub.replace(WORK, with_cleanup)


async def _process(
    items: Sequence[Manifest | RejectedManifest], steps: Steps, *, single_wave: bool
) -> tuple[list[ManifestResult], dict[ManifestIdentity, JsonObject]]:
    """Process all manifests in waves; return a result for each, in order, and the objects that were applied.

    Raises:
        StoreError: The member has stopped answering; later waves have not started.
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
            if errors:  # while this task waited for its slot, another found that the member does not answer
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
            message += "; the definition in this Work is not in effect yet"
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
    """Divide a wave into what can be applied, and what waits for its definition to come into effect.

    After applying a definition, the pass waits a few seconds for it; objects of other missing kinds wait for a later
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
    word: MemberStateReader,
    hub: Store,
    member: MemberStore,
    now: datetime,
    hub_uid: str,
    limits: MemberLimits,
) -> WorkOutcome:
    """Remove what the Work put on the member, if the hub asks for it, then take our finalizer off the Work."""
    metadata = work["metadata"]
    if (free := without_finalizer(work, WORK_CLEANUP)) is None:
        return GONE
    us = HubMember(hub_uid, metadata["namespace"])
    try:
        content = await _what_is_known(work, us, word, hub, member, now)
        if content.leaving:  # `webhook.member.membership.controller` takes the finalizer off, or the hub does
            return WorkOutcome(metadata.get("generation", 0), "leaving")
        if content.older:
            return HELD
        removed = await remove_content(work, content, hub, member, now, us, limits)
    except (ForbiddenError, NotReleasedError) as error:
        await report_refusal(work, str(error), hub, now)
        raise
    if not removed:
        # Part of the digest: the pace starts over when an obstacle is removed.
        return WorkOutcome(metadata.get("generation", 0), "deleting " + await report_obstacles(work, hub, member, now))
    with suppress(NotFoundError):
        # Over the version that was judged above: if the Work has changed since, ConflictError has it judged again.
        await hub.replace(WORK, free)
    return GONE


def went_early(work: JsonObject) -> bool:
    """Say whether a Work that is gone was deleted without waiting for us, although it had our finalizer.

    An API server that handles an unconditional delete at the moment at which the object gets its first finalizer
    deletes the object all the same. A Work that we have cleaned up carries a deletionTimestamp to the end, and one
    whose finalizer another client took off (the hub, when it gives up a member) has no finalizer: neither went early.

    Args:
        work: Its last state, from the watch.
    """
    metadata = work["metadata"]
    return WORK_CLEANUP in (metadata.get("finalizers") or ()) and not metadata.get("deletionTimestamp")


async def clean_up_after(
    work: JsonObject,
    hub: Store,
    member: MemberStore,
    now: datetime,
    word: MemberStateReader = always_remains,
    *,
    hub_uid: str = "",
    limits: MemberLimits = DEFAULT_LIMITS,
) -> WorkOutcome:
    """Remove what a Work that went early put on the member, if the hub asked for it; may stop anywhere and be repeated.

    Nothing is removed when a Work of that name exists again: it takes over what is there. The agenda gives one name to
    one worker at a time, so no pass over a new Work of that name runs beside this one.

    Args:
        work: Its last state.
        hub: Where it was.
        member: Where its objects are.
        now: Time of the pass.
        word: Asks the hub about the member.
        hub_uid: Which hub it is; empty: it does not say.
        limits: What the agent leaves alone.

    Raises:
        StoreError: The hub or the member did not answer: try again later.
    """
    try:
        await hub.get(WORK, key_of(work))
    except NotFoundError:
        us = HubMember(hub_uid, work["metadata"]["namespace"])
        content = await _what_is_known(work, us, word, hub, member, now)
        if not await remove_content(work, content, hub, member, now, us, limits):
            return WorkOutcome(work["metadata"].get("generation", 0), "deleting")
    return GONE


async def clean_up_without_work(
    name: str, hub: Store, member: MemberStore, now: datetime, us: HubMember, limits: MemberLimits = DEFAULT_LIMITS
) -> None:
    """Release an AppliedWork that another client deletes and that has no Work. Its objects remain, without an owner.

    To remove these objects, an administrator annotates the AppliedWork before deleting it, as the loop does with a
    Work: one with ``harbormaster.dev/remove``, set to its own uid, takes its objects along
    (`scorer.rollout.removal.marks`), under the same rules as a Work. A mere deletion is no order to remove them: all
    AppliedWorks may go together, with their definition or by ``kubectl delete --all``.

    Args:
        name: Of the AppliedWork.
        hub: Where its Work is not.
        member: Where it is.
        now: Time of the pass.
        us: The identity of this member.
        limits: Objects that the agent leaves alone.

    Raises:
        StoreError: The hub or the member did not answer: try again later.
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
    work: JsonObject, us: HubMember, word: MemberStateReader, hub: Store, member: MemberStore, now: datetime
) -> RemovalFacts:
    """Find out what decides the fate of a deleted Work's content; send an Event if its removal was not ordered."""
    is_ordered = is_marked_for_removal(work)
    if not is_ordered:
        await record_event(work, Event(KEPT_WITHOUT_ORDER, NO_ORDER, "Warning"), hub, member, now)
    is_leaving = is_ordered and (await word()).leaving  # without an order everything stays anyway
    is_abandoned = annotation(work, ABANDON) == "true"
    older = is_ordered and not is_leaving and await _is_older(work, us, word, hub, member, now)
    return RemovalFacts(going=True, ordered=is_ordered, abandoned=is_abandoned, leaving=is_leaving, older=older)


async def _is_older(
    work: JsonObject, us: HubMember, word: MemberStateReader, hub: Store, member: MemberStore, now: datetime
) -> bool:
    try:
        owner = await member.get(APPLIED_WORK, Key(work["metadata"]["name"]))
        return ownership_of(owner, us) is not AppliedWorkOwnership.ANOTHERS and await is_held(
            work, owner, word, hub, member, now
        )
    except NotFoundError:  # no AppliedWork to compare with; or the Work went early, and has no status to write
        return False
