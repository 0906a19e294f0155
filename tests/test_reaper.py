"""No process that a test started outlives an interrupted run."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.waiting import block_until

STARTING = """
import os, subprocess, threading
from pathlib import Path

NOTES = Path(__file__).with_name("notes")


def test_a_server_is_started_by_a_thread_that_ends_and_another_loses_its_parent():
    with NOTES.open("w") as notes:
        start = lambda: print(subprocess.Popen(["sleep", "600"]).pid, file=notes)
        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
        subprocess.run(["sh", "-c", "sleep 600 & echo $!"], start_new_session=True, stdout=notes)
        print(os.getpid(), file=notes)
    NOTES.rename(NOTES.with_name("pids"))
    threading.Event().wait()
"""


def has_ended(pid: int) -> bool:
    """Return whether a process has ended, even if its new parent does not reap it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize(
    ("processes", "target", "number"),
    [
        pytest.param(0, "pytest", signal.SIGKILL, id="pytest-killed"),
        pytest.param(0, "pytest", signal.SIGINT, id="pytest-interrupted"),
        pytest.param(1, "pytest", signal.SIGTERM, id="pytest-with-workers-terminated"),
        pytest.param(1, "worker", signal.SIGTERM, id="worker-terminated"),
    ],
)
def test_what_the_tests_started_ends_with_them(tmp_path, processes, target, number):
    (tmp_path / "test_servers.py").write_text(STARTING, encoding="utf-8")
    options = ("-c", ROOT / "pyproject.toml", "-p", "conftest", "-p", "no:cacheprovider", f"-n{processes}")
    command = [sys.executable, "-m", "pytest", *options, tmp_path]
    pids: list[int] = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as run:
        try:
            block_until((tmp_path / "pids").exists)
            pids += map(int, (tmp_path / "pids").read_text(encoding="ascii").split())
            os.kill(run.pid if target == "pytest" else pids[-1], number)
            block_until(lambda: all(map(has_ended, pids)))
        finally:
            run.kill()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
