"""Simulated upgrades that only take time: for simulated members, and for trying out runs.

An attempt is a ClusterUpgradeRequest whose status this back end writes. So it survives a restart, and users can inspect
it. Its duration is the expected time in the member's annotation.

Source: docs/specifications/upgrade-runs.md 13.2.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from scorer.api.meta import JsonObject, format_time, parse_time
from scorer.api.names import OURS
from scorer.api.unstructured.documents import metadata_of, spec_of
from scorer.upgrade.back_ends.interface import (
    CancelResult,
    Capabilities,
    Inventory,
    Issue,
    Observation,
    Operation,
    OperationState,
    Pool,
    Rejected,
    StartResult,
    Target,
)
from scorer.upgrade.back_ends.requests import observation_of, report_of
from scorer.upgrade.members.member import DURATION, parse_expected_duration
from scorer.upgrade.simulation.back_end import upgrade_inventory
from webhook.controllers.upgraders.upgrade_requests import UpgradeRequestStore
from webhook.controllers.upgraders.upgrader import MemberRef, Workplace
from webhook.settings.upgraders import SIMULATED

BEHAVIOUR: Final = OURS + "simulate-upgrade"
"""Annotation of a MemberCluster that selects the outcome of its simulated upgrades.

One of ``fail``, ``hang``, ``reject`` (final) and ``busy`` (rejected, but retried). Without it, upgrades succeed.
"""
DEFAULT_DURATION: Final = timedelta(seconds=30)
FIRST_VERSION: Final = "1.30.4"
"""Version of a member without an inventory."""
ONLY_POOL: Final = "default"
"""Name of the only pool."""


class Simulated:
    """Upgrades nothing, and reports the outcome that the member's annotation requests, by default success."""

    name = SIMULATED
    capabilities = Capabilities(cancel=True)

    def __init__(self, place: Workplace) -> None:
        self._now = place.now
        self._requests = UpgradeRequestStore(place.hub, place.now)

    async def inspect(self, member: MemberRef) -> Inventory | None:
        """Return the inventory of a cluster after its last upgrade. Before the first, it has `FIRST_VERSION`."""
        inventory = self._requests.inventory(member) or Inventory(FIRST_VERSION, (Pool(ONLY_POOL, FIRST_VERSION),))
        return _counted(inventory, max(1, member.nodes))

    async def preflight(self, member: MemberRef, target: Target) -> Sequence[Issue]:  # noqa: ARG002 - as the others
        """Return an issue for a member whose upgrade will be rejected."""
        behaviour = member.annotations.get(BEHAVIOUR, "")
        return (Issue("Simulated", f"{BEHAVIOUR} is {behaviour}"),) if behaviour in ("reject", "busy") else ()

    async def start_upgrade(self, operation: Operation) -> StartResult:
        """Start, unless the member's annotation requests a rejection."""
        match self._behaviour(operation.member):
            case "reject":
                return Rejected("Simulated", f"{BEHAVIOUR} is reject")
            case "busy":
                return Rejected("Simulated", f"{BEHAVIOUR} is busy", retryable=True)
        return await self._requests.make(operation)

    async def observe(self, operation: Operation) -> Observation:
        """Return the progress of an upgrade. Record its end once due."""
        request = self._requests.find(operation)
        if request is None:
            return Observation(OperationState.UNKNOWN)
        observation = observation_of(request)
        if not observation.in_flight:
            await self._requests.note(request)
            return observation
        if spec_of(request).get("cancelRequested") is True:
            return observation_of(
                await self._requests.report(request, phase="Cancelled", finishedTime=self._said_now())
            )
        ends = self._ends(request, operation.member)
        if ends is None or ends > self._now():
            return Observation(OperationState.IN_PROGRESS)
        return await self._end(request, operation, ends)

    async def cancel(self, operation: Operation) -> CancelResult:
        """Cancel an upgrade."""
        return CancelResult.CANCELLED if await self._requests.request_cancellation(operation) else CancelResult.TOO_LATE

    async def _end(self, request: JsonObject, operation: Operation, ends: datetime) -> Observation:
        finish_time = format_time(ends)
        if self._behaviour(operation.member) == "fail":
            error = {"code": "SimulatedFailure", "message": f"{BEHAVIOUR} is fail"}
            return observation_of(
                await self._requests.report(request, phase="Failed", error=error, finishedTime=finish_time)
            )
        inventory = await self.inspect(self._member(operation.member))
        assert inventory is not None
        report = report_of(upgrade_inventory(inventory, operation.target))
        request_done = await self._requests.report(
            request, phase="Succeeded", progressPercent=100, finishedTime=finish_time, **report
        )
        await self._requests.note(request_done)
        return observation_of(request_done)

    def _ends(self, request: JsonObject, member: str) -> datetime | None:
        """Return the end of an upgrade. None: unlimited, it hangs."""
        if self._behaviour(member) == "hang":
            return None
        start = parse_time(str(metadata_of(request).get("creationTimestamp", "")))
        text = self._member(member).annotations.get(DURATION, "")
        try:
            return start + (parse_expected_duration(text) if text else DEFAULT_DURATION)
        except ValueError:
            return start + DEFAULT_DURATION

    def _said_now(self) -> str:
        return format_time(self._now())

    def _member(self, name: str) -> MemberRef:
        return self._requests.member(name) or MemberRef(name)

    def _behaviour(self, member: str) -> str:
        return self._member(member).annotations.get(BEHAVIOUR, "")


def _counted(inventory: Inventory, nodes: int) -> Inventory:
    """Return *inventory* with *nodes* nodes in its pool, if its only pool is the simulated one."""
    if len(inventory.pools) != 1 or inventory.pools[0].name != ONLY_POOL:
        return inventory
    return replace(inventory, pools=(replace(inventory.pools[0], nodes=nodes),))
