"""Hands upgrades off to an external upgrader: a script, a pipeline, or a cloud provider's operator.

The upgrader watches ClusterUpgradeRequests, or receives them by HTTP. It reports in their status. A request has a phase
once the upgrader has acknowledged it.

A failed post is retried, but only until the start deadline: the upgrader must not start an operation that the run has
abandoned. For the same reason, an unclaimed request is closed at the deadline. It cannot be claimed later, and the
member is free. Posted requests are not closed: a failed call may have arrived, so an upgrade may be running, and its
end must be reported (10.4).

Source: docs/specifications/upgrade-runs.md 10.4 and 13.4.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from scorer.api.meta import JsonObject, format_time
from scorer.api.upgrade.fields import UpgradeError
from scorer.upgrade.back_ends.interface import (
    CancelResult,
    Capabilities,
    Inventory,
    Issue,
    Observation,
    Operation,
    OperationState,
    Rejected,
    Started,
    StartResult,
    Target,
)
from scorer.upgrade.back_ends.requests import may_begin, observation_of, request_note
from webhook.controllers.upgraders.delivery import Delivery, NotDeliveredError
from webhook.controllers.upgraders.upgrade_requests import UpgradeRequestStore
from webhook.controllers.upgraders.upgrader import MemberRef, Workplace
from webhook.settings.upgraders import HAND_OFF

FIRST_PAUSE: Final = timedelta(seconds=5)
LONGEST_PAUSE: Final = timedelta(minutes=5)
"""Maximum backoff of posts for one operation, as for all calls (13.1)."""
_LONGEST_SAID: Final = 300
_CLOSED: Final = "no upgrader accepted it in time"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Backoff:
    """Backoff of a failed post: time of the failure, and delay."""

    since: datetime
    pause: timedelta = FIRST_PAUSE

    def lasts(self, now: datetime) -> bool:
        """Return whether the post is backed off. A clock that was set back ends the backoff."""
        return timedelta() <= now - self.since < self.pause


class HandOff:
    """Creates requests and reads their status."""

    name = HAND_OFF
    capabilities = Capabilities(cancel=True)

    def __init__(self, place: Workplace) -> None:
        self._now = place.now
        self._requests = UpgradeRequestStore(place.hub, place.now)
        self._delivery = Delivery(place.options.hand_off) if place.options.hand_off.url else None
        self._patience = place.options.call.total_seconds() / 2
        """Timeout of a post, in seconds.

        Shorter than that of the call, so that the request's status is returned anyway.
        """
        self._backoffs: dict[str, _Backoff] = {}
        """Backoffs by operation."""

    async def inspect(self, member: MemberRef) -> Inventory | None:
        """Return the inventory of a cluster as reported by its upgrader or its annotation. None: unknown."""
        return self._requests.inventory(member)

    async def preflight(self, member: MemberRef, target: Target) -> Sequence[Issue]:  # noqa: ARG002 - as the others
        """Return no issues: the upgrader has not been contacted yet."""
        return ()

    async def start_upgrade(self, operation: Operation) -> StartResult:
        """Create the request, and post it if a URL is configured."""
        request_answer = await self._requests.make(operation)
        request = self._requests.find(operation)
        if isinstance(request_answer, Rejected) or request is None or not observation_of(request).unclaimed:
            return request_answer
        delivery = await self._tell(request)
        return delivery if isinstance(delivery, Rejected) else request_answer

    async def observe(self, operation: Operation) -> Observation:
        """Return the status of the request, even if it cannot be posted."""
        request = self._requests.find(operation)
        if request is None:
            return Observation(OperationState.UNKNOWN)
        observation = observation_of(request)
        if observation.unclaimed:
            observation = await self._unclaimed(operation, request, observation)
            request = self._requests.find(operation) or request
        else:
            self._backoffs.pop(operation.id, None)
        if not observation.in_flight:
            await self._requests.note(request)
        remark = request_note(request, self._now())
        if remark is None:
            return observation
        reason, message = remark
        return observation.with_remark(reason, f"{message}: {observation.trouble}" if observation.trouble else message)

    async def _unclaimed(self, operation: Operation, request: JsonObject, observation: Observation) -> Observation:
        """Post or close an unclaimed request. Return the observation after that."""
        if self._delivery is None:
            if not operation.given_up:
                return observation
            finish_time = format_time(self._now())
            closed_request = await self._requests.report(
                request, phase="Cancelled", message=_CLOSED, finishedTime=finish_time
            )
            return observation_of(closed_request)
        if operation.given_up or not may_begin(request, self._now()):
            return observation
        cached = self._backoffs.get(operation.id)
        if cached is not None and cached.lasts(self._now()):
            return observation
        try:
            async with asyncio.timeout(self._patience):
                delivery = await self._tell(request)
        except (NotDeliveredError, TimeoutError) as error:
            return replace(observation, trouble=self._back_off(operation, cached, error))
        self._backoffs.pop(operation.id, None)
        if isinstance(delivery, Rejected):
            return Observation(OperationState.FAILED, error=UpgradeError(code=delivery.code, message=delivery.message))
        return replace(observation, unclaimed=False)

    def _back_off(self, operation: Operation, entry: _Backoff | None, error: Exception) -> str:
        """Back off after a failed post. Return the error message."""
        now = self._now()
        trouble = str(error)[:_LONGEST_SAID] or f"no response within {self._patience:g} seconds"
        pause = FIRST_PAUSE if entry is None else min(entry.pause * 2, LONGEST_PAUSE)
        self._backoffs = {id_: entry for id_, entry in self._backoffs.items() if now - entry.since <= 2 * LONGEST_PAUSE}
        self._backoffs[operation.id] = _Backoff(now, pause)
        log.warning("upgrader call failed", extra={"operation": operation.id, "error": trouble})
        return trouble

    async def cancel(self, operation: Operation) -> CancelResult:
        """Request cancellation from the upgrader, which reports the outcome in the status of the request.

        Returns:
            `CancelResult.CANCELLED` if the request is marked, `CancelResult.TOO_LATE` if there is no request. A marked
            request in flight is also posted if a URL is configured.

        Raises:
            NotDeliveredError: The post failed.
        """
        if not await self._requests.request_cancellation(operation):
            return CancelResult.TOO_LATE
        request = self._requests.find(operation)
        if self._delivery is not None and request is not None and observation_of(request).in_flight:
            await self._delivery.post(request)
        return CancelResult.CANCELLED

    async def _tell(self, request: JsonObject) -> StartResult:
        """Post an unclaimed request, and record the outcome in its status.

        Raises:
            NotDeliveredError: The post failed. It is retried when the operation is observed.
            StoreError: The hub refuses the status.
        """
        if self._delivery is None:
            return Started.ACCEPTED
        response = await self._delivery.post(request)
        if isinstance(response, Rejected):
            error = {"code": response.code, "message": response.message}
            await self._requests.report(request, phase="Failed", error=error, finishedTime=format_time(self._now()))
        else:
            await self._requests.report(request, phase="Accepted")
        return response
