"""The order of the tests: everything that is named for it is there, and what shares a cluster is together."""

import subprocess
import sys

import pytest

from tests.turns import FLEET, GROUPS, HUB, LONGEST_FIRST, OWN_HUB, ROOT, group_of, missing, turn_of


def test_every_file_that_is_named_is_there():
    assert missing() == []


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        pytest.param("e2e/rollouts/test_faults.py::test_a", FLEET, id="by-pattern"),
        pytest.param("e2e/admission/test_vectors.py::test_a[x::y]", HUB, id="by-name"),
        pytest.param("e2e/members/test_agent.py::test_a", "e2e/members/test_agent.py", id="alone"),
        pytest.param(
            "tests/test_turns.py::test_a[e2e/replicas/test_cache.py]", "tests/test_turns.py", id="not-by-a-parameter"
        ),
    ],
)
def test_what_a_test_is_run_together_with(nodeid, group):
    assert group_of(nodeid) == group


def test_clusters_come_before_all_others_and_what_takes_long_before_what_does_not():
    nodeids = ["tests/test_turns.py::a", "tests/webhook/page/test_page.py::a", "e2e/members/test_agent.py::a"]
    nodeids += ["e2e/replicas/test_cache.py::a", "e2e/replicas/test_leader.py::a", "e2e/rollouts/test_faults.py::a"]
    wanted = [
        FLEET,
        OWN_HUB,
        OWN_HUB,
        "e2e/members/test_agent.py",
        "tests/webhook/page/test_page.py",
        "tests/test_turns.py",
    ]
    assert [group_of(nodeid) for nodeid in sorted(nodeids, key=turn_of)] == wanted


def test_the_soak_can_be_collected():
    """No other run collects it, as its folder is only searched when it is named."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "e2e/soak"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-1000:]


def test_no_file_is_named_twice():
    names = [*(file for files in GROUPS.values() for file in files), *LONGEST_FIRST]
    assert len(names) == len(set(names))
