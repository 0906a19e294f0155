"""Virtual time moves where a test waits for a timer, and nowhere else."""

import asyncio
import selectors
import socket
import threading
from datetime import timedelta

import pytest

from tests.virtual_time import START, VirtualTimeLoop, loop_now, run_in_virtual_time
from tests.waiting import PATIENCE_SECONDS


def test_a_loop_that_waits_for_a_timer_moves_to_it():
    async def main():
        order = []

        async def note(hours):
            await asyncio.sleep(hours * 3600)
            order.append((hours, loop_now() - START))

        await asyncio.gather(note(3), note(1), note(2))
        return order

    assert run_in_virtual_time(main()) == [(hours, timedelta(hours=hours)) for hours in (1, 2, 3)]


def test_a_clock_that_is_advanced_runs_late_what_was_due_meanwhile():
    async def main():
        loop = asyncio.get_running_loop()
        sleeping = asyncio.create_task(asyncio.sleep(10))
        await asyncio.sleep(0)
        loop.advance(30)
        await sleeping
        return loop.time()

    assert run_in_virtual_time(main()) == 30


def test_work_takes_no_time():
    async def main():
        for _ in range(1000):
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(main()) == 0


def test_polling_without_a_pause_does_not_hold_up_a_timer():
    async def main():
        sleeping = asyncio.create_task(asyncio.sleep(1))
        while not sleeping.done():
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(main()) == pytest.approx(1, abs=0.01)


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


def test_a_loop_waits_in_real_time_for_a_thread_that_works_for_it(real_wait):
    async def main():
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await asyncio.to_thread(real_wait.wait, PATIENCE_SECONDS)

    assert run_in_virtual_time(main())


def test_a_loop_waits_in_real_time_for_a_socket(real_wait):
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

    assert run_in_virtual_time(main()) == b"answer"


@pytest.mark.parametrize("start", [asyncio.create_subprocess_exec, asyncio.create_subprocess_shell])
def test_no_child_process_is_started(start):
    with pytest.raises(NotImplementedError, match="run this test on another loop"):
        run_in_virtual_time(start("true"))


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
