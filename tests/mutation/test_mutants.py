"""The sample of mutants, and the tests that are chosen for them."""

import random

import pytest

from tests.mutation.choice import read_choice
from tests.mutation.mutants import find_places, replacements_of, sample

LIMITS = """def allowed(count, limit):
    return count <= limit


def twice(count):
    return 2 * count
"""
FILES = {
    "scorer/limits.py": LIMITS,
    "scorer/empty.py": '"""Nothing to mutate."""\n',
    "scorer/gate.py": "from scorer import limits\n\n\ndef is_open(count):\n    return limits.allowed(count, 9)\n",
    "tests/scorer/test_limits.py": "from scorer.limits import allowed\n",
    "tests/scorer/test_gate.py": "import scorer.gate\n",
    "tests/scorer/test_other.py": "from tests.scorer.builders import limit\n",
    "tests/scorer/builders.py": "from scorer.limits import twice as limit\n",
    "tests/webhook/test_handler.py": "from scorer.limits import allowed\n",
    "tests/webhook/page/test_page.py": "from scorer.limits import allowed\n",
    "tests/scorer/test_stranger.py": "import json\n",
}


@pytest.fixture
def project(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def draw(project, size, seed=28):
    return sample(project, ["scorer"], size, random.Random(seed))


def test_a_sample_is_repeatable_and_has_no_mutant_twice(project):
    mutants = draw(project, 8)
    assert mutants == draw(project, 8) != draw(project, 8, seed=29)
    assert len({(each.path, each.source) for each in mutants}) == len(mutants) == 8
    assert all(each.before in FILES[each.path] and each.after in each.source for each in mutants)


def test_a_sample_is_not_larger_than_there_are_mutants(project):
    (project / "scorer/gate.py").unlink()
    assert {(each.line, each.after) for each in draw(project, 1000)} == {
        (2, "return None"),
        (2, "return count < limit"),
        (6, "return None"),
        (6, "return 3 * count"),
        (6, "return 2 / count"),
    }


@pytest.mark.parametrize(
    ("statement", "mutants"),
    [
        pytest.param("if a: b = 1", {"if not (a): b = 1", "b = None", "2"}, id="condition"),
        pytest.param("while not a: b += 1", {"while a: b += 1", "a", "b = 1", "b -= 1", "2"}, id="loop"),
        pytest.param("a.append(b)", {"pass", "a.append(None)"}, id="call"),
        pytest.param("return [a for a in b if a > 0]", {"return None", " if True", ">= 0", "1"}, id="comprehension"),
        pytest.param("return None", set(), id="none-stays"),
        pytest.param("assert isinstance(a, int)", set(), id="type-check"),
        pytest.param("a: int | None", set(), id="annotation"),
        pytest.param('raise ValueError("must not be empty")', {"ValueError(None)"}, id="prose"),
        pytest.param('"""Docs."""', set(), id="docstring"),
    ],
)
def test_what_a_statement_becomes(statement, mutants):
    module, places = find_places(f"X = 1\n\n\n@cache(2)\ndef f(a, b):\n    {statement}\n")
    codes = {module.code_for_node(new).strip() for place in places for new in place.replacements}
    assert codes == {each.strip() for each in mutants}
    assert all(list(replacements_of(place.node)) for place in places)


def test_tests_are_chosen_by_folder_and_by_distance(project):
    choice = read_choice(project, ("scorer", "tests"))
    assert choice.tests_for("scorer/limits.py", 9) == [
        "tests/scorer/test_limits.py",
        "tests/scorer/test_gate.py",
        "tests/scorer/test_other.py",
        "tests/webhook/test_handler.py",
        "tests/scorer/test_stranger.py",
    ]
    assert choice.tests_for("scorer/limits.py", 1) == ["tests/scorer/test_limits.py"]
    assert len(choice.tests_for("scorer/empty.py", 9)) == 4
    assert choice.tests_for("webhook/member/empty.py", 9) == []
