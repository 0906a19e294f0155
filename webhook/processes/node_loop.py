"""The reconcile loop for only the nodes of a member. Imported once there are NodePools.

Source: docs/specifications/nodepool-disruption.md 5.1.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime

from webhook.controllers.machinery.loop import Loop
from webhook.controllers.nodes.disruption import NodeDisruptionController, NodePlace
from webhook.controllers.nodes.observer import NodeDisruptionObserver
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.evictions import ServerNodeWork
from webhook.kube.client.hub_store import HubStore
from webhook.kube.events import EventRecorder, own_name
from webhook.kube.leader_election.term import Term
from webhook.settings.gate import NodeDisruptionMode, NodeDisruptionOptions


async def run_node_loop(
    server: ApiServer,
    namespace: str,
    options: NodeDisruptionOptions,
    now: Callable[[], datetime],
    observer: NodeDisruptionObserver,
    term: Term,
) -> None:
    """Run the node disruption of a member until cancelled.

    Args:
        server: The member.
        namespace: Namespace of reservations.
        options: Settings of the operator.
        now: The clock.
        observer: Metrics hooks.
        term: Fences every write.
    """
    store = HubStore(server, fence=term.check)
    hub = Hub(store, Cache(store))
    events = EventRecorder(store, now, own_name())
    lease_namespace = namespace if options.mode is NodeDisruptionMode.ACT else ""
    place = NodePlace(hub, ServerNodeWork(server, fence=term.check), lease_namespace)
    controller = NodeDisruptionController(place, options, now, events.record, observer)
    loop = Loop(hub, now, (controller.wiring(),), events, (), workers=1)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hub.cache.run())
        tasks.create_task(loop.run())
