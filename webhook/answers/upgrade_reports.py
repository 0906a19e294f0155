"""What upgraders outside report of operations that they were told of by HTTP: it goes into the request.

A report may arrive late, and be sent again by somebody who has seen it. So what has been reported is never taken back
within a phase, and nothing is ever reported of the future.

Source: upgrade-runs.md 13.4.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from scorer.api.documents import name_of, status_of
from scorer.api.kinds import UPGRADE_REQUEST
from scorer.api.meta import JsonObject, format_time
from scorer.api.upgrade.request import UpgradeRequestStatus
from scorer.upgrade.requests import is_of
from webhook.admission.judge import judge
from webhook.kube.cache import Cache
from webhook.kube.ports import ConflictError, InvalidObjectError, Key, NotFoundError, Store
from webhook.validation.context import Context

_ATTEMPTS: Final = 5
_REPORTED: Final = set(UpgradeRequestStatus.model_fields)
"""A report may say more, which is not for the request."""


class UnknownOperationError(Exception):
    """There is no request for the operation."""


class ReportRefusedError(Exception):
    """A report contradicts an earlier one; the message says how."""


class ReportInvalidError(Exception):
    """The hub does not take a report, and never will; the message says why."""


class UpgradeReports:
    """Writes reports into requests.

    Args:
        cache: Finds them.
        store: The hub.
        now: The clock.
    """

    def __init__(self, cache: Cache, store: Store, now: Callable[[], datetime]) -> None:
        self._cache = cache
        self._store = store
        self._now = now

    async def take(self, operation: str, report: UpgradeRequestStatus) -> None:
        """Write what is reported of an operation; what the report leaves out stays as it is.

        Args:
            operation: The id.
            report: The report.

        Raises:
            UnknownOperationError: There is no request for it.
            ReportRefusedError: It goes back behind what was reported before.
            ReportInvalidError: The hub refuses what it says.
            StoreError: The hub does not take it.
        """
        name = next((name_of(each) for each in self._cache.list(UPGRADE_REQUEST) if is_of(each, operation)), None)
        if name is None:
            raise UnknownOperationError(f"there is no request for operation {operation[:320]!r}")
        for attempt in range(_ATTEMPTS):
            request = await self._get(name, operation)
            reported = {**request, "status": self._status(request, report)}
            verdict = judge("UPDATE", reported, request, Context(), subresource="status")
            if not verdict.allowed:
                raise ReportRefusedError(verdict.message)
            try:
                await self._store.replace_status(UPGRADE_REQUEST, reported)
            except InvalidObjectError as error:
                raise ReportInvalidError(f"the hub refuses it: {error}") from error
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
        told = {name: getattr(report, name) for name in ("heartbeat_time", "finished_time")}
        changes: dict[str, Any] = {name: now for name, at in told.items() if at is not None and at > now}
        known = before.get("progressPercent")
        same = report.phase is None or report.phase == before.get("phase")
        if same and isinstance(known, int) and "progress_percent" in report.model_fields_set:
            changes["progress_percent"] = max(known, report.progress_percent)
        shown = report.model_copy(update=changes)
        given = shown.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True, include=_REPORTED)
        return {**before, "heartbeatTime": format_time(now), **given}
