"""An event loop whose time stands still while anything can be done, and else jumps to the next timer."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class StillLoop(asyncio.SelectorEventLoop):
    """Seconds begin at 1000."""

    def __init__(self) -> None:
        self.at = 1000.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.at


class _Jumping(selectors.DefaultSelector):
    def __init__(self, loop: StillLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everything waits for something that never comes")
        self._loop.at += max(0.0, timeout)
        return super().select(0)


def run_in_still_time(scenario: Callable[[StillLoop], Coroutine[Any, Any, None]]) -> None:
    """Run *scenario* to its end."""
    with asyncio.Runner(loop_factory=StillLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, StillLoop)
        runner.run(scenario(loop))
