"""Reports of external upgraders on operations that they received over HTTP. They are written into the request.

A report may arrive late, or be replayed by a client that has intercepted it. So it counts for the latest attempt only,
and changes nothing once the attempt has ended. Within a phase, progress never decreases. During the upgrade, a report
with an earlier heartbeat is refused. Times in the future are replaced by the time of arrival.

Source: docs/specifications/upgrade-runs.md 13.4.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from scorer.api.kinds import UPGRADE_REQUEST
from scorer.api.meta import JsonObject, format_time, parse_time
from scorer.api.unstructured.documents import name_of, status_of
from scorer.api.upgrade.request import RequestPhase, UpgradeRequestStatus
from scorer.upgrade.back_ends.requests import ENDED, is_of, later_attempt
from webhook.admission.judge import judge
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import ConflictError, InvalidObjectError, Key, NotFoundError, Store
from webhook.validation.framework.context import Context

_ATTEMPTS: Final = 5
_REPORTED: Final = set(UpgradeRequestStatus.model_fields)
"""Fields of a report that are written into the request. Others are ignored."""


class UnknownOperationError(Exception):
    """No request exists for the operation."""


class ReportRefusedError(Exception):
    """A report contradicts an earlier one, or its attempt is not the latest. The message has the details."""


class ReportInvalidError(Exception):
    """The hub refuses a report permanently. The message has the reason."""


class UpgradeReports:
    """Writes reports into requests.

    Args:
        cache: The hub's objects, to find requests.
        store: The hub.
        now: The clock.
    """

    def __init__(self, cache: Cache, store: Store, now: Callable[[], datetime]) -> None:
        self._cache = cache
        self._store = store
        self._now = now

    async def record(self, operation: str, report: UpgradeRequestStatus) -> None:
        """Write a report on an operation. Fields that the report omits are unchanged.

        A replay of the final report changes nothing.

        Args:
            operation: ID of the operation.
            report: The report.

        Raises:
            UnknownOperationError: No request exists for the operation.
            ReportRefusedError: The report contradicts an earlier one or a rule of admission, or a later attempt has
                started.
            ReportInvalidError: The hub refuses the content of the report.
            StoreError: The hub does not respond, or every attempt to write conflicts with another write.
        """
        requests = self._cache.list(UPGRADE_REQUEST)
        name = next((name_of(request) for request in requests if is_of(request, operation)), None)
        if name is None:
            raise UnknownOperationError(f"there is no request for operation {operation[:320]!r}")
        if later := later_attempt(operation, requests):
            raise ReportRefusedError(f"operation {operation!r} is finished: attempt {later} of its member has started")
        for attempt in range(_ATTEMPTS):
            request = await self._get(name, operation)
            updated_request = {**request, "status": self._status(request, report)}
            if status_of(request).get("phase") in ENDED and _content(updated_request) == _content(request):
                return  # a replay: its later heartbeat must not make old content look new
            verdict = judge("UPDATE", updated_request, request, Context(), subresource="status")
            if not verdict.allowed:
                raise ReportRefusedError(verdict.message)
            if reason := _goes_back(status_of(request), report):
                raise ReportRefusedError(f"operation {operation!r} {reason}")
            try:
                await self._store.replace_status(UPGRADE_REQUEST, updated_request)
            except InvalidObjectError as error:
                raise ReportInvalidError(f"the hub refuses the report: {error}") from error
            except ConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return

    async def _get(self, name: str, operation: str) -> JsonObject:
        try:
            request = await self._store.get(UPGRADE_REQUEST, Key(name))
        except NotFoundError:
            request = {}
        if not is_of(request, operation):
            raise UnknownOperationError(f"there is no request for operation {operation[:320]!r}")
        return request

    def _status(self, request: JsonObject, report: UpgradeRequestStatus) -> JsonObject:
        now, before = self._now(), status_of(request)
        report_fields = {name: getattr(report, name) for name in ("heartbeat_time", "finished_time")}
        changes: dict[str, Any] = {name: now for name, at in report_fields.items() if at is not None and at > now}
        previous = before.get("progressPercent")
        is_same_phase = report.phase is None or report.phase == before.get("phase")
        if is_same_phase and isinstance(previous, int) and "progress_percent" in report.model_fields_set:
            changes["progress_percent"] = max(previous, report.progress_percent)
        merged_report = report.model_copy(update=changes)
        values = merged_report.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude_unset=True, include=_REPORTED
        )
        return {**before, "heartbeatTime": format_time(now), **values}


def _content(request: JsonObject) -> JsonObject:
    """Return the content of a status without its times: those in the future are replaced when a report arrives."""
    return {key: value for key, value in status_of(request).items() if key not in ("heartbeatTime", "finishedTime")}


def _goes_back(before: JsonObject, report: UpgradeRequestStatus) -> str:
    """Return why a report is too late, or an empty string if it is not.

    Phases only move forward, so a report that changes the phase was never accepted before. In phase Accepted, the
    heartbeat may be the hub's, and the clock of an upgrader may be behind.
    """
    phase = before.get("phase")
    if phase in ENDED:
        return f"is finished: {phase} was already reported"
    if phase != RequestPhase.IN_PROGRESS or report.phase not in (None, phase) or report.heartbeat_time is None:
        return ""
    try:
        last = parse_time(str(before.get("heartbeatTime") or ""))
    except ValueError:
        return ""
    if report.heartbeat_time >= last:
        return ""
    return f"reports heartbeatTime {format_time(report.heartbeat_time)}, but {format_time(last)} was reported before"
