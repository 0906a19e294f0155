"""The apply of one manifest: find, take over, compare, write, compare again.

Under ReportDiff the steps are find and compare. A comparison takes nothing over, because an object with our owner
reference would be deleted with its placement (rollout.md 14). The only write of a comparison releases an object that an
earlier version of the agent took over for comparison.

Every step fails with its own reason. After a conflict with another writer, the steps are retried from the object's new
state. They are also retried once after the member failed to answer. A refusal affects only the manifest of the refused
object. Only a hub that does not respond, or a member that answers no request at all, aborts the whole pass, because no
object's state is known then.

Source: docs/specifications/rollout.md 11.5.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

import orjson

from scorer.api.kinds import APPLIED_WORK, WORK
from scorer.api.meta import JsonObject
from scorer.api.names import RUN_AGAIN, SPEC_HASH
from scorer.api.placement.apply_strategy import ApplyStrategy
from scorer.api.unstructured.documents import annotations_of, is_deleting, status_of
from scorer.api.values.quoting import format_count
from scorer.membership.identity import AppliedWorkOwnership, HubMember, ownership_of
from scorer.rollout.works.availability import availability
from scorer.rollout.works.status import ManifestReason, ManifestResult
from webhook.access.rights import CONTROL_PLANE, CONTROL_PLANE_GROUPS
from webhook.kube.ports import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    Key,
    NotFoundError,
    Store,
    StoreError,
    UnavailableError,
)
from webhook.member.apply.comparison import DriftComparison, compare, missing_object, unknown_differences
from webhook.member.apply.contention import ContestedObjects
from webhook.member.apply.fingerprints import content
from webhook.member.apply.writer import Writer
from webhook.member.objects.field_managers import is_field_conflict
from webhook.member.objects.job_runs import JobRun, JobRuns, runs_once
from webhook.member.objects.ledger import ATTEMPTS, still_answers
from webhook.member.objects.manifests import Manifest, ManifestKinds, manifest_hash, manifest_result
from webhook.member.objects.owner_references import (
    is_applied_work,
    is_freed,
    is_owned,
    owner_reference,
    owners,
    unfreed,
    was_compared,
    with_owners,
    without_owner,
)
from webhook.member.store.ports import MemberStore

RETRY_SECONDS: Final = 0.5
"""Pause before the single retry after the member failed to answer."""

UNKNOWN_MANAGER: Final = (
    "managedFields was reset, and the last manifest was too large for an annotation. On the member, remove the "
    "fields that you no longer need"
)

Processed: TypeAlias = tuple[ManifestResult, JsonObject | None]
"""The result of a manifest, and the object on the member if it exists."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Processes the manifests of one Work.

    Args:
        us: The identity of this member.
        applied_work: The AppliedWork that will own the objects.
        strategy: Apply strategy of the Work.
        reports_status: Whether to report the status of the objects to the hub.
        hub: Store of the Works.
        member: Store of the objects.
        writer: Writes the objects.
        rivals: Other clients that keep changing objects.
        jobs: The Jobs that must not run twice.
        now: Time of the pass.
    """

    us: HubMember
    applied_work: JsonObject
    strategy: ApplyStrategy
    reports_status: bool
    hub: Store
    member: MemberStore
    writer: Writer
    rivals: ContestedObjects
    jobs: JobRuns
    now: datetime

    async def process(self, item: Manifest) -> Processed:
        """Bring one object closer to its manifest.

        Raises:
            StoreError: The hub does not respond, or the member does not, even for other objects.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._process(item)
            except _FailedError as failure:
                if await self._is_worth_another(failure.error, attempt):
                    continue
                if isinstance(failure.error, UnavailableError):
                    await still_answers(self.member, self.applied_work)
                if isinstance(failure.error, NotFoundError) and not await self._is_served(item):
                    kind = item.kind
                    message = ManifestKinds(self.member.served.kinds).problem(*kind.group_kind, item.version)
                    return manifest_result(item, ManifestReason.DECODING_ERRED, message), None
                if isinstance(failure.error, ConflictError) and not _is_final(failure.error) and failure.live:
                    self.rivals.changed(item, failure.live, None, self.now)
                    if self.rivals.rival(item):
                        return self._contested(item), failure.live
                return failure.result(item), failure.live

    async def _is_worth_another(self, error: StoreError, attempt: int) -> bool:
        match error:
            case ConflictError() | AlreadyExistsError() if not _is_final(error):
                return attempt < ATTEMPTS
            case UnavailableError() if attempt == 1:
                await asyncio.sleep(RETRY_SECONDS)
                return True
        return False

    async def _is_served(self, item: Manifest) -> bool:
        """Return whether the member still serves the kind. Its definition may have been deleted since discovery."""
        await self.member.served.refresh()
        return ManifestKinds(self.member.served.kinds).serves(item.kind)

    @property
    def _owner(self) -> JsonObject:
        return owner_reference(self.applied_work)

    @property
    def _compares_fully(self) -> bool:
        return self.strategy.comparison_option == "FullComparison"

    async def _process(self, item: Manifest) -> Processed:
        """Run the steps in order. Raises `_FailedError` at the one that fails."""
        live = await self._find(item)
        if self.strategy.type == "ReportDiff":
            if live is not None and was_compared(live, self._owner["name"]):
                with _step(ManifestReason.FAILED_TO_REPORT_DIFF, live, "not released by this agent: "):
                    live = await self.member.replace(item.kind, without_owner(live, self._owner["name"]) or live)
            return await self._report_difference(item, live), live
        is_job = runs_once(item)
        if is_job and (live is None or is_deleting(live)) and (run := await self.jobs.past_run(item)) is not None:
            return _not_repeated(item, run), None
        if live is not None and self.rivals.holds_back(item, live, self.now):
            return self._contested(item), live
        before = live
        if live is not None and not is_owned(live, self._owner) and self._may_take_over(live):
            remaining = [owner for owner in owners(live) if not await self._left_behind(owner)]
            with _step(ManifestReason.FAILED_TO_TAKE_OVER, live):
                live = await self._take_over(item, live, remaining)
        if live is not None and not is_owned(live, self._owner):
            message = "the object already existed, and whenToTakeOver is Never"
            return manifest_result(item, ManifestReason.NOT_TAKEN_OVER, message, live), live
        if live is not None and (drifted := await self._drift_before(item, live)) is not None:
            return drifted, live
        live = await self._apply_once(item, live) if is_job else await self._apply(item, live)
        if before is not None and live is not before and content(live) != content(before):
            self.rivals.changed(item, before, live, self.now)
        else:
            self.rivals.unchanged(item, self.now)
        return self._contested(item) if self.rivals.rival(item) else await self._applied(item, live), live

    async def _apply(self, item: Manifest, live: JsonObject | None) -> JsonObject:
        with _step(ManifestReason.APPLY_FAILED, live):
            return await self.writer.apply(item, live)

    async def _apply_once(self, item: Manifest, live: JsonObject | None) -> JsonObject:
        """Apply a Job that must not run twice. Its start is recorded before it is created.

        Raises:
            _FailedError: The start could not be recorded, or the Job could not be applied.
        """
        if live is None and (refusal := await self.jobs.record_start(item)):
            raise _FailedError(ManifestReason.APPLY_FAILED, StoreError(refusal), live)
        try:
            live = await self._apply(item, live)
        except _FailedError as failure:
            await self.jobs.record_failure(item, failure.error)
            raise
        self.jobs.record_job(item, live)
        return live

    def _contested(self, item: Manifest) -> ManifestResult:
        """Return the result of a contested object, without its generation, which may rise with each change."""
        message = (
            f"another client keeps changing the object: {self.rivals.rival(item)}. The agent applies it less often "
            "until that stops"
        )
        return manifest_result(item, ManifestReason.ANOTHER_WRITER, message)

    def _may_take_over(self, live: JsonObject) -> bool:
        return self.strategy.when_to_take_over != "Never" or self._was_ours(live)

    def _was_ours(self, live: JsonObject) -> bool:
        """Return whether the object was freed from an earlier AppliedWork: see `webhook.member.deletion.orphans`."""
        return is_freed(live, self._owner["name"], self.us)

    async def _find(self, item: Manifest) -> JsonObject | None:
        with _step(ManifestReason.FAILED_TO_FIND, None):
            try:
                return await self.member.get(item.kind, item.key)
            except NotFoundError:
                return None

    async def _take_over(self, item: Manifest, live: JsonObject, owner_references: list[JsonObject]) -> JsonObject:
        """Add our owner reference to an existing object. Changes only its owners and its mark.

        Args:
            item: The manifest.
            live: The object.
            owner_references: Owners of the object that remain.

        Raises:
            _FailedError: The object has another owner, or differs and whenToTakeOver is IfNoDiff.
            StoreError: The member refuses.
        """
        for owner in filter(is_applied_work, owner_references):
            message = f"the object belongs to another placement: AppliedWork {owner['name']} owns it"
            raise _FailedError(ManifestReason.FAILED_TO_TAKE_OVER, StoreError(message), live)
        if owner_references and not self.strategy.allow_co_ownership:
            names = ", ".join(f"{owner['kind']} {owner['name']}" for owner in owner_references)
            message = f"owned by {names}, and allowCoOwnership is false"
            raise _FailedError(ManifestReason.FAILED_TO_TAKE_OVER, StoreError(message), live)
        if self.strategy.when_to_take_over == "IfNoDiff" and not self._was_ours(live):
            comparison = await compare(item, live, self.member, full=self._compares_fully)
            if comparison.details:
                message = f"{_differing(comparison)}, and whenToTakeOver is IfNoDiff"
                raise _FailedError(ManifestReason.FAILED_TO_TAKE_OVER, StoreError(message), live, comparison.details)
        # At the version that was checked: an owner added since then causes a conflict and a retry. Example: a Helm
        # operator adds itself as the owner between our read and our write. Without the version, its reference would be
        # overwritten, and the object would be deleted with our placement.
        return await self.member.replace(item.kind, unfreed(with_owners(live, [*owner_references, self._owner])))

    async def _left_behind(self, owner: Mapping[str, Any]) -> bool:
        """Return whether *owner* is an AppliedWork that is left behind, or an earlier one of this Work.

        Released AppliedWorks are left behind, and so are those of this member whose Work no longer exists. Our hub has
        no record of another member's AppliedWork, so that one counts as an owner.

        Raises:
            StoreError: The hub or the member did not respond.
        """
        if not is_applied_work(owner):
            return False
        if owner["name"] == self._owner["name"]:
            return True
        with suppress(NotFoundError):
            applied_work = await self.member.get(APPLIED_WORK, Key(owner["name"]))
            if applied_work["metadata"]["uid"] == owner["uid"]:
                match ownership_of(applied_work, self.us):
                    case AppliedWorkOwnership.LET_GO:
                        return True
                    case AppliedWorkOwnership.ANOTHERS:
                        return False
        try:
            await self.hub.get(WORK, Key(owner["name"], self.us.namespace))
        except NotFoundError:
            return True
        return False

    async def _report_difference(self, item: Manifest, live: JsonObject | None) -> ManifestResult:
        if live is None:
            message = "the object does not exist on the member"
            return manifest_result(item, ManifestReason.FOUND_DIFF, message, diffs=missing_object())
        with _step(ManifestReason.FAILED_TO_REPORT_DIFF, live):
            comparison = await compare(item, live, self.member, full=self._compares_fully)
        if not comparison.details:
            return manifest_result(item, ManifestReason.NO_DIFF_FOUND, "no field differs", live)
        reason = ManifestReason.FOUND_DIFF_DEGRADED if comparison.degraded else ManifestReason.FOUND_DIFF
        return manifest_result(item, reason, _differing(comparison), live, diffs=comparison.details)

    async def _drift_before(self, item: Manifest, live: JsonObject) -> ManifestResult | None:
        """Return the result of a manifest that is not reapplied because its object drifted, else None."""
        annotations = annotations_of(live)
        if self.strategy.when_to_apply != "IfNotDrifted" or annotations.get(SPEC_HASH) != manifest_hash(item.document):
            return None
        with _step(ManifestReason.APPLY_FAILED, live, "not applied, because the check for drift failed: "):
            comparison = await compare(item, live, self.member, full=self._compares_fully)
        if not comparison.details:
            return None
        reason = ManifestReason.FOUND_DRIFTS_DEGRADED if comparison.degraded else ManifestReason.FOUND_DRIFTS
        drift = f"{format_count(len(comparison.details), 'field')} changed on the member"
        message = f"{drift}: not applied, because whenToApply is IfNotDrifted"
        return manifest_result(item, reason, message, live, drifts=comparison.details)

    async def _applied(self, item: Manifest, live: JsonObject) -> ManifestResult:
        reason, message, comparison, unknown = ManifestReason.APPLIED, "applied", DriftComparison(()), 0
        try:
            details = unknown_differences(item, live)
            unknown = len(details)
            comparison = (
                await compare(item, live, self.member, full=True) if self._compares_fully else DriftComparison(details)
            )
        except StoreError as error:
            reason = ManifestReason.APPLIED_WITH_FAILED_DRIFT_DETECTION
            message = f"applied, but the check for drift failed: {error}"
        if unknown:
            fields = format_count(unknown, "field")
            message = f"applied, but an earlier manifest may have set {fields} that this one omits: {UNKNOWN_MANAGER}"
        elif comparison.details:
            message = (
                f"applied, but the object differs from the manifest in {format_count(len(comparison.details), 'field')}"
            )
        return manifest_result(
            item,
            reason,
            message,
            live,
            availability=availability(live),
            drifts=comparison.details,
            observed_status=status_of(live) if self.reports_status else None,
        )


def _differing(comparison: DriftComparison) -> str:
    """Return the number of fields that differ, as text."""
    count = len(comparison.details)
    return f"{format_count(count, 'field')} {'differs' if count == 1 else 'differ'}"


def _not_repeated(item: Manifest, run: JobRun) -> ManifestResult:
    """Return the result of a Job that does not exist and is not created, because it has run or may have run."""
    again = (
        f"To run it again, set the annotation {RUN_AGAIN}={run.manifest} on the Job on the hub. If it is already set "
        "to this value, remove it first"
    )
    if run.uid:
        message = f"the Job was created with uid {run.uid} and has been deleted. {again}"
        return manifest_result(item, ManifestReason.APPLIED, message, availability=availability(item.document))
    message = (
        "it is unknown whether the Job has run: the agent was interrupted while it created the Job, or an earlier "
        f"release did not record the run. {again}"
    )
    return manifest_result(item, ManifestReason.JOB_RUN_UNKNOWN, message)


class _FailedError(Exception):
    """A failed step.

    Args:
        reason: Reason of the step.
        error: The cause.
        live: The object, if it exists.
        differences: The differences that made the step fail, if any.
        words: Prefix of the error's message.
    """

    def __init__(
        self,
        reason: ManifestReason,
        error: StoreError,
        live: JsonObject | None,
        differences: tuple[JsonObject, ...] = (),
        words: str = "",
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.live = live
        self._reason = reason
        self._differences = differences
        self._words = words

    def result(self, item: Manifest) -> ManifestResult:
        """Return the result for the Work's status."""
        message = f"{self._words}{self.error}"
        if isinstance(self.error, ForbiddenError) and item.kind.group in CONTROL_PLANE_GROUPS:
            message += f"; {CONTROL_PLANE.advice}"
        return manifest_result(item, self._reason, message, self.live, diffs=self._differences)


@contextmanager
def _step(reason: ManifestReason, live: JsonObject | None, words: str = "") -> Iterator[None]:
    """Turn an error of the member, or an object that is nested too deeply, into a `_FailedError`."""
    try:
        yield
    except StoreError as error:
        raise _FailedError(reason, error, live, words=words) from error
    except (RecursionError, orjson.JSONEncodeError) as error:
        raise _FailedError(reason, StoreError("the object is nested too deeply"), live, words=words) from error


def _is_final(error: StoreError) -> bool:
    return isinstance(error, ConflictError) and is_field_conflict(error)
