"""Types commands of documents, in the process of the test, at a hub that `harbormaster up` runs."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.waiting import PATIENCE_SECONDS
from webhook.cli.root import root

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
    variables = dict(word.split("=", 1) for word in takewhile(VARIABLE.match, words))
    program, *rest = words[len(variables) :]
    assert program == "harbormaster"
    done = CliRunner().invoke(root, rest, env=variables, prog_name=program)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output, done.exit_code
