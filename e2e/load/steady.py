"""Questions at a steady rate over a few connections, each answer checked, whatever goes wrong."""

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

from e2e.load.connection import Connection, dial
from e2e.load.tally import Tally


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and what its answer is held against.

    Args:
        request: The whole of it, as it is sent.
        problem: Says what is wrong with status and body of an answer; empty: nothing.
        limit_seconds: How long the answer may take: a later one is too late.
    """

    request: bytes
    problem: Callable[[int, bytes], str]
    limit_seconds: float


@dataclass(frozen=True, slots=True)
class Asking:
    """Who is asked, and what.

    Args:
        port: Of the server on this machine.
        trust: Its authority.
        question: Returns the next question of a connection, by the number of the connection.
        connections: How many there are.
    """

    port: int
    trust: ssl.SSLContext
    question: Callable[[int], Asked]
    connections: int


async def ask_steadily(asking: Asking, tally: Tally, seconds: float) -> None:
    """Ask at the rate of *tally* for so long; the connections take turns.

    Answers that take longer than the turn of a connection make the next questions late, until it has caught up; what
    it has not caught up with in the end is missing in the tally. After a failure the connection is opened anew.
    """
    begin = time.perf_counter()
    end, pause = begin + seconds, asking.connections / tally.rate

    async def caller(number: int) -> None:
        due = begin + number / tally.rate
        while max(due, time.perf_counter()) < end:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            try:
                async with dial(asking.port, asking.trust) as connection:
                    while max(due, time.perf_counter()) < end and not connection.is_closing:
                        await asyncio.sleep(max(0.0, due - time.perf_counter()))
                        await _ask(asking, connection, number, tally)
                        due += pause
            except (OSError, EOFError) as error:  # an answer that is too late is an OSError as well
                tally.fail(repr(error))
                due = max(due, time.perf_counter()) + pause

    await asyncio.gather(*(caller(number) for number in range(asking.connections)))


async def _ask(asking: Asking, connection: Connection, number: int, tally: Tally) -> None:
    asked = asking.question(number)
    began = time.perf_counter()
    async with asyncio.timeout(asked.limit_seconds):
        status, body = await connection.ask(asked.request)
    tally.took(time.perf_counter() - began)
    if problem := asked.problem(status, body):
        tally.fail(problem)
