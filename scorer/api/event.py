"""Events to record about objects."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Event:
    """An event to record about an object.

    Args:
        reason: One word.
        message: Human-readable text.
        type: ``Normal`` or ``Warning``.
    """

    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"
