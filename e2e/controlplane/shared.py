"""What takes long to start is shared by the tests that run together, and runs only as long as they do."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


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
