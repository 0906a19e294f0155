"""Runs on mutants of a small project, in a process of their own: it forks."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = """def allowed(count, limit):
    return count <= limit


def unseen(count):
    return count + 1


def spent(count):
    while count:
        count -= 1
    return count
"""
TESTS = """import subprocess

from scorer.limits import allowed, spent


def test_sleeper_is_started():
    sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True)
    with open("sleepers", "a") as file:
        print(sleeper.pid, file=file)


def test_a_count_up_to_the_limit_is_allowed():
    assert allowed(2, 2)


def test_all_is_spent():
    assert spent(3) == 0
"""
BROKEN = "def test_fails_anyway():\n    assert False\n"
DRIVER = """
import contextlib, io, json, sys
from pathlib import Path
from tests.mutation import __main__, runs
from tests.mutation.mutants import Mutant

runs.HARD_CPU_SECONDS = 2
__main__.import_libraries = lambda: None  # the project needs none
project, source = Path(sys.argv[1]), Path(sys.argv[1], "scorer/limits.py").read_text()
test = "tests/scorer/test_limits.py"

def fate(old, new, tests=test):
    verdict = copy.run_mutant(Mutant("scorer/limits.py", 1, old, new, source.replace(old, new)), [tests])
    return [verdict.fate, verdict.test]

with runs.copied(project) as copy:
    answer = {
        "kept": fate("<=", "<="),
        "seen": fate("<=", "<"),
        "unseen": fate("+ 1", "- 1"),
        "endless": fate("-= 1", "+= 0"),
        "broken": fate("import", "import", tests="tests/scorer/test_nowhere.py"),
        "restored": copy.root.joinpath("scorer/limits.py").read_text() == source,
        "failing": sorted(copy.failing([test, "tests/scorer/test_broken.py"])),
        "sleepers": copy.root.joinpath("sleepers").read_text().split(),
        "copy": str(copy.root),
    }
with contextlib.redirect_stdout(io.StringIO()) as printed:
    __main__.main(["engine", "--root", sys.argv[1], "--size", "3"])
print(json.dumps({**answer, "printed": printed.getvalue()}))
"""


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    project = tmp_path_factory.mktemp("project")
    for name, text in {
        "scorer/limits.py": SOURCE,
        "tests/scorer/test_limits.py": TESTS,
        "tests/scorer/test_broken.py": BROKEN,
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\naddopts = ["--import-mode=importlib"]\n',
    }.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, project], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert not done.returncode, done.stderr
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("mutant", "fate", "test"),
    [
        pytest.param("kept", "survived", "", id="no-change"),
        pytest.param("seen", "killed", "test_a_count_up_to_the_limit_is_allowed", id="seen-by-a-test"),
        pytest.param("unseen", "survived", "", id="seen-by-no-test"),
        pytest.param("endless", "timed out", "test_all_is_spent", id="endless-loop"),
        pytest.param("broken", "unclear", "", id="no-tests-run"),
    ],
)
def test_fate_of_a_mutant(answer, mutant, fate, test):
    assert answer[mutant] == [fate, test and f"tests/scorer/test_limits.py::{test}"]


def test_the_copy_is_restored_after_a_run_and_removed_at_the_end(answer):
    assert answer["restored"]
    assert not Path(answer["copy"]).exists()


def test_a_test_that_fails_without_a_mutant_is_found(answer):
    assert answer["failing"] == ["tests/scorer/test_broken.py::test_fails_anyway"]


def test_the_program_lists_what_was_not_killed_and_counts(answer):
    *rows, total = answer["printed"].splitlines()
    killed, limited, survived, unclear = map(
        int,
        re.fullmatch(
            r"engine: killed (\d) of 3 \(\d+%\), (\d) of them by a limit; survived (\d), unclear (\d); .*", total
        ).groups(),
    )
    assert killed + survived + unclear == 3
    places = [re.fullmatch(r"(survived|timed out|unclear): scorer/limits\.py:\d+: .+", row) for row in rows[::2]]
    assert [place[1] for place in places].count("survived") == survived
    assert len(places) == limited + survived + unclear
    assert all(row.startswith("    became: ") for row in rows[1::2])


def test_no_process_of_a_run_outlives_it(answer):
    assert len(answer["sleepers"]) == 5
    assert not [pid for pid in answer["sleepers"] if Path("/proc", pid).exists()]
