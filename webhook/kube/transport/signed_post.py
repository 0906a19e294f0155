"""POST a signed JSON body to a receiver outside the cluster.

Follows no redirect, keeps no cookie, and reads little of the response. Secrets and authorities are read from their
files on every call, because both are rotated. The caller sets the timeout.

Source: docs/specifications/upgrade-runs.md 13.4.
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
"""Statuses of transient refusals."""
_LONGEST_MESSAGE: Final = 300


class NotPostedError(Exception):
    """The receiver is unreachable or does not respond with HTTP, or there is no secret or authority.

    Args:
        reason: Reason, for the log.
        is_there: Whether the receiver was reached, but closed the connection or did not respond with HTTP.
    """

    def __init__(self, reason: str, *, is_there: bool) -> None:
        super().__init__(reason)
        self.is_there = is_there


class PostResponse(NamedTuple):
    """Status and start of the body of a response, suitable for a log."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Receiver:
    """Receiver of posts.

    Args:
        url: Address.
        secret_file: File with secrets. Posts are signed with the first one.
        ca: File with the authorities that sign its certificate. None means those of the system.
        setting: Prefix of its settings, for messages: ``HANDOFF`` for ``HANDOFF_SECRET_FILE``.
    """

    url: str
    secret_file: Path | None
    ca: Path | None
    setting: str

    def credentials(self) -> tuple[ssl.SSLContext | bool, str]:
        """Return the TLS settings and the secret.

        Raises:
            SettingsError: A file is unusable.
        """
        secret = read_secrets(self.secret_file, f"{self.setting}_SECRET_FILE")[0]
        if not self.url.startswith("https:"):
            return True, secret
        return trust_in(self.ca, f"{self.setting}_CA"), secret


async def post_signed(receiver: Receiver, body: bytes, headers: Mapping[str, str]) -> PostResponse:
    """Post JSON with its signature.

    Args:
        receiver: The receiver.
        body: The JSON text.
        headers: Further headers.

    Raises:
        NotPostedError: There is no response. The receiver may nevertheless have got the body if ``is_there`` is set.
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
