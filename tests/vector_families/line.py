"""What all families share: a line, and how what was seen is compared with what it wants."""

from typing import Any

Line = dict[str, Any]


def compare(seen: Line, want: Line) -> None:
    """Only the keys that the line wants count."""
    assert {key: seen[key] for key in want} == want
