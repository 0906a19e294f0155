"""Queries the endpoints that the operator has configured. Users give names, never addresses.

An answer is one number, so its size and the time to read it are limited. Redirects are not followed, cookies are not
kept, and the environment adds neither a proxy nor credentials: a token is sent only to the endpoints of the settings.

Source: Prometheus, HTTP API, instant queries.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from datetime import datetime
from typing import Final

import aiohttp
import orjson

from scorer.api.values.quoting import quote
from scorer.staged_update.approval.analysis import QueryCheck
from scorer.staged_update.approval.analysis_evaluation import NotSeen, Observation, read_answer
from webhook.kube.transport.sessions import LoopConnector
from webhook.runtime.files import read_bounded
from webhook.settings.analysis import AnalysisOptions
from webhook.settings.environment import PREFIX

LARGEST_ANSWER_BYTES: Final = 64 * 1024
LARGEST_TOKEN_BYTES: Final = 16 * 1024

log = logging.getLogger(__name__)


class QueryEndpoints:
    """Query endpoints of the settings.

    Args:
        options: Addresses and limits.
        now: The clock.
    """

    def __init__(self, options: AnalysisOptions, now: Callable[[], datetime]) -> None:
        self._options = options
        self._now = now

    async def query(self, check: QueryCheck, home: str) -> Observation:
        """Return the answer of an endpoint. Failures are returned as `NotSeen`, not raised.

        Args:
            check: The query.
            home: Namespace of the run, empty for a cluster-scoped one.
        """
        name = check.endpoint
        address = self._options.endpoints.get(name)
        if address is None:
            return NotSeen(
                "EndpointUnknown", f"endpoint {quote(name)} is not in {PREFIX}ANALYSIS_ENDPOINTS of the loop"
            )
        if not self._options.may_query(name, home):
            setting = f"{PREFIX}ANALYSIS_ENDPOINT_NAMESPACES"
            message = f"{setting} of the loop does not allow runs in namespace {quote(home)} to query {quote(name)}"
            return NotSeen("EndpointNotAllowed", message)
        try:
            async with asyncio.timeout(self._options.seconds):
                return await self._ask(name, address, check.expression)
        except TimeoutError:
            return NotSeen("Timeout", f"{name} did not respond within {self._options.seconds:g} seconds", failed=True)
        except (OSError, aiohttp.ClientError, ValueError) as error:
            log.warning("query failed", extra={"endpoint": name, "error": str(error)})
            return NotSeen("Unreachable", f"query of {name} failed: {type(error).__name__}", failed=True)

    async def _ask(self, name: str, address: str, expression: str) -> Observation:
        trust, headers = await asyncio.to_thread(self._credentials, address)
        session = aiohttp.ClientSession(
            connector=LoopConnector(ssl=trust), cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
        )
        async with (
            session,
            session.get(
                f"{address}/api/v1/query", params={"query": expression}, headers=headers, allow_redirects=False
            ) as response,
        ):
            body = await _read(response)
        if body is None:
            return NotSeen("AnswerTooLarge", f"{name} returned more than {LARGEST_ANSWER_BYTES} bytes", failed=True)
        return self._understand(name, response.status, body)

    def _credentials(self, address: str) -> tuple[ssl.SSLContext | bool, dict[str, str]]:
        """Return the TLS trust and the headers. CA and token are read on each call: other processes rotate them."""
        headers = {"Accept-Encoding": "identity"}
        if not address.startswith("https:"):
            return True, headers
        ca = self._options.ca
        trust = ssl.create_default_context(cadata=None if ca is None else read_bounded(ca).decode("ascii"))
        if (file := self._options.token_file) is not None:
            headers["Authorization"] = f"Bearer {read_bounded(file, LARGEST_TOKEN_BYTES).decode('ascii').strip()}"
        return trust, headers

    def _understand(self, name: str, status: int, body: bytes) -> Observation:
        if 300 <= status < 400:
            return NotSeen("Redirected", f"{name} returned a redirect, which is not followed", failed=True)
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            answer = None
        if isinstance(answer, dict) and (status == 200 or answer.get("status") == "error"):
            return read_answer(answer, self._now())
        return NotSeen("AnswerUnreadable", f"{name} returned HTTP status {status} without a result", failed=True)


async def _read(response: aiohttp.ClientResponse) -> bytes | None:
    """Return the body. None if it is larger than the limit, and reading has stopped."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > LARGEST_ANSWER_BYTES:
            return None
    return bytes(body)
