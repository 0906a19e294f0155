"""What takes long to start is shared by the tests that run together, and runs only as long as they do."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Generic, Protocol, TypeVar

Thing = TypeVar("Thing")


class Startable(Protocol):
    """A thing that is started once and stopped at the end."""

    def start(self) -> None:
        """Start it."""

    def stop(self) -> None:
        """Stop it, also if it has started only in part."""


Started = TypeVar("Started", bound=Startable)


@contextmanager
def started(found: Started) -> Iterator[Started]:
    """Start a thing, and stop it at the end, also if it fails to start."""
    try:
        found.start()
        yield found
    finally:
        found.stop()


class Shared(Generic[Thing]):
    """Starts a thing when it is asked for, and another one after that was ended.

    Args:
        run: Starts one and ends it; given its number, so that each can have a name of its own.
    """

    def __init__(self, run: Callable[[int], AbstractContextManager[Thing]]) -> None:
        self._run = run
        self._started = 0
        self._running = ExitStack()
        self._thing: Thing | None = None

    def running(self) -> Thing:
        """The thing; it is started when none is there."""
        if self._thing is None:
            self._started += 1
            self._thing = self._running.enter_context(self._run(self._started))
        return self._thing

    def end(self) -> None:
        """End the thing, if there is one."""
        self._thing = None
        self._running.close()
