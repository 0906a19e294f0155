"""The API server as the kubelet asks it: single requests, and lists that are kept up to date by a watch."""

import asyncio
import base64
import json
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import yaml

from e2e.controlplane.cluster import ApiError, JsonObject

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
RETRY_SECONDS = 0.5
REQUEST_SECONDS = 120
WATCH_SECONDS = 300
Key = tuple[str, str]
"""Namespace and name."""


class Api:
    """An API server.

    Args:
        kubeconfig: Where it is, and who the kubelet is there: a token, and the server's authority inline.
    """

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._url = cluster["server"]
        self._trust = ssl.create_default_context(cadata=authority)
        self._headers = {"Authorization": f"Bearer {user['token']}"}

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            self._url, headers=self._headers, connector=aiohttp.TCPConnector(ssl=self._trust, limit=0)
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def request(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> JsonObject:
        """Send one request and return the answer.

        Raises:
            ApiError: The API server refused.
            OSError: It could not be reached, or timed out.
        """
        content = None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type}
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        try:
            async with self._session.request(method, path, data=content, headers=headers, timeout=timeout) as answer:
                text = await answer.text()
                document = json.loads(text) if text.startswith("{") else {"message": text}
                if answer.status >= 300:
                    raise ApiError(answer.status, document)
                return dict(document)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionError(f"{method} {path}: {str(error) or type(error).__name__}") from error

    async def lines(self, path: str, query: Mapping[str, str]) -> Any:
        """Yield the lines of an answer that goes on, as documents."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS, sock_read=WATCH_SECONDS + 30)
        async with self._session.get(path, params=query, timeout=timeout) as answer:
            if answer.status != 200:
                raise ApiError(answer.status, {"message": await answer.text()})
            rest = b""
            async for chunk in answer.content.iter_any():
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield json.loads(line)


class Watched:
    """All objects of a list, by namespace and name, kept up to date.

    Args:
        api: Where they are.
        path: Of the list.
        changed: Called after each change and after each list read anew; what has changed is seen in `objects`.
    """

    def __init__(self, api: Api, path: str, changed: Callable[[], None]) -> None:
        self.objects: dict[Key, JsonObject] = {}
        self._api = api
        self._path = path
        self._changed = changed

    async def run(self) -> None:
        """Follow the list until cancelled; what is lost with a connection is read anew."""
        while True:
            try:
                await self._follow(await self._read())
            except (OSError, ApiError, aiohttp.ClientError, ValueError):
                await asyncio.sleep(RETRY_SECONDS)

    async def _read(self) -> str:
        listing = await self._api.request("GET", self._path)
        self.objects = {key_of(item): item for item in listing["items"]}
        self._changed()
        return str(listing["metadata"]["resourceVersion"])

    async def _follow(self, version: str) -> None:
        query = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        async for event in self._api.lines(self._path, query):
            item = event["object"]
            match event["type"]:
                case "ERROR":
                    raise ApiError(int(item.get("code", 500)), item)
                case "BOOKMARK":
                    continue
                case "DELETED":
                    self.objects.pop(key_of(item), None)
                case _:
                    self.objects[key_of(item)] = item
            self._changed()


def key_of(item: JsonObject) -> Key:
    """Namespace and name of an object."""
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
