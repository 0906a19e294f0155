"""Virtual time moves where a test waits for a timer, and nowhere else."""

import asyncio
import selectors
import socket
import threading
from datetime import timedelta

import pytest

from tests.virtual_time import START, VirtualTimeLoop, loop_now
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture
def run():
    """Run a coroutine function in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        yield lambda main: runner.run(main())


def test_a_loop_that_waits_for_a_timer_moves_to_it(run):
    async def main():
        order = []

        async def note(hours):
            await asyncio.sleep(hours * 3600)
            order.append((hours, loop_now() - START))

        await asyncio.gather(note(3), note(1), note(2))
        return order

    assert run(main) == [(hours, timedelta(hours=hours)) for hours in (1, 2, 3)]


def test_work_takes_no_time(run):
    async def main():
        for _ in range(1000):
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    assert run(main) == 0


@pytest.fixture
def real_wait(monkeypatch):
    """An event that is set as soon as a loop waits in real time."""
    begun, select = threading.Event(), selectors.DefaultSelector.select

    def spy(self, timeout=None):
        if timeout != 0:
            begun.set()
        return select(self, timeout)

    monkeypatch.setattr(selectors.DefaultSelector, "select", spy)
    return begun


def test_a_loop_waits_in_real_time_for_a_thread_that_works_for_it(run, real_wait):
    async def main():
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await asyncio.to_thread(real_wait.wait, PATIENCE_SECONDS)

    assert run(main)


def test_a_loop_waits_in_real_time_for_a_socket(run, real_wait):
    async def main():
        ours, theirs = socket.socketpair()
        ours.setblocking(False)

        def answer():
            real_wait.wait(PATIENCE_SECONDS)
            theirs.sendall(b"answer")

        thread = threading.Thread(target=answer)
        with ours, theirs:
            thread.start()
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    return await asyncio.get_running_loop().sock_recv(ours, 6)
            finally:
                real_wait.set()
                thread.join()

    assert run(main) == b"answer"


def test_a_loop_that_nothing_can_wake_ends_instead_of_hanging():
    loop = VirtualTimeLoop()
    waiting = loop.create_task(asyncio.Event().wait())
    with pytest.raises(RuntimeError, match="every task waits"):
        loop.run_until_complete(waiting)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(waiting)
    loop.close()


def test_the_clock_stands_at_its_start_outside_of_a_loop():
    assert loop_now() == START
