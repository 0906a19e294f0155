"""Whether a task is asked to end, or has only met something inside it that was.

A cancelled task that is awaited raises the same exception in whoever awaits it. Taken for an order to end, it would end
a worker without a word.
"""

import asyncio


def is_cancelled(error: BaseException) -> bool:
    """Say whether an error means that the current task itself is asked to end."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)
