"""The installed program, on a terminal of its own."""

import os
import pty
import subprocess
import sys
from pathlib import Path

from tests.waiting import PATIENCE_SECONDS

SCRIPTS = Path(sys.executable).parent


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
