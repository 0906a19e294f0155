"""How the tests are spread over processes: file by file, long ones first, those that share a fleet together."""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.thoroughness import load_profile

load_profile()

FLEET = "the fleet"
FLEET_FILES = "e2e/test_fleet_"
"""What begins so shares four API servers and their agents: two processes would start all of them twice."""

LONGEST_FIRST = (
    FLEET,
    "e2e/test_faults.py",
    "e2e/test_agent.py",
    "e2e/test_leader.py",
    "e2e/test_applier.py",
    "e2e/test_outages.py",
    "tests/webhook/test_up.py",
    "tests/page/test_page.py",
    "tests/webhook/admission/test_admission_properties.py",
    "tests/page/test_docs.py",
    "tests/page/test_sign_in.py",
    "tests/webhook/cli/test_up_command.py",
    "tests/page/test_numbers.py",
    "tests/webhook/endpoints/test_plan.py",
    "tests/webhook/controllers/test_histories.py",
)
"""What takes half a minute or more: what begins last should be short, so that all processes end together."""


def group_of(nodeid: str) -> str:
    """Return what a test is run together with, in one process: its file, or all that share the fleet."""
    file = nodeid.partition("::")[0]
    return FLEET if file.startswith(FLEET_FILES) else file


def turn_of(nodeid: str) -> tuple[bool, int]:
    """Return when the group of a test is begun.

    All that need real clusters come before all others, so that the clusters end before those; long groups come first.
    """
    group = group_of(nodeid)
    place = LONGEST_FIRST.index(group) if group in LONGEST_FIRST else len(LONGEST_FIRST)
    return not nodeid.startswith("e2e/"), place


class ByGroup(LoadFileScheduling):
    """Hands out one group at a time, in their order."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByGroup | None:
    """Take the place of ``--dist loadfile``, and of no other."""
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # else the groups with the most tests come first
    return ByGroup(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have the groups in their order; where there is one process only, all stays as it is written."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: turn_of(item.nodeid))
