"""Runs of tests on mutants, in a copy of the project.

The work tree is never written: each process has a copy in a temporary folder. One process is forked per run from one
that has already imported the libraries. Memory and CPU time are limited, and a hung run is killed. The descendants of a
run are killed before the next run starts, and with the caller.
"""

import ctypes
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import pytest

from tests.cost import tree_ticks
from tests.mutation.mutants import Mutant
from tests.mutation.watch import Watch, function_of

LINKED: Final = frozenset({".venv"})
LEFT_OUT: Final = frozenset({".git", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", "build"})
LIBRARIES: Final = ("aiohttp", "click", "cryptography", "hypothesis", "numpy", "orjson", "pydantic", "yaml")
PROJECT: Final = ("scorer", "webhook", "certs", "tests", "e2e", "conftest")
MEMORY_BYTES: Final = 4 * 2**30
CPU_SECONDS: Final = 8
"""Budget of a run: no further test starts."""
HARD_CPU_SECONDS: Final = 40
IDLE_SECONDS: Final = 60
"""A run that uses no CPU time for this long is hung. A busy machine slows a run down, but does not stop it."""
RUN_SECONDS: Final = 1800
"""Wall-clock limit of a run that polls for ever."""

OPTIONS: Final = (
    *("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--hypothesis-seed=28", "--durations=0"),
    *("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"),  # the libraries are
)

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Fate(StrEnum):
    """How a run on a mutant ends. Unclear: pytest stopped without a failed test."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of a run.

    Args:
        fate: Killed, timed out, or survived.
        test: The test that failed or was running. Empty: none.
        cpu_seconds: CPU time of the run, its child processes included.
    """

    fate: Fate
    test: str
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the project, for one run at a time."""

    root: Path

    def run_mutant(self, mutant: Mutant, tests: list[str]) -> Verdict:
        """Run *tests* on the mutant. The file is restored afterwards."""
        file = self.root / mutant.path
        original = file.read_bytes()
        bytecode = file.parent / "__pycache__" / f"{file.stem}.{sys.implementation.cache_tag}.pyc"
        # Python compares size and time in whole seconds: it would take a stale file for the mutant.
        bytecode.unlink(missing_ok=True)
        try:
            file.write_text(mutant.source, encoding="utf-8")
            return self._run(tests, tests, ["-x"], CPU_SECONDS)[0]
        finally:
            file.write_bytes(original)

    def failing(self, tests: Iterable[str]) -> set[str]:
        """Return the node IDs, without parameters, that fail or time out on the unchanged project.

        Raises:
            RuntimeError: pytest cannot run them.
        """
        failing: set[str] = set()
        left = sorted(set(tests))
        while left:
            verdict, failed, ended = self._run(left, [], [], None)
            if verdict.fate is Fate.TIMED_OUT:
                failed = [verdict.test]
            failing |= {function_of(test) for test in failed}
            if ended:
                return failing
            if not failed or not failing & set(left):
                raise RuntimeError(f"pytest cannot run {left} on the unchanged project: see {self.root / 'log'}")
            left = [test for test in left if test not in failing]
        return failing

    def end_of_log(self) -> str:
        """Return the last lines that the last run printed."""
        return "\n".join((self.root / "log").read_text(encoding="utf-8", errors="replace").splitlines()[-20:])

    def warm_up(self, tests: list[str]) -> None:
        """Compile the test files: no run writes bytecode."""
        self._run(tests, [], ["--collect-only"], None, bytecode=True)

    def _run(
        self, tests: list[str], order: list[str], options: list[str], budget: float | None, *, bytecode: bool = False
    ) -> tuple[Verdict, list[str], bool]:
        """Return the verdict, the failed tests, and whether pytest came to its end."""
        notes, answer = self.root / "running", self.root / "answer.json"
        answer.unlink(missing_ok=True)
        notes.write_text("", encoding="utf-8")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        child = os.fork()
        if not child:
            _become_run(self.root, budget)
            sys.dont_write_bytecode = not bytecode
            _run_pytest(tests, order, options, budget, notes, answer)
        try:
            status = _wait(child)
        finally:
            _kill_descendants()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if os.WIFSIGNALED(status):
            timed_out = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
            fate = Fate.TIMED_OUT if timed_out else Fate.KILLED
            return Verdict(fate, notes.read_text(encoding="utf-8"), cpu), [], False
        code, failed = _read_answer(answer)
        survived = code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        fate = Fate.KILLED if failed else Fate.SURVIVED if survived else Fate.UNCLEAR
        verdict = Verdict(fate, failed[0] if failed else "", cpu)
        return verdict, failed, code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


@contextmanager
def copied(project: Path) -> Iterator[Copy]:
    """Provide a copy of *project*. Only the virtual environment is a link: a mutant may write anywhere else."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        root = Path(folder)
        for entry in project.iterdir():
            target = root / entry.name
            if entry.name in LINKED:
                target.symlink_to(entry)
            elif entry.is_dir() and entry.name not in LEFT_OUT:
                shutil.copytree(entry, target, symlinks=True)
            elif entry.is_file():
                shutil.copy2(entry, target)
        constants = project / ".hypothesis" / "constants"  # expensive to collect anew
        if constants.is_dir():
            shutil.copytree(constants, root / ".hypothesis" / "constants")
        yield Copy(root)


def import_libraries(names: Iterable[str] = LIBRARIES) -> None:
    """Import the libraries ahead of all runs, without threads: a fork would lose them."""
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    for name in names:
        __import__(name)


def _become_run(root: Path, budget: float | None) -> None:
    """Give the forked process its limits, and the copy in place of the work tree."""
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if budget is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (HARD_CPU_SECONDS, HARD_CPU_SECONDS + 5))
    os.chdir(root)
    log = os.open(root / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    work_tree = str(Path(__file__).parents[2])
    sys.path[:] = [str(root), *(path for path in sys.path if path not in ("", work_tree))]
    os.environ |= {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    for name in [name for name in sys.modules if name.partition(".")[0] in PROJECT]:
        del sys.modules[name]


def _run_pytest(
    tests: list[str], order: list[str], options: list[str], budget: float | None, notes: Path, answer: Path
) -> None:
    """Run pytest, write the answer, and exit."""
    code = int(pytest.ExitCode.INTERNAL_ERROR)
    watch = Watch(order, budget, notes)
    try:
        code = int(pytest.main([*OPTIONS, *options, *tests], plugins=[watch]))
        answer.write_text(json.dumps({"code": code, "failed": watch.failed}), encoding="utf-8")
    except BaseException:  # noqa: BLE001 # the caller's frames must not run in this process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _read_answer(answer: Path) -> tuple[int, list[str]]:
    """Return the exit code of pytest and the failed tests."""
    if not answer.exists():
        return pytest.ExitCode.INTERNAL_ERROR, []
    content = json.loads(answer.read_text(encoding="utf-8"))
    return content["code"], content["failed"]


def _wait(child: int) -> int:
    """Wait for the process and return its status. Kill it when it is hung, or after the limit of a run."""
    handle = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        start = last = time.monotonic()
        ticks = 0
        while not poll.poll(1000):
            now, before, ticks = time.monotonic(), ticks, tree_ticks(child)
            if ticks != before:
                last = now
            if now - last > IDLE_SECONDS or now - start > RUN_SECONDS:
                os.kill(child, signal.SIGKILL)
        return os.waitpid(child, 0)[1]
    finally:
        os.close(handle)


def _kill_descendants() -> None:
    """Kill and reap all children: this process inherits those whose parent has ended."""
    while children := Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split():
        for child in map(int, children):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(child, 0)
