"""POST a signed JSON body to a receiver outside the cluster.

No redirect is followed, no cookie is kept, and little of an answer is read. Secrets and authorities are read from their
files at every call: both are renewed by others. How long a call may take is up to the caller.

Source: upgrade-runs.md 13.4.
"""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp

from scorer.api.values.quoting import printable
from webhook.access.signature import SIGNATURE, sign
from webhook.kube.transport.sessions import session_with, trust_in
from webhook.settings.environment import SettingsError
from webhook.settings.secret_files import read_secrets

LARGEST_ANSWER_BYTES: Final = 4096
LATER: Final = frozenset({408, 425, 429})
"""Statuses of refusals that hold for now."""
_LONGEST_MESSAGE: Final = 300


class NotPostedError(Exception):
    """It cannot be reached, what it says is no HTTP, or there is nothing to sign with or to trust.

    Args:
        reason: For the log.
        is_there: It was reached, and ended the connection or said something else than HTTP.
    """

    def __init__(self, reason: str, *, is_there: bool) -> None:
        super().__init__(reason)
        self.is_there = is_there


class PostResponse(NamedTuple):
    """What came back: the status, and the beginning of the body, fit for a log."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Receiver:
    """Who is posted to.

    Args:
        url: Its address.
        secret_file: File of secrets; the first signs.
        ca: File of the authorities of its certificate; None: those of the system.
        setting: What their settings are called, for messages: ``HANDOFF`` for ``HANDOFF_SECRET_FILE``.
    """

    url: str
    secret_file: Path | None
    ca: Path | None
    setting: str

    def credentials(self) -> tuple[ssl.SSLContext | bool, str]:
        """Return whom to trust and what to sign with.

        Raises:
            SettingsError: A file cannot be used.
        """
        secret = read_secrets(self.secret_file, f"{self.setting}_SECRET_FILE")[0]
        if not self.url.startswith("https:"):
            return True, secret
        return trust_in(self.ca, f"{self.setting}_CA"), secret


async def post_signed(receiver: Receiver, body: bytes, headers: Mapping[str, str]) -> PostResponse:
    """Post JSON with its signature.

    Args:
        receiver: Whom to.
        body: What is said.
        headers: Further headers.

    Raises:
        NotPostedError: Nobody knows whether it has arrived.
    """
    try:
        trust, secret = await asyncio.to_thread(receiver.credentials)
        own = {"Content-Type": "application/json", "Accept-Encoding": "identity", SIGNATURE: sign(secret, body)}
        async with (
            session_with(trust) as session,
            session.post(receiver.url, data=body, headers={**own, **headers}, allow_redirects=False) as response,
        ):
            text = await response.content.read(LARGEST_ANSWER_BYTES)
    except (SettingsError, OSError, aiohttp.ClientError, ValueError) as error:
        is_there = isinstance(error, aiohttp.ClientError) and not isinstance(error, aiohttp.ClientConnectorError)
        raise NotPostedError(f"{type(error).__name__}: {error}", is_there=is_there) from error
    return PostResponse(response.status, printable(text.decode("utf-8", "replace")[:_LONGEST_MESSAGE]).strip())
