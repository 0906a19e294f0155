"""Workers are forked, watched, started again and ended: by a real first process, whose workers do next to nothing."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_SECONDS, until

BEGIN = """
import asyncio, mmap, os, signal, socket, sys, time
from webhook.processes import workers
from webhook.telemetry.logs import configure

configure("text", stream=sys.stdout)
workers.FIRST_PAUSE_SECONDS = 0.02

def listening():
    found = socket.create_server(("127.0.0.1", 0))
    return [found]

def rest(errand):
    async def until_asked():
        asked = errand.watch()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
        errand.serves()
        await asked.wait()
    asyncio.run(until_asked())
    return 0

all_serve = mmap.mmap(-1, 1)  # shared with the workers

def run(work, count=2):
    def started():
        all_serve[0] = 1
        print("started", *(each.pid for each in found._crew), flush=True)
    found = workers.Workers(count, listening(), listening(), work, started)
    found.run()
    print("all have ended", flush=True)
"""


@pytest.fixture
def first() -> Iterator[list[subprocess.Popen[str]]]:
    """First processes that the test has started; all are ended."""
    running: list[subprocess.Popen[str]] = []
    yield running
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


def start(first, code: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    first.append(process)
    return process


def line_with(process: subprocess.Popen[str], word: str) -> str:
    """Read until a line with a word."""
    seen = []
    for line in process.stdout:
        seen.append(line)
        if word in line:
            return line
    raise AssertionError("".join(seen))


def pids(process: subprocess.Popen[str]) -> list[int]:
    return [*map(int, line_with(process, "started").split()[1:])]


def test_all_end_when_the_first_process_is_asked_to(first):
    process = start(first, "run(rest)")
    workers = pids(process)
    process.terminate()
    assert "all have ended" in process.stdout.read()
    assert process.wait() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def test_ctrl_c_is_heard_once(first):
    """A terminal sends it to the whole group: a worker that heard it twice would hurry."""
    process = start(first, "run(rest)")
    groups = {os.getpgid(pid) for pid in pids(process)}
    assert os.getpgid(process.pid) not in groups
    process.send_signal(signal.SIGINT)
    assert "all have ended" in process.stdout.read()


async def test_no_worker_stays_when_the_first_process_is_killed(first):
    process = start(first, "run(rest, 3)")
    workers = pids(process)
    process.kill()
    process.wait()

    await until(lambda: all(map(is_gone, workers)))


def is_gone(pid: int) -> bool:
    """Whether a process has ended, also where nobody has taken note of it."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_worker_that_dies_again_and_again_is_started_after_growing_pauses(first):
    """Its number stays, and so does the other worker."""
    code = """
def work(errand):
    if errand.place.seat.number == 2 and errand.place.seat.restarts < 3:
        errand.serves()
        if errand.place.seat.restarts == 0:
            while not all_serve[0]:
                time.sleep(0.005)
            os.kill(os.getpid(), signal.SIGKILL)
        return 3
    return rest(errand)
run(work)
"""
    process = start(first, code)
    other = pids(process)[0]
    lines = [line_with(process, "worker ended, will restart") for _ in range(3)]
    assert all("worker=2" in line for line in lines)
    assert ['reason="was terminated by signal 9, SIGKILL"' in line for line in lines] == [True, False, False]
    assert ['reason="failed with exit code 3"' in line for line in lines] == [False, True, True]
    assert [line.split("pauseSeconds=")[1].strip() for line in lines] == ["0.02", "0.04", "0.08"]
    assert "restarts=3" in line_with(process, "restarts=3")
    assert Path(f"/proc/{other}").exists()
    process.terminate()
    assert "all have ended" in process.stdout.read()


def test_the_pause_is_bounded_and_begins_anew_after_a_good_life(first):
    code = """
workers.LONGEST_PAUSE_SECONDS = 0.03
mourn = workers.Workers._mourn
def mourn_old(self, worker, end):
    if worker.restarts == 3:
        worker.began -= workers.GOOD_SECONDS
    mourn(self, worker, end)
workers.Workers._mourn = mourn_old
def work(errand):
    errand.serves()
    return 1
run(work, 1)
"""
    process = start(first, code)
    found = [line_with(process, "pauseSeconds=").split("pauseSeconds=")[1].strip() for _ in range(5)]
    assert found == ["0.02", "0.03", "0.03", "0.02", "0.03"]


def test_one_that_cannot_begin_is_the_end_of_all(first):
    code = """
def work(errand):
    if errand.place.seat.number == 2:
        errand.fails("there is no certificate")
        return 1
    return rest(errand)
try:
    run(work)
except workers.WorkerError as error:
    print("error:", error)
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        print("nobody is left")
"""
    printed = start(first, code).communicate()[0]
    assert "error: there is no certificate" in printed
    assert "nobody is left" in printed


def test_one_that_dies_before_it_serves_is_named(first):
    code = """
def work(errand):
    os.kill(os.getpid(), signal.SIGKILL)
try:
    run(work)
except workers.WorkerError as error:
    print("error:", error)
"""
    assert re.search("error: worker [12] was terminated by signal 9, SIGKILL", start(first, code).communicate()[0])


def test_a_bug_in_a_worker_ends_that_one_with_its_traceback(first):
    code = """
def work(errand):
    if errand.place.seat.restarts == 0:
        errand.serves()
        raise RuntimeError("a bug")
    return rest(errand)
run(work, 1)
print("never printed twice")
"""
    process = start(first, code)
    assert "worker=1" in (line := line_with(process, "worker failed"))
    assert "RuntimeError: a bug" in line
    line_with(process, "worker restarted")
    process.terminate()
    assert process.stdout.read().count("never printed twice") == 1


def test_a_signal_before_all_serve_ends_them_at_once(first):
    code = """
def work(errand):
    async def forever():
        errand.watch()
        print("beginning", flush=True)
        await asyncio.sleep(3600)
    asyncio.run(forever())
try:
    run(work, 1)
except workers.StoppedError as error:
    print("stopped by", error.number)
"""
    process = start(first, code)
    line_with(process, "beginning")
    process.terminate()
    assert f"stopped by {int(signal.SIGTERM)}" in process.stdout.read()


@pytest.mark.parametrize("seconds", [0, 0.001, 0.003, 0.01, 0.03])
def test_a_worker_that_was_just_forked_hears_a_signal_too(first, seconds):
    """Between the fork and its own handlers it has those of the first process, which only take note."""
    code = f"""
def work(errand):
    if errand.place.seat.restarts == 0:
        errand.serves()
        return 1
    return rest(errand)
starts = workers.Workers._start
def start(self, worker):
    starts(self, worker)
    if worker.restarts == 1:
        time.sleep({seconds})
        os.kill(os.getpid(), signal.SIGTERM)
workers.Workers._start = start
run(work, 1)
"""
    assert "all have ended" in start(first, code).communicate(timeout=PATIENCE_SECONDS)[0]
