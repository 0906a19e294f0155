"""Apply Works on the member cluster and report what became of them.

One pass over a Work reads everything it needs, brings the member nearer to what the hub wants and
writes the Work's status. It may stop anywhere and be made again: what was under way is written down
before it starts (`PreparingToProcess`), and what belongs to a Work can be told by its owner
reference to the AppliedWork of the same name.

Differences from the reference. Stores here have no server-side apply of their own: with
ServerSideApply the same merge runs against the last manifest, conflicts of field managers are not
seen. An object that is being deleted on the member is not applied to. An object counts as left over
by group, kind and name, so a manifest that moves to another version is not deleted; and also when the
last attempt to apply it failed, since the failure may have come after the write.

Source: rollout.md 11, 13, 14, 18 and 20; KubeFleet pkg/controllers/workapplier.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from scorer.api.conditions import TRUE
from scorer.api.kinds import APPLIED_WORK, KINDS, WORK
from scorer.api.meta import JsonObject, dump_json
from scorer.api.names import LAST_APPLIED, OURS, SPEC_HASH, WORK_CLEANUP
from scorer.api.placement import ApplyStrategy
from scorer.rollout.availability import availability
from scorer.rollout.work_status import ManifestReason, ManifestResult, work_status
from webhook.kube.ports import AlreadyExistsError, Key, NotFoundError, Store, StoreError
from webhook.member.books import applied_work, delete_left_overs, find_all, kinds, let_go, record, recorded, write_ahead
from webhook.member.comparison import differences, missing_object
from webhook.member.manifests import (
    Identity,
    Manifest,
    Rejected,
    decode,
    manifest_hash,
    manifest_result,
)
from webhook.member.merge import three_way_merge
from webhook.member.owners import is_applied_work, is_owned, owner_reference, owners, with_owners
from webhook.member.requeue import Outcome
from webhook.member.waves import plan_waves

ABANDON = OURS + "abandon"
"""Annotation of a Work: on deletion its objects stay on the member (rollout.md 18)."""

ANNOTATIONS_LIMIT = 256 * 1024
"""Bytes of all annotations together, as API servers count them."""

PARALLEL_MANIFESTS = 16

GONE = Outcome(gone=True)


async def reconcile_work(key: Key, hub: Store, member: Store, now: datetime) -> Outcome:
    """Make the member hold what one Work says, and the Work say how that went.

    Level-triggered: everything is read again. Idempotent: a second pass writes nothing on either side,
    except the time of observation where the status lists differences.

    Raises:
        ConflictError: Someone else wrote first: try again.
        StoreError: The hub did not answer, or the member did not keep the books: try again later. A member
            that refuses an object is no error: the Work's status says so.
    """
    try:
        work = await hub.get(WORK, key)
    except NotFoundError:
        return GONE
    if work["metadata"].get("deletionTimestamp"):
        return await _clean_up(work, hub, member)
    work = await _hold(work, hub)
    owner = await applied_work(key, member)
    written = ((work.get("spec") or {}).get("workload") or {}).get("manifests") or []
    find_kind = await kinds(member, written)
    decoded = decode(written, find_kind)
    strategy = ApplyStrategy.read((work.get("spec") or {}).get("applyStrategy") or {})
    if strategy.type != "ReportDiff":
        await delete_left_overs(work, owner, decoded, member, find_kind)
        work = await write_ahead(work, decoded, hub, now)
    run = _Pass(
        work_namespace=key.namespace,
        owner=owner_reference(owner),
        strategy=strategy,
        reports_status=_reports_status(work),
        hub=hub,
        member=member,
    )
    results, live = await run.process(decoded)
    await record(owner, decoded, live, member)
    status = work_status(work, results, now)
    if status != work.get("status"):
        work = await hub.replace_status(WORK, {**work, "status": status})
    return _outcome(work["metadata"].get("generation", 0), status)


def _outcome(generation: int, status: JsonObject) -> Outcome:
    conditions = [status["conditions"], *(entry["conditions"] for entry in status["manifestConditions"])]
    digest = ";".join(
        ",".join(f"{condition['type']}={condition['reason']}" for condition in group) for group in conditions
    )
    done = {condition["type"] for condition in status["conditions"] if condition["status"] == TRUE}
    return Outcome(generation, digest, settled=bool(done & {"Available", "DiffReported"}))


def _reports_status(work: JsonObject) -> bool:
    strategy = (work.get("spec") or {}).get("reportBackStrategy") or {}
    return bool(strategy.get("type") == "Mirror")


async def _hold(work: JsonObject, hub: Store) -> JsonObject:
    """Put our finalizer on the Work, so that it stays until its objects are gone."""
    metadata = work["metadata"]
    finalizers = list(metadata.get("finalizers") or ())
    if WORK_CLEANUP in finalizers:
        return work
    return await hub.replace(WORK, {**work, "metadata": {**metadata, "finalizers": [*finalizers, WORK_CLEANUP]}})


@dataclass(frozen=True, slots=True)
class _Pass:
    """What is the same for all manifests of one pass."""

    work_namespace: str
    owner: JsonObject
    strategy: ApplyStrategy
    reports_status: bool
    hub: Store
    member: Store

    async def process(
        self, decoded: Sequence[Manifest | Rejected]
    ) -> tuple[list[ManifestResult], dict[Identity, JsonObject]]:
        """Process all manifests in waves; return a result for each, in order, and the objects that were applied."""
        results = {
            item.ordinal: manifest_result(item, item.reason, item.message)
            for item in decoded
            if isinstance(item, Rejected)
        }
        live: dict[Identity, JsonObject] = {}
        slots = asyncio.Semaphore(PARALLEL_MANIFESTS)

        async def one(item: Manifest) -> None:
            async with slots:
                result, document = await self._manifest(item)
            results[item.ordinal] = result
            if document is not None and result.applied:
                live[item.identity] = document

        manifests = [item for item in decoded if isinstance(item, Manifest)]
        for wave in plan_waves(manifests, at_once=self._reports_diff):
            async with asyncio.TaskGroup() as group:
                for item in wave:
                    group.create_task(one(item))
        return [results[ordinal] for ordinal in sorted(results)], live

    @property
    def _reports_diff(self) -> bool:
        return self.strategy.type == "ReportDiff"

    async def _manifest(self, item: Manifest) -> tuple[ManifestResult, JsonObject | None]:
        """Take one manifest through the steps of rollout.md 11.5."""
        try:
            live: JsonObject | None = await self.member.get(item.kind, item.key)
        except NotFoundError:
            live = None
        except StoreError as error:
            return manifest_result(item, ManifestReason.FAILED_TO_FIND, str(error)), None
        if live is not None and not is_owned(live, self.owner) and self.strategy.when_to_take_over != "Never":
            try:
                live = await self._take_over(item, live)
            except _TakeOverError as refusal:
                message, diffs = str(refusal), refusal.differences
                return manifest_result(item, ManifestReason.FAILED_TO_TAKE_OVER, message, live, diffs=diffs), live
            except StoreError as error:
                return manifest_result(item, ManifestReason.FAILED_TO_TAKE_OVER, str(error), live), live
        if self._reports_diff:
            return self._difference(item, live), live
        if live is not None and not is_owned(live, self.owner):
            message = "the object was there before, and whenToTakeOver is Never"
            return manifest_result(item, ManifestReason.NOT_TAKEN_OVER, message, live), live
        if drifts := self._drifts_before(item, live):
            message = (
                f"{len(drifts)} fields were changed on the member; not applied, because whenToApply is IfNotDrifted"
            )
            return manifest_result(item, ManifestReason.FOUND_DRIFTS, message, live, drifts=drifts), live
        try:
            live = await self._apply(item, live)
        except StoreError as error:
            return manifest_result(item, ManifestReason.APPLY_FAILED, str(error), live), live
        return self._applied(item, live), live

    async def _take_over(self, item: Manifest, live: JsonObject) -> JsonObject:
        """Add our owner reference to an object that was there before, and change nothing else.

        Raises:
            _TakeOverError: It belongs to someone else, or differs and whenToTakeOver is IfNoDiff.
        """
        kept = [owner for owner in owners(live) if not await self._left_behind(owner)]
        for owner in filter(is_applied_work, kept):
            raise _TakeOverError(f"another placement put the object here: AppliedWork {owner['name']} owns it")
        if kept and not self.strategy.allow_co_ownership:
            names = ", ".join(f"{owner['kind']} {owner['name']}" for owner in kept)
            raise _TakeOverError(f"owned by {names}, and allowCoOwnership is false")
        if self.strategy.when_to_take_over == "IfNoDiff":
            found = differences(item.kind, item.document, live, full=self._compares_fully)
            if found:
                raise _TakeOverError(f"{len(found)} fields differ, and whenToTakeOver is IfNoDiff", found)
        return await self.member.replace(item.kind, with_owners(live, [*kept, self.owner]))

    async def _left_behind(self, owner: Mapping[str, Any]) -> bool:
        """Say whether *owner* is an AppliedWork whose Work is gone, or an earlier one of our own Work."""
        if not is_applied_work(owner):
            return False
        if owner["name"] == self.owner["name"]:
            return True
        try:
            await self.hub.get(WORK, Key(owner["name"], self.work_namespace))
        except NotFoundError:
            return True
        return False

    @property
    def _compares_fully(self) -> bool:
        return self.strategy.comparison_option == "FullComparison"

    def _difference(self, item: Manifest, live: JsonObject | None) -> ManifestResult:
        if live is None:
            return manifest_result(
                item, ManifestReason.FOUND_DIFF, "the member does not have the object", diffs=missing_object()
            )
        found = differences(item.kind, item.document, live, full=self._compares_fully)
        if found:
            return manifest_result(item, ManifestReason.FOUND_DIFF, f"{len(found)} fields differ", live, diffs=found)
        return manifest_result(item, ManifestReason.NO_DIFF_FOUND, "no field differs", live)

    def _drifts_before(self, item: Manifest, live: JsonObject | None) -> tuple[JsonObject, ...]:
        if live is None or self.strategy.when_to_apply != "IfNotDrifted":
            return ()
        annotations = live["metadata"].get("annotations") or {}
        if annotations.get(SPEC_HASH) != manifest_hash(item.document):
            return ()
        return differences(item.kind, item.document, live, full=self._compares_fully)

    async def _apply(self, item: Manifest, live: JsonObject | None) -> JsonObject:
        """Create the object, or merge the manifest into it. Raises `StoreError`."""
        if live is None:
            wanted = _annotated(three_way_merge(item.kind, {}, item.document, {}), item.document, {})
            try:
                return await self.member.create(item.kind, with_owners(wanted, [self.owner]))
            except AlreadyExistsError as error:
                raise StoreError(f"someone else created the object in the same moment: {error}") from error
        if live["metadata"].get("deletionTimestamp"):
            raise StoreError("the object is being deleted on the member; it is applied once it is gone")
        others = [owner for owner in owners(live) if owner["uid"] != self.owner["uid"]]
        if others and not self.strategy.allow_co_ownership:
            names = ", ".join(f"{owner['kind']} {owner['name']}" for owner in others)
            raise StoreError(f"also owned by {names}, and allowCoOwnership is false")
        merged = three_way_merge(item.kind, _last_applied(live), item.document, live)
        merged = _annotated(merged, item.document, live)
        return live if merged == live else await self.member.replace(item.kind, merged)

    def _applied(self, item: Manifest, live: JsonObject) -> ManifestResult:
        drifts: tuple[JsonObject, ...] = ()
        message = "applied"
        if self._compares_fully:
            drifts = differences(item.kind, item.document, live, full=True)
            message = f"applied; {len(drifts)} fields differ from the manifest" if drifts else message
        return manifest_result(
            item,
            ManifestReason.APPLIED,
            message,
            live,
            availability=availability(live),
            drifts=drifts,
            observed_status=(live.get("status") or {}) if self.reports_status else None,
        )


class _TakeOverError(Exception):
    """The object stays with whom it belongs to."""

    def __init__(self, message: str, found: tuple[JsonObject, ...] = ()) -> None:
        super().__init__(message)
        self.differences = found


def _last_applied(live: JsonObject) -> JsonObject:
    """Return the manifest applied last time; empty when none is kept or it is not readable."""
    text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED) or "{}"
    try:
        last = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return last if isinstance(last, dict) else {}


def _annotated(document: JsonObject, manifest: JsonObject, live: JsonObject) -> JsonObject:
    """Return *document* with the manifest and its hash in its annotations.

    A manifest that is too large for an annotation is left out: nothing is then removed next time.
    """
    annotations = dict(document["metadata"].get("annotations") or {})
    annotations[SPEC_HASH] = manifest_hash(manifest)
    text = dump_json(manifest).decode()
    before = (live.get("metadata", {}).get("annotations") or {}).get(LAST_APPLIED)
    if before is not None and before != text and _same(before, manifest):
        text = before  # only the order of members differs
    others = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items() if key != LAST_APPLIED)
    fits = others + len(LAST_APPLIED) + len(text.encode()) <= ANNOTATIONS_LIMIT
    annotations[LAST_APPLIED] = text if fits else ""
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}


def _same(text: str, manifest: JsonObject) -> bool:
    try:
        return bool(orjson.loads(text) == manifest)
    except orjson.JSONDecodeError:
        return False


async def _clean_up(work: JsonObject, hub: Store, member: Store) -> Outcome:
    """Remove what the Work put on the member, then let the Work go."""
    metadata = work["metadata"]
    finalizers = list(metadata.get("finalizers") or ())
    if WORK_CLEANUP not in finalizers:
        return GONE
    key = Key(metadata["name"])
    try:
        owner = await member.get(APPLIED_WORK, key)
    except NotFoundError:
        owner = None
    if owner is not None:
        if (metadata.get("annotations") or {}).get(ABANDON) == "true":
            known = recorded(work, owner)
            find_kind = await find_all(known, lambda group, kind: KINDS.get((group, kind)), member)
            for identity in known:
                kind = find_kind(identity.group, identity.kind)
                if kind is not None:
                    await let_go(kind, Key(identity.name, identity.namespace), owner, member, delete=False)
        if not await _deleted(key, owner, member):
            return Outcome(metadata.get("generation", 0), "deleting")
    rest = [finalizer for finalizer in finalizers if finalizer != WORK_CLEANUP]
    try:
        await hub.replace(WORK, {**work, "metadata": {**metadata, "finalizers": rest}})
    except NotFoundError:
        return GONE
    return GONE


async def _deleted(key: Key, owner: JsonObject, member: Store) -> bool:
    """Delete the AppliedWork, and with it what it owns; say whether it is gone."""
    try:
        if not owner["metadata"].get("deletionTimestamp"):
            await member.delete(APPLIED_WORK, key, uid=owner["metadata"]["uid"])
        await member.get(APPLIED_WORK, key)
    except NotFoundError:
        return True
    return False
