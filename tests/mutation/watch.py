"""The pytest plugin of one run on a mutant: the order of the files, the CPU budget, and the first failure."""

import time
from pathlib import Path

import hypothesis
import pytest


class Watch:
    """Stops after the CPU budget, and records the running test and the failed ones.

    Args:
        files: Test files in the order in which they run, after the order that ``conftest.py`` makes.
        cpu_seconds: No further test starts after this much CPU time. None: unlimited.
        notes: The running test is written into this file, for the case that the process is killed.
    """

    def __init__(self, files: list[str], cpu_seconds: float | None, notes: Path) -> None:
        self.failed: list[str] = []
        self._places = {file: place for place, file in enumerate(files)}
        self._cpu_seconds = cpu_seconds
        self._notes = notes

    def pytest_configure(self) -> None:
        """Shrink no failing example and store none: one failure is enough."""
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("mutation", hypothesis.settings(), phases=phases, database=None)
        hypothesis.settings.load_profile("mutation")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort by file."""
        items.sort(key=lambda item: self._places.get(file_of(item.nodeid), len(self._places)))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a file that cannot be imported."""
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note the running test."""
        self._notes.write_text(nodeid, encoding="utf-8")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a failure in the test, its set-up, or its teardown."""
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Exit when the budget is used up.

        Raises:
            pytest.exit.Exception: It is.
        """
        if self._cpu_seconds is not None and time.process_time() > self._cpu_seconds and not self.failed:
            pytest.exit("the CPU budget is used up", returncode=0)


def file_of(nodeid: str) -> str:
    """Return the file of a node ID."""
    return nodeid.partition("::")[0]


def function_of(nodeid: str) -> str:
    """Return the node ID without its parameters."""
    return nodeid.partition("[")[0]
