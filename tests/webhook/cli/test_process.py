"""What a crash leaves behind."""

import os
import resource
import subprocess
import sys

import pytest

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
