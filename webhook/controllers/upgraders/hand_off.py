"""Hands upgrades off to an upgrader outside: a script, a pipeline, an operator of a cloud.

It watches ClusterUpgradeRequests and reports in their status; or it is told of them by HTTP, and reports the same way.
Either way the request is what counts: one whose upgrader has been told has a phase.

Source: upgrade-runs.md 13.4.
"""

from collections.abc import Sequence

from scorer.api.meta import JsonObject, format_time
from scorer.api.upgrade.fields import UpgradeError
from scorer.upgrade.back_end import (
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
from scorer.upgrade.requests import observation_of, remark_of
from webhook.controllers.upgraders.delivery import Delivery
from webhook.controllers.upgraders.request_book import RequestBook
from webhook.controllers.upgraders.upgrader import MemberRef, Workplace
from webhook.settings.upgraders import HAND_OFF


class HandOff:
    """Makes requests, and reads what becomes of them."""

    name = HAND_OFF
    capabilities = Capabilities(cancel=True)

    def __init__(self, place: Workplace) -> None:
        self._now = place.now
        self._book = RequestBook(place.hub, place.now)
        self._delivery = Delivery(place.options.hand_off) if place.options.hand_off.url else None

    async def inspect(self, member: MemberRef) -> Inventory | None:
        """Return what a cluster runs, as its upgrader or its annotation says."""
        return self._book.inventory(member)

    async def preflight(self, member: MemberRef, target: Target) -> Sequence[Issue]:  # noqa: ARG002 - as the others
        """Return nothing: who will upgrade the cluster has not been asked yet."""
        return ()

    async def start_upgrade(self, operation: Operation) -> StartResult:
        """Make the request, and tell the upgrader if it wants to be told."""
        made = await self._book.make(operation)
        request = self._book.find(operation)
        if isinstance(made, Rejected) or request is None or not observation_of(request).unclaimed:
            return made
        told = await self._tell(request)
        return told if isinstance(told, Rejected) else made

    async def observe(self, operation: Operation) -> Observation:
        """Return what the upgrader says in the request."""
        request = self._book.find(operation)
        if request is None:
            return Observation(OperationState.UNKNOWN)
        found = observation_of(request)
        if found.unclaimed and isinstance(rejected := await self._tell(request), Rejected):
            error = UpgradeError(code=rejected.code, message=rejected.message)
            return Observation(OperationState.FAILED, error=error)
        if not found.in_flight:
            await self._book.note(request)
        remark = remark_of(request, self._now())
        return found if remark is None else found.with_remark(*remark)

    async def cancel(self, operation: Operation) -> CancelResult:
        """Ask the upgrader to stop; whether it does, its status will say."""
        if not await self._book.ask_to_cancel(operation):
            return CancelResult.TOO_LATE
        request = self._book.find(operation)
        if self._delivery is not None and request is not None and observation_of(request).in_flight:
            await self._delivery.post(request)
        return CancelResult.CANCELLED

    async def _tell(self, request: JsonObject) -> StartResult:
        """Tell the upgrader of a request that nobody has taken, and note on it what comes of that.

        Raises:
            Exception: The upgrader cannot be told now; it is told again when its operation is looked at.
        """
        if self._delivery is None:
            return Started.ACCEPTED
        told = await self._delivery.post(request)
        if isinstance(told, Rejected):
            error = {"code": told.code, "message": told.message}
            await self._book.report(request, phase="Failed", error=error, finishedTime=format_time(self._now()))
        else:
            await self._book.report(request, phase="Accepted")
        return told
