"""One fleet for all tests that stand on it, which runs only as long as they do."""

from collections.abc import Callable

from e2e.fleet.bed import Fleet


class SharedFleet:
    """Starts a fleet when one is asked for, and another one after that was ended.

    Args:
        make: Makes a fleet that is not started; each needs a name of its own.
    """

    def __init__(self, make: Callable[[str], Fleet]) -> None:
        self._make = make
        self._started = 0
        self._fleet: Fleet | None = None

    def running(self) -> Fleet:
        """The fleet; it is started when none is there."""
        if self._fleet is None:
            self._started += 1
            self._fleet = self._make(f"fleet-{self._started}")
            try:
                self._fleet.start()
            except BaseException:
                self.end()
                raise
        return self._fleet

    def end(self) -> None:
        """Stop the fleet, if there is one."""
        fleet, self._fleet = self._fleet, None
        if fleet is not None:
            fleet.stop()
