"""A server over a hub with one pool that lets nothing go, and one node of it."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

from scorer.api.kinds import NODE, NODE_CLAIM, NODE_POOL
from tests.webhook.endpoints.conftest import Harbour, Port, make_review
from tests.webhook.services import LISTENERS, make_server, make_services
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.informer import Cache
from webhook.runtime.clock import utc_now
from webhook.settings.programs import ServerSettings

LABELS = {"karpenter.sh/nodepool": "a", "karpenter.sh/initialized": "true"}
NODE_OF_A = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": LABELS}, "spec": {}}


def deletion(**more):
    kind = {"group": "", "version": "v1", "kind": "Node"}
    resource = {"group": "", "version": "v1", "resource": "nodes"}
    asked = {"kind": kind, "resource": resource, "operation": "DELETE", "name": "n1", "object": None}
    return json.dumps(make_review("one", **asked | {"oldObject": NODE_OF_A} | more)).encode()


@asynccontextmanager
async def guarded(**settings):
    """Run it with these settings."""

    def now():
        return datetime(2026, 6, 10, 12, tzinfo=UTC)

    chosen = ServerSettings(**(LISTENERS | settings))
    store = EmbeddedStore.open(None)
    spec = {"disruption": {"budgets": [{"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"}]}}
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}, "spec": spec}
    await store.create(NODE_POOL, pool)
    claim = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "c1"}, "spec": {}}
    stored = await store.create(NODE_CLAIM, claim)
    await store.replace_status(NODE_CLAIM, stored | {"status": {"nodeName": "n1"}})
    stored = await store.create(NODE, NODE_OF_A)
    await store.replace_status(NODE, stored | {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    cache = Cache(store)
    harbour = Harbour()
    services = make_services(
        advisor=harbour, changes=harbour, synced=lambda: True, cache=cache, store=store, settings=chosen, now=now
    )
    services = replace(services, answers=replace(services.answers, now=utc_now))  # a certificate of today
    task = asyncio.create_task(cache.run())
    await cache.wait_synced((NODE_POOL, NODE_CLAIM, NODE))
    server = make_server(services, chosen)
    await server.start()
    try:
        yield Port(server, harbour, now)
    finally:
        await server.stop()
        task.cancel()
        await asyncio.wait([task])
        store.close()
