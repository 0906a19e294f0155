"""No text from outside can make a regular expression of ours take more than linear time.

A pattern that is looked for inside a text is tried from every place of it, so it must not take long there either.
"""

import ast
import importlib
import re
from collections.abc import Iterator

import pytest

from scorer.api.crd.models import MODELS
from scorer.api.crd.pruning import object_schema
from scorer.api.kinds import KINDS
from tests.contracts.ambiguity import takes_long
from tests.contracts.sources import PACKAGES, sources

INSIDE = frozenset({"match", "search", "findall", "finditer", "split", "sub", "subn"})
"""Look for a pattern in a part of a text."""
NOT_SLOW = {
    "scorer/api/values/duration.py": "what is divided into groups has been matched as a whole",
    "scorer/prices.py": "numbers are matched as a whole",
    "scorer/rollout/overrides/application.py": "after its first word it always matches",
    "scorer/windows/cron.py": "after its first character it always matches",
    "webhook/cli/options/field_validation.py": "after its first character it always matches",
    "webhook/cli/planning/explanation.py": "messages of the server that the user has named",
    "webhook/cli/program.py": "our own help texts",
    "webhook/cli/text/links.py": "after its first character it always matches",
    "webhook/cli/text/jsonpath.py": "a template that the user types",
    "scorer/api/crd/table.py": "paths in definitions of the server that the user has named",
    "webhook/description/schemas.py": "our own docstrings",
    "webhook/runtime/yaml.py": "only single characters are looked for, numbers are matched as a whole",
    "webhook/embedded/api_server/selectors.py": "a parameter of a URL, which is short",
}
"""Modules that look inside texts for patterns which could take long there, and why they do not."""


def patterns(path: str) -> Iterator[re.Pattern]:
    """What a module compiles at its top, alone or in tuples."""
    module = importlib.import_module(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    for value in vars(module).values():
        for each in value if isinstance(value, tuple) else (value,):
            for found in each if isinstance(each, tuple) else (each,):
                if isinstance(found, re.Pattern):
                    yield found


def calls(tree: ast.AST) -> Iterator[tuple[str, str, ast.Call]]:
    """The calls of methods: the name of the method, and of what it is called on when that is a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            on = node.func.value
            yield node.func.attr, on.id if isinstance(on, ast.Name) else "", node


def written(tree: ast.AST) -> Iterator[re.Pattern]:
    """The patterns that are looked for without being compiled before."""
    for name, on, call in calls(tree):
        if on == "re" and name in INSIDE:
            assert isinstance(call.args[0], ast.Constant), "the pattern is made of something"
            yield re.compile(call.args[0].value)


def looks_inside(tree: ast.AST) -> bool:
    """Whether a module looks for a pattern in a part of a text; patterns are constants."""
    return any(name in INSIDE and (on == "re" or on.isupper()) for name, on, _ in calls(tree))


def compiling(tree: ast.AST) -> Iterator[str]:
    """Which functions of a module compile patterns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (node.name for name, on, _ in calls(node) if (on, name) == ("re", "compile"))


OURS = {path: ast.parse(source) for path, source in sources(*PACKAGES) if "import re\n" in source}
LOOKING = [path for path, tree in OURS.items() if looks_inside(tree)]


def test_expressions_come_from_one_library():
    others = {"regex", "fnmatch", "sre_compile"}
    assert not [path for path, source in sources(*PACKAGES) for word in others if f"import {word}" in source]


@pytest.mark.parametrize("path", OURS)
def test_no_text_makes_a_pattern_slow(path):
    assert {each.pattern: why for each in patterns(path) if (why := takes_long(each))} == {}


@pytest.mark.parametrize("path", LOOKING)
def test_no_text_makes_the_search_for_a_pattern_slow(path):
    slow = [each.pattern for each in (*patterns(path), *written(OURS[path])) if takes_long(each, anywhere=True)]
    assert bool(slow) == (path in NOT_SLOW), slow


def test_patterns_are_compiled_where_this_test_finds_them():
    compiling_later = {path: names for path, tree in OURS.items() if (names := list(compiling(tree)))}
    assert compiling_later == {"webhook/validation/framework/schema.py": ["_compiled"]}, "see the next test"
    assert set(LOOKING) >= NOT_SLOW.keys()
    assert [found for path in OURS for found in patterns(path)]


@pytest.mark.parametrize("kind", [KINDS[group_kind] for group_kind in MODELS], ids=str)
def test_no_text_makes_a_pattern_of_a_status_slow(kind):
    """The embedded hub compiles the patterns of our definitions when a status is written."""
    found = set(schema_patterns(object_schema(kind)["properties"].get("status")))
    assert {each: why for each in found if (why := takes_long(re.compile(each, re.ASCII)))} == {}
    assert all(each.startswith("^") for each in found), "none is looked for at every place of a text"


def schema_patterns(schema: object) -> Iterator[str]:
    """Yield the patterns of a schema and of those inside it."""
    if isinstance(schema, dict):
        if isinstance(pattern := schema.get("pattern"), str):
            yield pattern
        for member in schema.values():
            yield from schema_patterns(member)


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(r"(a*)*b", id="star-of-star"),
        pytest.param(r"(?:a|a)+b", id="two-equal-branches"),
        pytest.param(r"(?:a[ab]|[ab]b)+c", id="two-branches-that-share-letters"),
        pytest.param(r"(?:a|ab|b)*c", id="two-ways-around"),
        pytest.param(r"a*a*b", id="two-stars-in-a-row"),
        pytest.param(r"[a-z]+x?[a-f]*!", id="stars-that-share-letters"),
        pytest.param(r"(.+)\s(.+)\s(.+)\s(.+)\s(.+)$", id="the-schedule-of-node-pools"),
        pytest.param(r"(?:\d{1,9})*", id="counted-in-a-star"),
    ],
)
def test_what_is_slow_is_seen(pattern):
    assert takes_long(re.compile(pattern))


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", id="names"),
        pytest.param(r"(?:[0-9]+[smh])+", id="durations"),
        pytest.param(r'"[^"\\]*(?:\\.[^"\\]*)*"', id="strings"),
        pytest.param(r"(?:100|[0-9]{1,2})%|[0-9]+", id="shares"),
    ],
)
def test_what_is_not_is_let_pass(pattern):
    assert takes_long(re.compile(pattern, re.ASCII)) == ""


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(r"[0-9]+x", id="digits"),
        pytest.param(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', id="strings-that-do-not-end"),
    ],
)
def test_what_is_slow_only_when_it_is_looked_for_everywhere_is_seen(pattern):
    assert takes_long(re.compile(pattern)) == ""
    assert takes_long(re.compile(pattern), anywhere=True)


@pytest.mark.parametrize("source", ["re.search('a', b)", "_A = re.compile('a')\ndef f(b):\n    _A.match(b)"])
def test_looking_inside_is_seen(source):
    assert looks_inside(ast.parse(source))


def test_compiling_in_a_function_is_seen():
    assert list(compiling(ast.parse("def f(b):\n    return re.compile(b)"))) == ["f"]
