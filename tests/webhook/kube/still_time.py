"""Virtual time in which a store takes none."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.virtual_time import VirtualTimeLoop


class StillLoop(VirtualTimeLoop):
    """Virtual time for tests that measure by it: a soak does not delay their writes (`tests.thoroughness`)."""


def run_in_still_time(scenario: Callable[[StillLoop], Coroutine[Any, Any, None]]) -> None:
    """Run *scenario* to its end."""
    with asyncio.Runner(loop_factory=StillLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, StillLoop)
        runner.run(scenario(loop))
