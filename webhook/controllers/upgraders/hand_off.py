"""Hands upgrades off to an upgrader outside: a script, a pipeline, an operator of a cloud.

It watches ClusterUpgradeRequests and reports in their status.

Source: upgrade-runs.md 13.4.
"""

from collections.abc import Sequence

from scorer.upgrade.back_end import (
    CancelResult,
    Capabilities,
    Inventory,
    Issue,
    Observation,
    Operation,
    OperationState,
    StartResult,
    Target,
)
from scorer.upgrade.requests import observation_of, remark_of
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

    async def inspect(self, member: MemberRef) -> Inventory | None:
        """Return what a cluster runs, as its upgrader or its annotation says."""
        return self._book.inventory(member)

    async def preflight(self, member: MemberRef, target: Target) -> Sequence[Issue]:  # noqa: ARG002 - as the others
        """Return nothing: who will upgrade the cluster has not been asked yet."""
        return ()

    async def start_upgrade(self, operation: Operation) -> StartResult:
        """Make the request."""
        return await self._book.make(operation)

    async def observe(self, operation: Operation) -> Observation:
        """Return what the upgrader says in the request."""
        request = self._book.find(operation)
        if request is None:
            return Observation(OperationState.UNKNOWN)
        found = observation_of(request)
        if not found.in_flight:
            await self._book.note(request)
        remark = remark_of(request, self._now())
        return found if remark is None else found.with_remark(*remark)

    async def cancel(self, operation: Operation) -> CancelResult:
        """Ask the upgrader to stop; whether it does, its status will say."""
        return CancelResult.CANCELLED if await self._book.ask_to_cancel(operation) else CancelResult.TOO_LATE
