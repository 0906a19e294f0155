"""Types commands of documents, in the process of the test, at a hub that `harbormaster up` runs."""

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.waiting import PATIENCE_SECONDS
from webhook.cli.root import root

HARBORMASTER = Path(sys.executable).with_name("harbormaster")
VARIABLE = re.compile(r"[A-Z_]+=")


def at_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the state of the hub in *folder*, where the commands find it; nothing else is set."""
    for name in os.environ:
        if name.startswith(("HARBORMASTER_", "KUBE")):
            monkeypatch.delenv(name)
    for name in ("XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(name, str(folder))


@contextmanager
def started(words: Sequence[str]) -> Iterator[str]:
    """Run a call of `up` on free ports; yield what it has printed when everything is placed."""
    command = [sys.executable, "-m", "webhook.cli", *words, "--http-port", "0", "--https-port", "0"]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        try:
            lines = []
            for line in process.stdout:
                lines.append(line)
                if line.startswith("Press Ctrl-C"):
                    break
            yield "".join(lines)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE_SECONDS)


def type_in(words: Sequence[str]) -> tuple[str, int]:
    """Return what a call of our program prints, perhaps with variables in front, and how it ends."""
    done = run(words)
    return done.output, done.exit_code


def run(words: Sequence[str]) -> Result:
    """Return the result of a call of our program, perhaps with variables in front."""
    variables = dict(word.split("=", 1) for word in takewhile(VARIABLE.match, words))
    program, *rest = words[len(variables) :]
    assert program == "harbormaster"
    done = CliRunner().invoke(root, rest, env=variables, prog_name=program)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def type_at_a_terminal(words: Sequence[str], answer: str) -> tuple[str, int]:
    """Return what a call of our program prints that asks at a terminal, and how it ends."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        done = subprocess.run(
            [HARBORMASTER, *words[1:]],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    return done.stdout, done.returncode


def watch(words: Sequence[str], until: str) -> str:
    """Return what a call of our program prints, up to a line with *until*, and interrupt it then."""
    lines = []
    with subprocess.Popen([HARBORMASTER, *words[1:]], text=True, stdout=subprocess.PIPE) as process:
        limit = threading.Timer(PATIENCE_SECONDS, process.kill)
        limit.start()
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if until in line:
                break
        limit.cancel()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_SECONDS)
    return "".join(lines)
