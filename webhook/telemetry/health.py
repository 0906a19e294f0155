"""Health of the server, for the probes and for the handlers.

Source: docs/specifications/serving.md 1.14 and 6.4.
"""

import asyncio
from collections.abc import Callable
from typing import Final

LONGEST_LAG_SECONDS: Final = 5.0
LAG_CHECK_SECONDS: Final = 1.0

Check = Callable[[], str]
"""Returns an empty string if healthy, otherwise the problem."""


class Health:
    """Readiness and liveness checks by name, in order of registration, and the progress of a shutdown.

    Attributes:
        draining: Set once the server must stop. It is not ready then, and every response closes its connection.
        closed: Whether the HTTPS listener is closed, so that reviews are no longer answered.
        lag_seconds: Delay of the event loop's timers.
    """

    def __init__(self) -> None:
        self.draining = asyncio.Event()
        self.closed = False
        self.lag_seconds = 0.0
        self._remarks: dict[str, Check] = {}
        self._liveness: dict[str, Check] = {"event-loop": self._lag}
        self._readiness: dict[str, Check] = {
            "not-draining": lambda: "the server is shutting down" if self.draining.is_set() else ""
        }

    async def keep_measuring(self) -> None:
        """Measure the lag of the event loop until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LAG_CHECK_SECONDS
            await asyncio.sleep(LAG_CHECK_SECONDS)
            self.lag_seconds = max(0.0, loop.time() - due)

    def require(self, name: str, check: Check, remark: Check | None = None) -> None:
        """Make readiness depend on *check*.

        Args:
            name: Name of the check.
            check: Returns the problem.
            remark: Returns a description of the healthy state. None: unset.
        """
        self._readiness[name] = check
        if remark is not None:
            self._remarks[name] = remark

    def live_by(self, name: str, check: Check) -> None:
        """Make liveness depend on *check*, which must fail only if a restart is the only remedy."""
        self._liveness[name] = check

    def describe(self, name: str) -> str:
        """Return the description of a healthy check, empty if it has none."""
        return self._remarks[name]() if name in self._remarks else ""

    def readiness(self) -> dict[str, str]:
        """Run every readiness check. Return the problems by check, an empty string if healthy."""
        return {name: check() for name, check in self._readiness.items()}

    def liveness(self) -> dict[str, str]:
        """Run every liveness check. Return the problems by check, an empty string if healthy."""
        return {name: check() for name, check in self._liveness.items()}

    def _lag(self) -> str:
        late = self.lag_seconds >= LONGEST_LAG_SECONDS
        return f"timers fire {self.lag_seconds:.1f} s late" if late else ""
