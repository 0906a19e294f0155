"""Logs failures of live checks."""

import logging

_log = logging.getLogger(__name__)


def log_failure(check: str, error: Exception) -> None:
    """Log the failure of a live check. The author of the write gets no warning about it."""
    _log.error("live check failed", exc_info=error, extra={"check": check})
