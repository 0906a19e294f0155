"""An API server that nothing changes on: it lists what it was given, in pages, and its watches bring only bookmarks.

It counts the writes that it is asked for. Those to Leases and Events it takes, as every leader makes them; any other is
answered like an API server that is busy, so that a loop that wants to write does not take it for done.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import orjson
from aiohttp import web

from scorer.api.kinds import KINDS, LEASE, Kind
from scorer.api.meta import JsonObject
from webhook.kube.client.paths import path_of

VERSION: Final = "9999999999"
"""Of every list: newer than any object."""
_MANAGED: Final = orjson.dumps(
    [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-11-20T12:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {f"f:{part}": {".": {}, **{f"f:{name}": {} for name in "abcdefghij"}} for part in parts},
            **({"subresource": "status"} if manager != "harbormaster" else {}),
        }
        for manager, parts in (("harbormaster", ("metadata", "spec")), ("agent", ("status", "conditions")))
    ]
)
"""``managedFields`` of about the usual length: every API server sends them with every object."""


class StillHub:
    """The objects of a hub, in the bytes that are sent.

    Args:
        state: The objects of each kind, as JSON.
    """

    def __init__(self, state: Mapping[Kind, Sequence[bytes]]) -> None:
        fields = b'"metadata":{"managedFields":' + _MANAGED + b","
        self._items = {
            str(path_of(kind)): [text.replace(b'"metadata":{', fields, 1) for text in sorted(texts, key=_order)]
            for kind, texts in state.items()
        }
        self._leases: dict[str, JsonObject] = {}
        self.writes: Counter[str] = Counter()
        """By verb and resource, those to Leases left out."""

    def routes(self) -> web.Application:
        """Return what it serves."""
        app = web.Application(client_max_size=16 * 1024 * 1024)
        lease = f"/apis/{LEASE.api_version}/namespaces/{{namespace}}/{LEASE.plural}"
        app.router.add_get(f"{lease}/{{name}}", self._serve_lease)
        app.router.add_post(lease, self._take_lease)
        app.router.add_put(f"{lease}/{{name}}", self._take_lease)
        app.router.add_get("/api", self._serve_discovery)
        app.router.add_get("/apis", self._serve_discovery)
        app.router.add_get("/{path:.*}", self._serve)
        app.router.add_route("*", "/{path:.*}", self._count)
        return app

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await _bookmarks(request)
        items, start = self._items.get(request.path, []), int(request.query.get("continue", 0))
        if request.path not in _LISTS:
            return _refused(404, "NotFound")
        end = start + int(request.query.get("limit", len(items)))
        metadata = {"resourceVersion": VERSION} | ({"continue": str(end)} if end < len(items) else {})
        body = b'{"metadata":%b,"items":[%b]}' % (orjson.dumps(metadata), b",".join(items[start:end]))
        return web.Response(body=body, content_type="application/json")

    async def _serve_discovery(self, request: web.Request) -> web.Response:
        groups = dict.fromkeys(kind.group for kind in KINDS.values())
        items = [_described(group) for group in groups if (not group) == (request.path == "/api")]
        return web.json_response({"kind": "APIGroupDiscoveryList", "items": items})

    async def _serve_lease(self, request: web.Request) -> web.Response:
        lease = self._leases.get(request.match_info["name"])
        return _refused(404, "NotFound") if lease is None else web.json_response(lease)

    async def _take_lease(self, request: web.Request) -> web.Response:
        lease = await request.json()
        known = self._leases.get(lease["metadata"]["name"], {"metadata": {"resourceVersion": "0"}})
        version = str(int(known["metadata"]["resourceVersion"]) + 1)
        lease["metadata"] |= {"resourceVersion": version, "uid": "lease"}
        self._leases[lease["metadata"]["name"]] = lease
        return web.json_response(lease)

    async def _count(self, request: web.Request) -> web.Response:
        resource = request.path.removesuffix("/status").split("/")
        known = {kind.plural for kind in KINDS.values()} | {"events"}
        plural = next((part for part in reversed(resource) if part in known), request.path)
        self.writes[f"{request.method} {plural}"] += 1
        return web.json_response(await request.json()) if plural == "events" else _refused(503, "ServiceUnavailable")


_LISTS: Final = frozenset(str(path_of(kind)) for kind in (*KINDS.values(), LEASE))


def _order(text: bytes) -> tuple[str, str]:
    """Return what an API server sorts lists by."""
    metadata = orjson.loads(text)["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _described(group: str) -> JsonObject:
    """Return a group as discovery shows it."""
    kinds = [kind for kind in KINDS.values() if kind.group == group]
    versions = dict.fromkeys(version for kind in kinds for version in kind.versions)
    return {
        "metadata": {"name": group},
        "versions": [
            {"version": version, "resources": [_resource(kind) for kind in kinds if version in kind.versions]}
            for version in versions
        ],
    }


def _resource(kind: Kind) -> JsonObject:
    return {
        "resource": kind.plural,
        "responseKind": {"kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "verbs": ["list", "watch"],
        "subresources": [{"subresource": "status"}] if kind.has_status else [],
    }


async def _bookmarks(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    with suppress(ConnectionError):
        await response.prepare(request)
        await asyncio.sleep(int(request.query.get("timeoutSeconds", 60)))
    return response


def _refused(code: int, reason: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "reason": reason, "message": reason}, status=code)
