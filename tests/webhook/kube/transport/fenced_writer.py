"""A process that sends one write through a fence: what `test_fence` stops and lets go on.

Arguments: the URL of the server, the file whose existence closes the fence, the number of bytes to write, the name of
the event loop, and how many requests shall hold a connection before. The outcome is printed.
"""

import asyncio
import sys
from pathlib import Path

import uvloop

from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.paths import ApiPath
from webhook.kube.login.connection import Login
from webhook.kube.ports import StoreError


class FenceClosedError(StoreError):
    """Nothing may be written any more."""


async def main(url: str, closed: Path, size: int, holders: int) -> str:
    def fence() -> None:
        if closed.exists():
            raise FenceClosedError("the fence is closed")

    async with ApiServer(Login(url, trust=False), connections=max(1, holders)) as server:
        holding = [asyncio.create_task(server.request("GET", ApiPath("hold"))) for _ in range(holders)]
        await asyncio.sleep(0.1)
        writing = asyncio.create_task(server.request("POST", ApiPath("write"), {"text": "x" * size}, fence=fence))
        await asyncio.sleep(0.1)  # until it waits for what it has to wait for
        print("begun", flush=True)  # noqa: T201
        try:
            answer = await writing
        except FenceClosedError as error:
            outcome = f"refused: {error}"
        except StoreError as error:
            outcome = f"failed: {error}"
        else:
            outcome = f"written: {answer}"
        await asyncio.gather(*holding, return_exceptions=True)
    return outcome


if __name__ == "__main__":
    url, closed, size, loop, holders = sys.argv[1:]
    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        print(runner.run(main(url, Path(closed), int(size), int(holders))), flush=True)  # noqa: T201
