"""Node disruption in a member: the part of the reconcile loop that its agent runs there.

One process at a time holds a Lease in the agent's own namespace. The term of that Lease also fences every write. Until
the member has NodePools, only a poll runs. Node disruption requires that the cluster is recorded as this member
(`webhook.member.membership.registration`). An agent whose kubeconfig names the wrong cluster, or whose member has left,
therefore disrupts no node. The hub itself is not needed.

Source: docs/specifications/nodepool-disruption.md 5.1.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final

from scorer.api.kinds import NODE_POOL
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.leader_election.leader import Leader
from webhook.kube.leader_election.term import LeaderElectionConfig, Term, own_identity
from webhook.kube.ports import Key, NotFoundError, StoreError
from webhook.processes.node_rights import NODE_LEASE
from webhook.settings.gate import NodeDisruptionMode, NodeDisruptionOptions

if TYPE_CHECKING:
    from webhook.controllers.nodes.observer import NodeDisruptionObserver

LOOK_SECONDS: Final = 15.0
"""Poll interval for NodePools, and retry interval after an error."""

log = logging.getLogger(__name__)


class MemberNodes:
    """Disrupts the nodes of a member.

    Args:
        server: The member.
        home: Returns the agent's own namespace there.
        options: Settings of the operator.
        observer: Metrics hooks.
        now: The clock.
        is_ours: Returns whether the cluster belongs to this member. May raise `StoreError`.
    """

    def __init__(
        self,
        server: ApiServer,
        home: Callable[[], Awaitable[str]],
        options: NodeDisruptionOptions,
        observer: "NodeDisruptionObserver",
        now: Callable[[], datetime],
        is_ours: Callable[[], Awaitable[bool]],
    ) -> None:
        self._server = server
        self._home = home
        self._options = options
        self._observer = observer
        self._now = now
        self._is_ours = is_ours

    async def run(self) -> None:
        """Run until cancelled. In mode Off, return immediately."""
        if self._options.mode is NodeDisruptionMode.OFF:
            return
        await self._wait_for_pools()
        while True:
            try:
                if await self._is_ours():
                    namespace = await self._home()
                    lease, around = Key(NODE_LEASE, namespace), LeaderElectionConfig(now=self._now)
                    leader = Leader(HubStore(self._server), lease, own_identity(), around)
                    await leader.run(self._lead)
            except StoreError as error:
                log.warning("node disruption skipped", extra={"error": str(error)})
            except Exception:  # a bug here must not stop the rest of the agent: log with traceback
                log.exception("node disruption failed")
            await asyncio.sleep(LOOK_SECONDS)

    async def _wait_for_pools(self) -> None:
        store, last_error = HubStore(self._server), ""
        while True:
            try:
                if (await store.list(NODE_POOL)).items:
                    return
            except NotFoundError:
                pass  # not served: Karpenter was never installed
            except StoreError as error:
                if str(error) != last_error:
                    log.warning("NodePools not listed", extra={"error": str(error)})
                last_error = str(error)
            await asyncio.sleep(LOOK_SECONDS)

    async def _lead(self, term: Term) -> None:
        # Imported late: most members have no NodePools, and the planner would double the memory of an agent.
        from webhook.processes.node_loop import run_node_loop

        loop = run_node_loop(self._server, await self._home(), self._options, self._now, self._observer, term)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(loop)
            await self._wait_while_ours()
            running.cancel()

    async def _wait_while_ours(self) -> None:
        """Wait until the cluster no longer belongs to this member. Errors are ignored until the next poll."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with suppress(StoreError):
                if not await self._is_ours():
                    log.info("node disruption stopped: the cluster no longer belongs to this member")
                    return
