"""Checks of ours that break."""

import logging

_log = logging.getLogger(__name__)


def log_failure(check: str, error: Exception) -> None:
    """Tell our own people that a live check broke."""
    _log.error("live check failed", exc_info=error, extra={"check": check})
