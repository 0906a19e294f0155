"""What import contracts cannot say of the engine and the admission rules, of clients and of the environment."""

import ast
import tomllib
from collections.abc import Iterator

import pytest

from tests.contracts.sources import PACKAGES, ROOT, sources

PURE = ("scorer", "webhook/validation", "webhook/defaulting")
OURS = ("scorer", "webhook")
LIBRARIES = frozenset(
    {"ast", "base64", "bisect", "calendar", "collections", "contextlib", "copy", "croniter", "csv", "dataclasses"}
    | {"datetime", "decimal", "typing_extensions"}
    | {
        "difflib",
        "enum",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "hmac",
        "importlib",
        "inspect",
        "itertools",
        "math",
    }
    | {"numpy", "operator", "orjson", "pydantic", "pydantic_core", "re", "types", "typing", "zoneinfo"}
)
"""What the engine and the rules may import: nothing in it does I/O, has a clock or throws dice, but for `CLOCKS`.

croniter has both, for schedules without a start and for its ``R``; it is given a start, and only what our parser wrote.
importlib imports our own models when they are needed, and inspect reads their source, which says what their members
mean: both are as constant as they are.
"""
CLOCKS = frozenset({"now", "utcnow", "today"})
ENVIRONMENT = frozenset({"environ", "environb", "getenv"})
READS_THE_ENVIRONMENT = ("webhook/cli", "webhook/settings", "webhook/answers/time_zones.py")
"""Commands hand it to the settings; the time zone of the machine is named there."""


def impure(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name.partition(".")[0] not in LIBRARIES)
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] not in (*LIBRARIES, *OURS):
                yield module
            case ast.Call(func=ast.Attribute(attr=name)) if name in CLOCKS:
                yield f"{name}()"


def reads_environment(source: str) -> bool:
    return any(name in source for name in ENVIRONMENT) and any(
        isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT for node in ast.walk(ast.parse(source))
    )


def test_the_engine_and_the_rules_import_nothing_that_acts():
    assert {path: words for path, source in sources(*PURE) if (words := list(impure(source)))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess",
        "import urllib.request",
        "from threading import Thread",
        "def f():\n    from uuid import uuid4",
        "from datetime import UTC, datetime\ndatetime.now(UTC)",
        "from datetime import date\ndate.today()",
    ],
)
def test_what_acts_is_seen(source):
    assert list(impure(source))


def test_the_environment_is_read_where_settings_are():
    reading = {path for path, source in sources(*PACKAGES) if reads_environment(source)}
    assert {name for name in reading if not name.startswith(READS_THE_ENVIRONMENT)} == set()
    assert reading


def test_the_contract_about_the_client_names_every_room_but_one():
    """Import contracts take no exceptions from a package."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    contract = next(each for each in contracts if each.get("forbidden_modules") == ["kubernetes_asyncio"])
    rooms = {f"webhook.{path.parent.name}" for path in (ROOT / "webhook").glob("*/__init__.py")}
    assert set(contract["source_modules"]) == {*rooms, "scorer", "certs"} - {"webhook.kube"}
