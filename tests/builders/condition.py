"""Conditions as they stand on the wire."""

from typing import Any

from scorer.api.meta import JsonObject


def condition(
    kind: str,
    status: str = "True",
    reason: str = "Fine",
    message: str = "",
    generation: int = 1,
    *,
    since: str = "2026-01-01T00:00:00Z",
    **more: Any,
) -> JsonObject:
    """Make a condition; *generation* is the one that it was said about, *since* its last transition."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": since,
        **more,
    }
