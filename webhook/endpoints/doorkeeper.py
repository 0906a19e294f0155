"""Does a review come from the API server?

Whoever reaches our port can send reviews, and name in them whomever he likes as their author. So what a review may
cause is decided by how it came: with a client certificate of an accepted name, or below the secret path of the
installation. All others are strangers: what they send is judged by the rules alone, or refused.

Where nothing of this is set up, nobody can be told apart, and everybody is taken for the API server.

Source: serving.md 8, "Strangers at the hooks".
"""

from collections.abc import Callable
from datetime import datetime
from hmac import compare_digest

from aiohttp import web

from certs.context import Subject
from webhook.settings.access import HookSettings


class Doorkeeper:
    """Tells the API server from strangers.

    Attributes:
        refuses: Strangers are sent away.
        tells_strangers: There is something by which they can be told.

    Args:
        settings: What makes the difference.
        secrets: Of the installation; empty: there are none.
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
        """Say whether *given* is a secret of the installation, in a time that says nothing about it."""
        said = given.encode("utf-8", "surrogateescape")
        found = False
        for secret in self._secrets:
            found |= compare_digest(secret, said)
        return found

    def knows(self, request: web.Request, *, by_secret: bool) -> bool:
        """Say whether a request is the API server's.

        Args:
            request: A review, unread so far.
            by_secret: It came below the secret path.

        Raises:
            StaleClientError: The certificate counted when the connection was made, and does not count any more.
        """
        if not self.tells_strangers or (by_secret and not self._certificate_only):
            return True
        connection = None if request.transport is None else request.transport.get_extra_info("ssl_object")
        if connection is None:
            return False
        subject = Subject.of_client(connection, self._now())
        return subject is not None and subject.common_name in self._names
