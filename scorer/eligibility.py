"""How long a cluster may be silent or unhealthy before it is no longer eligible.

Source: scheduling.md 5.
"""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class EligibilityLimits:
    """How old a heartbeat may be, and how long ill health may last; inclusive."""

    heartbeat: timedelta = timedelta(minutes=5)
    health: timedelta = timedelta(minutes=5)
