"""Requests to a real API server: bytes out, decoded JSON in, every failure a `StoreError`.

Configuration, credentials, TLS and transport are those of kubernetes-asyncio; its generated models are not used:
objects travel as plain documents. What is chosen differently from its defaults, and why: every request has a timeout
(an explicit timeout of its own means none at all), the status of a watch is looked at before its lines (the library
does not), bodies are written by orjson; lone surrogates, which it refuses, go out as U+FFFD.

Source: serving.md 7.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import orjson
import yaml
from kubernetes_asyncio.client import ApiClient, Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config

from scorer.api.meta import JsonObject, dump_json
from webhook.kube.ports import (
    AlreadyExistsError,
    ConflictError,
    ExpiredError,
    InvalidObjectError,
    NotFoundError,
    StoreError,
)

REQUEST_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 5.0
SILENCE_SECONDS: Final = 90.0
"""A watch that says nothing for so long, not even a bookmark, is taken for dead."""
CONNECTIONS: Final = 200

_ERRORS: Final[Mapping[int, type[StoreError]]] = {
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    422: InvalidObjectError,
}

_log = logging.getLogger(__name__)


class UnavailableError(StoreError):
    """The API server cannot be reached or cannot answer now; trying again later may help."""


class ForbiddenError(StoreError):
    """We may not do this; the message is the API server's."""


class ConfigurationError(Exception):
    """There is no usable kubeconfig; the message names it and says what is wrong."""


class ApiServer:
    """One API server; close it by ``async with``. It has to be made inside the event loop, by `connect`."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._client = ApiClient(configuration)
        self.address = str(configuration.host).rstrip("/")

    @classmethod
    async def connect(cls, kubeconfig: Path | None = None, context: str | None = None) -> Self:
        """Return the API server of a kubeconfig, or of the pod that this runs in when there is none.

        Nothing is asked of the server yet.

        Raises:
            ConfigurationError: The file cannot be used, or there is none and this is no pod.
        """
        configuration = Configuration()
        try:
            if kubeconfig is None:
                load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # theirs
            else:
                await asyncio.to_thread(kubeconfig.read_bytes)  # the library takes a missing file for an empty one
                await load_kube_config(str(kubeconfig), context=context, client_configuration=configuration)
        except (ConfigException, OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as error:
            where = f"kubeconfig {kubeconfig}" if kubeconfig else "no --kubeconfig is given and this runs in no pod"
            reason = error.strerror if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())
            raise ConfigurationError(f"{where}: {reason}") from error
        configuration.connection_pool_maxsize = CONNECTIONS
        try:
            return cls(configuration)
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"kubeconfig {kubeconfig}: {error}") from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def request(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        seconds: float = REQUEST_SECONDS,
    ) -> JsonObject:
        """Send one request and return the document that comes back.

        Raises:
            StoreError: Of the kind that fits the refusal; `UnavailableError` when there was no answer.
        """
        async with self._send(method, path, body, query, content_type, _patience(seconds)) as response:
            content = await response.read()
            document = _decode(content)
            if response.status >= 300:
                raise _refusal(response.status, document, content)
            return document

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncIterator[JsonObject]:
        """Yield the events of one watch request until the server ends it.

        Raises:
            ExpiredError: The version to watch from is too old, or an event is too long to be read: list again.
            StoreError: The server refused, or the connection broke.
        """
        silence = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
        async with self._send("GET", path, None, query, "application/json", silence) as response:
            if response.status >= 300:
                content = await response.read()
                raise _refusal(response.status, _decode(content), content)
            try:
                async for line in response.content:
                    event = _decode(line)
                    if event.get("type") == "ERROR":
                        status = event.get("object") or {}
                        raise _refusal(int(status.get("code") or 500), status, line)
                    yield event
            except ValueError as error:  # a line longer than the buffer
                raise ExpiredError(f"{path}: an event cannot be read: {error}") from error

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        body: JsonObject | None,
        query: Mapping[str, str] | None,
        content_type: str,
        patience: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        session: aiohttp.ClientSession = self._client.rest_client.pool_manager
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": "harbormaster"}
        for setting in (await self._configuration.auth_settings()).values():
            headers[setting["key"]] = setting["value"]
        extra: dict[str, Any] = {}
        if self._configuration.tls_server_name:
            extra["server_hostname"] = self._configuration.tls_server_name
        if self._configuration.proxy:
            extra["proxy"] = self._configuration.proxy
        data = None if body is None else dump_json(body)
        try:
            async with session.request(
                method,
                self.address + path,
                params=query,
                data=data,
                headers=headers,
                timeout=patience,
                allow_redirects=False,
                **extra,
            ) as response:
                yield response
        except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise UnavailableError(f"{self.address} does not answer {method} {path}: {reason}") from error


def _patience(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)


def _decode(content: bytes) -> JsonObject:
    """Read a body as a document; what is none, the HTML of a proxy perhaps, becomes an empty one."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def _refusal(code: int, status: JsonObject, content: bytes) -> StoreError:
    message = str(status.get("message") or content[:200].decode(errors="replace").strip() or f"HTTP {code}")
    if code == 409 and status.get("reason") == "AlreadyExists":
        return AlreadyExistsError(message)
    if code in {401, 403}:
        return ForbiddenError(message)
    if code == 400 and status.get("reason") == "Expired":
        return ExpiredError(message)
    if code == 429 or code >= 500:
        return UnavailableError(message)
    return _ERRORS.get(code, StoreError)(message)
