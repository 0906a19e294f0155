"""Previews and executes the actions of a viewer.

A preview plans the action, and sends its write as a dry run: the API server, admission and RBAC judge it, and store
nothing. An execution plans it again, and requires that everything the viewer saw is unchanged.

Source: docs/specifications/serving.md 3.5.
"""

import shlex
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from typing_extensions import TypedDict

from scorer.api.kinds import MEMBER_CLUSTER, UPGRADE_GATE, UPGRADE_RUN
from webhook.actions.members import plan_cordon
from webhook.actions.planned import (
    ActionName,
    ActionOrder,
    ActionPlan,
    ActionReader,
    HubRefusalError,
    changed_facts,
)
from webhook.actions.removals import plan_confirmation
from webhook.actions.staged_updates import plan_staged_update
from webhook.actions.upgrades import plan_upgrade
from webhook.actions.viewer_hub import ViewerHubs

_ATTEMPTS: Final = 3
_CONFLICT: Final = 409
_MOST_UPDATES: Final = 1000
"""As many clusters as `POST /v1/render` accepts."""


class StaleActionError(Exception):
    """The object has changed since the preview. The message names the changes."""


class ActionAnswer(TypedDict):
    """The preview or the result of an action."""

    command: str
    """The equivalent command, which starts with `harbormaster`."""
    impact: list[str]
    """The effect, one sentence each. Empty: nothing changes."""
    precondition: dict[str, str]
    """The state that the effect depends on. The execution must repeat it."""
    executed: bool
    """Whether the hub has been changed. False in a preview, and if the object is in the requested state already."""
    outcome: str
    """The result, as the command reports it. In a preview: the result of an execution."""
    warnings: list[str]
    """Warnings of the API server."""
    updates: list[str]
    """Clusters that get the content of the staged update run next, at most 1000. `POST /v1/render` with the run and
    these clusters shows what changes there."""


class PageActions:
    """The actions of the page.

    Args:
        hubs: Opens the hub with the credential of a viewer.
        now: The clock.
        viewer: Name of the only viewer of this process. Empty: the server authenticates its viewers.
    """

    def __init__(self, hubs: ViewerHubs, now: Callable[[], datetime], viewer: str = "") -> None:
        self._hubs = hubs
        self._now = now
        self.viewer = viewer

    async def preview(self, order: ActionOrder, token: str, user: str) -> ActionAnswer:
        """Return the effect of an order, without storing anything. See `execute` for the errors."""
        async with self._hubs.open(token) as hub:
            action = await self._plan(order, hub, user)
            warnings = [] if action.write is None else await hub.write(action.write, dry_run=True)
        return _answer(action, warnings, executed=False)

    async def execute(self, order: ActionOrder, precondition: Mapping[str, str], token: str, user: str) -> ActionAnswer:
        """Execute an order, if a preview would still have the same *precondition*.

        Args:
            order: The order.
            precondition: The facts of the preview that the viewer has confirmed.
            token: The credential of the viewer.
            user: Name of the viewer, recorded where commands record their user.

        Raises:
            StaleActionError: The facts have changed.
            webhook.actions.planned.ActionRefusedError: The state of the object does not allow the action.
            HubRefusalError: The API server refuses a request.
            webhook.kube.ports.StoreError: The API server does not respond.
        """
        async with self._hubs.open(token) as hub:
            for attempt in range(_ATTEMPTS):
                action = await self._plan(order, hub, user)
                if changes := changed_facts(precondition, action.facts):
                    raise StaleActionError("; ".join(changes))
                if action.write is None:
                    return _answer(action, [], executed=False)
                try:
                    return _answer(action, await hub.write(action.write, dry_run=False), executed=True)
                except HubRefusalError as error:
                    # Another client wrote between our read and our write. For example, the loop updated the status.
                    if error.code != _CONFLICT or attempt == _ATTEMPTS - 1:
                        raise
        raise AssertionError  # the last attempt returns or raises

    async def _plan(self, order: ActionOrder, hub: ActionReader, user: str) -> ActionPlan:
        now = self._now()
        if order.kind in (UPGRADE_RUN, UPGRADE_GATE):
            return await plan_upgrade(order, hub, user, now)
        if order.kind is MEMBER_CLUSTER:
            return await plan_cordon(order, hub)
        if order.action is ActionName.CONFIRM:
            return await plan_confirmation(order, hub, now)
        return await plan_staged_update(order, hub, user, now)


def _answer(action: ActionPlan, warnings: list[str], *, executed: bool) -> ActionAnswer:
    return {
        "command": shlex.join(["harbormaster", *action.command]),
        "impact": [] if action.write is None else list(action.impact),
        "precondition": dict(action.facts),
        "executed": executed,
        "outcome": action.outcome,
        "warnings": warnings,
        "updates": list(action.updates[:_MOST_UPDATES]),
    }
