"""One instant for every page test: fixtures, servers and browser agree on it."""

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import wraps
from typing import Any, Final

import pytest

NOW: Final = datetime(2026, 11, 23, 12, 20, 30, tzinfo=UTC)
"""A Monday at lunchtime, in the week of the literal dates of the fixtures."""
HTTP_DATE: Final = format_datetime(NOW, usegmt=True)
"""`NOW` as a ``Date`` header, from which the page calibrates its clock."""

_NO_CHECK_TIME: Final = ssl.VerifyFlags(0x200000)
"""OpenSSL's ``X509_V_FLAG_NO_CHECK_TIME``, for which the ssl module has no name."""


class HubClock:
    """The clock of a real hub: starts at `NOW` and advances with the monotonic clock until it is stopped."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._stopped: datetime | None = None

    def __call__(self) -> datetime:
        return self._stopped or NOW + timedelta(seconds=time.monotonic() - self._started)

    def stop(self) -> None:
        """Freeze the clock."""
        self._stopped = self()


@contextmanager
def servers_at_now() -> Iterator[None]:
    """Make the aiohttp servers and the TLS clients of this process independent of the machine's clock.

    A real hub takes its clock as an argument, but two things around it read the machine's. aiohttp writes the ``Date``
    header, and OpenSSL compares the validity of the hub's certificates, which start at `NOW`. Clients still verify the
    chain and the host name.
    """
    create = ssl.create_default_context

    @wraps(create)
    def create_without_dates(*args: Any, **options: Any) -> ssl.SSLContext:
        context = create(*args, **options)
        context.verify_flags |= _NO_CHECK_TIME
        return context

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aiohttp.web_response.rfc822_formatted_time", lambda: HTTP_DATE)
        patch.setattr(ssl, "create_default_context", create_without_dates)
        yield
