"""Whether an API server answers, for the liveness and readiness probes.

A refused connection, a timeout or a 5xx is no reason to restart: the hub is away, and the process goes on when it is
back. A certificate that does not verify and credentials that are refused are another matter. They are read again from
their files first (`webhook.kube.client.api_server`). If they are refused for `PATIENCE_SECONDS` all the same, only a
fresh start may help.

Source: serving.md 6.4.
"""

import ssl
import time
from collections.abc import Callable
from typing import Final

PATIENCE_SECONDS: Final = 60.0
"""How long a process is ready without an answer, and live without one that accepts us."""
ASK_SECONDS: Final = 10.0
"""Longest time without an answer before a process asks for one: watches can be silent for longer."""

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
"""How a server refuses our client certificate, in the names of OpenSSL."""


def is_about_certificates(error: BaseException | None) -> bool:
    """Return whether an error or one of its causes is a certificate that one of the two sides does not accept."""
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
        clock: Seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answered = clock()
        self._refused: float | None = None  # the first refusal in a row. None: unset
        self._reason = "no request yet"

    def answered(self) -> None:
        """Note an answer of the server to a client that it accepts."""
        self._answered, self._refused = self._clock(), None

    def failed(self, reason: str, *, is_refused: bool) -> None:
        """Note a request without such an answer.

        Args:
            reason: Fit for a user.
            is_refused: Certificates or credentials are the reason, also after they were read again.
        """
        self._reason = reason
        if not is_refused:
            self._refused = None
        elif self._refused is None:
            self._refused = self._clock()

    @property
    def seconds_to_probe(self) -> float:
        """Seconds until a request is due, unless another one is answered before."""
        return self._answered + ASK_SECONDS - self._clock()

    def outage(self) -> str:
        """Return the length and the cause of a silence of `PATIENCE_SECONDS` or more, else an empty text."""
        seconds = self._clock() - self._answered
        return "" if seconds < PATIENCE_SECONDS else f"no answer for {seconds:.0f} s: {self._reason}"

    def refusal(self) -> str:
        """Return the length and the cause of refusals for `PATIENCE_SECONDS` or more, else an empty text."""
        seconds = 0.0 if self._refused is None else self._clock() - self._refused
        return "" if seconds < PATIENCE_SECONDS else f"refused for {seconds:.0f} s: {self._reason}"
