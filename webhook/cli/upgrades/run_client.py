"""Reads and writes upgrade runs and their gates on a hub, and waits until a start order is processed."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pydantic

from scorer.api.conditions import FALSE, find_condition
from scorer.api.kinds import UPGRADE_GATE, UPGRADE_RUN, Kind
from scorer.api.meta import first_mistake
from scorer.api.unstructured.documents import dicts_at, name_of
from scorer.api.unstructured.json_object import JsonObject
from scorer.api.upgrade.run import ClusterUpgradeRun
from scorer.upgrade.evaluation.conditions import INITIALIZED
from scorer.upgrade.patches import order_answer
from scorer.upgrade.views.situation import UpgradeSituation, UpgradeWaitKind, approved_gates, situation_of
from webhook.actions.patches import versioned
from webhook.cli.errors import UserError, complain
from webhook.cli.hub.client import FORBIDDEN, MISSING, Client, HubRefusedError, ResourcePath, retry_on_conflict
from webhook.cli.staged_updates.runs_of_kind import RunsOfKind, as_user_error, print_warnings
from webhook.runtime.clock import utc_now


@dataclass(frozen=True, slots=True)
class UpgradeRunView:
    """An upgrade run and its situation.

    Args:
        run: The run as stored.
        read: The parsed run.
        situation: Progress and waits.
    """

    run: JsonObject
    read: ClusterUpgradeRun
    situation: UpgradeSituation


class UpgradeRuns(RunsOfKind[UpgradeRunView]):
    """The upgrade runs of a hub.

    Args:
        client: Client of the hub.
    """

    def __init__(self, client: Client) -> None:
        super().__init__(client, UPGRADE_RUN)

    async def seen(self, name: str) -> UpgradeRunView | None:
        """Return a run, or None if it does not exist or the caller lacks the right to read it."""
        run = await self._readable(UPGRADE_RUN, name)
        return None if run is None else await self.view(run)

    async def all(self) -> list[UpgradeRunView]:
        """Return all runs. Unreadable runs are reported on standard error."""
        views = []
        for document in dicts_at(await self.client.list(ResourcePath(UPGRADE_RUN)), "items"):
            try:
                views.append(await self.view(document))
            except UserError as error:
                complain(f"warning: {error.message}")
        return views

    async def order(self, name: str, decide: Callable[[UpgradeRunView], JsonObject | None]) -> bool:
        """Patch a run and return True, or return False if *decide* returns no patch.

        Args:
            name: Name of the run.
            decide: Returns the patch for a run as read. The patch carries the resourceVersion that was read.

        Raises:
            UserError: The run does not exist, or the order is refused.
        """

        async def attempt() -> bool:
            view = await self.get(name)
            with as_user_error():
                patch = decide(view)
            if patch is None:
                return False
            print_warnings(await self.client.patch(ResourcePath(UPGRADE_RUN, name=name), versioned(view.run, patch)))
            return True

        return await retry_on_conflict(attempt)

    async def answer(self, gate: str, message: str, *, approve: bool) -> bool:
        """Approve or reject a gate, and return whether that changed it.

        Raises:
            UserError: The gate is no longer pending.
        """
        return await self.answer_request(
            UPGRADE_GATE, gate, lambda document: order_answer(document, message, utc_now(), approve=approve)
        )

    async def gate(self, name: str) -> JsonObject | None:
        """Return a gate, or None if it does not exist or the caller lacks the right to read it."""
        return await self._readable(UPGRADE_GATE, name)

    async def _readable(self, kind: Kind, name: str) -> JsonObject | None:
        try:
            return await self.client.get(ResourcePath(kind, name=name))
        except HubRefusedError as error:
            if error.code not in (FORBIDDEN, MISSING):
                raise
            return None

    async def view(self, run: JsonObject) -> UpgradeRunView:
        """See `RunsOfKind.view`. Raises `UserError`."""
        try:
            model = ClusterUpgradeRun.read(run)
        except pydantic.ValidationError as error:
            raise UserError(f"run {name_of(run)} cannot be read: {first_mistake(error)}") from error
        situation = situation_of(model)
        # The approval is first written to the gate. The run shows it only after the loop has processed it.
        pending_gates = [
            wait.gate for wait in situation.waits if wait.kind is UpgradeWaitKind.GATE and wait.needs_person
        ]
        if pending_gates:
            gates = [gate for name in pending_gates if (gate := await self.gate(name)) is not None]
            situation = situation_of(model, approved_gates(gates))
        return UpgradeRunView(run, model, situation)


POLL_SECONDS: Final = 0.25
PATIENCE_SECONDS: Final = 5.0
"""Timeout for the loop to process an order before the command reports the result."""


def start_refusal(view: UpgradeRunView) -> str:
    """Return the loop's reason why a run cannot start, or an empty string."""
    status = view.read.status
    condition = find_condition(status.conditions, INITIALIZED)
    if status.start_time is not None or condition is None or condition.status != FALSE:
        return ""
    return f"{condition.reason}: {condition.message}"


async def wait_accepted(runs: UpgradeRuns, order_view: UpgradeRunView) -> UpgradeRunView:
    """Wait until the loop has processed an order to start, and return the run. After a timeout, return it as it is.

    Args:
        runs: Source of the run.
        order_view: The run with the order.
    """
    clock = asyncio.get_running_loop().time
    end = clock() + PATIENCE_SECONDS
    view = order_view
    while not is_accepted(view) and clock() < end:
        await asyncio.sleep(POLL_SECONDS)
        view = await runs.get(name_of(order_view.run))
    return view


def is_accepted(view: UpgradeRunView) -> bool:
    """Return whether the order to start has been processed: the run started, or has a reason why it cannot."""
    spec, status = view.read.spec, view.read.status
    if status.observed_generation < view.read.metadata.generation:
        return False
    if status.start_time is None:
        return bool(start_refusal(view))
    return status.observed_restart_token == spec.restart_token
