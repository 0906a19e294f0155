"""CPU and wall time of each test and fixture, child processes included.

``make test ARGS='-p tests.cost'`` writes ``build/cost/<process>.jsonl``, and ``python -m tests.cost`` sums it up by
file, test and fixture. Linux only: the time of running child processes is read from ``/proc``.
"""

import json
import os
import resource
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = Path(__file__).parents[1] / "build" / "cost"
TICKS: Final = os.sysconf("SC_CLK_TCK")
LEAST_SECONDS: Final = 0.02
"""Cheaper fixtures are not written."""


class Cost:
    """The plugin of one process. The time of an outer fixture contains that of the fixtures that it requests."""

    def __init__(self) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        self._file = (FOLDER / f"{os.getpid()}.jsonl").open("w", encoding="utf-8", buffering=1)

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        """Measure the collection."""
        with self._measured("collection", "collection"):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Measure a test with its set-up and teardown."""
        with self._measured("test", item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
        """Measure the set-up of a fixture."""
        with self._measured("fixture", fixturedef.argname, LEAST_SECONDS):
            return (yield)

    def pytest_unconfigure(self) -> None:
        """Close the file."""
        self._file.close()

    @contextmanager
    def _measured(self, kind: str, name: str, least: float = 0.0) -> Iterator[None]:
        wall, cpu = time.perf_counter(), cpu_seconds()
        try:
            yield
        finally:
            wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
            if max(wall, cpu) >= least:
                self._file.write(json.dumps({"kind": kind, "name": name, "wall": wall, "cpu": cpu}) + "\n")


def cpu_seconds() -> float:
    """Return the CPU time of this process and all its descendants, those that have ended included."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    running = sum(map(tree_ticks, _children(os.getpid()))) / TICKS
    return time.process_time() + ended.ru_utime + ended.ru_stime + running


def tree_ticks(pid: int) -> int:
    """Return the CPU time of a process and of all its descendants, in ticks of the system clock."""
    return _ticks(pid) + sum(map(tree_ticks, _children(pid)))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text(encoding="ascii").split())
    except OSError:  # it has ended meanwhile
        return found
    return found


def _ticks(pid: int) -> int:
    """Return the CPU time of a process and of its children that have ended (proc(5), fields 14 to 17)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))


def pytest_configure(config: pytest.Config) -> None:
    """Measure in this process; forget what the run before has measured."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(FOLDER, ignore_errors=True)
    config.pluginmanager.register(Cost())


def main(rows: int) -> None:
    """Print the dearest files, tests and fixtures of the last run."""
    cpu: dict[str, Counter[str]] = {kind: Counter() for kind in ("file", "test", "fixture", "collection")}
    wall: dict[str, Counter[str]] = {kind: Counter() for kind in cpu}
    for file in FOLDER.glob("*.jsonl"):
        for line in file.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            keys = [(one["kind"], one["name"])]
            if one["kind"] == "test":
                keys.append(("file", one["name"].partition("::")[0]))
            for kind, name in keys:
                cpu[kind][name] += one["cpu"]
                wall[kind][name] += one["wall"]
    for kind, costs in cpu.items():
        print(f"{kind}: {costs.total():.0f} s of CPU, {wall[kind].total():.0f} s")
        for name, seconds in costs.most_common(rows):
            print(f"{seconds:8.1f} {wall[kind][name]:8.1f}  {name}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
