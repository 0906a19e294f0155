"""Kill what an interrupted run of tests leaves behind: API servers, etcd, agents, browsers.

A killed pytest runs no fixture's teardown. So a reaper beside each pytest process waits for its end, however it comes,
and then kills every process with a variable that the tests' children inherit, in whatever thread they were started and
whoever is their parent by then. ``PR_SET_PDEATHSIG`` would kill a server as soon as the thread that started it ends.
Linux only: processes are found in ``/proc``.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Final

VARIABLE: Final = "TEST_RUNS"
"""Names the runs that a process belongs to: a run inside a test belongs to the outer run, too."""
PAUSE_SECONDS: Final = 0.05


def start_reaper() -> subprocess.Popen[bytes] | None:
    """Start the reaper of this process; every process started from now on is killed by it. None: not on Linux."""
    if sys.platform != "linux":
        return None
    run, nothing = uuid.uuid4().hex, subprocess.DEVNULL
    command = [sys.executable, "-I", "-S", __file__, str(os.getpid()), run]
    # In a session of its own: Ctrl-C, a closed terminal and `timeout` signal the whole group of pytest.
    reaper = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)
    os.environ[VARIABLE] = f"{os.environ.get(VARIABLE, '')} {run}".strip()
    return reaper


def reap(pid: int, run: str) -> None:
    """Wait until the process ends, then kill the processes of its run until none is left."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        select.select([handle], [], [])
    while members := members_of(run):
        for member in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        time.sleep(PAUSE_SECONDS)  # one may have started another


def members_of(run: str) -> list[int]:
    """Return the running processes of a run; a zombie has no environment."""
    members = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if run.encode() in (folder / "environ").read_bytes():
                members.append(int(folder.name))
    return members


if __name__ == "__main__":
    reap(int(sys.argv[1]), sys.argv[2])
