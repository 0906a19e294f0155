"""Reachability of an API server, for the liveness and readiness probes.

A refused connection, a timeout or a 5xx is not a reason to restart: the process continues when the hub is back. If a
certificate does not verify or credentials are refused, the login is first read again
(`webhook.kube.client.api_server`). If the refusals last for `PATIENCE_SECONDS`, only a restart may help.

Source: docs/specifications/serving.md 6.4.
"""

import ssl
import time
from collections.abc import Callable
from typing import Final

PATIENCE_SECONDS: Final = 60.0
"""How long a process remains ready without a response, and live while the server refuses its credentials."""
ASK_SECONDS: Final = 10.0
"""Maximum silence before a process sends a probe: watches can be silent for longer."""

_ALERTS: Final = frozenset(
    {
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_CERTIFICATE_REVOKED",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
        "TLSV1_ALERT_UNKNOWN_CA",
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    }
)
"""Alerts of a server that refuses our client certificate, as named by OpenSSL."""


def is_about_certificates(error: BaseException | None) -> bool:
    """Return whether *error* or a cause of it is about an invalid server certificate, or refuses our certificate."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        if isinstance(error, ssl.SSLError) and error.reason in _ALERTS:
            return True
        error = error.__cause__ or error.__context__
    return False


class Contact:
    """The outcome of the requests to one API server.

    Args:
        clock: Monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answered = clock()
        self._refused: float | None = None  # the first of consecutive refusals. None: unset
        self._reason = "no request yet"

    def answered(self) -> None:
        """Record a response of the server to a client that it accepts."""
        self._answered, self._refused = self._clock(), None

    def failed(self, reason: str, *, is_refused: bool) -> None:
        """Record a request without such a response.

        Args:
            reason: Human-readable reason.
            is_refused: Whether certificates or credentials are refused, even after they were read again.
        """
        self._reason = reason
        if not is_refused:
            self._refused = None
        elif self._refused is None:
            self._refused = self._clock()

    @property
    def seconds_to_probe(self) -> float:
        """Seconds until a probe is due, unless another request is answered earlier."""
        return self._answered + ASK_SECONDS - self._clock()

    def outage(self) -> str:
        """Return the duration and cause of an outage of `PATIENCE_SECONDS` or more, otherwise an empty string."""
        seconds = self._clock() - self._answered
        return "" if seconds < PATIENCE_SECONDS else f"no answer for {seconds:.0f} s: {self._reason}"

    def refusal(self) -> str:
        """Return the duration and cause of refusals for `PATIENCE_SECONDS` or more, otherwise an empty string."""
        seconds = 0.0 if self._refused is None else self._clock() - self._refused
        return "" if seconds < PATIENCE_SECONDS else f"refused for {seconds:.0f} s: {self._reason}"
