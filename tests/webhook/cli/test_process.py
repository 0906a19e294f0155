"""What a crash leaves behind."""

import os
import resource
import subprocess
import sys

import pytest

from tests.waiting import PATIENCE_SECONDS

CRASH = """
import os, resource
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
from webhook.cli import main
try:
    main(["version"])
except SystemExit:
    pass
print(*resource.getrlimit(resource.RLIMIT_CORE), flush=True)
os.abort()
"""


def test_a_crash_leaves_no_core_dump_whatever_the_limits_were(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", CRASH], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    assert done.returncode == -6, done.stderr
    assert list(tmp_path.iterdir()) == []
    assert int(done.stdout.split()[-2]) <= 1, done.stdout


@pytest.mark.parametrize(("hard", "soft"), [(resource.RLIM_INFINITY, 1), (4096, 1), (1, 1), (0, 0)])
def test_the_limit_is_the_one_that_programs_behind_a_pipe_heed_too(monkeypatch, hard, soft):
    from webhook.cli import process

    found = []
    monkeypatch.setattr(process.resource, "getrlimit", lambda _: (hard, hard))
    monkeypatch.setattr(process.resource, "setrlimit", lambda _, limits: found.append(limits))
    process.leave_none()
    assert found == [(soft, hard)]


ENDING = """
import atexit, cProfile, sys, threading
from webhook.cli import main

class Late:
    def __del__(self):
        print("torn down", flush=True)

late = Late()
late.itself = late
atexit.register(print, "exit function called")
match sys.argv.pop():
    case "with-a-thread":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    case "with-a-profiler":
        cProfile.Profile().enable()
main()
"""


@pytest.mark.parametrize(
    ("circumstance", "torn_down"),
    [
        pytest.param("alone", False, id="alone"),
        pytest.param("with-a-thread", True, id="a-thread-may-still-write"),
        pytest.param("with-a-profiler", True, id="a-profiler-reports-afterwards"),
    ],
)
@pytest.mark.parametrize(
    ("words", "code", "printed"),
    [
        pytest.param(["completion", "bash"], 0, "complete -o", id="success"),
        pytest.param(["completion", "sh"], 1, "", id="error"),
    ],
)
def test_a_program_without_threads_ends_without_freeing_its_objects(words, code, printed, circumstance, torn_down):
    done = subprocess.run(
        [sys.executable, "-c", ENDING, *words, circumstance],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert (done.returncode, bool(done.stderr)) == (code, bool(code)), done.stderr
    assert printed in done.stdout
    assert "exit function called" in done.stdout
    assert ("torn down" in done.stdout) is torn_down
