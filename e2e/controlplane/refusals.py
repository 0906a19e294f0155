"""What an API server says is wrong with a write that it refuses."""

from collections.abc import Iterator

from e2e.controlplane.cluster import ApiError

UNCHECKED = "some validation rules were not checked"
"""What it adds when something of a wrong type keeps it from asking its own rules."""


def causes_of(error: ApiError) -> Iterator[tuple[str, str]]:
    """Yield what is wrong by field, but for what is only a consequence."""
    return ((cause["field"], cause["message"]) for cause in error.causes if UNCHECKED not in cause["message"])
