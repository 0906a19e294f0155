"""Does a review come from the API server?

Any client that reaches our port can send reviews and name any user as their author. So it depends on how a review
arrived what it may cause: with a client certificate of an accepted name, or below the secret path of the installation,
it is the API server's. All other senders are strangers: their reviews are judged by the rules alone, or refused.

Where neither is configured, senders cannot be told apart, and every one of them is taken for the API server.

Source: serving.md 8, "Strangers at the hooks".
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from hmac import compare_digest

from certs.context import Subject
from webhook.settings.access import HookSettings


class Doorkeeper:
    """Tells the API server from strangers.

    Attributes:
        refuses: Strangers are refused.
        tells_strangers: The settings allow to tell strangers from the API server.

    Args:
        settings: What tells the API server from strangers.
        secrets: Those of the installation, if any.
        now: The clock.
    """

    def __init__(self, settings: HookSettings, secrets: tuple[str, ...], now: Callable[[], datetime]) -> None:
        self._certificate_only = settings.require_client_certificate
        self.refuses = self._certificate_only or not settings.plain_admission_paths
        self.tells_strangers = settings.tells_strangers
        self._names = frozenset(settings.admission_client_names)
        self._secrets = tuple(secret.encode() for secret in secrets)
        self._now = now

    def has_secret(self, given: str) -> bool:
        """Say whether *given* is a secret of the installation; how long that takes does not depend on *given*."""
        said = given.encode("utf-8", "surrogateescape")
        found = False
        for secret in self._secrets:  # all of them, without a break: the time must not tell which one came close
            found |= compare_digest(secret, said)
        return found

    def knows(self, transport: asyncio.BaseTransport | None, *, by_secret: bool) -> bool:
        """Say whether a request is the API server's.

        Args:
            transport: What it arrived by; None: its client has gone.
            by_secret: It arrived below the secret path.

        Raises:
            StaleClientError: The certificate was valid when the connection was made, and no longer is.
        """
        if not self.tells_strangers or (by_secret and not self._certificate_only):
            return True
        connection = None if transport is None else transport.get_extra_info("ssl_object")
        if connection is None:
            return False
        subject = Subject.of_client(connection, self._now())
        return subject is not None and subject.common_name in self._names
