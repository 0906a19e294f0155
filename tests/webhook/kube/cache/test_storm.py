"""Many more heartbeats than can be taken in at once: nothing is lost, nobody waits for all of them, metrics say so."""

import asyncio
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry

from scorer.api.kinds import MEMBER_CLUSTER
from scorer.api.meta import format_time
from tests.loopback import on_loopback
from tests.scorer.builders import NOW, cluster_document
from tests.waiting import PATIENCE_SECONDS
from webhook.kube.cache.informer import Cache
from webhook.kube.client import hub_store
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.client.paths import path_of
from webhook.kube.login.connection import Login
from webhook.telemetry.metrics import CacheFreshness

MEMBERS, BEATS, PAGE = 40, 4_000, 15


class Hub:
    """An API server that lists members in pages and, told to, sends many heartbeats in one go."""

    def __init__(self):
        self.pages = 0
        self.storm = asyncio.Event()

    def member(self, number, beat=0):
        document = cluster_document(f"m{number:02}")
        version = {"uid": f"uid-{number}", "resourceVersion": str(1 + number + beat)}
        agent = {**document["status"]["agentStatus"][0]}
        agent["lastReceivedHeartbeat"] = format_time(NOW + timedelta(seconds=beat))
        status = {**document["status"], "agentStatus": [agent]}
        return {**document, "metadata": {**document["metadata"], **version}, "status": status}

    async def serve(self, request):
        if "watch" not in request.query:
            self.pages += 1
            start = int(request.query.get("continue", 0))
            end = start + int(request.query["limit"])
            more = {"continue": str(end)} if end < MEMBERS else {}
            items = [self.member(number) for number in range(start, min(end, MEMBERS))]
            return web.json_response({"metadata": {"resourceVersion": str(MEMBERS), **more}, "items": items})
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):
            await self.storm.wait()
            beats = (self.member(beat % MEMBERS, MEMBERS + beat) for beat in range(BEATS))
            lines = [orjson.dumps({"type": "MODIFIED", "object": each}) + b"\n" for each in beats]
            await response.write(b"".join(lines))
            await asyncio.Event().wait()
        return response


@asynccontextmanager
async def cached(hub):
    app = web.Application()
    app.router.add_get(str(path_of(MEMBER_CLUSTER)), hub.serve)
    async with on_loopback(app, shutdown_seconds=0.1) as address, ApiServer(Login(address)) as server:
        cache = Cache(HubStore(server))
        cache.require([MEMBER_CLUSTER])
        running = asyncio.create_task(cache.run())
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await cache.wait_synced()
                yield cache
        finally:
            running.cancel()
            await asyncio.wait([running])


def behind(cache):
    """Return what the metric says."""
    registry = CollectorRegistry()
    registry.register(CacheFreshness(cache.freshness, cache.shared_bytes))
    labels = {"resource": MEMBER_CLUSTER.resource}
    return registry.get_sample_value("harbormaster_watch_behind_seconds", labels)


async def test_a_storm_is_taken_in_whole_and_leaves_others_their_turns(monkeypatch):
    monkeypatch.setattr(
        "webhook.kube.cache.informer._TURN_SECONDS", -1.0
    )  # a turn after every change, however quick this is
    hub = Hub()
    async with cached(hub) as cache:
        shelf = cache.of_kind(MEMBER_CLUSTER)
        assert behind(cache) == 0
        hub.storm.set()
        seen, waiting, most, before = [], [], 0, 0
        while shelf.events < BEATS or behind(cache):
            await asyncio.sleep(0)
            most, before = max(most, shelf.events - before), shelf.events
            seen.append(behind(cache))
            waiting.append(len(cache._changed_members))
        assert max(seen) > 0
        assert most <= 3  # all that has arrived at once would be taken without a pause, some hundreds of them
        assert 0 < max(waiting) <= MEMBERS
        last = {f"m{beat % MEMBERS:02}": MEMBERS + beat for beat in range(BEATS)}
        assert {member.metadata.name: int(member.metadata.resource_version) for member in cache.fleet.members} == {
            name: 1 + int(name[1:]) + beat for name, beat in last.items()
        }
        heard = {each.status.agent_status[0].last_received_heartbeat for each in cache.fleet.members}
        assert max(heard) == NOW + timedelta(seconds=MEMBERS + BEATS - 1)


async def test_a_list_is_taken_in_page_by_page(monkeypatch):
    monkeypatch.setattr(hub_store, "PAGE", PAGE)
    hub = Hub()
    async with cached(hub) as cache:
        assert hub.pages == 3
        assert len(cache.fleet) == MEMBERS
