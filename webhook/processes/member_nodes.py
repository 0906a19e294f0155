"""The disruption of nodes in a member: what of the reconcile loop its agent runs there.

One process does so at a time, by a Lease in the agent's own namespace, whose term also fences every write. Where there
are no NodePools nothing of it is there but a question now and then. And only where the cluster is recorded as that of
our member (`webhook.member.membership.registration`): an agent whose kubeconfig names the wrong cluster touches no node
there, and one whose member has left none any more. The hub itself is not needed for it.

Source: nodepool-disruption.md 5.1.
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
"""How often to look whether there are NodePools, and how long to wait after what failed."""

log = logging.getLogger(__name__)


class MemberNodes:
    """Disrupts the nodes of a member.

    Args:
        server: The member.
        home: Returns the agent's own namespace there.
        options: What the operator decided.
        observer: Is told what is found and done.
        now: The clock.
        is_ours: Says whether the cluster is that of our member; may raise `StoreError`.
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
        """Do so until cancelled; in mode Off, return at once."""
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
                log.warning("nodes are not looked at", extra={"error": str(error)})
            except Exception:  # a bug here must not end what else the agent does; logged with the traceback
                log.exception("the disruption of nodes ended")
            await asyncio.sleep(LOOK_SECONDS)

    async def _wait_for_pools(self) -> None:
        store, last_error = HubStore(self._server), ""
        while True:
            try:
                if (await store.list(NODE_POOL)).items:
                    return
            except NotFoundError:
                pass  # not served: no Karpenter has ever been here
            except StoreError as error:
                if str(error) != last_error:
                    log.warning("nobody can tell whether there are NodePools", extra={"error": str(error)})
                last_error = str(error)
            await asyncio.sleep(LOOK_SECONDS)

    async def _lead(self, term: Term) -> None:
        # Most members have no NodePools, and the planner with all it stands on would double what an agent holds.
        from webhook.processes.node_loop import run_node_loop

        loop = run_node_loop(self._server, await self._home(), self._options, self._now, self._observer, term)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(loop)
            await self._wait_while_ours()
            running.cancel()

    async def _wait_while_ours(self) -> None:
        """Return when the cluster is no longer that of our member; one that does not answer stays what it was."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with suppress(StoreError):
                if not await self._is_ours():
                    log.info("leaves the nodes alone: the cluster is not that of our member any more")
                    return
