"""Authentication of the API server at the webhooks, and the limits for all other senders.

Any client that reaches our port can send reviews and name any user as their author. So it depends on how a review
arrived what it may cause: with a client certificate of an accepted name, or below the secret path of the installation,
it is the API server's. All other senders are strangers: their reviews are judged by the rules alone, or refused.

Where neither is configured, senders cannot be told apart, and every one of them is taken for the API server.

The webhook configurations may call by another path than the settings say, while an installation is upgraded or rolled
back. The path that they call is the API server's.

Source: serving.md 8, "Strangers at the hooks".
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from hmac import compare_digest
from typing import Final, Protocol

from certs.context import CertificateSubject
from webhook.settings.access import AccessSettings

LEARNING_SECONDS: Final = 0.5
"""How long a caller of another path waits: the API server may have heard of a change before us."""


class Calls(Protocol):
    """How the API server calls the hooks now, as far as that is known."""

    @property
    def plainly(self) -> bool:
        """Whether it calls the plain paths."""

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """The secrets below which it calls."""

    async def change(self) -> None:
        """Wait until what is known has been brought up to date."""


class ApiServerVerifier:
    """Tells the API server from strangers.

    Attributes:
        refuses: Strangers are refused.
        tells_strangers: The settings allow to tell strangers from the API server.

    Args:
        settings: How the API server is told from strangers.
        secrets: Those of the installation, if any.
        now: The clock.
        calls: How the API server calls the hooks. None: unknown, the settings alone count.
    """

    def __init__(
        self,
        settings: AccessSettings,
        secrets: tuple[str, ...],
        now: Callable[[], datetime],
        calls: Calls | None = None,
    ) -> None:
        self._certificate_only = settings.require_client_certificate
        self.refuses = self._certificate_only or not settings.plain_admission_paths
        self.verifies_callers = settings.verifies_callers
        self._names = frozenset(settings.admission_client_names)
        self._secrets = tuple(secret.encode() for secret in secrets)
        self._now = now
        self._calls = calls

    def has_secret(self, url_secret: str) -> bool:
        """Return whether *url_secret* is a secret of the installation, in constant time."""
        candidate = url_secret.encode("utf-8", "surrogateescape")
        matches = False
        secrets = () if self._calls is None else self._calls.secrets
        for secret in (*self._secrets, *secrets):  # all of them, so that the time does not depend on the match
            matches |= compare_digest(secret, candidate)
        return matches

    async def learns_secret(self, url_secret: str) -> bool:
        """Return whether *url_secret* is a secret of the installation, or becomes one within a moment."""
        return await self._soon(lambda: self.has_secret(url_secret))

    async def learns(self, transport: asyncio.BaseTransport | None, *, by_secret: bool) -> bool:
        """Return whether a request is the API server's, as `knows`, or becomes that within a moment."""
        return await self._soon(lambda: self.knows(transport, by_secret=by_secret))

    async def _soon(self, holds: Callable[[], bool]) -> bool:
        """Return whether *holds*, which the news of another path of the hooks may change."""
        if holds() or self._calls is None or self._certificate_only:
            return holds()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEARNING_SECONDS):
                while not holds():
                    await self._calls.change()
        return holds()

    def knows(self, transport: asyncio.BaseTransport | None, *, by_secret: bool) -> bool:
        """Say whether a request is the API server's.

        Args:
            transport: What it arrived by; None: its client has gone.
            by_secret: It arrived below the secret path.

        Raises:
            StaleClientError: The certificate was valid when the connection was made, and no longer is.
        """
        if not self.verifies_callers:
            return True
        if not self._certificate_only and (by_secret or (self._calls is not None and self._calls.plainly)):
            return True
        connection = None if transport is None else transport.get_extra_info("ssl_object")
        if connection is None:
            return False
        subject = CertificateSubject.of_client(connection, self._now())
        return subject is not None and subject.common_name in self._names


UNVERIFIED_SHARE: Final = 0.2
"""The share of the time that the reviews of all strangers together may take."""


class TooManyUnverifiedReviewsError(Exception):
    """Too many strangers wait for their turn; the message may be shown to them."""


class UnverifiedReviewLimiter:
    """Lets strangers in one by one, and keeps most of the time free for the API server.

    Args:
        most: How many may wait.
    """

    def __init__(self, most: int) -> None:
        self._most = max(1, most)
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._next = 0.0

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[None]:
        """Wait for a turn. Raises `TooManyUnverifiedReviewsError`."""
        if self._waiting >= self._most:
            raise TooManyUnverifiedReviewsError("too many reviews that are not the API server's")
        self._waiting += 1
        try:
            async with self._turn:
                loop = asyncio.get_running_loop()
                # The pause is made while holding the lock: otherwise all that wait would sleep side by side, and their
                # reviews would come at once, in time that belongs to the API server.
                await asyncio.sleep(self._next - loop.time())
                began = loop.time()
                try:
                    yield
                finally:
                    end = loop.time()
                    self._next = end + (end - began) * (1 / UNVERIFIED_SHARE - 1)
        finally:
            self._waiting -= 1
