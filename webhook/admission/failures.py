"""Logs live checks that break."""

import logging

_log = logging.getLogger(__name__)


def log_failure(check: str, error: Exception) -> None:
    """Log for the operators that a live check broke; the author of the write gets no warning from it."""
    _log.error("live check failed", exc_info=error, extra={"check": check})
