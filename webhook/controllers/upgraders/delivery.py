"""Tells an upgrader outside of operations, by HTTP.

It is told again until it says that it has understood; it knows a repeated operation by its id. No redirect is followed,
no cookie is kept, and little of an answer is read.

Source: upgrade-runs.md 13.4.
"""

import asyncio
import ssl
from typing import Final

import aiohttp
import orjson

from scorer.api.documents import metadata_of, text_at
from scorer.api.meta import JsonObject
from scorer.api.quoting import printable
from scorer.upgrade.back_end import Rejected, Started, StartResult
from webhook.access.signature import OPERATION, SIGNATURE, sign
from webhook.kube.connector import LoopConnector
from webhook.settings.bounded_file import read_bounded
from webhook.settings.environment import SettingsError
from webhook.settings.hand_off import HandOffOptions
from webhook.settings.hook_secrets import read_secrets

LARGEST_ANSWER_BYTES: Final = 4096
SETTING: Final = "HANDOFF_SECRET_FILE"
_LONGEST_MESSAGE: Final = 300
_ALREADY: Final = 409
_LATER: Final = frozenset({408, 425, 429})


class NotDeliveredError(Exception):
    """The upgrader has not understood, or nobody knows whether it has; it is told again."""


class Delivery:
    """Posts requests.

    Args:
        options: Where to, and with which secret.
    """

    def __init__(self, options: HandOffOptions) -> None:
        self._options = options

    async def post(self, request: JsonObject) -> StartResult:
        """Tell the upgrader of an operation.

        Args:
            request: The ClusterUpgradeRequest.

        Raises:
            NotDeliveredError: It cannot be reached, answers that it cannot take it now or no HTTP at all, or there is
                nothing to sign with.
        """
        try:
            return await self._post(request)
        except (SettingsError, OSError, aiohttp.ClientError, ValueError) as error:  # ValueError: a file without sense
            raise NotDeliveredError(f"{type(error).__name__}: {error}") from error

    async def _post(self, request: JsonObject) -> StartResult:
        metadata = {key: metadata_of(request)[key] for key in ("name", "labels", "uid") if key in metadata_of(request)}
        told = {
            "apiVersion": request["apiVersion"],
            "kind": request["kind"],
            "metadata": metadata,
            "spec": request["spec"],
        }
        body = orjson.dumps(told)
        trust, secret = await asyncio.to_thread(self._credentials)
        headers = {
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            OPERATION: text_at(request, "spec", "operationID"),
            SIGNATURE: sign(secret, body),
        }
        session = aiohttp.ClientSession(
            connector=LoopConnector(ssl=trust), cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
        )
        async with (
            session,
            session.post(self._options.url, data=body, headers=headers, allow_redirects=False) as response,
        ):
            said = await response.content.read(LARGEST_ANSWER_BYTES)
        return _understood(response.status, said)

    def _credentials(self) -> tuple[ssl.SSLContext | bool, str]:
        """Return whom to trust and what to sign with, from files as they are now: both are renewed by others."""
        secrets = read_secrets(self._options.secret_file, SETTING)
        if not self._options.url.startswith("https:"):
            return True, secrets[0]
        ca = self._options.ca
        return ssl.create_default_context(cadata=None if ca is None else read_bounded(ca).decode("ascii")), secrets[0]


def _understood(status: int, said: bytes) -> StartResult:
    if 200 <= status < 300:
        return Started.ACCEPTED
    if status == _ALREADY:
        return Started.ALREADY_RUNNING
    message = printable(said.decode("utf-8", "replace")[:_LONGEST_MESSAGE]).strip()
    if 400 <= status < 500 and status not in _LATER:
        return Rejected(f"Http{status}", message or f"the upgrader answers with HTTP status {status}")
    raise NotDeliveredError(f"the upgrader answers with HTTP status {status}: {message}")
