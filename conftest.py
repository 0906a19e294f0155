"""How the tests are marked, ordered, and spread over processes.

A test of ``e2e/`` is marked ``core`` where it stands, otherwise it is marked ``e2e`` here, and a test of the page is
marked ``page``. ``make e2e`` runs what is marked ``e2e``, ``make test`` everything else.
"""

import gc
import logging
import random
import signal
from collections.abc import Iterator

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.machine import missing_parts
from tests.reaper import start_reaper
from tests.thoroughness import SEED, load_profile
from tests.turns import STANDS_ON, group_of, turn_of

MISSING = "this machine lacks something: "
REAPER = start_reaper()

load_profile()
# A program started with `&` in a script ignores SIGINT, and so would every program that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class ByGroup(LoadFileScheduling):
    """Hands out one group at a time, in their order."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.fixture(autouse=True)
def restored_log() -> Iterator[None]:
    """Restore the root logger: a program under test that runs in this process configures it."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByGroup | None:
    """Replace ``--dist loadfile``, and no other."""
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # otherwise the groups with the most tests come first
    return ByGroup(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage during the collection of tests: twenty thousand items that all remain, in each process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_report_header() -> list[str]:
    """List what cannot run on this machine, before anything runs."""
    return [f"cannot run: {part.name}: {remedy}" for part, remedy in missing_parts().items()]


@pytest.hookimpl(tryfirst=True)  # before -m selects by the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests, and put the groups into their order.

    Raises:
        pytest.UsageError: A test needs a cluster that another group shares.
    """
    missing = missing_parts()
    for item in items:
        if item.nodeid.startswith("e2e/"):
            check_group(item)
            if item.get_closest_marker("core") is None:
                item.add_marker(pytest.mark.e2e)
        elif item.nodeid.startswith("tests/webhook/page/"):
            item.add_marker(pytest.mark.page)
        for part, remedy in missing.items():
            if item.nodeid.startswith(part.tests):
                item.add_marker(pytest.mark.skip(reason=f"{MISSING}{remedy}"))
    if SEED is not None:
        shuffle(items, SEED)
    items.sort(key=lambda item: turn_of(item.nodeid))


def shuffle(items: list[pytest.Item], seed: int) -> None:
    """Put the files, and the tests of each file, into a random order."""
    dice = random.Random(seed)  # noqa: S311 # orders tests
    places: dict[str, float] = {}
    dice.shuffle(items)
    items.sort(key=lambda item: places.setdefault(item.nodeid.partition("::")[0], dice.random()))


def check_group(item: pytest.Item) -> None:
    """Raise `pytest.UsageError` when a test would start a second time what another process has started."""
    group = group_of(item.nodeid)
    for fixture in getattr(item, "fixturenames", ()):
        if STANDS_ON.get(fixture, group) != group:
            raise pytest.UsageError(
                f"{item.nodeid} needs {fixture}: put it into {STANDS_ON[fixture]} in tests/turns.py"
            )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run when a test was skipped because of the machine."""
    if session.exitstatus == pytest.ExitCode.OK and skipped_parts(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """List at the end which parts were skipped because of the machine."""
    for remedy, count in skipped_parts(config).items():
        terminalreporter.write_line(f"NOT RUN: {count} tests: {remedy}", red=True)


def skipped_parts(config: pytest.Config) -> dict[str, int]:
    """Return how many tests were skipped because of the machine, by remedy; empty in a worker."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    counts: dict[str, int] = {}
    for report in reporter.stats.get("skipped", ()) if reporter else ():
        _, found, remedy = str(report.longrepr[2]).partition(MISSING)
        if found:
            counts[remedy] = counts.get(remedy, 0) + 1
    return counts
