"""Authentication of the API server at the webhooks, and limits for unverified callers.

Any client that can reach the port can send reviews, with any user as their author. So the effect of a review depends on
how it arrived. A review counts as the API server's if it has a client certificate with an accepted name, or is sent
below the secret path of the installation. If the settings require a client certificate, a secret path is not enough.
Reviews of all other callers are judged by the rules alone, or refused.

If neither is configured, callers cannot be verified, and each of them counts as the API server.

During an upgrade or rollback of an installation, the webhook configurations may call another path than the settings
name. A review on the path that they call counts as the API server's.

Source: docs/specifications/serving.md 8, "Strangers at the hooks".
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
"""Maximum delay of callers on other paths: the API server may observe a changed path before this process does."""


class Calls(Protocol):
    """Properties of the API server's calls to the hooks, as observed by this process."""

    @property
    def plainly(self) -> bool:
        """Whether the API server calls the plain paths."""

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """Secret segments of the paths that the API server calls."""

    async def change(self) -> None:
        """Wait until the calls have been observed again."""


class ApiServerVerifier:
    """Distinguishes the API server from unverified callers.

    Attributes:
        refuses: Whether unverified callers are refused.
        verifies_callers: Whether the settings make callers verifiable. If not, every caller counts as the API server.

    Args:
        settings: Settings for the verification of the API server.
        secrets: Secret path segments of the installation, if any.
        now: The clock.
        calls: Observed calls of the API server. None: unknown, only the settings count.
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
        """Return whether *url_secret* is a secret of the installation or of a called path, in constant time."""
        candidate = url_secret.encode("utf-8", "surrogateescape")
        matches = False
        secrets = () if self._calls is None else self._calls.secrets
        for secret in (*self._secrets, *secrets):  # all of them, so that the time does not depend on the match
            matches |= compare_digest(secret, candidate)
        return matches

    async def learns_secret(self, url_secret: str) -> bool:
        """Return whether `has_secret` is true, or becomes true within `LEARNING_SECONDS`."""
        return await self._soon(lambda: self.has_secret(url_secret))

    async def learns(self, transport: asyncio.BaseTransport | None, *, by_secret: bool) -> bool:
        """Return whether `knows` is true, or becomes true within `LEARNING_SECONDS`. Raises as `knows`."""
        return await self._soon(lambda: self.knows(transport, by_secret=by_secret))

    async def _soon(self, holds: Callable[[], bool]) -> bool:
        """Return whether *holds* is true, now or after an update of the observed paths within `LEARNING_SECONDS`."""
        if holds() or self._calls is None or self._certificate_only:
            return holds()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEARNING_SECONDS):
                while not holds():
                    await self._calls.change()
        return holds()

    def knows(self, transport: asyncio.BaseTransport | None, *, by_secret: bool) -> bool:
        """Return whether a request counts as the API server's.

        Args:
            transport: Transport of the request. None: unknown, the client has disconnected.
            by_secret: Whether the request arrived below the secret path.

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
"""Maximum share of time that the reviews of all unverified callers together may take."""


class TooManyUnverifiedReviewsError(Exception):
    """Too many unverified callers wait or are under review. The message may be shown to them."""


class UnverifiedReviewLimiter:
    """Serializes the reviews of unverified callers, and reserves most of the time for the API server.

    Args:
        most: Maximum number of callers that wait or are under review.
    """

    def __init__(self, most: int) -> None:
        self._most = max(1, most)
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._next = 0.0

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[None]:
        """Wait for a turn.

        Raises:
            TooManyUnverifiedReviewsError: The maximum number of callers has been reached.
        """
        if self._waiting >= self._most:
            raise TooManyUnverifiedReviewsError("too many reviews from callers other than the API server")
        self._waiting += 1
        try:
            async with self._turn:
                loop = asyncio.get_running_loop()
                # Pause while holding the lock: otherwise all waiting callers would sleep concurrently, and their
                # reviews would run back to back, in time that is reserved for the API server.
                await asyncio.sleep(self._next - loop.time())
                began = loop.time()
                try:
                    yield
                finally:
                    end = loop.time()
                    self._next = end + (end - began) * (1 / UNVERIFIED_SHARE - 1)
        finally:
            self._waiting -= 1
