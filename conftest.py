"""How the tests are spread over processes: group by group, long ones first."""

import gc
import logging
import signal
from collections.abc import Iterator

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.thoroughness import load_profile
from tests.turns import STANDS_ON, group_of, turn_of

load_profile()
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # what is started with `&` in a script inherits this, and hands it on
    signal.signal(signal.SIGINT, signal.default_int_handler)


class ByGroup(LoadFileScheduling):
    """Hands out one group at a time, in their order."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """Undo what a program does to the log of its process when a test runs it within its own."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByGroup | None:
    """Take the place of ``--dist loadfile``, and of no other."""
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # else the groups with the most tests come first
    return ByGroup(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage among what is collected: fifteen thousand tests that stay, in each process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the groups in their order.

    Raises:
        pytest.UsageError: A test stands on what another group shares.
    """
    for item in items:
        if item.nodeid.startswith("e2e/test_"):
            check_group(item)
    items.sort(key=lambda item: turn_of(item.nodeid))


def check_group(item: pytest.Item) -> None:
    """Raise `pytest.UsageError` when a test would start once more what another process has started."""
    group = group_of(item.nodeid)
    for fixture in getattr(item, "fixturenames", ()):
        if STANDS_ON.get(fixture, group) != group:
            raise pytest.UsageError(
                f"{item.nodeid} needs {fixture}: put it into {STANDS_ON[fixture]} in tests/turns.py"
            )
