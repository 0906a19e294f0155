"""A clock that moves when told to, and on which others sleep."""

import asyncio
from datetime import datetime, timedelta


class SleepingClock:
    """Stands still between calls of `advance`.

    Args:
        start: Its first time.
    """

    def __init__(self, start: datetime) -> None:
        self.time = start
        self.moved = asyncio.Condition()

    def now(self) -> datetime:
        return self.time

    async def sleep(self, seconds: float) -> None:
        until = self.time + timedelta(seconds=seconds)
        async with self.moved:
            await self.moved.wait_for(lambda: self.time >= until)

    async def advance(self, seconds: float) -> None:
        async with self.moved:
            self.time += timedelta(seconds=seconds)
            self.moved.notify_all()
