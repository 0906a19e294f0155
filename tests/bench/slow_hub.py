"""``python -m tests.bench.slow_hub PORT SECONDS``: a hub whose every answer takes the same time, however many ask.

It keeps objects as the embedded store does, and judges nothing. What replicas gain from one another shows here without
the share of the processor that a real API server would take from them, and without its own limit.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop
from aiohttp import web

from scorer.api.kinds import WORK
from scorer.api.meta import JsonObject
from webhook.access.user import UserInfo
from webhook.embedded.api_server.handlers import add_routes
from webhook.embedded.api_server.request_info import RequestInfo, parse_target
from webhook.embedded.api_server.status import ApiError, json_response, of_store
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import StoreError
from webhook.validation.framework.context import Context

TOKEN = "bench"
_WRITES = ("POST", "PUT", "PATCH", "DELETE")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(store: EmbeddedStore, seconds: float) -> web.Application:
    """Return what serves *store*, each answer but watches after *seconds*; ``/works`` counts the Works at once."""

    async def count(_: web.Request) -> web.Response:
        return web.json_response(len((await store.list(WORK)).items))

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path == "/works" or "watch" in request.query:
            return await handler(request)
        begun = time.monotonic()
        try:
            found = await (_write(store, request) if request.method in _WRITES else handler(request))
        except ApiError as error:
            found = json_response(error.body(), code=error.code)
        await asyncio.sleep(begun + seconds - time.monotonic())
        return found

    app = web.Application(middlewares=[answer], client_max_size=16 * 1024 * 1024)
    app.router.add_get("/works", count)
    for path in ("/api", "/apis"):
        app.router.add_get(path, lambda request: web.json_response(_served(store, request.path)))
    add_routes(app, store, lambda: Context.of_objects([]).with_user(UserInfo("bench")), TOKEN)
    return app


def _served(store: EmbeddedStore, path: str) -> JsonObject:
    """Return what is served below a path, as an API server aggregates it for its clients."""
    groups: dict[str, list[JsonObject]] = {}
    for kind in store.kinds:
        if bool(kind.group) == (path == "/apis"):
            resource = {
                "resource": kind.plural,
                "responseKind": {"group": kind.group, "version": kind.versions[0], "kind": kind.kind},
                "scope": "Namespaced" if kind.namespaced else "Cluster",
                "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
                "subresources": [{"subresource": "status"}] if kind.has_status else [],
            }
            versions = groups.setdefault(kind.group, [])
            versions += ({"version": version, "resources": [resource]} for version in kind.versions)
    items = [{"metadata": {"name": group}, "versions": versions} for group, versions in groups.items()]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}


async def _write(store: EmbeddedStore, request: web.Request) -> web.Response:
    """Carry out a write as it is asked for; no rule is applied, which is not what is measured."""
    segments = request.path.strip("/").split("/")
    group, version, rest = ("", segments[1], segments[2:]) if segments[0] == "api" else (*segments[1:3], segments[3:])
    target = parse_target(store.kinds, group, version, rest)
    body: Any = await request.json() if request.can_read_body else {}
    try:
        return json_response(await _carried_out(store, request.method, target, body))
    except StoreError as error:
        raise of_store(error, target.kind, target.name) from error


async def _carried_out(store: EmbeddedStore, method: str, target: RequestInfo, body: JsonObject) -> JsonObject:
    kind = target.kind
    match method:
        case "POST":
            namespaced = {"namespace": target.namespace} if target.namespace else {}
            return await store.create(kind, {**body, "metadata": {**body["metadata"], **namespaced}})
        case "PUT":
            return await (store.replace_status if target.subresource else store.replace)(kind, body)
        case "PATCH":  # the loop patches metadata, and nothing else
            known = await store.get(kind, target.key)
            return await store.replace_metadata(kind, {**known, "metadata": {**known["metadata"], **body["metadata"]}})
        case _:
            sure = (body.get("preconditions") or {}) if isinstance(body, dict) else {}
            uid, at = sure.get("uid", ""), sure.get("resourceVersion", "")
            await store.delete(kind, target.key, uid=uid, resource_version=at)
            return {"kind": "Status", "apiVersion": "v1", "status": "Success"}


async def serve(port: int, seconds: float) -> None:
    """Serve an empty hub until cancelled."""
    store = EmbeddedStore.open(None)
    runner = web.AppRunner(application(store, seconds), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as asyncio_runner:
        asyncio_runner.run(serve(int(sys.argv[1]), float(sys.argv[2])))
