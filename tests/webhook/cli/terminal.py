"""The installed program, on a terminal of its own."""

import os
import pty
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import PATIENCE_SECONDS

SCRIPTS = Path(sys.executable).parent
ANY_PORTS = ("--https-port", "0", "--http-port", "0")


def run(*command, **options):
    """Run a program to its end; return its exit code and its output as text."""
    options = {"capture_output": True, "text": True, "check": False, "timeout": PATIENCE_SECONDS, **options}
    return subprocess.run([*map(str, command)], **options)


def program(*arguments, name="harbormaster", **options):
    """Run the installed program to its end."""
    return run(SCRIPTS / name, *arguments, **options)


def on_a_terminal(*arguments, **environment):
    """Run the program with a terminal as its output; return what it wrote."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **environment}
    environment = {name: text for name, text in environment.items() if text is not None}
    child = subprocess.Popen([str(SCRIPTS / "harbormaster"), *arguments], stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    written = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end was closed
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    child.wait(PATIENCE_SECONDS)
    return written.decode()


@contextmanager
def started(data, *arguments, until):
    """Run ``up`` as a process, and yield that once it has printed *until*."""
    command = [str(SCRIPTS / "harbormaster"), "up", "--data", str(data), *ANY_PORTS, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        watch = threading.Timer(PATIENCE_SECONDS, process.kill)
        watch.start()
        try:
            assert any(until in line for line in process.stdout)
            yield process
        finally:
            watch.cancel()
            process.kill()
            process.communicate()
